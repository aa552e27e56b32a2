//! Runs the threads of an engine one iteration at a time, for simulations: the acceptor and the workers that production
//! runs, on an [`Io`] that simulates connections and time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sluice_base::metrics::MetricsSource;
use sluice_io::Io;
use sluice_openflow::DatapathId;
use sluice_sdk::{App, Network};

use crate::acceptor::Acceptor;
use crate::config::Config;
use crate::counters::CounterRegistry;
use crate::handle::EngineHandle;
use crate::listen::NewListeners;
use crate::messages::{ToAcceptor, ToWorker};
use crate::threads::{Senders, Threads};
use crate::worker::{LoopControl, Worker};

/// An engine without threads of the system: its owner runs one iteration of a thread at a time. Thread 0 is the acceptor, and thread `n` is worker `n - 1`.
pub struct SteppedEngine<I: Io, A> {
    acceptor: Acceptor<I, A>,
    /// The applications of the acceptor, which provide the initial messages.
    acceptor_app: A,
    workers: Vec<Worker<I, A>>,
    senders: Senders<I, A>,
    registry: Arc<CounterRegistry>,
}

/// A part of an iteration of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationPart {
    /// Waits, and processes the events of connections.
    Events,
    /// Processes messages of other threads, and runs timers.
    Messages,
    /// Delivers what the applications have published, and sends everything. The acceptor has no such part.
    Delivery,
}

impl IterationPart {
    /// All parts, in order.
    pub const ALL: [Self; 3] = [Self::Events, Self::Messages, Self::Delivery];

    /// The part that follows; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Events => Some(Self::Messages),
            Self::Messages => Some(Self::Delivery),
            Self::Delivery => None,
        }
    }
}

impl<I: Io, A> std::fmt::Debug for SteppedEngine<I, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedEngine")
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

impl<I: Io, A: App> SteppedEngine<I, A> {
    /// An engine with an [`Io`] for the acceptor and one for each worker. `make_app` is called as by
    /// [`Engine::start`](crate::Engine::start).
    ///
    /// # Errors
    /// Errors of [`Io::listen`].
    pub fn new(
        cfg: Config,
        acceptor_io: I,
        worker_ios: Vec<I>,
        listeners: Vec<(SocketAddr, I::Listener)>,
        mut make_app: impl FnMut(usize) -> A,
    ) -> io::Result<Self> {
        let acceptor_app = make_app(worker_ios.len());
        let mut threads = Threads::new(&Arc::new(cfg), acceptor_io, worker_ios);
        threads.listen(listeners.into_iter().map(|(addr, it)| (addr.into(), it)))?;
        let setups = threads.workers.into_iter().enumerate();
        let workers = setups.map(|(number, setup)| setup.start(make_app(number), None));
        Ok(Self {
            acceptor: threads.acceptor,
            acceptor_app,
            workers: workers.collect::<io::Result<_>>()?,
            senders: threads.senders,
            registry: threads.registry,
        })
    }

    /// Number of threads.
    pub fn thread_count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs one iteration of a thread. Returns whether the thread goes on.
    ///
    /// # Errors
    /// Errors of [`Io::wait`], after which the thread must not run again.
    pub fn run_iteration(&mut self, thread: usize) -> io::Result<bool> {
        let mut goes_on = true;
        for part in IterationPart::ALL {
            goes_on &= self.run_part(thread, part)?;
        }
        Ok(goes_on)
    }

    /// Runs a part of an iteration of a thread: a simulation can let other threads run before the next part, as if the thread
    /// was preempted. Returns whether the thread goes on after this iteration.
    ///
    /// # Errors
    /// As [`run_iteration`](Self::run_iteration).
    pub fn run_part(&mut self, thread: usize, part: IterationPart) -> io::Result<bool> {
        let mut control = LoopControl::Continue;
        let (acceptor, app) = (&mut self.acceptor, &mut self.acceptor_app);
        match thread.checked_sub(1) {
            None => match part {
                IterationPart::Events => acceptor.process_events(app)?,
                IterationPart::Messages => control = acceptor.process_messages(app),
                IterationPart::Delivery => {}
            },
            Some(worker) => match (self.workers.get_mut(worker), part) {
                (Some(worker), IterationPart::Events) => worker.process_events()?,
                (Some(worker), IterationPart::Messages) => control = worker.process_messages(),
                (Some(worker), IterationPart::Delivery) => worker.deliver(),
                (None, _) => control = LoopControl::Stop,
            },
        }
        Ok(control == LoopControl::Continue)
    }

    /// Whether nothing is in flight between workers, if all are between two iterations: then all have the same view.
    pub fn is_quiet(&self) -> bool {
        self.workers.iter().all(Worker::is_quiet)
    }

    /// When a thread must run at the latest, by its own clock, even if nothing happens on its connections. This is past if
    /// there are messages of other threads: these wake only a thread that is in [`Io::wait`], where it is not between two
    /// iterations.
    pub fn deadline(&self, thread: usize) -> Option<Instant> {
        match thread.checked_sub(1) {
            None => self.acceptor.deadline(),
            Some(worker) => self.workers.get(worker).map(Worker::deadline),
        }
    }

    /// Whether a thread waits for another one only, and leaves its connections alone: it uses [`Io::wait_for_wake`].
    pub fn is_congested(&self, thread: usize) -> bool {
        let worker = thread.checked_sub(1).and_then(|worker| self.workers.get(worker));
        worker.is_some_and(Worker::is_congested)
    }

    /// The applications of each worker.
    pub fn apps(&self) -> impl Iterator<Item = &A> {
        self.workers.iter().map(Worker::app)
    }

    /// The applications of each worker, to be changed between two iterations.
    pub fn apps_mut(&mut self) -> impl Iterator<Item = &mut A> {
        self.workers.iter_mut().map(Worker::app_mut)
    }

    /// The network view of each worker.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.workers.iter().map(Worker::network)
    }

    /// The metrics of all threads.
    pub fn metrics(&self) -> Arc<dyn MetricsSource> {
        self.registry.clone()
    }

    /// As [`Engine::handle`](crate::Engine::handle).
    pub fn handle(&self) -> EngineHandle
    where
        I::Conn: Send + 'static,
        I::Waker: Send + Sync + 'static,
        A: 'static,
    {
        EngineHandle::new(self.senders.workers.clone(), self.registry.clone())
    }

    /// Applies a configuration, in which only listeners do not change. See [`Engine::apply`](crate::Engine::apply).
    pub fn apply(&self, config: Config, change: impl Fn(&mut A) + Send + Sync + 'static) {
        self.senders.configure(config, change, NewListeners::none());
    }

    /// Moves a switch to another worker. See [`Engine::move_switch`](crate::Engine::move_switch).
    pub fn move_switch(&self, datapath_id: DatapathId, worker: usize) {
        self.senders.acceptor.send(ToAcceptor::Move(datapath_id, worker));
    }

    /// Tells all threads to stop: each closes its connections in its next iteration.
    pub fn stop(&self) {
        self.senders.acceptor.send(ToAcceptor::Stop);
        for worker in &self.senders.workers {
            worker.send(ToWorker::Stop);
        }
    }
}
