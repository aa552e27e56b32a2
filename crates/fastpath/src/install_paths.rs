//! The usual `PACKET_IN` between two hosts, answered with rules for both directions.

use core::mem::offset_of;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use sluice_openflow::{
    Action, EncodeError, Encoder, EthHeader, FlowMod, MacAddr, NO_BUFFER, PacketIns, PacketOut,
    PortNo, Version,
};

use crate::install_flows::{Rule10, Ruled, Usual, Usual10, Usual13};
use crate::template::{Fill, LEN_MAX, LEN_SHORT, Stencil};

/// Bytes of the checksum of a frame, which some switches count in `total_len` and none sends up. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// Bytes of a frame that fit a `PACKET_OUT` in every version.
const FRAME_MAX: usize = 60_000;

/// What becomes of a usual frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It goes out of this port, and so do those that follow, by a rule.
    Load(PortNo),
    /// It alone goes out of this port.
    Send(PortNo),
}

/// What is said of frames between two hosts of one switch, drawn once: rules for both directions or one, and the frame.
#[derive(Debug, Clone)]
pub struct Ways {
    rule: Stencil,
    frame: Stencil,
    /// Whether the answers have a rule, too: before that of the frame itself.
    both: bool,
}

impl Ways {
    /// Draws them for switches of `out`'s version. Of `rule`, buffer, addresses and the port of its only output are
    /// filled in.
    ///
    /// # Errors
    /// Names what the version cannot say.
    pub fn new(out: &Encoder<'_>, rule: &FlowMod, both: bool) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let in_port = PortNo(1);
        let frame = PacketOut { buffer_id: None, in_port, actions: &actions, frame: &[] };
        let frame = Stencil::packet_out(out, &frame)?;
        Ok(Self { rule: Stencil::flow_mod(out, rule)?, frame, both })
    }

    /// Draws `rule` in place of what was drawn before, in the same version.
    ///
    /// # Errors
    /// As [`new`](Self::new); the old drawing stays.
    pub fn redraw(&mut self, rule: &FlowMod, both: bool) -> Result<(), EncodeError> {
        self.rule.redraw(rule)?;
        self.both = both;
        Ok(())
    }
}

/// Answers the usual frames that come next, each as `course` says of its ingress port, its start and all of it. For
/// switches whose ports have numbers of 16 bits; does nothing for others.
///
/// Usual is an untagged frame from a real port that the switch keeps or that came up whole. Ends at the first that is
/// not, and at the first for which there is no course: that one is [`next`](Iterator::next). Rules that match anything
/// but destination, source and VLAN, in this order, answer none. Ports are those that the switch was heard to have.
///
/// # Cost
/// All places are known to the compiler. It is two functions because a `course` that is called in one place becomes
/// part of the loop.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_paths_v1_0<T>(
    frames: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    ways: &Ways,
    table: &mut T,
    course: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<Course>,
) {
    if let Some(rule) = ways.rule.paired::<PairRule10>(frames.version()) {
        load_each::<Usual10, _, _>(frames, out, (rule, ways), table, course);
    }
}

/// The same for switches whose ports have numbers of 32 bits.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_paths_v1_3<T>(
    frames: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    ways: &Ways,
    table: &mut T,
    course: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<Course>,
) {
    if let Some(rule) = ways.rule.paired::<PairRule13>(frames.version()) {
        load_each::<Usual13, _, _>(frames, out, (rule, ways), table, course);
    }
}

#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
fn load_each<'a, P: Usual + 'a, R: Paired, T>(
    frames: &mut PacketIns<'a>,
    out: &mut Encoder<'_>,
    (rule, ways): (&R, &Ways),
    table: &mut T,
    course: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<Course>,
) {
    let (mut rest, mut taken) = (frames.rest(), 0);
    let mut xid = out.next_xid();
    while let Some((p, after)) = P::split::<false>(rest) {
        let Some(in_port) = p.in_port() else { break };
        let msg = rest.len() - after.len();
        let Some(frame) = rest.get(P::FRAME_AT..msg) else { break };
        if !p.is_kept() && !fits(frame, p.total_len()) {
            break;
        }
        let Some(course) = course(table, in_port, p.eth(), frame) else { break };
        let (Course::Load(out_port) | Course::Send(out_port)) = course;
        let is_load = matches!(course, Course::Load(_));
        if is_load {
            let (values, ports) = ((p.buffer_id(), p.eth()), [in_port, out_port]);
            let loaded = if ways.both {
                rule.load_both(out, xid, values, ports)
            } else {
                rule.load(out, xid, values, ports)
            };
            let Some(next) = loaded else { break };
            xid = next;
        }
        if !(is_load && p.is_kept()) {
            out.set_next_xid(xid);
            let sent = send::<P>(p, out_port, frame, ways, out);
            xid = out.next_xid();
            if sent.is_none() {
                break;
            }
        }
        (rest, taken) = (after, taken + 1);
    }
    frames.skip_to(rest, taken);
    out.set_next_xid(xid);
}

/// Whether a frame is whole, and fits a `PACKET_OUT`.
#[inline]
fn fits(frame: &[u8], total_len: U16) -> bool {
    frame.len() + FCS_LEN >= usize::from(total_len.get()) && frame.len() <= FRAME_MAX
}

/// Sends a frame out of a port, out of its slot if it has one.
#[inline(never)]
fn send<P: Usual>(
    p: &P,
    out_port: PortNo,
    frame: &[u8],
    ways: &Ways,
    out: &mut Encoder<'_>,
) -> Option<()> {
    let buffer_id = Some(u32::from_be_bytes(p.buffer_id())).filter(|_| p.is_kept());
    let fill = Fill { buffer_id, in_port: p.in_port()?, eth: p.eth(), vlan: None, out_port };
    match buffer_id {
        Some(_) => ways.frame.encode(out, &fill).ok(),
        None => ways.frame.encode_with_frame(out, &fill, frame).ok(),
    }
    .map(drop)
}

/// A rule that matches destination, source and VLAN and has one action, which is an output: a layout.
pub(crate) trait Paired:
    Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A port number as it lies there.
    type Port: Copy;

    const VERSION: Version;

    /// Where buffer, ingress port, source, destination, VLAN and output are.
    const PLACES: [usize; 6];

    /// `port`, if the version has a number for it.
    fn port(port: PortNo) -> Option<Self::Port>;

    /// Fills in values for untagged frames from `src` to `dst`.
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: Self::Port);

    /// Writes the rule for a frame and returns the transaction id after its own; `None` and nothing if the version has no
    /// number for one of the ports.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn load(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        (buffer_id, eth): ([u8; 4], &EthHeader),
        [_, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let there = Self::port(out_port)?;
        out.append_copy(self)?.fill(xid, buffer_id, eth.dst, eth.src, there);
        Some(xid.wrapping_add(1))
    }

    /// The same, and before it the rule for the answers.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    fn load_both(
        &self,
        out: &mut Encoder<'_>,
        xid: u32,
        (buffer_id, eth): ([u8; 4], &EthHeader),
        [in_port, out_port]: [PortNo; 2],
    ) -> Option<u32> {
        let (back, there) = (Self::port(in_port)?, Self::port(out_port)?);
        let [answers, frames] = out.append_two_copies(self)?;
        answers.fill(xid, NO_BUFFER.to_be_bytes(), eth.src, eth.dst, back);
        let next = xid.wrapping_add(1);
        frames.fill(next, buffer_id, eth.dst, eth.src, there);
        Some(next.wrapping_add(1))
    }
}

/// Such a rule in 1.0, where the match has the same form whatever it matches. OpenFlow 1.0.0 §5.3.3.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub(crate) struct PairRule10(Rule10);

impl Paired for PairRule10 {
    type Port = U16;

    const VERSION: Version = Version::V1_0;

    const PLACES: [usize; 6] = {
        let [buffer_id, _, src, dst, vlan, out_port] = Rule10::PLACES;
        [buffer_id, LEN_SHORT, src, dst, vlan, out_port]
    };

    #[inline]
    fn port(port: PortNo) -> Option<U16> {
        Rule10::port(port)
    }

    #[inline]
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: U16) {
        self.0.fill_pair(xid, buffer_id, [dst, src], port);
    }
}

/// Such a rule in 1.3. §7.3.4.1.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PairRule13 {
    head: [u8; 4],
    xid: U32,
    fixed: [u8; 24],
    buffer_id: [u8; 4],
    flags: [u8; 12],
    match_head: [u8; 4],
    dst_head: [u8; 4],
    dst: MacAddr,
    src_head: [u8; 4],
    src: MacAddr,
    vlan_head: [u8; 4],
    vlan: U16,
    match_pad: [u8; 2],
    instruction_head: [u8; 8],
    action_head: [u8; 4],
    out_port: U32,
    max_len: [u8; 8],
}

impl Paired for PairRule13 {
    type Port = U32;

    const VERSION: Version = Version::V1_3;

    const PLACES: [usize; 6] = [
        offset_of!(Self, buffer_id),
        LEN_MAX,
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
    fn fill(&mut self, xid: u32, buffer_id: [u8; 4], dst: MacAddr, src: MacAddr, port: U32) {
        self.xid.set(xid);
        self.buffer_id = buffer_id;
        (self.dst, self.src) = (dst, src);
        self.vlan = U16::ZERO;
        self.out_port = port;
    }
}

const _: () = assert!(size_of::<PairRule13>() == 104);

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_openflow::{Field, Instruction, PacketIn, PacketInReason};

    const FRAME: [u8; 16] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 69, 0];

    const USUAL: PacketIn<'_> = PacketIn {
        buffer_id: Some(77),
        in_port: PortNo(3),
        total_len: 16,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame: &FRAME,
    };

    fn rule(buffer_id: Option<u32>, [dst, src]: [u64; 2], port: PortNo) -> FlowMod {
        let [dst, src] = [dst, src].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n));
        FlowMod {
            cookie: 9,
            idle_timeout: 60,
            buffer_id,
            matching: [Field::eth_dst(dst), Field::eth_src(src), Field::untagged()].into(),
            instructions: vec![Instruction::apply([Action::output(port)])],
            ..FlowMod::default()
        }
    }

    /// What is written for a burst, and how much of it is left.
    fn loaded(
        version: Version,
        burst: &[PacketIn<'_>],
        both: bool,
        course: Option<Course>,
    ) -> (Vec<u8>, usize) {
        let (mut rx, mut tx, mut xid) = (vec![], vec![], 5);
        for p in burst {
            p.emit(&mut Encoder::new(&mut rx, version, &mut xid)).unwrap();
        }
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        let ways = Ways::new(&out, &rule(None, [1, 1], PortNo(1)), both).unwrap();
        let (mut frames, mut asked) = (PacketIns::new(version, &rx), 0);
        let answer = |asked: &mut u64, in_port, eth: &EthHeader, frame: &[u8]| {
            *asked += 1;
            assert_eq!((in_port, eth.dst.0[5], frame), (PortNo(3), 9, &FRAME[..]));
            course
        };
        install_paths_v1_0(&mut frames, &mut out, &ways, &mut asked, answer);
        install_paths_v1_3(&mut frames, &mut out, &ways, &mut asked, answer);
        assert!(
            asked == frames.taken() || asked == frames.taken() + 1,
            "the last may have no course"
        );
        let left = frames.count();
        (tx, left)
    }

    #[test]
    fn the_usual_get_what_is_written_anew() {
        for version in [Version::V1_0, Version::V1_3] {
            for buffer_id in [Some(77), None] {
                for both in [false, true] {
                    let p = PacketIn { buffer_id, ..USUAL };
                    let actions = [Action::output(PortNo(7))];
                    let sent = PacketOut { actions: &actions, ..PacketOut::answer(&p) };
                    let (mut anew, mut xid) = (vec![], 5);
                    let mut out = Encoder::new(&mut anew, version, &mut xid);
                    for _ in 0..3 {
                        if both {
                            out.flow_mod(&rule(None, [8, 9], PortNo(3))).unwrap();
                        }
                        out.flow_mod(&rule(buffer_id, [9, 8], PortNo(7))).unwrap();
                        if buffer_id.is_none() {
                            out.packet_out(&sent).unwrap();
                        }
                    }
                    let got = loaded(version, &[p; 3], both, Some(Course::Load(PortNo(7))));
                    assert_eq!(got, (anew, 0), "{version} {buffer_id:?} {both}");
                    let (mut anew, mut xid) = (vec![], 5);
                    Encoder::new(&mut anew, version, &mut xid).packet_out(&sent).unwrap();
                    let got = loaded(version, &[p], both, Some(Course::Send(PortNo(7))));
                    assert_eq!(got, (anew, 0), "{version} {buffer_id:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_usual_is_left_with_all_that_follows() {
        let tagged = [&FRAME[..12], &[0x81, 0, 0, 5, 8, 0]].concat();
        let unusual = [
            PacketIn { frame: &tagged, ..USUAL },
            PacketIn { frame: &FRAME[..13], ..USUAL },
            PacketIn { buffer_id: None, total_len: 21, ..USUAL },
        ];
        for version in [Version::V1_0, Version::V1_3] {
            for p in unusual {
                let (tx, left) =
                    loaded(version, &[USUAL, p, USUAL], false, Some(Course::Load(PortNo(7))));
                assert_eq!(left, 2, "{version} {p:?}");
                assert_eq!(tx.len(), if version == Version::V1_0 { 80 } else { 104 });
            }
            assert_eq!(loaded(version, &[USUAL], true, None), (vec![], 1), "no course");
        }
        let local = PacketIn { in_port: PortNo::LOCAL, ..USUAL };
        let course = |port| Some(Course::Load(PortNo(port)));
        assert_eq!(loaded(Version::V1_0, &[local], true, course(7)), (vec![], 1));
        assert_eq!(loaded(Version::V1_0, &[USUAL], true, course(0x1_0000)), (vec![], 1));
        assert_eq!(loaded(Version::V1_4, &[USUAL], true, course(7)), (vec![], 1));
    }
}
