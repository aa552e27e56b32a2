//! `GET /v1.0/topology/…`: the network, with all numbers in hexadecimal digits.

use std::net::IpAddr;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use sluice_base::sort_by_key;
use sluice_openflow::DatapathId;
use sluice_sdk::view::{Host, HostId, Link, NetworkView, PortInfo, SwitchPort};

use super::input::ApiResult;
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::extract::ApiPath;

#[derive(Serialize)]
pub(super) struct SwitchDocument {
    dpid: String,
    ports: Vec<PortDocument>,
}

#[derive(Serialize)]
pub(super) struct PortDocument {
    dpid: String,
    port_no: String,
    hw_addr: String,
    name: String,
}

#[derive(Serialize)]
pub(super) struct LinkDocument {
    src: PortDocument,
    dst: PortDocument,
}

#[derive(Serialize)]
pub(super) struct HostDocument {
    mac: String,
    ipv4: Vec<String>,
    ipv6: Vec<String>,
    port: PortDocument,
}

impl PortDocument {
    /// A port; name and address are empty while the switch is not connected.
    fn new(at: SwitchPort, port: Option<&PortInfo>) -> Self {
        Self {
            dpid: dpid_text(at.switch),
            port_no: format!("{:08x}", at.port.0),
            hw_addr: port.map_or_else(String::new, |port| port.hw_addr.to_string()),
            name: port.map_or_else(String::new, |port| port.name.to_string()),
        }
    }
}

fn dpid_text(id: DatapathId) -> String {
    format!("{:016x}", id.0)
}

/// The datapath id of a path: 16 hexadecimal digits.
fn parse(text: &str) -> ApiResult<Option<DatapathId>> {
    let is_valid = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u64::from_str_radix(text, 16).ok().filter(|_| is_valid).map(DatapathId);
    let message = || format!("{text:?} is not a datapath id of 16 hexadecimal digits");
    id.map(Some).ok_or_else(|| ApiError::not_found("no_such_path", message()))
}

fn switch_documents(state: &ApiState, only: Option<DatapathId>) -> Vec<SwitchDocument> {
    let sessions = state.controller.switches();
    let copy = state.view.lock();
    let ids = sessions.iter().map(|session| session.datapath_id);
    let selected = ids.filter(|id| only.is_none_or(|only| only == *id));
    selected.map(|id| switch_document(&copy.view, id)).collect()
}

fn switch_document(view: &NetworkView, id: DatapathId) -> SwitchDocument {
    let ports = view.switch(id).into_iter().flat_map(|switch| &switch.ports);
    let port = |(&no, port)| PortDocument::new(SwitchPort::new(id, no), Some(port));
    SwitchDocument { dpid: dpid_text(id), ports: ports.map(port).collect() }
}

fn link_document(view: &NetworkView, link: &Link) -> LinkDocument {
    let port = |at| PortDocument::new(at, view.port(at));
    LinkDocument { src: port(link.from), dst: port(link.to) }
}

fn host_document(view: &NetworkView, id: HostId, host: &Host) -> HostDocument {
    let texts = |is_wanted: fn(&IpAddr) -> bool| {
        host.addrs.iter().filter(|addr| is_wanted(addr)).map(ToString::to_string).collect()
    };
    HostDocument {
        mac: id.mac.to_string(),
        ipv4: texts(IpAddr::is_ipv4),
        ipv6: texts(IpAddr::is_ipv6),
        port: PortDocument::new(host.at, view.port(host.at)),
    }
}

fn link_documents(state: &ApiState, from: Option<DatapathId>) -> Vec<LinkDocument> {
    let copy = state.view.lock();
    let links = copy.view.links().filter(|link| from.is_none_or(|id| link.from.switch == id));
    links.map(|link| link_document(&copy.view, link)).collect()
}

fn host_documents(state: &ApiState, at: Option<DatapathId>) -> Vec<HostDocument> {
    let copy = state.view.lock();
    let hosts = copy.view.hosts().filter(|(_, host)| at.is_none_or(|id| host.at.switch == id));
    let mut hosts: Vec<_> = hosts.collect();
    sort_by_key(&mut hosts, |(id, _)| *id);
    hosts.into_iter().map(|(id, host)| host_document(&copy.view, id, host)).collect()
}

pub(super) async fn switches(State(state): State<ApiState>) -> Json<Vec<SwitchDocument>> {
    Json(switch_documents(&state, None))
}

pub(super) async fn switch(
    State(state): State<ApiState>,
    ApiPath(dpid): ApiPath<String>,
) -> ApiResult<Json<Vec<SwitchDocument>>> {
    Ok(Json(switch_documents(&state, parse(&dpid)?)))
}

pub(super) async fn links(State(state): State<ApiState>) -> Json<Vec<LinkDocument>> {
    Json(link_documents(&state, None))
}

pub(super) async fn links_of(
    State(state): State<ApiState>,
    ApiPath(dpid): ApiPath<String>,
) -> ApiResult<Json<Vec<LinkDocument>>> {
    Ok(Json(link_documents(&state, parse(&dpid)?)))
}

pub(super) async fn hosts(State(state): State<ApiState>) -> Json<Vec<HostDocument>> {
    Json(host_documents(&state, None))
}

pub(super) async fn hosts_of(
    State(state): State<ApiState>,
    ApiPath(dpid): ApiPath<String>,
) -> ApiResult<Json<Vec<HostDocument>>> {
    Ok(Json(host_documents(&state, parse(&dpid)?)))
}
