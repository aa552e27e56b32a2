//! The frames by which links are found. IEEE 802.1AB.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use siphasher::sip128::{Hasher128, SipHasher24};
use sluice_openflow::{DatapathId, EtherType, Ethernet, MacAddr, PortNo};
use sluice_sdk::view::SwitchPort;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The group address that no bridge forwards. IEEE 802.1AB §7.1.
const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// What probes for networks of others carry.
pub(super) const FAR: EtherType = EtherType::EXPERIMENT_2;

/// Who defines our own TLV: a locally administered identifier, so nobody's. IEEE 802 §8.2.
const OUI: [u8; 3] = [0x02, b's', b'l'];

/// Our own TLV among ours.
const SUBTYPE: u8 = 1;

/// How far a probe gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the next bridge, which keeps it: LLDP.
    Near,
    /// To all of a network: a broadcast.
    Far,
}

/// What a probe says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// Where it left.
    pub(super) from: SwitchPort,
    /// When; see [`Clock`].
    pub(super) sent_us: u64,
    /// How long the switch that it left takes to answer, microseconds; 0 if that is not known.
    pub(super) rtt_us: u32,
    /// How long it is until the next one, milliseconds.
    pub(super) interval_ms: u32,
    /// The process that sent it.
    pub(super) process: u32,
}

/// Why a frame is no probe of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another device speaks LLDP.
    Foreign,
    /// It is neither LLDP nor ours.
    Malformed,
    /// It says that it is ours, and is not.
    Forged,
}

/// What digests are made with: 128 bits that nobody else knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Drawn once, so that all workers of a process have the same.
static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Secret {
    /// Reads 32 hex digits; `None` if it is anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok()?;
        is_hex.then_some(Self(number.to_be_bytes()))
    }

    /// That of this process, which is another after each start.
    pub(super) fn of_process() -> Self {
        let halves = [PROCESS.hash_one(0), PROCESS.hash_one(1)].map(u64::to_be_bytes);
        let mut key = [0; 16];
        key.iter_mut().zip(halves.as_flattened()).for_each(|(place, &byte)| *place = byte);
        Self(key)
    }
}

/// A number for this process that no other has, as far as chance allows.
pub(super) fn process() -> u32 {
    let [a, b, c, d, ..] = PROCESS.hash_one(2).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// A moment, and what the time of day was then: so that processes with one secret tell the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The moment.
    pub at: Instant,
    /// How long it was since 1970 then.
    pub since_1970: Duration,
}

impl Clock {
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
pub(super) struct Header {
    dst: MacAddr,
    src: MacAddr,
    ethertype: U16,
}

/// What a digest is made of.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Said {
    switch: U64,
    port_no: U32,
    sent_us: U64,
    rtt_us: U32,
    interval_ms: U32,
    process: U32,
}

/// What follows the Ethernet header: TLVs of type and length, 7 and 9 bits. IEEE 802.1AB §8.4.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Body {
    chassis_head: [u8; 3],
    chassis: [u8; 16],
    port_head: [u8; 3],
    port: [u8; 8],
    ttl_head: [u8; 2],
    ttl_s: U16,
    own_head: [u8; 6],
    said: Said,
    digest: [u8; 16],
    end: [u8; 2],
}

/// Chassis id and port id, both assigned by us, in hex digits. IEEE 802.1AB §8.5.2, §8.5.3.
const CHASSIS_HEAD: [u8; 3] = [1 << 1, 17, 7];
const PORT_HEAD: [u8; 3] = [2 << 1, 9, 7];
const TTL_HEAD: [u8; 2] = [3 << 1, 2];
/// Organisationally specific. IEEE 802.1AB §8.6.
const OWN: u8 = 127;
const OWN_HEAD: [u8; 6] = [OWN << 1, 52, OUI[0], OUI[1], OUI[2], SUBTYPE];

const _: () = assert!(size_of::<Said>() + 16 + 4 == 52 && size_of::<Body>() == 90);

/// The probe of a switch, in which only a few bytes change.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Drawing {
    header: Header,
    body: Body,
}

impl Drawing {
    /// That of `switch`; other devices may believe it for `ttl`.
    pub(super) fn new(switch: DatapathId, ttl: Duration) -> Self {
        let said = Said {
            switch: switch.0.into(),
            port_no: U32::ZERO,
            sent_us: U64::ZERO,
            rtt_us: U32::ZERO,
            interval_ms: U32::ZERO,
            process: process().into(),
        };
        let header = Header { dst: NEAREST_BRIDGE, src: MacAddr::default(), ethertype: U16::ZERO };
        let body = Body {
            chassis_head: CHASSIS_HEAD,
            chassis: hex(switch.0),
            port_head: PORT_HEAD,
            port: [0; 8],
            ttl_head: TTL_HEAD,
            ttl_s: u16::try_from(ttl.as_secs() + 1).unwrap_or(u16::MAX).into(),
            own_head: OWN_HEAD,
            said,
            digest: [0; 16],
            end: [0; 2],
        };
        Self { header, body }
    }

    /// The frame that leaves at `port_no`, which has the address `src`.
    pub(super) fn fill(
        &mut self,
        way: Way,
        (port_no, src): (PortNo, MacAddr),
        (sent_us, rtt_us, interval_ms): (u64, u32, u32),
        secret: &Secret,
    ) -> &[u8] {
        let (dst, ethertype) = match way {
            Way::Near => (NEAREST_BRIDGE, EtherType::LLDP),
            Way::Far => (MacAddr::BROADCAST, FAR),
        };
        self.header = Header { dst, src, ethertype: ethertype.0.into() };
        self.body.port = hex(port_no.0.into());
        let said = &mut self.body.said;
        said.port_no = port_no.0.into();
        (said.sent_us, said.rtt_us) = (sent_us.into(), rtt_us.into());
        said.interval_ms = interval_ms.into();
        self.body.digest = digest(secret, way, said);
        self.as_bytes()
    }
}

/// How a frame would have come here as a probe; `None` if it is none, whoever's.
pub(super) fn way(eth: &Ethernet<'_>) -> Option<Way> {
    match eth.ethertype {
        EtherType::LLDP => Some(Way::Near),
        FAR => Some(Way::Far),
        _ => None,
    }
}

/// Reads a probe that came in `way`.
///
/// # Errors
/// Why it is none of ours.
pub(super) fn read(
    frame: &[u8],
    eth: &Ethernet<'_>,
    way: Way,
    secret: &Secret,
) -> Result<Probe, Refused> {
    let at = size_of::<Header>() + if eth.tagged { 4 } else { 0 };
    let bytes = frame.get(at..).unwrap_or_default();
    let other = || if way == Way::Near { other(bytes) } else { Refused::Malformed };
    let Ok((body, _)) = Body::ref_from_prefix(bytes) else { return Err(other()) };
    let heads = (body.chassis_head, body.port_head, body.ttl_head, body.own_head, body.end);
    if heads != (CHASSIS_HEAD, PORT_HEAD, TTL_HEAD, OWN_HEAD, [0; 2]) {
        return Err(other());
    }
    let said = &body.said;
    if digest(secret, way, said) != body.digest {
        return Err(Refused::Forged);
    }
    Ok(Probe {
        from: SwitchPort::new(DatapathId(said.switch.get()), PortNo(said.port_no.get())),
        sent_us: said.sent_us.get(),
        rtt_us: said.rtt_us.get(),
        interval_ms: said.interval_ms.get(),
        process: said.process.get(),
    })
}

/// What LLDP is that has not the shape of ours.
fn other(bytes: &[u8]) -> Refused {
    let mut rest = bytes;
    for n in 0.. {
        let Some((&[kind, len], after)) = rest.split_first_chunk() else { break };
        let len = usize::from(kind & 1) << 8 | usize::from(len);
        let (kind, Some((value, after))) = (kind >> 1, after.split_at_checked(len)) else { break };
        // The first three are mandatory, in this order. IEEE 802.1AB §8.2.
        let is_in_order = if n < 3 { kind == n + 1 } else { !(1..=3).contains(&kind) };
        let is_ours = kind == OWN && value.starts_with(&OUI);
        match kind {
            0 if n >= 3 && value.is_empty() => return Refused::Foreign,
            _ if !is_in_order || is_ours => break,
            // More than a frame can hold: each has two bytes at least, and 1 500 are in a frame.
            _ if n == u8::MAX => break,
            _ => rest = after,
        }
    }
    Refused::Malformed
}

fn digest(secret: &Secret, way: Way, said: &Said) -> [u8; 16] {
    let mut bytes = [0; 1 + size_of::<Said>()];
    bytes[0] = match way {
        Way::Near => 1,
        Way::Far => 2,
    };
    bytes.iter_mut().skip(1).zip(said.as_bytes()).for_each(|(place, &byte)| *place = byte);
    let mut hasher = SipHasher24::new_with_key(&secret.0);
    std::hash::Hasher::write(&mut hasher, &bytes);
    hasher.finish128().as_bytes()
}

/// The last `N` hex digits of a number.
fn hex<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for place in digits.iter_mut().rev() {
        // Less than 16.
        let nibble = number.to_le_bytes()[0] & 0xf;
        *place = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        number >>= 4;
    }
    digits
}
