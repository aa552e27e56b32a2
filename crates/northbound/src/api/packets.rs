//! Packets that a client sends out of a switch.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sluice_declared::Names;
use sluice_openflow::{Action, Field, Message, PacketOut, PortNo};
use sluice_sdk::{Answer, SwitchSession};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::error::ApiError;
use super::extract::{ApiJson, ApiPath};
use super::openapi::ByPort;
use super::{names, requests};

/// Bytes of a frame: one with the Ethernet header at least, and what fits a `PACKET_OUT` with its actions.
const FRAME_LEN: std::ops::RangeInclusive<usize> = 14..=60_000;

/// Bytes of the text of actions.
const ACTIONS_LEN_MAX: usize = 4096;

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(send))
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
    let (data, length) = parse_frame(&body.data)?;
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

fn parse_frame(text: &str) -> Result<(Vec<u8>, usize), ApiError> {
    let invalid = |why: String| Err(ApiError::invalid(format!("data: {why}")));
    let digits: Vec<_> = text.chars().map(|c| c.to_digit(16)).collect();
    if let Some(at) = digits.iter().position(Option::is_none) {
        return invalid(format!("character {at} is no hexadecimal digit"));
    }
    if digits.len() % 2 == 1 {
        return invalid(format!("{} digits: expected two for each byte", digits.len()));
    }
    let byte = |pair: &[Option<u32>]| {
        let value = pair.iter().flatten().fold(0, |value, digit| value << 4 | digit);
        u8::try_from(value).unwrap_or(0)
    };
    let frame: Vec<u8> = digits.chunks(2).map(byte).collect();
    let length = frame.len();
    if !FRAME_LEN.contains(&length) {
        let (min, max) = (FRAME_LEN.start(), FRAME_LEN.end());
        return invalid(format!("{length} bytes: expected {min} to {max}"));
    }
    Ok((frame, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_hexadecimal_and_bounded() {
        let (frame, length) = parse_frame(&"0aFf".repeat(7)).unwrap();
        assert_eq!((frame[..2].to_vec(), length), (vec![0x0a, 0xff], 14));
        for (bad, why) in [
            ("0a", "1 bytes: expected 14 to 60000"),
            ("0a0", "3 digits"),
            ("0aé0", "character 2 is no hexadecimal digit"),
            ("", "0 bytes"),
        ] {
            let error = parse_frame(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(parse_frame(&"00".repeat(60_001)).is_err());
    }
}
