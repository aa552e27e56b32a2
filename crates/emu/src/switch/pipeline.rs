//! Runs packets through the tables of the switch: what the [pipeline](sluice_pipeline) of the specification reads and changes.

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::{Action, ConfigFlags, GroupId, PacketInReason, PortNo, Version};
use sluice_pipeline::{
    ActionOrigin, Datapath, DropReason, FloodScope, PacketInPipeline, SelectedBucket, TableResult,
};

use super::following::FlowEntryId;
use super::meters::MeterResult;
use super::{EmulatedSwitch, SwitchOutput};

/// A switch that processes a packet.
struct ProcessingSwitch<'s> {
    switch: &'s mut EmulatedSwitch,
    now: Instant,
    out: &'s mut SwitchOutput,
}

impl EmulatedSwitch {
    /// Runs a packet through the tables, starting with the first.
    pub(super) fn run_pipeline(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        out: &mut SwitchOutput,
    ) {
        sluice_pipeline::run(&mut ProcessingSwitch { switch: self, now, out }, packet);
    }

    /// Executes the actions of a `PACKET_OUT`, and counts a drop if nothing was sent.
    pub(super) fn apply_packet_out_actions(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        actions: &[Action],
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) {
        let mut processing = ProcessingSwitch { switch: self, now, out };
        if sluice_pipeline::apply_actions(&mut processing, packet, actions, origin)
            && packet.sent == 0
        {
            processing.on_drop(DropReason::NoOutput);
        }
    }

    /// Applies a meter; `false` if it drops the packet.
    pub(super) fn apply_meter(
        &mut self,
        now: Instant,
        meter_id: u32,
        packet: &mut PacketInPipeline,
    ) -> bool {
        match self.meters.pass(now, meter_id, packet.bytes.len()) {
            MeterResult::Pass => true,
            MeterResult::Drop => {
                self.counters.drops.meter += 1;
                false
            }
            MeterResult::Remark(levels) => {
                packet.raise_drop_precedence(levels);
                true
            }
        }
    }
}

impl Datapath for ProcessingSwitch<'_> {
    fn lookup(&mut self, table_id: u8, packet: &PacketInPipeline) -> TableResult {
        let switch = &mut *self.switch;
        let version = switch.session.version();
        let is_last = usize::from(table_id) + 1 >= switch.tables.len();
        let Some(table) = switch.tables.get_mut(usize::from(table_id)) else {
            return TableResult::Drop;
        };
        if let Some((index, entry)) = table.lookup_packet(self.now, packet) {
            if packet.is_followed {
                switch.followed.entries.push(FlowEntryId { table_id, index });
            }
            let is_miss = entry.is_table_miss() && version >= Version::V1_3;
            let reason = if is_miss { PacketInReason::TABLE_MISS } else { PacketInReason::ACTION };
            let origin = ActionOrigin::entry(table_id, entry.cookie, reason);
            return TableResult::Entry(Arc::clone(&entry.instruction_set), origin);
        }
        TableResult::of_miss(version, table.config, is_last)
    }

    fn apply_meter(&mut self, meter_id: u32, packet: &mut PacketInPipeline) -> bool {
        self.switch.apply_meter(self.now, meter_id, packet)
    }

    fn select_buckets(&mut self, id: GroupId, packet: &PacketInPipeline) -> Vec<SelectedBucket> {
        let hash = packet.fields.flow_hash();
        self.switch.groups.select_buckets(id, packet.len(), hash, &self.switch.ports)
    }

    fn flood_ports(&self, scope: FloodScope, in_port: PortNo) -> Vec<PortNo> {
        self.switch.ports.flood_ports(scope, in_port)
    }

    fn send(&mut self, packet: &PacketInPipeline, port: PortNo) {
        let switch = &mut *self.switch;
        if switch.ports.send(port, packet.bytes.len()) {
            if packet.is_followed {
                switch.followed.add(port, packet);
            } else {
                self.out.frames.push((port, packet.bytes.clone()));
            }
        } else {
            switch.counters.drops.blocked_port += 1;
        }
    }

    fn send_to_controller(
        &mut self,
        packet: &mut PacketInPipeline,
        max_len: u16,
        origin: &ActionOrigin,
    ) {
        self.switch.send_packet_in(self.now, packet, max_len, origin, self.out);
    }

    fn miss_send_len(&self) -> u16 {
        self.switch.session.config.miss_send_len
    }

    fn reports_invalid_ttl(&self) -> bool {
        let session = &self.switch.session;
        match session.version() {
            Version::V1_0 => false,
            Version::V1_1 | Version::V1_2 => {
                session.config.flags.contains(ConfigFlags::INVALID_TTL_TO_CONTROLLER)
            }
            _ => session.wants_packet(PacketInReason::INVALID_TTL),
        }
    }

    fn on_drop(&mut self, reason: DropReason) {
        let drops = &mut self.switch.counters.drops;
        let counter = match reason {
            DropReason::TableMiss => &mut drops.table_miss,
            DropReason::NoOutput => &mut drops.no_output,
            DropReason::TtlExpired => &mut drops.ttl_expired,
            DropReason::InputPort => &mut drops.blocked_port,
            DropReason::NoBucket | DropReason::TooManyCopies => &mut drops.group,
        };
        *counter += 1;
    }
}
