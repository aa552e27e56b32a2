//! Messages between the threads of the engine.

use std::sync::{Arc, mpsc};

use sluice_io::Io;
use sluice_openflow::{
    DatapathId, EncodeError, Encoder, Message, RawMessage, SwitchFeatures, Version,
};
use sluice_sdk::view::{PublishedFact, RecordFact, ViewPublisher};
use sluice_sdk::{Answer, CaptureSender, OnState, Ticket};

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;
use crate::listen::{NewListeners, OpenEndpoint};
use crate::queue::{Sender, Weigh};
use crate::requests::RoutedRequest;

/// Identifies a session of a switch. A later session has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) u64);

/// Where a switch is: the session that it has, and the worker that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SwitchLocation {
    pub(crate) session_id: SessionId,
    pub(crate) worker: usize,
}

/// Where a switch of another worker is, and how messages to it are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteSwitch {
    pub(crate) location: SwitchLocation,
    pub(crate) version: Version,
}

/// Encoded messages to switches of one worker, in order. They have no transaction ids yet.
///
/// They are encoded by the sender, so that nothing is freed by another thread than the one that has allocated it, except
/// for one buffer.
#[derive(Debug, Default)]
pub(crate) struct MessageBatch {
    bytes: Vec<u8>,
    /// Successive messages to one switch: the switch, and the end of the messages in `bytes`.
    runs: Vec<(DatapathId, usize)>,
    count: usize,
}

impl MessageBatch {
    /// Adds a message to a switch.
    ///
    /// # Errors
    /// The version of the switch cannot express it.
    pub(crate) fn push(
        &mut self,
        (to, version): (DatapathId, Version),
        message: &Message,
    ) -> Result<(), EncodeError> {
        Encoder::new(&mut self.bytes, version, &mut 0).encode(message)?;
        self.count_message(to);
        Ok(())
    }

    /// Adds an encoded message to a switch.
    pub(crate) fn append(&mut self, to: DatapathId, message: RawMessage<'_>) {
        self.bytes.extend_from_slice(message.bytes());
        self.count_message(to);
    }

    /// Counts the message at the end of `bytes`.
    fn count_message(&mut self, to: DatapathId) {
        self.count += 1;
        match self.runs.last_mut() {
            Some((last, end)) if *last == to => *end = self.bytes.len(),
            _ => self.runs.push((to, self.bytes.len())),
        }
    }

    /// Switches, and successive messages to each. A switch may occur several times.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (DatapathId, &[u8])> {
        let mut start = 0;
        self.runs.iter().map(move |&(to, end)| {
            let messages = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            (to, messages)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the messages, and reserves memory for as many again.
    pub(crate) fn take(&mut self) -> Self {
        let next = Self { bytes: Vec::with_capacity(self.bytes.len()), ..Self::default() };
        std::mem::replace(self, next)
    }
}

/// Changes the applications of a thread.
pub(crate) type ChangeApp<A> = Arc<dyn Fn(&mut A) + Send + Sync>;

/// A message to a worker.
pub(crate) enum ToWorker<C, A> {
    /// Takes over a switch that has completed the handshake.
    Adopt(Box<EstablishedConnection<C>>, Box<SwitchFeatures>),
    /// Moves a switch to another worker. See [`migration`](crate::worker::migration).
    Move(SessionId, usize),
    /// A switch moves: from this worker, to the one of the new location. Nothing must be sent to the old one any more.
    SwitchMoving(DatapathId, RemoteSwitch, usize),
    /// The sender sends nothing to this session here any more.
    MoveAcknowledged(SessionId),
    /// Sends an echo request, because another connection has the same datapath id.
    Probe(SessionId),
    /// Closes the connection.
    Close(SessionId, CloseReason),
    /// Another worker serves this switch from now on.
    SwitchConnected(DatapathId, RemoteSwitch),
    /// Another worker serves this session of a switch no longer.
    SwitchDisconnected(DatapathId, SessionId),
    /// Facts that the applications of another worker have published.
    Facts(Arc<[PublishedFact]>),
    /// Records of a thread that is no worker, to be published by this one.
    Publish(Vec<RecordFact>),
    /// Messages of the applications of another worker to switches of this one.
    Messages(MessageBatch),
    /// Requests to switches of this worker, or of others if these have moved.
    Requests(Vec<RoutedRequest>),
    /// Answers to requests of this worker's applications.
    Answers(Vec<(Ticket, Answer)>),
    /// Sends the view and all further facts to a subscriber.
    Subscribe(ViewPublisher),
    /// Copies packet-ins to a thread that is no worker.
    Capture(CaptureSender),
    /// Calls the function with the state of the application of this name.
    ReadState(Arc<str>, OnState),
    /// Applies a new configuration, and the function to the applications.
    Configure(Arc<Config>, ChangeApp<A>),
    /// Has the worker run an iteration, since others have reads that it can process.
    RunIteration,
    /// Closes all connections and ends the thread.
    Stop,
}

impl<C, A> Weigh for ToWorker<C, A> {
    fn weight(&self) -> usize {
        match self {
            Self::Facts(facts) => facts.len().max(1),
            Self::Publish(records) => records.len().max(1),
            Self::Messages(messages) => messages.count.max(1),
            Self::Requests(requests) => {
                requests.iter().map(|it| it.request.messages.len().max(1)).sum()
            }
            Self::Answers(answers) => answers.len().max(1),
            _ => 1,
        }
    }
}

/// A message to the acceptor. `L` is a listener.
pub(crate) enum ToAcceptor<L, A> {
    /// A switch has disconnected.
    Disconnected(SessionId),
    /// Moves a switch to another worker.
    Move(DatapathId, usize),
    /// A switch has moved to another worker.
    Moved(SessionId, usize),
    /// A probed switch has sent something.
    ProbeAnswered(SessionId),
    /// A switch has this number of ports now.
    PortsChanged(SessionId, usize),
    /// Applies a new configuration, and the function to the applications; accepts on the new listeners too.
    Configure(Arc<Config>, ChangeApp<A>, NewListeners<L>),
    /// Closes these listeners, then sends `()`.
    StopListening(Vec<OpenEndpoint>, mpsc::Sender<()>),
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
