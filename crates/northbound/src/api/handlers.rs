//! What each route answers.

use std::net::IpAddr;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sluice_io::clock;
use sluice_openflow::{FlowDesc, FlowStatsRequest, MultipartReply, MultipartRequest};
use sluice_sdk::view::SwitchPort;

use super::ApiState;
use super::documents::{
    ControllerDocument, FlowsDocument, HostsDocument, LinksDocument, Names, PortsDocument,
    ReplyDocument, SwitchDocument, SwitchesDocument, flow_text,
};
use super::error::ApiError;
use super::{names, requests};

/// Hosts of one page, unless the request says how many, and at most.
const HOSTS_DEFAULT: usize = 1000;
const HOSTS_MAX: usize = 10_000;

type ApiResult<T> = Result<T, ApiError>;

/// Which hosts are listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostFilter {
    /// A switch by datapath id or name.
    switch: Option<String>,
    port: Option<u32>,
    mac: Option<String>,
    ip: Option<IpAddr>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

/// Which flow entries are listed, and how.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFilter {
    table: Option<u8>,
    format: Option<FlowFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FlowFormat {
    Json,
    OvsOfctl,
}

pub(super) async fn controller(State(state): State<ApiState>) -> Json<ControllerDocument> {
    let copy = state.view.lock();
    Json(ControllerDocument {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: clock::now().saturating_duration_since(state.started).as_secs(),
        switches: state.controller.switches().len(),
        links: copy.view.links().count(),
        hosts: copy.view.host_count(),
        is_complete: copy.is_complete,
    })
}

pub(super) async fn switches(State(state): State<ApiState>) -> Json<SwitchesDocument> {
    let switches = state.controller.switches().iter().map(SwitchDocument::from).collect();
    Json(SwitchesDocument { switches })
}

pub(super) async fn switch(
    State(state): State<ApiState>,
    Path(switch): Path<String>,
) -> ApiResult<Json<SwitchDocument>> {
    let sessions = state.controller.switches();
    Ok(Json(names::find(&sessions, &switch)?.into()))
}

pub(super) async fn ports(
    State(state): State<ApiState>,
    Path(switch): Path<String>,
) -> ApiResult<Json<PortsDocument>> {
    let sessions = state.controller.switches();
    let id = names::find(&sessions, &switch)?.datapath_id;
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions };
    let ports = copy.view.switch(id).into_iter().flat_map(|switch| &switch.ports);
    let ports = ports.map(|(&no, port)| names.port(SwitchPort::new(id, no), port)).collect();
    Ok(Json(PortsDocument { ports }))
}

pub(super) async fn links(State(state): State<ApiState>) -> Json<LinksDocument> {
    let sessions = state.controller.switches();
    let copy = state.view.lock();
    let names = Names { view: &copy.view, sessions: &sessions };
    Json(LinksDocument { links: copy.view.links().map(|link| names.link(link)).collect() })
}

pub(super) async fn hosts(
    State(state): State<ApiState>,
    filter: Result<Query<HostFilter>, QueryRejection>,
) -> ApiResult<Json<HostsDocument>> {
    let Query(filter) = filter.map_err(|error| ApiError::invalid(error.body_text()))?;
    let limit = filter.limit.unwrap_or(HOSTS_DEFAULT);
    if limit > HOSTS_MAX {
        return Err(ApiError::invalid(format!("limit is {limit}: expected at most {HOSTS_MAX}")));
    }
    let sessions = state.controller.switches();
    let at = filter.switch.as_deref().map(|text| names::find(&sessions, text)).transpose()?;
    let at = at.map(|session| session.datapath_id);
    let copy = state.view.lock();
    let mut selected: Vec<_> = copy
        .view
        .hosts()
        .filter(|(id, host)| {
            at.is_none_or(|at| host.at.switch == at)
                && filter.port.is_none_or(|port| host.at.port.0 == port)
                && filter.ip.is_none_or(|ip| host.addrs.contains(&ip))
                && filter.mac.as_ref().is_none_or(|mac| id.mac.to_string() == mac.to_lowercase())
        })
        .collect();
    selected.sort_unstable_by_key(|(id, _)| *id);
    let names = Names { view: &copy.view, sessions: &sessions };
    let page = selected.iter().skip(filter.offset).take(limit);
    let hosts = page.map(|&(id, host)| names.host(id, host)).collect();
    Ok(Json(HostsDocument { hosts, total: selected.len() }))
}

pub(super) async fn flows(
    State(state): State<ApiState>,
    Path(switch): Path<String>,
    filter: Result<Query<FlowFilter>, QueryRejection>,
) -> ApiResult<Response> {
    let Query(filter) = filter.map_err(|error| ApiError::invalid(error.body_text()))?;
    let id = names::find(&state.controller.switches(), &switch)?.datapath_id;
    let mut selected = FlowStatsRequest::default();
    selected.table_id = filter.table.unwrap_or(selected.table_id);
    let request = MultipartRequest::FlowDesc(selected);
    let mut flows = match requests::read(&state, id, request).await? {
        MultipartReply::FlowDesc { flows } => flows,
        _ => vec![],
    };
    flows.sort_by_key(|flow| (flow.table_id, std::cmp::Reverse(flow.priority)));
    Ok(match filter.format {
        Some(FlowFormat::OvsOfctl) => {
            let text: String = flows.iter().map(|flow| flow_text(flow) + "\n").collect();
            ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
        Some(FlowFormat::Json) | None => flows_document(flows).into_response(),
    })
}

fn flows_document(flows: Vec<FlowDesc>) -> Json<FlowsDocument> {
    Json(FlowsDocument { flows: flows.into_iter().map(Into::into).collect() })
}

/// What a switch has, as it describes it.
pub(super) async fn multipart(
    State(state): State<ApiState>,
    Path((switch, what)): Path<(String, String)>,
) -> ApiResult<Json<ReplyDocument>> {
    let kind = requests::KINDS.iter().find(|(name, _)| *name == what);
    let Some((_, request)) = kind else {
        let known: Vec<_> = requests::KINDS.iter().map(|(name, _)| *name).collect();
        let message = format!("a switch has no {what:?}: expected ports, {}", known.join(", "));
        return Err(ApiError::not_found("no_such_path", message));
    };
    let id = names::find(&state.controller.switches(), &switch)?.datapath_id;
    let reply = requests::read(&state, id, request()).await?;
    Ok(Json(ReplyDocument { reply }))
}

pub(super) async fn not_found(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}: see docs/api.md", uri.path());
    ApiError::not_found("no_such_path", message)
}
