//! Bodies of responses: what waits for clients that read slowly is limited.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};

use crate::api::error::ApiError;
use crate::peer::Source;
use crate::source_limit::{SourceLimit, SourcePermit};

/// Bytes of all bodies that are counted.
const BYTES_MAX: usize = 64 << 20;

/// Bodies up to this size are not counted: there are no more than connections.
const SMALL_BYTES: usize = 64 << 10;

/// Limits the memory of bodies. Those that are made while they are sent have no size, and limits of their own.
#[derive(Debug)]
pub(super) struct Responses(SourceLimit);

/// Whether a response may be replaced by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfRequest {
    /// The client may repeat the request.
    Question,
    /// Something was changed.
    Write,
}

/// A body that counts until it was sent.
struct CountedBody {
    body: Body,
    _permit: SourcePermit,
}

impl Default for Responses {
    fn default() -> Self {
        Self(SourceLimit::new(BYTES_MAX))
    }
}

impl Responses {
    /// Counts a response; if too much waits for clients already, the answer to a question is replaced by an error.
    pub(super) fn admit(&self, response: Response, to: Source, of: OfRequest) -> Response {
        let size = response.body().size_hint().exact().unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size <= SMALL_BYTES {
            return response;
        }
        match self.0.try_admit_many(to, size) {
            Ok(permit) => response.map(|body| Body::new(CountedBody { body, _permit: permit })),
            // Otherwise the client would not learn what was changed.
            Err(_) if of == OfRequest::Write => response,
            Err(_) => {
                let message = "too many large answers are being sent: repeat it";
                let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
                error.into_response()
            }
        }
    }
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_that_wait_for_slow_clients_are_limited() {
        let responses = Responses::default();
        let admit = |user, bytes: usize, of| {
            responses.admit(vec![0; bytes].into_response(), Source::User(Some(user)), of)
        };
        let question = |user, bytes| admit(user, bytes, OfRequest::Question);
        let mut sent: Vec<_> = (0..4).map(|n| question(n / 2, 16 << 20)).collect();
        assert!(sent.iter().all(|it| it.status() == StatusCode::OK));
        assert_eq!(sent[0].body().size_hint().exact(), Some(16 << 20));
        assert_eq!(question(2, 1 << 20).status(), StatusCode::SERVICE_UNAVAILABLE);
        // Small answers, and those to requests that have changed something, are sent nevertheless.
        assert_eq!(question(2, 64 << 10).status(), StatusCode::OK);
        assert_eq!(admit(2, 1 << 20, OfRequest::Write).status(), StatusCode::OK);
        sent.remove(0);
        assert_eq!(question(2, 1 << 20).status(), StatusCode::OK);
        assert_eq!(question(1, 1 << 20).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(sent);
        assert_eq!(question(1, 100 << 20).status(), StatusCode::OK);
    }
}
