//! What goes from thread to thread.

use std::fmt;
use std::net::TcpListener;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_io::Waker;
use sluice_openflow::{DatapathId, Message, SwitchFeatures};
use sluice_sdk::view::PublishedFact;

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::EstablishedConnection;

/// One connection of one switch, among all that ever were. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// What a worker is told.
pub(crate) enum ToWorker<C, A> {
    /// A switch, proved.
    Adopt(Box<EstablishedConnection<C>>, Box<SwitchFeatures>),
    /// Another connection claims this one's datapath id: is it alive?
    Probe(SessionId),
    /// Hang up.
    HangUp(SessionId, CloseReason),
    /// A message for a switch of this worker.
    Mail(SessionId, QueuedMessage),
    /// What applications of another worker said about the network.
    Told(Arc<[PublishedFact]>),
    /// Be set so from now on.
    Configure(Arc<Config>, Arc<dyn Fn(&mut A) + Send + Sync>),
    /// End.
    Stop,
}

/// What the front is told.
pub(crate) enum ToAcceptor<A> {
    /// A switch is gone.
    Gone(SessionId),
    /// A connection that was probed has spoken.
    Alive(SessionId),
    /// A message for a switch of another worker.
    Mail(DatapathId, QueuedMessage),
    /// Be set so from now on, and the applications that greet so; these listeners are new.
    Configure(Arc<Config>, Arc<dyn Fn(&mut A) + Send + Sync>, Vec<TcpListener>),
    /// End.
    Stop,
}

/// A message of an application on its way between threads. It takes a place in the mailbox until it is dropped.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    message: Message,
    place: Place,
}

/// One of the letters of a mailbox.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
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
    /// Gives up its place: it is read.
    pub(crate) fn open(self) -> Message {
        drop(self.place);
        self.message
    }
}

/// The sending end: wakes the thread that reads.
pub(crate) struct Mailbox<T> {
    sender: Sender<T>,
    /// Letters that wait.
    letters: Arc<AtomicUsize>,
    waker: Waker,
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waker", &self.waker).finish_non_exhaustive()
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        let (sender, letters) = (self.sender.clone(), self.letters.clone());
        Self { sender, letters, waker: self.waker.clone() }
    }
}

impl<T> Mailbox<T> {
    /// A mailbox for the thread that `waker` wakes, and its reading end.
    pub(crate) fn new(waker: Waker) -> (Self, Receiver<T>) {
        let (sender, receiver) = channel();
        (Self { sender, letters: Arc::default(), waker }, receiver)
    }

    /// Puts something in. A thread that has ended needs nothing any more.
    pub(crate) fn put(&self, what: T) {
        if self.sender.send(what).is_ok() {
            self.waker.wake();
        }
    }

    /// Puts a letter in, which `wrap` addresses, unless `letters_max` wait there already. Whether it did.
    pub(crate) fn post(
        &self,
        message: Message,
        letters_max: usize,
        wrap: impl FnOnce(QueuedMessage) -> T,
    ) -> bool {
        let before = self.letters.fetch_add(1, Relaxed);
        // Gives the place back, here or where it is read.
        let place = Place(self.letters.clone());
        if before >= letters_max {
            return false;
        }
        self.put(wrap(QueuedMessage { message, place }));
        true
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::{Epoll, WaitStrategy};

    use super::*;

    #[test]
    fn only_so_many_letters_wait_and_all_else_is_put_in() {
        let waker = Epoll::new(WaitStrategy::default()).unwrap().waker();
        let (mailbox, inbox) = Mailbox::new(waker);
        let post = || {
            let message = Message::EchoRequest { data: vec![] };
            mailbox.post(message, 2, |letter| ToAcceptor::<()>::Mail(DatapathId(1), letter))
        };
        assert_eq!([post(), post(), post(), post()], [true, true, false, false]);
        mailbox.put(ToAcceptor::Stop);
        let Ok(ToAcceptor::Mail(_, letter)) = inbox.try_recv() else { panic!("no letter") };
        assert!(!post(), "not read yet");
        assert_eq!(letter.open(), Message::EchoRequest { data: vec![] });
        assert_eq!([post(), post()], [true, false]);
        assert_eq!(inbox.try_iter().count(), 3);
        assert_eq!(mailbox.letters.load(Relaxed), 0);
    }
}
