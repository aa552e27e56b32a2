//! Both directions of an emulated link with their statistics; used by TUN links and TCP proxies.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::command::{Direction, PerDirection};
use super::impairments::{ImpairmentChange, LinkImpairments};
use super::model::{Departure, LinkModel, OfferOutcome};
use super::report::{DirectionReport, Lateness, LinkReport};
use super::time_series::{TimeSeries, TimeSeriesWriter};

/// Time between two flushes of the time series to its file.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A request to the link's thread.
#[derive(Debug)]
pub(super) enum LinkRequest {
    /// Change impairments.
    Change(PerDirection<Option<ImpairmentChange>>),
    /// Send a report.
    Report(SyncSender<LinkReport>),
    /// End the thread.
    Stop,
}

/// Whether the thread's loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    Continue,
    Stop,
}

/// Initial settings of a link.
#[derive(Debug)]
pub(super) struct DuplexConfig {
    pub(super) impairments: PerDirection<LinkImpairments>,
    pub(super) seed: u64,
    pub(super) time_series: Option<TimeSeriesWriter>,
    pub(super) requests: Receiver<LinkRequest>,
}

/// Both directions of a link with their statistics. `T` is what is transported with each packet.
#[derive(Debug)]
pub(super) struct DuplexLink<T> {
    pub(super) models: PerDirection<LinkModel<T>>,
    lateness: PerDirection<Lateness>,
    refused_packets: PerDirection<u64>,
    time_series: TimeSeries,
    flush_at: Instant,
    rng: Rng,
    started_at: Instant,
    requests: Receiver<LinkRequest>,
    /// Accepted and refused connections of a TCP proxy; `None` for a TUN link.
    pub(super) connections: Option<(u64, u64)>,
}

impl<T> DuplexLink<T> {
    pub(super) fn new(now: Instant, config: DuplexConfig) -> Self {
        let DuplexConfig { impairments, seed, time_series, requests } = config;
        Self {
            models: PerDirection::from_fn(|direction| LinkModel::new(*impairments.get(direction))),
            lateness: PerDirection::from_fn(|_| Lateness::new()),
            refused_packets: PerDirection::default(),
            time_series: TimeSeries::new(now, time_series),
            flush_at: now + FLUSH_INTERVAL,
            rng: Rng::new(seed),
            started_at: now,
            requests,
            connections: None,
        }
    }

    /// Offers a packet to the link.
    pub(super) fn offer(
        &mut self,
        direction: Direction,
        now: Instant,
        len: u32,
        item: T,
    ) -> OfferOutcome {
        self.time_series.offered(now, direction, len);
        self.models.get_mut(direction).offer(now, len, item, &mut self.rng)
    }

    /// The next packet of `direction` that is due by `now`.
    pub(super) fn pop_due(&mut self, direction: Direction, now: Instant) -> Option<Departure<T>> {
        self.models.get_mut(direction).pop_due(now)
    }

    /// Records that a packet left the link, and whether the far end accepted it.
    pub(super) fn record_delivery(
        &mut self,
        direction: Direction,
        due: Instant,
        at: Instant,
        len: u32,
        delivery: Delivery,
    ) {
        self.lateness.get_mut(direction).record(at.saturating_duration_since(due));
        self.time_series.delivered(at, direction, len);
        if delivery == Delivery::Refused {
            *self.refused_packets.get_mut(direction) += 1;
        }
    }

    /// When the event loop must run again at the latest; `None` if nothing is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = Direction::ALL.map(|direction| self.models.get(direction).next_due_at());
        let flush = self.time_series.is_enabled().then_some(self.flush_at);
        due.into_iter().flatten().chain(flush).min()
    }

    /// Flushes the time series if due, and handles all pending requests.
    pub(super) fn process_requests(&mut self, now: Instant) -> RunState {
        if self.time_series.is_enabled() && now >= self.flush_at {
            self.time_series.advance(now);
            self.time_series.flush();
            self.flush_at = now + FLUSH_INTERVAL;
        }
        loop {
            match self.requests.try_recv() {
                Ok(LinkRequest::Change(changes)) => self.change(now, changes),
                Ok(LinkRequest::Report(to)) => {
                    self.time_series.advance(now);
                    // The requester may have stopped waiting.
                    let _ = to.try_send(self.report(now));
                }
                Ok(LinkRequest::Stop) | Err(TryRecvError::Disconnected) => return RunState::Stop,
                Err(TryRecvError::Empty) => return RunState::Continue,
            }
        }
    }

    fn change(&mut self, now: Instant, changes: PerDirection<Option<ImpairmentChange>>) {
        for direction in Direction::ALL {
            if let Some(change) = *changes.get(direction) {
                let model = self.models.get_mut(direction);
                model.set_impairments(now, model.impairments().with(change));
            }
        }
    }

    /// Ends the time series and returns the final report.
    pub(super) fn finish(mut self, now: Instant) -> LinkReport {
        self.time_series.finish(now);
        self.report(now)
    }

    fn report(&self, now: Instant) -> LinkReport {
        let report = |direction| {
            let model = self.models.get(direction);
            DirectionReport {
                impairments: model.impairments(),
                counters: model.counters(),
                lateness: self.lateness.get(direction).clone(),
                busiest_second_bytes: self.time_series.busiest_second(direction),
                refused_packets: *self.refused_packets.get(direction),
                dropped_before_link: None,
            }
        };
        LinkReport {
            uptime: now.saturating_duration_since(self.started_at),
            directions: PerDirection::from_fn(report),
            time_series_error: self.time_series.error().map(ToString::to_string),
            connections: self.connections,
        }
    }
}

/// Whether the far end accepted a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Accepted,
    Refused,
}
