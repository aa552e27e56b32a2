//! Which packet is traced, and where it starts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use axum::http::StatusCode;
use serde::Deserialize;
use sluice_base::sort_by_key;
use sluice_declared::Names as GivenNames;
use sluice_openflow::{Match, PortNo};
use sluice_pipeline::frames;
use sluice_sdk::view::{Host, HostId, NetworkView, SwitchPort};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::{ApiState, names, values};

/// Bytes of a packet: an Ethernet header at least, and as many as a packet-in can have.
const PACKET_LEN: std::ops::RangeInclusive<usize> = 14..=65_535;

/// A packet and the port where it arrives, or two hosts, of which one sends a packet to the other.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct TraceRequest {
    /// Where the packet arrives.
    at: Option<PortRequest>,
    /// The bytes of the packet as hexadecimal digits.
    packet: Option<String>,
    /// The fields of the packet in the syntax of `ovs-ofctl`.
    flow: Option<String>,
    /// The fields of the packet by name.
    fields: Option<BTreeMap<String, FieldRequest>>,
    /// The host that sends the packet, by its Ethernet or IP address.
    from: Option<String>,
    /// The host that it is for.
    to: Option<String>,
}

impl TraceRequest {
    /// The packet of a ping between two hosts.
    pub(super) fn between(from: String, to: String) -> Self {
        let (from, to) = (Some(from), Some(to));
        Self { at: None, packet: None, flow: None, fields: None, from, to }
    }
}

/// A port of a switch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PortRequest {
    /// The switch by datapath id or name.
    switch: String,
    #[schema(maximum = 4_294_967_295_u32)]
    port: u32,
}

/// The value of a field.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum FieldRequest {
    Number(u64),
    Text(String),
}

/// A packet at a port.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) at: SwitchPort,
    pub(super) frame: Vec<u8>,
    /// The port at which it is to be delivered, if that is known.
    pub(super) destination: Option<SwitchPort>,
}

/// The start of the trace that is requested.
pub(super) fn start(state: &ApiState, request: TraceRequest) -> Result<Start, ApiError> {
    let TraceRequest { at, packet, flow, fields, from, to } = request;
    match (at, from, to) {
        (Some(at), None, None) => {
            let sessions = state.controller.switches();
            let session = names::find(&sessions, &state.given_names(), &at.switch)?;
            let is_known = session.features.ports.iter().any(|it| it.port_no.0 == at.port);
            let is_in_view = || {
                let port = SwitchPort::new(session.datapath_id, PortNo(at.port));
                state.view.lock().view.port(port).is_some()
            };
            if !is_known && !is_in_view() {
                let message = format!("at.port: switch {} has no port {}", at.switch, at.port);
                return Err(ApiError::not_found("no_such_port", message));
            }
            let at = SwitchPort::new(session.datapath_id, PortNo(at.port));
            let frame = match (packet, flow, fields) {
                (Some(hex), None, None) => values::frame("packet", &hex, PACKET_LEN)?,
                (None, Some(text), None) => from_text(&text, "flow")?,
                (None, None, Some(fields)) => from_text(&joined(&fields)?, "fields")?,
                _ => {
                    let message =
                        "expected one of packet (hexadecimal digits), flow (text) and fields";
                    return Err(ApiError::invalid(message));
                }
            };
            Ok(Start { at, frame, destination: None })
        }
        (None, Some(from), Some(to)) if packet.is_none() && flow.is_none() && fields.is_none() => {
            between_hosts(&state.view.lock().view, &state.given_names(), &from, &to)
        }
        _ => Err(ApiError::invalid(
            "expected either at (switch and port) with a packet, or from and to, two hosts",
        )),
    }
}

fn from_text(text: &str, what: &str) -> Result<Vec<u8>, ApiError> {
    let fields: Match =
        text.parse().map_err(|error| ApiError::invalid(format!("{what}: {error}")))?;
    frames::frame(&fields).map_err(|error| ApiError::invalid(format!("{what}: {error}")))
}

/// The fields as text.
fn joined(fields: &BTreeMap<String, FieldRequest>) -> Result<String, ApiError> {
    let mut text = String::new();
    for (name, value) in fields {
        let value = match value {
            FieldRequest::Number(number) => number.to_string(),
            FieldRequest::Text(value) => value.clone(),
        };
        let is_plain =
            |it: &str| it.chars().all(|c| c.is_ascii_alphanumeric() || "._:+-".contains(c));
        if !is_plain(name) || !is_plain(&value) {
            let message = format!("fields: {name:?} is {value:?}: expected a name and a value");
            return Err(ApiError::invalid(message));
        }
        let separator = if text.is_empty() { "" } else { "," };
        _ = write!(text, "{separator}{name}={value}");
    }
    Ok(text)
}

/// The packet of a ping between two hosts.
fn between_hosts(
    view: &NetworkView,
    given: &GivenNames,
    from: &str,
    to: &str,
) -> Result<Start, ApiError> {
    let (src, source, src_ip) = host(view, given, "from", from)?;
    let (dst, destination, dst_ip) = host(view, given, "to", to)?;
    let mut text = format!("dl_src={},dl_dst={}", src.mac, dst.mac);
    match addresses(source, src_ip, destination, dst_ip) {
        Some((IpAddr::V4(src), IpAddr::V4(dst))) => {
            _ = write!(text, ",icmp,icmp_type=8,nw_src={src},nw_dst={dst}");
        }
        Some((IpAddr::V6(src), IpAddr::V6(dst))) => {
            _ = write!(text, ",icmp6,icmp_type=128,ipv6_src={src},ipv6_dst={dst}");
        }
        _ => {}
    }
    if src.vlan.0 != 0 {
        _ = write!(text, ",dl_vlan={}", src.vlan.0);
    }
    let frame = from_text(&text, "from, to")?;
    Ok(Start { at: source.at, frame, destination: Some(destination.at) })
}

/// An address of each host, both of the same kind, those that the request names if possible.
fn addresses(
    source: &Host,
    src: Option<IpAddr>,
    destination: &Host,
    dst: Option<IpAddr>,
) -> Option<(IpAddr, IpAddr)> {
    let of = |host: &Host, named: Option<IpAddr>| -> Vec<IpAddr> {
        named.map_or_else(|| host.addrs.iter().rev().copied().collect(), |it| vec![it])
    };
    let sources = of(source, src);
    let pairs = of(destination, dst)
        .into_iter()
        .filter_map(|dst| Some((*sources.iter().find(|src| src.is_ipv4() == dst.is_ipv4())?, dst)));
    let mut pairs: Vec<_> = pairs.collect();
    sort_by_key(&mut pairs, |(_, dst)| !dst.is_ipv4());
    pairs.into_iter().next()
}

/// The host that a request names, and its IP address if it is named by it.
pub(super) fn host<'v>(
    view: &'v NetworkView,
    given: &GivenNames,
    what: &str,
    text: &str,
) -> Result<(HostId, &'v Host, Option<IpAddr>), ApiError> {
    let ip: Option<IpAddr> = text.parse().ok();
    let mac = given.host_named(text).or_else(|| values::mac(text));
    let is_wanted = |(id, host): &(HostId, &Host)| {
        ip.map_or_else(|| Some(id.mac) == mac, |ip| host.addrs.contains(&ip))
    };
    let mut hosts: Vec<_> = view.hosts().filter(is_wanted).collect();
    sort_by_key(&mut hosts, |(id, _)| *id);
    match hosts[..] {
        [(id, host)] => Ok((id, host, ip)),
        [] => {
            let message = format!("{what}: no host with the name or address {text:?} is known");
            Err(ApiError::not_found("no_such_host", message))
        }
        _ => {
            let ids: Vec<_> = hosts.iter().take(5).map(|(id, _)| id.to_string()).collect();
            let message = format!("{what}: {text:?} is several hosts: {}", ids.join(", "));
            Err(ApiError::new(StatusCode::CONFLICT, "ambiguous_host", message))
        }
    }
}
