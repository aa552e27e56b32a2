//! Bodies of responses: what waits for clients that read slowly is limited.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

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

/// Bytes that are handed over at a time. The server takes more when it has sent almost all that it has.
const PART_BYTES: usize = 64 << 10;

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

/// A body that is handed over in parts. It counts until the last one is: hyper would take all of it at once, however slowly the client
/// reads.
struct CountedBody {
    body: Body,
    /// What was taken from `body` and not handed over.
    rest: Bytes,
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
            Ok(permit) => response
                .map(|body| Body::new(CountedBody { body, rest: Bytes::new(), _permit: permit })),
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
        if self.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let len = self.rest.len().min(PART_BYTES);
        let part = self.rest.split_to(len);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let len = self.rest.len() as u64;
        self.body
            .size_hint()
            .exact()
            .map_or_else(SizeHint::default, |exact| SizeHint::with_exact(exact + len))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn an_answer_counts_until_its_client_has_read_it() {
        const LEN: usize = 8 << 20;
        let responses = Responses::default();
        let answer = vec![7; LEN].into_response();
        let answer = responses.admit(answer, Source::User(Some(1)), OfRequest::Question);
        let answer = Mutex::new(Some(answer));
        let (mut client, server) = duplex(1 << 10);
        let service = service_fn(move |_| {
            let answer = answer.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let serving = tokio::spawn(connection);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = vec![0; LEN / 2];
        client.read_exact(&mut text).await.unwrap();
        assert_eq!(responses.0.in_use(), LEN);
        let more = client.read_to_end(&mut text).await.unwrap();
        assert!(more >= LEN / 2, "{more}");
        serving.await.unwrap().unwrap();
        assert_eq!((text.last(), responses.0.in_use()), (Some(&7), 0));
    }

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
