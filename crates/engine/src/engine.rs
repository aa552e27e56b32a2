//! Starting the threads, and stopping them.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use sluice_base::metrics::MetricsSource;
use sluice_io::{Epoll, WaitStrategy, cores, sock};
use sluice_sdk::App;

use crate::acceptor::{Acceptor, is_same_listener};
use crate::config::{Config, Pin};
use crate::counters::CounterRegistry;
use crate::mailbox::{Mailbox, ToAcceptor, ToWorker};
use crate::worker::{Worker, WorkerMailboxes};

/// Why the engine does not start.
#[derive(Debug)]
pub enum StartError {
    /// It cannot listen there.
    Listen(SocketAddr, io::Error),
    /// A worker cannot be bound to this core.
    Pin(usize, io::Error),
    /// The system does not have this congestion control, or does not let this process use it.
    Congestion(String, io::Error),
    /// A thread or its file descriptors cannot be had.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(addr, error) => write!(f, "cannot listen on {addr}: {error}"),
            Self::Pin(core, error) => write!(f, "cannot run on core {core}: {error}"),
            Self::Congestion(name, error) => {
                write!(f, "cannot use the congestion control `{name}`: {error}")
            }
            Self::Io(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Running threads: one that accepts, and workers that serve with applications of type `A`.
#[derive(Debug)]
pub struct Engine<A> {
    addresses: Vec<SocketAddr>,
    config: Mutex<Config>,
    front: Mailbox<ToAcceptor<A>>,
    workers: Vec<Mailbox<ToWorker<TcpStream, A>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    cores: Vec<Option<usize>>,
    ledger: Arc<CounterRegistry>,
}

/// A worker that has yet to start.
struct WorkerSetup<A> {
    io: Epoll,
    inbox: Receiver<ToWorker<TcpStream, A>>,
    core: Option<usize>,
}

impl<A: App + 'static> Engine<A> {
    /// Starts listening and serving. `make` makes the applications of each worker, in its thread, and those that
    /// [`initial_messages`](App::initial_messages) and hear of nothing, which have the number after the last worker's.
    ///
    /// # Errors
    /// Where it cannot listen, on which core it cannot run, which congestion control is not there.
    pub fn start(
        config: Config,
        make: impl Fn(usize) -> A + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let listeners = bind(&config, &config.listen)?;
        let cores = seats(&config)?;
        let (cfg, make) = (Arc::new(config.clone()), Arc::new(make));
        let ledger = Arc::new(CounterRegistry::new(cores.len()));
        let io = Epoll::new(WaitStrategy::default()).map_err(StartError::Io)?;
        let (front, front_inbox) = Mailbox::new(io.waker());
        let (mut seats, mut workers) = (Vec::new(), Vec::new());
        for &core in &cores {
            let io = Epoll::new(config.workers.waiting).map_err(StartError::Io)?;
            let (mailbox, inbox) = Mailbox::new(io.waker());
            seats.push(WorkerSetup { io, inbox, core });
            workers.push(mailbox);
        }
        let mut desk = Acceptor::new(io, cfg.clone(), workers.clone(), front_inbox, ledger.clone());
        let mut addresses = Vec::new();
        for listener in listeners {
            addresses.push(listener.local_addr().map_err(StartError::Io)?);
            desk.listen(listener).map_err(StartError::Io)?;
        }
        let mut threads = Vec::new();
        for (number, seat) in seats.into_iter().enumerate() {
            let (cfg, ledger, front) = (cfg.clone(), ledger.clone(), front.clone());
            let (make, workers) = (make.clone(), workers.clone());
            threads.push(spawn(format!("worker-{number}"), move || {
                // `seats` has tried it.
                seat.core.map_or(Ok(()), cores::pin)?;
                let post = WorkerMailboxes { inbox: seat.inbox, front, workers, number };
                Worker::new(seat.io, make(number), cfg, post, ledger).run()
            })?);
        }
        let number = cores.len();
        threads.push(spawn("front".to_owned(), move || desk.run(make(number)))?);
        let config = Mutex::new(config);
        Ok(Self { addresses, config, front, workers, threads, cores, ledger })
    }

    /// Where it listens, with the ports that were found for 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The core of each worker, `None` for any.
    pub fn cores(&self) -> &[Option<usize>] {
        &self.cores
    }

    /// What it counts.
    pub fn metrics(&self) -> Arc<dyn MetricsSource> {
        self.ledger.clone()
    }

    /// Applies the difference between how it is set and `config`, and `change` to the applications. No session ends
    /// and no table is emptied. Returns the keys whose change needs a new start.
    ///
    /// # Errors
    /// Where it cannot listen; nothing is changed then.
    pub fn apply(
        &self,
        config: Config,
        change: impl Fn(&mut A) + Send + Sync + 'static,
    ) -> Result<Vec<&'static str>, StartError> {
        let mut current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |want: &&SocketAddr| {
            !current.listen.iter().any(|&there| is_same_listener(**want, there))
        };
        let new: Vec<_> = config.listen.iter().filter(is_new).copied().collect();
        let listeners = bind(&config, &new)?;
        let mut restart = Vec::new();
        if config.workers != current.workers {
            restart.push("workers");
        }
        if config.socket != current.socket {
            restart.push("socket");
        }
        let cfg = Arc::new(config.clone());
        let change: Arc<dyn Fn(&mut A) + Send + Sync> = Arc::new(change);
        self.front.put(ToAcceptor::Configure(cfg.clone(), change.clone(), listeners));
        for worker in &self.workers {
            worker.put(ToWorker::Configure(cfg.clone(), change.clone()));
        }
        *current = config;
        Ok(restart)
    }

    /// Ends in order: no new connection, every session hung up, every thread joined.
    pub fn stop(self) {
        self.front.put(ToAcceptor::Stop);
        for worker in &self.workers {
            worker.put(ToWorker::Stop);
        }
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a thread failed"),
                Err(_) => tracing::error!("a thread panicked"),
            }
        }
    }
}

/// Opens a listener for each of `addrs`.
fn bind(config: &Config, addrs: &[SocketAddr]) -> Result<Vec<TcpListener>, StartError> {
    if let Some(name) = &config.socket.congestion {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let set = sock::listen(any, &config.socket);
        set.map_err(|error| StartError::Congestion(name.clone(), error))?;
    }
    let open =
        |&addr| sock::listen(addr, &config.socket).map_err(|error| StartError::Listen(addr, error));
    addrs.iter().map(open).collect()
}

/// The core of each worker.
fn seats(config: &Config) -> Result<Vec<Option<usize>>, StartError> {
    let allowed = cores::allowed();
    let from = match &config.workers.pin {
        Pin::Cores(cores) if !cores.is_empty() => cores.clone(),
        _ => allowed.clone(),
    };
    let threads = if config.workers.threads == 0 { from.len() } else { config.workers.threads };
    if config.workers.pin == Pin::Off {
        return Ok(vec![None; threads]);
    }
    if let Some(&core) = from.iter().find(|core| !allowed.contains(core)) {
        return Err(StartError::Pin(core, io::ErrorKind::InvalidInput.into()));
    }
    Ok(from.into_iter().cycle().take(threads).map(Some).collect())
}

fn spawn(
    name: String,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, StartError> {
    std::thread::Builder::new().name(name).spawn(run).map_err(StartError::Io)
}
