//! Messages between threads.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_io::{Io, Wake};
use sluice_openflow::{DatapathId, Message, SwitchFeatures};
use sluice_sdk::view::PublishedFact;

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;

/// Identifies a session of a switch. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A message to a worker.
pub(crate) enum ToWorker<C, A> {
    /// Takes over a switch that has completed the handshake.
    Adopt(Box<EstablishedConnection<C>>, Box<SwitchFeatures>),
    /// Sends an echo request, because another connection has the same datapath id.
    Probe(SessionId),
    /// Closes the connection.
    Close(SessionId, CloseReason),
    /// Sends an application's message to a switch of this worker.
    Send(SessionId, QueuedMessage),
    /// Facts published by applications of another worker.
    Facts(Arc<[PublishedFact]>),
    /// Applies a new configuration, and the function to the applications.
    Configure(Arc<Config>, Arc<dyn Fn(&mut A) + Send + Sync>),
    /// Closes all connections and ends the thread.
    Stop,
}

/// A message to the acceptor.
pub(crate) enum ToAcceptor<L, A> {
    /// A switch has disconnected.
    Disconnected(SessionId),
    /// A probed switch has sent something.
    ProbeAnswered(SessionId),
    /// Forwards an application's message to the worker of a switch.
    Forward(DatapathId, QueuedMessage),
    /// Applies a new configuration, and the function to the applications; accepts on the new listeners too.
    Configure(Arc<Config>, Arc<dyn Fn(&mut A) + Send + Sync>, Vec<(SocketAddr, L)>),
    /// Ends the thread.
    Stop,
}

/// A message of an application in a mailbox. It occupies a slot of the mailbox until it is dropped.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    message: Message,
    slot: QueueSlot,
}

/// One of the limited number of application messages in a mailbox.
#[derive(Debug)]
struct QueueSlot(Arc<AtomicUsize>);

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Deref for QueuedMessage {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl QueuedMessage {
    /// Returns the message and frees its slot.
    pub(crate) fn into_message(self) -> Message {
        drop(self.slot);
        self.message
    }
}

/// The sending end of a thread's queue. Sending wakes the thread.
pub(crate) struct Mailbox<T, W> {
    sender: Sender<T>,
    /// Application messages in the queue.
    queued_messages: Arc<AtomicUsize>,
    waker: W,
}

/// The mailbox of a worker whose connections are in an `I`.
pub(crate) type WorkerMailbox<I, A> = Mailbox<ToWorker<<I as Io>::Conn, A>, <I as Io>::Waker>;

/// The mailbox of the acceptor.
pub(crate) type AcceptorMailbox<I, A> =
    Mailbox<ToAcceptor<<I as Io>::Listener, A>, <I as Io>::Waker>;

impl<T, W: Wake> fmt::Debug for Mailbox<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waker", &self.waker).finish_non_exhaustive()
    }
}

impl<T, W: Wake> Clone for Mailbox<T, W> {
    fn clone(&self) -> Self {
        let (sender, queued_messages) = (self.sender.clone(), self.queued_messages.clone());
        Self { sender, queued_messages, waker: self.waker.clone() }
    }
}

impl<T, W: Wake> Mailbox<T, W> {
    /// A mailbox of the thread that `waker` wakes, and its receiving end.
    pub(crate) fn new(waker: W) -> (Self, Receiver<T>) {
        let (sender, receiver) = channel();
        (Self { sender, queued_messages: Arc::default(), waker }, receiver)
    }

    /// Sends `item`, unless the thread has ended.
    pub(crate) fn send(&self, item: T) {
        if self.sender.send(item).is_ok() {
            self.waker.wake();
        }
    }

    /// Sends an application's message, wrapped by `wrap`, unless `queued_max` of them are in the queue. Returns whether it
    /// was sent.
    pub(crate) fn try_send_message(
        &self,
        message: Message,
        queued_max: usize,
        wrap: impl FnOnce(QueuedMessage) -> T,
    ) -> bool {
        let before = self.queued_messages.fetch_add(1, Relaxed);
        // Counts down when it is dropped, here or by the receiver.
        let slot = QueueSlot(self.queued_messages.clone());
        if before >= queued_max {
            return false;
        }
        self.send(wrap(QueuedMessage { message, slot }));
        true
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::{Epoll, WaitStrategy};

    use super::*;

    #[test]
    fn application_messages_are_limited_and_others_are_not() {
        let waker = Epoll::new(WaitStrategy::default()).unwrap().waker();
        let (mailbox, inbox) = Mailbox::new(waker);
        let try_send = || {
            let message = Message::EchoRequest { data: vec![] };
            mailbox.try_send_message(message, 2, |queued| {
                ToAcceptor::<(), ()>::Forward(DatapathId(1), queued)
            })
        };
        assert_eq!([(); 4].map(|()| try_send()), [true, true, false, false]);
        mailbox.send(ToAcceptor::Stop);
        let Ok(ToAcceptor::Forward(_, queued)) = inbox.try_recv() else { panic!("no message") };
        assert!(!try_send(), "its slot is still taken");
        assert_eq!(queued.into_message(), Message::EchoRequest { data: vec![] });
        assert_eq!([(); 2].map(|()| try_send()), [true, false]);
        assert_eq!(inbox.try_iter().count(), 3);
        assert_eq!(mailbox.queued_messages.load(Relaxed), 0);
    }
}
