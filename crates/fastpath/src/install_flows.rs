//! One flow entry per packet-in, and the frame itself.

use sluice_openflow::view::PacketIns;
use sluice_openflow::{Encoder, EthHeader, PortNo};

use crate::MessageTemplate;
use crate::flow_mod_layout::{FlowModLayout, FlowModV1_0, FlowModV1_3};
use crate::packet_in_layout::{PacketInLayout, PacketInV1_0, PacketInV1_3};
use crate::packet_out_layout::{PacketOutLayout, PacketOutV1_0, PacketOutV1_3};

/// Templates of the messages for one frame: a flow entry, and a `PACKET_OUT` for a frame that the switch has not buffered.
#[derive(Debug, Clone, Copy)]
pub struct FlowTemplates<'a> {
    /// The flow entry, a `FLOW_MOD`.
    pub flow: &'a MessageTemplate,
    /// The `PACKET_OUT`, with one output.
    pub packet_out: &'a MessageTemplate,
}

impl<'a> FlowTemplates<'a> {
    /// Both messages as bytes, if they have the layout that [`install_flows_v1_0`] or [`install_flows_v1_3`] writes.
    pub fn common_form(&self) -> Option<[&'a [u8]; 2]> {
        Some([self.flow.common_bytes()?, self.packet_out.common_bytes()?])
    }
}

/// Answers each of the next packet-ins of OpenFlow 1.0 with a `FLOW_MOD`, which releases the frame if the switch has
/// buffered it, or else with a `FLOW_MOD` and a `PACKET_OUT` that has the frame.
///
/// `lookup` is called with the Ethernet header, `AHEAD` packet-ins before the answer (a power of two, or 0), so that it can
/// prefetch; `route` gets its result and returns the output port. Both are given `table`.
///
/// Handles untagged frames from physical ports that the switch has buffered or sent whole. Stops at the first packet-in of
/// another kind, and at the first for which `route` returns `None`: that one is what [`next`](Iterator::next) yields. Does
/// nothing for other versions, and nothing if the flow entry does not match ingress port, source, destination and VLAN, in
/// this order.
///
/// # Cost
/// Half of parsing each message and encoding each answer by [`MessageTemplate::encode`], as all offsets are constants.
/// There is one function for each version because a `route` with a single caller is inlined into the loop.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_flows_v1_0<const AHEAD: usize, T, K: Copy + Default>(
    packet_ins: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    templates: FlowTemplates<'_>,
    table: &mut T,
    lookup: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    let version = packet_ins.version();
    if let Some(flow) = templates.flow.flow_mod_layout::<FlowModV1_0>(version)
        && let Some(packet_out) = templates.packet_out.packet_out_head::<PacketOutV1_0>(version)
    {
        let layouts = (flow, packet_out);
        install_flows::<AHEAD, PacketInV1_0, _, _, _, _>(
            packet_ins, out, layouts, table, lookup, route,
        );
    }
}

/// [`install_flows_v1_0`] for OpenFlow 1.3 and 1.4.
#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
pub fn install_flows_v1_3<const AHEAD: usize, T, K: Copy + Default>(
    packet_ins: &mut PacketIns<'_>,
    out: &mut Encoder<'_>,
    templates: FlowTemplates<'_>,
    table: &mut T,
    lookup: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    let version = packet_ins.version();
    if let Some(flow) = templates.flow.flow_mod_layout::<FlowModV1_3>(version)
        && let Some(packet_out) = templates.packet_out.packet_out_head::<PacketOutV1_3>(version)
    {
        let layouts = (flow, packet_out);
        install_flows::<AHEAD, PacketInV1_3, _, _, _, _>(
            packet_ins, out, layouts, table, lookup, route,
        );
    }
}

#[expect(clippy::inline_always, reason = "lab/instructions: a loop for each width and route")]
#[inline(always)]
fn install_flows<
    'a,
    const AHEAD: usize,
    P: PacketInLayout + 'a,
    F: FlowModLayout,
    O: PacketOutLayout,
    T,
    K: Copy + Default,
>(
    packet_ins: &mut PacketIns<'a>,
    out: &mut Encoder<'_>,
    (flow, packet_out): (&F, &O),
    table: &mut T,
    lookup: impl Fn(&mut T, &EthHeader) -> K,
    route: impl Fn(&mut T, K, &EthHeader, PortNo) -> Option<PortNo>,
) {
    let version = packet_ins.version();
    // Results of `lookup` for the `pending` messages from `rest` to `ahead`.
    let mut results = [K::default(); AHEAD];
    let (mut rest, mut ahead, mut pending) = (packet_ins.rest(), packet_ins.rest(), 0);
    let (mut taken, mut xid) = (0, out.next_xid());
    loop {
        while pending < AHEAD {
            let Some((p, after)) = P::split(ahead, version) else { break };
            if let Some(result) = results.get_mut(slot::<AHEAD>(taken, pending)) {
                *result = lookup(table, p.eth());
            }
            (ahead, pending) = (after, pending + 1);
        }
        let next = if AHEAD == 0 {
            P::split(rest, version)
        } else if pending > 0 {
            P::split_checked(rest)
        } else {
            None
        };
        let Some((p, after)) = next else { break };
        let Some(in_port) = p.in_port() else { break };
        let frame = P::frame(rest, after);
        if !p.is_buffered() && !p.can_send_back(frame) {
            break;
        }
        let result = if AHEAD == 0 {
            lookup(table, p.eth())
        } else {
            results.get(slot::<AHEAD>(taken, 0)).copied().unwrap_or_default()
        };
        let Some(out_port) = route(table, result, p.eth(), in_port) else { break };
        let (start, ports) = (out.len(), [in_port, out_port]);
        let appended = flow.append(out, xid, p.buffer_id(), p.eth(), ports);
        let Some(mut next_xid) = appended else { break };
        if !p.is_buffered() {
            if packet_out.append_with_frame(out, next_xid, ports, frame).is_none() {
                out.truncate(start);
                break;
            }
            next_xid = next_xid.wrapping_add(1);
        }
        xid = next_xid;
        (rest, taken) = (after, taken + 1);
        pending -= usize::from(AHEAD > 0);
    }
    packet_ins.skip_to(rest, taken as u64);
    out.set_next_xid(xid);
}

/// Index in a ring of `AHEAD` results: that of the message `later` messages after the one with this number.
#[inline]
const fn slot<const AHEAD: usize>(number: usize, later: usize) -> usize {
    const { assert!(AHEAD == 0 || AHEAD.is_power_of_two()) };
    number.wrapping_add(later) & AHEAD.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use sluice_openflow::view::PacketIn;
    use sluice_openflow::{
        Action, Field, FlowMod, Instruction, MacAddr, PacketInReason, PacketOutRef, Version,
        split_message,
    };

    use super::*;

    const FRAME: [u8; 15] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 69];

    const BUFFERED: PacketIn<'_> = PacketIn {
        buffer_id: Some(77),
        in_port: PortNo(3),
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame: &FRAME,
    };

    /// The flow entry for the frame from port `in_port` to port `out_port`.
    fn flow_mod(buffer_id: Option<u32>, [in_port, out_port]: [PortNo; 2]) -> FlowMod {
        let (dst, src) = (MacAddr::from_u64(0x0200_0000_0009), MacAddr::from_u64(0x0200_0000_0008));
        let (dst, src) = (Field::eth_dst(dst), Field::eth_src(src));
        FlowMod {
            cookie: 9,
            buffer_id,
            matching: [Field::in_port(in_port), src, dst, Field::untagged()].into(),
            instructions: vec![Instruction::apply([Action::output(out_port)])],
            ..FlowMod::default()
        }
    }

    /// Returns what is written for a burst of frames to `out_port`, and how many packet-ins are left.
    fn install<const AHEAD: usize>(
        version: Version,
        burst: &[PacketIn<'_>],
        out_port: Option<PortNo>,
    ) -> (Vec<u8>, usize) {
        let (mut rx, mut tx, mut xid) = (vec![], vec![], 5);
        for p in burst {
            p.encode(&mut Encoder::new(&mut rx, version, &mut xid)).unwrap();
        }
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        let flow = MessageTemplate::flow_mod(&out, &flow_mod(Some(77), [PortNo(1); 2])).unwrap();
        let actions = [Action::output(PortNo(1))];
        let (in_port, buffer_id) = (PortNo(1), Some(3));
        let packet_out = PacketOutRef { buffer_id, in_port, actions: &actions, frame: &[] };
        let packet_out = MessageTemplate::packet_out(&out, &packet_out).unwrap();
        let templates = FlowTemplates { flow: &flow, packet_out: &packet_out };
        let mut packet_ins = PacketIns::new(version, &rx);
        let lookup = |lookups: &mut u64, _: &EthHeader| {
            *lookups += 1;
            *lookups
        };
        let routed = Cell::new(0);
        let route = |_: &mut u64, result, eth: &EthHeader, in_port| {
            assert_eq!((eth.dst.0[5], eth.src.0[5], in_port), (9, 8, PortNo(3)));
            routed.set(routed.get() + 1);
            assert_eq!(result, routed.get(), "the result of the lookup for this message");
            out_port
        };
        let (packets, mut n) = (&mut packet_ins, 0);
        install_flows_v1_0::<AHEAD, _, _>(packets, &mut out, templates, &mut n, lookup, route);
        install_flows_v1_3::<AHEAD, _, _>(packets, &mut out, templates, &mut n, lookup, route);
        let taken = packet_ins.taken();
        assert!(n >= routed.get() && n <= taken + AHEAD.max(1) as u64);
        let messages = core::iter::successors(split_message(&tx).unwrap(), |(_, rest)| {
            split_message(rest).unwrap()
        });
        assert_eq!(xid, 5 + u32::try_from(messages.count()).unwrap());
        let left = packet_ins.count();
        assert_eq!(taken + left as u64, burst.len() as u64);
        (tx, left)
    }

    #[test]
    fn each_buffered_frame_gets_the_flow_entry_that_the_encoder_would_write() {
        for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
            let (mut expected, mut xid) = (vec![], 5);
            let mut out = Encoder::new(&mut expected, version, &mut xid);
            for _ in 0..3 {
                out.flow_mod(&flow_mod(Some(77), [PortNo(3), PortNo(7)])).unwrap();
            }
            let got = install::<0>(version, &[BUFFERED; 3], Some(PortNo(7)));
            assert_eq!(got, (expected.clone(), 0), "{version}");
            let got = install::<2>(version, &[BUFFERED; 3], Some(PortNo(7)));
            assert_eq!(got, (expected, 0), "{version}");
        }
    }

    #[test]
    fn each_frame_without_a_buffer_gets_the_messages_that_the_encoder_would_write() {
        for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
            // Around the lengths that are copied at once; the last frame has nothing behind it.
            for len in [14, 15, 63, 64, 65, 127, 128, 129, 1500, 60_000] {
                let frame: Vec<_> = FRAME.iter().copied().cycle().take(len).collect::<Vec<_>>();
                let total_len = u16::try_from(len + 4).unwrap();
                let p = PacketIn { buffer_id: None, total_len, frame: &frame, ..BUFFERED };
                let actions = [Action::output(PortNo(7))];
                let (mut expected, mut xid) = (vec![], 5);
                let mut out = Encoder::new(&mut expected, version, &mut xid);
                for p in [p, BUFFERED, p] {
                    out.flow_mod(&flow_mod(p.buffer_id, [PortNo(3), PortNo(7)])).unwrap();
                    if p.buffer_id.is_none() {
                        let packet_out =
                            PacketOutRef { actions: &actions, ..PacketOutRef::answer(&p) };
                        out.packet_out(&packet_out).unwrap();
                    }
                }
                let got = install::<0>(version, &[p, BUFFERED, p], Some(PortNo(7)));
                assert!(got == (expected.clone(), 0), "{version} {len}");
                let got = install::<2>(version, &[p, BUFFERED, p], Some(PortNo(7)));
                assert!(got == (expected, 0), "{version} {len}");
            }
        }
    }

    #[test]
    fn the_loop_stops_at_a_packet_in_of_another_kind() {
        stops_at_another_kind::<0>();
        stops_at_another_kind::<2>();
    }

    fn stops_at_another_kind<const AHEAD: usize>() {
        let long = FRAME.repeat(4001);
        let tagged = [&FRAME[..12], &[0x81, 0, 0, 5, 8, 0]].concat();
        let others = [
            // Not sent whole, and too long for a PACKET_OUT.
            PacketIn { buffer_id: None, ..BUFFERED },
            PacketIn { buffer_id: None, frame: &long, ..BUFFERED },
            PacketIn { frame: &tagged, ..BUFFERED },
            PacketIn { frame: &FRAME[..13], ..BUFFERED },
        ];
        for version in [Version::V1_0, Version::V1_3, Version::V1_4] {
            for other in others {
                let burst = [BUFFERED, other, BUFFERED];
                let (tx, left) = install::<AHEAD>(version, &burst, Some(PortNo(7)));
                assert_eq!(left, 2, "{version} {}", other.frame.len());
                assert_eq!(tx.len(), if version == Version::V1_0 { 80 } else { 112 });
            }
            assert_eq!(install::<AHEAD>(version, &[BUFFERED], None), (vec![], 1), "no route");
        }
        let local = PacketIn { in_port: PortNo::LOCAL, ..BUFFERED };
        let nothing = (vec![], 1);
        assert_eq!(install::<AHEAD>(Version::V1_0, &[local], Some(PortNo(7))), nothing);
        assert_eq!(install::<AHEAD>(Version::V1_0, &[BUFFERED], Some(PortNo(0x1_0000))), nothing);
        assert_eq!(install::<AHEAD>(Version::V1_5, &[BUFFERED], Some(PortNo(7))), nothing);
    }
}
