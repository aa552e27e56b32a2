//! Tables, groups, meters and ports of a switch, as it has reported them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_openflow::{
    Action, Bucket, FieldId, FlowDesc, GroupDesc, GroupId, GroupType, Match, MeterDesc, Port,
    PortNo, TableConfig, TableStats, Version,
};

use crate::action_set::ActionSet;
use crate::buckets::GroupTable;
use crate::fields::{NormalizedMatch, PacketFields, field_slot};
use crate::instruction_set::InstructionSet;

/// What decides how a switch processes packets.
#[derive(Debug)]
pub struct SwitchState {
    pub(super) version: Version,
    tables: BTreeMap<u8, Vec<ReportedEntry>>,
    configs: BTreeMap<u8, TableConfig>,
    pub(super) groups: BTreeMap<GroupId, ReportedGroup>,
    pub(super) meters: BTreeMap<u32, MeterDesc>,
    ports: Vec<Port>,
}

/// A flow entry.
#[derive(Debug)]
struct ReportedEntry {
    flow: Arc<FlowDesc>,
    /// The part of the match that is modelled.
    pattern: NormalizedMatch,
    /// The first thing in the entry that is not modelled, so that it is not known whether the entry matches.
    unmodelled: Option<String>,
    instructions: Arc<InstructionSet>,
}

/// A group.
#[derive(Debug)]
pub(super) struct ReportedGroup {
    pub(super) kind: GroupType,
    pub(super) buckets: Vec<Bucket>,
    /// The actions of each bucket, in the order of an action set.
    pub(super) actions: Vec<Arc<[Action]>>,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) struct Found<'s> {
    pub(super) entry: Option<(&'s Arc<FlowDesc>, &'s Arc<InstructionSet>)>,
    /// What makes the result uncertain.
    pub(super) notes: Vec<String>,
}

/// Fields that are 0 until an action sets them, which no modelled action does: those of Open vSwitch outside of packets.
const ZERO_PREFIXES: [&str; 7] = ["reg", "xreg", "xxreg", "ct_", "tun_", "pkt_mark", "packet_type"];

impl SwitchState {
    /// The state of a switch with these ports and without flow entries, in the version of its session.
    pub fn new(version: Version, ports: Vec<Port>) -> Self {
        let (tables, configs) = (BTreeMap::new(), BTreeMap::new());
        let (groups, meters) = (BTreeMap::new(), BTreeMap::new());
        Self { version, tables, configs, groups, meters, ports }
    }

    /// Adds flow entries.
    pub fn add_flows(&mut self, flows: Vec<FlowDesc>) {
        for flow in flows {
            if let Some(entry) = ReportedEntry::new(flow, self.version) {
                self.tables.entry(entry.flow.table_id).or_default().push(entry);
            }
        }
    }

    /// Adds groups.
    pub fn add_groups(&mut self, groups: Vec<GroupDesc>) {
        for group in groups {
            let actions = group.buckets.iter();
            let actions =
                actions.map(|it| ActionSet::from_actions(&it.actions).into_actions().into());
            let (kind, actions) = (group.group_type, actions.collect());
            let reported = ReportedGroup { kind, buckets: group.buckets, actions };
            self.groups.insert(group.group_id, reported);
        }
    }

    /// Adds meters.
    pub fn add_meters(&mut self, meters: Vec<MeterDesc>) {
        self.meters.extend(meters.into_iter().map(|meter| (meter.meter_id.0, meter)));
    }

    /// Adds the configuration of tables, which says in 1.1 and 1.2 what happens to packets that no entry matches.
    pub fn add_table_configs(&mut self, tables: &[TableStats]) {
        self.configs.extend(tables.iter().map(|table| (table.table_id, table.config)));
    }

    pub(super) fn config(&self, table_id: u8) -> TableConfig {
        self.configs.get(&table_id).copied().unwrap_or_default()
    }

    /// Whether no table follows.
    pub(super) fn is_last(&self, table_id: u8) -> bool {
        let ids = self.tables.keys().chain(self.configs.keys());
        ids.max().is_none_or(|&last| table_id >= last)
    }

    pub(super) fn port(&self, port: PortNo) -> Option<&Port> {
        self.ports.iter().find(|it| it.port_no == port)
    }

    pub(super) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The matching entry with the highest priority.
    ///
    /// # Cost
    /// Looks at all entries of the table.
    pub(super) fn find(&self, table_id: u8, fields: &PacketFields) -> Found<'_> {
        let all = self.tables.get(&table_id).map(Vec::as_slice).unwrap_or_default();
        let matching = || all.iter().filter(|it| it.pattern.matches(fields));
        let mut best: Option<&ReportedEntry> = None;
        let mut is_ambiguous = false;
        for entry in matching().filter(|it| it.unmodelled.is_none()) {
            let priority = best.map(|best| best.flow.priority);
            if priority.is_none_or(|best| entry.flow.priority > best) {
                (best, is_ambiguous) = (Some(entry), false);
            } else if priority == Some(entry.flow.priority) {
                is_ambiguous = true;
            }
        }
        let mut notes = Vec::new();
        if is_ambiguous {
            let note = "several entries of this priority match: the specification leaves open which one is used";
            notes.push(note.to_owned());
        }
        let least = best.map_or(0, |best| best.flow.priority);
        let uncertain = matching().filter_map(|it| {
            it.unmodelled.as_deref().filter(|_| it.flow.priority >= least).map(|why| (it, why))
        });
        notes.extend(uncertain.take(UNCERTAIN_MAX).map(|(entry, why)| {
            let priority = entry.flow.priority;
            format!("an entry of priority {priority} may match instead: {why} is not modelled")
        }));
        Found { entry: best.map(|it| (&it.flow, &it.instructions)), notes }
    }
}

/// Entries that are named because it is not known whether they match.
const UNCERTAIN_MAX: usize = 3;

impl ReportedEntry {
    /// `None` if no packet can match.
    fn new(flow: FlowDesc, version: Version) -> Option<Self> {
        let mut unmodelled = None;
        let mut fields = Vec::new();
        for oxm in &flow.matching.fields {
            let id = oxm.id();
            if field_slot(id).is_some() {
                fields.push(oxm.clone());
            } else if let Some(field) = oxm.field().filter(|_| is_zero(id)) {
                if field.value & field.mask.unwrap_or(u128::MAX) != 0 {
                    return None;
                }
            } else {
                unmodelled.get_or_insert_with(|| format!("the field {}", id.name()));
            }
        }
        let pattern = NormalizedMatch::new(&Match { fields }, version, &[]);
        if pattern.is_err() {
            unmodelled.get_or_insert_with(|| "its match".to_owned());
        }
        let instructions = InstructionSet::new(flow.instructions.clone());
        if instructions.actions().any(|it| matches!(it, Action::Conjunction { .. })) {
            unmodelled.get_or_insert_with(|| "conjunction".to_owned());
        }
        let (pattern, instructions) = (pattern.unwrap_or_default(), Arc::new(instructions));
        Some(Self { flow: Arc::new(flow), pattern, unmodelled, instructions })
    }
}

/// Whether a field is 0 in every packet.
fn is_zero(id: FieldId) -> bool {
    let name = id.name();
    ZERO_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl GroupTable for SwitchState {
    fn buckets(&self, id: GroupId) -> Option<&[Bucket]> {
        self.groups.get(&id).map(|group| group.buckets.as_slice())
    }

    fn is_port_live(&self, port: PortNo) -> bool {
        self.port(port).is_some_and(Port::is_up)
    }
}
