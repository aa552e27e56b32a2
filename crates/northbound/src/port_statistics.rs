//! Port statistics and rates, read from a switch while somebody looks at its ports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use sluice_base::{HashMap, ordered, sort_by_key};
use sluice_io::clock;
use sluice_openflow::{
    DatapathId, Message, Multipart, MultipartReply, MultipartRequest, PortNo, PortStats,
    PortStatsRequest,
};
use sluice_sdk::view::SwitchPort;
use sluice_sdk::{Answer, Controller, Request};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use utoipa::ToSchema;

use crate::api::reads::{Client, LimitedAnswer, Purpose, Reads};

/// Time between two readings of a switch, over which rates are averaged; longer if so many switches are looked at that they use up the
/// share of the statistics in what may be read per second.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a switch is read after somebody has looked at its ports.
const WANTED_FOR: Duration = Duration::from_secs(15);

/// Switches that are read. If more are looked at, those of which this is longest ago are not read.
const SWITCHES_MAX: usize = 1024;

/// How long a switch may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long somebody waits for the first reading.
const FIRST_READING_MAX: Duration = Duration::from_secs(1);

/// How often it is looked which switches are due.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What a port has counted; `None` is what the switch does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PortCounters {
    rx_packets: Option<u64>,
    tx_packets: Option<u64>,
    rx_bytes: Option<u64>,
    tx_bytes: Option<u64>,
    rx_errors: Option<u64>,
    tx_errors: Option<u64>,
    rx_dropped: Option<u64>,
    tx_dropped: Option<u64>,
}

/// Averages between the last two readings; `None` if a counter was reset.
#[expect(clippy::struct_field_names, reason = "they carry their units")]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub(crate) struct PortRates {
    /// The time between the readings.
    interval_s: f64,
    rx_packets_per_s: Option<f64>,
    tx_packets_per_s: Option<f64>,
    rx_bits_per_s: Option<f64>,
    tx_bits_per_s: Option<f64>,
    errors_per_s: Option<f64>,
    dropped_per_s: Option<f64>,
}

impl PortRates {
    /// Bits that the port has sent.
    pub(crate) fn sent_bits_per_s(&self) -> Option<f64> {
        self.tx_bits_per_s
    }

    /// Bits in both directions, by which ports are compared.
    pub(crate) fn bits_per_s(&self) -> f64 {
        self.rx_bits_per_s.unwrap_or(0.0) + self.tx_bits_per_s.unwrap_or(0.0)
    }
}

impl From<&PortStats> for PortCounters {
    fn from(stats: &PortStats) -> Self {
        // All ones is what a switch does not count.
        let known = |value: u64| Some(value).filter(|&value| value != u64::MAX);
        Self {
            rx_packets: known(stats.rx_packets),
            tx_packets: known(stats.tx_packets),
            rx_bytes: known(stats.rx_bytes),
            tx_bytes: known(stats.tx_bytes),
            rx_errors: known(stats.rx_errors),
            tx_errors: known(stats.tx_errors),
            rx_dropped: known(stats.rx_dropped),
            tx_dropped: known(stats.tx_dropped),
        }
    }
}

impl PortCounters {
    #[expect(clippy::cast_precision_loss, reason = "a rate has fewer than 53 significant bits")]
    fn rates(&self, before: &Self, time: Duration) -> PortRates {
        let interval_s = time.as_secs_f64();
        let per_s = |new: Option<u64>, old: Option<u64>| {
            let difference = new?.checked_sub(old?)?;
            (interval_s > 0.0).then(|| difference as f64 / interval_s)
        };
        let sum = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        PortRates {
            interval_s,
            rx_packets_per_s: per_s(self.rx_packets, before.rx_packets),
            tx_packets_per_s: per_s(self.tx_packets, before.tx_packets),
            rx_bits_per_s: per_s(self.rx_bytes, before.rx_bytes).map(|bytes| bytes * 8.0),
            tx_bits_per_s: per_s(self.tx_bytes, before.tx_bytes).map(|bytes| bytes * 8.0),
            errors_per_s: sum(
                per_s(self.rx_errors, before.rx_errors),
                per_s(self.tx_errors, before.tx_errors),
            ),
            dropped_per_s: sum(
                per_s(self.rx_dropped, before.rx_dropped),
                per_s(self.tx_dropped, before.tx_dropped),
            ),
        }
    }
}

/// The readings of all switches at which somebody looks.
#[derive(Debug, Default)]
pub(crate) struct PortStatistics {
    switches: Mutex<HashMap<DatapathId, PolledSwitch>>,
    /// Somebody looks at a switch that was not read.
    wanted: Notify,
    /// A switch has answered.
    answered: Notify,
}

#[derive(Debug)]
struct PolledSwitch {
    /// When somebody has looked last.
    wanted_at: Instant,
    /// When the last request was sent.
    asked_at: Option<Instant>,
    is_reading: bool,
    has_answered: bool,
    last: Option<Reading>,
    before: Option<Reading>,
}

impl PolledSwitch {
    fn new(wanted_at: Instant) -> Self {
        Self {
            wanted_at,
            asked_at: None,
            is_reading: false,
            has_answered: false,
            last: None,
            before: None,
        }
    }
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    ports: BTreeMap<PortNo, PortCounters>,
}

impl Reading {
    /// What a switch has answered, if that is statistics.
    fn of(answer: &Answer, at: Instant) -> Option<Self> {
        let Answer::Multipart(reply) = answer else { return None };
        let Ok(MultipartReply::PortStats { ports }) = reply.parse() else { return None };
        Some(Self { at, ports: ordered(ports.iter().map(|stats| (stats.port_no, stats.into()))) })
    }
}

/// Reads a switch, when it is its turn.
async fn read(
    controller: Arc<dyn Controller>,
    reads: Arc<Reads>,
    id: DatapathId,
) -> (DatapathId, Option<Reading>) {
    let permit = reads.acquire(Client::PortStatistics, Purpose::Query, id);
    // After that time nobody may look any more.
    let Ok(permit) = timeout(WANTED_FOR, permit).await else { return (id, None) };
    let body = MultipartRequest::PortStats(PortStatsRequest::default());
    let messages = vec![Message::MultipartRequest(Multipart::single(body))];
    let request = Request { messages, timeout: ANSWER_TIMEOUT };
    let answer = permit.send(&*controller, request).await;
    // An error means that the server stops.
    (id, answer.ok().and_then(|LimitedAnswer { answer, at, .. }| Reading::of(&answer, at)))
}

impl PortStatistics {
    fn lock(&self) -> MutexGuard<'_, HashMap<DatapathId, PolledSwitch>> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody looks at the ports of a switch: it is read from now on, for a while. If too many are, the one at which nobody has looked for
    /// longest is not read any more.
    pub(crate) fn want(&self, id: DatapathId) {
        let now = clock::now();
        let mut switches = self.lock();
        if let Some(switch) = switches.get_mut(&id) {
            switch.wanted_at = now;
            return;
        }
        if switches.len() >= SWITCHES_MAX {
            let oldest = switches.iter().min_by_key(|(id, switch)| (switch.wanted_at, id.0));
            if let Some(oldest) = oldest.map(|(&id, _)| id) {
                switches.remove(&oldest);
            }
        }
        switches.insert(id, PolledSwitch::new(now));
        self.wanted.notify_one();
    }

    /// Somebody looks at a list of many switches: those that are read already stay, and others join them up to the limit. None is evicted, since
    /// each reading of a list with more switches would evict all.
    pub(crate) fn want_if_room(&self, ids: impl IntoIterator<Item = DatapathId>) {
        let now = clock::now();
        let mut switches = self.lock();
        for id in ids {
            if let Some(switch) = switches.get_mut(&id) {
                switch.wanted_at = now;
            } else if switches.len() < SWITCHES_MAX {
                switches.insert(id, PolledSwitch::new(now));
            }
        }
        self.wanted.notify_one();
    }

    /// Waits until a switch has answered for the first time, but not for long.
    pub(crate) async fn wait_for(&self, id: DatapathId) {
        let answered = async {
            loop {
                let notified = self.answered.notified();
                if self.lock().get(&id).is_none_or(|switch| switch.has_answered) {
                    return;
                }
                notified.await;
            }
        };
        // Without an answer there are no statistics yet.
        let _ = timeout(FIRST_READING_MAX, answered).await;
    }

    /// Counters and rates of a port, as far as they are known.
    pub(crate) fn of(&self, at: SwitchPort) -> (Option<PortCounters>, Option<PortRates>) {
        let switches = self.lock();
        let Some(last) = switches.get(&at.switch).and_then(|switch| switch.last.as_ref()) else {
            return (None, None);
        };
        let counters = last.ports.get(&at.port).copied();
        let before = switches.get(&at.switch).and_then(|switch| switch.before.as_ref());
        let rates = counters.zip(before).and_then(|(counters, before)| {
            let time = last.at.saturating_duration_since(before.at);
            Some(counters.rates(before.ports.get(&at.port)?, time))
        });
        (counters, rates)
    }

    /// Reads the switches at which somebody looks. Never ends.
    pub(crate) async fn poll(&self, controller: &Arc<dyn Controller>, reads: &Arc<Reads>) {
        let mut readings = JoinSet::new();
        loop {
            if self.lock().is_empty() {
                self.wanted.notified().await;
            }
            for id in self.start_due(clock::now()) {
                readings.spawn(read(Arc::clone(controller), Arc::clone(reads), id));
            }
            tokio::select! {
                Some(Ok((id, reading))) = readings.join_next() => self.record(id, reading),
                () = sleep(CHECK_INTERVAL) => {}
            }
        }
    }

    /// The switches that are to be read now; forgets those at which nobody looks any more.
    fn start_due(&self, now: Instant) -> Vec<DatapathId> {
        let mut switches = self.lock();
        let since = |at| now.saturating_duration_since(at);
        switches.retain(|_, switch| switch.is_reading || since(switch.wanted_at) <= WANTED_FOR);
        let due = |it: &PolledSwitch| {
            !it.is_reading && it.asked_at.is_none_or(|at| since(at) >= POLL_INTERVAL)
        };
        let mut ids: Vec<_> =
            switches.iter().filter(|(_, it)| due(it)).map(|(&id, it)| (it.asked_at, id)).collect();
        sort_by_key(&mut ids, |&(asked_at, id)| (asked_at, id.0));
        for (_, id) in &ids {
            if let Some(switch) = switches.get_mut(id) {
                switch.is_reading = true;
                switch.asked_at = Some(now);
            }
        }
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn record(&self, id: DatapathId, reading: Option<Reading>) {
        let mut switches = self.lock();
        if let Some(switch) = switches.get_mut(&id) {
            switch.is_reading = false;
            switch.has_answered = true;
            // Old statistics of a switch that does not answer would look like the present.
            switch.before = if reading.is_some() { switch.last.take() } else { None };
            switch.last = reading;
        }
        drop(switches);
        self.answered.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(rx_packets: u64, tx_bytes: u64) -> PortCounters {
        let stats = PortStats {
            rx_packets,
            tx_bytes,
            rx_errors: u64::MAX,
            rx_dropped: u64::MAX,
            ..PortStats::default()
        };
        (&stats).into()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn rates_are_averages_and_unknown_where_a_counter_was_reset_or_is_not_counted() {
        let (before, after) = (counters(1000, 500), counters(1100, 3000));
        let rates = after.rates(&before, Duration::from_secs(2));
        assert_eq!((rates.rx_packets_per_s, rates.tx_bits_per_s), (Some(50.0), Some(10_000.0)));
        assert_eq!(
            (rates.errors_per_s, after.rx_errors),
            (Some(0.0), None),
            "those of one direction"
        );
        assert_eq!(rates.bits_per_s(), 10_000.0);
        let reset = before.rates(&after, Duration::from_secs(2));
        assert_eq!((reset.rx_packets_per_s, reset.tx_bits_per_s), (None, None));
        assert_eq!(after.rates(&before, Duration::ZERO).tx_bits_per_s, None);
    }

    #[test]
    fn a_switch_is_read_while_somebody_looks_one_request_at_a_time() {
        let (polled, id) = (PortStatistics::default(), DatapathId(1));
        polled.want(id);
        let now = clock::now();
        assert_eq!(polled.start_due(now), [id]);
        let later = now + 2 * POLL_INTERVAL;
        assert!(polled.start_due(later).is_empty(), "it has not answered");
        polled.record(id, None);
        assert_eq!(polled.start_due(later), [id]);
        polled.record(id, None);
        assert!(polled.start_due(later).is_empty());
        assert!(polled.start_due(now + 2 * WANTED_FOR).is_empty(), "nobody looks");
        assert!(polled.lock().is_empty());
    }

    #[test]
    fn switches_are_limited_and_have_one_request_at_a_time() {
        let polled = PortStatistics::default();
        for id in 0..SWITCHES_MAX as u64 + 5 {
            polled.want(DatapathId(id));
        }
        assert_eq!(polled.lock().len(), SWITCHES_MAX);
        let now = clock::now();
        assert_eq!(polled.start_due(now).len(), SWITCHES_MAX);
        assert_eq!(polled.start_due(now).len(), 0);
    }

    #[test]
    fn a_list_evicts_no_switch_and_a_single_switch_evicts_one() {
        let polled = PortStatistics::default();
        let all = || (0..SWITCHES_MAX as u64 + 5).map(DatapathId);
        polled.want_if_room(all());
        let first = polled.start_due(clock::now());
        assert_eq!(first.len(), SWITCHES_MAX);
        for &id in &first {
            polled.record(id, None);
        }
        let last = DatapathId(SWITCHES_MAX as u64 + 4);
        polled.want(last);
        for _ in 0..3 {
            polled.want_if_room(all());
        }
        let switches = polled.lock();
        assert_eq!((switches.len(), switches.contains_key(&last)), (SWITCHES_MAX, true));
        let answered = switches.values().filter(|switch| switch.has_answered).count();
        assert_eq!(answered, SWITCHES_MAX - 1, "the readings of the others are kept");
    }
}
