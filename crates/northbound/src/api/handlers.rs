//! What each route answers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use serde::Deserialize;
use sluice_base::{ordered, sort_by_key};
use sluice_io::clock;
use sluice_sdk::view::{Cable, Host, HostId};

use super::ApiState;
use super::documents::{
    ControllerDocument, HostsDocument, LinksDocument, ListedHostDocument, Names, SwitchDocument,
    SwitchesDocument, WorkerDocument,
};
use super::error::ApiError;
use super::extract::{ApiPath, ApiQuery};
use super::openapi::OfSwitch;
use super::store_error::StoreErrorDocument;
use super::{names, quarantines, values};

/// Hosts of one page, unless the request says how many, and at most.
const HOSTS_DEFAULT: usize = 1000;
const HOSTS_MAX: usize = 10_000;

type ApiResult<T> = Result<T, ApiError>;

/// Which hosts are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HostFilter {
    /// A switch by datapath id or name.
    switch: Option<String>,
    /// Number of a port.
    #[param(maximum = 4_294_967_295_u32)]
    port: Option<u32>,
    /// An Ethernet address.
    mac: Option<String>,
    /// An IP address.
    #[param(value_type = Option<String>, example = "10.0.0.1")]
    ip: Option<IpAddr>,
    /// Hosts that are left out at the beginning.
    #[serde(default)]
    offset: usize,
    /// Hosts of the page.
    #[param(maximum = 10_000, default = 1000)]
    limit: Option<usize>,
}

/// The controller itself.
#[utoipa::path(
    get,
    path = "/v1/controller",
    responses((status = 200, body = ControllerDocument))
)]
pub(super) async fn controller(State(state): State<ApiState>) -> Json<ControllerDocument> {
    let sessions = state.controller.switches();
    let cores = state.settings().worker_cores;
    let worker = |(number, core)| WorkerDocument {
        core,
        switches: sessions.iter().filter(|session| session.worker == number).count(),
    };
    let store_error = StoreErrorDocument::new(&state);
    let copy = state.view.lock();
    let cables: BTreeSet<_> = ordered(copy.view.links().map(Cable::from));
    Json(ControllerDocument {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: clock::now().saturating_duration_since(state.started).as_secs(),
        switches: sessions.len(),
        links: copy.view.links().count(),
        cables: cables.len(),
        hosts: copy.view.host_count(),
        is_complete: copy.is_complete,
        store_error,
        workers: cores.into_iter().enumerate().map(worker).collect(),
    })
}

/// The connected switches.
#[utoipa::path(
    get,
    path = "/v1/switches",
    responses((status = 200, body = SwitchesDocument))
)]
pub(super) async fn switches(State(state): State<ApiState>) -> Json<SwitchesDocument> {
    let (sessions, given) = (state.controller.switches(), state.given_names());
    let switches = sessions.iter().map(|it| SwitchDocument::new(it, &given)).collect();
    Json(SwitchesDocument { switches })
}

/// One switch.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}",
    params(
        ("switch" = String, Path, description = "Datapath id or name of a switch")
    ),
    responses((status = 200, body = SwitchDocument), OfSwitch)
)]
pub(super) async fn switch(
    State(state): State<ApiState>,
    ApiPath(switch): ApiPath<String>,
) -> ApiResult<Json<SwitchDocument>> {
    let (sessions, given) = (state.controller.switches(), state.given_names());
    Ok(Json(SwitchDocument::new(names::find(&sessions, &given, &switch)?, &given)))
}

/// The links between switches, each direction on its own.
#[utoipa::path(
    get,
    path = "/v1/links",
    responses((status = 200, body = LinksDocument))
)]
pub(super) async fn links(State(state): State<ApiState>) -> Json<LinksDocument> {
    let sessions = state.controller.switches();
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    Json(LinksDocument { links: copy.view.links().map(|link| names.link(link)).collect() })
}

/// The hosts that the filters select.
#[utoipa::path(
    get,
    path = "/v1/hosts",
    params(HostFilter),
    responses((status = 200, body = HostsDocument), OfSwitch)
)]
pub(super) async fn hosts(
    State(state): State<ApiState>,
    ApiQuery(filter): ApiQuery<HostFilter>,
) -> ApiResult<Json<HostsDocument>> {
    let limit = filter.limit.unwrap_or(HOSTS_DEFAULT);
    if limit > HOSTS_MAX {
        return Err(ApiError::invalid(format!("limit is {limit}: expected at most {HOSTS_MAX}")));
    }
    let sessions = state.controller.switches();
    let given = state.given_names();
    let at =
        filter.switch.as_deref().map(|text| names::find(&sessions, &given, text)).transpose()?;
    let at = at.map(|session| session.datapath_id);
    let quarantines = state.quarantines();
    let mac = filter.mac.as_deref().map(|text| values::required_mac("mac", text)).transpose()?;
    let copy = state.view.lock();
    let unseen = quarantines::unseen(&copy.view, &quarantines);
    let known = copy.view.hosts().chain(unseen.iter().map(|(id, host)| (*id, host)));
    let mut selected: Vec<_> = known
        .filter(|(id, host)| {
            at.is_none_or(|at| host.at.switch == at)
                && filter.port.is_none_or(|port| host.at.port.0 == port)
                && filter.ip.is_none_or(|ip| host.addrs.contains(&ip))
                && mac.is_none_or(|mac| id.mac == mac)
        })
        .collect();
    sort_by_key(&mut selected, |(id, _)| *id);
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    let document = |&(id, host): &(HostId, &Host)| ListedHostDocument {
        host: names.host(id, host),
        is_quarantined: quarantines.contains_key(&id.mac),
    };
    let page = selected.iter().skip(filter.offset).take(limit);
    Ok(Json(HostsDocument { hosts: page.map(document).collect(), total: selected.len() }))
}

pub(crate) async fn not_found(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}: see docs/api.md", uri.path());
    ApiError::not_found("no_such_path", message)
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} has no method {method}: see docs/api.md", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
