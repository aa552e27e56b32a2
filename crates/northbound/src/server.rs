//! The HTTP server: listeners, and the thread that serves their connections.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io, thread};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, middleware};
use sluice_base::metrics::MetricsSource;
use sluice_declared::Declared;
use sluice_io::{clock, priority};
use sluice_sdk::Controller;
use sluice_sdk::allocation::Allocations;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::api::access::Access;
use crate::api::{self, ApiState};
use crate::config::{AccessConfig, Config};
use crate::connection::{self, HEAD_TIMEOUT};
use crate::connection_limit::ConnectionLimit;
use crate::descriptions;
use crate::events::{Event, Events};
use crate::exposition::{self, Exposition};
use crate::peer::Peer;
use crate::settings::Settings;
use crate::unix_socket::{self, SocketFile};
use crate::view_copy::ViewCopy;
use crate::web;

/// Threads for what waits for the disk: changes of what is declared, one after the other.
const DISK_THREADS_MAX: usize = 4;

/// Pause after accepting failed, mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Open listeners on which connections are not served yet.
#[derive(Debug)]
pub struct Listeners {
    tcp: Option<(TcpListener, SocketAddr)>,
    /// The file is missing if it belongs to another process.
    unix: Option<(UnixListener, Option<SocketFile>)>,
    access: AccessConfig,
    declared: Option<Arc<Declared>>,
    owners: Arc<Allocations>,
}

/// Listeners that another process has opened, such as a service manager. They do not block.
#[derive(Debug, Default)]
pub struct PassedListeners {
    /// In the place of the one at the configured address.
    pub tcp: Option<TcpListener>,
    /// In the place of the one at the configured path.
    pub unix: Option<UnixListener>,
}

/// Which listener cannot be opened, and why.
#[derive(Debug)]
pub struct ListenError {
    /// The path of the Unix socket, or `None` for the TCP listener.
    pub socket: Option<PathBuf>,
    /// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and other errors of the system.
    pub error: io::Error,
}

impl Listeners {
    /// Opens the listeners, so that errors are known before other threads are started.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn open(config: Config) -> Result<Self, ListenError> {
        Self::open_others(config, PassedListeners::default())
    }

    /// As [`open`](Self::open), except for the listeners that are `passed`.
    ///
    /// # Errors
    /// One of the others cannot be opened.
    pub fn open_others(config: Config, passed: PassedListeners) -> Result<Self, ListenError> {
        let tcp = match passed.tcp {
            Some(listener) => listener.local_addr().map(|address| Some((listener, address))),
            None => config.listen.map(listen).transpose(),
        };
        let tcp = tcp.map_err(|error| ListenError { socket: None, error })?;
        let unix = match (passed.unix, config.socket.as_deref()) {
            (Some(listener), _) => Ok(Some((listener, None))),
            (None, Some(path)) => {
                unix_socket::listen(path).map(|(listener, file)| Some((listener, Some(file))))
            }
            (None, None) => Ok(None),
        };
        let unix = unix.map_err(|error| ListenError { socket: config.socket.clone(), error })?;
        Ok(Self { tcp, unix, access: config.access, declared: None, owners: Arc::default() })
    }

    /// Sets whose flow entry is which; without this, only the applications that come with Sluice are known.
    #[must_use]
    pub fn with_owners(self, owners: Allocations) -> Self {
        Self { owners: owners.into(), ..self }
    }

    /// Serves static entries, too.
    #[must_use]
    pub fn with_declared(self, declared: Arc<Declared>) -> Self {
        Self { declared: Some(declared), ..self }
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
        let runtime = Builder::new_current_thread()
            .thread_name("api-disk")
            .max_blocking_threads(DISK_THREADS_MAX)
            .enable_all()
            .build()?;
        let address = self.tcp.as_ref().map(|(_, address)| *address);
        let access = Access::new(self.access);
        let events = Arc::new(Events::new(self.declared.clone()));
        events.follow_changes();
        let state = ApiState::new(
            controller,
            self.declared,
            self.owners,
            source,
            events,
            clock::now(),
            access.clone(),
        );
        let routes = routes(state.metrics.clone())
            .merge(web::routes())
            .merge(api::routes(state.clone()))
            .fallback(api::not_found)
            .method_not_allowed_fallback(api::method_not_allowed)
            .layer(middleware::from_fn_with_state(access.clone(), api::access::check))
            // Bodies are limited there.
            .layer(DefaultBodyLimit::disable());
        let (tcp, unix) = (self.tcp.map(|(listener, _)| listener), self.unix);
        let service =
            HttpService { routes, access: access.clone(), limit: state.connections.clone() };
        let shared = state.clone();
        let thread = ApiThread::spawn(move |stopped| {
            let (unix, _file) = unix.unzip();
            serve(&runtime, tcp, unix, &service, &state, stopped);
        })?;
        Ok(Server { address, access, state: shared, thread: Some(thread) })
    }
}

/// Logs the events of a controller whose API is not served; dropping it joins its thread.
#[derive(Debug)]
pub struct EventLog(#[expect(dead_code, reason = "joins the thread")] ApiThread);

impl EventLog {
    /// Starts the thread. Events call switches by the names that are `declared`.
    ///
    /// # Errors
    /// No file descriptor or thread is left.
    pub fn start(controller: Arc<dyn Controller>, declared: Arc<Declared>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = ApiThread::spawn(move |stopped| {
            let (view, events) = (ViewCopy::default(), Arc::new(Events::new(Some(declared))));
            events.follow_changes();
            runtime.block_on(async {
                tokio::select! {
                    () = view.follow(&*controller, &events) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self(thread))
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A running HTTP server; dropping it closes its connections and joins its thread.
pub struct Server {
    address: Option<SocketAddr>,
    access: Access,
    state: ApiState,
    thread: Option<ApiThread>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.thread.take());
        // Now that no request adds lines.
        self.access.close_audit();
    }
}

impl Server {
    /// The address of the TCP listener, with the port that was chosen for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Applies a new configuration to the requests that arrive from now on; certificates to connections.
    pub fn apply(&self, access: AccessConfig) {
        self.access.apply(access);
    }

    /// Publishes the event that the configuration was read again, and these keys have changed.
    pub fn publish_reload(&self, changed: &str) {
        self.state.events.record(Event::configuration_reloaded(changed));
    }

    /// Shows another configuration from now on.
    pub fn set_settings(&self, settings: Settings) {
        self.state.set_settings(settings);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A thread that is stopped and joined when this is dropped.
#[derive(Debug)]
struct ApiThread {
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiThread {
    /// Runs `run` until its argument ends.
    fn spawn(run: impl FnOnce(oneshot::Receiver<()>) + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            priority::use_background_priority();
            run(stopped);
        };
        let thread = thread::Builder::new().name("api".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ApiThread {
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
    Router::new().route("/metrics", get(metrics)).with_state(exposition)
}

async fn metrics(State(exposition): State<Arc<Exposition>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], exposition.text())
}

/// Runs the server thread until `stopped` ends; open connections are dropped then.
fn serve(
    runtime: &Runtime,
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    service: &HttpService,
    state: &ApiState,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        // Cannot fail: the listeners are non-blocking, and the runtime is running.
        let tcp = tcp.and_then(|listener| tokio::net::TcpListener::from_std(listener).ok());
        let unix = unix.and_then(|listener| tokio::net::UnixListener::from_std(listener).ok());
        tokio::select! {
            () = service.accept_tcp(tcp) => {}
            () = service.accept_unix(unix) => {}
            () = service.access.follow_tokens() => {}
            () = follow_view(state) => {}
            () = state.reads.run() => {}
            () = state.statistics.poll(&state.controller, &state.reads) => {}
            () = state.time_series.follow(&*state.metrics) => {}
            () = descriptions::ask(&*state.controller, &state.events) => {}
            _ = stopped => {}
        }
    });
}

/// Keeps the copy of the view current. Never ends: metrics are served also while the controller stops.
async fn follow_view(state: &ApiState) {
    state.view.follow(&*state.controller, &state.events).await;
    pending::<()>().await;
}

/// What connections are served with.
#[derive(Debug, Clone)]
struct HttpService {
    routes: Router,
    access: Access,
    limit: ConnectionLimit,
}

impl HttpService {
    async fn accept_tcp(&self, listener: Option<tokio::net::TcpListener>) {
        let Some(listener) = listener else { return pending().await };
        loop {
            let Ok((stream, address)) = listener.accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let tls = self.access.tls();
            let peer = Peer::Tcp { address, has_tls: tls.is_some() };
            match tls {
                None => self.spawn(stream, peer).await,
                Some(tls) => {
                    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
                    let handshake = timeout(HEAD_TIMEOUT, handshake);
                    self.spawn_after(async { handshake.await.ok()?.ok() }, peer).await;
                }
            }
        }
    }

    async fn accept_unix(&self, listener: Option<tokio::net::UnixListener>) {
        let Some(listener) = listener else { return pending().await };
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let uid = stream.peer_cred().ok().map(|peer| peer.uid());
            self.spawn(stream, Peer::Unix { uid }).await;
        }
    }

    async fn spawn<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.spawn_after(async { Some(stream) }, peer).await;
    }

    /// Serves a connection that is established by `handshake`, which counts as a connection already.
    async fn spawn_after<S>(
        &self,
        handshake: impl Future<Output = Option<S>> + Send + 'static,
        peer: Peer,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (permit, closed) = self.limit.admit(peer.source());
        let routes = self.routes.clone();
        let connection = async move {
            if let Some(stream) = handshake.await {
                connection::serve(stream, peer, routes, permit).await;
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = connection => {}
                _ = closed => {}
            }
        });
        // Lets the connection read a request that has arrived before the next connection may replace it.
        yield_now().await;
    }
}
