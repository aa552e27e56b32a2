//! Makes the entries of a version of a policy from its flow entries.
//!
//! A flow entry becomes
//! - *ingress entries*, which match untagged packets at one port that leads out of the network each; what they send to another switch of
//!   the policy gets the tag;
//! - a *transit entry*, which matches packets with the tag; what it sends out of the network loses the tag.
//!
//! A packet with the tag that matches no transit entry is dropped: entries of applications and of other policies do not process it. A
//! packet that a host sends with the tag is dropped where it enters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_base::{HashMap, ordered};
use sluice_openflow::{
    Action, DatapathId, Field, FieldId, FlowMod, Instruction, Match, Oxm, PortNo, VlanId,
};
use sluice_sdk::view::{NetworkView, PortInfo, PortRole, SwitchInfo};

use super::{
    FlowError, POLICY_BYTES_MAX, POLICY_ENTRIES_MAX, PolicyError, PolicyVersion, SwitchEntries,
};
use crate::entry::{Declaration, Entry, Key, Kind, POLICY_NAME, Reserved, Selector, parse_flow};
use crate::form::Slot;

/// Ethertype of the tag.
const TAG_TYPE: u16 = 0x8100;

/// Drops packets with the tag that match nothing else: below all flow entries of policies, above those of applications that match
/// packets of any VLAN.
const MISS_PRIORITY: u16 = 7;

/// Drops packets with the tag at ports that lead out of the network: above all flow entries of policies.
const GUARD_PRIORITY: u16 = 65_531;

/// The ports and links of all switches, as far as policies have to know them.
#[derive(Debug, Default)]
pub struct PolicyTopology {
    switches: BTreeMap<DatapathId, Vec<PolicyPort>>,
}

#[derive(Debug)]
struct PolicyPort {
    port: PortNo,
    /// The switch at the other end of its link.
    peer: Option<DatapathId>,
    /// Whether it is not known yet what it is connected to.
    is_pending: bool,
}

impl PolicyTopology {
    /// What the view has of its switches.
    pub fn new(view: &NetworkView) -> Self {
        let ports = |(id, info): (DatapathId, &SwitchInfo)| {
            let peers: BTreeMap<_, _> =
                ordered(view.links_of(id).map(|link| (link.from.port, link.to.switch)));
            let port = |(&port, info): (&PortNo, &PortInfo)| PolicyPort {
                port,
                peer: peers.get(&port).copied(),
                // A link of which one direction is not known may be one that is being lost or found.
                is_pending: match info.role {
                    PortRole::Pending => info.is_up,
                    PortRole::Link => !peers.contains_key(&port),
                    _ => false,
                },
            };
            (id, info.ports.iter().map(port).collect())
        };
        Self { switches: ordered(view.switches().map(ports)) }
    }

    /// Switches with ports, each with the switch that its link leads to.
    #[cfg(test)]
    pub(crate) fn of(
        switches: impl IntoIterator<Item = (DatapathId, Vec<(u32, Option<DatapathId>)>)>,
    ) -> Self {
        let port = |(port, peer)| PolicyPort { port: PortNo(port), peer, is_pending: false };
        let ports = |(id, ports): (_, Vec<_>)| (id, ports.into_iter().map(port).collect());
        Self { switches: switches.into_iter().map(ports).collect() }
    }
}

/// What flow entries of policies can neither match nor set, and what it is.
const UNSUPPORTED_FIELDS: &[(FieldId, &str)] = &[
    (FieldId::VLAN_VID, "VLAN tags, which show the version"),
    (FieldId::VLAN_PCP, "VLAN tags, which show the version"),
    (FieldId::VLAN_TCI, "VLAN tags, which show the version"),
    (FieldId::IN_PHY_PORT, "in_phy_port"),
    (FieldId::NXM_IN_PORT, "nxm_in_port (in_port is possible)"),
    (FieldId::ACTSET_OUTPUT, "actset_output"),
];

/// A switch of a policy.
#[derive(Debug, Default)]
struct PolicySwitch {
    /// Ports with a link to another switch of the policy.
    transit: BTreeSet<PortNo>,
    /// All others: packets enter and leave the network there.
    outside: BTreeSet<PortNo>,
}

/// The switches of a policy, and the links between them.
#[derive(Debug)]
pub(super) struct PolicyNetwork(BTreeMap<DatapathId, PolicySwitch>);

impl PolicyNetwork {
    pub(super) fn new(
        topology: &PolicyTopology,
        switches: &BTreeSet<DatapathId>,
    ) -> Result<Self, PolicyError> {
        let mut network = BTreeMap::new();
        for &id in switches {
            let not_connected = || PolicyError::NotConnected(id.to_string());
            let ports = topology.switches.get(&id).ok_or_else(not_connected)?;
            if let Some(PolicyPort { port, .. }) = ports.iter().find(|port| port.is_pending) {
                return Err(PolicyError::PortPending { switch: id, port: port.0 });
            }
            let is_transit =
                |port: &&PolicyPort| port.peer.is_some_and(|peer| switches.contains(&peer));
            let (transit, outside): (Vec<_>, Vec<_>) = ports.iter().partition(is_transit);
            let numbers = |ports: Vec<&PolicyPort>| ordered(ports.into_iter().map(|it| it.port));
            let switch = PolicySwitch { transit: numbers(transit), outside: numbers(outside) };
            network.insert(id, switch);
        }
        Ok(Self(network))
    }
}

/// A flow entry of a policy, and the switches that it selects.
#[derive(Debug)]
pub(super) struct PolicyFlow {
    name: String,
    flow: FlowMod,
    switches: BTreeSet<DatapathId>,
}

impl PolicyFlow {
    /// Checks a flow entry.
    pub(super) fn new(
        declaration: &Declaration,
        switches: BTreeSet<DatapathId>,
        reserved: &Reserved,
    ) -> Result<Self, FlowError> {
        let name = declaration.key.name.clone();
        if declaration.key.kind != Kind::Flow {
            let message = format!("is a {}: a policy has flow entries only", declaration.key.kind);
            return Err(FlowError { flow: name, message });
        }
        // With the rules of static entries.
        Entry::new(declaration.clone(), 0, Duration::ZERO, reserved)?;
        let checked = parse_flow(&declaration.text).and_then(|flow| check(&flow).map(|()| flow));
        match checked {
            Ok(flow) => Ok(Self { name, flow, switches }),
            Err(message) => Err(FlowError { flow: name, message }),
        }
    }

    /// The switches that it selects.
    pub(super) fn switches(&self) -> impl Iterator<Item = DatapathId> {
        self.switches.iter().copied()
    }
}

/// Whether packets that a flow entry processes can have the tag without being processed differently.
fn check(flow: &FlowMod) -> Result<(), String> {
    let range = MISS_PRIORITY + 1..=GUARD_PRIORITY - 1;
    if !range.contains(&flow.priority) {
        let (first, last) = range.into_inner();
        return Err(format!("priority {} (a policy has {first} to {last})", flow.priority));
    }
    for (id, why) in UNSUPPORTED_FIELDS {
        if flow.matching.fields.iter().any(|field| field.id() == *id) {
            return Err(format!("a policy must not match {why}"));
        }
    }
    for instruction in &flow.instructions {
        match instruction {
            Instruction::ApplyActions { actions } => actions.iter().try_for_each(check_action)?,
            Instruction::GotoTable { .. }
            | Instruction::Meter { .. }
            | Instruction::WriteMetadata { .. }
            | Instruction::ClearActions => {}
            other => return Err(format!("`{}` is not possible in a policy", other.to_text())),
        }
    }
    Ok(())
}

fn check_action(action: &Action) -> Result<(), String> {
    let is_possible = match action {
        Action::Output { port, .. } => {
            port.is_real() || [PortNo::IN_PORT, PortNo::LOCAL, PortNo::CONTROLLER].contains(port)
        }
        Action::SetField { field } => {
            let is_unsupported = UNSUPPORTED_FIELDS.iter().any(|(id, _)| field.id() == *id);
            field.id() != FieldId::IN_PORT && !is_unsupported
        }
        Action::SetNwTtl { .. }
        | Action::DecNwTtl
        | Action::SetQueue { .. }
        | Action::Meter { .. }
        | Action::Note { .. } => true,
        _ => false,
    };
    if is_possible {
        return Ok(());
    }
    Err(format!(
        "`{}` is not possible in a policy: only outputs to ports, queues, meters and fields other than VLAN tags can be versioned",
        action.to_text()
    ))
}

/// Where packets come from that an entry matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// From outside of the network, without a tag.
    Outside,
    /// From another switch of the policy, with the tag.
    Transit,
}

/// Makes the entries of a version.
struct Compiler<'a> {
    /// The beginning of the names of all entries.
    prefix: String,
    tag: u16,
    revision: u64,
    changed_at: Duration,
    network: &'a PolicyNetwork,
    entries: BTreeMap<DatapathId, SwitchEntries>,
    /// Which flow entry of the policy has which place in a switch.
    slots: HashMap<(DatapathId, Slot), &'a str>,
    count: usize,
    bytes: usize,
    errors: Vec<FlowError>,
}

/// Makes a version of the policy `name`, whose packets have `tag`.
///
/// # Errors
/// Flow entries that a switch cannot have together, or the switches would get too many entries.
pub(super) fn compile(
    name: &str,
    flows: &[PolicyFlow],
    network: &PolicyNetwork,
    tag: u16,
    (revision, changed_at): (u64, Duration),
) -> Result<PolicyVersion, PolicyError> {
    let tables = |at: &DatapathId| -> BTreeSet<u8> {
        let here = flows.iter().filter(|flow| flow.switches.contains(at));
        ordered(here.map(|flow| flow.flow.table_id).chain([0]))
    };
    let tables: BTreeMap<_, _> = ordered(network.0.keys().map(|at| (*at, tables(at))));
    let prefix = format!("{POLICY_NAME}{name}:{tag}");
    let mut compiler = Compiler {
        prefix,
        tag,
        revision,
        changed_at,
        network,
        entries: ordered(network.0.keys().map(|at| (*at, SwitchEntries::default()))),
        slots: HashMap::default(),
        count: 0,
        bytes: 0,
        errors: vec![],
    };
    for flow in flows {
        for at in &flow.switches {
            compiler.add(flow, *at, tables.get(at))?;
        }
    }
    compiler.add_drops(&tables)?;
    let Compiler { entries, errors, count, .. } = compiler;
    if errors.is_empty() {
        Ok(PolicyVersion { tag, entries, count })
    } else {
        Err(PolicyError::Flows(errors))
    }
}

impl<'a> Compiler<'a> {
    /// Adds the entries that a switch gets for a flow entry.
    fn add(
        &mut self,
        flow: &'a PolicyFlow,
        at: DatapathId,
        tables: Option<&BTreeSet<u8>>,
    ) -> Result<(), PolicyError> {
        let Some(switch) = self.network.0.get(&at) else { return Ok(()) };
        let goto = flow.flow.instructions.iter().find_map(|it| match it {
            Instruction::GotoTable { table_id } => Some(*table_id),
            _ => None,
        });
        if let Some(table) = goto.filter(|table| !tables.is_some_and(|it| it.contains(table))) {
            self.refuse(
                flow,
                format!("goto_table:{table}, where the policy has no entry at switch {at}"),
            );
        }
        let in_port = flow.flow.matching.in_port();
        let is_wanted = |port: &PortNo| in_port.is_none_or(|it| it == *port);
        let local = in_port.filter(|port| *port == PortNo::LOCAL);
        let outside: Vec<_> =
            switch.outside.iter().copied().filter(is_wanted).chain(local).collect();
        let is_transit = in_port.is_none_or(|port| switch.transit.contains(&port));
        if let Some(port) = in_port.filter(|_| outside.is_empty() && !is_transit) {
            self.refuse(flow, format!("in_port={port}: switch {at} has no such port"));
        }
        for port in outside {
            let versioned = version(&flow.flow, Source::Outside, Some(port), self.tag, switch);
            let entry = self.entry(&flow.name, &format!("{at}:{port}"), &versioned, at)?;
            self.take_slot(&entry, flow, at);
            self.entries.entry(at).or_default().ingress.push(entry);
        }
        if is_transit {
            let versioned = version(&flow.flow, Source::Transit, None, self.tag, switch);
            let entry = self.entry(&flow.name, &format!("{at}:transit"), &versioned, at)?;
            self.take_slot(&entry, flow, at);
            self.entries.entry(at).or_default().transit.push(entry);
        }
        Ok(())
    }

    /// Adds what drops packets with the tag: those that nothing else matches, and those that hosts send.
    fn add_drops(
        &mut self,
        tables: &BTreeMap<DatapathId, BTreeSet<u8>>,
    ) -> Result<(), PolicyError> {
        let network = self.network;
        for (&at, switch) in &network.0 {
            for &table in tables.get(&at).into_iter().flatten() {
                let miss = drop_tagged(table, MISS_PRIORITY, None, self.tag);
                let entry = self.entry("miss", &format!("{at}:{table}"), &miss, at)?;
                self.entries.entry(at).or_default().transit.push(entry);
            }
            for &port in &switch.outside {
                let guard = drop_tagged(0, GUARD_PRIORITY, Some(port), self.tag);
                let entry = self.entry("guard", &format!("{at}:{port}"), &guard, at)?;
                self.entries.entry(at).or_default().transit.push(entry);
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        flow: &str,
        place: &str,
        versioned: &FlowMod,
        at: DatapathId,
    ) -> Result<Arc<Entry>, PolicyError> {
        let text = FlowMod { cookie: 0, ..versioned.clone() }.to_text();
        self.count += 1;
        self.bytes += text.len();
        if self.count > POLICY_ENTRIES_MAX {
            return Err(PolicyError::TooManyEntries);
        }
        if self.bytes > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLong);
        }
        let key = Key { kind: Kind::Flow, name: format!("{}:{flow}:{place}", self.prefix) };
        let switches = Selector::Switches(vec![at.to_string()]);
        let declaration = Declaration { key, switches, text };
        Ok(Arc::new(Entry::of_policy(declaration, self.revision, self.changed_at)))
    }

    /// Two flow entries that would have the same table, priority and match are refused.
    fn take_slot(&mut self, entry: &Entry, flow: &'a PolicyFlow, at: DatapathId) {
        let Some(form) = entry.any_form() else { return };
        if let Some(other) = self.slots.insert((at, form.slot.clone()), &flow.name) {
            let message =
                format!("has the same table, priority and match as flow {other:?} at switch {at}");
            self.refuse(flow, message);
        }
    }

    /// One error is enough for each flow entry.
    fn refuse(&mut self, flow: &PolicyFlow, message: String) {
        if self.errors.last().is_none_or(|last| last.flow != flow.name) {
            self.errors.push(FlowError { flow: flow.name.clone(), message });
        }
    }
}

fn drop_tagged(table_id: u8, priority: u16, in_port: Option<PortNo>, tag: u16) -> FlowMod {
    let in_port = in_port.map(Field::in_port);
    let fields = in_port.into_iter().chain([Field::vlan(VlanId(tag))]).map(Oxm::Field);
    let matching = Match { fields: fields.collect() };
    FlowMod { table_id, priority, matching, ..FlowMod::default() }
}

/// A flow entry for packets of one source.
fn version(
    flow: &FlowMod,
    source: Source,
    in_port: Option<PortNo>,
    tag: u16,
    switch: &PolicySwitch,
) -> FlowMod {
    let mut flow = flow.clone();
    let vlan = match source {
        Source::Outside => Field::untagged(),
        Source::Transit => Field::vlan(VlanId(tag)),
    };
    if let Some(port) = in_port
        && flow.matching.in_port().is_none()
    {
        flow.matching.fields.insert(0, Oxm::Field(Field::in_port(port)));
    }
    flow.matching.fields.push(Oxm::Field(vlan));
    let continues = flow.instructions.iter().any(|it| matches!(it, Instruction::GotoTable { .. }));
    for instruction in &mut flow.instructions {
        if let Instruction::ApplyActions { actions } = instruction {
            let mut tagging = Tagging { source, tag, is_tagged: source == Source::Transit };
            *actions = tagging.apply(actions, switch, continues);
        }
    }
    flow
}

/// Adds and removes the tag between the actions of an entry.
struct Tagging {
    source: Source,
    tag: u16,
    is_tagged: bool,
}

impl Tagging {
    fn apply(&mut self, actions: &[Action], switch: &PolicySwitch, continues: bool) -> Vec<Action> {
        let mut versioned = Vec::with_capacity(actions.len() + 2);
        let is_transit = self.source == Source::Transit;
        for action in actions {
            if let Action::Output { port, .. } = action {
                let is_tagged = match *port {
                    PortNo::IN_PORT => is_transit,
                    port => switch.transit.contains(&port),
                };
                self.set(is_tagged, &mut versioned);
            }
            versioned.push(action.clone());
        }
        if continues {
            // The entry of the next table is the one of the same source.
            self.set(is_transit, &mut versioned);
        }
        versioned
    }

    fn set(&mut self, is_tagged: bool, actions: &mut Vec<Action>) {
        if is_tagged == self.is_tagged {
            return;
        }
        self.is_tagged = is_tagged;
        if is_tagged {
            let field = Oxm::Field(Field::vlan(VlanId(self.tag)));
            actions.push(Action::PushVlan { ethertype: TAG_TYPE });
            actions.push(Action::SetField { field });
        } else {
            actions.push(Action::PopVlan);
        }
    }
}
