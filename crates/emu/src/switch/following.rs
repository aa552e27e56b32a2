//! Following packets through the tables, and removing flow entries as if they had expired.

use std::time::Instant;

use sluice_openflow::{FlowRemovedReason, PortNo};

use super::flow_table::FlowEntry;
use super::{EmulatedSwitch, SwitchOutput};
use sluice_pipeline::PacketInPipeline;

/// A flow entry of a switch. Valid until the entries of its table change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEntryId {
    pub(super) table_id: u8,
    /// Index in the table.
    pub(super) index: usize,
}

/// Most packets whose memory is kept for further ones.
const SPARE_MAX: usize = 16;

/// A parsed frame that is followed through switches.
#[derive(Debug, Clone)]
pub struct FollowedPacket(Box<PacketInPipeline>);

impl FollowedPacket {
    /// Parses a frame; `None` without a complete Ethernet header.
    pub fn parse(frame: Vec<u8>) -> Option<Self> {
        let mut packet = Box::new(PacketInPipeline::unparsed(PortNo::ANY, frame));
        packet.is_followed = true;
        packet.read()?;
        Some(Self(packet))
    }

    /// The frame.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.bytes
    }
}

/// Where a switch sent a followed packet; the buffers are reused.
#[derive(Debug, Default)]
pub struct FollowedOutput {
    /// Packets with their output ports.
    pub packets: Vec<(PortNo, FollowedPacket)>,
    /// The flow entries that the packet and its copies matched.
    pub entries: Vec<FlowEntryId>,
    /// Memory of packets that were followed.
    spare: Vec<FollowedPacket>,
}

impl FollowedOutput {
    /// Adds a copy of a packet in the pipeline.
    pub(super) fn add(&mut self, port: PortNo, packet: &PacketInPipeline) {
        let copy = match self.spare.pop() {
            Some(FollowedPacket(mut copy)) => {
                copy.as_mut().clone_from(packet);
                copy
            }
            None => Box::new(packet.clone()),
        };
        self.packets.push((port, FollowedPacket(copy)));
    }
}

impl EmulatedSwitch {
    /// Runs a packet that arrives at `in_port` through the pipeline as [`on_frame`](Self::on_frame) does, counters of
    /// flow entries included, except that the controller gets no packet-in: shows where the tables alone send it. What was in `out` is replaced.
    pub fn follow(
        &mut self,
        now: Instant,
        in_port: PortNo,
        mut packet: FollowedPacket,
        out: &mut FollowedOutput,
    ) {
        out.packets.clear();
        out.entries.clear();
        // The buffers are exchanged, so that both are reused.
        std::mem::swap(&mut self.followed, out);
        packet.0.enter(in_port);
        self.run_pipeline(now, &mut packet.0, &mut SwitchOutput::default());
        std::mem::swap(&mut self.followed, out);
        if out.spare.len() < SPARE_MAX {
            out.spare.push(packet);
        }
    }

    /// The flow entry with this id.
    pub fn flow_entry(&self, id: FlowEntryId) -> Option<&FlowEntry> {
        self.tables.get(usize::from(id.table_id))?.at(id.index)
    }

    /// Removes a flow entry as if one of its timeouts had passed; one without timeouts, as if it had been deleted. Sends
    /// `FLOW_REMOVED` if the entry asks for it. §5.5.
    pub fn expire_flow_entry(&mut self, now: Instant, id: FlowEntryId, out: &mut SwitchOutput) {
        let table = self.tables.get_mut(usize::from(id.table_id));
        let Some(entry) = table.and_then(|table| table.take(id.index)) else { return };
        let reason = match (entry.idle_timeout_s, entry.hard_timeout_s) {
            (0, 0) => FlowRemovedReason::DELETE,
            (0, _) => FlowRemovedReason::HARD_TIMEOUT,
            _ => FlowRemovedReason::IDLE_TIMEOUT,
        };
        self.send_flow_removed(now, id.table_id, &entry, reason, out);
    }
}
