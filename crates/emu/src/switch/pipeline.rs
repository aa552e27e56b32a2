//! The pipeline: frames pass through tables, actions and groups to ports. §5.1, §5.9 to §5.11.

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::{
    Action, ConfigFlags, Field, FieldId, GroupId, PacketInReason, PortNo, TableConfig, Version,
};

use super::flow_table::InstructionSet;
use super::following::FlowEntryId;
use super::meters::MeterResult;
use super::packet::{PacketInPipeline, TtlHeader};
use super::ports::FloodScope;
use super::{EmulatedSwitch, SwitchOutput};

/// Maximum depth of nested groups. Loops are rejected when a group is added; this limits long chains.
const GROUP_DEPTH_MAX: u8 = 16;
/// Maximum number of copies that groups make of one packet; nested groups multiply them.
const GROUP_COPIES_MAX: u32 = 4096;

/// What caused an action: the flow entry or message, for packet-ins.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActionOrigin {
    pub(super) table_id: u8,
    /// Cookie of the flow entry.
    pub(super) cookie: u64,
    /// The reason of a packet-in.
    pub(super) reason: PacketInReason,
    depth: u8,
}

impl ActionOrigin {
    /// Actions of a `PACKET_OUT`.
    pub(super) const fn packet_out() -> Self {
        let reason = PacketInReason::PACKET_OUT;
        Self { table_id: 0, cookie: NO_COOKIE, reason, depth: 0 }
    }

    /// The same origin with another reason, unless it is a table miss.
    const fn with_reason(self, reason: PacketInReason) -> Self {
        let is_miss = self.reason.0 == PacketInReason::TABLE_MISS.0;
        Self { reason: if is_miss { self.reason } else { reason }, ..self }
    }
}

/// The cookie without a flow entry.
const NO_COOKIE: u64 = u64::MAX;

/// The action set, executed at the end of the pipeline: one action of each type. §5.10.
#[derive(Debug, Default)]
pub(super) struct ActionSet {
    actions: Vec<Action>,
}

/// The position of an action in the execution order of an action set. §5.10.
fn execution_order(action: &Action) -> u8 {
    match action {
        Action::PopVlan | Action::PopMpls { .. } => 1,
        Action::PushMpls { .. } => 2,
        Action::PushVlan { .. } => 3,
        Action::DecNwTtl | Action::DecMplsTtl => 4,
        Action::SetQueue { .. } => 6,
        Action::Meter { .. } => 0,
        Action::Group { .. } => 7,
        Action::Output { .. } | Action::Enqueue { .. } => 8,
        _ => 5,
    }
}

impl ActionSet {
    /// The set of these actions; of one type, the last is kept.
    pub(super) fn from_actions(actions: &[Action]) -> Self {
        let mut set = Self::default();
        set.write(actions);
        set
    }

    fn write(&mut self, actions: &[Action]) {
        for action in actions {
            let is_same = |it: &Action| match (it, action) {
                (Action::SetField { field: a }, Action::SetField { field: b }) => {
                    a.id().same_as(b.id())
                }
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            match self.actions.iter_mut().find(|it| is_same(it)) {
                Some(existing) => existing.clone_from(action),
                None => self.actions.push(action.clone()),
            }
        }
    }

    /// The actions in execution order; a group replaces an output.
    pub(super) fn into_actions(self) -> Vec<Action> {
        let mut actions = self.actions;
        actions.sort_by_key(execution_order);
        if actions.iter().any(|it| matches!(it, Action::Group { .. })) {
            actions.retain(|it| !matches!(it, Action::Output { .. }));
        }
        actions
    }
}

/// The result of a table lookup.
enum TableResult {
    Entry(Arc<InstructionSet>, ActionOrigin),
    /// A miss that the table's configuration sends to the controller (before 1.3).
    ToController,
    NextTable,
    Drop,
}

impl EmulatedSwitch {
    /// Runs a packet through the tables, starting with the first.
    pub(super) fn run_pipeline(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        out: &mut SwitchOutput,
    ) {
        let (mut set, mut table_id) = (ActionSet::default(), 0);
        let origin = loop {
            let (instructions, origin) = match self.lookup(now, table_id, packet) {
                TableResult::Entry(instructions, origin) => (instructions, origin),
                TableResult::ToController => {
                    let reason = PacketInReason::NO_MATCH;
                    let origin = ActionOrigin { table_id, cookie: NO_COOKIE, reason, depth: 0 };
                    let max_len = self.session.config.miss_send_len;
                    return self.send_packet_in(now, packet, max_len, &origin, out);
                }
                TableResult::NextTable => {
                    table_id += 1;
                    continue;
                }
                TableResult::Drop => {
                    self.counters.drops.table_miss += 1;
                    return;
                }
            };
            if instructions.meter.is_some_and(|id| !self.apply_meter(now, id, packet)) {
                return;
            }
            if !self.apply_actions(now, packet, instructions.apply(), &origin, out) {
                return;
            }
            if instructions.clear {
                set = ActionSet::default();
            }
            set.write(instructions.write());
            if let Some((value, mask)) = instructions.metadata {
                let field = Field::new(FieldId::METADATA, value.into()).masked(mask.into());
                packet.set_field(&field);
            }
            match instructions.goto_table {
                Some(next) => table_id = next,
                None => break origin,
            }
        };
        let origin = origin.with_reason(PacketInReason::ACTION_SET);
        if self.apply_actions(now, packet, &set.into_actions(), &origin, out) && packet.sent == 0 {
            self.counters.drops.no_output += 1;
        }
    }

    fn lookup(&mut self, now: Instant, table_id: u8, packet: &PacketInPipeline) -> TableResult {
        let version = self.session.version();
        let is_last = usize::from(table_id) + 1 >= self.tables.len();
        let Some(table) = self.tables.get_mut(usize::from(table_id)) else {
            return TableResult::Drop;
        };
        if let Some((index, entry)) = table.lookup_packet(now, packet) {
            if packet.is_followed {
                self.followed.entries.push(FlowEntryId { table_id, index });
            }
            let is_miss = entry.is_table_miss() && version >= Version::V1_3;
            let reason = if is_miss { PacketInReason::TABLE_MISS } else { PacketInReason::ACTION };
            let origin = ActionOrigin { table_id, cookie: entry.cookie, reason, depth: 0 };
            return TableResult::Entry(Arc::clone(&entry.instruction_set), origin);
        }
        match version {
            Version::V1_0 => TableResult::ToController,
            Version::V1_1 | Version::V1_2 => {
                if table.config.contains(TableConfig::TABLE_MISS_DROP) {
                    TableResult::Drop
                } else if !table.config.contains(TableConfig::TABLE_MISS_CONTINUE) {
                    TableResult::ToController
                } else if is_last {
                    TableResult::Drop
                } else {
                    TableResult::NextTable
                }
            }
            _ => TableResult::Drop,
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

    /// Executes the actions of a `PACKET_OUT`, and counts a drop if nothing was sent.
    pub(super) fn apply_packet_out_actions(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        actions: &[Action],
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) {
        if self.apply_actions(now, packet, actions, origin, out) && packet.sent == 0 {
            self.counters.drops.no_output += 1;
        }
    }

    /// Executes actions in order; `false` if the packet was dropped.
    fn apply_actions(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        actions: &[Action],
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) -> bool {
        for action in actions {
            match action {
                Action::Output { port, max_len } => {
                    self.output(now, packet, *port, *max_len, origin, out);
                }
                Action::Enqueue { port, .. } => {
                    self.output(now, packet, *port, Action::WHOLE, origin, out);
                }
                Action::Group { group_id } => {
                    self.apply_group(now, packet, GroupId(*group_id), origin, out);
                }
                Action::Meter { meter_id } if !self.apply_meter(now, *meter_id, packet) => {
                    return false;
                }
                Action::DecNwTtl
                    if !self.decrement_ttl(now, packet, TtlHeader::Ip, origin, out) =>
                {
                    return false;
                }
                Action::DecMplsTtl
                    if !self.decrement_ttl(now, packet, TtlHeader::Mpls, origin, out) =>
                {
                    return false;
                }
                Action::SetNwTtl { nw_ttl } => packet.set_ttl(TtlHeader::Ip, *nw_ttl),
                Action::SetMplsTtl { mpls_ttl } => packet.set_ttl(TtlHeader::Mpls, *mpls_ttl),
                Action::PushVlan { ethertype } => packet.push_vlan(*ethertype),
                Action::PopVlan => packet.pop_vlan(),
                Action::PushMpls { ethertype } => packet.push_mpls(*ethertype),
                Action::PopMpls { ethertype } => packet.pop_mpls(*ethertype),
                Action::SetField { field } => {
                    if let Some(field) = field.field() {
                        packet.set_field(field);
                    }
                }
                // All queues behave alike; other actions were rejected during validation.
                _ => {}
            }
        }
        true
    }

    /// Decrements the TTL; `false` if it expired and the packet is dropped. §5.12.
    fn decrement_ttl(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        ttl: TtlHeader,
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) -> bool {
        let Some(hops) = packet.ttl(ttl) else { return true };
        if hops > 1 {
            packet.set_ttl(ttl, hops - 1);
            return true;
        }
        self.counters.drops.ttl_expired += 1;
        let config = self.session.config;
        let is_reported = match self.session.version() {
            Version::V1_0 => false,
            Version::V1_1 | Version::V1_2 => {
                config.flags.contains(ConfigFlags::INVALID_TTL_TO_CONTROLLER)
            }
            _ => self.session.wants_packet(PacketInReason::INVALID_TTL),
        };
        if is_reported {
            let origin = ActionOrigin { reason: PacketInReason::INVALID_TTL, ..*origin };
            self.send_packet_in(now, packet, config.miss_send_len, &origin, out);
        }
        false
    }

    fn output(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        port: PortNo,
        max_len: u16,
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) {
        match port {
            PortNo::CONTROLLER => self.send_packet_in(now, packet, max_len, origin, out),
            PortNo::TABLE => {
                packet.sent += 1;
                let mut resubmitted = packet.clone();
                resubmitted.sent = 0;
                self.run_pipeline(now, &mut resubmitted, out);
            }
            PortNo::IN_PORT => self.send(packet, packet.in_port, out),
            PortNo::ALL | PortNo::FLOOD => {
                let scope = if port == PortNo::ALL { FloodScope::All } else { FloodScope::Flood };
                packet.sent += 1;
                for port in self.ports.flood_ports(scope, packet.in_port) {
                    self.send(packet, port, out);
                }
            }
            // Sending to the input port requires `OFPP_IN_PORT`. §5.12.
            port if port == packet.in_port => {
                packet.sent += 1;
                self.counters.drops.blocked_port += 1;
            }
            port => self.send(packet, port, out),
        }
    }

    /// Sends a copy of the packet to a port.
    fn send(&mut self, packet: &mut PacketInPipeline, port: PortNo, out: &mut SwitchOutput) {
        packet.sent += 1;
        if self.ports.send(port, packet.bytes.len()) {
            if packet.is_followed {
                self.followed.add(port, packet);
            } else {
                out.frames.push((port, packet.bytes.clone()));
            }
        } else {
            self.counters.drops.blocked_port += 1;
        }
    }

    /// Runs copies of a packet through the buckets of a group. §5.6.1.
    fn apply_group(
        &mut self,
        now: Instant,
        packet: &mut PacketInPipeline,
        id: GroupId,
        origin: &ActionOrigin,
        out: &mut SwitchOutput,
    ) {
        let hash = packet.fields.flow_hash();
        let buckets = self.groups.select_buckets(id, packet.len(), hash, &self.ports);
        packet.sent += 1;
        let too_many = origin.depth >= GROUP_DEPTH_MAX || packet.copies >= GROUP_COPIES_MAX;
        if buckets.is_empty() || too_many {
            self.counters.drops.group += 1;
            return;
        }
        let origin =
            ActionOrigin { depth: origin.depth + 1, ..origin.with_reason(PacketInReason::GROUP) };
        for actions in buckets {
            packet.copies += 1;
            let mut copy = packet.clone();
            self.apply_actions(now, &mut copy, &actions, &origin, out);
            packet.copies = copy.copies;
        }
    }
}
