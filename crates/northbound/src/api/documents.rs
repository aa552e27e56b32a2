//! The JSON documents of the API: a contract with other programs, described in `docs/api.md`.

use serde::Serialize;
use sluice_declared::Names as GivenNames;
use sluice_openflow::{
    Capabilities, DatapathId, FlowDesc, FlowMod, MultipartReply, Port, Role, SwitchDesc,
};
use sluice_sdk::allocation::Allocations;
use sluice_sdk::view::{Cable, Host, HostId, Link, NetworkView, PortInfo, PortRole, SwitchPort};
use sluice_sdk::{SessionStatistics, SwitchError, SwitchSession};
use utoipa::ToSchema;

use super::names::switch_name;
use super::port_state::is_port_enabled;
use super::store_error::StoreErrorDocument;
use crate::events::unix_time;

#[derive(Serialize, ToSchema)]
pub(super) struct ControllerDocument {
    pub(super) version: &'static str,
    pub(super) uptime_s: u64,
    pub(super) switches: usize,
    /// Links between switches, each direction on its own.
    pub(super) links: usize,
    /// Links between switches, both directions together.
    pub(super) cables: usize,
    pub(super) hosts: usize,
    pub(super) is_complete: bool,
    /// Why static entries, names, quarantined hosts, drained links and policies cannot be changed; `null` if they can.
    pub(super) store_error: Option<StoreErrorDocument>,
    /// The threads that process the messages of switches, by number.
    pub(super) workers: Vec<WorkerDocument>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct WorkerDocument {
    /// The core to which it is bound.
    pub(super) core: Option<usize>,
    /// The switches that it serves.
    pub(super) switches: usize,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SwitchesDocument {
    pub(super) switches: Vec<SwitchDocument>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SwitchDocument {
    dpid: String,
    name: Option<String>,
    openflow: String,
    address: String,
    worker: usize,
    connected_at_unix_s: f64,
    role: Option<&'static str>,
    ports: usize,
    tables: u8,
    buffers: u32,
    #[schema(value_type = Vec<String>)]
    capabilities: Capabilities,
    description: Option<DescriptionDocument>,
    session: SessionDocument,
    /// The last `ERROR` messages in this session, the newest last.
    last_errors: Vec<SwitchErrorDocument>,
}

/// An `ERROR` message of a switch.
#[derive(Serialize, ToSchema)]
struct SwitchErrorDocument {
    at_unix_s: f64,
    /// Type and code by their names.
    error: String,
    /// The type of the request; `null` if the message does not contain it.
    request: Option<String>,
    xid: u32,
}

#[derive(Serialize, ToSchema)]
struct DescriptionDocument {
    manufacturer: String,
    hardware: String,
    software: String,
    serial_number: String,
    datapath: String,
}

#[derive(Serialize, ToSchema)]
struct SessionDocument {
    messages_received: u64,
    packet_ins_received: u64,
    bytes_received: u64,
    bytes_sent: u64,
    errors_received: u64,
    malformed_messages: u64,
    packet_ins_shed: u64,
    backlog_bytes: u64,
}

#[derive(Serialize, ToSchema)]
pub(super) struct PortDocument {
    port: u32,
    name: String,
    mac: String,
    /// Whether it is administratively up.
    is_enabled: bool,
    /// Whether it has a link as well.
    is_up: bool,
    /// Current speed in each direction; `null` if the switch does not state it.
    speed_bits_per_s: Option<u64>,
    role: &'static str,
    peer: Option<PlaceDocument>,
    hosts: usize,
}

#[derive(Serialize, ToSchema)]
pub(super) struct LinksDocument {
    pub(super) links: Vec<LinkDocument>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct LinkDocument {
    from: PlaceDocument,
    to: PlaceDocument,
    /// Whether it is taken out of service.
    is_drained: bool,
}

#[derive(Serialize, ToSchema)]
pub(super) struct HostsDocument {
    pub(super) hosts: Vec<ListedHostDocument>,
    /// The number of hosts that the filters select, of which the page has some.
    pub(super) total: usize,
}

#[derive(Serialize, ToSchema)]
pub(super) struct HostDocument {
    mac: String,
    /// The name that an operator has given it.
    name: Option<String>,
    vlan: u16,
    addresses: Vec<String>,
    at: PlaceDocument,
}

/// A host in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct ListedHostDocument {
    /// Of a host in quarantine that is no longer seen, `at` and `addresses` are those from before the quarantine.
    #[serde(flatten)]
    pub(super) host: HostDocument,
    /// Whether nothing that it sends, and nothing that is sent to it, passes a switch.
    pub(super) is_quarantined: bool,
}

/// A port of a switch.
#[derive(Serialize, ToSchema)]
pub(super) struct PlaceDocument {
    pub(super) dpid: String,
    pub(super) switch: Option<String>,
    pub(super) port: u32,
    port_name: Option<String>,
}

impl HostDocument {
    /// The host in a sentence.
    pub(super) fn text(&self) -> String {
        match &self.addresses[..] {
            [] => format!("host {}", self.mac),
            addresses => format!("host {} ({})", self.mac, addresses.join(", ")),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct FlowsDocument {
    pub(super) flows: Vec<FlowDocument>,
    /// Entries that the filters select, on all pages.
    pub(super) total: usize,
}

#[derive(Serialize, ToSchema)]
pub(super) struct FlowDocument {
    /// The application that has written it; `null` if none has.
    owner: Option<&'static str>,
    /// The name of the static entry that it is.
    static_entry: Option<String>,
    /// In the syntax of `ovs-ofctl add-flow`.
    text: String,
    /// The fields of `sluice decode --json`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    entry: FlowDesc,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ReplyDocument {
    /// The fields of `sluice decode --json`.
    #[schema(value_type = Object)]
    pub(super) reply: MultipartReply,
}

/// Finds names of switches and ports.
pub(super) struct Names<'v> {
    pub(super) view: &'v NetworkView,
    pub(super) sessions: &'v [SwitchSession],
    /// The names that an operator has given.
    pub(super) given: &'v GivenNames,
}

/// The port as its switch describes it now.
pub(super) fn described_port(sessions: &[SwitchSession], at: SwitchPort) -> Option<&Port> {
    let place = sessions.binary_search_by_key(&at.switch, |session| session.datapath_id).ok()?;
    sessions.get(place)?.features.ports.iter().find(|port| port.port_no == at.port)
}

/// Current speed of a port in bits per second, if the switch states it.
pub(super) fn speed_bits_per_s(port: &Port) -> Option<u64> {
    Some(port.curr_speed()).filter(|&kbit| kbit > 0).map(|kbit| u64::from(kbit) * 1000)
}

impl Names<'_> {
    fn switch(&self, id: DatapathId) -> Option<String> {
        let at = self.sessions.binary_search_by_key(&id, |session| session.datapath_id).ok()?;
        self.sessions.get(at).and_then(|session| switch_name(session, self.given))
    }

    pub(super) fn place(&self, at: SwitchPort) -> PlaceDocument {
        PlaceDocument {
            dpid: at.switch.to_string(),
            switch: self.switch(at.switch),
            port: at.port.0,
            port_name: self.view.port(at).map(|port| port.name.to_string()),
        }
    }

    pub(super) fn link(&self, link: &Link) -> LinkDocument {
        LinkDocument {
            from: self.place(link.from),
            to: self.place(link.to),
            is_drained: self.view.is_drained(Cable::from(link)),
        }
    }

    pub(super) fn host(&self, id: HostId, host: &Host) -> HostDocument {
        HostDocument {
            mac: id.mac.to_string(),
            name: self.given.host(id.mac).map(str::to_owned),
            vlan: id.vlan.0,
            addresses: host.addrs.iter().map(ToString::to_string).collect(),
            at: self.place(host.at),
        }
    }

    pub(super) fn port(&self, at: SwitchPort, port: &PortInfo) -> PortDocument {
        let role = match port.role {
            PortRole::Pending => "pending",
            PortRole::Edge => "edge",
            PortRole::Link => "link",
            PortRole::SharedSegment(_) => "shared-segment",
            PortRole::Bundle(_) => "bundle",
        };
        let described = described_port(self.sessions, at);
        PortDocument {
            port: at.port.0,
            name: port.name.to_string(),
            mac: port.hw_addr.to_string(),
            is_enabled: described.map_or(port.is_up, is_port_enabled),
            is_up: port.is_up,
            speed_bits_per_s: described.and_then(speed_bits_per_s),
            role,
            peer: self.view.link_from(at).map(|link| self.place(link.to)),
            hosts: self.view.hosts_at(at).count(),
        }
    }
}

impl SwitchDocument {
    pub(super) fn new(session: &SwitchSession, given: &GivenNames) -> Self {
        Self {
            dpid: session.datapath_id.to_string(),
            name: switch_name(session, given),
            openflow: session.version.to_string(),
            address: session.addr.to_string(),
            worker: session.worker,
            connected_at_unix_s: session.connected_at.as_secs_f64(),
            role: session.role.and_then(Role::name),
            ports: session.features.ports.len(),
            tables: session.features.n_tables,
            buffers: session.features.n_buffers,
            capabilities: session.features.capabilities,
            description: session.description.as_deref().map(Into::into),
            session: session.statistics.into(),
            last_errors: session.last_errors.iter().map(Into::into).collect(),
        }
    }
}

impl From<&SwitchError> for SwitchErrorDocument {
    fn from(error: &SwitchError) -> Self {
        Self {
            at_unix_s: unix_time(error.at).as_secs_f64(),
            error: error.reason.to_string(),
            request: error.request.map(|kind| kind.to_string()),
            xid: error.xid,
        }
    }
}

impl From<&SwitchDesc> for DescriptionDocument {
    fn from(desc: &SwitchDesc) -> Self {
        Self {
            manufacturer: desc.mfr.to_string(),
            hardware: desc.hw.to_string(),
            software: desc.sw.to_string(),
            serial_number: desc.serial.to_string(),
            datapath: desc.dp.to_string(),
        }
    }
}

impl From<SessionStatistics> for SessionDocument {
    fn from(it: SessionStatistics) -> Self {
        Self {
            messages_received: it.messages_received,
            packet_ins_received: it.packet_ins_received,
            bytes_received: it.bytes_received,
            bytes_sent: it.bytes_sent,
            errors_received: it.errors_received,
            malformed_messages: it.malformed_messages,
            packet_ins_shed: it.packet_ins_shed,
            backlog_bytes: it.backlog_bytes,
        }
    }
}

impl FlowDocument {
    pub(super) fn new(entry: FlowDesc, owners: &Allocations, static_entry: Option<String>) -> Self {
        let owner = owners.owner_of(entry.cookie, entry.priority);
        Self { owner, static_entry, text: flow_text(&entry), entry }
    }
}

/// A flow entry in the syntax of `ovs-ofctl add-flow`.
pub(super) fn flow_text(entry: &FlowDesc) -> String {
    let flow_mod = FlowMod {
        table_id: entry.table_id,
        priority: entry.priority,
        idle_timeout: entry.idle_timeout,
        hard_timeout: entry.hard_timeout,
        flags: entry.flags,
        importance: entry.importance,
        cookie: entry.cookie,
        matching: entry.matching.clone(),
        instructions: entry.instructions.clone(),
        ..FlowMod::default()
    };
    flow_mod.to_text()
}
