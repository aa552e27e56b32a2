//! The pipeline: a packet passes through tables, actions and groups to ports. §5.1, §5.9 to §5.12.

use std::sync::Arc;

use sluice_openflow::{
    Action, Field, FieldId, GroupId, PacketInReason, PortNo, TableConfig, Version,
};

use crate::action_set::ActionSet;
use crate::instruction_set::InstructionSet;
use crate::packet::{PacketInPipeline, TtlHeader};

/// Maximum depth of nested groups. Switches reject loops when a group is added; this limits long chains.
const GROUP_DEPTH_MAX: u8 = 16;
/// Maximum number of copies that groups make of one packet; nested groups multiply them.
const GROUP_COPIES_MAX: u32 = 4096;

/// The cookie without a flow entry.
const NO_COOKIE: u64 = u64::MAX;

/// What caused an action: the flow entry or message, for packet-ins.
#[derive(Debug, Clone, Copy)]
pub struct ActionOrigin {
    /// The table of the flow entry.
    pub table_id: u8,
    /// Cookie of the flow entry.
    pub cookie: u64,
    /// The reason of a packet-in.
    pub reason: PacketInReason,
    /// Number of groups that contain the action.
    depth: u8,
}

impl ActionOrigin {
    /// Actions of a flow entry.
    pub const fn entry(table_id: u8, cookie: u64, reason: PacketInReason) -> Self {
        Self { table_id, cookie, reason, depth: 0 }
    }

    /// Actions of a `PACKET_OUT`.
    pub const fn packet_out() -> Self {
        Self::entry(0, NO_COOKIE, PacketInReason::PACKET_OUT)
    }

    /// The same origin with another reason, unless it is a table miss.
    const fn with_reason(self, reason: PacketInReason) -> Self {
        let is_miss = self.reason.0 == PacketInReason::TABLE_MISS.0;
        Self { reason: if is_miss { self.reason } else { reason }, ..self }
    }
}

/// The result of a table lookup.
#[derive(Debug)]
pub enum TableResult {
    /// The instructions of the matching flow entry.
    Entry(Arc<InstructionSet>, ActionOrigin),
    /// A miss that the table's configuration sends to the controller (before 1.3).
    ToController,
    /// A miss that the table's configuration sends to the next table (1.1 and 1.2).
    NextTable,
    /// A miss that drops the packet.
    Drop,
}

impl TableResult {
    /// What happens to a packet that no flow entry of a table with this configuration matches.
    pub const fn of_miss(version: Version, config: TableConfig, is_last: bool) -> Self {
        match version {
            Version::V1_0 => Self::ToController,
            Version::V1_1 | Version::V1_2 => {
                if config.contains(TableConfig::TABLE_MISS_DROP) {
                    Self::Drop
                } else if !config.contains(TableConfig::TABLE_MISS_CONTINUE) {
                    Self::ToController
                } else if is_last {
                    Self::Drop
                } else {
                    Self::NextTable
                }
            }
            _ => Self::Drop,
        }
    }
}

/// Why a packet, or a copy of it, is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// No flow entry matches.
    TableMiss,
    /// Neither an action nor the action set has sent it.
    NoOutput,
    /// The TTL has expired.
    TtlExpired,
    /// The output port is the input port.
    InputPort,
    /// The group does not exist, or has no bucket that is live.
    NoBucket,
    /// Groups are nested too deeply, or make too many copies.
    TooManyCopies,
}

/// The ports to which a packet is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodScope {
    /// All ports.
    All,
    /// All ports except those with `NO_FLOOD`.
    Flood,
}

/// A bucket through which a packet passes.
#[derive(Debug, Clone)]
pub struct SelectedBucket {
    /// Its index in the group.
    pub index: usize,
    /// Its actions, in the order of an action set.
    pub actions: Arc<[Action]>,
    /// Whether the packet passes either through this bucket or through one of the others.
    pub is_alternative: bool,
}

/// How an action is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionHandling {
    /// As the specification says.
    Execute,
    /// The datapath has executed it.
    Done,
    /// Nothing more happens to the packet.
    Stop,
}

/// What a packet passes through: the tables of a switch, and what its actions refer to.
pub trait Datapath {
    /// The result of a lookup in a table.
    fn lookup(&mut self, table_id: u8, packet: &PacketInPipeline) -> TableResult;

    /// Applies a meter; `false` if it drops the packet.
    fn apply_meter(&mut self, meter_id: u32, packet: &mut PacketInPipeline) -> bool;

    /// The buckets of a group through which a packet passes.
    fn select_buckets(&mut self, id: GroupId, packet: &PacketInPipeline) -> Vec<SelectedBucket>;

    /// The ports to which a packet from `in_port` is flooded, without this one.
    fn flood_ports(&self, scope: FloodScope, in_port: PortNo) -> Vec<PortNo>;

    /// Sends a copy of the packet to a port.
    fn send(&mut self, packet: &PacketInPipeline, port: PortNo);

    /// Sends a copy of the packet to the controller.
    fn send_to_controller(
        &mut self,
        packet: &mut PacketInPipeline,
        max_len: u16,
        origin: &ActionOrigin,
    );

    /// How many bytes of a packet are sent to the controller if no action says it.
    fn miss_send_len(&self) -> u16;

    /// Whether packets whose TTL has expired are sent to the controller.
    fn reports_invalid_ttl(&self) -> bool;

    /// A packet, or a copy of it, is dropped.
    fn on_drop(&mut self, reason: DropReason);

    /// An action is about to be executed, as one of a bucket if `depth` is more than 0.
    fn before_action(&mut self, _: &Action, _: &PacketInPipeline, _depth: u8) -> ActionHandling {
        ActionHandling::Execute
    }

    /// A copy of a packet is about to pass through a bucket.
    fn before_bucket(&mut self, _: GroupId, _: &SelectedBucket, _depth: u8) {}

    /// The end of the pipeline is reached, and the actions of the action set are executed.
    fn before_action_set(&mut self, _: &[Action]) {}
}

/// Takes a packet through the tables, starting with the first.
pub fn run<D: Datapath>(datapath: &mut D, packet: &mut PacketInPipeline) {
    let (mut set, mut table_id) = (ActionSet::default(), 0);
    let origin = loop {
        let (instructions, origin) = match datapath.lookup(table_id, packet) {
            TableResult::Entry(instructions, origin) => (instructions, origin),
            TableResult::ToController => {
                let origin = ActionOrigin::entry(table_id, NO_COOKIE, PacketInReason::NO_MATCH);
                let max_len = datapath.miss_send_len();
                packet.sent += 1;
                return datapath.send_to_controller(packet, max_len, &origin);
            }
            TableResult::NextTable if table_id < u8::MAX => {
                table_id += 1;
                continue;
            }
            TableResult::NextTable | TableResult::Drop => {
                return datapath.on_drop(DropReason::TableMiss);
            }
        };
        if instructions.meter.is_some_and(|id| !datapath.apply_meter(id, packet)) {
            return;
        }
        if !apply_actions(datapath, packet, instructions.apply(), &origin) {
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
            // Switches reject other tables; so this ends, whatever the tables are.
            Some(next) if next > table_id => table_id = next,
            _ => break origin,
        }
    };
    let origin = origin.with_reason(PacketInReason::ACTION_SET);
    let actions = set.into_actions();
    datapath.before_action_set(&actions);
    if apply_actions(datapath, packet, &actions, &origin) && packet.sent == 0 {
        datapath.on_drop(DropReason::NoOutput);
    }
}

/// Executes actions in order; `false` if the packet was dropped.
pub fn apply_actions<D: Datapath>(
    datapath: &mut D,
    packet: &mut PacketInPipeline,
    actions: &[Action],
    origin: &ActionOrigin,
) -> bool {
    for action in actions {
        match datapath.before_action(action, packet, origin.depth) {
            ActionHandling::Execute => {}
            ActionHandling::Done => continue,
            ActionHandling::Stop => return false,
        }
        match action {
            Action::Output { port, max_len } => output(datapath, packet, *port, *max_len, origin),
            Action::Enqueue { port, .. } => {
                output(datapath, packet, *port, Action::WHOLE, origin);
            }
            Action::Group { group_id } => {
                apply_group(datapath, packet, GroupId(*group_id), origin);
            }
            Action::Meter { meter_id } if !datapath.apply_meter(*meter_id, packet) => {
                return false;
            }
            Action::DecNwTtl if !decrement_ttl(datapath, packet, TtlHeader::Ip, origin) => {
                return false;
            }
            Action::DecMplsTtl if !decrement_ttl(datapath, packet, TtlHeader::Mpls, origin) => {
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
            // All queues behave alike; datapaths handle or reject all others.
            _ => {}
        }
    }
    true
}

/// Decrements the TTL; `false` if it expired and the packet is dropped. §5.12.
fn decrement_ttl<D: Datapath>(
    datapath: &mut D,
    packet: &mut PacketInPipeline,
    ttl: TtlHeader,
    origin: &ActionOrigin,
) -> bool {
    let Some(hops) = packet.ttl(ttl) else { return true };
    if hops > 1 {
        packet.set_ttl(ttl, hops - 1);
        return true;
    }
    datapath.on_drop(DropReason::TtlExpired);
    if datapath.reports_invalid_ttl() {
        let origin = ActionOrigin { reason: PacketInReason::INVALID_TTL, ..*origin };
        packet.sent += 1;
        let max_len = datapath.miss_send_len();
        datapath.send_to_controller(packet, max_len, &origin);
    }
    false
}

fn output<D: Datapath>(
    datapath: &mut D,
    packet: &mut PacketInPipeline,
    port: PortNo,
    max_len: u16,
    origin: &ActionOrigin,
) {
    packet.sent += 1;
    match port {
        PortNo::CONTROLLER => datapath.send_to_controller(packet, max_len, origin),
        PortNo::TABLE => {
            let mut resubmitted = packet.clone();
            resubmitted.sent = 0;
            run(datapath, &mut resubmitted);
        }
        PortNo::IN_PORT => datapath.send(packet, packet.in_port),
        PortNo::ALL | PortNo::FLOOD => {
            let scope = if port == PortNo::ALL { FloodScope::All } else { FloodScope::Flood };
            for port in datapath.flood_ports(scope, packet.in_port) {
                datapath.send(packet, port);
            }
        }
        // Sending to the input port requires `OFPP_IN_PORT`. §5.12.
        port if port == packet.in_port => datapath.on_drop(DropReason::InputPort),
        port => datapath.send(packet, port),
    }
}

/// Runs copies of a packet through the buckets of a group. §5.6.1.
fn apply_group<D: Datapath>(
    datapath: &mut D,
    packet: &mut PacketInPipeline,
    id: GroupId,
    origin: &ActionOrigin,
) {
    let buckets = datapath.select_buckets(id, packet);
    packet.sent += 1;
    if buckets.is_empty() {
        return datapath.on_drop(DropReason::NoBucket);
    }
    if origin.depth >= GROUP_DEPTH_MAX || packet.copies >= GROUP_COPIES_MAX {
        return datapath.on_drop(DropReason::TooManyCopies);
    }
    let origin =
        ActionOrigin { depth: origin.depth + 1, ..origin.with_reason(PacketInReason::GROUP) };
    for bucket in buckets {
        packet.copies += 1;
        let mut copy = packet.clone();
        datapath.before_bucket(id, &bucket, origin.depth);
        apply_actions(datapath, &mut copy, &bucket.actions, &origin);
        packet.copies = copy.copies;
    }
}
