//! Ports that are set administratively up or down.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sluice_openflow::{Message, Port, PortConfig, PortMod};
use sluice_sdk::Answer;
use tokio::time::sleep;
use utoipa::ToSchema;

use super::ApiState;
use super::documents::described_port;
use super::error::ApiError;
use super::extract::{ApiJson, ApiPath};
use super::openapi::ByPort;
use super::{names, requests};
use crate::routes::{Routes, routes};

/// How often, and how many times, it is checked whether the switch has announced the new state of the port. What the list of sessions
/// shows is a quarter of a second old at most.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const CHECKS_MAX: u32 = 100;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(set_port))
}

/// The administrative state of a port.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PortStateBody {
    /// Whether it is administratively up.
    is_enabled: bool,
}

/// A port as its switch announces it.
#[derive(Serialize, ToSchema)]
struct PortStateDocument {
    port: u32,
    name: String,
    /// Whether it is administratively up.
    is_enabled: bool,
    /// Whether it has a link as well.
    is_up: bool,
}

/// Sets a port administratively up or down.
#[utoipa::path(
    put,
    path = "/v1/switches/{switch}/ports/{port}",
    params(("switch" = String, Path, description = "Datapath id or name of a switch"), ("port" = String, Path, description = "Number or name of a port")),
    request_body = PortStateBody,
    responses((status = 200, body = PortStateDocument), ByPort)
)]
async fn set_port(
    State(state): State<ApiState>,
    ApiPath((switch, port)): ApiPath<(String, String)>,
    ApiJson(PortStateBody { is_enabled }): ApiJson<PortStateBody>,
) -> Result<Json<PortStateDocument>, ApiError> {
    let sessions = state.controller.switches();
    let at = names::find_port(&sessions, &state.given_names(), &switch, &port)?;
    let described = described_port(&sessions, at).ok_or_else(|| names::no_port(&switch, &port))?;
    let config = if is_enabled { PortConfig::default() } else { PortConfig::PORT_DOWN };
    let request = PortMod {
        port_no: at.port,
        // The switch refuses any other address.
        hw_addr: described.hw_addr,
        config,
        mask: PortConfig::PORT_DOWN,
        properties: Vec::new(),
    };
    match requests::ask(&state, at.switch, vec![Message::PortMod(request)]).await {
        Answer::Done => {}
        other => return Err(ApiError::of_answer(&other)),
    }
    for _ in 0..CHECKS_MAX {
        let sessions = state.controller.switches();
        match described_port(&sessions, at) {
            Some(port) if is_port_enabled(port) == is_enabled => return Ok(Json(document(port))),
            Some(_) => sleep(CHECK_INTERVAL).await,
            None => return Err(names::no_port(&switch, &port)),
        }
    }
    let message = format!(
        "switch {switch} has accepted the change, but does not announce it for port {port}"
    );
    Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "switch_timed_out", message))
}

pub(super) fn is_port_enabled(port: &Port) -> bool {
    !port.config.contains(PortConfig::PORT_DOWN)
}

fn document(port: &Port) -> PortStateDocument {
    PortStateDocument {
        port: port.port_no.0,
        name: port.name(),
        is_enabled: is_port_enabled(port),
        is_up: port.is_up(),
    }
}
