//! Packets that a client sends out of a switch.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sluice_declared::Names;
use sluice_openflow::{Action, Field, Message, PacketOut, PortNo};
use sluice_sdk::{Answer, SwitchSession};
use utoipa::ToSchema;

use super::ApiState;
use super::error::ApiError;
use super::extract::{ApiJson, ApiPath};
use super::openapi::ByPort;
use super::{names, requests, values};
use crate::routes::{Routes, routes};

/// Bytes of a frame: one with the Ethernet header at least, and what fits a `PACKET_OUT` with its actions.
const FRAME_LEN: std::ops::RangeInclusive<usize> = 14..=60_000;

/// Bytes of the body of a request: more than the digits of a frame.
const BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of the text of actions.
const ACTIONS_LEN_MAX: usize = 4096;

pub(super) fn routes<R: Routes>() -> R {
    R::new().routes(routes!(send)).limit_bodies(BODY_BYTES_MAX)
}

/// A packet, and what the switch does with it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PacketBody {
    /// The port out of which it is sent, by number or name.
    port: Option<PortText>,
    /// Actions in the syntax of `ovs-ofctl`, instead of a port.
    actions: Option<String>,
    /// The port on which it counts as received; none if it is not given.
    in_port: Option<PortText>,
    /// The Ethernet frame in hexadecimal digits.
    data: String,
}

/// A port by number or name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum PortText {
    Number(u32),
    Name(String),
}

/// What was sent.
#[derive(Serialize, ToSchema)]
struct SentDocument {
    /// Bytes of the frame.
    length: usize,
}

/// Sends a packet out of a switch.
#[utoipa::path(
    post,
    path = "/v1/switches/{switch}/packets",
    params(("switch" = String, Path, description = "Datapath id or name of a switch")),
    request_body = PacketBody,
    responses((status = 200, body = SentDocument), ByPort)
)]
async fn send(
    State(state): State<ApiState>,
    ApiPath(switch): ApiPath<String>,
    ApiJson(body): ApiJson<PacketBody>,
) -> Result<Json<SentDocument>, ApiError> {
    let sessions = state.controller.switches();
    let given = state.given_names();
    let to = names::find(&sessions, &given, &switch)?.datapath_id;
    let data = values::frame("data", &body.data, FRAME_LEN)?;
    let length = data.len();
    let actions = actions(&body, (&sessions, &given), &switch)?;
    let in_port = match &body.in_port {
        Some(port) => find_port((&sessions, &given), &switch, port)?,
        None => PortNo::CONTROLLER,
    };
    let matching = [Field::in_port(in_port)].into();
    let packet = PacketOut { buffer_id: None, matching, actions, data };
    match requests::ask(&state, to, vec![Message::PacketOut(packet)]).await {
        Answer::Done => Ok(Json(SentDocument { length })),
        other => Err(ApiError::of_answer(&other)),
    }
}

fn actions(
    body: &PacketBody,
    connected: (&[SwitchSession], &Names),
    switch: &str,
) -> Result<Vec<Action>, ApiError> {
    match (&body.port, &body.actions) {
        (Some(port), None) => Ok(vec![Action::output(find_port(connected, switch, port)?)]),
        (None, Some(text)) if text.len() > ACTIONS_LEN_MAX => {
            let message =
                format!("actions have {} bytes: expected at most {ACTIONS_LEN_MAX}", text.len());
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", message))
        }
        (None, Some(text)) => Action::list_from_text(text)
            .map_err(|error| ApiError::invalid(format!("actions: {error}"))),
        _ => Err(ApiError::invalid("expected either port or actions")),
    }
}

fn find_port(
    connected: (&[SwitchSession], &Names),
    switch: &str,
    port: &PortText,
) -> Result<PortNo, ApiError> {
    let text = match port {
        PortText::Number(number) => number.to_string(),
        PortText::Name(name) => name.clone(),
    };
    names::find_port(connected.0, connected.1, switch, &text).map(|at| at.port)
}
