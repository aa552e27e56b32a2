//! Probes: the frames that discover links. IEEE 802.1AB.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use siphasher::sip128::{Hasher128, SipHasher24};
use sluice_base::hash::derive_secret;
use sluice_openflow::{DatapathId, EtherType, Ethernet, MacAddr, PortNo};
use sluice_sdk::view::SwitchPort;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "Nearest bridge" group address, which no bridge forwards. IEEE 802.1AB §7.1.
const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// `EtherType` of broadcast probes.
pub(super) const BROADCAST_PROBE: EtherType = EtherType::EXPERIMENT_2;

/// Organizational identifier of our TLV. It is locally administered, so no organization owns it. IEEE 802 §8.2.
const OUI: [u8; 3] = [0x02, b's', b'l'];

/// Subtype of our TLV.
const SUBTYPE: u8 = 1;

/// How far a probe travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeKind {
    /// To the device at the other end of the cable: LLDP, which bridges do not forward.
    Lldp,
    /// Through an unmanaged segment: a broadcast.
    Broadcast,
}

impl ProbeKind {
    /// The kind of probe that a frame may be; `None` if it is neither LLDP nor a broadcast probe.
    pub(super) fn of(eth: &Ethernet<'_>) -> Option<Self> {
        match eth.ethertype {
            EtherType::LLDP => Some(Self::Lldp),
            BROADCAST_PROBE => Some(Self::Broadcast),
            _ => None,
        }
    }
}

/// The content of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// The port that it was sent out of.
    pub(super) from: SwitchPort,
    /// Time of sending, in microseconds of [`WallClock`].
    pub(super) sent_us: u64,
    /// Control round-trip time of the switch that it was sent by, in microseconds; 0 if unknown.
    pub(super) rtt_us: u32,
    /// Time until the next probe, in milliseconds.
    pub(super) interval_ms: u32,
    /// How long its switch has been connected, in milliseconds.
    pub(super) connected_ms: u32,
    /// How long its port has been an edge port, in milliseconds; 0 if it is none.
    pub(super) edge_ms: u32,
}

/// Why a frame is not a probe of this network's controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeError {
    /// Valid LLDP of another device.
    Foreign,
    /// Neither valid LLDP nor a probe.
    Malformed,
    /// Has the form of a probe, but a wrong signature.
    Forged,
}

/// The key that signs probes: 128 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A key that is random if the [seed](sluice_base::hash) of this process is, the same for all its workers.
static PROCESS_SECRET: LazyLock<Secret> = LazyLock::new(|| {
    let mut key = [0; 16];
    let halves = [0, 1].map(|n| derive_secret(("key of probes", n)).to_be_bytes());
    key.iter_mut().zip(halves.as_flattened()).for_each(|(to, &byte)| *to = byte);
    Secret(key)
});

impl Secret {
    /// Parses 32 hex digits; `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok()?;
        is_hex.then_some(Self(number.to_be_bytes()))
    }

    /// The key of this process.
    pub(super) fn of_process() -> Self {
        *PROCESS_SECRET
    }
}

/// Relates monotonic time to the time of day, so that processes with a common secret agree on the age of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// A moment.
    pub at: Instant,
    /// The time since 1970 at that moment.
    pub since_1970: Duration,
}

impl WallClock {
    /// Microseconds since 1970 at `now`.
    pub(super) fn us(self, now: Instant) -> u64 {
        let later = now.saturating_duration_since(self.at);
        let earlier = self.at.saturating_duration_since(now);
        let since = (self.since_1970 + later).saturating_sub(earlier);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct EthernetHeader {
    dst: MacAddr,
    src: MacAddr,
    ethertype: U16,
}

/// The part of a probe that is signed.
#[derive(Debug, Default, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SignedFields {
    switch: U64,
    port_no: U32,
    sent_us: U64,
    rtt_us: U32,
    interval_ms: U32,
    connected_ms: U32,
    edge_ms: U32,
}

/// The payload of a probe: TLVs with 7 bits of type and 9 bits of length. IEEE 802.1AB §8.4.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ProbeBody {
    chassis_header: [u8; 3],
    chassis: [u8; 16],
    port_header: [u8; 3],
    port: [u8; 8],
    ttl_header: [u8; 2],
    ttl_s: U16,
    own_header: [u8; 6],
    signed: SignedFields,
    signature: [u8; 16],
    end: [u8; 2],
}

/// Chassis id and port id of the subtype "locally assigned", in hex digits. IEEE 802.1AB §8.5.2, §8.5.3.
const CHASSIS_HEADER: [u8; 3] = [1 << 1, 17, 7];
const PORT_HEADER: [u8; 3] = [2 << 1, 9, 7];
const TTL_HEADER: [u8; 2] = [3 << 1, 2];
/// Type of organizationally specific TLVs. IEEE 802.1AB §8.6.
const ORGANIZATIONAL: u8 = 127;
const OWN_HEADER: [u8; 6] = [ORGANIZATIONAL << 1, 56, OUI[0], OUI[1], OUI[2], SUBTYPE];

const _: () = assert!(size_of::<SignedFields>() + 16 + 4 == 56 && size_of::<ProbeBody>() == 94);

/// A probe of a switch, of which only a few bytes change from one to the next.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ProbeTemplate {
    header: EthernetHeader,
    body: ProbeBody,
}

impl ProbeTemplate {
    /// The template for `switch`; other LLDP devices keep the neighbor for `ttl`.
    pub(super) fn new(switch: DatapathId, ttl: Duration) -> Self {
        let header =
            EthernetHeader { dst: NEAREST_BRIDGE, src: MacAddr::default(), ethertype: U16::ZERO };
        let body = ProbeBody {
            chassis_header: CHASSIS_HEADER,
            chassis: hex_digits(switch.0),
            port_header: PORT_HEADER,
            port: [0; 8],
            ttl_header: TTL_HEADER,
            ttl_s: u16::try_from(ttl.as_secs() + 1).unwrap_or(u16::MAX).into(),
            own_header: OWN_HEADER,
            signed: SignedFields::default(),
            signature: [0; 16],
            end: [0; 2],
        };
        Self { header, body }
    }

    /// Encodes a probe of this switch, whose port has the address `src`.
    pub(super) fn encode(
        &mut self,
        kind: ProbeKind,
        src: MacAddr,
        probe: &Probe,
        secret: &Secret,
    ) -> &[u8] {
        let (dst, ethertype) = match kind {
            ProbeKind::Lldp => (NEAREST_BRIDGE, EtherType::LLDP),
            ProbeKind::Broadcast => (MacAddr::BROADCAST, BROADCAST_PROBE),
        };
        self.header = EthernetHeader { dst, src, ethertype: ethertype.0.into() };
        self.body.port = hex_digits(probe.from.port.0.into());
        self.body.signed = SignedFields {
            switch: probe.from.switch.0.into(),
            port_no: probe.from.port.0.into(),
            sent_us: probe.sent_us.into(),
            rtt_us: probe.rtt_us.into(),
            interval_ms: probe.interval_ms.into(),
            connected_ms: probe.connected_ms.into(),
            edge_ms: probe.edge_ms.into(),
        };
        self.body.signature = sign(secret, kind, &self.body.signed);
        self.as_bytes()
    }
}

/// Parses and verifies a probe.
///
/// # Errors
/// If the frame is not a probe of this network's controllers.
pub(super) fn parse(
    frame: &[u8],
    eth: &Ethernet<'_>,
    kind: ProbeKind,
    secret: &Secret,
) -> Result<Probe, ProbeError> {
    let offset = size_of::<EthernetHeader>() + if eth.tagged { 4 } else { 0 };
    let bytes = frame.get(offset..).unwrap_or_default();
    let not_ours = || match kind {
        ProbeKind::Lldp => classify_lldp(bytes),
        ProbeKind::Broadcast => ProbeError::Malformed,
    };
    let Ok((body, _)) = ProbeBody::ref_from_prefix(bytes) else { return Err(not_ours()) };
    let headers =
        (body.chassis_header, body.port_header, body.ttl_header, body.own_header, body.end);
    if headers != (CHASSIS_HEADER, PORT_HEADER, TTL_HEADER, OWN_HEADER, [0; 2]) {
        return Err(not_ours());
    }
    let signed = &body.signed;
    if sign(secret, kind, signed) != body.signature {
        return Err(ProbeError::Forged);
    }
    Ok(Probe {
        from: SwitchPort::new(DatapathId(signed.switch.get()), PortNo(signed.port_no.get())),
        sent_us: signed.sent_us.get(),
        rtt_us: signed.rtt_us.get(),
        interval_ms: signed.interval_ms.get(),
        connected_ms: signed.connected_ms.get(),
        edge_ms: signed.edge_ms.get(),
    })
}

/// Whether LLDP that is not a probe of ours is valid LLDP of another device, or malformed.
fn classify_lldp(bytes: &[u8]) -> ProbeError {
    let mut rest = bytes;
    for n in 0.. {
        let Some((&[kind, len], after)) = rest.split_first_chunk() else { break };
        let len = usize::from(kind & 1) << 8 | usize::from(len);
        let (kind, Some((value, after))) = (kind >> 1, after.split_at_checked(len)) else { break };
        // The first three TLVs are mandatory, in this order. IEEE 802.1AB §8.2.
        let is_in_order = if n < 3 { kind == n + 1 } else { !(1..=3).contains(&kind) };
        let is_ours = kind == ORGANIZATIONAL && value.starts_with(&OUI);
        match kind {
            0 if n >= 3 && value.is_empty() => return ProbeError::Foreign,
            _ if !is_in_order || is_ours => break,
            // More TLVs than a frame of 1500 bytes should have.
            _ if n == u8::MAX => break,
            _ => rest = after,
        }
    }
    ProbeError::Malformed
}

fn sign(secret: &Secret, kind: ProbeKind, signed: &SignedFields) -> [u8; 16] {
    let mut bytes = [0; 1 + size_of::<SignedFields>()];
    bytes[0] = match kind {
        ProbeKind::Lldp => 1,
        ProbeKind::Broadcast => 2,
    };
    bytes.iter_mut().skip(1).zip(signed.as_bytes()).for_each(|(to, &byte)| *to = byte);
    let mut hasher = SipHasher24::new_with_key(&secret.0);
    std::hash::Hasher::write(&mut hasher, &bytes);
    hasher.finish128().as_bytes()
}

/// The last `N` hex digits of a number.
fn hex_digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        let nibble = number.to_le_bytes()[0] & 0xf;
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        number >>= 4;
    }
    digits
}
