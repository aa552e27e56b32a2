//! The way between one switch and the controller: octets in order, each way through a pipe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use crate::link::{Fate, Pipe, QUEUE_MAX, Settings, Share};

use super::{Conn, NetError};

/// Octets that are kept on one side of a control link that is held, at most.
const KEPT_MAX: usize = 64 << 20;

/// Octets of one segment, and those of its headers: IPv4 and TCP with timestamps.
const SEGMENT_LEN: usize = 1448;
const HEADERS_LEN: u32 = 52;

/// What goes through a control link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Letter {
    Open,
    Octets(Vec<u8>),
    Close,
}

impl Letter {
    fn len(&self) -> usize {
        if let Self::Octets(octets) = self { octets.len() } else { 0 }
    }
}

/// One direction. Nothing is lost: what it cannot take ends the run.
#[derive(Debug)]
pub(super) struct Way {
    pipe: Pipe<(Conn, Letter)>,
    /// What is said while it is held.
    kept: VecDeque<(Conn, Letter)>,
    kept_octets: usize,
    armed: Option<Instant>,
    is_held: bool,
    octets: u64,
}

impl Way {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            pipe: Pipe::new(lossless(settings)),
            kept: VecDeque::new(),
            kept_octets: 0,
            armed: None,
            is_held: false,
            octets: 0,
        }
    }

    /// Sends a letter; octets go in segments.
    pub(super) fn send(
        &mut self,
        now: Instant,
        conn: Conn,
        letter: Letter,
        rng: &mut Rng,
    ) -> Result<(), NetError> {
        self.octets += letter.len() as u64;
        if !self.is_held {
            return self.pass(now, conn, letter, rng);
        }
        self.kept_octets += letter.len();
        self.kept.push_back((conn, letter));
        (self.kept_octets <= KEPT_MAX).then_some(()).ok_or_else(|| NetError::Backlog(conn.switch()))
    }

    fn pass(
        &mut self,
        now: Instant,
        conn: Conn,
        letter: Letter,
        rng: &mut Rng,
    ) -> Result<(), NetError> {
        let mut offer = |letter: Letter| {
            let len = u32::try_from(letter.len()).unwrap_or(u32::MAX).saturating_add(HEADERS_LEN);
            match self.pipe.offer(now, len, (conn, letter), rng) {
                Fate::Due(_) => Ok(()),
                Fate::Lost | Fate::Overflowed => Err(NetError::Backlog(conn.switch())),
            }
        };
        match letter {
            Letter::Octets(octets) => octets
                .chunks(SEGMENT_LEN)
                .try_for_each(|segment| offer(Letter::Octets(segment.to_vec()))),
            letter => offer(letter),
        }
    }

    /// A letter that arrives by now.
    pub(super) fn receive(&mut self, now: Instant) -> Option<(Conn, Letter)> {
        self.pipe.pop_due(now).map(|departure| departure.item)
    }

    /// The event has come.
    pub(super) fn fire(&mut self, now: Instant) {
        self.armed.take_if(|armed| *armed <= now);
    }

    /// When an event is needed that there is not.
    pub(super) fn arm(&mut self) -> Option<Instant> {
        let due = self.pipe.next_due()?;
        let is_late = self.armed.is_none_or(|armed| armed > due);
        is_late.then(|| *self.armed.insert(due))
    }

    /// Loses everything that is on its way or kept.
    pub(super) fn empty(&mut self) {
        self.pipe = Pipe::new(self.pipe.settings());
        self.kept.clear();
        (self.kept_octets, self.armed) = (0, None);
    }

    /// Lets nothing more in.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Lets in again what is said, and what was said meanwhile.
    pub(super) fn release(&mut self, now: Instant, rng: &mut Rng) -> Result<(), NetError> {
        self.is_held = false;
        self.kept_octets = 0;
        let mut kept = std::mem::take(&mut self.kept).into_iter();
        kept.try_for_each(|(conn, letter)| self.pass(now, conn, letter, rng))
    }

    pub(super) fn set(&mut self, now: Instant, settings: Settings) {
        self.pipe.set(now, lossless(settings));
    }

    pub(super) fn delay(&self) -> Duration {
        self.pipe.settings().delay
    }

    /// Octets that were ever sent.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }
}

/// TCP hides losses, and its sender keeps what finds no room. What it does about them is not played here.
fn lossless(settings: Settings) -> Settings {
    Settings { loss: Share::NONE, queue: Some(QUEUE_MAX), ..settings }
}
