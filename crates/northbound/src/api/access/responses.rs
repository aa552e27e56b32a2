//! Bodies of responses: what waits for clients that read slowly is limited.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::error::ApiError;

/// Kilobytes of all bodies that are counted.
const KILOBYTES_MAX: u32 = 64 << 10;

/// Bodies up to this number of kilobytes are not counted: there are no more than connections.
const SMALL_KILOBYTES: u32 = 64;

/// Limits the memory of bodies. Those that are made while they are sent have no size, and limits of their own.
#[derive(Debug)]
pub(super) struct Responses(Arc<Semaphore>);

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
    _permit: OwnedSemaphorePermit,
}

impl Default for Responses {
    fn default() -> Self {
        // Fits: a semaphore can have more permits.
        Self(Arc::new(Semaphore::new(usize::try_from(KILOBYTES_MAX).unwrap_or_default())))
    }
}

impl Responses {
    /// Counts a response; if too much waits for clients already, the answer to a question is replaced by an error.
    pub(super) fn admit(&self, response: Response, of: OfRequest) -> Response {
        let size = response.body().size_hint().exact().unwrap_or_default();
        let kilobytes = u32::try_from(size >> 10).unwrap_or(u32::MAX).min(KILOBYTES_MAX);
        if kilobytes <= SMALL_KILOBYTES {
            return response;
        }
        match self.0.clone().try_acquire_many_owned(kilobytes) {
            Ok(permit) => response.map(|body| Body::new(CountedBody { body, _permit: permit })),
            // There are few: each has had a large body.
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
        let admit = |bytes: usize, of| responses.admit(vec![0; bytes].into_response(), of);
        let question = |bytes| admit(bytes, OfRequest::Question);
        let mut sent: Vec<_> = (0..4).map(|_| question(16 << 20)).collect();
        assert!(sent.iter().all(|it| it.status() == StatusCode::OK));
        assert_eq!(sent[0].body().size_hint().exact(), Some(16 << 20));
        assert_eq!(question(1 << 20).status(), StatusCode::SERVICE_UNAVAILABLE);
        // Small ones are answered, and whoever has changed something gets to know it.
        assert_eq!(question(64 << 10).status(), StatusCode::OK);
        assert_eq!(admit(1 << 20, OfRequest::Write).status(), StatusCode::OK);
        sent.remove(0);
        assert_eq!(question(1 << 20).status(), StatusCode::OK);
        drop(sent);
        assert_eq!(question(100 << 20).status(), StatusCode::OK);
    }
}
