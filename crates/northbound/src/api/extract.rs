//! Extractors whose rejections are errors of the API.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// Parameters in the path.
#[derive(Debug)]
pub(crate) struct ApiPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(it)| Self(it)).map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// Parameters in the query.
#[derive(Debug)]
pub(super) struct ApiQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(it)| Self(it)).map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// A body as it is.
#[derive(Debug)]
pub(crate) struct ApiBytes(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for ApiBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error| of_body(error.status(), error.body_text()))
    }
}

/// The error for a body that is too large or malformed, from what `axum` says of it.
fn of_body(status: StatusCode, text: String) -> ApiError {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(status, "body_too_large", text),
        _ => ApiError::invalid(text),
    }
}

/// A body.
#[derive(Debug)]
pub(super) struct ApiJson<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = Json::from_request(request, state).await;
        body.map(|Json(it)| Self(it)).map_err(|error| of_body(error.status(), error.body_text()))
    }
}
