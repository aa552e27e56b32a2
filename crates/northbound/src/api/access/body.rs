//! Bodies of requests: read as a whole before a handler runs, within limits.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::api::error::ApiError;
use crate::peer::Source;
use crate::source_limit::{SourceLimit, SourcePermit};

/// The largest body: all static entries that may be declared, of usual length.
const BODY_BYTES_MAX: usize = 16 << 20;

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Bodies up to this size are not counted as large.
const SMALL_BODY_BYTES: u64 = 64 << 10;

/// Large bodies that are received or processed at a time: 64 MiB.
pub(super) const LARGE_BODIES_MAX: usize = 4;

/// Whoever processes a large body keeps it until the response exists.
pub(super) type BodyPermit = Option<SourcePermit>;

/// Paths whose clients send JSON with the content type of forms, as `curl -d` does.
const ANY_CONTENT_TYPE: &str = "/stats/";

/// Reads a body that has the right type.
pub(super) async fn read(
    body: Body,
    headers: &HeaderMap,
    path: &str,
    source: Source,
    large: &SourceLimit,
) -> Result<(Bytes, BodyPermit), ApiError> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    check_type(headers, path)?;
    let (size, max) = (body.size_hint(), BODY_BYTES_MAX as u64);
    if size.lower() > max {
        return Err(too_large());
    }
    let is_small = size.upper().is_some_and(|upper| upper <= SMALL_BODY_BYTES);
    let permit = if is_small {
        None
    } else {
        let permit = large.try_admit(source).map_err(|why| {
            let kib = SMALL_BODY_BYTES >> 10;
            let message = format!("too many bodies of more than {kib} KiB: {why}; repeat it");
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
        })?;
        Some(permit)
    };
    match timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => Ok((body.to_bytes(), permit)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "body_incomplete",
            format!("the body cannot be read: {error}"),
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            format!("the body was not received within {} s", BODY_TIMEOUT.as_secs()),
        )),
    }
}

fn too_large() -> ApiError {
    let message = format!("the body is larger than {BODY_BYTES_MAX} bytes (16 MiB)");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

/// A form of a web page cannot have the type of JSON.
fn check_type(headers: &HeaderMap, path: &str) -> Result<(), ApiError> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if path.starts_with(ANY_CONTENT_TYPE) || essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("the header Content-Type is {value:?}: expected application/json");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type_not_json", message))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_body_is_json_except_for_clients_of_ryu() {
        for (value, path, is_allowed) in [
            ("application/json", "/v1/x", true),
            ("Application/JSON; charset=utf-8", "/v1/x", true),
            ("text/plain", "/v1/x", false),
            ("application/x-www-form-urlencoded", "/v1/x", false),
            ("application/x-www-form-urlencoded", "/stats/flowentry/add", true),
            ("", "/v1/x", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(check_type(&headers, path).is_ok(), is_allowed, "{value} {path}");
        }
    }
}
