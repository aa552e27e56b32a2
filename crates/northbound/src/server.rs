//! The listener, its connections and their limits.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sluice_base::metrics::MetricsSource;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::exposition::{self, Exposition};
use crate::places::{Place, Places};

/// Connections served at one time: some scrapers and some people. For one more, one that is slow is closed.
const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take, and how long a kept connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a request's head: more than any browser sends, and the least that hyper allows.
const HEAD_LEN_MAX: usize = 8 << 10;

/// How long one connection may last, so that no reader, however slow, keeps a place for itself.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take after that to finish what it began.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after the system refused to accept, for want of descriptors: they come back with time only.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// A port that is ours, where nobody is answered yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the port, so that what comes of it is known before anything else is started.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and what else the system says.
    pub fn new(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves the values of `source` there until the [`Server`] is dropped.
    ///
    /// # Errors
    /// Too few file descriptors or threads.
    pub fn serve(self, source: Arc<dyn MetricsSource>) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let routes = routes(source);
        let (stop, stopped) = oneshot::channel();
        let serve = move || serve(&runtime, self.listener, &routes, stopped);
        let thread = thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        Ok(Server { address: self.address, stop: Some(stop), thread: Some(thread) })
    }
}

/// A running HTTP server; dropping it closes its connections and joins its thread.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Dropped before the thread is joined: that is the sign to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Where it listens, with the port that the system chose if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread itself.
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
        "<p><a href=\"/metrics\">/metrics</a>: what it counts, for Prometheus.</p>\n",
    ))
}

async fn metrics(State(exposition): State<Arc<Exposition>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], exposition.text())
}

/// The thread's whole life. The runtime is dropped with what it still serves when `stopped` comes.
fn serve(
    runtime: &Runtime,
    listener: TcpListener,
    routes: &Router,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        // It is bound and does not block, so that the runtime has nothing to refuse.
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        tokio::select! {
            () = accept(&listener, routes) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: &tokio::net::TcpListener, routes: &Router) {
    let places = Places::new(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (place, closed) = places.take();
                let conversation = converse(stream, routes.clone(), place);
                tokio::spawn(async move {
                    tokio::select! {
                        () = conversation => {}
                        _ = closed => {}
                    }
                });
                // What it asked by now is read before the next one may take its place.
                yield_now().await;
            }
            Err(_) => sleep(REFUSED_PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, routes: Router, place: Place) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request| {
        place.asked();
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // How a connection ends is its peer's business: there is nobody to tell.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(CONNECTION_TIMEOUT) => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(FINISH_TIMEOUT, connection).await;
}
