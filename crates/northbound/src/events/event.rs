//! What an event is: its kind, its fields, and its text.

use std::fmt;

use serde::{Serialize, Serializer};
use sluice_declared::{ChangeReport, QuarantineInfo};
use sluice_openflow::{DatapathId, MacAddr};
use sluice_sdk::view::{HostId, NetworkView, SwitchPort};
use utoipa::ToSchema;

use super::names::SwitchNames;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    SwitchConnected,
    SwitchDisconnected,
    PortUp,
    PortDown,
    PortBlocked,
    PortReleased,
    LinkUp,
    LinkDown,
    HostLearned,
    HostMoved,
    HostAddressesChanged,
    HostRemoved,
    HostQuarantined,
    HostReleased,
    AddressConflict,
    PathsRepaired,
    ConfigurationReloaded,
    PolicyApplied,
    PolicyRefused,
    EventsLost,
}

impl EventKind {
    /// All kinds with their names, which are a contract with other programs.
    pub(crate) const NAMES: [(Self, &'static str); 20] = [
        (Self::SwitchConnected, "switch-connected"),
        (Self::SwitchDisconnected, "switch-disconnected"),
        (Self::PortUp, "port-up"),
        (Self::PortDown, "port-down"),
        (Self::PortBlocked, "port-blocked"),
        (Self::PortReleased, "port-released"),
        (Self::LinkUp, "link-up"),
        (Self::LinkDown, "link-down"),
        (Self::HostLearned, "host-learned"),
        (Self::HostMoved, "host-moved"),
        (Self::HostAddressesChanged, "host-addresses-changed"),
        (Self::HostRemoved, "host-removed"),
        (Self::HostQuarantined, "host-quarantined"),
        (Self::HostReleased, "host-released"),
        (Self::AddressConflict, "address-conflict"),
        (Self::PathsRepaired, "paths-repaired"),
        (Self::ConfigurationReloaded, "configuration-reloaded"),
        (Self::PolicyApplied, "policy-applied"),
        (Self::PolicyRefused, "policy-refused"),
        (Self::EventsLost, "events-lost"),
    ];

    pub(crate) fn name(self) -> &'static str {
        let row = Self::NAMES.iter().find(|&&(kind, _)| kind == self);
        row.map_or("", |&(_, name)| name)
    }

    /// The kind with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|&&(_, it)| it == name).map(|&(kind, _)| kind)
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A switch, or one of its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EventPlace {
    #[serde(skip)]
    pub(super) id: DatapathId,
    pub(super) dpid: String,
    pub(super) switch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port_name: Option<String>,
}

impl EventPlace {
    pub(super) fn switch(id: DatapathId, names: &SwitchNames) -> Self {
        let switch = names.of(id).map(str::to_owned);
        Self { id, dpid: id.to_string(), switch, port: None, port_name: None }
    }

    pub(super) fn port(at: SwitchPort, view: &NetworkView, names: &SwitchNames) -> Self {
        Self {
            port: Some(at.port.0),
            port_name: view.port(at).map(|port| port.name.to_string()),
            ..Self::switch(at.switch, names)
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.switch.as_deref().unwrap_or(&self.dpid))?;
        match (self.port, &self.port_name) {
            (Some(port), Some(name)) => write!(f, " port {port} ({name})"),
            (Some(port), None) => write!(f, " port {port}"),
            (None, _) => Ok(()),
        }
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EventHost {
    pub(super) mac: String,
    pub(super) vlan: u16,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<String>,
}

impl EventHost {
    pub(super) fn new(id: HostId, addresses: Vec<String>) -> Self {
        Self { mac: id.mac.to_string(), vlan: id.vlan.0, addresses }
    }
}

impl fmt::Display for EventHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mac)?;
        if self.vlan != 0 {
            write!(f, " in VLAN {}", self.vlan)?;
        }
        if !self.addresses.is_empty() {
            write!(f, " ({})", self.addresses.join(", "))?;
        }
        Ok(())
    }
}

/// Something that has happened. Which fields a kind has is in `docs/events.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Event {
    #[schema(value_type = String, example = "link-down")]
    pub(super) kind: EventKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<EventPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<EventPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<EventPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<EventHost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimant: Option<EventHost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimant_at: Option<EventPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) openflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packets: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packets_per_s_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<EventPolicy>,
}

/// A change of static entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EventPolicy {
    /// The number of the change.
    pub(super) revision: u64,
    /// Entries that were declared, or declared differently.
    pub(super) set: u64,
    pub(super) removed: u64,
    /// Connected switches that it concerns.
    pub(super) switches: u64,
    /// Those of them that do not have it.
    pub(super) failed: u64,
    /// Whether it is declared: a change that was to be made everywhere or nowhere, and was refused, is not.
    pub(super) declared: bool,
    /// From the request until all switches had answered.
    pub(super) duration_ms: u64,
    /// Of a change that is made everywhere or nowhere: until all switches had confirmed the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit_us: Option<u64>,
}

impl Event {
    pub(super) fn new(kind: EventKind) -> Self {
        Self {
            kind,
            at: None,
            from: None,
            to: None,
            host: None,
            claimant: None,
            claimant_at: None,
            address: None,
            openflow: None,
            reason: None,
            by: None,
            packets: None,
            packets_per_s_max: None,
            changed: None,
            count: None,
            policy: None,
        }
    }

    /// What a change of static entries has come to.
    pub(super) fn policy(report: &ChangeReport, names: &SwitchNames) -> Self {
        let failure = report.failures.first();
        let is_refused = failure.is_some() || !report.is_declared;
        let number = |it| u64::try_from(it).unwrap_or(u64::MAX);
        let policy = EventPolicy {
            revision: report.revision,
            set: number(report.set),
            removed: number(report.removed),
            switches: number(report.switches),
            failed: number(report.failures.len()),
            declared: report.is_declared,
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
            commit_us: report.commit.and_then(|it| u64::try_from(it.as_micros()).ok()),
        };
        Self {
            at: failure.map(|(id, _)| EventPlace::switch(*id, names)),
            reason: failure.map(|(_, reason)| reason.clone()),
            policy: Some(policy),
            ..Self::new(if is_refused {
                EventKind::PolicyRefused
            } else {
                EventKind::PolicyApplied
            })
        }
    }

    /// The configuration was read again: the keys that have changed, separated by spaces.
    pub(crate) fn configuration_reloaded(changed: &str) -> Self {
        let changed = Some(changed.to_owned());
        Self { changed, ..Self::new(EventKind::ConfigurationReloaded) }
    }

    /// So many changes happened at a time that they could not be followed.
    pub(crate) fn lost() -> Self {
        let reason = Some("too-many-changes".to_owned());
        Self { reason, ..Self::new(EventKind::EventsLost) }
    }

    /// A host was put into quarantine or released, by whom, and where it was then.
    pub(super) fn of_quarantine(
        kind: EventKind,
        mac: MacAddr,
        info: &QuarantineInfo,
        at: Option<EventPlace>,
    ) -> Self {
        let addresses = info.addresses.iter().map(ToString::to_string).collect();
        Self {
            at,
            host: Some(EventHost { mac: mac.to_string(), vlan: 0, addresses }),
            reason: info.reason.clone(),
            by: Some(info.by.clone()),
            ..Self::new(kind)
        }
    }

    fn places(&self) -> impl Iterator<Item = &EventPlace> {
        [&self.at, &self.from, &self.to, &self.claimant_at].into_iter().flatten()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.name().replace('-', " "))?;
        f.write_str(":")?;
        if let Some(host) = &self.host {
            write!(f, " {host}")?;
        }
        if let Some(at) = &self.at {
            write!(f, "{} {at}", if self.host.is_some() { " at" } else { "" })?;
        }
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            write!(f, "{} {from} to {to}", if self.host.is_some() { " from" } else { "" })?;
        }
        if let (Some(claimant), Some(at)) = (&self.claimant, &self.claimant_at) {
            write!(f, ", claimed by {claimant} at {at}")?;
        }
        let rate = self.packets_per_s_max.map(|max| format!("{max} packets/s"));
        let policy = self.policy.as_ref();
        let of_policy = |value: fn(&EventPolicy) -> u64| policy.map(|it| value(it).to_string());
        let details = [
            ("revision", of_policy(|it| it.revision)),
            ("set", of_policy(|it| it.set)),
            ("removed", of_policy(|it| it.removed)),
            ("switches", of_policy(|it| it.switches)),
            ("failed", of_policy(|it| it.failed).filter(|count| count != "0")),
            ("declared", policy.filter(|it| !it.declared).map(|_| "no".to_owned())),
            ("duration", policy.map(|it| format!("{}ms", it.duration_ms))),
            ("commit", policy.and_then(|it| it.commit_us).map(|us| format!("{us}us"))),
            ("address", self.address.clone()),
            ("OpenFlow", self.openflow.clone()),
            ("reason", self.reason.clone()),
            ("by", self.by.clone()),
            ("packets", self.packets.map(str::to_owned)),
            ("limit", rate),
            ("changed", self.changed.clone().filter(|keys| !keys.is_empty())),
            ("count", self.count.map(|count| count.to_string())),
        ];
        for (name, value) in details {
            if let Some(value) = value {
                write!(f, " {name}={}", quoted(value))?;
            }
        }
        Ok(())
    }
}

/// A value of a field, in quotes unless it is one word.
pub(super) fn quoted(value: String) -> String {
    let is_word = !value.is_empty() && !value.contains([' ', '"', '=']);
    if is_word { value } else { format!("{value:?}") }
}

/// An event with its id and time, as the API answers it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct EventDocument {
    pub(super) id: String,
    pub(super) at_unix_s: f64,
    #[serde(flatten)]
    pub(super) event: Event,
    pub(super) text: String,
}

impl EventDocument {
    pub(crate) fn kind(&self) -> EventKind {
        self.event.kind
    }

    /// The switch that the event is about, or its port is of.
    pub(crate) fn switch(&self) -> Option<DatapathId> {
        self.event.at.as_ref().map(|place| place.id)
    }
}

/// Which events are selected.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFilter {
    /// Of these kinds; all if there are none.
    pub(crate) kinds: Vec<EventKind>,
    /// About a switch, by name or datapath id.
    pub(crate) switch: Option<String>,
}

impl EventFilter {
    /// Whether an event is selected. That events were lost concerns everybody.
    pub(super) fn selects(&self, event: &Event) -> bool {
        if event.kind == EventKind::EventsLost {
            return true;
        }
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&event.kind);
        is_kind
            && self.switch.as_deref().is_none_or(|text| {
                let id = text.parse().ok();
                event.places().any(|it| it.switch.as_deref() == Some(text) || Some(it.id) == id)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(id: u64, port: u32) -> EventPlace {
        let id = DatapathId(id);
        let port_name = Some(format!("s{}-eth{port}", id.0));
        EventPlace {
            id,
            dpid: id.to_string(),
            switch: Some(format!("s{}", id.0)),
            port: Some(port),
            port_name,
        }
    }

    fn link_down() -> Event {
        Event {
            from: Some(place(1, 2)),
            to: Some(place(10, 3)),
            reason: Some("port-down".to_owned()),
            ..Event::new(EventKind::LinkDown)
        }
    }

    #[test]
    fn an_event_is_one_line() {
        let text = "link down: s1 port 2 (s1-eth2) to s10 port 3 (s10-eth3) reason=port-down";
        assert_eq!(link_down().to_string(), text);
        let host = EventHost { mac: "02:00:00:00:00:01".to_owned(), vlan: 7, addresses: vec![] };
        let learned =
            Event { at: Some(place(1, 4)), host: Some(host), ..Event::new(EventKind::HostLearned) };
        let text = "host learned: 02:00:00:00:00:01 in VLAN 7 at s1 port 4 (s1-eth4)";
        assert_eq!(learned.to_string(), text);
    }

    #[test]
    fn a_change_of_static_entries_is_applied_or_refused() {
        let report = ChangeReport {
            revision: 7,
            set: 3,
            removed: 1,
            switches: 4,
            failures: vec![],
            is_declared: true,
            duration: Duration::from_millis(31),
            commit: Some(Duration::from_micros(700)),
        };
        let names = SwitchNames::default();
        let text =
            "policy applied: revision=7 set=3 removed=1 switches=4 duration=31ms commit=700us";
        assert_eq!(Event::policy(&report, &names).to_string(), text);
        let failures = vec![(DatapathId(2), "flow \"a\": TABLE_FULL".to_owned())];
        let report = ChangeReport { failures, is_declared: false, commit: None, ..report };
        let refused = Event::policy(&report, &names);
        assert!(refused.to_string().starts_with("policy refused: 0000000000000002 revision=7"));
        let at = |switch: &str| EventFilter { kinds: vec![], switch: Some(switch.to_owned()) };
        assert!(at("2").selects(&refused) && !at("1").selects(&refused));
        let document = &serde_json::to_value(&refused).unwrap()["policy"];
        assert_eq!((&document["failed"], &document["declared"]), (&1.into(), &false.into()));
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for (kind, name) in EventKind::NAMES {
            assert_eq!((kind.name(), EventKind::parse(name)), (name, Some(kind)));
        }
        assert_eq!(EventKind::parse("fire"), None);
    }

    #[test]
    fn events_are_selected_by_kind_and_by_each_switch_that_they_are_about() {
        let selects = |kinds: &[EventKind], switch: Option<&str>| {
            let filter = EventFilter { kinds: kinds.to_vec(), switch: switch.map(str::to_owned) };
            filter.selects(&link_down())
        };
        assert!(selects(&[], None));
        for switch in ["s1", "s10", "a", "0x1", "000000000000000a"] {
            assert!(selects(&[EventKind::LinkUp, EventKind::LinkDown], Some(switch)), "{switch}");
        }
        assert!(!selects(&[], Some("s2")));
        assert!(!selects(&[EventKind::LinkUp], Some("s1")));
        let filter = EventFilter { kinds: vec![EventKind::LinkUp], switch: None };
        assert!(filter.selects(&Event::lost()));
    }
}
