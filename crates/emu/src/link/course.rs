//! What both kinds of links have: two pipes, what they are told, and what is measured of them.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::control::{Both, Way};
use super::pipe::{Departure, Fate, Pipe};
use super::report::{Lateness, Report, WayReport};
use super::series::{Series, Sink};
use super::settings::{Change, Settings};

/// How often a series is handed over, so that who follows it is at most so far behind.
const FLUSH: Duration = Duration::from_secs(1);

/// What the thread of a link is told.
#[derive(Debug)]
pub(super) enum Letter {
    /// Change what is given.
    Set(Both<Option<Change>>),
    /// Answer with a report.
    Show(SyncSender<Report>),
    /// End.
    Stop,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Stop,
}

/// What a link starts with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) settings: Both<Settings>,
    pub(super) seed: u64,
    pub(super) series: Option<Sink>,
    pub(super) letters: Receiver<Letter>,
}

/// Two pipes, their randomness, and what is measured.
#[derive(Debug)]
pub(super) struct Course<T> {
    pub(super) pipes: Both<Pipe<T>>,
    late: Both<Lateness>,
    refused: Both<u64>,
    series: Series,
    flush_at: Instant,
    rng: Rng,
    start: Instant,
    letters: Receiver<Letter>,
    pub(super) connections: Option<(u64, u64)>,
}

impl<T> Course<T> {
    pub(super) fn new(now: Instant, start: Start) -> Self {
        let Start { settings, seed, series, letters } = start;
        Self {
            pipes: Both::of(|way| Pipe::new(*settings.at(way))),
            late: Both::of(|_| Lateness::new()),
            refused: Both::default(),
            series: Series::new(now, series),
            flush_at: now + FLUSH,
            rng: Rng::new(seed),
            start: now,
            letters,
            connections: None,
        }
    }

    /// Takes a packet in.
    pub(super) fn offer(&mut self, way: Way, now: Instant, len: u32, item: T) -> Fate {
        self.series.offered(now, way, len);
        self.pipes.at_mut(way).offer(now, len, item, &mut self.rng)
    }

    /// A packet that is due.
    pub(super) fn pop_due(&mut self, way: Way, now: Instant) -> Option<Departure<T>> {
        self.pipes.at_mut(way).pop_due(now)
    }

    /// Notes that it left, and whether the far end took it.
    pub(super) fn left(&mut self, way: Way, due: Instant, at: Instant, len: u32, taken: Taken) {
        self.late.at_mut(way).record(at.saturating_duration_since(due));
        self.series.delivered(at, way, len);
        if taken == Taken::No {
            *self.refused.at_mut(way) += 1;
        }
    }

    /// When something is to be done, whatever comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = Way::BOTH.map(|way| self.pipes.at(way).next_due());
        let flush = self.series.is_written().then_some(self.flush_at);
        due.into_iter().flatten().chain(flush).min()
    }

    /// Lets time pass for the series, and does what it is told.
    pub(super) fn obey(&mut self, now: Instant) -> Then {
        if self.series.is_written() && now >= self.flush_at {
            self.series.pass(now);
            self.series.flush();
            self.flush_at = now + FLUSH;
        }
        loop {
            match self.letters.try_recv() {
                Ok(Letter::Set(changes)) => self.set(now, changes),
                Ok(Letter::Show(to)) => {
                    self.series.pass(now);
                    // Who asked may have gone.
                    let _ = to.try_send(self.report(now));
                }
                Ok(Letter::Stop) | Err(TryRecvError::Disconnected) => return Then::Stop,
                Err(TryRecvError::Empty) => return Then::GoOn,
            }
        }
    }

    fn set(&mut self, now: Instant, changes: Both<Option<Change>>) {
        for way in Way::BOTH {
            if let Some(change) = *changes.at(way) {
                let pipe = self.pipes.at_mut(way);
                pipe.set(now, pipe.settings().with(change));
            }
        }
    }

    /// Ends the series; what it did.
    pub(super) fn end(mut self, now: Instant) -> Report {
        self.series.end(now);
        self.report(now)
    }

    fn report(&self, now: Instant) -> Report {
        let way = |way| {
            let pipe = self.pipes.at(way);
            WayReport {
                settings: pipe.settings(),
                counts: pipe.counts(),
                late: self.late.at(way).clone(),
                busiest: self.series.busiest(way),
                refused: *self.refused.at(way),
                missed: None,
            }
        };
        Report {
            open: now.saturating_duration_since(self.start),
            ways: Both::of(way),
            series_fault: self.series.fault().map(ToString::to_string),
            connections: self.connections,
        }
    }
}

/// Whether the far end took a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}
