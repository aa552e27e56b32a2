//! Links that are taken out of service: asked for, watched, and put back.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use sluice_io::clock;
use sluice_openflow::PortNo;
use sluice_sdk::SwitchSession;
use sluice_sdk::view::{
    Cable, DRAINED_CABLES_MAX, DrainProgress, DrainedLink, NetworkView, RecordFact, SwitchPort,
};
use tokio::time::sleep;
use utoipa::ToSchema;

use super::ApiState;
use super::documents::{Names, PlaceDocument};
use super::error::ApiError;
use super::extract::ApiPath;
use super::names;
use super::openapi::OfPort;
use super::static_entries::write;
use crate::routes::{Routes, routes};

/// How often, and how many times, it is checked whether the copy of the view has a change.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
const CHECKS_MAX: u32 = 100;

type ApiResult<T> = Result<T, ApiError>;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(drains)).routes(routes!(drain, drain_at, undrain))
}

/// All links that are taken out of service.
#[derive(Serialize, ToSchema)]
pub(super) struct DrainsDocument {
    drains: Vec<DrainDocument>,
}

/// A link that is taken out of service.
#[derive(Serialize, ToSchema)]
pub(super) struct DrainDocument {
    state: DrainState,
    /// Whether the link is there: it is not while it is unplugged.
    is_up: bool,
    requested_at_unix_s: f64,
    /// What each end still sends.
    ends: [DrainEndDocument; 2],
}

/// How far a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum DrainState {
    /// Something may still use it.
    Draining,
    /// Nothing uses it: it may be unplugged.
    Drained,
}

#[derive(Serialize, ToSchema)]
struct DrainEndDocument {
    at: PlaceDocument,
    /// What is known of this end; `null` if its switch is not connected, or no application reports it.
    progress: Option<ProgressDocument>,
}

#[derive(Serialize, ToSchema)]
struct ProgressDocument {
    /// Flow entries of forwarding that send into the link.
    entries: u32,
    /// Those of them for which there is no other path.
    without_alternative: u32,
    /// Flow entries of others that send into the link.
    foreign_entries: u32,
    /// Whether the port has sent next to nothing but link probes in the last seconds.
    is_quiet: bool,
}

/// Answer to a link that is put back into service.
#[derive(Serialize, ToSchema)]
pub(super) struct UndrainedDocument {
    /// Whether it was out of service.
    was_drained: bool,
}

/// The links that are taken out of service.
#[utoipa::path(
    get,
    path = "/v1/drains",
    responses((status = 200, body = DrainsDocument))
)]
async fn drains(State(state): State<ApiState>) -> Json<DrainsDocument> {
    let sessions = state.controller.switches();
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    let cables = copy.view.drained_cables();
    Json(DrainsDocument {
        drains: cables.map(|(cable, drained)| names.drain(cable, *drained)).collect(),
    })
}

/// Takes the link of a port out of service.
#[utoipa::path(
    put,
    path = "/v1/switches/{switch}/ports/{port}/drain",
    params(("switch" = String, Path, description = "Datapath id or name of a switch"), ("port" = String, Path, description = "Number or name of a port")),
    responses((status = 200, body = DrainDocument), OfPort)
)]
async fn drain(
    State(state): State<ApiState>,
    ApiPath((switch, port)): ApiPath<(String, String)>,
) -> ApiResult<Json<DrainDocument>> {
    let sessions = state.controller.switches();
    let at = names::find_port(&sessions, &state.given_names(), &switch, &port)?;
    let cable = {
        let copy = state.view.lock();
        let view = &copy.view;
        let cable = cable_at(view, at).ok_or_else(|| {
            let message = format!("port {port} of switch {switch} has no link to another switch");
            ApiError::not_found("no_link", message)
        })?;
        if !view.is_drained(cable) && view.drained_cables().count() >= DRAINED_CABLES_MAX {
            let message = format!("{DRAINED_CABLES_MAX} links are out of service already");
            return Err(ApiError::new(StatusCode::CONFLICT, "too_many_drains", message));
        }
        cable
    };
    if !state.view.lock().view.is_drained(cable) {
        let drained = DrainedLink { requested_at: clock::since_epoch() };
        publish(&state, cable, Some(drained)).await?;
    }
    document(&state, &sessions, cable)
}

/// How far the link of a port is with being taken out of service.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}/ports/{port}/drain",
    params(("switch" = String, Path, description = "Datapath id or name of a switch"), ("port" = String, Path, description = "Number or name of a port")),
    responses((status = 200, body = DrainDocument), OfPort)
)]
async fn drain_at(
    State(state): State<ApiState>,
    ApiPath((switch, port)): ApiPath<(String, String)>,
) -> ApiResult<Json<DrainDocument>> {
    let sessions = state.controller.switches();
    let at = find_port(&state, &sessions, &switch, &port)?;
    let cable = drained_cable_at(&state.view.lock().view, at);
    let cable = cable.ok_or_else(|| not_drained(&switch, &port))?;
    document(&state, &sessions, cable)
}

/// Puts the link of a port back into service.
#[utoipa::path(
    delete,
    path = "/v1/switches/{switch}/ports/{port}/drain",
    params(("switch" = String, Path, description = "Datapath id or name of a switch"), ("port" = String, Path, description = "Number or name of a port")),
    responses((status = 200, body = UndrainedDocument), OfPort)
)]
async fn undrain(
    State(state): State<ApiState>,
    ApiPath((switch, port)): ApiPath<(String, String)>,
) -> ApiResult<Json<UndrainedDocument>> {
    let sessions = state.controller.switches();
    let at = find_port(&state, &sessions, &switch, &port)?;
    let cable = drained_cable_at(&state.view.lock().view, at);
    if let Some(cable) = cable {
        publish(&state, cable, None).await?;
    }
    Ok(Json(UndrainedDocument { was_drained: cable.is_some() }))
}

/// A port of a link that may be out of service: the switch may have lost it with the link.
fn find_port(
    state: &ApiState,
    sessions: &[SwitchSession],
    switch: &str,
    port: &str,
) -> ApiResult<SwitchPort> {
    let given = state.given_names();
    names::find_port(sessions, &given, switch, port).or_else(|error| {
        let number = port.parse().map_err(|_| error)?;
        Ok(SwitchPort::new(names::find(sessions, &given, switch)?.datapath_id, PortNo(number)))
    })
}

fn not_drained(switch: &str, port: &str) -> ApiError {
    let message = format!("the link of port {port} of switch {switch} is not out of service");
    ApiError::not_found("not_drained", message)
}

/// The cable that is, or was before it was unplugged, at a port.
fn cable_at(view: &NetworkView, at: SwitchPort) -> Option<Cable> {
    let link = view.link_from(at).or_else(|| view.link_to(at));
    link.map(Cable::from).or_else(|| drained_cable_at(view, at))
}

fn drained_cable_at(view: &NetworkView, at: SwitchPort) -> Option<Cable> {
    let cables = view.drained_cables().map(|(cable, _)| cable);
    let mut cables = cables.filter(|cable| cable.ends().contains(&at));
    // If another cable was plugged in, the one that is there is meant.
    let first = cables.next();
    let plugged = view.link_from(at).or_else(|| view.link_to(at)).map(Cable::from);
    plugged.filter(|&cable| view.is_drained(cable)).or(first)
}

/// Publishes a change, and waits until the copy of the view has it, so that the next request sees it.
async fn publish(state: &ApiState, cable: Cable, drained: Option<DrainedLink>) -> ApiResult<()> {
    let busy = |why: &str| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why);
    if state.declared.is_some() {
        // Stored first, so that it is in effect again after a restart.
        write(state, move |declared| declared.set_drained(cable, drained)).await?;
    } else if !state.controller.publish(vec![RecordFact::new(cable, drained)]) {
        return Err(busy("the controller has too much to do"));
    }
    for _ in 0..CHECKS_MAX {
        if state.view.lock().view.is_drained(cable) == drained.is_some() {
            return Ok(());
        }
        sleep(CHECK_INTERVAL).await;
    }
    Err(busy("the controller takes too long"))
}

fn document(
    state: &ApiState,
    sessions: &[SwitchSession],
    cable: Cable,
) -> ApiResult<Json<DrainDocument>> {
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions, given: &given };
    let drained = copy.view.record::<DrainedLink>(cable).copied();
    let drained = drained.ok_or_else(|| {
        ApiError::not_found("not_drained", format!("the link from {cable} is not out of service"))
    })?;
    Ok(Json(names.drain(cable, drained)))
}

impl Names<'_> {
    fn drain(&self, cable: Cable, drained: DrainedLink) -> DrainDocument {
        let progress = |at| self.view.record::<DrainProgress>(at);
        let ends @ [a, b] = cable.ends();
        let is_done = ends.iter().all(|&at| progress(at).is_some_and(DrainProgress::is_done));
        let document = |at| DrainEndDocument {
            at: self.place(at),
            progress: progress(at).map(|&it| ProgressDocument {
                entries: it.entries,
                without_alternative: it.without_alternative,
                foreign_entries: it.foreign_entries,
                is_quiet: it.is_quiet,
            }),
        };
        DrainDocument {
            state: if is_done { DrainState::Drained } else { DrainState::Draining },
            is_up: self.view.is_link(a, b),
            requested_at_unix_s: drained.requested_at.as_secs_f64(),
            ends: ends.map(document),
        }
    }
}
