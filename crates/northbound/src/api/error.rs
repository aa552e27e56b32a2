//! Errors as clients get them: a status, a code for programs, and a sentence for people.

use std::fmt;

use axum::Json;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sluice_sdk::Answer;
use utoipa::ToSchema;

/// The reason for which a request fails.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

const SWITCH_REFUSED: &str = "switch_refused";

/// Why a request fails.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorDocument {
    error: ErrorBody,
}

#[derive(Serialize, ToSchema)]
struct ErrorBody {
    /// For programs; `docs/api.md` lists the codes.
    code: &'static str,
    /// For people.
    message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_value", message)
    }

    /// A bug: the thread that was to make a change has ended.
    pub(crate) fn failed(error: &impl fmt::Display) -> Self {
        let message = format!("the change was not made: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// Whether the switch has refused the request.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code == SWITCH_REFUSED
    }

    /// The same error, with a remark.
    pub(crate) fn with_note(self, note: &str) -> Self {
        Self { message: format!("{}; {note}", self.message), ..self }
    }

    /// The same error with the status `to`, if it has the status `from`.
    pub(crate) fn map_status(self, from: StatusCode, to: StatusCode) -> Self {
        let status = if self.status == from { to } else { self.status };
        Self { status, ..self }
    }

    /// The sentence for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The answer of a switch that is no reply.
    pub(crate) fn of_answer(answer: &Answer) -> Self {
        let (status, code) = match answer {
            Answer::NotConnected | Answer::Disconnected => {
                (StatusCode::NOT_FOUND, "switch_not_connected")
            }
            Answer::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "switch_timed_out"),
            Answer::TooMany | Answer::Paused => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Answer::Unsupported { .. } => (StatusCode::NOT_IMPLEMENTED, "not_in_this_version"),
            Answer::Refused(_) => (StatusCode::BAD_GATEWAY, SWITCH_REFUSED),
            Answer::TooLarge => (StatusCode::BAD_GATEWAY, "switch_reply_too_long"),
            _ => (StatusCode::BAD_GATEWAY, "switch_reply_malformed"),
        };
        Self::new(status, code, answer.to_string())
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = ErrorBody { code: self.code, message: self.message };
        let mut response = (self.status, Json(ErrorDocument { error })).into_response();
        let header = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "60")),
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "1")),
            // The client is still sending the body.
            StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE => {
                Some((CONNECTION, "close"))
            }
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
