//! What an event is: its kind, its fields, and its text.

use std::fmt;

use serde::{Serialize, Serializer};
use sluice_declared::QuarantineInfo;
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
    EventsLost,
}

impl EventKind {
    /// All kinds with their names, which are a contract with other programs.
    pub(crate) const NAMES: [(Self, &'static str); 18] = [
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
        let details = [
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
