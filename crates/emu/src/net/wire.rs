//! A link with what is on it.

use std::time::Instant;

use sluice_base::Rng;

use crate::link::{Fate, Pipe, Settings};
use crate::topology::Place;

/// What a link ends at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Port(Place),
    Host(usize),
}

/// One of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    A,
    B,
}

/// What a link carried, from both ends together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCounts {
    /// Frames that were sent into it.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that were for a group: broadcasts, multicasts.
    pub group: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Frames that did not: lost, no room in the queue, or the link was cut.
    pub dropped: u64,
}

/// A link between two ends, with a pipe each way.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) a: End,
    pub(super) b: End,
    pub(super) is_up: bool,
    pub(super) counts: WireCounts,
    settings: Settings,
    from_a: Way,
    from_b: Way,
}

/// One way, and for when it has an event.
#[derive(Debug)]
struct Way {
    pipe: Pipe<Vec<u8>>,
    armed: Option<Instant>,
}

impl Way {
    fn new(settings: Settings) -> Self {
        Self { pipe: Pipe::new(settings), armed: None }
    }
}

impl Wire {
    pub(super) fn new(a: End, b: End, settings: Settings) -> Self {
        Self {
            a,
            b,
            is_up: true,
            counts: WireCounts::default(),
            settings,
            from_a: Way::new(settings),
            from_b: Way::new(settings),
        }
    }

    fn way(&mut self, from: Side) -> &mut Way {
        match from {
            Side::A => &mut self.from_a,
            Side::B => &mut self.from_b,
        }
    }

    /// Sends a frame; whether it is on its way.
    pub(super) fn send(&mut self, now: Instant, from: Side, frame: Vec<u8>, rng: &mut Rng) -> bool {
        self.counts.sent += 1;
        self.counts.bytes += frame.len() as u64;
        self.counts.group += u64::from(frame.first().is_some_and(|byte| byte & 1 == 1));
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let is_due =
            self.is_up && matches!(self.way(from).pipe.offer(now, len, frame, rng), Fate::Due(_));
        self.counts.dropped += u64::from(!is_due);
        is_due
    }

    /// A frame that comes out by now.
    pub(super) fn receive(&mut self, now: Instant, from: Side) -> Option<Vec<u8>> {
        let frame = self.way(from).pipe.pop_due(now)?.item;
        self.counts.delivered += 1;
        Some(frame)
    }

    /// When a way needs an event that it has not.
    pub(super) fn arm(&mut self, from: Side) -> Option<Instant> {
        let way = self.way(from);
        let due = way.pipe.next_due()?;
        let is_late = way.armed.is_none_or(|armed| armed > due);
        is_late.then(|| *way.armed.insert(due))
    }

    /// The event of a way has come. Whether it was not for a time that is over.
    pub(super) fn fire(&mut self, now: Instant, from: Side) {
        self.way(from).armed.take_if(|armed| *armed <= now);
    }

    /// Cuts or joins it. What is on its way is lost; how many frames that is.
    pub(super) fn set_up(&mut self, is_up: bool) -> u64 {
        self.is_up = is_up;
        self.empty()
    }

    /// Loses what is on its way; how many frames.
    pub(super) fn empty(&mut self) -> u64 {
        let held = [&self.from_a, &self.from_b].map(|way| way.pipe.counts().held().packets);
        let lost = held.iter().sum();
        self.counts.dropped += lost;
        self.from_a = Way::new(self.settings);
        self.from_b = Way::new(self.settings);
        lost
    }

    /// Carries frames differently from now on.
    pub(super) fn set(&mut self, now: Instant, settings: Settings) {
        self.settings = settings;
        self.from_a.pipe.set(now, settings);
        self.from_b.pipe.set(now, settings);
    }
}
