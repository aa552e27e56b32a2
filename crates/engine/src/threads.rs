//! The threads of an engine before they run: acceptor and workers, and the queues that connect them.

use std::io;
use std::sync::Arc;

use sluice_io::Io;
use sluice_kernel::WorkerAnswers;
use sluice_sdk::App;

use crate::acceptor::Acceptor;
use crate::config::Config;
use crate::counters::CounterRegistry;
use crate::listen::{NewListeners, OpenEndpoint};
use crate::messages::{AcceptorSender, ChangeApp, ToAcceptor, ToWorker, WorkerSender};
use crate::queue::queue;
use crate::worker::{Worker, WorkerQueues};

/// The threads of an engine before they run. The workers may use another kind of [`Io`] than the acceptor, one with the same type of
/// connections.
pub(crate) struct Threads<I: Io, W: Io, A> {
    pub(crate) acceptor: Acceptor<I, A>,
    pub(crate) workers: Vec<WorkerSetup<W, A>>,
    pub(crate) senders: Senders<I, A>,
    pub(crate) registry: Arc<CounterRegistry>,
}

/// The sending ends of the queues of all threads.
#[derive(Debug)]
pub(crate) struct Senders<I: Io, A> {
    pub(crate) acceptor: AcceptorSender<I, A>,
    pub(crate) workers: Vec<WorkerSender<I, A>>,
}

impl<I: Io, A> Senders<I, A> {
    /// Has all threads use `cfg`, and call `change` for their applications. `listeners` are those for new addresses.
    pub(crate) fn configure(
        &self,
        cfg: Config,
        change: impl Fn(&mut A) + Send + Sync + 'static,
        listeners: NewListeners<I::Listener>,
    ) {
        let (cfg, change): (_, ChangeApp<A>) = (Arc::new(cfg), Arc::new(change));
        self.acceptor.send(ToAcceptor::Configure(cfg.clone(), change.clone(), listeners));
        for worker in &self.workers {
            worker.send(ToWorker::Configure(cfg.clone(), change.clone()));
        }
    }
}

/// What a worker needs except its applications, which are created in its thread.
pub(crate) struct WorkerSetup<I: Io, A> {
    io: I,
    cfg: Arc<Config>,
    queues: WorkerQueues<I, A>,
    registry: Arc<CounterRegistry>,
}

impl<I: Io, A: App> WorkerSetup<I, A> {
    /// The worker, with the part of the program in the kernel that answers in its place, if there is one.
    ///
    /// # Errors
    /// Those of [`Io::wake_by`].
    pub(crate) fn start(self, app: A, answers: Option<WorkerAnswers>) -> io::Result<Worker<I, A>> {
        Worker::new(self.io, app, self.cfg, self.queues, self.registry, answers)
    }
}

impl<I, W, A: App> Threads<I, W, A>
where
    I: Io,
    W: Io<Conn = I::Conn, Listener = I::Listener, Waker = I::Waker>,
{
    /// An acceptor that uses `io`, and a worker for each of `worker_ios`.
    pub(crate) fn new(cfg: &Arc<Config>, io: I, worker_ios: Vec<W>) -> Self {
        let registry = Arc::new(CounterRegistry::new(worker_ios.len()));
        let capacity = cfg.limits.queue_capacity;
        let (acceptor, acceptor_inbox) = queue(capacity, io.waker());
        let (workers, inboxes): (Vec<_>, Vec<_>) =
            worker_ios.iter().map(|io| queue(capacity, io.waker())).unzip();
        let setup = |(worker, (io, inbox))| {
            let (acceptor, workers) = (acceptor.clone(), workers.clone());
            let queues = WorkerQueues { inbox, acceptor, workers, worker };
            WorkerSetup { io, cfg: cfg.clone(), queues, registry: registry.clone() }
        };
        let setups = worker_ios.into_iter().zip(inboxes).enumerate().map(setup).collect();
        let (cfg, to_workers, counters) = (cfg.clone(), workers.clone(), registry.clone());
        Self {
            acceptor: Acceptor::new(io, cfg, to_workers, acceptor_inbox, counters),
            workers: setups,
            senders: Senders { acceptor, workers },
            registry,
        }
    }

    /// Accepts connections on listeners with these addresses.
    pub(crate) fn listen(
        &mut self,
        listeners: impl IntoIterator<Item = (OpenEndpoint, I::Listener)>,
    ) -> io::Result<()> {
        listeners
            .into_iter()
            .try_for_each(|(endpoint, listener)| self.acceptor.listen(endpoint, listener))
    }
}
