//! `/v1/topology`: the whole network in one document, for maps of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use sluice_base::sort_by_key;
use sluice_io::clock;
use sluice_openflow::DatapathId;
use sluice_sdk::SwitchSession;
use sluice_sdk::view::{BlockedPort, Cable, NetworkView, PortRole, SwitchPort};
use utoipa::ToSchema;

use super::ApiState;
use super::documents::{described_port, speed_bits_per_s};
use super::error::ApiError;
use super::extract::ApiQuery;
use super::names::switch_name;
use crate::routes::{Routes, routes};

/// How old the document may be while no switch, port or link changes. Clients share it, so that many cost as much as one.
const AGE_MAX: Duration = Duration::from_secs(1);

/// How old it may be while they change. Less than the time for which the web page waits after an event before it reads the document.
const CHANGING_AGE_MAX: Duration = Duration::from_millis(200);

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(topology))
}

/// The document that was made last.
#[derive(Debug, Default)]
pub(super) struct TopologyCache(Mutex<Option<CachedDocument>>);

/// Versions of what the document is a picture of: the network, the blocks of ports, and the number of connected switches.
type Versions = ((u64, u64), u64, usize);

#[derive(Debug)]
struct CachedDocument {
    made_at: Instant,
    versions: Versions,
    body: Bytes,
}

impl CachedDocument {
    fn may_be_used(&self, versions: Versions, now: Instant) -> bool {
        let age_max = if self.versions == versions { AGE_MAX } else { CHANGING_AGE_MAX };
        now.saturating_duration_since(self.made_at) < age_max
    }
}

/// Whether the client shows loads.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct TopologyQuery {
    /// Read the statistics of the ports of all switches from now on, for 15 seconds.
    #[serde(default)]
    loads: bool,
}

#[derive(Serialize, ToSchema)]
struct TopologyDocument {
    /// Whether all switches, links and hosts are known; see `/v1/controller`.
    is_complete: bool,
    /// In the order of their datapath ids.
    switches: Vec<MapSwitchDocument>,
    /// Each direction on its own.
    links: Vec<MapLinkDocument>,
    /// Blocked ports, ordered by switch and port.
    blocked_ports: Vec<BlockedPortDocument>,
    /// Number of benches that report to `/v1/bench`.
    benches: usize,
}

#[derive(Serialize, ToSchema)]
struct MapSwitchDocument {
    dpid: String,
    name: Option<String>,
    /// Number of hosts at its ports.
    hosts: usize,
}

#[derive(Serialize, ToSchema)]
struct MapLinkDocument {
    /// The switch that sends: its place in `switches`, from 0.
    from: usize,
    from_port: u32,
    /// The switch that receives.
    to: usize,
    to_port: u32,
    /// Whether it is taken out of service.
    is_drained: bool,
    /// What the port has sent in the last seconds; `null` until the switch was read twice, which it is while clients ask for loads.
    bits_per_s: Option<f64>,
    /// Current speed of the port that sends; `null` if its switch does not state it.
    speed_bits_per_s: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct BlockedPortDocument {
    /// The switch: its place in `switches`, from 0.
    switch: usize,
    port: u32,
    port_name: String,
    /// `packet-ins`: it, or one of its hosts, sends too many. `shared-segment`, `bundle`: another port is used for the same segment or device.
    reason: &'static str,
    /// The host, if only packets of this one are blocked.
    host: Option<String>,
    /// Limit of packet-ins per second; `null` for other reasons.
    packets_per_s_max: Option<u32>,
}

/// All switches and links, with the load of the links.
///
/// It is made once a second for all clients, or up to five times a second while the network changes.
#[utoipa::path(
    get,
    path = "/v1/topology",
    params(TopologyQuery),
    responses((status = 200, body = TopologyDocument))
)]
async fn topology(
    State(state): State<ApiState>,
    ApiQuery(query): ApiQuery<TopologyQuery>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(([(CONTENT_TYPE, "application/json")], body(&state, query.loads)))
}

/// The document that was made last, or a new one.
fn body(state: &ApiState, loads: bool) -> Bytes {
    let sessions = state.controller.switches();
    if loads {
        state.statistics.want_if_room(sessions.iter().map(|session| session.datapath_id));
    }
    let now = clock::now();
    let versions = {
        let view = &state.view.lock().view;
        (view.path_version(), view.records_version::<BlockedPort>(), sessions.len())
    };
    let mut cached = state.topology.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*cached
        && known.may_be_used(versions, now)
    {
        return known.body.clone();
    }
    // Cannot fail: all keys are text.
    let body = Bytes::from(serde_json::to_vec(&document(state, &sessions)).unwrap_or_default());
    *cached = Some(CachedDocument { made_at: now, versions, body: body.clone() });
    body
}

fn document(state: &ApiState, sessions: &[SwitchSession]) -> TopologyDocument {
    let given = state.given_names();
    let copy = state.view.lock();
    let view = &copy.view;
    let place = |id: DatapathId| sessions.binary_search_by_key(&id, |it| it.datapath_id).ok();
    let switches = sessions.iter().map(|session| MapSwitchDocument {
        dpid: session.datapath_id.to_string(),
        name: switch_name(session, &given),
        hosts: view.hosts_of(session.datapath_id).count(),
    });
    // A switch that has just disconnected may still have links.
    let links = view.links().filter_map(|link| {
        let rates = state.statistics.of(link.from).1;
        Some(MapLinkDocument {
            from: place(link.from.switch)?,
            from_port: link.from.port.0,
            to: place(link.to.switch)?,
            to_port: link.to.port.0,
            is_drained: view.is_drained(Cable::from(link)),
            bits_per_s: rates.and_then(|rates| rates.sent_bits_per_s()),
            speed_bits_per_s: described_port(sessions, link.from).and_then(speed_bits_per_s),
        })
    });
    let mut blocked_ports: Vec<_> =
        limited_ports(view, &place).chain(unused_ports(view, &place)).collect();
    sort_by_key(&mut blocked_ports, |it| (it.switch, it.port));
    TopologyDocument {
        is_complete: copy.is_complete,
        switches: switches.collect(),
        links: links.collect(),
        blocked_ports,
        benches: state.benches.count(clock::now()),
    }
}

/// The ports that send too many packet-ins, or whose hosts do.
fn limited_ports(
    view: &NetworkView,
    place: impl Fn(DatapathId) -> Option<usize>,
) -> impl Iterator<Item = BlockedPortDocument> {
    let blocks = view.records::<BlockedPort>().flat_map(|(_, BlockedPort(blocks))| blocks);
    blocks.filter_map(move |block| {
        Some(BlockedPortDocument {
            switch: place(block.at.switch)?,
            port: block.at.port.0,
            port_name: view.port(block.at)?.name.to_string(),
            reason: "packet-ins",
            host: block.host.map(|host| host.to_string()),
            packets_per_s_max: Some(block.packets_per_s_max),
        })
    })
}

/// The ports instead of which another one of the same segment or device is used.
fn unused_ports(
    view: &NetworkView,
    place: impl Fn(DatapathId) -> Option<usize>,
) -> impl Iterator<Item = BlockedPortDocument> {
    let ports = view
        .switches()
        .flat_map(|(id, switch)| switch.ports.iter().map(move |(&no, it)| (id, no, it)));
    ports.filter_map(move |(id, no, port)| {
        let (used, reason) = match port.role {
            PortRole::SharedSegment(used) => (used, "shared-segment"),
            PortRole::Bundle(used) => (used, "bundle"),
            PortRole::Pending | PortRole::Edge | PortRole::Link => return None,
        };
        (used != SwitchPort::new(id, no) && port.is_up).then_some(())?;
        Some(BlockedPortDocument {
            switch: place(id)?,
            port: no.0,
            port_name: port.name.to_string(),
            reason,
            host: None,
            packets_per_s_max: None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_used_longer_while_the_network_does_not_change() {
        let (made_at, versions) = (clock::now(), ((1, 1), 1, 2));
        let document = CachedDocument { made_at, versions, body: Bytes::new() };
        let after = |ms| made_at + Duration::from_millis(ms);
        assert!(document.may_be_used(versions, after(900)));
        assert!(!document.may_be_used(versions, after(1000)));
        assert!(document.may_be_used(((2, 1), 1, 2), after(100)));
        assert!(!document.may_be_used(((1, 1), 2, 2), after(200)));
    }
}
