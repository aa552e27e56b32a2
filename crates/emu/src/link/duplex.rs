//! What both kinds of links have: two models, what they are told, and what is measured of them.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::command::{Direction, PerDirection};
use super::impairments::{ImpairmentChange, LinkImpairments};
use super::model::{Departure, LinkModel, OfferOutcome};
use super::report::{DirectionReport, Lateness, LinkReport};
use super::time_series::{TimeSeries, TimeSeriesWriter};

/// How often a time series is handed over, so that who follows it is at most so far behind.
const FLUSH: Duration = Duration::from_secs(1);

/// What the thread of a link is told.
#[derive(Debug)]
pub(super) enum LinkRequest {
    /// Change what is given.
    Change(PerDirection<Option<ImpairmentChange>>),
    /// Answer with a report.
    Report(SyncSender<LinkReport>),
    /// `LinkEndpoint`.
    Stop,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    Continue,
    Stop,
}

/// What a link starts with.
#[derive(Debug)]
pub(super) struct DuplexConfig {
    pub(super) impairments: PerDirection<LinkImpairments>,
    pub(super) seed: u64,
    pub(super) time_series: Option<TimeSeriesWriter>,
    pub(super) requests: Receiver<LinkRequest>,
}

/// Two models, their randomness, and what is measured.
#[derive(Debug)]
pub(super) struct DuplexLink<T> {
    pub(super) models: PerDirection<LinkModel<T>>,
    lateness: PerDirection<Lateness>,
    refused: PerDirection<u64>,
    time_series: TimeSeries,
    flush_at: Instant,
    rng: Rng,
    start: Instant,
    requests: Receiver<LinkRequest>,
    pub(super) connections: Option<(u64, u64)>,
}

impl<T> DuplexLink<T> {
    pub(super) fn new(now: Instant, start: DuplexConfig) -> Self {
        let DuplexConfig { impairments, seed, time_series, requests } = start;
        Self {
            models: PerDirection::from_fn(|way| LinkModel::new(*impairments.get(way))),
            lateness: PerDirection::from_fn(|_| Lateness::new()),
            refused: PerDirection::default(),
            time_series: TimeSeries::new(now, time_series),
            flush_at: now + FLUSH,
            rng: Rng::new(seed),
            start: now,
            requests,
            connections: None,
        }
    }

    /// Takes a packet in.
    pub(super) fn offer(
        &mut self,
        way: Direction,
        now: Instant,
        len: u32,
        item: T,
    ) -> OfferOutcome {
        self.time_series.offered(now, way, len);
        self.models.get_mut(way).offer(now, len, item, &mut self.rng)
    }

    /// A packet that is due.
    pub(super) fn pop_due(&mut self, way: Direction, now: Instant) -> Option<Departure<T>> {
        self.models.get_mut(way).pop_due(now)
    }

    /// Notes that it left, and whether the far end took it.
    pub(super) fn record_delivery(
        &mut self,
        way: Direction,
        due: Instant,
        at: Instant,
        len: u32,
        taken: Delivery,
    ) {
        self.lateness.get_mut(way).record(at.saturating_duration_since(due));
        self.time_series.delivered(at, way, len);
        if taken == Delivery::Refused {
            *self.refused.get_mut(way) += 1;
        }
    }

    /// When something is to be done, whatever comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = Direction::ALL.map(|way| self.models.get(way).next_due_at());
        let flush = self.time_series.is_enabled().then_some(self.flush_at);
        due.into_iter().flatten().chain(flush).min()
    }

    /// Lets time pass for the time series, and does what it is told.
    pub(super) fn process_requests(&mut self, now: Instant) -> RunState {
        if self.time_series.is_enabled() && now >= self.flush_at {
            self.time_series.advance(now);
            self.time_series.flush();
            self.flush_at = now + FLUSH;
        }
        loop {
            match self.requests.try_recv() {
                Ok(LinkRequest::Change(changes)) => self.change(now, changes),
                Ok(LinkRequest::Report(to)) => {
                    self.time_series.advance(now);
                    // Who asked may have gone.
                    let _ = to.try_send(self.report(now));
                }
                Ok(LinkRequest::Stop) | Err(TryRecvError::Disconnected) => return RunState::Stop,
                Err(TryRecvError::Empty) => return RunState::Continue,
            }
        }
    }

    fn change(&mut self, now: Instant, changes: PerDirection<Option<ImpairmentChange>>) {
        for way in Direction::ALL {
            if let Some(change) = *changes.get(way) {
                let model = self.models.get_mut(way);
                model.set_impairments(now, model.impairments().with(change));
            }
        }
    }

    /// Ends the time series; what it did.
    pub(super) fn finish(mut self, now: Instant) -> LinkReport {
        self.time_series.finish(now);
        self.report(now)
    }

    fn report(&self, now: Instant) -> LinkReport {
        let way = |way| {
            let model = self.models.get(way);
            DirectionReport {
                impairments: model.impairments(),
                counters: model.counters(),
                lateness: self.lateness.get(way).clone(),
                busiest_second_bytes: self.time_series.busiest_second(way),
                refused_packets: *self.refused.get(way),
                dropped_before_link: None,
            }
        };
        LinkReport {
            uptime: now.saturating_duration_since(self.start),
            directions: PerDirection::from_fn(way),
            time_series_error: self.time_series.error().map(ToString::to_string),
            connections: self.connections,
        }
    }
}

/// Whether the far end took a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Accepted,
    Refused,
}
