//! Packet-ins, packet-outs, and the packets buffered between them. §6.1.2.
//!
//! With [`EmulatedSwitchConfig::flow_buffering`](super::EmulatedSwitchConfig::flow_buffering), a packet without a matching
//! flow entry is buffered together with an earlier packet of its flow whose packet-in is unanswered. The answer of the
//! controller is a `PACKET_OUT` or `FLOW_MOD` with the buffer id of the first packet, or a `PACKET_OUT` with a whole packet
//! of the flow. It applies to all packets of the flow, in order of arrival. A new flow entry that matches the flow releases
//! all but the first packet, for which the controller may still send a `PACKET_OUT`.

use std::time::Instant;

use sluice_openflow::{
    Action, ErrorReason, Field, FieldId, MacAddr, Message, MeterId, PacketIn, PacketInReason,
    PortNo, Version,
};

use super::packet_buffer::BufferedPackets;
use super::{EmulatedSwitch, SwitchOutput, error_reasons};
use sluice_pipeline::ActionOrigin;
use sluice_pipeline::NormalizedMatch;
use sluice_pipeline::PacketInPipeline;

/// Shortest frame in a `PACKET_OUT`.
const FRAME_LEN_MIN: usize = 14;

impl EmulatedSwitch {
    /// Sends a packet-in; if the packet can be buffered, with at most `max_len` of its bytes.
    pub(super) fn send_packet_in(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        max_len: u16,
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) {
        if packet.is_followed {
            return;
        }
        let version = self.session.version();
        let reason = reason_in(version, origin.reason);
        if !self.session.wants_packet(reason) || !self.ports.allows_packet_in(packet.in_port) {
            self.counters.drops.no_controller += 1;
            return;
        }
        if !self.apply_meter(now, MeterId::CONTROLLER.0, packet) {
            return;
        }
        let is_buffered =
            self.config.n_buffers > 0 && (max_len != Action::WHOLE || version < Version::V1_2);
        let waits_for_answer = self.config.flow_buffering && is_flow_setup(packet, reason);
        let flow = (is_buffered && waits_for_answer).then(|| packet.fields.flow());
        if flow.as_ref().is_some_and(|flow| self.buffer.append(flow, &packet.bytes)) {
            self.counters.buffered_with_flow += 1;
            return;
        }
        if self.tx_backlog + out.control.len() > self.config.tx_backlog_max {
            self.counters.drops.tx_backlog += 1;
            return;
        }
        let inserted =
            is_buffered.then(|| self.buffer.insert(now, packet.in_port, &packet.bytes, flow));
        let buffer_id = inserted.flatten();
        self.counters.packet_ins += 1;
        self.counters.buffer_full_packet_ins += u64::from(is_buffered && buffer_id.is_none());
        let len = match buffer_id {
            Some(_) => packet.bytes.len().min(usize::from(max_len)),
            None => packet.bytes.len(),
        };
        let packet_in = PacketIn {
            buffer_id,
            total_len: u16::try_from(packet.bytes.len()).unwrap_or(u16::MAX),
            reason,
            table_id: if version > Version::V1_0 { origin.table_id } else { 0 },
            cookie: if version >= Version::V1_3 {
                origin.cookie
            } else {
                PacketIn::default().cookie
            },
            matching: pipeline_fields(packet, version),
            data: packet.bytes.get(..len).unwrap_or_default().to_vec(),
        };
        self.send_async(&Message::PacketIn(packet_in), out);
    }

    /// Executes a `PACKET_OUT` whose actions have been validated.
    pub(super) fn execute_packet_out(
        &mut self,
        now: Instant,
        in_port: PortNo,
        packet_out: sluice_openflow::PacketOut,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let packets = match packet_out.buffer_id {
            Some(id) => {
                let packets = self.buffer.take(id)?.packets;
                self.counters.released_packets += count(&packets);
                packets
            }
            None if packet_out.data.len() < FRAME_LEN_MIN => return Err(error_reasons::BAD_PACKET),
            None => self.with_buffered_packets(in_port, packet_out.data),
        };
        let origin = ActionOrigin::packet_out();
        for bytes in packets {
            if let Some(mut packet) = self.parse_packet(in_port, &bytes) {
                self.apply_packet_out_actions(now, &mut packet, &packet_out.actions, &origin, out);
                self.spare_packet = Some(packet);
            }
        }
        Ok(())
    }

    /// The packet of a `PACKET_OUT`, followed by the buffered packets of its flow.
    fn with_buffered_packets(&mut self, in_port: PortNo, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let mut packets = vec![bytes];
        if self.config.flow_buffering && self.buffer.len() > 0 {
            let first = packets.first().cloned().and_then(|it| PacketInPipeline::new(in_port, it));
            let followers = first.and_then(|it| self.buffer.take_flow(&it.fields.flow()));
            let followers = followers.map(|it| it.packets).unwrap_or_default();
            self.counters.released_packets += count(&followers);
            packets.extend(followers);
        }
        packets
    }

    /// Runs the packets buffered behind the first of their flow through the pipeline, if a new flow entry with
    /// `pattern` matches them.
    pub(super) fn release_flow_followers(
        &mut self,
        now: Instant,
        pattern: &NormalizedMatch,
        out: &mut SwitchOutput,
    ) {
        if !self.config.flow_buffering || self.buffer.len() == 0 || pattern.is_empty() {
            return;
        }
        let matches = |in_port, bytes: &[u8]| {
            let packet = PacketInPipeline::new(in_port, bytes.to_vec());
            packet.is_some_and(|packet| pattern.matches(&packet.fields))
        };
        for (in_port, bytes) in self.buffer.take_followers(matches) {
            self.counters.released_packets += 1;
            if let Some(mut packet) = PacketInPipeline::new(in_port, bytes) {
                self.run_pipeline(now, &mut packet, out);
            }
        }
    }

    /// Runs the packets with buffer id `id` through the pipeline, after their flow entry was added. §7.3.4.1.
    pub(super) fn release_buffered(
        &mut self,
        now: Instant,
        id: u32,
        out: &mut SwitchOutput,
    ) -> Result<(), ErrorReason> {
        let BufferedPackets { in_port, packets, .. } = self.buffer.take(id)?;
        self.counters.released_packets += count(&packets);
        for bytes in packets {
            if let Some(mut packet) = PacketInPipeline::new(in_port, bytes) {
                self.run_pipeline(now, &mut packet, out);
            }
        }
        Ok(())
    }
}

/// Whether the controller is expected to answer this packet-in: a table miss, except for frames to reserved bridge
/// addresses such as LLDP (IEEE 802.1D §7.12.6).
fn is_flow_setup(packet: &PacketInPipeline, reason: PacketInReason) -> bool {
    let dst = packet.bytes.first_chunk().map(|dst| MacAddr(*dst));
    reason == PacketInReason::NO_MATCH && !dst.is_some_and(MacAddr::is_bridge_reserved)
}

fn count(packets: &[Vec<u8>]) -> u64 {
    u64::try_from(packets.len()).unwrap_or_default()
}

/// The fields of a packet that are not in its frame and that `version` supports.
fn pipeline_fields(packet: &PacketInPipeline, version: Version) -> sluice_openflow::Match {
    let mut fields = vec![Field::in_port(packet.in_port)];
    if version >= Version::V1_2 {
        for id in [FieldId::METADATA, FieldId::TUNNEL_ID] {
            let value = packet.fields.get(id).filter(|&value| value != 0);
            fields.extend(value.map(|value| Field::new(id, value)));
        }
    }
    fields.into_iter().collect()
}

/// The reason in `version`: before 1.4, actions of flow entries, groups and packet-outs share one.
fn reason_in(version: Version, reason: PacketInReason) -> PacketInReason {
    let since_1_4 = [PacketInReason::ACTION_SET, PacketInReason::GROUP, PacketInReason::PACKET_OUT];
    if version < Version::V1_4 && since_1_4.contains(&reason) {
        PacketInReason::ACTION
    } else {
        reason
    }
}
