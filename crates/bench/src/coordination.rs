//! What the threads and their coordinator tell one another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Error;
use crate::counts::{ErrorCounts, RequestCounts};
use crate::emulated_switch::EmulatedSwitch;
use crate::offered_load::ScheduleLag;

/// What the coordinator tells the threads, and what they let it see at any time.
#[derive(Debug)]
pub(crate) struct SharedState {
    start: OnceLock<Instant>,
    stop: AtomicBool,
    seen: Box<[ThreadProgress]>,
}

/// What one thread lets see.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    known: AtomicU64,
    answered: AtomicU64,
}

impl SharedState {
    pub(crate) fn new(threads: usize) -> Self {
        let seen = (0..threads).map(|_| ThreadProgress::default()).collect();
        Self { start: OnceLock::new(), stop: AtomicBool::new(false), seen }
    }

    /// Lets the loops begin at `start`.
    pub(crate) fn begin(&self, start: Instant) {
        // Only the coordinator calls it, once.
        let _ = self.start.set(start);
    }

    /// When the loops begin; `None` while switches are not ready.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.start.get().copied()
    }

    /// Ends everything early.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Lets see how far thread `index` is.
    #[inline]
    pub(crate) fn show(&self, index: usize, known: u64, answered: u64) {
        if let Some(seen) = self.seen.get(index) {
            seen.known.store(known, Relaxed);
            seen.answered.store(answered, Relaxed);
        }
    }

    /// Switches that are known to the controller, and answers since the beginning.
    pub(crate) fn seen(&self) -> (u64, u64) {
        let sum = |of: fn(&ThreadProgress) -> &AtomicU64| {
            self.seen.iter().map(|s| of(s).load(Relaxed)).sum()
        };
        (sum(|s| &s.known), sum(|s| &s.answered))
    }
}

/// What a thread tells the coordinator.
#[derive(Debug)]
pub(crate) enum ThreadEvent {
    /// Its switches are known, their hosts announced.
    Ready,
    /// A loop is over.
    Loop(ThreadLoopResult),
    /// All is over.
    Done(ThreadResult),
    /// It could not go on.
    Failed(Error),
}

/// What happened on one thread in one loop.
#[derive(Debug)]
pub(crate) struct ThreadLoopResult {
    pub(crate) thread: usize,
    pub(crate) number: u32,
    pub(crate) elapsed: Duration,
    /// Requests answered, by switch of this thread.
    pub(crate) answered: Vec<u64>,
    pub(crate) latencies: Histogram<u64>,
    /// Processor time of the thread.
    pub(crate) cpu: Duration,
    /// Time it waited, known only where it spins.
    pub(crate) waited: Duration,
    /// Open requests over time, in request seconds.
    pub(crate) area_s: f64,
}

/// What a thread has to say at the end.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub(crate) thread: usize,
    pub(crate) players: Vec<SwitchResult>,
    pub(crate) errors: ErrorCounts,
    pub(crate) behind: Option<ScheduleLag>,
    /// Answers were still coming when the drain was cut.
    pub(crate) still_answering: bool,
}

/// What there is to say of one switch.
#[derive(Debug)]
pub(crate) struct SwitchResult {
    pub(crate) counts: RequestCounts,
    /// Latencies of the loops that count: half of them, 99 of a hundred, all.
    pub(crate) latency_ns: [u64; 3],
    pub(crate) connect: Option<Duration>,
    pub(crate) handshake: Option<Duration>,
    pub(crate) announced: u32,
    pub(crate) ended: Option<String>,
}

impl SwitchResult {
    pub(crate) fn of(player: &EmulatedSwitch, latency_ns: [u64; 3]) -> Self {
        let life = &player.life;
        let between = |a: Option<Instant>, b: Option<Instant>| Some(b?.duration_since(a?));
        Self {
            counts: player.final_counts(),
            latency_ns,
            connect: between(life.started, life.connected),
            handshake: between(life.connected, life.known),
            announced: player.announced,
            ended: life.ended.clone(),
        }
    }
}
