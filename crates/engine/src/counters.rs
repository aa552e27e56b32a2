//! What is counted, and how it is shown.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_base::{Histogram, HistogramSnapshot};
use sluice_openflow::{ErrorType, MessageType, Version};
use sluice_sdk::{AppMetric, AppMetricKind};

use crate::close_reason::CloseReason;

/// A count that one thread keeps and any may read. Not a read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).saturating_sub(n), Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Version bytes 0 to 6; the last place is for all others.
const VERSIONS: usize = 8;

/// Kinds by number; the last place is for all that are not defined.
const KINDS: usize = 37;

/// Types of error by number; the last place is for all others.
const ERRORS: usize = 19;

/// Messages of one version, by kind.
#[derive(Debug)]
struct Kinds([Count; KINDS]);

impl Default for Kinds {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

/// What one thread counts.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    received: [Kinds; VERSIONS],
    errors: [Count; ERRORS],
    ended: [Count; CloseReason::LABELS.len()],
    /// Messages that could not be read and did not end their session.
    pub(crate) malformed: Count,
    /// Connections accepted.
    pub(crate) accepted: Count,
    /// Peers that have yet to prove that they are switches.
    pub(crate) handshakes: Count,
    /// Sessions that are up, by version.
    sessions: [Count; VERSIONS],
    /// Bytes read.
    pub(crate) bytes_received: Count,
    /// Bytes written.
    pub(crate) bytes_sent: Count,
    /// Bytes that wait to be written.
    pub(crate) bytes_waiting: Count,
    /// Reads and writes.
    pub(crate) bursts: Count,
    /// Turns.
    pub(crate) turns: Count,
    /// Time spent on anything but waiting, nanoseconds.
    pub(crate) busy_ns: Count,
    /// Time since the thread began, nanoseconds.
    pub(crate) up_ns: Count,
    /// Messages for switches that are not there or cannot express them.
    pub(crate) mail_lost: Count,
    /// Messages between switches for which there was no room.
    pub(crate) mail_refused: Count,
    /// Frames that were not answered since their switch was not read from for too long.
    pub(crate) frames_left_out: Count,
    /// From the read that brought a message to the write that took its answer.
    pub(crate) latency: Histogram,
    /// What applications show. Written once a second, so a lock does no harm.
    pub(crate) app_metrics: Mutex<Vec<AppMetric>>,
}

impl ThreadCounters {
    #[inline]
    pub(crate) fn received(&self, version: Version, kind: MessageType, n: u64) {
        let version = usize::from(version.0).min(VERSIONS - 1);
        let kind = usize::from(kind.0).min(KINDS - 1);
        if let Some(count) = self.received.get(version).and_then(|kinds| kinds.0.get(kind)) {
            count.add(n);
        }
    }

    pub(crate) fn error(&self, kind: ErrorType) {
        if let Some(count) =
            self.errors.get(usize::try_from(kind.0).unwrap_or(ERRORS).min(ERRORS - 1))
        {
            count.add(1);
        }
    }

    pub(crate) fn ended(&self, reason: CloseReason) {
        let at = CloseReason::LABELS.iter().position(|&label| label == reason.label());
        if let Some(count) = at.and_then(|at| self.ended.get(at)) {
            count.add(1);
        }
    }

    pub(crate) fn session_up(&self, version: Version) {
        if let Some(count) = self.sessions.get(usize::from(version.0)) {
            count.add(1);
        }
    }

    pub(crate) fn session_down(&self, version: Version) {
        if let Some(count) = self.sessions.get(usize::from(version.0)) {
            count.sub(1);
        }
    }

    /// Notes how long a turn took, of which so much was waiting.
    pub(crate) fn turn(&self, since_start: Duration, busy: Duration) {
        self.turns.add(1);
        self.busy_ns.add(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX));
        self.up_ns.set(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Name, help, and where on a sheet the value is.
type Row<T> = (&'static str, &'static str, fn(&ThreadCounters) -> T);

/// The sheets of all threads: the front's first, then the workers'.
#[derive(Debug)]
pub(crate) struct CounterRegistry {
    pub(crate) sheets: Vec<ThreadCounters>,
}

impl CounterRegistry {
    pub(crate) fn new(workers: usize) -> Self {
        Self { sheets: (0..=workers).map(|_| ThreadCounters::default()).collect() }
    }

    fn sum(&self, pick: impl Fn(&ThreadCounters) -> u64) -> u64 {
        self.sheets.iter().map(pick).sum()
    }

    fn workers(&self) -> impl Iterator<Item = (String, &ThreadCounters)> {
        self.sheets.iter().skip(1).enumerate().map(|(n, sheet)| (n.to_string(), sheet))
    }

    fn collect_received(&self, put: &mut dyn FnMut(MetricSample)) {
        for version in 0..VERSIONS {
            for kind in 0..KINDS {
                let count = |s: &ThreadCounters| {
                    s.received.get(version).and_then(|k| k.0.get(kind)).map(Count::get)
                };
                let n = self.sum(|sheet| count(sheet).unwrap_or(0));
                if n == 0 {
                    continue;
                }
                put(MetricSample {
                    name: "messages_received",
                    help: "Messages from switches",
                    labels: vec![("version", version_name(version)), ("type", kind_name(kind))],
                    value: MetricValue::Counter(n),
                });
            }
        }
    }

    fn collect_faults(&self, put: &mut dyn FnMut(MetricSample)) {
        for (n, label) in CloseReason::LABELS.iter().enumerate() {
            put(MetricSample {
                name: "connections_ended",
                help: "Connections that ended, by reason",
                labels: vec![("reason", (*label).to_owned())],
                value: MetricValue::Counter(self.sum(|s| s.ended.get(n).map_or(0, Count::get))),
            });
        }
        for n in 0..ERRORS {
            let value = self.sum(|s| s.errors.get(n).map_or(0, Count::get));
            if value > 0 {
                let kind = u32::try_from(n).unwrap_or(u32::MAX);
                let name = ErrorType(kind).name().unwrap_or("OTHER").to_owned();
                put(MetricSample {
                    name: "errors_received",
                    help: "ERROR messages from switches, by type",
                    labels: vec![("type", name)],
                    value: MetricValue::Counter(value),
                });
            }
        }
    }

    fn collect_workers(&self, put: &mut dyn FnMut(MetricSample)) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 52 bits")]
        let rows: [Row<MetricValue>; 5] = [
            ("worker_busy_seconds", "Time a worker spent on anything but waiting", |s| {
                MetricValue::Gauge(s.busy_ns.get() as f64 / 1e9)
            }),
            ("worker_busy_ratio", "Share of its life that a worker was not waiting", |s| {
                MetricValue::Gauge(s.busy_ns.get() as f64 / s.up_ns.get().max(1) as f64)
            }),
            ("worker_turns", "Turns of a worker's loop", |s| MetricValue::Counter(s.turns.get())),
            ("worker_bursts", "Reads of a worker that brought something", |s| {
                MetricValue::Counter(s.bursts.get())
            }),
            ("worker_sessions", "Switches at a worker", |s| {
                MetricValue::Gauge(s.sessions.iter().map(Count::get).sum::<u64>() as f64)
            }),
        ];
        for (name, help, pick) in rows {
            for (worker, sheet) in self.workers() {
                let labels = vec![("worker", worker)];
                put(MetricSample { name, help, labels, value: pick(sheet) });
            }
        }
    }

    fn collect_app_metrics(&self, put: &mut dyn FnMut(MetricSample)) {
        let mut sums: Vec<AppMetric> = Vec::new();
        for sheet in &self.sheets {
            let Ok(metrics) = sheet.app_metrics.lock() else { continue };
            for &metric in metrics.iter() {
                match sums.iter_mut().find(|sum| sum.name == metric.name) {
                    Some(sum) => sum.value += metric.value,
                    None => sums.push(metric),
                }
            }
        }
        for AppMetric { name, help, kind, value } in sums {
            #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 52 bits")]
            let value = match kind {
                AppMetricKind::Counter => MetricValue::Counter(value),
                AppMetricKind::Gauge => MetricValue::Gauge(value as f64),
            };
            put(MetricSample { name, help, labels: vec![], value });
        }
    }
}

impl MetricsSource for CounterRegistry {
    fn collect(&self, put: &mut dyn FnMut(MetricSample)) {
        self.collect_received(put);
        self.collect_faults(put);
        let counters: [Row<u64>; 7] = [
            ("connections_accepted", "Connections accepted", |s| s.accepted.get()),
            ("messages_malformed", "Messages that could not be read", |s| s.malformed.get()),
            ("mail_lost", "Messages for switches not there or unable", |s| s.mail_lost.get()),
            ("mail_refused", "Messages to switches without room", |s| s.mail_refused.get()),
            (
                "frames_left_out",
                "Frames not answered as their switch was unread for too long",
                |s| s.frames_left_out.get(),
            ),
            ("received_bytes", "Bytes read from switches", |s| s.bytes_received.get()),
            ("sent_bytes", "Bytes written to switches", |s| s.bytes_sent.get()),
        ];
        for (name, help, pick) in counters {
            put(MetricSample {
                name,
                help,
                labels: vec![],
                value: MetricValue::Counter(self.sum(pick)),
            });
        }
        let gauges: [Row<u64>; 2] = [
            ("handshakes", "Peers yet to prove that they are switches", |s| s.handshakes.get()),
            ("waiting_bytes", "Bytes that switches have yet to take", |s| s.bytes_waiting.get()),
        ];
        for (name, help, pick) in gauges {
            #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 52 bits")]
            let value = MetricValue::Gauge(self.sum(pick) as f64);
            put(MetricSample { name, help, labels: vec![], value });
        }
        for version in 1..VERSIONS - 1 {
            let n = self.sum(|s| s.sessions.get(version).map_or(0, Count::get));
            #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 52 bits")]
            let value = MetricValue::Gauge(n as f64);
            let labels = vec![("version", version_name(version))];
            put(MetricSample {
                name: "sessions",
                help: "Switches connected, by version",
                labels,
                value,
            });
        }
        self.collect_workers(put);
        let mut latency = HistogramSnapshot::default();
        self.sheets.iter().for_each(|sheet| latency.add(&sheet.latency.snapshot()));
        put(MetricSample {
            name: "answer_latency_seconds",
            help: "From the read that brought a burst to the write that took its answers",
            labels: vec![],
            value: MetricValue::Histogram(latency),
        });
        self.collect_app_metrics(put);
    }
}

fn version_name(version: usize) -> String {
    match u8::try_from(version) {
        Ok(n @ 1..=6) => Version(n).to_string(),
        _ => "other".to_owned(),
    }
}

fn kind_name(kind: usize) -> String {
    let kind = u16::try_from(kind).unwrap_or(u16::MAX);
    MessageType(kind).name().unwrap_or("other").to_owned()
}
