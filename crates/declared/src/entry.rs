//! What is declared: a flow entry, group or meter with a name, and the switches that have it.

use std::fmt;
use std::hash::Hasher as _;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use sluice_openflow::{
    Field, FlowMod, FlowModCommand, FlowModFlags, GroupCommand, GroupId, GroupMod, MacAddr, Match,
    MeterCommand, MeterId, MeterMod, PortNo, Version,
};
use sluice_sdk::allocation::{Allocations, MeterIds, TABLE_0};
use sluice_sdk::flow_space::{EntryKind, QUARANTINE, STATIC};

use crate::form::Form;
use crate::reconcile::UNUSED_GROUP;

/// Characters of a name.
const NAME_LEN_MAX: usize = 64;

/// Bytes of the text of an entry: a group may have many buckets.
const TEXT_LEN_MAX: usize = 16 << 10;

/// The beginning of the names of entries of quarantined hosts. No declared entry has such a name.
const QUARANTINE_NAME: &str = "quarantine:";

/// The beginning of the names of entries of policies. No declared entry has such a name.
pub(crate) const POLICY_NAME: &str = "policy:";

/// The kind of a static entry. In this order they are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A meter.
    Meter,
    /// A group.
    Group,
    /// A flow entry.
    Flow,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Meter => "meter",
            Self::Group => "group",
            Self::Flow => "flow",
        })
    }
}

/// Kind and name, which identify a static entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The kind.
    pub kind: Kind,
    /// The name: 1 to 64 letters, digits, `-`, `_` and `.`.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_policy() {
            Some((policy, flow)) => write!(f, "flow {flow:?} of policy {policy:?}"),
            None => write!(f, "{} {:?}", self.kind, self.name),
        }
    }
}

impl Key {
    /// The policy, and the flow entry of it, that an entry was made from: `policy:POLICY:TAG:FLOW:PLACE`.
    pub fn of_policy(&self) -> Option<(&str, &str)> {
        let mut parts = self.name.strip_prefix(POLICY_NAME)?.split(':');
        let (policy, _, flow) = (parts.next()?, parts.next()?, parts.next()?);
        Some((policy, flow))
    }

    /// Whether the entry is declared, and does not belong to a quarantined host or to a policy.
    pub(crate) fn is_declared(&self) -> bool {
        !self.name.starts_with(QUARANTINE_NAME) && !self.name.starts_with(POLICY_NAME)
    }
}

/// Which packets of a quarantined host an entry drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quarantined {
    /// Those that it sends.
    From,
    /// Those that are sent to it.
    To,
}

/// Which switches have an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selector {
    /// All switches that connect.
    #[serde(rename = "all")]
    All,
    /// These, by datapath id or name.
    #[serde(untagged)]
    Switches(Vec<String>),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Switches(switches) => f.write_str(&switches.join(", ")),
        }
    }
}

/// An entry as an operator declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Kind and name.
    #[serde(flatten)]
    pub key: Key,
    /// Which switches have it.
    pub switches: Selector,
    /// In the syntax of `ovs-ofctl add-flow`, `add-group` or `add-meter`.
    pub text: String,
}

/// What is wrong with a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The entry.
    pub key: Key,
    /// What is wrong, and where.
    pub message: String,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for EntryError {}

/// What applications use in switches. Static entries may have the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reserved {
    /// In table 0.
    priorities: Vec<(&'static str, RangeInclusive<u16>)>,
    /// Of meters, without those that are allocated from the highest id of a switch downwards.
    meters: Vec<(&'static str, RangeInclusive<u32>)>,
    groups: Vec<(&'static str, RangeInclusive<u32>)>,
    tables: Vec<(&'static str, RangeInclusive<u8>)>,
}

impl Reserved {
    /// What all owners use except static entries themselves; where an owner may choose among priorities, those that it is
    /// `configured` to use.
    pub fn new(
        allocations: &Allocations,
        configured: impl IntoIterator<Item = (&'static str, RangeInclusive<u16>)>,
    ) -> Self {
        let mut reserved = Self::default();
        for (owner, used) in allocations.iter().filter(|(owner, _)| *owner != STATIC.application) {
            let fixed = used.entries.iter().filter(|kind| !kind.is_configurable);
            reserved.priorities.extend(fixed.map(|kind| (owner, kind.priorities.clone())));
            if let MeterIds::Range(ids) = &used.meters {
                reserved.meters.push((owner, ids.clone()));
            }
            reserved.groups.extend(used.groups.iter().map(|ids| (owner, ids.clone())));
            reserved.tables.extend(used.tables.iter().map(|ids| (owner, ids.clone())));
        }
        reserved.priorities.extend(configured);
        reserved
    }

    /// Whether an entry may use what it uses.
    fn check(&self, body: &Body) -> Result<(), String> {
        match body {
            Body::Flow(flow) => {
                let table = find(&self.tables, flow.table_id, "table");
                let in_table_0 = || find(&self.priorities, flow.priority, "priority");
                let priority = (flow.table_id == TABLE_0).then(in_table_0).unwrap_or(Ok(()));
                table.and(priority)
            }
            Body::Group(group) => find(&self.groups, group.group_id.0, "group_id"),
            Body::Meter(meter) => find(&self.meters, meter.meter_id.0, "meter"),
            Body::Invalid(_) => Ok(()),
        }
    }
}

/// Whether nobody has reserved a number.
fn find<N: Copy + PartialOrd + fmt::Display>(
    reserved: &[(&str, RangeInclusive<N>)],
    number: N,
    what: &str,
) -> Result<(), String> {
    match reserved.iter().find(|(_, range)| range.contains(&number)) {
        Some((owner, range)) => Err(format!(
            "{what} {number} belongs to an application: \"{owner}\" uses {} to {}, see docs/flow-entries.md",
            range.start(),
            range.end()
        )),
        None => Ok(()),
    }
}

/// A declaration that was checked, and when it was changed.
#[derive(Debug)]
pub struct Entry {
    /// As it was declared.
    pub declaration: Declaration,
    /// The number of the change that declared it. Entries of one change are installed together or not at all.
    pub revision: u64,
    /// When it was declared, since 1970-01-01 UTC.
    pub changed_at: Duration,
    body: Body,
    /// By version, computed when it is needed.
    forms: [OnceLock<Result<Arc<Form>, String>>; VERSIONS.len()],
}

const VERSIONS: [Version; 6] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];

#[derive(Debug)]
pub(crate) enum Body {
    Flow(FlowMod),
    Group(GroupMod),
    Meter(MeterMod),
    /// Why it is none of them.
    Invalid(String),
}

impl Entry {
    /// Checks a declaration.
    ///
    /// # Errors
    /// What is wrong with it, with the column in its text.
    pub fn new(
        declaration: Declaration,
        revision: u64,
        changed_at: Duration,
        reserved: &Reserved,
    ) -> Result<Self, EntryError> {
        let check = || -> Result<Body, String> {
            check_name(&declaration.key.name)?;
            check_selector(&declaration.switches)?;
            let body = parse(declaration.key.kind, &declaration.text)?;
            reserved.check(&body)?;
            Ok(body)
        };
        match check() {
            Ok(body) => {
                let entry =
                    Self { declaration, revision, changed_at, body, forms: Default::default() };
                entry.check_versions()?;
                Ok(entry)
            }
            Err(message) => Err(EntryError { key: declaration.key, message }),
        }
    }

    /// A declaration that was accepted once. If it is no longer valid, no switch gets it, and the reason is its state. The configuration
    /// may reserve other priorities than when it was declared, so none are checked.
    pub(crate) fn stored(declaration: Declaration, revision: u64, changed_at: Duration) -> Self {
        let checked = Self::new(declaration.clone(), revision, changed_at, &Reserved::default());
        checked.unwrap_or_else(|error| {
            let body = Body::Invalid(error.message);
            Self { declaration, revision, changed_at, body, forms: Default::default() }
        })
    }

    /// Whether it was valid when it was declared or read from the store.
    pub(crate) fn is_valid(&self) -> bool {
        !matches!(self.body, Body::Invalid(_))
    }

    /// Whether it uses nothing that is reserved.
    ///
    /// # Errors
    /// What it uses, and which application has reserved it.
    pub(crate) fn check_reserved(&self, reserved: &Reserved) -> Result<(), EntryError> {
        let result = reserved.check(&self.body);
        result.map_err(|message| EntryError { key: self.key().clone(), message })
    }

    /// The entry that drops packets of a host at every switch.
    pub(crate) fn quarantine(
        mac: MacAddr,
        what: Quarantined,
        revision: u64,
        changed_at: Duration,
    ) -> Self {
        let (direction, field) = match what {
            Quarantined::From => ("from", Field::eth_src(mac)),
            Quarantined::To => ("to", Field::eth_dst(mac)),
        };
        let mut flow = FlowMod {
            priority: QUARANTINE.priority(),
            matching: Match::from([field]),
            ..FlowMod::default()
        };
        let text = flow.to_text();
        flow.cookie = cookie(&flow, &QUARANTINE);
        let key = Key { kind: Kind::Flow, name: format!("{QUARANTINE_NAME}{mac}:{direction}") };
        let declaration = Declaration { key, switches: Selector::All, text };
        let body = Body::Flow(flow);
        Self { declaration, revision, changed_at, body, forms: Default::default() }
    }

    /// A flow entry that was made from a policy.
    pub(crate) fn of_policy(declaration: Declaration, revision: u64, changed_at: Duration) -> Self {
        let body = parse_flow(&declaration.text).map_or_else(Body::Invalid, Body::Flow);
        Self { declaration, revision, changed_at, body, forms: Default::default() }
    }

    /// Kind and name.
    pub fn key(&self) -> &Key {
        &self.declaration.key
    }

    /// What a switch that speaks `version` gets.
    ///
    /// # Errors
    /// What the version cannot express.
    pub(crate) fn form(&self, version: Version) -> Result<&Arc<Form>, &str> {
        let at = VERSIONS.iter().position(|it| *it == version);
        let Some(form) = at.and_then(|at| self.forms.get(at)) else {
            return Err("unknown version of OpenFlow");
        };
        let form = form.get_or_init(|| Form::new(&self.body, version).map(Arc::new));
        form.as_ref().map_err(String::as_str)
    }

    /// What switches of the version get that most of them speak, or else of another one that can express it.
    pub(crate) fn any_form(&self) -> Option<&Arc<Form>> {
        [Version::V1_3].iter().chain(VERSIONS.iter().rev()).find_map(|it| self.form(*it).ok())
    }

    /// At least one version must be able to express it; otherwise it is a mistake.
    fn check_versions(&self) -> Result<(), EntryError> {
        if VERSIONS.iter().any(|version| self.form(*version).is_ok()) {
            return Ok(());
        }
        let message = self.form(Version::V1_3).err().unwrap_or_default();
        let message = format!("no version of OpenFlow can express it: {message}");
        Err(EntryError { key: self.key().clone(), message })
    }
}

/// Whether a name is fit for paths of URLs, shells and files.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_valid) {
        return Err(format!(
            "invalid name {name:?} (expected 1 to {NAME_LEN_MAX} letters, digits, `-`, `_` and `.`)"
        ));
    }
    Ok(())
}

pub(crate) fn check_selector(selector: &Selector) -> Result<(), String> {
    let Selector::Switches(switches) = selector else { return Ok(()) };
    if switches.is_empty() {
        return Err("no switch (expected names, datapath ids, or \"all\")".to_owned());
    }
    if switches.len() > crate::SWITCHES_OF_ENTRY_MAX {
        let max = crate::SWITCHES_OF_ENTRY_MAX;
        return Err(format!(
            "{} switches (at most {max}; \"all\" is every switch)",
            switches.len()
        ));
    }
    match switches.iter().find(|name| name.is_empty() || name.len() > NAME_LEN_MAX) {
        Some(name) => Err(format!("invalid name of a switch: {name:?}")),
        None => Ok(()),
    }
}

fn parse(kind: Kind, text: &str) -> Result<Body, String> {
    if text.len() > TEXT_LEN_MAX {
        return Err(format!("text of {} bytes (at most {TEXT_LEN_MAX})", text.len()));
    }
    if text.contains(char::is_control) {
        return Err("the text has a control character or a line break".to_owned());
    }
    match kind {
        Kind::Flow => parse_flow(text).map(Body::Flow),
        Kind::Group => {
            let group = GroupMod::from_text(text, GroupCommand::ADD).map_err(|e| e.to_string())?;
            if group.group_id >= UNUSED_GROUP {
                return Err(format!("group_id {:#x} is reserved", group.group_id.0));
            }
            Ok(Body::Group(group))
        }
        Kind::Meter => {
            let meter = MeterMod::from_text(text, MeterCommand::ADD).map_err(|e| e.to_string())?;
            if meter.meter_id.0 == 0 || meter.meter_id.0 >= MeterId::SLOWPATH.0 {
                return Err(format!("meter {:#x} is reserved", meter.meter_id.0));
            }
            Ok(Body::Meter(meter))
        }
    }
}

pub(crate) fn parse_flow(text: &str) -> Result<FlowMod, String> {
    let mut flow = FlowMod::from_text(text, FlowModCommand::ADD).map_err(|e| e.to_string())?;
    flow.matching.check().map_err(|error| error.to_string())?;
    let refused = [
        (flow.idle_timeout != 0, "idle_timeout", "a static entry does not expire"),
        (flow.hard_timeout != 0, "hard_timeout", "a static entry does not expire"),
        (flow.cookie != 0, "cookie", "the cookie shows that Sluice keeps the entry"),
        (flow.buffer_id.is_some(), "buffer_id", "it belongs to a single packet"),
        (flow.out_port != PortNo::ANY, "out_port", "it restricts deletions"),
        (flow.out_group != GroupId::ANY, "out_group", "it restricts deletions"),
        (flow.table_id == FlowMod::TABLE_ALL, "table=255", "it stands for all tables"),
        (flow.flags.contains(FlowModFlags::EMERG), "emerg", "it is not used while connected"),
        (
            flow.flags.contains(FlowModFlags::CHECK_OVERLAP),
            "check_overlap",
            "the entry could not be put back",
        ),
    ];
    if let Some((_, field, why)) = refused.iter().find(|(is_set, ..)| *is_set) {
        return Err(format!("`{field}` is not allowed in a static entry: {why}"));
    }
    // An entry that is put back keeps its counters if the switch can keep them.
    flow.flags = FlowModFlags(flow.flags.0 & !FlowModFlags::RESET_COUNTS.0);
    for oxm in &mut flow.matching.fields {
        if let sluice_openflow::Oxm::Field(field) = oxm
            && let Some(mask) = field.mask
        {
            field.value &= mask;
        }
    }
    flow.cookie = cookie(&flow, &STATIC);
    Ok(flow)
}

/// Shows what kind of entry it is, and in the low half tells the contents of two entries apart. The same in every run, so that entries
/// are recognised after a restart.
fn cookie(flow: &FlowMod, kind: &EntryKind) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0x736c_7569, 0x6365);
    hasher.write(flow.to_text().as_bytes());
    let hash = hasher.finish();
    kind.cookie_with((hash >> 32) as u32 ^ (hash & 0xffff_ffff) as u32)
}

#[cfg(test)]
mod tests {
    use sluice_sdk::allocation::Allocation;
    use sluice_sdk::flow_space::EntryKind;

    use super::*;

    fn entry(kind: Kind, text: &str, reserved: &Reserved) -> Result<Entry, String> {
        let key = Key { kind, name: "a".to_owned() };
        let declaration = Declaration { key, switches: Selector::All, text: text.to_owned() };
        let entry = Entry::new(declaration, 1, Duration::ZERO, reserved);
        entry.map_err(|error| error.message)
    }

    const NAT: EntryKind = EntryKind::with_prefix("nat", *b"nat ", 1000..=1001);

    #[test]
    fn what_applications_use_is_refused_and_the_application_named() {
        let mut allocations = Allocations::default();
        let nat = Allocation {
            entries: &[NAT],
            meters: MeterIds::Range(5..=6),
            groups: Some(10..=20),
            tables: Some(3..=4),
        };
        allocations.add("nat", nat).unwrap();
        let reserved = Reserved::new(&allocations, [("forwarding", 100..=102)]);
        let group = |id| format!("group_id={id},type=all,bucket=actions=output:1");
        let meter = |id| format!("meter={id},kbps,band=type=drop,rate=1000");
        for (kind, text, owner) in [
            (Kind::Flow, "priority=0,actions=drop", Some("all")),
            (Kind::Flow, "priority=2,actions=drop", Some("limiter")),
            (Kind::Flow, "priority=6,actions=drop", Some("forwarding")),
            (Kind::Flow, "priority=7,actions=drop", None),
            (Kind::Flow, "priority=99,actions=drop", None),
            (Kind::Flow, "priority=102,actions=drop", Some("forwarding")),
            (Kind::Flow, "priority=1001,actions=drop", Some("nat")),
            (Kind::Flow, "table=1,priority=1001,actions=drop", None),
            (Kind::Flow, "table=3,priority=7,actions=drop", Some("nat")),
            (Kind::Flow, "priority=65533,actions=drop", Some("forwarding")),
            (Kind::Flow, "priority=65534,actions=drop", Some("topology")),
            (Kind::Group, &group(9), None),
            (Kind::Group, &group(10), Some("nat")),
            (Kind::Meter, &meter(6), Some("nat")),
            (Kind::Meter, &meter(7), None),
        ] {
            match (entry(kind, text, &reserved), owner) {
                (Ok(_), None) => {}
                (Err(error), Some(owner)) => {
                    let by = format!(" belongs to an application: \"{owner}\" uses ");
                    assert!(error.contains(&by), "{text}: {error}");
                }
                (result, _) => panic!("{text}: {:?}", result.map(|_| ())),
            }
        }
        let stored = entry(Kind::Flow, "priority=100,actions=drop", &Reserved::default()).unwrap();
        stored.check_reserved(&reserved).unwrap_err();
    }

    /// Other cookies would replace all entries of all switches after an update.
    #[test]
    fn cookies_stay_the_same() {
        let cookies = [
            "in_port=1,actions=drop",
            "priority=200,tcp,nw_src=10.0.0.1/24,tp_dst=80,actions=set_field:02:00:00:00:00:07->eth_src,output:2",
            "table=2,ipv6,ipv6_dst=2001:db8::/32,actions=meter:3,group:9,goto_table:4",
        ]
        .map(|text| {
            let entry = entry(Kind::Flow, text, &Reserved::default()).unwrap();
            entry.any_form().unwrap().cookie().unwrap()
        });
        assert_eq!(
            format!("{cookies:x?}"),
            "[73746174b8036ac2, 737461744e111d19, 73746174a275745e]"
        );
    }
}
