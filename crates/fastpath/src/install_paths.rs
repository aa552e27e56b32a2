//! Flow entries for one or both directions of a conversation per packet-in, and the frame itself.

use sluice_openflow::view::PacketIns;
use sluice_openflow::{
    Action, EncodeError, Encoder, EthHeader, FlowMod, PacketOutRef, PortNo, Version,
};

use crate::flow_mod_layout::{FlowModLayout, FlowModV1_0, FlowModV1_3};
use crate::packet_in_layout::{PacketInLayout, PacketInV1_0, PacketInV1_3};
use crate::packet_out_layout::{PacketOutLayout, PacketOutV1_0, PacketOutV1_3};
use crate::template::{MessageTemplate, TemplateValues};

/// What an application decides for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardingDecision {
    /// Send the frame to this port, and install flow entries for the frames that follow.
    Install(PortNo),
    /// Send the frame to this port, and install nothing.
    SendOnly(PortNo),
}

/// Templates of the messages for a conversation between two hosts of one switch: a flow entry and a `PACKET_OUT`.
#[derive(Debug, Clone)]
pub struct PathTemplates {
    flow: MessageTemplate,
    packet_out: MessageTemplate,
    both_directions: bool,
}

impl PathTemplates {
    /// Encodes the templates in the version of `out`. Of `flow`, the buffer id, the ingress port, the addresses and the port
    /// of the only output are patched later. With `both_directions`, a flow entry for the replies is installed too, before the
    /// other.
    ///
    /// # Errors
    /// Names what the version cannot express.
    pub fn new(
        out: &Encoder<'_>,
        flow: &FlowMod,
        both_directions: bool,
    ) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let in_port = PortNo(1);
        let packet_out = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &[] };
        let packet_out = MessageTemplate::packet_out(out, &packet_out)?;
        Ok(Self { flow: MessageTemplate::flow_mod(out, flow)?, packet_out, both_directions })
    }

    /// Replaces the flow entry by `flow`, in the same version.
    ///
    /// # Errors
    /// As [`new`](Self::new); the templates stay as they were.
    pub fn set_flow(&mut self, flow: &FlowMod, both_directions: bool) -> Result<(), EncodeError> {
        self.flow.set_flow_mod(flow)?;
        self.both_directions = both_directions;
        Ok(())
    }

    /// Both messages as bytes, if they have the layout that [`install_paths_v1_0`] or [`install_paths_v1_3`] writes.
    pub fn common_form(&self) -> Option<[&[u8]; 2]> {
        Some([self.flow.common_bytes()?, self.packet_out.common_bytes()?])
    }

    /// The version of both messages.
    pub fn version(&self) -> Version {
        self.flow.version()
    }

    /// The flow entry and the `PACKET_OUT` in the layouts `F` and `O`, with the templates themselves; `None` if one of them
    /// has another layout or is of another version than `version`.
    #[inline]
    fn layouts<F: FlowModLayout, O: PacketOutLayout>(
        &self,
        version: Version,
    ) -> Option<(&F, &O, &Self)> {
        Some((self.flow.flow_mod_layout(version)?, self.packet_out.packet_out_head(version)?, self))
    }
}

/// Answers each of the next packet-ins of OpenFlow 1.0 as `decide` says.
///
/// `decide` is given `table`, the ingress port, the Ethernet header and the frame.
///
/// Handles untagged frames from physical ports that the switch has buffered or sent whole. Stops at the first packet-in of
/// another kind, and at the first for which `decide` returns `None`: that one is what [`next`](Iterator::next) yields. Does
/// nothing for other versions, and nothing if the flow entry does not match ingress port, source, destination and VLAN, in
/// this order. Ports that `decide` returns must be ports of the switch.
///
/// # Cost
/// All offsets are constants. There is one function for each version because a `decide` with a single caller is inlined
/// into the loop.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_paths_v1_0<T>(
    packet_ins: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    templates: &PathTemplates,
    table: &mut T,
    decide: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<ForwardingDecision>,
) {
    if let Some(layouts) = templates.layouts::<FlowModV1_0, PacketOutV1_0>(packet_ins.version()) {
        install_paths::<PacketInV1_0, _, _, _>(packet_ins, out, layouts, table, decide);
    }
}

/// [`install_paths_v1_0`] for OpenFlow 1.3 and 1.4.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_paths_v1_3<T>(
    packet_ins: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    templates: &PathTemplates,
    table: &mut T,
    decide: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<ForwardingDecision>,
) {
    if let Some(layouts) = templates.layouts::<FlowModV1_3, PacketOutV1_3>(packet_ins.version()) {
        install_paths::<PacketInV1_3, _, _, _>(packet_ins, out, layouts, table, decide);
    }
}

#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
fn install_paths<'a, P: PacketInLayout + 'a, F: FlowModLayout, O: PacketOutLayout, T>(
    packet_ins: &mut PacketIns<'a>,
    out: &mut Encoder<'_>,
    (flow, packet_out, templates): (&F, &O, &PathTemplates),
    table: &mut T,
    decide: impl Fn(&mut T, PortNo, &EthHeader, &[u8]) -> Option<ForwardingDecision>,
) {
    let version = packet_ins.version();
    let (mut rest, mut taken) = (packet_ins.rest(), 0);
    let mut xid = out.next_xid();
    while let Some((p, after)) = P::split(rest, version) {
        let Some(in_port) = p.in_port() else { break };
        let frame = P::frame(rest, after);
        if !p.is_buffered() && !p.can_send_back(frame) {
            break;
        }
        let Some(decision) = decide(table, in_port, p.eth(), frame.bytes()) else { break };
        let (start, mut next_xid) = (out.len(), xid);
        let (ForwardingDecision::Install(out_port) | ForwardingDecision::SendOnly(out_port)) =
            decision;
        let (installs, ports) =
            (matches!(decision, ForwardingDecision::Install(_)), [in_port, out_port]);
        if installs {
            let appended = if templates.both_directions {
                flow.append_both(out, xid, p.buffer_id(), p.eth(), ports)
            } else {
                flow.append(out, xid, p.buffer_id(), p.eth(), ports)
            };
            let Some(next) = appended else { break };
            next_xid = next;
        }
        // A flow entry with a buffer id sends the buffered frame.
        if !p.is_buffered() {
            if packet_out.append_with_frame(out, next_xid, ports, frame).is_none() {
                out.truncate(start);
                break;
            }
            next_xid = next_xid.wrapping_add(1);
        } else if !installs {
            out.set_next_xid(xid);
            if send_buffered::<P>(p, out_port, templates, out).is_none() {
                break;
            }
            next_xid = out.next_xid();
        }
        (rest, taken, xid) = (after, taken + 1, next_xid);
    }
    packet_ins.skip_to(rest, taken);
    out.set_next_xid(xid);
}

/// Sends a frame to a port, from the switch's buffer.
#[inline(never)]
fn send_buffered<P: PacketInLayout>(
    p: &P,
    out_port: PortNo,
    templates: &PathTemplates,
    out: &mut Encoder<'_>,
) -> Option<()> {
    let buffer_id = Some(u32::from_be_bytes(p.buffer_id()));
    let values =
        TemplateValues { buffer_id, in_port: p.in_port()?, eth: p.eth(), vlan: None, out_port };
    templates.packet_out.encode(out, &values).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::view::PacketIn;
    use sluice_openflow::{Field, Instruction, MacAddr, PacketInReason};

    use super::*;

    const FRAME: [u8; 16] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 69, 0];

    const UNTAGGED: PacketIn<'_> = PacketIn {
        buffer_id: Some(77),
        in_port: PortNo(3),
        total_len: 16,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame: &FRAME,
    };

    fn flow_mod(buffer_id: Option<u32>, [dst, src]: [u64; 2], ports: [u32; 2]) -> FlowMod {
        let [in_port, out_port] = ports.map(PortNo);
        let [dst, src] = [dst, src].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n));
        FlowMod {
            cookie: 9,
            idle_timeout: 60,
            buffer_id,
            matching: [
                Field::in_port(in_port),
                Field::eth_src(src),
                Field::eth_dst(dst),
                Field::untagged(),
            ]
            .into(),
            instructions: vec![Instruction::apply([Action::output(out_port)])],
            ..FlowMod::default()
        }
    }

    /// Returns what is written for a burst, and how many packet-ins are left.
    fn install(
        version: Version,
        burst: &[PacketIn<'_>],
        both_directions: bool,
        decision: Option<ForwardingDecision>,
    ) -> (Vec<u8>, usize) {
        let (mut rx, mut tx, mut xid) = (vec![], vec![], 5);
        for p in burst {
            p.encode(&mut Encoder::new(&mut rx, version, &mut xid)).unwrap();
        }
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        let flow = flow_mod(None, [1, 1], [1, 1]);
        let templates = PathTemplates::new(&out, &flow, both_directions).unwrap();
        let (mut packet_ins, mut calls) = (PacketIns::new(version, &rx), 0);
        let decide = |calls: &mut u64, in_port, eth: &EthHeader, frame: &[u8]| {
            *calls += 1;
            assert_eq!((in_port, eth.dst.0[5], frame), (PortNo(3), 9, &FRAME[..]));
            decision
        };
        install_paths_v1_0(&mut packet_ins, &mut out, &templates, &mut calls, decide);
        install_paths_v1_3(&mut packet_ins, &mut out, &templates, &mut calls, decide);
        let taken = packet_ins.taken();
        assert!(calls == taken || calls == taken + 1, "the last decision may be `None`");
        let left = packet_ins.count();
        (tx, left)
    }

    #[test]
    fn each_frame_gets_the_messages_that_the_encoder_would_write() {
        for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
            for buffer_id in [Some(77), None] {
                for both_directions in [false, true] {
                    let p = PacketIn { buffer_id, ..UNTAGGED };
                    let actions = [Action::output(PortNo(7))];
                    let packet_out = PacketOutRef { actions: &actions, ..PacketOutRef::answer(&p) };
                    let (mut expected, mut xid) = (vec![], 5);
                    let mut out = Encoder::new(&mut expected, version, &mut xid);
                    for _ in 0..3 {
                        if both_directions {
                            out.flow_mod(&flow_mod(None, [8, 9], [7, 3])).unwrap();
                        }
                        out.flow_mod(&flow_mod(buffer_id, [9, 8], [3, 7])).unwrap();
                        if buffer_id.is_none() {
                            out.packet_out(&packet_out).unwrap();
                        }
                    }
                    let decision = Some(ForwardingDecision::Install(PortNo(7)));
                    let got = install(version, &[p; 3], both_directions, decision);
                    assert_eq!(got, (expected, 0), "{version} {buffer_id:?} {both_directions}");

                    let (mut expected, mut xid) = (vec![], 5);
                    let mut out = Encoder::new(&mut expected, version, &mut xid);
                    out.packet_out(&packet_out).unwrap();
                    let decision = Some(ForwardingDecision::SendOnly(PortNo(7)));
                    let got = install(version, &[p], both_directions, decision);
                    assert_eq!(got, (expected, 0), "{version} {buffer_id:?}");
                }
            }
        }
    }

    #[test]
    fn the_loop_stops_at_a_packet_in_of_another_kind() {
        let to = |port| Some(ForwardingDecision::Install(PortNo(port)));
        let tagged = [&FRAME[..12], &[0x81, 0, 0, 5, 8, 0]].concat();
        let others = [
            PacketIn { frame: &tagged, ..UNTAGGED },
            PacketIn { frame: &FRAME[..13], ..UNTAGGED },
            PacketIn { buffer_id: None, total_len: 21, ..UNTAGGED },
        ];
        for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
            for other in others {
                let (tx, left) = install(version, &[UNTAGGED, other, UNTAGGED], false, to(7));
                assert_eq!(left, 2, "{version} {other:?}");
                assert_eq!(tx.len(), if version == Version::V1_0 { 80 } else { 112 });
            }
            assert_eq!(install(version, &[UNTAGGED], true, None), (vec![], 1), "no decision");
        }
        let local = PacketIn { in_port: PortNo::LOCAL, ..UNTAGGED };
        assert_eq!(install(Version::V1_0, &[local], true, to(7)), (vec![], 1));
        assert_eq!(install(Version::V1_0, &[UNTAGGED], true, to(0x1_0000)), (vec![], 1));
        assert_eq!(install(Version::V1_5, &[UNTAGGED], true, to(7)), (vec![], 1));
    }
}
