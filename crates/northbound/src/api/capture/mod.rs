//! Captures of packet-ins: `GET /v1/capture`, as pcapng or JSON, for as long as the client reads.

mod body;
mod json;
mod pcapng;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sluice_openflow::EtherType;
use sluice_sdk::CaptureFilter;
use utoipa::ToSchema;

use super::ApiState;
use super::access::Permission;
use super::error::ApiError;
use super::extract::ApiQuery;
use super::openapi::{ErrorDocument, OfPort};
use super::{names, values};
use crate::routes::{Routes, routes};
use crate::streaming::{CLOSE_AFTERWARDS, StreamGuard};
use body::{CaptureBody, CaptureLimits, CaptureWaker};

/// Captures at a time: each may hold some megabytes.
pub(super) const CAPTURES_MAX: usize = 4;

/// The longest time of a capture, and what it is unless the request says less.
const SECONDS_MAX: u64 = 3600;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(capture))
}

/// Which packet-ins are captured, and how.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct CaptureQuery {
    /// A switch by datapath id or name.
    switch: Option<String>,
    /// A port of this switch by number or name.
    port: Option<String>,
    /// `arp`, `ipv4`, `ipv6`, `lldp`, or a number such as `0x0800`.
    ethertype: Option<String>,
    /// An Ethernet address, of the source or the destination.
    mac: Option<String>,
    /// An IP address, of the source or the destination.
    #[param(value_type = Option<String>, example = "10.0.0.1")]
    ip: Option<IpAddr>,
    /// One in so many of the packets that the others select.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 4_294_967_295_u32)]
    sample: Option<NonZeroU32>,
    /// Ends the capture after this number of packets.
    limit: Option<u64>,
    /// Ends the capture after this time.
    #[param(maximum = 3600, default = 3600)]
    seconds: Option<u64>,
    /// pcapng, or JSON with a packet in each line.
    #[serde(default)]
    #[param(inline)]
    format: CaptureFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum CaptureFormat {
    #[default]
    Pcapng,
    Json,
}

/// Captures packet-ins, for as long as the client reads.
#[utoipa::path(
    get,
    path = "/v1/capture",
    params(CaptureQuery),
    responses(
        (
            status = 200,
            content((String = "application/x-pcapng"), (String = "application/jsonl"))
        ),
        OfPort,
        (status = 503, description = "Too many captures run, or the controller has too much to do", body = ErrorDocument)
    )
)]
async fn capture(
    State(state): State<ApiState>,
    Extension(guard): Extension<StreamGuard>,
    Extension(permission): Extension<Permission>,
    ApiQuery(query): ApiQuery<CaptureQuery>,
) -> Result<Response, ApiError> {
    let seconds = query.seconds.unwrap_or(SECONDS_MAX);
    if seconds > SECONDS_MAX {
        let message = format!("seconds is {seconds}: expected at most {SECONDS_MAX}");
        return Err(ApiError::invalid(message));
    }
    let filter = filter(&state, &query)?;
    let permit = state.captures.try_admit(permission.source()).map_err(|error| {
        let message = format!("too many captures: {error}");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_captures", message)
    })?;
    let waker = Arc::new(CaptureWaker::default());
    let notified = Arc::clone(&waker);
    let capture = state.controller.capture(filter, Box::new(move || notified.wake()));
    let capture = capture.ok_or_else(|| {
        let message = "the controller has too much to do";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    })?;
    let limits = CaptureLimits {
        packets: query.limit.unwrap_or(u64::MAX),
        time: Duration::from_secs(seconds),
    };
    let (content_type, writer): (_, Box<dyn body::PacketWriter>) = match query.format {
        CaptureFormat::Pcapng => {
            ("application/x-pcapng", Box::new(pcapng::PcapngWriter::default()))
        }
        CaptureFormat::Json => ("application/jsonl", Box::new(json::JsonWriter)),
    };
    let body = CaptureBody::new(state, capture, writer, limits, (waker, guard, permission, permit));
    Ok(([(CONTENT_TYPE, content_type), CLOSE_AFTERWARDS], Body::new(body)).into_response())
}

fn filter(state: &ApiState, query: &CaptureQuery) -> Result<CaptureFilter, ApiError> {
    let (sessions, given) = (state.controller.switches(), state.given_names());
    let (switch, port) = match (&query.switch, &query.port) {
        (Some(switch), Some(port)) => {
            let at = names::find_port(&sessions, &given, switch, port)?;
            (Some(at.switch), Some(at.port))
        }
        (Some(switch), None) => (Some(names::find(&sessions, &given, switch)?.datapath_id), None),
        (None, Some(_)) => return Err(ApiError::invalid("port is given without switch")),
        (None, None) => (None, None),
    };
    let ethertype = query.ethertype.as_deref().map(parse_ethertype).transpose()?;
    let mac = query.mac.as_deref().map(|text| values::required_mac("mac", text)).transpose()?;
    let one_in = query.sample.unwrap_or(NonZeroU32::MIN);
    Ok(CaptureFilter { switch, port, ethertype, mac, ip: query.ip, one_in })
}

fn parse_ethertype(text: &str) -> Result<EtherType, ApiError> {
    Ok(match text {
        "arp" => EtherType::ARP,
        "ipv4" => EtherType::IPV4,
        "ipv6" => EtherType::IPV6,
        "lldp" => EtherType::LLDP,
        _ => {
            let digits =
                text.strip_prefix("0x").filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
            let number = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            EtherType(number.ok_or_else(|| {
                let known = "arp, ipv4, ipv6, lldp or a number such as 0x0800";
                ApiError::invalid(format!("ethertype is {text:?}: expected {known}"))
            })?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parsed() {
        assert_eq!(parse_ethertype("ipv6").unwrap(), EtherType::IPV6);
        assert_eq!(parse_ethertype("0x88CC").unwrap(), EtherType::LLDP);
        for bad in ["", "0x", "0x12345", "0x+1", "ip"] {
            assert!(parse_ethertype(bad).is_err(), "{bad}");
        }
    }
}
