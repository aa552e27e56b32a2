//! What goes from thread to thread.

use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_io::Waker;
use sluice_wire::{DatapathId, Features, Message};

use crate::config::Config;
use crate::peer::Handover;
use crate::reason::Reason;

/// One connection of one switch, among all that ever were. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Serial(pub(crate) u64);

/// What a worker is told.
pub(crate) enum ToWorker<C, A> {
    /// A switch, proved.
    Adopt(Box<Handover<C>>, Box<Features>),
    /// Another connection claims this one's datapath id: is it alive?
    Probe(Serial),
    /// Hang up.
    HangUp(Serial, Reason),
    /// A message for a switch of this worker.
    Mail(Serial, Message),
    /// Be set so from now on.
    Configure(Arc<Config>, Arc<dyn Fn(&mut A) + Send + Sync>),
    /// End.
    Stop,
}

/// What the front is told.
pub(crate) enum ToFront {
    /// A switch is gone.
    Gone(Serial),
    /// A connection that was probed has spoken.
    Alive(Serial),
    /// A message for a switch of another worker.
    Mail(DatapathId, Message),
    /// Be set so from now on; these listeners are new.
    Configure(Arc<Config>, Vec<TcpListener>),
    /// End.
    Stop,
}

/// The sending end: wakes the thread that reads.
pub(crate) struct Mailbox<T> {
    sender: Sender<T>,
    waker: Waker,
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waker", &self.waker).finish_non_exhaustive()
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<T> Mailbox<T> {
    /// A mailbox for the thread that `waker` wakes, and its reading end.
    pub(crate) fn new(waker: Waker) -> (Self, Receiver<T>) {
        let (sender, receiver) = channel();
        (Self { sender, waker }, receiver)
    }

    /// Puts something in. A thread that has ended needs nothing any more.
    pub(crate) fn put(&self, what: T) {
        if self.sender.send(what).is_ok() {
            self.waker.wake();
        }
    }
}
