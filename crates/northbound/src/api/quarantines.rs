//! Hosts in quarantine: nothing that they send, and nothing that is sent to them, passes a switch. See `docs/operations.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use sluice_base::ordered;
use sluice_declared::{Names as GivenNames, Quarantine, QuarantineInfo};
use sluice_io::clock;
use sluice_openflow::{MacAddr, VlanId};
use sluice_sdk::view::{Host, HostId, NetworkView};
use utoipa::ToSchema;

use super::access::Identity;
use super::documents::{Names, PlaceDocument};
use super::error::ApiError;
use super::extract::{ApiJson, ApiPath, ApiQuery};
use super::openapi::{OfQuarantine, OfStore};
use super::static_documents::StateDocument;
use super::static_entries::{WAIT_MAX, readable, wait_until_tried, write};
use super::{ApiState, values};
use crate::events::EventKind;
use crate::routes::{Routes, routes};

type ApiResult<T> = Result<T, ApiError>;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(quarantines)).routes(routes!(quarantine, show, release))
}

/// How a quarantine begins or ends.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    /// Answer when all connected switches have accepted or refused it.
    #[serde(default)]
    wait: bool,
}

/// Why a host is put into quarantine.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"reason": "scans the network"}))]
#[serde(deny_unknown_fields)]
pub(super) struct QuarantineBody {
    /// For people: at most 256 characters.
    reason: Option<String>,
}

/// All hosts in quarantine.
#[derive(Serialize, ToSchema)]
pub(super) struct QuarantinesDocument {
    quarantines: Vec<QuarantineDocument>,
}

/// A host in quarantine.
#[derive(Serialize, ToSchema)]
pub(super) struct QuarantineDocument {
    mac: String,
    /// The name that an operator has given it.
    name: Option<String>,
    reason: Option<String>,
    /// Who has asked for it.
    by: String,
    since_unix_s: u64,
    /// The IP addresses that it has, or had when it was put into quarantine.
    addresses: Vec<String>,
    /// The port where it is, or was when it was put into quarantine.
    at: Option<PlaceDocument>,
    /// The worst of the states at all switches: `installed`, `pending` or `refused`.
    state: &'static str,
    state_reason: Option<String>,
    switches: Vec<StateDocument>,
}

/// Answer to a host that is released.
#[derive(Serialize, ToSchema)]
pub(super) struct ReleasedDocument {
    mac: String,
    name: Option<String>,
    since_unix_s: u64,
}

/// The hosts in quarantine.
#[utoipa::path(
    get,
    path = "/v1/quarantines",
    responses((status = 200, body = QuarantinesDocument), OfStore)
)]
async fn quarantines(State(state): State<ApiState>) -> ApiResult<Json<QuarantinesDocument>> {
    let quarantines = documents(&state, |_| true)?;
    Ok(Json(QuarantinesDocument { quarantines }))
}

/// Puts a host into quarantine: nothing that it sends, and nothing that is sent to it, passes a switch.
#[utoipa::path(
    post,
    path = "/v1/hosts/{host}/quarantine",
    params(("host" = String, Path, description = "Name, Ethernet address or IP address of a host"), WaitQuery),
    request_body = QuarantineBody,
    responses((status = 200, body = QuarantineDocument), OfQuarantine)
)]
async fn quarantine(
    State(state): State<ApiState>,
    Extension(identity): Extension<Identity>,
    ApiPath(host): ApiPath<String>,
    ApiQuery(WaitQuery { wait }): ApiQuery<WaitQuery>,
    ApiJson(QuarantineBody { reason }): ApiJson<QuarantineBody>,
) -> ApiResult<Json<QuarantineDocument>> {
    let given = state.given_names();
    let (mac, info) = {
        let view = &state.view.lock().view;
        let mac = find_host(view, &given, &readable(&state)?.quarantines(), &host)?;
        let info = QuarantineInfo::new(identity.who, reason, clock::since_epoch());
        let info = match hosts_of(view, |it| it == mac).get(&mac) {
            Some(host) => info.with_host(host, view),
            None => info,
        };
        (mac, info)
    };
    let recorder = state.clone();
    // Recorded even if the client does not wait any more.
    let written = write(&state, move |declared| {
        let revision = declared.quarantine(mac, info.clone())?;
        record(&recorder, EventKind::HostQuarantined, mac, &info);
        Ok(revision)
    });
    let revision = written.await?;
    if wait {
        wait_until_tried(&state, revision, WAIT_MAX).await?;
    }
    one_document(&state, mac).map(Json)
}

/// A host in quarantine.
#[utoipa::path(
    get,
    path = "/v1/hosts/{host}/quarantine",
    params(("host" = String, Path, description = "Name, Ethernet address or IP address of a host")),
    responses((status = 200, body = QuarantineDocument), OfQuarantine)
)]
async fn show(
    State(state): State<ApiState>,
    ApiPath(host): ApiPath<String>,
) -> ApiResult<Json<QuarantineDocument>> {
    let mac = find_known(&state, &host)?;
    one_document(&state, mac).map(Json)
}

/// Releases a host from quarantine.
#[utoipa::path(
    delete,
    path = "/v1/hosts/{host}/quarantine",
    params(("host" = String, Path, description = "Name, Ethernet address or IP address of a host"), WaitQuery),
    responses((status = 200, body = ReleasedDocument), OfQuarantine)
)]
async fn release(
    State(state): State<ApiState>,
    Extension(identity): Extension<Identity>,
    ApiPath(host): ApiPath<String>,
    ApiQuery(WaitQuery { wait }): ApiQuery<WaitQuery>,
) -> ApiResult<Json<ReleasedDocument>> {
    let mac = find_known(&state, &host)?;
    let recorder = state.clone();
    let written = write(&state, move |declared| {
        let (revision, before) = declared.release(mac)?;
        let ended = before.info.ended_by(identity.who);
        record(&recorder, EventKind::HostReleased, mac, &ended);
        Ok((revision, before))
    });
    let (revision, before) = written.await?;
    if wait {
        wait_until_tried(&state, revision, WAIT_MAX).await?;
    }
    let name = state.given_names().host(mac).map(str::to_owned);
    Ok(Json(ReleasedDocument {
        mac: mac.to_string(),
        name,
        since_unix_s: before.info.since_unix_s,
    }))
}

fn record(state: &ApiState, kind: EventKind, mac: MacAddr, info: &QuarantineInfo) {
    state.events.record_quarantine(kind, mac, info, &state.view.lock().view);
}

fn not_quarantined(mac: MacAddr) -> ApiError {
    ApiError::not_found("not_quarantined", format!("host {mac} is not in quarantine"))
}

fn find_known(state: &ApiState, host: &str) -> ApiResult<MacAddr> {
    let quarantines = readable(state)?.quarantines();
    find_host(&state.view.lock().view, &state.given_names(), &quarantines, host)
}

/// The host that a request names: by the name that an operator has given it, by its Ethernet address, or by an IP address that one
/// host has. The Ethernet address need not be known: the host may be elsewhere, or away.
fn find_host(
    view: &NetworkView,
    given: &GivenNames,
    quarantines: &BTreeMap<MacAddr, Arc<Quarantine>>,
    text: &str,
) -> ApiResult<MacAddr> {
    if let Some(mac) = given.host_named(text).or_else(|| values::mac(text)) {
        return Ok(mac);
    }
    let Ok(address) = text.parse::<IpAddr>() else {
        let message = format!(
            "no host is named {text:?} (expected a declared name, an Ethernet address, or an IP address)"
        );
        return Err(ApiError::not_found("no_such_host", message));
    };
    let known = view.hosts().filter(|(_, host)| host.addrs.contains(&address));
    let of_address = quarantines.values().filter(|it| it.info.addresses.contains(&address));
    let found: BTreeSet<_> =
        ordered(known.map(|(id, _)| id.mac).chain(of_address.map(|it| it.mac)));
    match (found.first(), found.len()) {
        (Some(&mac), 1) => Ok(mac),
        (None, _) => {
            let message = format!("no host with the IP address {address} is known");
            Err(ApiError::not_found("no_such_host", message))
        }
        (Some(_), count) => {
            let some: Vec<_> = found.iter().take(5).map(ToString::to_string).collect();
            let message = format!(
                "{count} hosts have the IP address {address}: use the Ethernet address ({})",
                some.join(", ")
            );
            Err(ApiError::new(StatusCode::CONFLICT, "ambiguous_host", message))
        }
    }
}

/// The hosts with certain Ethernet addresses, of each the one in the lowest VLAN.
fn hosts_of(view: &NetworkView, is_wanted: impl Fn(MacAddr) -> bool) -> BTreeMap<MacAddr, &Host> {
    let mut lowest: BTreeMap<MacAddr, (HostId, &Host)> = BTreeMap::new();
    for (id, host) in view.hosts().filter(|(id, _)| is_wanted(id.mac)) {
        let (known, at) = lowest.entry(id.mac).or_insert((id, host));
        if id < *known {
            (*known, *at) = (id, host);
        }
    }
    ordered(lowest.into_iter().map(|(mac, (_, host))| (mac, host)))
}

/// The hosts in quarantine that the view does not have: with their packets dropped, they are not seen.
pub(super) fn unseen(
    view: &NetworkView,
    quarantines: &BTreeMap<MacAddr, Arc<Quarantine>>,
) -> Vec<(HostId, Host)> {
    let seen = hosts_of(view, |mac| quarantines.contains_key(&mac));
    let unseen = quarantines.values().filter(|it| !seen.contains_key(&it.mac));
    let host = |it: &Arc<Quarantine>| {
        let id = HostId { mac: it.mac, vlan: VlanId(0) };
        Some((id, Host { at: it.info.at()?, addrs: it.info.addresses.clone() }))
    };
    unseen.filter_map(host).collect()
}

fn one_document(state: &ApiState, mac: MacAddr) -> ApiResult<QuarantineDocument> {
    let mut documents = documents(state, |it| it == mac)?;
    documents.pop().ok_or_else(|| not_quarantined(mac))
}

/// The documents of the hosts in quarantine with certain Ethernet addresses.
fn documents(
    state: &ApiState,
    is_wanted: impl Fn(MacAddr) -> bool,
) -> ApiResult<Vec<QuarantineDocument>> {
    let mut quarantines = readable(state)?.quarantines();
    quarantines.retain(|&mac, _| is_wanted(mac));
    let sessions = state.controller.switches();
    let given = state.given_names();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions, given: &given };
    let known = hosts_of(&copy.view, |mac| quarantines.contains_key(&mac));
    readable(state)?.read(|reconciler| {
        let document = |it: &Arc<Quarantine>| {
            let statuses = reconciler.quarantine_statuses(it);
            let worst = statuses.iter().max_by_key(|(_, status)| status.state.severity());
            let (worst, state_reason) = match worst {
                Some((_, status)) => (status.state.name(), status.state.reason()),
                None => ("pending", Some("no switch is connected")),
            };
            let state_of = |(id, status): &_| StateDocument::new(*id, status, &given, &sessions);
            QuarantineDocument {
                state: worst,
                state_reason: state_reason.map(str::to_owned),
                switches: statuses.iter().map(state_of).collect(),
                ..names.quarantine(it, known.get(&it.mac).copied())
            }
        };
        Ok(quarantines.values().map(document).collect())
    })
}

impl Names<'_> {
    fn quarantine(&self, it: &Quarantine, known: Option<&Host>) -> QuarantineDocument {
        let addresses = known.map_or(&it.info.addresses, |host| &host.addrs);
        QuarantineDocument {
            mac: it.mac.to_string(),
            name: self.given.host(it.mac).map(str::to_owned),
            reason: it.info.reason.clone(),
            by: it.info.by.clone(),
            since_unix_s: it.info.since_unix_s,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            at: known.map(|host| host.at).or_else(|| it.info.at()).map(|at| self.place(at)),
            state: "pending",
            state_reason: None,
            switches: vec![],
        }
    }
}
