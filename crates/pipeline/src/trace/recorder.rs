//! Runs a packet through the tables of a switch and records what happens.

use std::sync::Arc;

use sluice_openflow::{
    Action, FieldId, FlowDesc, GroupId, GroupType, PacketInReason, PortConfig, PortNo, Version,
};

use super::state::{Found, SwitchState};
use super::{
    MissResult, OutputTo, Step, StepKind, SwitchTrace, TracedDrop, TracedDropReason, TracedOutput,
};
use crate::buckets;
use crate::execute::{
    ActionHandling, ActionOrigin, Datapath, DropReason, FloodScope, SelectedBucket, TableResult,
    run,
};
use crate::fields::field_slot;
use crate::packet::{PacketInPipeline, can_set};

/// How much a trace records before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Steps.
    pub steps: usize,
    /// Bytes of the packets that are sent; copies that do not differ from the one before them count once.
    pub frame_bytes: usize,
}

/// Traces a frame that arrives at a port; `None` without a complete Ethernet header.
pub fn trace(
    state: &SwitchState,
    in_port: PortNo,
    frame: Vec<u8>,
    limits: TraceLimits,
) -> Option<SwitchTrace> {
    let mut packet = PacketInPipeline::new(in_port, frame)?;
    let mut recorder = Recorder {
        state,
        steps_max: limits.steps,
        frame_bytes_left: limits.frame_bytes,
        trace: SwitchTrace::default(),
        entry: None,
        depth: 0,
        choices: Vec::new(),
        is_cut: false,
    };
    let port = state.port(in_port);
    if port.is_some_and(|port| !port.is_up()) {
        recorder.drop(TracedDropReason::InputPortDown(in_port));
    } else if port.is_some_and(|port| port.config.contains(PortConfig::NO_RECV)) {
        recorder.drop(TracedDropReason::NoReceiving(in_port));
    } else {
        run(&mut recorder, &mut packet);
    }
    Some(recorder.trace)
}

/// A switch that records what it would do.
struct Recorder<'s> {
    state: &'s SwitchState,
    steps_max: usize,
    frame_bytes_left: usize,
    trace: SwitchTrace,
    /// The last flow entry that matched.
    entry: Option<Arc<FlowDesc>>,
    /// The number of groups that contain the current action.
    depth: u8,
    /// The depths of the buckets around the current action that are alternatives.
    choices: Vec<u8>,
    /// Whether there were too many steps or bytes.
    is_cut: bool,
}

impl Recorder<'_> {
    fn step(&mut self, kind: StepKind) {
        if self.trace.steps.len() < self.steps_max {
            self.trace.steps.push(Step { depth: self.depth, kind });
        } else {
            self.cut();
        }
    }

    /// Ends the trace: there are too many steps or bytes.
    fn cut(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            let (frame, fields, is_alternative) = <_>::default();
            let cut = TracedOutput { to: OutputTo::Limit, frame, fields, is_alternative };
            self.trace.outputs.push(cut);
            let kind = StepKind::Output(self.trace.outputs.len() - 1);
            self.trace.steps.push(Step { depth: self.depth, kind });
        }
    }

    fn enter(&mut self, depth: u8) {
        self.depth = depth;
        self.choices.retain(|&choice| choice <= depth);
    }

    fn output(&mut self, to: OutputTo, packet: &PacketInPipeline) {
        if self.is_cut || self.trace.steps.len() >= self.steps_max {
            return self.cut();
        }
        let Some(frame) = self.frame(packet) else { return self.cut() };
        self.trace.outputs.push(TracedOutput {
            to,
            frame,
            fields: packet.header_fields(),
            is_alternative: !self.choices.is_empty(),
        });
        self.step(StepKind::Output(self.trace.outputs.len() - 1));
    }

    /// The bytes of a packet: those of the last copy, if they are the same. `None` if they are too many.
    fn frame(&mut self, packet: &PacketInPipeline) -> Option<Arc<[u8]>> {
        let last = self.trace.outputs.last().map(|output| &output.frame);
        if let Some(same) = last.filter(|frame| ***frame == *packet.bytes) {
            return Some(Arc::clone(same));
        }
        self.frame_bytes_left = self.frame_bytes_left.checked_sub(packet.bytes.len())?;
        Some(packet.bytes.as_slice().into())
    }

    fn drop(&mut self, reason: TracedDropReason) {
        let (entry, is_alternative) = (self.entry.clone(), !self.choices.is_empty());
        self.step(StepKind::Dropped(TracedDrop { reason, entry, is_alternative }));
    }

    fn note(&mut self, note: impl Into<String>) {
        self.step(StepKind::Note(note.into()));
    }
}

impl Datapath for Recorder<'_> {
    fn lookup(&mut self, table_id: u8, packet: &PacketInPipeline) -> TableResult {
        self.enter(0);
        let Found { entry, notes } = self.state.find(table_id, &packet.fields);
        let version = self.state.version;
        let result = if let Some((flow, instructions)) = entry {
            self.entry = Some(Arc::clone(flow));
            self.step(StepKind::Entry(Arc::clone(flow)));
            let is_miss =
                flow.priority == 0 && flow.matching.fields.is_empty() && version >= Version::V1_3;
            let reason = if is_miss { PacketInReason::TABLE_MISS } else { PacketInReason::ACTION };
            let origin = ActionOrigin::entry(table_id, flow.cookie, reason);
            TableResult::Entry(Arc::clone(instructions), origin)
        } else {
            let (config, is_last) = (self.state.config(table_id), self.state.is_last(table_id));
            let result = TableResult::of_miss(version, config, is_last);
            let miss = match result {
                TableResult::ToController => MissResult::ToController,
                TableResult::NextTable => MissResult::NextTable,
                TableResult::Entry(..) | TableResult::Drop => MissResult::Drop,
            };
            self.entry = None;
            self.step(StepKind::Miss { table_id, result: miss });
            result
        };
        for note in notes {
            self.note(note);
        }
        result
    }

    fn apply_meter(&mut self, meter_id: u32, _: &mut PacketInPipeline) -> bool {
        let note = if self.state.meters.contains_key(&meter_id) {
            format!("meter {meter_id} passes the packet, unless its rate is exceeded")
        } else {
            format!("meter {meter_id} does not exist: the packet passes")
        };
        self.note(note);
        true
    }

    fn select_buckets(&mut self, id: GroupId, _: &PacketInPipeline) -> Vec<SelectedBucket> {
        let Some(group) = self.state.groups.get(&id) else { return vec![] };
        let candidates = buckets::candidates(self.state, group.kind, &group.buckets);
        let is_alternative = group.kind == GroupType::SELECT && candidates.len() > 1;
        let bucket = |(index, _): (usize, u64)| {
            let actions = Arc::clone(group.actions.get(index)?);
            Some(SelectedBucket { index, actions, is_alternative })
        };
        candidates.into_iter().filter_map(bucket).collect()
    }

    fn flood_ports(&self, scope: FloodScope, in_port: PortNo) -> Vec<PortNo> {
        let floods = self.state.ports().iter().filter(|port| {
            let is_excluded =
                scope == FloodScope::Flood && port.config.contains(PortConfig::NO_FLOOD);
            port.is_up() && !is_excluded && port.port_no != in_port
        });
        floods.map(|port| port.port_no).collect()
    }

    fn send(&mut self, packet: &PacketInPipeline, port: PortNo) {
        match self.state.port(port) {
            None => self.drop(TracedDropReason::NoSuchPort(port)),
            Some(state) if !state.is_up() => self.drop(TracedDropReason::PortDown(port)),
            Some(state) if state.config.contains(PortConfig::NO_FWD) => {
                self.drop(TracedDropReason::NoForwarding(port));
            }
            Some(_) => self.output(OutputTo::Port(port), packet),
        }
    }

    fn send_to_controller(&mut self, packet: &mut PacketInPipeline, _: u16, origin: &ActionOrigin) {
        let port = self.state.port(packet.in_port);
        if port.is_some_and(|port| port.config.contains(PortConfig::NO_PACKET_IN)) {
            return self.drop(TracedDropReason::NoPacketIn(packet.in_port));
        }
        let (reason, table_id) = (origin.reason, origin.table_id);
        self.output(OutputTo::Controller { reason, table_id }, packet);
    }

    fn miss_send_len(&self) -> u16 {
        Action::WHOLE
    }

    fn reports_invalid_ttl(&self) -> bool {
        // Only if the controller has asked for it, which ours does not.
        false
    }

    fn on_drop(&mut self, reason: DropReason) {
        self.drop(TracedDropReason::Pipeline(reason));
    }

    fn before_action(
        &mut self,
        action: &Action,
        packet: &PacketInPipeline,
        depth: u8,
    ) -> ActionHandling {
        self.enter(depth);
        self.step(StepKind::Action(action.clone()));
        if self.is_cut {
            return ActionHandling::Stop;
        }
        match action {
            Action::Output { port: PortNo::NORMAL, .. } => {
                self.output(OutputTo::Normal, packet);
                ActionHandling::Done
            }
            _ if is_modelled(action) => ActionHandling::Execute,
            _ => {
                self.output(OutputTo::Unmodelled(action.clone()), packet);
                ActionHandling::Stop
            }
        }
    }

    fn before_bucket(&mut self, group: GroupId, bucket: &SelectedBucket, depth: u8) {
        self.enter(depth);
        self.choices.retain(|&choice| choice < depth);
        let kind = self.state.groups.get(&group).map(|it| it.kind).unwrap_or_default();
        let is_alternative = bucket.is_alternative;
        if is_alternative {
            self.choices.push(depth);
        }
        self.step(StepKind::Bucket { group, kind, index: bucket.index, is_alternative });
    }

    fn before_action_set(&mut self, actions: &[Action]) {
        self.enter(0);
        if !actions.is_empty() {
            self.step(StepKind::ActionSet);
        }
    }
}

/// Whether an action is executed as a switch does.
fn is_modelled(action: &Action) -> bool {
    match action {
        // A flow entry cannot send to the tables.
        Action::Output { port, .. } => *port != PortNo::TABLE,
        Action::SetField { field } => field.field().is_some_and(|field| {
            let id = field.id.canonical();
            field_slot(id).is_some() && can_set(id) && id != FieldId::IN_PORT
        }),
        Action::Enqueue { .. }
        | Action::SetQueue { .. }
        | Action::Group { .. }
        | Action::Meter { .. }
        | Action::DecNwTtl
        | Action::DecMplsTtl
        | Action::SetNwTtl { .. }
        | Action::SetMplsTtl { .. }
        | Action::PushVlan { .. }
        | Action::PopVlan
        | Action::PushMpls { .. }
        | Action::PopMpls { .. } => true,
        _ => false,
    }
}
