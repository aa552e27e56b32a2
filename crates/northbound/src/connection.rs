//! One connection of the HTTP server, and its limits.

use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sluice_io::clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use crate::connection_limit::ConnectionPermit;
use crate::peer::Peer;
use crate::streaming::StreamGuard;

/// Time limit for the head of a request, and for an idle connection.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the head of a request: more than browsers send, and the minimum of hyper.
const HEAD_LEN_MAX: usize = 8 << 10;

/// Duration of a connection, so that a client that reads slowly is closed eventually. A request that is being processed then is
/// processed to its end.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the response that has begun, after [`CONNECTION_TIMEOUT`].
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection until its client closes it, or its time is over.
pub(crate) async fn serve<S>(stream: S, peer: Peer, routes: Router, permit: ConnectionPermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let routes = TowerToHyperService::new(routes);
    let guard = StreamGuard::new(permit);
    let of_requests = guard.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        of_requests.record_request();
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(of_requests.clone());
        let (response, guard) = (routes.call(request), of_requests.clone());
        async move {
            let response = response.await;
            guard.record_answer(clock::now());
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // Errors of a connection concern only its client.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(CONNECTION_TIMEOUT) => {}
    }
    // Ends it after the current request.
    connection.as_mut().graceful_shutdown();
    let is_needed = |now| guard.is_streaming(now) || guard.is_answering(now, FINISH_TIMEOUT);
    while is_needed(clock::now()) {
        if timeout(FINISH_TIMEOUT, connection.as_mut()).await.is_ok() {
            return;
        }
    }
}
