//! The way between one switch and the controller: bytes in order, each way through a pipe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use crate::link::{Fate, Pipe, QUEUE_MAX, Settings, Share};

use super::transport::Transport;
use super::{Carriage, Conn, NetError};

/// Bytes that are kept on one side of a control link, at most.
const KEPT_MAX: usize = 64 << 20;

/// Bytes of one segment, and those of its headers: IPv4 and TCP with timestamps.
pub(super) const SEGMENT_LEN: usize = 1448;
pub(super) const HEADERS_LEN: u32 = 52;

/// What goes through a control link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Letter {
    Open,
    Bytes(Vec<u8>),
    Close,
}

impl Letter {
    pub(super) fn len(&self) -> usize {
        if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// One direction. Nothing is lost to those at its ends: what it cannot take ends the run.
#[derive(Debug)]
pub(super) struct Way {
    carrier: Carrier,
    /// What is said while it is held.
    kept: VecDeque<(Conn, Letter)>,
    kept_bytes: usize,
    armed: Option<Instant>,
    is_held: bool,
    bytes: u64,
}

/// What carries letters.
#[derive(Debug)]
enum Carrier {
    Bare(Box<Pipe<(Conn, Letter)>>),
    Tcp(Box<Transport>),
}

impl Carrier {
    fn new(carriage: Carriage, settings: Settings, back: Duration) -> Self {
        match carriage {
            Carriage::Bare => Self::Bare(Box::new(Pipe::new(lossless(settings)))),
            Carriage::Tcp => Self::Tcp(Box::new(Transport::new(settings, back))),
        }
    }
}

impl Way {
    /// A way for which `back` is the delay of the other one.
    pub(super) fn new(carriage: Carriage, settings: Settings, back: Duration) -> Self {
        Self {
            carrier: Carrier::new(carriage, settings, back),
            kept: VecDeque::new(),
            kept_bytes: 0,
            armed: None,
            is_held: false,
            bytes: 0,
        }
    }

    /// Sends a letter; bytes go in segments.
    pub(super) fn send(
        &mut self,
        now: Instant,
        conn: Conn,
        letter: Letter,
        rng: &mut Rng,
    ) -> Result<(), NetError> {
        self.bytes += letter.len() as u64;
        if !self.is_held {
            return self.pass(now, conn, letter, rng);
        }
        self.kept_bytes += letter.len();
        self.kept.push_back((conn, letter));
        (self.kept_bytes <= KEPT_MAX).then_some(()).ok_or_else(|| NetError::Backlog(conn.switch()))
    }

    fn pass(
        &mut self,
        now: Instant,
        conn: Conn,
        letter: Letter,
        rng: &mut Rng,
    ) -> Result<(), NetError> {
        let carrier = &mut self.carrier;
        let mut offer = |letter: Letter| {
            let is_taken = match &mut *carrier {
                Carrier::Bare(pipe) => {
                    let len = u32::try_from(letter.len()).unwrap_or(u32::MAX);
                    let len = len.saturating_add(HEADERS_LEN);
                    matches!(pipe.offer(now, len, (conn, letter), rng), Fate::Due(_))
                }
                Carrier::Tcp(transport) => {
                    transport.send(now, conn, letter, rng);
                    transport.untaken() <= KEPT_MAX
                }
            };
            is_taken.then_some(()).ok_or_else(|| NetError::Backlog(conn.switch()))
        };
        match letter {
            Letter::Bytes(bytes) => bytes
                .chunks(SEGMENT_LEN)
                .try_for_each(|segment| offer(Letter::Bytes(segment.to_vec()))),
            letter => offer(letter),
        }
    }

    /// A letter that arrives by now.
    pub(super) fn receive(&mut self, now: Instant) -> Option<(Conn, Letter)> {
        match &mut self.carrier {
            Carrier::Bare(pipe) => pipe.pop_due(now).map(|departure| departure.item),
            Carrier::Tcp(transport) => transport.receive(),
        }
    }

    /// The event has come.
    pub(super) fn fire(&mut self, now: Instant, rng: &mut Rng) {
        self.armed.take_if(|armed| *armed <= now);
        if let Carrier::Tcp(transport) = &mut self.carrier {
            transport.on_time(now, rng);
        }
    }

    /// When an event is needed that there is not.
    pub(super) fn arm(&mut self) -> Option<Instant> {
        let due = match &self.carrier {
            Carrier::Bare(pipe) => pipe.next_due()?,
            Carrier::Tcp(transport) => transport.deadline()?,
        };
        let is_late = self.armed.is_none_or(|armed| armed > due);
        is_late.then(|| *self.armed.insert(due))
    }

    /// Loses everything that is on its way or kept.
    pub(super) fn empty(&mut self) {
        match &mut self.carrier {
            Carrier::Bare(pipe) => **pipe = Pipe::new(pipe.settings()),
            Carrier::Tcp(transport) => **transport = transport.anew(),
        }
        self.kept.clear();
        (self.kept_bytes, self.armed) = (0, None);
    }

    /// Lets nothing more in.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Lets in again what is said, and what was said meanwhile.
    pub(super) fn release(&mut self, now: Instant, rng: &mut Rng) -> Result<(), NetError> {
        self.is_held = false;
        self.kept_bytes = 0;
        let mut kept = std::mem::take(&mut self.kept).into_iter();
        kept.try_for_each(|(conn, letter)| self.pass(now, conn, letter, rng))
    }

    /// Carries what is said from now on otherwise; `back` is the delay of the other way.
    pub(super) fn set(&mut self, now: Instant, settings: Settings, back: Duration) {
        match &mut self.carrier {
            Carrier::Bare(pipe) => pipe.set(now, lossless(settings)),
            Carrier::Tcp(transport) => transport.set(now, settings, back),
        }
    }

    /// A connection begins.
    pub(super) fn begin(&mut self) {
        if let Carrier::Tcp(transport) = &mut self.carrier {
            transport.begin();
        }
    }

    pub(super) fn delay(&self) -> Duration {
        match &self.carrier {
            Carrier::Bare(pipe) => pipe.settings().delay,
            Carrier::Tcp(transport) => transport.settings().delay,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn untaken(&mut self, now: Instant) -> usize {
        let unsent = match &mut self.carrier {
            Carrier::Bare(pipe) => {
                pipe.advance(now);
                usize::try_from(pipe.waiting()).unwrap_or(usize::MAX)
            }
            Carrier::Tcp(transport) => transport.untaken(),
        };
        self.kept_bytes + unsent
    }

    /// Bytes that were ever sent.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Bare letters are not sent again: none is lost, and all find room.
fn lossless(settings: Settings) -> Settings {
    Settings { loss: Share::NONE, queue: Some(QUEUE_MAX), ..settings }
}
