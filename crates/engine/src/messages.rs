//! Messages between the threads of the engine.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_io::Io;
use sluice_openflow::{DatapathId, Message, SwitchFeatures};
use sluice_sdk::view::PublishedFact;

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;
use crate::queue::{Sender, Weigh};

/// Weight of the messages and facts that may wait for a thread. A worker whose items do not fit keeps them, and reads no
/// more from its switches until they do.
pub(crate) const QUEUE_CAPACITY: usize = 4096;

/// Identifies a session of a switch. A later session has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u64);

/// Where a switch is: the session that it has, and the worker that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SwitchLocation {
    pub(crate) session_id: SessionId,
    pub(crate) worker: usize,
}

/// Changes the applications of a thread.
pub(crate) type ChangeApp<A> = Arc<dyn Fn(&mut A) + Send + Sync>;

/// A message to a worker.
pub(crate) enum ToWorker<C, A> {
    /// Takes over a switch that has completed the handshake.
    Adopt(Box<EstablishedConnection<C>>, Box<SwitchFeatures>),
    /// Sends an echo request, because another connection has the same datapath id.
    Probe(SessionId),
    /// Closes the connection.
    Close(SessionId, CloseReason),
    /// Another worker serves this switch from now on.
    SwitchConnected(DatapathId, SwitchLocation),
    /// Another worker serves this session of a switch no longer.
    SwitchDisconnected(DatapathId, SessionId),
    /// Facts that the applications of another worker have published.
    Facts(Arc<[PublishedFact]>),
    /// Messages of the applications of another worker to a switch of this one, in order.
    Messages(DatapathId, Vec<Message>),
    /// Applies a new configuration, and the function to the applications.
    Configure(Arc<Config>, ChangeApp<A>),
    /// Closes all connections and ends the thread.
    Stop,
}

impl<C, A> Weigh for ToWorker<C, A> {
    fn weight(&self) -> usize {
        match self {
            Self::Facts(facts) => facts.len().max(1),
            Self::Messages(_, messages) => messages.len().max(1),
            _ => 1,
        }
    }
}

/// A message to the acceptor. `L` is a listener.
pub(crate) enum ToAcceptor<L, A> {
    /// A switch has disconnected.
    Disconnected(SessionId),
    /// A probed switch has sent something.
    ProbeAnswered(SessionId),
    /// Applies a new configuration, and the function to the applications; accepts on the new listeners too.
    Configure(Arc<Config>, ChangeApp<A>, Vec<(SocketAddr, L)>),
    /// Ends the thread.
    Stop,
}

impl<L, A> Weigh for ToAcceptor<L, A> {
    fn weight(&self) -> usize {
        1
    }
}

/// The sending end of the queue of a worker whose connections are in an `I`.
pub(crate) type WorkerSender<I, A> = Sender<ToWorker<<I as Io>::Conn, A>, <I as Io>::Waker>;

/// The sending end of the queue of the acceptor.
pub(crate) type AcceptorSender<I, A> = Sender<ToAcceptor<<I as Io>::Listener, A>, <I as Io>::Waker>;
