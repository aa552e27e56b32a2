//! Starts, reconfigures and stops the threads.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use sluice_base::metrics::MetricsSource;
use sluice_io::{Connection, Epoll, Io, Uring, UringError, WaitStrategy, Waker, cores};
use sluice_kernel::{KernelAnswers, KernelError, SynFilter, WorkerAnswers};
use sluice_openflow::DatapathId;
use sluice_sdk::{App, Chain};

use crate::config::{Config, Endpoint, Limits, Pin, Transport, WorkerEngine};
use crate::counters::CounterRegistry;
use crate::handle::EngineHandle;
use crate::listen::{
    NewListeners, OpenEndpoint, PassedListener, check_tls_addresses, open_again, open_all,
};
use crate::messages::{ToAcceptor, ToWorker};
use crate::progress::ProgressMonitor;
use crate::threads::{Senders, Threads};
use crate::worker::pulling::{PullingWorker, SharedReads};

/// Why the engine cannot start.
#[derive(Debug)]
pub enum StartError {
    /// It cannot listen on this address.
    Listen(Endpoint, io::Error),
    /// A worker cannot be bound to this core.
    Pin(usize, io::Error),
    /// The congestion control algorithm of this name is unknown to the system, or not permitted to this process.
    Congestion(String, io::Error),
    /// Packet-ins cannot be answered inside the kernel.
    InKernel(KernelError),
    /// The kernel cannot drop SYNs: [`Limits::syn_filter`](crate::Limits::syn_filter).
    SynFilter(KernelError),
    /// `io_uring` cannot be used.
    Uring(UringError),
    /// [`Workers::run_to_completion`](crate::Workers::run_to_completion) is off, and the kernel is to answer.
    SharedReads,
    /// A thread or its file descriptors cannot be created.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(endpoint, error) => write!(f, "cannot listen on {endpoint}: {error}"),
            Self::Pin(core, error) => write!(f, "cannot run on core {core}: {error}"),
            Self::Congestion(name, error) => {
                write!(f, "cannot use the congestion control `{name}`: {error}")
            }
            Self::InKernel(error) => write!(f, "cannot use the in-kernel engine: {error}"),
            Self::SynFilter(error) => write!(f, "cannot use `limits.syn_filter`: {error}"),
            Self::Uring(error) => write!(f, "cannot use the engine `uring`: {error}"),
            Self::SharedReads => {
                f.write_str("workers that share their reads cannot have the kernel answer")
            }
            Self::Io(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// The running threads: an acceptor, and workers that run applications of type `A`.
#[derive(Debug)]
pub struct Engine<A> {
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
    applied: Mutex<AppliedConfig>,
    senders: Senders<Epoll, A>,
    threads: Vec<JoinHandle<()>>,
    failure: Arc<ThreadFailure>,
    cores: Vec<Option<usize>>,
    registry: Arc<CounterRegistry>,
    acceptor_waker: Waker,
}

/// The configuration that was applied last, and the listeners that are open.
#[derive(Debug)]
struct AppliedConfig {
    config: Config,
    open: Vec<OpenEndpoint>,
    /// Listeners that another process has opened.
    passed: Arc<[PassedListener]>,
    /// Listeners of `open` that the acceptor could not use.
    failed: mpsc::Receiver<OpenEndpoint>,
    report_failed: mpsc::Sender<OpenEndpoint>,
}

impl AppliedConfig {
    fn new(config: Config, open: Vec<OpenEndpoint>, passed: Arc<[PassedListener]>) -> Self {
        let (report_failed, failed) = mpsc::channel();
        Self { config, open, passed, failed, report_failed }
    }

    /// Removes the listeners that the acceptor could not use, so that they are opened again.
    fn remove_failed(&mut self) {
        let failed: Vec<_> = self.failed.try_iter().collect();
        self.open.retain(|it| !failed.contains(it));
    }
}

impl<A: App + Send + 'static> Engine<A> {
    /// Starts listening, and starts all threads.
    ///
    /// `make_app` creates the applications of each worker, given its number and in its thread. It is called once more before, with
    /// the number of workers, for the acceptor, which calls only [`initial_messages`](App::initial_messages).
    ///
    /// # Errors
    /// If an address, a core, the congestion control or the engine of the workers cannot be used, or a thread cannot be created.
    pub fn start(
        config: Config,
        make_app: impl Fn(usize) -> A + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        Self::start_on(config, Arc::default(), make_app)
    }

    /// As [`start`](Self::start), on listeners that are open already. Those endpoints of `config` that have none are opened.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(
        config: Config,
        passed: Arc<[PassedListener]>,
        make_app: impl Fn(usize) -> A + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let (waiting, read_sizes) = (config.workers.waiting, config.workers.read_sizes);
        if !config.workers.run_to_completion && config.workers.engine.is_in_kernel() {
            return Err(StartError::SharedReads);
        }
        match config.workers.engine {
            WorkerEngine::Epoll | WorkerEngine::Kernel | WorkerEngine::Auto => {
                Self::start_with(config, passed, make_app, || {
                    let io = Epoll::new(waiting).map_err(StartError::Io)?;
                    Ok(io.read_sizes(read_sizes))
                })
            }
            WorkerEngine::Uring => Self::start_with(config, passed, make_app, || {
                Uring::new(waiting).map_err(StartError::Uring)
            }),
        }
    }

    /// As [`start`](Self::start), with the [`Io`] of each worker. The acceptor always uses [`Epoll`]: it has few connections, each for a
    /// short time.
    fn start_with<W>(
        config: Config,
        passed: Arc<[PassedListener]>,
        make_app: impl Fn(usize) -> A + Send + Sync + 'static,
        new_io: impl Fn() -> Result<W, StartError>,
    ) -> Result<Self, StartError>
    where
        W: Io<Conn = Connection, Listener = TcpListener, Waker = Waker> + Send + 'static,
    {
        check_tls_addresses(&config.tls)?;
        let syn_filter = config.limits.syn_limit().map(|limit| SynFilter::load(&limit));
        let syn_filter = syn_filter.transpose().map_err(StartError::SynFilter)?;
        let listeners = open_all(&config, &passed, syn_filter.as_ref(), config.endpoints())?;
        let open: Vec<_> = listeners.iter().map(|(endpoint, _)| *endpoint).collect();
        let addresses_of = |transport| {
            let endpoints = open.iter().filter(|it| it.configured.transport == transport);
            endpoints.map(|it| it.addr).collect()
        };
        let addresses = addresses_of(Transport::Tcp);
        let tls_addresses = addresses_of(Transport::Tls);
        let cores = worker_cores(&config)?;
        let acceptor_app = make_app(cores.len());
        let paths = acceptor_app.publishes_paths();
        let mut in_kernel = load_in_kernel(config.workers.engine, cores.len(), paths)?.into_iter();
        let io = Epoll::new(WaitStrategy::default()).map_err(StartError::Io)?;
        let acceptor_waker = io.waker();
        let worker_ios = cores.iter().map(|_| new_io()).collect::<Result<_, _>>()?;
        let mut parts = Threads::new(&Arc::new(config.clone()), io, worker_ios);
        parts.listen(listeners).map_err(StartError::Io)?;
        let (mut threads, make_app) = (Vec::new(), Arc::new(make_app));
        let failure = Arc::new(ThreadFailure::default());
        let shared = (!config.workers.run_to_completion)
            .then(|| Arc::new(SharedReads::new(parts.senders.workers.clone())));
        for ((worker, setup), &core) in parts.workers.into_iter().enumerate().zip(&cores) {
            let make_app = make_app.clone();
            let (answers, shared) = (in_kernel.next(), shared.clone());
            threads.push(spawn(format!("worker-{worker}"), &failure, move || {
                // `worker_cores` has checked that the core is allowed.
                core.map_or(Ok(()), cores::pin)?;
                let worker = setup.start(make_app(worker), answers)?;
                match shared {
                    None => worker.run(),
                    Some(shared) => PullingWorker::new(worker, shared).run(),
                }
            })?);
        }
        let acceptor = parts.acceptor;
        let run = move || acceptor.run(acceptor_app);
        threads.push(spawn("acceptor".to_owned(), &failure, run)?);
        let applied = Mutex::new(AppliedConfig::new(config, open, passed));
        let (senders, registry) = (parts.senders, parts.registry);
        if let Some(filter) = syn_filter {
            registry.set_syn_filter(filter);
        }
        Ok(Self {
            addresses,
            tls_addresses,
            applied,
            senders,
            threads,
            failure,
            cores,
            registry,
            acceptor_waker,
        })
    }

    /// The addresses on which it listens without TLS, with the port that was chosen for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses on which it listens with TLS, with the port that was chosen for port 0.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The core to which each worker is bound; `None` if it may run on any.
    pub fn cores(&self) -> &[Option<usize>] {
        &self.cores
    }

    /// The metrics of all threads.
    pub fn metrics(&self) -> Arc<dyn MetricsSource> {
        self.registry.clone()
    }

    /// Observes whether all threads make progress.
    pub fn progress(&self) -> ProgressMonitor {
        ProgressMonitor::new(self.registry.clone(), self.acceptor_waker.clone())
    }

    /// For threads that are not the engine's own: to send requests to switches, to follow the network view, and to list switches.
    pub fn handle(&self) -> EngineHandle {
        EngineHandle::new(self.senders.workers.clone(), self.registry.clone())
    }

    /// Applies `config` without closing connections, and calls `change` for the applications of each thread. Returns the
    /// keys whose change takes effect only after a restart.
    ///
    /// # Errors
    /// If it cannot listen on a new address; nothing is changed then. If a listener that `config` does not contain has the port of
    /// a new one, it is closed first and opened again after an error; in between, new connections to it are refused.
    pub fn apply(
        &self,
        config: Config,
        change: impl Fn(&mut A) + Send + Sync + 'static,
    ) -> Result<Vec<&'static str>, StartError> {
        check_tls_addresses(&config.tls)?;
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let new_listeners = self.open_new(&config, &mut applied)?;
        let mut restart = Vec::new();
        if config.workers != applied.config.workers {
            restart.push("workers");
        }
        if config.socket != applied.config.socket {
            restart.push("socket");
        }
        if config.limits.syn_filter != applied.config.limits.syn_filter {
            restart.push("limits.syn_filter");
        }
        applied.open.retain(|open| config.endpoints().any(|wanted| wanted == open.configured));
        applied.open.extend(new_listeners.listeners.iter().map(|(endpoint, _)| *endpoint));
        self.senders.configure(config.clone(), change, new_listeners);
        applied.config = config;
        Ok(restart)
    }

    /// Moves a switch to another worker: between two messages, in order, and without losing any in either direction. The
    /// applications of its worker see it disconnect, those of the other one see it connect, and the switch sees nothing. Does
    /// nothing if there is no such switch or worker, or if the switch is moving already.
    pub fn move_switch(&self, datapath_id: DatapathId, worker: usize) {
        self.senders.acceptor.send(ToAcceptor::Move(datapath_id, worker));
    }

    /// Has `notify` called, in any thread and once, when a thread ends with an error, which is logged, or by a panic. Its switches are
    /// disconnected, and nobody serves those that connect to it later, so the engine should be stopped.
    pub fn on_failure(&self, notify: impl FnOnce() + Send + 'static) {
        self.failure.subscribe(Box::new(notify));
    }

    /// Opens the listeners of `config` that are not open, and closes those first that are in the way and that `config` does not
    /// contain.
    fn open_new(
        &self,
        config: &Config,
        applied: &mut AppliedConfig,
    ) -> Result<NewListeners<TcpListener>, StartError> {
        applied.remove_failed();
        let is_new = |wanted: &Endpoint| !applied.open.iter().any(|it| it.configured == *wanted);
        let new: Vec<_> = config.endpoints().filter(is_new).collect();
        let is_obsolete = |open: &OpenEndpoint| {
            !config.endpoints().any(|wanted| wanted == open.configured)
                && new.iter().any(|new| new.addr.port() == open.addr.port())
        };
        let obsolete: Vec<_> = applied.open.iter().copied().filter(is_obsolete).collect();
        let open_new = || {
            let filter = self.registry.syn_filter();
            let listeners = open_all(config, &applied.passed, filter, new.iter().copied());
            listeners
                .map(|it| NewListeners { listeners: it, failed: applied.report_failed.clone() })
        };
        match open_new() {
            Err(StartError::Listen(_, error))
                if error.kind() == io::ErrorKind::AddrInUse && !obsolete.is_empty() => {}
            result => return result,
        }
        let (done, is_done) = mpsc::channel();
        self.senders.acceptor.send(ToAcceptor::StopListening(obsolete.clone(), done));
        // Fails if the acceptor has ended.
        let _ = is_done.recv();
        open_new().inspect_err(|_| {
            let filter = self.registry.syn_filter();
            let listeners = open_again(&applied.config, &applied.passed, filter, &obsolete);
            applied.open.retain(|it| !obsolete.contains(it));
            applied.open.extend(listeners.iter().map(|(endpoint, _)| *endpoint));
            let again = NewListeners { listeners, failed: applied.report_failed.clone() };
            let (cfg, no_change) = (Arc::new(applied.config.clone()), Arc::new(|_: &mut A| {}));
            self.senders.acceptor.send(ToAcceptor::Configure(cfg, no_change, again));
        })
    }

    /// Stops accepting, closes all connections and joins all threads.
    pub fn stop(self) {
        self.senders.acceptor.send(ToAcceptor::Stop);
        for worker in &self.senders.workers {
            worker.send(ToWorker::Stop);
        }
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread panicked");
            }
        }
    }
}

/// What makes the applications of each thread.
pub type MakeChain = Box<dyn Fn(usize) -> Chain + Send + Sync>;

impl Engine<Chain> {
    /// As [`start_on`](Self::start_on). The event loops are compiled with this crate, with its level of optimisation, and not with the crate
    /// that calls this.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_chain(
        config: Config,
        passed: Arc<[PassedListener]>,
        make_chain: MakeChain,
    ) -> Result<Self, StartError> {
        Self::start_on(config, passed, make_chain)
    }
}

/// Whether the engines [`WorkerEngine::Kernel`] and [`WorkerEngine::Auto`] can answer inside the kernel.
///
/// # Errors
/// What is missing.
pub fn try_in_kernel() -> Result<(), KernelError> {
    let limits = WorkerEngine::Kernel.kernel_limits(1).ok_or(KernelError::NotBuilt)?;
    KernelAnswers::load(&limits)?.worker(0).map(drop)
}

/// Whether [`Limits::syn_filter`](crate::Limits::syn_filter) can be used.
///
/// # Errors
/// What is missing.
pub fn try_syn_filter() -> Result<(), KernelError> {
    let limit = Limits { syn_filter: true, ..Limits::default() }.syn_limit();
    limit.map_or(Ok(()), |limit| SynFilter::load(&limit).map(drop))
}

/// Loads the program that answers inside the kernel, with memory for `paths` or without, if it is wanted and if it must be there or can be; returns
/// the part of each worker, or nothing.
fn load_in_kernel(
    wanted: WorkerEngine,
    workers: usize,
    paths: bool,
) -> Result<Vec<WorkerAnswers>, StartError> {
    let Some(limits) = wanted.kernel_limits(workers) else { return Ok(Vec::new()) };
    let limits = sluice_kernel::Limits { paths, ..limits };
    let load = || {
        let answers = KernelAnswers::load(&limits)?;
        (0..workers).map(|worker| answers.worker(worker)).collect::<Result<_, _>>()
    };
    match load() {
        Ok(answers) => Ok(answers),
        Err(error) if wanted == WorkerEngine::Auto => {
            tracing::info!("packet-ins are not answered inside the kernel: {error}");
            Ok(Vec::new())
        }
        Err(error) => Err(StartError::InKernel(error)),
    }
}

/// The core to which each worker is bound.
fn worker_cores(config: &Config) -> Result<Vec<Option<usize>>, StartError> {
    let allowed = cores::allowed();
    let candidates = match &config.workers.pin {
        Pin::Cores(cores) if !cores.is_empty() => cores.clone(),
        _ => allowed.clone(),
    };
    let threads = match config.workers.threads {
        0 => candidates.len(),
        threads => threads,
    };
    if config.workers.pin == Pin::Off {
        return Ok(vec![None; threads]);
    }
    if let Some(&core) = candidates.iter().find(|core| !allowed.contains(core)) {
        return Err(StartError::Pin(core, io::ErrorKind::InvalidInput.into()));
    }
    Ok(candidates.into_iter().cycle().take(threads).map(Some).collect())
}

fn spawn(
    name: String,
    failure: &Arc<ThreadFailure>,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let failure = failure.clone();
    let run = move || match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, "thread failed");
            failure.notify();
        }
        Err(payload) => {
            failure.notify();
            panic::resume_unwind(payload);
        }
    };
    std::thread::Builder::new().name(name).spawn(run).map_err(StartError::Io)
}

/// Tells somebody that a thread has failed, be it before or after it is known whom.
#[derive(Default)]
struct ThreadFailure(Mutex<FailureState>);

#[derive(Default)]
struct FailureState {
    has_failed: bool,
    subscriber: Option<Box<dyn FnOnce() + Send>>,
}

impl ThreadFailure {
    fn notify(&self) {
        self.update(|state| state.has_failed = true);
    }

    fn subscribe(&self, subscriber: Box<dyn FnOnce() + Send>) {
        self.update(|state| state.subscriber = Some(subscriber));
    }

    fn update(&self, change: impl FnOnce(&mut FailureState)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if state.has_failed
            && let Some(notify) = state.subscriber.take()
        {
            notify();
        }
    }
}

impl fmt::Debug for ThreadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadFailure").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_panics_is_reported_and_its_panic_is_that_of_the_thread() {
        let failure = Arc::new(ThreadFailure::default());
        let (sender, receiver) = channel();
        failure.subscribe(Box::new(move || sender.send(()).unwrap()));
        let thread = spawn("worker-0".to_owned(), &failure, || panic!("a bug of an application"));
        let payload = thread.unwrap().join().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"a bug of an application"));
        assert_eq!(receiver.try_iter().count(), 1);
    }

    #[test]
    fn a_thread_that_ends_with_an_error_is_reported_once_whenever_somebody_subscribes() {
        for subscribes_first in [true, false] {
            let failure = Arc::new(ThreadFailure::default());
            let (sender, receiver) = channel();
            let subscribe = || {
                let sender = sender.clone();
                failure.subscribe(Box::new(move || sender.send(()).unwrap()));
            };
            if subscribes_first {
                subscribe();
            }
            for _ in 0..2 {
                let fail = || Err(io::ErrorKind::OutOfMemory.into());
                spawn("worker-0".to_owned(), &failure, fail).unwrap().join().unwrap();
            }
            if !subscribes_first {
                subscribe();
            }
            assert_eq!(receiver.try_iter().count(), 1);
        }
        let failure = Arc::new(ThreadFailure::default());
        failure.subscribe(Box::new(|| panic!("no thread has failed")));
        spawn("worker-0".to_owned(), &failure, || Ok(())).unwrap().join().unwrap();
    }

    struct EmptyApp;

    impl App for EmptyApp {}

    fn config(listen: SocketAddr) -> Config {
        let mut config = Config { listen: vec![listen], ..Config::default() };
        config.workers.threads = 1;
        config.workers.pin = Pin::Off;
        config.socket.congestion = None;
        config
    }

    #[test]
    fn a_passed_listener_is_used_whenever_the_configuration_has_its_address() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let passed = PassedListener { configured: addr.into(), listener };
        let engine = Engine::start_on(config(addr), Arc::from([passed]), |_| EmptyApp).unwrap();
        assert_eq!(engine.addresses(), [addr]);
        let type_of_first_message = || {
            let mut header = [0; 8];
            let mut switch = std::net::TcpStream::connect(addr).unwrap();
            io::Read::read_exact(&mut switch, &mut header).unwrap();
            header[1]
        };
        assert_eq!(type_of_first_message(), 0, "HELLO");
        // While it is not used, the one who has opened it keeps it open.
        engine.apply(config(([127, 0, 0, 1], 0).into()), |_| {}).unwrap();
        engine.apply(config(addr), |_| {}).unwrap();
        assert_eq!(type_of_first_message(), 0, "HELLO");
        engine.stop();
    }

    #[test]
    fn a_listener_that_the_acceptor_could_not_use_is_opened_by_the_next_reload() {
        let config = config(([127, 0, 0, 1], 0).into());
        let engine = Engine::start(config.clone(), |_| EmptyApp).unwrap();
        let open = || engine.applied.lock().unwrap().open.clone();
        let (done, is_done) = channel();
        engine.senders.acceptor.send(ToAcceptor::StopListening(open(), done));
        is_done.recv().unwrap();
        let failed = open()[0];
        engine.applied.lock().unwrap().report_failed.send(failed).unwrap();
        assert!(std::net::TcpStream::connect(failed.addr).is_err());
        engine.apply(config, |_| {}).unwrap();
        let [again] = *open() else { panic!("{:?}", open()) };
        assert!(std::net::TcpStream::connect(again.addr).is_ok());
        engine.stop();
    }
}
