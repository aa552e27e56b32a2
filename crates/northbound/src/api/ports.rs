//! The ports of a switch, or of all switches by their traffic, with statistics and rates.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sluice_base::sort_by;
use sluice_sdk::view::SwitchPort;
use utoipa::ToSchema;

use super::documents::{Names, PlaceDocument, PortDocument};
use super::error::ApiError;
use super::extract::{ApiPath, ApiQuery};
use super::openapi::OfSwitch;
use super::{ApiState, names};
use crate::port_statistics::{PortCounters, PortRates};
use crate::routes::{Routes, routes};

/// The busiest ports that are listed, unless the request says how many, and at most.
const BUSIEST_DEFAULT: usize = 20;
const BUSIEST_MAX: usize = 1000;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(ports_of_switch)).routes(routes!(busiest_ports))
}

#[derive(Serialize, ToSchema)]
struct PortsDocument {
    ports: Vec<MeasuredPortDocument>,
}

#[derive(Serialize, ToSchema)]
struct MeasuredPortDocument {
    #[serde(flatten)]
    port: PortDocument,
    /// What the port has counted since it exists; `null` until the switch has answered.
    statistics: Option<PortCounters>,
    /// Averages over the last two seconds; `null` until the switch has answered twice.
    rates: Option<PortRates>,
}

#[derive(Serialize, ToSchema)]
struct BusiestPortsDocument {
    /// The busiest first, by bits per second in both directions. Ports without rates are not listed.
    ports: Vec<BusyPortDocument>,
}

#[derive(Serialize, ToSchema)]
struct BusyPortDocument {
    at: PlaceDocument,
    rates: PortRates,
    /// Ethernet addresses of the hosts at the port, some of them if there are many.
    hosts: Vec<String>,
}

/// Hosts of a busy port that are listed.
const HOSTS_OF_PORT_MAX: usize = 4;

/// How many of the busiest ports are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct BusiestQuery {
    /// Ports of the list.
    #[param(maximum = 1000, default = 20)]
    limit: Option<usize>,
}

/// The ports of a switch, with what they are connected to and what they have counted.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}/ports",
    params(
        ("switch" = String, Path, description = "Datapath id or name of a switch")
    ),
    responses((status = 200, body = PortsDocument), OfSwitch)
)]
async fn ports_of_switch(
    State(state): State<ApiState>,
    ApiPath(switch): ApiPath<String>,
) -> Result<Json<PortsDocument>, ApiError> {
    let sessions = state.controller.switches();
    let id = names::find(&sessions, &state.given_names(), &switch)?.datapath_id;
    state.statistics.want(id);
    state.statistics.wait_for(id).await;
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    let ports = copy.view.switch(id).into_iter().flat_map(|switch| &switch.ports);
    let ports = ports.map(|(&no, port)| {
        let at = SwitchPort::new(id, no);
        let (statistics, rates) = state.statistics.of(at);
        MeasuredPortDocument { port: names.port(at, port), statistics, rates }
    });
    Ok(Json(PortsDocument { ports: ports.collect() }))
}

/// The ports of all switches with the most traffic.
#[utoipa::path(
    get,
    path = "/v1/ports/busiest",
    params(BusiestQuery),
    responses((status = 200, body = BusiestPortsDocument))
)]
async fn busiest_ports(
    State(state): State<ApiState>,
    ApiQuery(query): ApiQuery<BusiestQuery>,
) -> Result<Json<BusiestPortsDocument>, ApiError> {
    let limit = query.limit.unwrap_or(BUSIEST_DEFAULT);
    if limit > BUSIEST_MAX {
        return Err(ApiError::invalid(format!("limit is {limit}: expected at most {BUSIEST_MAX}")));
    }
    let sessions = state.controller.switches();
    state.statistics.want_if_room(sessions.iter().map(|session| session.datapath_id));
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    let all = copy
        .view
        .switches()
        .flat_map(|(id, switch)| switch.ports.keys().map(move |&no| SwitchPort::new(id, no)));
    let mut busy: Vec<_> = all.filter_map(|at| Some((at, state.statistics.of(at).1?))).collect();
    sort_by(&mut busy, |(a, rates), (b, other)| {
        other.bits_per_s().total_cmp(&rates.bits_per_s()).then(a.cmp(b))
    });
    let document = |&(at, rates): &(SwitchPort, PortRates)| {
        let hosts = copy.view.hosts_at(at).take(HOSTS_OF_PORT_MAX);
        let hosts = hosts.map(|(id, _)| id.mac.to_string()).collect();
        BusyPortDocument { at: names.place(at), rates, hosts }
    };
    Ok(Json(BusiestPortsDocument { ports: busy.iter().take(limit).map(document).collect() }))
}
