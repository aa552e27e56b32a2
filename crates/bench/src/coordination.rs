//! What the generator threads and their coordinator exchange.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::sock::EffectiveOptions;

use crate::Error;
use crate::bench_switch::BenchSwitch;
use crate::counts::{ErrorCounts, RequestCounts};
use crate::distribution::Quantile;
use crate::offered_load::ScheduleLag;
use crate::paths::{NetworkLoopCounts, NetworkTotals};
use crate::request_records::LoopRequests;

/// Start and stop signals for all threads, and the progress of each.
#[derive(Debug)]
pub(crate) struct SharedState {
    start: OnceLock<Instant>,
    stop: AtomicBool,
    threads: Box<[ThreadProgress]>,
}

/// Progress of one thread; written by that thread only.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    answered: AtomicU64,
    ready_switches: AtomicU64,
    errors: AtomicU64,
}

/// Progress of all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TotalProgress {
    /// Requests answered since the first.
    pub(crate) answered: u64,
    /// Switches that are connected and have completed the handshake.
    pub(crate) ready_switches: u64,
    /// `ERROR` messages received.
    pub(crate) errors: u64,
}

impl SharedState {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| ThreadProgress::default()).collect();
        Self { start: OnceLock::new(), stop: AtomicBool::new(false), threads }
    }

    /// Sets the time at which all threads begin their first loop.
    pub(crate) fn set_start(&self, start: Instant) {
        // Only the coordinator calls it, once.
        let _ = self.start.set(start);
    }

    /// When the first loop begins; `None` until all threads are ready.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.start.get().copied()
    }

    /// Asks all threads to end early.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Publishes the number of requests that thread `index` had answered.
    #[inline]
    pub(crate) fn publish_answered(&self, index: usize, answered: u64) {
        if let Some(thread) = self.threads.get(index) {
            thread.answered.store(answered, Relaxed);
        }
    }

    /// Publishes the connected switches and the `ERROR` messages of thread `index`.
    pub(crate) fn publish_sessions(&self, index: usize, ready_switches: u64, errors: u64) {
        if let Some(thread) = self.threads.get(index) {
            thread.ready_switches.store(ready_switches, Relaxed);
            thread.errors.store(errors, Relaxed);
        }
    }

    /// The progress of all threads together.
    pub(crate) fn progress(&self) -> TotalProgress {
        let sum = |counter: fn(&ThreadProgress) -> &AtomicU64| {
            self.threads.iter().map(|thread| counter(thread).load(Relaxed)).sum()
        };
        TotalProgress {
            answered: sum(|thread| &thread.answered),
            ready_switches: sum(|thread| &thread.ready_switches),
            errors: sum(|thread| &thread.errors),
        }
    }
}

/// A message from a thread to the coordinator.
#[derive(Debug)]
pub(crate) enum ThreadEvent {
    /// Its switches are connected and have announced their hosts.
    Ready,
    /// A loop ended.
    LoopFinished(ThreadLoopResult),
    /// The last loop and the drain ended.
    Finished(ThreadResult),
    /// The thread could not continue.
    Failed(Error),
}

/// Figures of one thread in one loop.
#[derive(Debug)]
pub(crate) struct ThreadLoopResult {
    pub(crate) thread: usize,
    pub(crate) number: u32,
    pub(crate) elapsed: Duration,
    /// Requests answered, by switch of this thread.
    pub(crate) answered: Vec<u64>,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
    /// Time spent waiting for events; measured only if the thread spins.
    pub(crate) waited: Duration,
    /// Outstanding requests integrated over time, in request-seconds.
    pub(crate) outstanding_area_s: f64,
    /// Of the requests that were answered until the end of the loop; `None` unless the plan asks for it.
    pub(crate) latencies: Option<Histogram<u64>>,
    /// Messages that the switches of a network executed; `None` without a network.
    pub(crate) network: Option<NetworkLoopCounts>,
}

/// Figures of one thread over the whole run.
#[derive(Debug, Default)]
pub(crate) struct ThreadResult {
    pub(crate) thread: usize,
    pub(crate) switches: Vec<SwitchResult>,
    /// What became of the requests of each loop.
    pub(crate) loops: Vec<LoopRequests>,
    /// The smallest age at which a request was given up.
    pub(crate) unanswered_min_ns: u64,
    pub(crate) errors: ErrorCounts,
    pub(crate) schedule_lag: Option<ScheduleLag>,
    /// Requests were still outstanding when the drain ended.
    pub(crate) drain_cut_short: bool,
    /// The longest time for which the process was stopped.
    pub(crate) paused: Duration,
    /// The longest time in the measured loops in which no request was answered although some were outstanding.
    pub(crate) longest_silence: Duration,
    /// Figures of a network; `None` without one.
    pub(crate) network: Option<NetworkTotals>,
    /// Options of one of its connections at the end.
    pub(crate) socket: Option<EffectiveOptions>,
}

/// Figures of one switch over the whole run.
#[derive(Debug)]
pub(crate) struct SwitchResult {
    pub(crate) counts: RequestCounts,
    /// Latency in the measured loops: median, 99th percentile, maximum.
    pub(crate) latency: [Quantile; 3],
    pub(crate) connect: Option<Duration>,
    pub(crate) handshake: Option<Duration>,
    pub(crate) hosts_announced: u32,
    pub(crate) disconnect_reason: Option<String>,
}

impl SwitchResult {
    pub(crate) fn new(switch: &BenchSwitch, unanswered_min_ns: u64) -> Self {
        Self {
            counts: switch.final_counts(),
            latency: [0.5, 0.99, 1.0].map(|q| switch.latencies.quantile(q, unanswered_min_ns)),
            connect: switch.lifecycle.connect_time(),
            handshake: switch.lifecycle.handshake_time(),
            hosts_announced: switch.hosts_announced,
            disconnect_reason: switch.lifecycle.disconnect_reason.clone(),
        }
    }
}
