//! Counters of each thread, and the metrics that are made of them.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sluice_base::metrics::{MetricSample, MetricValue, MetricsSource};
use sluice_base::{Histogram, HistogramSnapshot};
use sluice_kernel::SynFilter;
use sluice_openflow::{DatapathId, ErrorType, MessageType, Version};
use sluice_sdk::{AppMetric, AppMetricKind, SwitchSession};

use crate::close_reason::CloseReason;
use crate::switch_counters::{self, ConnectedSwitchCounters};

/// A counter that one thread writes and any thread may read, without an atomic read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
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

/// Version bytes 0 to 6; the last entry counts all others.
const VERSIONS: usize = 8;

/// Message types by number; the last entry counts all that are not defined.
const MESSAGE_TYPES: usize = 37;

/// Error types by number; the last entry counts all others.
const ERROR_TYPES: usize = 19;

/// Messages of one version, by type.
#[derive(Debug)]
struct MessageCounters([Counter; MESSAGE_TYPES]);

impl Default for MessageCounters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// Closed connections, by reason.
#[derive(Debug)]
struct CloseCounters([Counter; CloseReason::LABELS.len()]);

impl Default for CloseCounters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// The counters of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    messages_received: [MessageCounters; VERSIONS],
    errors_received: [Counter; ERROR_TYPES],
    connections_closed: CloseCounters,
    /// Messages that could not be parsed and did not end their session.
    pub(crate) malformed_messages: Counter,
    pub(crate) connections_accepted: Counter,
    /// Connections in the handshake, or that wait.
    pub(crate) handshakes_pending: Counter,
    /// Switches that have completed it and wait until a worker has time for them.
    pub(crate) switches_waiting: Counter,
    /// Sessions that this worker has begun, or could not begin.
    pub(crate) sessions_begun: Counter,
    /// Time in which this worker began and ended sessions, in nanoseconds.
    in_sessions_ns: Counter,
    /// Connected switches, by version.
    switches: [Counter; VERSIONS],
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    /// Bytes queued for switches that do not read fast enough.
    pub(crate) backlog_bytes: Counter,
    /// Reads that returned data.
    pub(crate) reads: Counter,
    /// Iterations of the event loop.
    iterations: Counter,
    /// Between the beginning and the end of an iteration.
    is_running: AtomicBool,
    /// Time not spent waiting for events, in nanoseconds, of the iterations that have ended.
    busy_ns: Counter,
    /// Time since the thread started, in nanoseconds.
    uptime_ns: Counter,
    /// Messages of applications to a switch that is not connected or whose version cannot express them.
    pub(crate) app_messages_undeliverable: Counter,
    /// Packet-outs and link probes of applications dropped because of the switch's backlog.
    pub(crate) app_messages_dropped: Counter,
    /// Reads that another worker has processed.
    pub(crate) reads_pulled: Counter,
    /// Changes of a switch's tables that were not sent because of its backlog, and are made later.
    pub(crate) changes_deferred: Counter,
    /// Ports that were ignored since their switch has too many.
    pub(crate) ports_ignored: Counter,
    /// Multipart replies that were too long for the memory of their session.
    pub(crate) multipart_replies_discarded: Counter,
    /// Switches that were to move to a less busy worker.
    pub(crate) switches_balanced: Counter,
    /// Permanent flow entries that switches have removed.
    pub(crate) permanent_entries_removed: Counter,
    /// Packet-ins discarded because their switch was not read for too long.
    pub(crate) packet_ins_shed: Counter,
    /// Packet-ins that the kernel has answered in the place of this worker.
    pub(crate) packet_ins_in_kernel: Counter,
    /// Times that this worker answers a switch, or all its switches, for a while, since answers of the kernel waited too long.
    pub(crate) kernel_pauses: Counter,
    /// From the read that returned a burst to the write of the responses.
    pub(crate) response_latency: Histogram,
    /// Counters of each connected switch.
    pub(crate) connected_switches: ConnectedSwitchCounters,
    /// What applications export. Written once a second, so the lock is not contended.
    pub(crate) app_metrics: Mutex<Vec<AppMetric>>,
}

impl ThreadCounters {
    /// Counts a read that returned `bytes` bytes.
    #[inline]
    pub(crate) fn read(&self, bytes: usize) {
        self.reads.add(1);
        self.bytes_received.add(bytes as u64);
    }

    #[inline]
    pub(crate) fn message_received(&self, version: Version, kind: MessageType, n: u64) {
        let version = usize::from(version.0).min(VERSIONS - 1);
        let kind = usize::from(kind.0).min(MESSAGE_TYPES - 1);
        if let Some(count) = self.messages_received.get(version).and_then(|all| all.0.get(kind)) {
            count.add(n);
        }
    }

    /// Packet-ins that this worker has received itself.
    pub(crate) fn packet_ins_of_worker(&self) -> u64 {
        let kind = usize::from(MessageType::PACKET_IN.0);
        let counts = self.messages_received.iter().filter_map(|all| all.0.get(kind));
        counts.map(Counter::get).sum::<u64>().saturating_sub(self.packet_ins_in_kernel.get())
    }

    pub(crate) fn error_received(&self, kind: ErrorType) {
        let kind = usize::try_from(kind.0).unwrap_or(ERROR_TYPES).min(ERROR_TYPES - 1);
        if let Some(count) = self.errors_received.get(kind) {
            count.add(1);
        }
    }

    pub(crate) fn connection_closed(&self, reason: CloseReason) {
        let at = CloseReason::LABELS.iter().position(|&label| label == reason.label());
        if let Some(count) = at.and_then(|at| self.connections_closed.0.get(at)) {
            count.add(1);
        }
    }

    pub(crate) fn switch_connected(&self, version: Version) {
        if let Some(count) = self.switches.get(usize::from(version.0)) {
            count.add(1);
        }
    }

    pub(crate) fn switch_disconnected(&self, version: Version) {
        if let Some(count) = self.switches.get(usize::from(version.0)) {
            count.sub(1);
        }
    }

    /// Time not spent waiting for events.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.get())
    }

    /// Time in which the thread began and ended sessions.
    pub(crate) fn in_sessions(&self) -> Duration {
        Duration::from_nanos(self.in_sessions_ns.get())
    }

    /// Adds time in which the thread began or ended a session.
    pub(crate) fn add_in_sessions(&self, time: Duration) {
        self.in_sessions_ns.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Whether the thread waits for events. Then [`busy`](Self::busy) includes all iterations so far.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_running.load(Acquire)
    }

    /// Notes that the thread waits no longer.
    pub(crate) fn begin_iteration(&self) {
        self.is_running.store(true, Relaxed);
    }

    /// Counts an iteration of the event loop that did not wait for `busy`.
    pub(crate) fn end_iteration(&self, uptime: Duration, busy: Duration) {
        self.iterations.add(1);
        self.busy_ns.add(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX));
        self.uptime_ns.set(u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX));
        self.is_running.store(false, Release);
    }
}

/// Name and help of a metric, and its value for one thread.
type MetricRow<T> = (&'static str, &'static str, fn(&ThreadCounters) -> T);

/// The counters of all threads: the acceptor's first, then the workers'.
#[derive(Debug)]
pub(crate) struct CounterRegistry {
    pub(crate) threads: Vec<ThreadCounters>,
    syn_filter: OnceLock<SynFilter>,
}

impl CounterRegistry {
    pub(crate) fn new(workers: usize) -> Self {
        let threads = (0..=workers).map(|_| ThreadCounters::default()).collect();
        Self { threads, syn_filter: OnceLock::new() }
    }

    /// Exports what `filter` drops.
    pub(crate) fn set_syn_filter(&self, filter: SynFilter) {
        // There is one at most, from the start.
        let _ = self.syn_filter.set(filter);
    }

    pub(crate) fn syn_filter(&self) -> Option<&SynFilter> {
        self.syn_filter.get()
    }

    /// The iterations of each thread.
    pub(crate) fn iterations(&self) -> impl Iterator<Item = u64> {
        self.threads.iter().map(|counters| counters.iterations.get())
    }

    /// The sessions of all connected switches, in the order of their datapath ids.
    pub(crate) fn sessions(&self) -> Vec<SwitchSession> {
        let workers = self.threads.iter().skip(1).enumerate();
        let of_worker = |(worker, counters): (usize, &ThreadCounters)| {
            let switches = counters.connected_switches.all().into_iter();
            switches.map(move |switch| switch.session(worker)).collect::<Vec<_>>()
        };
        let mut sessions: Vec<_> = workers.flat_map(of_worker).collect();
        // A switch that moves or reconnects to another worker between the copies of two lists is in both.
        sessions.sort_by_key(|it| (it.datapath_id, Reverse(it.connected_at)));
        sessions.dedup_by_key(|it| it.datapath_id);
        sessions
    }

    /// The worker that serves a switch; `None` if there is none, or if the switch is moving.
    pub(crate) fn worker_of(&self, datapath_id: DatapathId) -> Option<usize> {
        let mut workers = self.threads.iter().skip(1);
        workers.position(|counters| counters.connected_switches.contains(datapath_id))
    }

    fn sum(&self, pick: impl Fn(&ThreadCounters) -> u64) -> u64 {
        self.threads.iter().map(pick).sum()
    }

    fn workers(&self) -> impl Iterator<Item = (String, &ThreadCounters)> {
        self.threads.iter().skip(1).enumerate().map(|(n, counters)| (n.to_string(), counters))
    }

    fn collect_messages(&self, emit: &mut dyn FnMut(MetricSample)) {
        for version in 0..VERSIONS {
            for kind in 0..MESSAGE_TYPES {
                let count = |counters: &ThreadCounters| {
                    let all = counters.messages_received.get(version);
                    all.and_then(|all| all.0.get(kind)).map_or(0, Counter::get)
                };
                let n = self.sum(count);
                if n == 0 {
                    continue;
                }
                let kind = u16::try_from(kind).unwrap_or(u16::MAX);
                let kind = MessageType(kind).name().unwrap_or("other").to_owned();
                emit(MetricSample {
                    name: "messages_received",
                    help: "OpenFlow messages received from switches",
                    labels: vec![("version", version_name(version)), ("type", kind)],
                    value: MetricValue::Counter(n),
                });
            }
        }
    }

    fn collect_failures(&self, emit: &mut dyn FnMut(MetricSample)) {
        for (n, label) in CloseReason::LABELS.iter().enumerate() {
            let count = |c: &ThreadCounters| c.connections_closed.0.get(n).map_or(0, Counter::get);
            emit(MetricSample {
                name: "connections_closed",
                help: "Connections closed, by reason",
                labels: vec![("reason", (*label).to_owned())],
                value: MetricValue::Counter(self.sum(count)),
            });
        }
        for n in 0..ERROR_TYPES {
            let kind = ErrorType(u32::try_from(n).unwrap_or(u32::MAX));
            let count = |c: &ThreadCounters| c.errors_received.get(n).map_or(0, Counter::get);
            emit(MetricSample {
                name: "errors_received",
                help: "OpenFlow ERROR messages received from switches, by error type",
                labels: vec![("type", kind.name().unwrap_or("OTHER").to_owned())],
                value: MetricValue::Counter(self.sum(count)),
            });
        }
    }

    fn collect_workers(&self, emit: &mut dyn FnMut(MetricSample)) {
        #[expect(clippy::cast_precision_loss, reason = "metrics need no more than 52 bits")]
        let rows: [MetricRow<MetricValue>; 6] = [
            ("worker_busy_seconds", "Time that a worker did not spend waiting for events", |c| {
                MetricValue::SecondsCounter(c.busy_ns.get() as f64 / 1e9)
            }),
            (
                "worker_busy_ratio",
                "Share of the time since the start that a worker did not spend waiting for events",
                |c| MetricValue::Gauge(c.busy_ns.get() as f64 / c.uptime_ns.get().max(1) as f64),
            ),
            (
                "worker_sessions_seconds",
                "Time in which a worker began and ended sessions of switches",
                |c| MetricValue::SecondsCounter(c.in_sessions_ns.get() as f64 / 1e9),
            ),
            ("worker_iterations", "Iterations of the event loop of a worker", |c| {
                MetricValue::Counter(c.iterations.get())
            }),
            ("worker_reads", "Reads of a worker that returned data from a switch", |c| {
                MetricValue::Counter(c.reads.get())
            }),
            ("worker_switches", "Connected switches of a worker", |c| {
                MetricValue::Gauge(c.switches.iter().map(Counter::get).sum::<u64>() as f64)
            }),
        ];
        for (name, help, pick) in rows {
            for (worker, counters) in self.workers() {
                let labels = vec![("worker", worker)];
                emit(MetricSample { name, help, labels, value: pick(counters) });
            }
        }
    }

    /// Metrics of each connected switch, in the order of the datapath ids.
    fn collect_switches(&self, emit: &mut dyn FnMut(MetricSample)) {
        let mut switches: Vec<_> =
            self.threads.iter().flat_map(|c| c.connected_switches.all()).collect();
        // A switch that reconnects to another worker between the copies of two lists is in both.
        switches.sort_by_key(|switch| (switch.datapath_id(), Reverse(switch.connected_at())));
        switches.dedup_by_key(|switch| switch.datapath_id());
        switch_counters::collect(&switches, emit);
    }

    fn collect_app_metrics(&self, emit: &mut dyn FnMut(MetricSample)) {
        let mut sums: Vec<AppMetric> = Vec::new();
        for counters in &self.threads {
            let Ok(metrics) = counters.app_metrics.lock() else { continue };
            sums.extend(metrics.iter());
        }
        sums.sort_by_key(|metric| metric.name);
        for same in sums.chunk_by(|a, b| a.name == b.name) {
            if let Some(&first) = same.first() {
                let value = same.iter().map(|metric| metric.value).sum();
                emit(sample(&AppMetric { value, ..first }));
            }
        }
    }
}

/// Counters that have no labels.
const COUNTERS: [MetricRow<u64>; 15] = [
    ("connections_accepted", "Connections accepted", |c| c.connections_accepted.get()),
    ("malformed_messages", "Messages from switches that could not be parsed", |c| {
        c.malformed_messages.get()
    }),
    (
        "ports_ignored",
        "Messages about ports that were ignored because their switch has too many ports",
        |c| c.ports_ignored.get(),
    ),
    (
        "multipart_replies_discarded",
        "Multipart replies of switches that were discarded because they were too long",
        |c| c.multipart_replies_discarded.get(),
    ),
    (
        "app_messages_undeliverable",
        "Messages of applications to a switch that is not connected or whose OpenFlow version cannot express them",
        |c| c.app_messages_undeliverable.get(),
    ),
    (
        "app_messages_dropped",
        "Packet-outs of applications dropped because too much was queued for the switch",
        |c| c.app_messages_dropped.get(),
    ),
    ("reads_pulled", "Reads of a worker's switches that another worker has processed", |c| {
        c.reads_pulled.get()
    }),
    (
        "table_changes_deferred",
        "Changes of flow tables, groups and meters not sent because too much was queued for the switch, which is reconciled later",
        |c| c.changes_deferred.get(),
    ),
    (
        "switches_balanced",
        "Switches that were to move from a busy worker to one that is less busy",
        |c| c.switches_balanced.get(),
    ),
    (
        "permanent_entries_removed",
        "Table-miss entries and the like that switches removed because another program deleted them; written again",
        |c| c.permanent_entries_removed.get(),
    ),
    (
        "packet_ins_shed",
        "Packet-ins discarded because their switch is too slow in reading the responses",
        |c| c.packet_ins_shed.get(),
    ),
    (
        "packet_ins_answered_in_kernel",
        "Packet-ins answered inside the kernel, as of the last time that the worker served the switch",
        |c| c.packet_ins_in_kernel.get(),
    ),
    (
        "kernel_pauses",
        "Times that a worker answers a switch, or all its switches, for a while, since answers of the kernel waited for a processor or for each other",
        |c| c.kernel_pauses.get(),
    ),
    ("received_bytes", "Bytes received from switches", |c| c.bytes_received.get()),
    ("sent_bytes", "Bytes sent to switches", |c| c.bytes_sent.get()),
];

impl MetricsSource for CounterRegistry {
    fn collect(&self, emit: &mut dyn FnMut(MetricSample)) {
        self.collect_messages(emit);
        self.collect_failures(emit);
        for (name, help, pick) in COUNTERS {
            let value = MetricValue::Counter(self.sum(pick));
            emit(MetricSample { name, help, labels: vec![], value });
        }
        emit(MetricSample {
            name: "syns_dropped",
            help: "SYNs that the kernel has dropped, since their source opens connections too fast; 0 without limits.syn_filter",
            labels: vec![],
            value: MetricValue::Counter(self.syn_filter().map_or(0, SynFilter::dropped)),
        });
        let gauges: [MetricRow<u64>; 3] = [
            (
                "handshakes_pending",
                "Connections in the handshake, or that wait since their datapath id is in use or all workers are busy",
                |c| c.handshakes_pending.get(),
            ),
            (
                "switches_waiting",
                "Switches that have completed the handshake and wait until a worker has time for them",
                |c| c.switches_waiting.get(),
            ),
            ("backlog_bytes", "Bytes queued for switches that do not read fast enough", |c| {
                c.backlog_bytes.get()
            }),
        ];
        for (name, help, pick) in gauges {
            emit(MetricSample { name, help, labels: vec![], value: gauge(self.sum(pick)) });
        }
        for version in 1..VERSIONS - 1 {
            let n = self.sum(|c| c.switches.get(version).map_or(0, Counter::get));
            emit(MetricSample {
                name: "switches_connected",
                help: "Connected switches, by OpenFlow version",
                labels: vec![("version", version_name(version))],
                value: gauge(n),
            });
        }
        self.collect_workers(emit);
        self.collect_switches(emit);
        let mut latency = HistogramSnapshot::default();
        self.threads.iter().for_each(|c| latency.add(&c.response_latency.snapshot()));
        emit(MetricSample {
            name: "response_latency_seconds",
            help: "Time from reading a burst of messages of a switch to writing the responses",
            labels: vec![],
            value: MetricValue::Histogram(latency),
        });
        self.collect_app_metrics(emit);
    }
}

/// The sample of an application's metric.
fn sample(metric: &AppMetric) -> MetricSample {
    let value = match metric.kind {
        AppMetricKind::Counter => MetricValue::Counter(metric.value),
        AppMetricKind::Gauge => gauge(metric.value),
    };
    MetricSample { name: metric.name, help: metric.help, labels: vec![], value }
}

#[expect(clippy::cast_precision_loss, reason = "metrics need no more than 52 bits")]
fn gauge(n: u64) -> MetricValue {
    MetricValue::Gauge(n as f64)
}

fn version_name(version: usize) -> String {
    match u8::try_from(version) {
        Ok(n @ 1..=6) => Version(n).to_string(),
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::switch_counters::SwitchCounters;

    #[test]
    fn a_switch_in_the_lists_of_two_workers_has_one_series_of_its_latest_connection() {
        for (first_worker, second_worker) in [(10, 20), (20, 10)] {
            let registry = CounterRegistry::new(2);
            let connect = |thread: usize, dpid, connected_at| {
                let (dpid, addr) = (DatapathId(dpid), ([10, 0, 0, 1], 40_000).into());
                let features = Arc::default();
                let connected_at = Duration::from_secs(connected_at);
                let counters =
                    SwitchCounters::new(dpid, Version::V1_3, addr, connected_at, features);
                let counters = Arc::new(counters);
                registry.threads[thread].connected_switches.insert(counters);
            };
            connect(1, 7, first_worker);
            connect(1, 8, 30);
            connect(2, 6, 40);
            connect(2, 7, second_worker);
            let (mut dpids, mut connected_at) = (Vec::new(), Vec::new());
            registry.collect(&mut |sample| {
                let dpid = sample.labels.into_iter().find(|(name, _)| *name == "dpid");
                match sample.value {
                    MetricValue::Gauge(n)
                        if sample.name == "switch_connected_timestamp_seconds" =>
                    {
                        connected_at.push(Duration::from_secs_f64(n).as_secs());
                    }
                    _ if sample.name == "switch_sent_bytes" => dpids.push(dpid.unwrap().1),
                    _ => {}
                }
            });
            assert_eq!(dpids, [6, 7, 8].map(|id| DatapathId(id).to_string()));
            assert_eq!(connected_at, [40, 20, 30]);
        }
    }
}
