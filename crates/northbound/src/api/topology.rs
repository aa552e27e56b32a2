//! `/v1/topology`: the whole network in one document, for maps of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;
use sluice_io::clock;
use sluice_openflow::DatapathId;
use sluice_sdk::SwitchSession;
use sluice_sdk::view::Cable;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::names::switch_name;
use crate::port_statistics::SWITCHES_MAX;

/// How old the document may be while no switch, port or link changes. Clients share it, so that many cost as much as one.
const AGE_MAX: Duration = Duration::from_secs(1);

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(topology))
}

/// The document that was made last.
#[derive(Debug, Default)]
pub(super) struct TopologyCache(Mutex<Option<CachedDocument>>);

#[derive(Debug)]
struct CachedDocument {
    made_at: Instant,
    /// What the document is a picture of.
    versions: ((u64, u64), usize),
    body: Bytes,
}

#[derive(Serialize, ToSchema)]
struct TopologyDocument {
    /// Whether all switches, links and hosts are known; see `/v1/controller`.
    is_complete: bool,
    /// In the order of their datapath ids.
    switches: Vec<MapSwitchDocument>,
    /// Each direction on its own.
    links: Vec<MapLinkDocument>,
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
    /// What the port has sent in the last seconds; `null` until the switch was read twice.
    bits_per_s: Option<f64>,
}

/// All switches and links, with the load of the links.
///
/// It is made once a second for all clients, or more often while the network changes.
#[utoipa::path(
    get,
    path = "/v1/topology",
    responses((status = 200, body = TopologyDocument))
)]
async fn topology(State(state): State<ApiState>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], body(&state))
}

/// The document that was made last, or a new one.
fn body(state: &ApiState) -> Bytes {
    let sessions = state.controller.switches();
    for session in sessions.iter().take(SWITCHES_MAX) {
        state.statistics.want(session.datapath_id);
    }
    let now = clock::now();
    let versions = (state.view.lock().view.path_version(), sessions.len());
    let mut cached = state.topology.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*cached
        && known.versions == versions
        && now.saturating_duration_since(known.made_at) < AGE_MAX
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
        })
    });
    TopologyDocument {
        is_complete: copy.is_complete,
        switches: switches.collect(),
        links: links.collect(),
    }
}
