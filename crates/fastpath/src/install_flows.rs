//! The usual `PACKET_IN` and the usual answer, with all places known to the compiler.

use core::mem::offset_of;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use sluice_openflow::{Encoder, EthHeader, MacAddr, NO_BUFFER, PacketIns, PortNo, Version};

use crate::Stencil;

/// Answers the usual frames that come next with the rule of `stencil`, each with the output that `route` finds in
/// `table` for its addresses and ingress port. `look` sees the addresses `AHEAD` frames earlier, a power of two or
/// none, and what it finds is handed to `route`. For switches whose ports have numbers of 16 bits; does nothing for
/// others.
///
/// Usual is an untagged frame from a real port that the switch keeps. Ends at the first that is not, and at the
/// first for which `route` has no answer: that one is [`next`](Iterator::next). A rule that does not match ingress
/// port, both addresses and VLAN, in this order, answers none.
///
/// # Cost
/// Half of what reading and stamping one by one costs: all places are known to the compiler. It is two functions
/// because a `route` that is called in one place becomes part of the loop.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_flows_v1_0<const AHEAD: usize, T, K: Copy + Default>(
    frames: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    stencil: &Stencil,
    table: &mut T,
    look: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    if let Some(rule) = stencil.ruled::<Rule10>(frames.version()) {
        stamp_each::<AHEAD, Usual10, _, _, _>(frames, out, rule, table, look, route);
    }
}

/// The same for switches whose ports have numbers of 32 bits.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_flows_v1_3<const AHEAD: usize, T, K: Copy + Default>(
    frames: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    stencil: &Stencil,
    table: &mut T,
    look: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    if let Some(rule) = stencil.ruled::<Rule13>(frames.version()) {
        stamp_each::<AHEAD, Usual13, _, _, _>(frames, out, rule, table, look, route);
    }
}

#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
fn stamp_each<'a, const AHEAD: usize, P: Usual + 'a, R: Ruled, T, K: Copy + Default>(
    frames: &mut PacketIns<'a>,
    out: &mut Encoder<'_>,
    rule: &R,
    table: &mut T,
    look: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    // What was found for those between `rest` and `scout`.
    let mut ring = [K::default(); AHEAD];
    let (mut rest, mut scout, mut lead) = (frames.rest(), frames.rest(), 0);
    let first = out.next_xid();
    let mut xid = first;
    loop {
        while lead < AHEAD {
            let Some((p, after)) = P::split::<true>(scout) else { break };
            if let Some(place) = ring.get_mut(place::<AHEAD>(xid, lead)) {
                *place = look(table, p.eth());
            }
            (scout, lead) = (after, lead + 1);
        }
        let next = if AHEAD == 0 {
            P::split::<true>(rest)
        } else if lead > 0 {
            P::cut(rest)
        } else {
            None
        };
        let Some((p, after)) = next else { break };
        let Some(in_port) = p.in_port() else { break };
        let found = if AHEAD == 0 {
            look(table, p.eth())
        } else {
            ring.get(place::<AHEAD>(xid, 0)).copied().unwrap_or_default()
        };
        let Some(out_port) = route(table, found, p.eth(), in_port) else { break };
        let ports = [in_port, out_port];
        if rule.stamp(out, xid, p.buffer_id(), p.eth(), ports).is_none() {
            break;
        }
        (rest, xid) = (after, xid.wrapping_add(1));
        lead -= usize::from(AHEAD > 0);
    }
    frames.skip_to(rest, xid.wrapping_sub(first).into());
    out.set_next_xid(xid);
}

/// Where in a ring of `AHEAD` is what was found for the frame that gets `xid`, `lead` frames later.
#[inline]
const fn place<const AHEAD: usize>(xid: u32, lead: usize) -> usize {
    const { assert!(AHEAD == 0 || AHEAD.is_power_of_two()) };
    (xid as usize).wrapping_add(lead) & AHEAD.wrapping_sub(1)
}

/// A `PACKET_IN` of an untagged frame, up to the addresses, as it lies.
pub(crate) trait Usual: Sized + FromBytes + Immutable + KnownLayout + Unaligned {
    /// Version and type.
    const KIND: [u8; 2];

    /// Where the frame begins.
    const FRAME_AT: usize = size_of::<Self>() - size_of::<EthHeader>();

    /// Cuts the first message off `bytes`, `None` if it is not whole or not usual. With `KEPT`, usual is only one that
    /// the switch keeps.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn split<const KEPT: bool>(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (p, _) = Self::ref_from_prefix(bytes).ok()?;
        let (kind, len) = p.head();
        let len = usize::from(len.get());
        let is_usual = kind == Self::KIND
            && len >= size_of::<Self>()
            && (!KEPT || p.is_kept())
            && p.has_usual_match()
            && !p.eth().is_tagged();
        if is_usual { Some((p, bytes.get(len..)?)) } else { None }
    }

    /// Cuts off the first message, which is whole and usual.
    #[inline]
    fn cut(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (p, _) = Self::ref_from_prefix(bytes).ok()?;
        Some((p, bytes.get(usize::from(p.head().1.get())..)?))
    }

    fn head(&self) -> ([u8; 2], U16);

    fn buffer_id(&self) -> [u8; 4];

    /// Length of the frame when it came in.
    fn total_len(&self) -> U16;

    /// Whether the switch keeps the frame.
    #[inline]
    fn is_kept(&self) -> bool {
        self.buffer_id() != NO_BUFFER.to_be_bytes()
    }

    fn has_usual_match(&self) -> bool;

    /// The ingress port if it is no reserved one.
    fn in_port(&self) -> Option<PortNo>;

    fn eth(&self) -> &EthHeader;
}

/// The usual `PACKET_IN` of 1.0.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Usual10 {
    kind: [u8; 2],
    len: U16,
    xid: [u8; 4],
    buffer_id: [u8; 4],
    total_len: U16,
    in_port: U16,
    reason: u8,
    pad: u8,
    eth: EthHeader,
}

impl Usual for Usual10 {
    const KIND: [u8; 2] = [1, 10];

    #[inline]
    fn head(&self) -> ([u8; 2], U16) {
        (self.kind, self.len)
    }

    #[inline]
    fn buffer_id(&self) -> [u8; 4] {
        self.buffer_id
    }

    #[inline]
    fn total_len(&self) -> U16 {
        self.total_len
    }

    #[inline]
    fn has_usual_match(&self) -> bool {
        true
    }

    #[inline]
    fn in_port(&self) -> Option<PortNo> {
        Some(PortNo(self.in_port.get().into())).filter(|port| port.0 < 0xff00)
    }

    #[inline]
    fn eth(&self) -> &EthHeader {
        &self.eth
    }
}

/// The usual `PACKET_IN` of 1.3: of the match, the ingress port alone.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Usual13 {
    kind: [u8; 2],
    len: U16,
    xid: [u8; 4],
    buffer_id: [u8; 4],
    total_len: U16,
    reason: u8,
    table_id: u8,
    cookie: [u8; 8],
    match_head: [u8; 8],
    in_port: U32,
    pad: [u8; 6],
    eth: EthHeader,
}

impl Usual for Usual13 {
    const KIND: [u8; 2] = [4, 10];

    #[inline]
    fn head(&self) -> ([u8; 2], U16) {
        (self.kind, self.len)
    }

    #[inline]
    fn buffer_id(&self) -> [u8; 4] {
        self.buffer_id
    }

    #[inline]
    fn total_len(&self) -> U16 {
        self.total_len
    }

    #[inline]
    fn has_usual_match(&self) -> bool {
        // Type and length of the match; class, field and length of its only field.
        self.match_head == [0, 1, 0, 12, 0x80, 0, 0, 4]
    }

    #[inline]
    fn in_port(&self) -> Option<PortNo> {
        Some(PortNo(self.in_port.get()))
    }

    #[inline]
    fn eth(&self) -> &EthHeader {
        &self.eth
    }
}

/// A rule that matches ingress port, source, destination and VLAN and has one action, which is an output: a layout.
pub(crate) trait Ruled:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it lies there.
    type Port;

    const VERSION: Version;

    /// Where buffer, ingress port, source, destination, VLAN and output are.
    const PLACES: [usize; 6];

    /// `port`, if the version has a number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Fills in values for an untagged frame.
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [Self::Port; 2]);

    /// Writes a copy with these values for an untagged frame; `None` and nothing if the version has no number for one
    /// of the ports.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn stamp(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        buffer_id: [u8; 4],
        eth: &EthHeader,
        [in_port, out_port]: [PortNo; 2],
    ) -> Option<()> {
        let ports = [Self::port(in_port)?, Self::port(out_port)?];
        out.append_copy(self)?.fill(xid, buffer_id, eth, ports);
        Some(())
    }
}

/// Such a rule in 1.0. OpenFlow 1.0.0 §5.3.3.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Rule10 {
    head: [u8; 4],
    xid: U32,
    wildcards: U32,
    in_port: U16,
    src: MacAddr,
    dst: MacAddr,
    vlan: U16,
    rest_of_match: [u8; 20],
    fixed: [u8; 16],
    buffer_id: [u8; 4],
    flags: [u8; 4],
    action_head: [u8; 4],
    out_port: U16,
    max_len: U16,
}

impl Rule10 {
    /// Fills in values for an untagged frame, whatever its ingress port.
    #[inline]
    pub(crate) fn fill_pair(
        &mut self,
        xid: u32,
        buffer_id: [u8; 4],
        [dst, src]: [MacAddr; 2],
        port: U16,
    ) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.dst, self.src) = (dst, src);
        self.vlan = U16::MAX_VALUE;
        self.out_port = port;
    }
}

impl Ruled for Rule10 {
    type Port = U16;

    const VERSION: Version = Version::V1_0;

    const PLACES: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        offset_of!(Self, src),
        offset_of!(Self, dst),
        offset_of!(Self, vlan),
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U16> {
        port.to_u16().ok().map(U16::new)
    }

    #[inline]
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [U16; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (eth.src, eth.dst);
        self.vlan = U16::MAX_VALUE;
        [self.in_port, self.out_port] = ports;
    }
}

/// Such a rule in 1.3. §7.3.4.1.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Rule13 {
    head: [u8; 4],
    xid: U32,
    fixed: [u8; 24],
    buffer_id: [u8; 4],
    flags: [u8; 12],
    match_head: [u8; 4],
    in_port_head: [u8; 4],
    in_port: U32,
    src_head: [u8; 4],
    src: MacAddr,
    dst_head: [u8; 4],
    dst: MacAddr,
    vlan_head: [u8; 4],
    vlan: U16,
    match_pad: [u8; 2],
    instruction_head: [u8; 8],
    action_head: [u8; 4],
    out_port: U32,
    max_len: [u8; 8],
}

impl Ruled for Rule13 {
    type Port = U32;

    const VERSION: Version = Version::V1_3;

    const PLACES: [usize; 6] = [
        offset_of!(Self, buffer_id),
        offset_of!(Self, in_port),
        offset_of!(Self, src),
        offset_of!(Self, dst),
        offset_of!(Self, vlan),
        offset_of!(Self, out_port),
    ];

    #[inline]
    fn port(port: PortNo) -> Option<U32> {
        Some(U32::new(port.0))
    }

    #[inline]
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], eth: &EthHeader, ports: [U32; 2]) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.src, self.dst) = (eth.src, eth.dst);
        self.vlan = U16::ZERO;
        [self.in_port, self.out_port] = ports;
    }
}

const _: () = assert!(size_of::<Rule10>() == 80 && size_of::<Rule13>() == 112);

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use sluice_openflow::{Action, Field, FlowMod, Instruction, PacketIn, PacketInReason};

    const FRAME: [u8; 15] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 69];

    const USUAL: PacketIn<'_> = PacketIn {
        buffer_id: Some(77),
        in_port: PortNo(3),
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame: &FRAME,
    };

    /// The rule of a bridge, as it is written anew.
    fn say(
        out: &mut Encoder<'_>,
        draw: impl FnOnce(&mut Encoder<'_>, &FlowMod),
        [a, b]: [PortNo; 2],
    ) {
        let (dst, src) = (MacAddr::from_u64(0x0200_0000_0009), MacAddr::from_u64(0x0200_0000_0008));
        let (dst, src) = (Field::eth_dst(dst), Field::eth_src(src));
        let fields = [Field::in_port(a), src, dst, Field::untagged()];
        let actions = [Action::output(b)];
        let f = FlowMod {
            cookie: 9,
            buffer_id: Some(77),
            matching: fields.into(),
            instructions: vec![Instruction::apply(actions)],
            ..FlowMod::default()
        };
        draw(out, &f);
    }

    /// What is written for a burst, and how much of it is left. Frames go from port 3 to `port`.
    fn stamped<const AHEAD: usize>(
        version: Version,
        burst: &[PacketIn<'_>],
        port: Option<PortNo>,
    ) -> (Vec<u8>, usize) {
        let (mut rx, mut tx, mut xid) = (vec![], vec![], 5);
        for p in burst {
            p.emit(&mut Encoder::new(&mut rx, version, &mut xid)).unwrap();
        }
        let (mut out, mut stencil) = (Encoder::new(&mut tx, version, &mut xid), None);
        say(&mut out, |out, f| stencil = Stencil::flow_mod(out, f).ok(), [PortNo(1); 2]);
        let (mut frames, stencil) = (PacketIns::new(version, &rx), stencil.unwrap());
        let look = |looked: &mut u64, _: &EthHeader| {
            *looked += 1;
            *looked
        };
        let routed = Cell::new(0);
        let route = |_: &mut u64, found, eth: &EthHeader, in_port| {
            assert_eq!((eth.dst.0[5], eth.src.0[5], in_port), (9, 8, PortNo(3)));
            routed.set(routed.get() + 1);
            assert_eq!(found, routed.get(), "what was found for this one");
            port
        };
        let mut looked = 0;
        install_flows_v1_0::<AHEAD, _, _>(
            &mut frames,
            &mut out,
            &stencil,
            &mut looked,
            look,
            route,
        );
        install_flows_v1_3::<AHEAD, _, _>(
            &mut frames,
            &mut out,
            &stencil,
            &mut looked,
            look,
            route,
        );
        let taken = frames.taken();
        assert!(looked >= routed.get() && looked <= taken + AHEAD.max(1) as u64);
        assert_eq!(out.next_xid(), 5 + u32::try_from(taken).unwrap());
        let left = frames.count();
        assert_eq!(taken + left as u64, burst.len() as u64);
        (tx, left)
    }

    #[test]
    fn the_usual_get_the_rule_that_is_written_anew() {
        for version in [Version::V1_0, Version::V1_3] {
            let (mut anew, mut xid) = (vec![], 5);
            let mut out = Encoder::new(&mut anew, version, &mut xid);
            for _ in 0..3 {
                say(&mut out, |out, f| _ = out.flow_mod(f).unwrap(), [PortNo(3), PortNo(7)]);
            }
            let got = stamped::<0>(version, &[USUAL; 3], Some(PortNo(7)));
            assert_eq!(got, (anew.clone(), 0), "{version}");
            let got = stamped::<2>(version, &[USUAL; 3], Some(PortNo(7)));
            assert_eq!(got, (anew, 0), "{version}");
        }
    }

    #[test]
    fn what_is_not_usual_is_left_with_all_that_follows() {
        not_usual::<0>();
        not_usual::<2>();
    }

    fn not_usual<const AHEAD: usize>() {
        let tagged = [&FRAME[..12], &[0x81, 0, 0, 5, 8, 0]].concat();
        let unusual = [
            PacketIn { buffer_id: None, ..USUAL },
            PacketIn { frame: &tagged, ..USUAL },
            PacketIn { frame: &FRAME[..13], ..USUAL },
        ];
        for version in [Version::V1_0, Version::V1_3] {
            for p in unusual {
                let (tx, left) = stamped::<AHEAD>(version, &[USUAL, p, USUAL], Some(PortNo(7)));
                assert_eq!(left, 2, "{version} {p:?}");
                assert_eq!(tx.len(), if version == Version::V1_0 { 80 } else { 112 });
            }
            assert_eq!(stamped::<AHEAD>(version, &[USUAL], None), (vec![], 1), "no route");
        }
        let local = PacketIn { in_port: PortNo::LOCAL, ..USUAL };
        assert_eq!(stamped::<AHEAD>(Version::V1_0, &[local], Some(PortNo(7))), (vec![], 1));
        assert_eq!(stamped::<AHEAD>(Version::V1_0, &[USUAL], Some(PortNo(0x1_0000))), (vec![], 1));
        assert_eq!(stamped::<AHEAD>(Version::V1_4, &[USUAL], Some(PortNo(7))), (vec![], 1));
    }
}
