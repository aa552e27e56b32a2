//! The JSON documents of static entries and names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluice_declared::reconcile::{Reconciler, Removal};
use sluice_declared::{
    Change, Declaration, Difference, DifferenceKind, Entry, Key, Kind, NameOf, Names, Selector,
    State, Status,
};
use sluice_openflow::{DatapathId, MacAddr};
use sluice_sdk::SwitchSession;
use utoipa::ToSchema;

use super::error::ApiError;
use super::names::switch_name;
use super::static_form::FormBody;

/// An entry without its name.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"switch": "s1", "flow": "priority=7,ip,actions=output:1"}))]
#[serde(deny_unknown_fields)]
pub(super) struct EntryBody {
    switch: Option<String>,
    switches: Option<SwitchesBody>,
    flow: Option<FormBody>,
    group: Option<FormBody>,
    meter: Option<FormBody>,
}

/// An entry with its name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedEntryBody {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switches: Option<SwitchesBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FormBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<FormBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meter: Option<FormBody>,
}

/// `"all"`, a name or datapath id, or a list of these.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum SwitchesBody {
    One(String),
    Several(Vec<String>),
}

/// The kind and name of an entry: `{"flow": "NAME"}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RemovedBody {
    Flow(String),
    Group(String),
    Meter(String),
}

impl RemovedBody {
    #[expect(clippy::unnecessary_wraps, reason = "used like the other bodies")]
    pub(super) fn key(self) -> Result<Key, ApiError> {
        let (kind, name) = match self {
            Self::Flow(name) => (Kind::Flow, name),
            Self::Group(name) => (Kind::Group, name),
            Self::Meter(name) => (Kind::Meter, name),
        };
        Ok(Key { kind, name })
    }
}

impl EntryBody {
    pub(super) fn declaration(self, key: Key) -> Result<Declaration, ApiError> {
        let invalid = |message: &str| ApiError::invalid(format!("{key}: {message}"));
        let switches = match (self.switch, self.switches) {
            (Some(_), Some(_)) => return Err(invalid("both `switch` and `switches`")),
            (None, None) => {
                return Err(invalid("no `switch` (a name, a datapath id, or \"all\")"));
            }
            (None, Some(SwitchesBody::Several(list))) => Selector::Switches(list),
            (Some(one), None) | (None, Some(SwitchesBody::One(one))) if one == "all" => {
                Selector::All
            }
            (Some(one), None) | (None, Some(SwitchesBody::One(one))) => {
                Selector::Switches(vec![one])
            }
        };
        let forms = [(Kind::Flow, self.flow), (Kind::Group, self.group), (Kind::Meter, self.meter)];
        let mut given = forms.into_iter().filter_map(|(kind, form)| Some((kind, form?)));
        match (given.next(), given.next()) {
            (Some((kind, form)), None) if kind == key.kind => {
                let text = form.text(kind).map_err(|error| invalid(&error))?;
                Ok(Declaration { key, switches, text })
            }
            _ => Err(invalid(&format!("expected `{}` with the entry, and nothing else", key.kind))),
        }
    }
}

impl NamedEntryBody {
    pub(super) fn new(declaration: &Declaration) -> Self {
        let Declaration { key, switches, text } = declaration;
        let (switch, switches) = match switches {
            Selector::All => (Some("all".to_owned()), None),
            Selector::Switches(list) => match list.as_slice() {
                [one] => (Some(one.clone()), None),
                list => (None, Some(SwitchesBody::Several(list.to_vec()))),
            },
        };
        let is = |kind| (key.kind == kind).then(|| FormBody::Text(text.clone()));
        let (flow, group, meter) = (is(Kind::Flow), is(Kind::Group), is(Kind::Meter));
        Self { name: key.name.clone(), switch, switches, flow, group, meter }
    }

    /// Of the kind whose text it has.
    pub(super) fn declaration(self) -> Result<Declaration, ApiError> {
        let Self { name, switch, switches, flow, group, meter } = self;
        let kind = match (&flow, &group, &meter) {
            (_, None, None) => Kind::Flow,
            (None, Some(_), _) => Kind::Group,
            _ => Kind::Meter,
        };
        EntryBody { switch, switches, flow, group, meter }.declaration(Key { kind, name })
    }
}

/// All that is declared.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredDocument {
    #[serde(default)]
    names: NamesDocument,
    #[serde(default)]
    meters: Vec<NamedEntryBody>,
    #[serde(default)]
    groups: Vec<NamedEntryBody>,
    #[serde(default)]
    flows: Vec<NamedEntryBody>,
}

impl DeclaredDocument {
    pub(super) fn new(reconciler: &Reconciler) -> Self {
        let of = |kind| {
            let entries = reconciler.entries().values();
            let of_kind = entries.filter(|entry| entry.key().kind == kind);
            of_kind.map(|entry| NamedEntryBody::new(&entry.declaration)).collect()
        };
        Self {
            names: NamesDocument::new(reconciler.names()),
            meters: of(Kind::Meter),
            groups: of(Kind::Group),
            flows: of(Kind::Flow),
        }
    }

    /// The change that makes this what is declared.
    pub(super) fn change(self) -> Result<Change, ApiError> {
        let names = Some(parse_names(self.names)?);
        let lists =
            [(Kind::Meter, self.meters), (Kind::Group, self.groups), (Kind::Flow, self.flows)];
        let mut set = vec![];
        for (kind, list) in lists {
            for entry in list {
                let declaration = entry.declaration()?;
                if declaration.key.kind != kind {
                    let message = format!("{} is in the list of {kind}s", declaration.key);
                    return Err(ApiError::invalid(message));
                }
                set.push(declaration);
            }
        }
        Ok(Change { set, remove: vec![], is_whole: true, names })
    }
}

/// Names of switches by datapath id, and of hosts by Ethernet address.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamesDocument {
    #[serde(default)]
    switches: BTreeMap<String, String>,
    #[serde(default)]
    hosts: BTreeMap<String, String>,
}

impl NamesDocument {
    pub(super) fn new(names: &Names) -> Self {
        let mut document = Self::default();
        for (of, name) in names.iter() {
            match of {
                NameOf::Switch(id) => document.switches.insert(id.to_string(), name.to_owned()),
                NameOf::Host(mac) => document.hosts.insert(mac.to_string(), name.to_owned()),
            };
        }
        document
    }
}

pub(super) fn parse_names(document: NamesDocument) -> Result<Names, ApiError> {
    let invalid = |error: String| ApiError::invalid(error);
    let mut names = vec![];
    for (id, name) in document.switches {
        let id: DatapathId =
            id.parse().map_err(|_| invalid(format!("names: invalid datapath id {id:?}")))?;
        names.push((NameOf::Switch(id), name));
    }
    for (mac, name) in document.hosts {
        let mac: MacAddr =
            mac.parse().map_err(|_| invalid(format!("names: invalid Ethernet address {mac:?}")))?;
        names.push((NameOf::Host(mac), name));
    }
    Names::new(names).map_err(|error| invalid(error.to_string()))
}

/// What a change has changed, or would change.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangesDocument {
    /// The number of the change; `null` if nothing was made.
    pub(super) revision: Option<u64>,
    pub(super) changes: Vec<ChangeDocument>,
    /// What has become of it; `null` if nothing was made.
    pub(super) state: Option<ChangeStateDocument>,
}

/// How far the switches are with a change. The numbers are those of the entries that the request declares, each counted once.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct ChangeStateDocument {
    /// Whether all connected switches have accepted or refused it.
    is_settled: bool,
    /// Entries that all selected switches have.
    installed: usize,
    /// Entries that a connected switch does not have yet.
    pending: usize,
    /// Entries that a switch has refused.
    refused: usize,
    /// Entries that all selected switches have that are connected, but not all are connected, or none is.
    not_connected: usize,
}

impl ChangeStateDocument {
    pub(super) fn new(reconciler: &Reconciler, revision: u64, keys: &[Key]) -> Self {
        let mut document = Self { is_settled: reconciler.has_tried(revision), ..Self::default() };
        // Another change may have removed some.
        for entry in keys.iter().filter_map(|key| reconciler.entries().get(key)) {
            let is_pending = |status: &Status| matches!(status.state, State::Pending(_));
            let count = match reconciler.state(entry) {
                State::Installed => &mut document.installed,
                State::Refused(_) => &mut document.refused,
                State::Pending(_) => {
                    let statuses = reconciler.statuses(entry);
                    if statuses.iter().any(|(_, status)| is_pending(status)) {
                        &mut document.pending
                    } else {
                        &mut document.not_connected
                    }
                }
            };
            *count += 1;
        }
        document
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangeDocument {
    /// `flow`, `group`, `meter`, `switch-name` or `host-name`.
    kind: &'static str,
    name: String,
    /// `add`, `change` or `remove`.
    change: &'static str,
    before: Option<String>,
    after: Option<String>,
}

impl From<Difference> for ChangeDocument {
    fn from(Difference { of, before, after }: Difference) -> Self {
        let change = match (&before, &after) {
            (None, _) => "add",
            (_, None) => "remove",
            _ => "change",
        };
        let (kind, name) = match of {
            DifferenceKind::Entry(Key { kind, name }) => match kind {
                Kind::Flow => ("flow", name),
                Kind::Group => ("group", name),
                Kind::Meter => ("meter", name),
            },
            DifferenceKind::Name(NameOf::Switch(id)) => ("switch-name", id.to_string()),
            DifferenceKind::Name(NameOf::Host(mac)) => ("host-name", mac.to_string()),
        };
        Self { kind, name, change, before, after }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntriesDocument {
    pub(super) entries: Vec<EntryDocument>,
    /// The number of entries that the filters select, of which the page has some.
    pub(super) total: usize,
    /// What connected switches have, or may have, and is no longer declared.
    pub(super) removing: Vec<RemovalDocument>,
}

/// Something that is being removed from a switch.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RemovalDocument {
    dpid: String,
    /// The name under which it was declared, if that is known.
    name: Option<String>,
    /// `pending` or `refused`.
    state: &'static str,
    reason: Option<String>,
}

impl RemovalDocument {
    pub(super) fn new(removal: &Removal<'_>) -> Self {
        Self {
            dpid: removal.switch.to_string(),
            name: removal.entry.map(|key| key.name.clone()),
            state: removal.state.name(),
            reason: removal.state.reason().map(str::to_owned),
        }
    }
}

/// An entry and its state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StaticEntryDocument)]
pub(super) struct EntryDocument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switches: Option<SwitchesBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FormBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<FormBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meter: Option<FormBody>,
    revision: u64,
    changed_at_unix_s: f64,
    /// The worst of the states at all switches.
    state: &'static str,
    reason: Option<String>,
    at: Vec<StateDocument>,
    /// Selected switches that are not connected, as they were declared.
    not_connected: Vec<String>,
}

/// The state of an entry at a connected switch.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StateDocument {
    dpid: String,
    switch: Option<String>,
    state: &'static str,
    reason: Option<String>,
    since_unix_s: f64,
}

impl StateDocument {
    pub(super) fn new(
        id: DatapathId,
        status: &Status,
        names: &Names,
        sessions: &[SwitchSession],
    ) -> Self {
        let session = sessions.iter().find(|session| session.datapath_id == id);
        Self {
            dpid: id.to_string(),
            switch: session.and_then(|session| switch_name(session, names)),
            state: status.state.name(),
            reason: status.state.reason().or(status.note).map(str::to_owned),
            since_unix_s: status.since.as_secs_f64(),
        }
    }
}

impl EntryDocument {
    pub(super) fn new(entry: &Entry, reconciler: &Reconciler, sessions: &[SwitchSession]) -> Self {
        let statuses = reconciler.statuses(entry).into_iter();
        let names = reconciler.names();
        let at = statuses.map(|(id, status)| StateDocument::new(id, &status, names, sessions));
        let state = reconciler.state(entry);
        let NamedEntryBody { name, switch, switches, flow, group, meter } =
            NamedEntryBody::new(&entry.declaration);
        Self {
            name,
            switch,
            switches,
            flow,
            group,
            meter,
            revision: entry.revision,
            changed_at_unix_s: entry.changed_at.as_secs_f64(),
            state: state.name(),
            reason: state.reason().map(str::to_owned),
            at: at.collect(),
            not_connected: reconciler.unconnected(entry).into_iter().map(str::to_owned).collect(),
        }
    }
}
