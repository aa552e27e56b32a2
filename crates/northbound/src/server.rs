//! The HTTP server: listener, connections and their limits.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sluice_base::metrics::MetricsSource;
use sluice_io::{clock, priority};
use sluice_sdk::Controller;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::api::{self, ApiState};
use crate::connection_limit::{ConnectionLimit, ConnectionPermit};
use crate::exposition::{self, Exposition};

/// Concurrent connections: enough for several scrapers and browsers. For one more, another one is closed.
const CONNECTIONS_MAX: usize = 64;

/// Time limit for the head of a request, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the head of a request: more than browsers send, and the minimum of hyper.
const HEAD_LEN_MAX: usize = 8 << 10;

/// Duration of a connection, so that a client that reads slowly is closed eventually.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the current response after [`CONNECTION_TIMEOUT`].
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after accepting failed, mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An open port on which connections are not served yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Opens the port, so that errors are known before other threads are started.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and other errors of the system.
    pub fn new(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves the API of `controller` and the metrics of `source` until the [`Server`] is dropped.
    ///
    /// # Errors
    /// No file descriptor or thread is left.
    pub fn serve(
        self,
        source: Arc<dyn MetricsSource>,
        controller: Arc<dyn Controller>,
    ) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let state = ApiState::new(controller, clock::now());
        let routes = routes(source).merge(api::routes(state.clone()));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            priority::use_background_priority();
            serve(&runtime, self.listener, &routes, &state, stopped);
        };
        let thread = thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        Ok(Server { address: self.address, stop: Some(stop), thread: Some(thread) })
    }
}

/// A running HTTP server; dropping it closes its connections and joins its thread.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The address on which it listens, with the port that was chosen for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

fn routes(source: Arc<dyn MetricsSource>) -> Router {
    let exposition = Arc::new(Exposition::new(source));
    Router::new().route("/", get(index)).route("/metrics", get(metrics)).with_state(exposition)
}

async fn index() -> Html<&'static str> {
    Html(concat!(
        "<p>Sluice ",
        env!("CARGO_PKG_VERSION"),
        ", an OpenFlow controller.</p>\n",
        "<p><a href=\"/metrics\">/metrics</a>: the metrics, for Prometheus.</p>\n",
        "<p><a href=\"/v1/switches\">/v1/switches</a>, <a href=\"/v1/links\">/v1/links</a>, ",
        "<a href=\"/v1/hosts\">/v1/hosts</a>: the network, as JSON.</p>\n",
    ))
}

async fn metrics(State(exposition): State<Arc<Exposition>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], exposition.text())
}

/// Runs the server thread until `stopped` ends; open connections are dropped then.
fn serve(
    runtime: &Runtime,
    listener: TcpListener,
    routes: &Router,
    state: &ApiState,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        // Cannot fail: the listener is non-blocking, and the runtime is running.
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        tokio::select! {
            () = accept(&listener, routes) => {}
            () = follow_view(state) => {}
            _ = stopped => {}
        }
    });
}

/// Keeps the copy of the view current. Never ends: metrics are served also while the controller stops.
async fn follow_view(state: &ApiState) {
    state.view.follow(&*state.controller).await;
    pending::<()>().await;
}

async fn accept(listener: &tokio::net::TcpListener, routes: &Router) {
    let limit = ConnectionLimit::new(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (permit, closed) = limit.admit();
                let connection = serve_connection(stream, peer, routes.clone(), permit);
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection => {}
                        _ = closed => {}
                    }
                });
                // Lets the connection read a request that has arrived before the next connection may replace it.
                yield_now().await;
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    permit: ConnectionPermit,
) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        permit.record_request();
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.call(request)
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
        () = sleep(CONNECTION_TIMEOUT) => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(FINISH_TIMEOUT, connection).await;
}
