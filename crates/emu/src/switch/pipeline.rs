//! Frames on their way through tables, actions and groups, to ports. §5.1, §5.9 to §5.11.

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::model::{ConfigFlags, GroupId, TableConfig};
use sluice_openflow::{Action, Field, FieldId, PacketInReason, PortNo, Version};

use super::meters::Verdict;
use super::packet::{Packet, Ttl};
use super::ports::Spread;
use super::table::Steps;
use super::{ModelSwitch, Outbox};

/// Groups that a packet may be in at once. A loop is refused when the group comes; this bounds what is left.
const GROUP_DEPTH_MAX: u8 = 16;
/// Copies of one packet that groups may make of it: groups in groups multiply.
const GROUP_COPIES_MAX: u32 = 4096;

/// On whose behalf something is done with a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct From {
    pub(super) table_id: u8,
    /// Mark of the rule.
    pub(super) cookie: u64,
    /// What the controller is told if the packet goes up.
    pub(super) reason: PacketInReason,
    depth: u8,
}

impl From {
    /// On behalf of the controller.
    pub(super) const fn packet_out() -> Self {
        let reason = PacketInReason::PACKET_OUT;
        Self { table_id: 0, cookie: NO_RULE, reason, depth: 0 }
    }

    /// The same for the reason that `reason` says, unless there was no rule.
    const fn because(self, reason: PacketInReason) -> Self {
        let is_miss = self.reason.0 == PacketInReason::TABLE_MISS.0;
        Self { reason: if is_miss { self.reason } else { reason }, ..self }
    }
}

/// The cookie where there is no rule.
const NO_RULE: u64 = u64::MAX;

/// What is done with a packet at the end: one action of each sort. §5.10.
#[derive(Debug, Default)]
pub(super) struct ActionSet {
    actions: Vec<Action>,
}

/// The place of an action among those of a set. §5.10.
fn rank(action: &Action) -> u8 {
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
    /// The set of these actions; of one sort the last counts.
    pub(super) fn of(actions: &[Action]) -> Self {
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
                Some(place) => place.clone_from(action),
                None => self.actions.push(action.clone()),
            }
        }
    }

    /// The actions in the order in which a set is done; a group hides an output.
    pub(super) fn into_actions(self) -> Vec<Action> {
        let mut actions = self.actions;
        actions.sort_by_key(rank);
        if actions.iter().any(|it| matches!(it, Action::Group { .. })) {
            actions.retain(|it| !matches!(it, Action::Output { .. }));
        }
        actions
    }
}

/// What a table has for a packet.
enum Met {
    Rule(Arc<Steps>, From),
    /// No rule, in a version where that is a matter of the table.
    Up,
    Next,
    Nothing,
}

impl ModelSwitch {
    /// Takes a packet through the tables, from the first on.
    pub(super) fn through_tables(&mut self, now: Instant, packet: &mut Packet, out: &mut Outbox) {
        let (mut set, mut table_id) = (ActionSet::default(), 0);
        let from = loop {
            let (steps, from) = match self.meet(now, table_id, packet) {
                Met::Rule(steps, from) => (steps, from),
                Met::Up => {
                    let reason = PacketInReason::NO_MATCH;
                    let from = From { table_id, cookie: NO_RULE, reason, depth: 0 };
                    let max_len = self.session.config.miss_send_len;
                    return self.send_up(now, packet, max_len, &from, out);
                }
                Met::Next => {
                    table_id += 1;
                    continue;
                }
                Met::Nothing => {
                    self.counts.drops.no_match += 1;
                    return;
                }
            };
            if steps.meter.is_some_and(|id| !self.pass(now, id, packet)) {
                return;
            }
            if !self.act(now, packet, &steps.apply, &from, out) {
                return;
            }
            if steps.clear {
                set = ActionSet::default();
            }
            set.write(&steps.write);
            if let Some((value, mask)) = steps.metadata {
                let field = Field::new(FieldId::METADATA, value.into()).masked(mask.into());
                packet.set_field(&field);
            }
            match steps.goto_table {
                Some(next) => table_id = next,
                None => break from,
            }
        };
        let from = from.because(PacketInReason::ACTION_SET);
        if self.act(now, packet, &set.into_actions(), &from, out) && packet.sent == 0 {
            self.counts.drops.rule += 1;
        }
    }

    fn meet(&mut self, now: Instant, table_id: u8, packet: &Packet) -> Met {
        let version = self.session.version();
        let is_last = usize::from(table_id) + 1 >= self.tables.len();
        let Some(table) = self.tables.get_mut(usize::from(table_id)) else { return Met::Nothing };
        if let Some(entry) = table.meet(now, packet) {
            let is_miss = entry.is_table_miss() && version >= Version::V1_3;
            let reason = if is_miss { PacketInReason::TABLE_MISS } else { PacketInReason::ACTION };
            let from = From { table_id, cookie: entry.cookie, reason, depth: 0 };
            return Met::Rule(Arc::clone(&entry.steps), from);
        }
        match version {
            Version::V1_0 => Met::Up,
            Version::V1_1 | Version::V1_2 => {
                if table.config.contains(TableConfig::TABLE_MISS_DROP) {
                    Met::Nothing
                } else if !table.config.contains(TableConfig::TABLE_MISS_CONTINUE) {
                    Met::Up
                } else if is_last {
                    Met::Nothing
                } else {
                    Met::Next
                }
            }
            _ => Met::Nothing,
        }
    }

    /// Lets a packet through a meter, marks it, or drops it; false if it is gone.
    pub(super) fn pass(&mut self, now: Instant, meter_id: u32, packet: &mut Packet) -> bool {
        match self.meters.pass(now, meter_id, packet.bytes.len()) {
            Verdict::Pass => true,
            Verdict::Drop => {
                self.counts.drops.meter += 1;
                false
            }
            Verdict::Remark(levels) => {
                packet.raise_drop_precedence(levels);
                true
            }
        }
    }

    /// Does a list of actions, and counts a packet of which nothing came.
    pub(super) fn act_all(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        actions: &[Action],
        from: &From,
        out: &mut Outbox,
    ) {
        if self.act(now, packet, actions, from, out) && packet.sent == 0 {
            self.counts.drops.rule += 1;
        }
    }

    /// Does one action after the other; false if the packet is gone.
    fn act(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        actions: &[Action],
        from: &From,
        out: &mut Outbox,
    ) -> bool {
        for action in actions {
            match action {
                Action::Output { port, max_len } => {
                    self.output(now, packet, *port, *max_len, from, out);
                }
                Action::Enqueue { port, .. } => {
                    self.output(now, packet, *port, Action::WHOLE, from, out);
                }
                Action::Group { group_id } => {
                    self.through_group(now, packet, GroupId(*group_id), from, out);
                }
                Action::Meter { meter_id } if !self.pass(now, *meter_id, packet) => return false,
                Action::DecNwTtl if !self.count_down(now, packet, Ttl::Ip, from, out) => {
                    return false;
                }
                Action::DecMplsTtl if !self.count_down(now, packet, Ttl::Mpls, from, out) => {
                    return false;
                }
                Action::SetNwTtl { nw_ttl } => packet.set_ttl(Ttl::Ip, *nw_ttl),
                Action::SetMplsTtl { mpls_ttl } => packet.set_ttl(Ttl::Mpls, *mpls_ttl),
                Action::PushVlan { ethertype } => packet.push_vlan(*ethertype),
                Action::PopVlan => packet.pop_vlan(),
                Action::PushMpls { ethertype } => packet.push_mpls(*ethertype),
                Action::PopMpls { ethertype } => packet.pop_mpls(*ethertype),
                Action::SetField { field } => {
                    if let Some(field) = field.field() {
                        packet.set_field(field);
                    }
                }
                // Queues are all alike, and everything else was refused when it came.
                _ => {}
            }
        }
        true
    }

    /// Counts the time to live down; false if it ran out, and with it the packet. §5.12.
    fn count_down(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        ttl: Ttl,
        from: &From,
        out: &mut Outbox,
    ) -> bool {
        let Some(hops) = packet.ttl(ttl) else { return true };
        if hops > 1 {
            packet.set_ttl(ttl, hops - 1);
            return true;
        }
        self.counts.drops.ttl += 1;
        let config = self.session.config;
        let tells = match self.session.version() {
            Version::V1_0 => false,
            Version::V1_1 | Version::V1_2 => {
                config.flags.contains(ConfigFlags::INVALID_TTL_TO_CONTROLLER)
            }
            _ => self.session.wants_packet(PacketInReason::INVALID_TTL),
        };
        if tells {
            let from = From { reason: PacketInReason::INVALID_TTL, ..*from };
            self.send_up(now, packet, config.miss_send_len, &from, out);
        }
        false
    }

    fn output(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        port: PortNo,
        max_len: u16,
        from: &From,
        out: &mut Outbox,
    ) {
        match port {
            PortNo::CONTROLLER => self.send_up(now, packet, max_len, from, out),
            PortNo::TABLE => {
                packet.sent += 1;
                let mut again = packet.clone();
                again.sent = 0;
                self.through_tables(now, &mut again, out);
            }
            PortNo::IN_PORT => self.send(packet, packet.in_port, out),
            PortNo::ALL | PortNo::FLOOD => {
                let how = if port == PortNo::ALL { Spread::All } else { Spread::Flood };
                packet.sent += 1;
                for port in self.ports.spread(how, packet.in_port) {
                    self.send(packet, port, out);
                }
            }
            // Back out only for those who say so. §5.12, `OFPP_IN_PORT`.
            port if port == packet.in_port => {
                packet.sent += 1;
                self.counts.drops.port += 1;
            }
            port => self.send(packet, port, out),
        }
    }

    /// Sends a copy of the packet out of a port.
    fn send(&mut self, packet: &mut Packet, port: PortNo, out: &mut Outbox) {
        packet.sent += 1;
        if self.ports.send(port, packet.bytes.len()) {
            out.frames.push((port, packet.bytes.clone()));
        } else {
            self.counts.drops.port += 1;
        }
    }

    /// Takes copies of a packet through the buckets of a group. §5.6.1.
    fn through_group(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        id: GroupId,
        from: &From,
        out: &mut Outbox,
    ) {
        let hash = packet.fields.flow_hash();
        let buckets = self.groups.choose(id, packet.len(), hash, &self.ports);
        packet.sent += 1;
        let too_many = from.depth >= GROUP_DEPTH_MAX || packet.copies >= GROUP_COPIES_MAX;
        if buckets.is_empty() || too_many {
            self.counts.drops.group += 1;
            return;
        }
        let from = From { depth: from.depth + 1, ..from.because(PacketInReason::GROUP) };
        for actions in buckets {
            packet.copies += 1;
            let mut copy = packet.clone();
            self.act(now, &mut copy, &actions, &from, out);
            packet.copies = copy.copies;
        }
    }
}
