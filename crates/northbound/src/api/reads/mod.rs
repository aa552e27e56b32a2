//! Limits how many replies of switches are read at a time, and per second: reading costs the workers time that switches need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_io::clock;
use sluice_openflow::DatapathId;
use sluice_sdk::Answer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Replies of all switches that are read at a time; each may have some megabytes. Further requests wait.
const READS_MAX: usize = 16;

/// Of these, replies of switches that did not answer the last time: otherwise a few switches that never answer would keep the others from
/// being read.
const UNRELIABLE_READS_MAX: usize = 4;

/// Replies of one switch that are read at a time: all its incomplete replies together may have 4 MiB.
const READS_PER_SWITCH_MAX: usize = 2;

/// Switches of which it is known that they did not answer. Beyond that, it is forgotten of those from which nothing is being read.
const KNOWN_SWITCHES_MAX: usize = 1024;

/// Time that passes for each reply that is read, on average. A reply of some kilobytes costs the worker of its switch 50 to 140 µs, so that
/// all of them together take at most 2 % of one.
const READ_INTERVAL: Duration = Duration::from_micros(6_667);

/// Bytes of a reply that count as another reply: copying them takes as long.
const BYTES_PER_READ: usize = 64 << 10;

/// Replies that are read at once, after nothing was read for a while.
const READS_BURST: u32 = 100;

/// Which replies are being read.
#[derive(Debug)]
pub(super) struct Reads {
    all: Arc<Semaphore>,
    unreliable: Arc<Semaphore>,
    /// The switches from which something is being read, and those that did not answer.
    switches: Mutex<HashMap<DatapathId, Arc<SwitchReads>>>,
    rate: Arc<ReadRate>,
}

#[derive(Debug)]
struct SwitchReads {
    permits: Arc<Semaphore>,
    has_timed_out: AtomicBool,
}

/// A reply may be read until this is dropped.
#[derive(Debug)]
pub(super) struct ReadPermit {
    switch: Arc<SwitchReads>,
    rate: Arc<ReadRate>,
    _permits: [Option<OwnedSemaphorePermit>; 3],
}

impl ReadPermit {
    /// The read has ended with this answer.
    pub(super) fn end(self, answer: &Answer) {
        self.switch.has_timed_out.store(matches!(answer, Answer::TimedOut), Ordering::Relaxed);
        if let Answer::Multipart(reply) = answer {
            let more = u32::try_from(reply.body().len() / BYTES_PER_READ).unwrap_or(u32::MAX);
            self.rate.count(more, clock::now());
        }
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(READS_MAX)),
            unreliable: Arc::new(Semaphore::new(UNRELIABLE_READS_MAX)),
            switches: Mutex::default(),
            rate: Arc::default(),
        }
    }
}

/// How many replies were read.
#[derive(Debug, Default)]
struct ReadRate {
    /// Until when all of them have had their time.
    until: Mutex<Option<Instant>>,
    /// Requests wait one after the other. One whose client leaves meanwhile counts nothing: otherwise a client that asks and leaves
    /// again and again would keep the others from reading.
    turn: tokio::sync::Mutex<()>,
}

impl ReadRate {
    /// Waits until another reply may be read, and counts it.
    async fn acquire(&self) {
        let _turn = self.turn.lock().await;
        let wait = self.wait(clock::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        self.count(1, clock::now());
    }

    /// How long to wait before another reply is read.
    fn wait(&self, now: Instant) -> Duration {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        (ahead + READ_INTERVAL).saturating_sub(READ_INTERVAL * READS_BURST)
    }

    fn count(&self, replies: u32, now: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(until.map_or(now, |until| until.max(now)) + READ_INTERVAL * replies);
    }
}

impl Reads {
    /// Waits until another reply of a switch may be read.
    pub(super) async fn acquire(&self, from: DatapathId) -> ReadPermit {
        let switch = self.of_switch(from);
        let acquire = |semaphore: &Arc<Semaphore>| semaphore.clone().acquire_owned();
        // The switch first: a request that waits for a slow one keeps no place from others. None is ever closed.
        let of_switch = acquire(&switch.permits).await.ok();
        let of_unreliable = if switch.has_timed_out.load(Ordering::Relaxed) {
            acquire(&self.unreliable).await.ok()
        } else {
            None
        };
        self.rate.acquire().await;
        let of_all = acquire(&self.all).await.ok();
        let permits = [of_switch, of_unreliable, of_all];
        ReadPermit { switch, rate: self.rate.clone(), _permits: permits }
    }

    fn of_switch(&self, id: DatapathId) -> Arc<SwitchReads> {
        let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = switches.get(&id) {
            return known.clone();
        }
        let has_room = switches.len() < KNOWN_SWITCHES_MAX;
        switches.retain(|_, it| {
            Arc::strong_count(it) > 1 || has_room && it.has_timed_out.load(Ordering::Relaxed)
        });
        let new = Arc::new(SwitchReads {
            permits: Arc::new(Semaphore::new(READS_PER_SWITCH_MAX)),
            has_timed_out: AtomicBool::new(false),
        });
        switches.insert(id, new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// The permit, if there is no need to wait for it.
    fn try_acquire(reads: &Reads, id: u64) -> Option<ReadPermit> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(reads.acquire(DatapathId(id))).poll(&mut context) {
            std::task::Poll::Ready(permit) => Some(permit),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn of_one_switch_two_replies_are_read_and_of_all_sixteen() {
        let reads = Reads::default();
        let mut held: Vec<_> = (0..2).map(|_| try_acquire(&reads, 1).unwrap()).collect();
        assert!(try_acquire(&reads, 1).is_none());
        held.extend((2..16).map(|id| try_acquire(&reads, id).unwrap()));
        assert!(try_acquire(&reads, 16).is_none());
        held.remove(0);
        assert!(try_acquire(&reads, 1).is_some());
        drop(held);
        assert!(try_acquire(&reads, 99).is_some());
        assert_eq!(reads.switches.lock().unwrap().len(), 1, "switches without reads are forgotten");
    }

    #[test]
    fn switches_that_did_not_answer_leave_places_to_the_others() {
        let reads = Reads::default();
        for id in 0..8 {
            try_acquire(&reads, id).unwrap().end(&Answer::TimedOut);
        }
        let held: Vec<_> = (0..8).filter_map(|id| try_acquire(&reads, id)).collect();
        assert_eq!(held.len(), 4);
        let others: Vec<_> = (8..20).map(|id| try_acquire(&reads, id).unwrap()).collect();
        assert!(try_acquire(&reads, 20).is_none());
        drop(others);
        // One that answers is like the others again.
        for permit in held {
            permit.end(&Answer::Disconnected);
        }
        assert_eq!(
            (0..8).filter_map(|id| try_acquire(&reads, id)).map(std::mem::forget).count(),
            8
        );
    }

    #[test]
    fn switches_that_come_and_go_without_an_answer_are_forgotten() {
        let reads = Reads::default();
        for id in 0..5000 {
            reads.of_switch(DatapathId(id)).has_timed_out.store(true, Ordering::Relaxed);
        }
        assert!(reads.switches.lock().unwrap().len() <= KNOWN_SWITCHES_MAX);
    }

    #[test]
    fn switches_have_to_answer_a_limited_number_of_reads_per_second() {
        let (rate, mut now) = (ReadRate::default(), clock::now());
        let start = now;
        for _ in 0..READS_BURST {
            assert_eq!(rate.wait(now), Duration::ZERO);
            rate.count(1, now);
        }
        let mut reads = 0;
        while now < start + Duration::from_secs(10) {
            now += rate.wait(now);
            rate.count(1, now);
            reads += 1;
        }
        assert!((1400..1600).contains(&reads), "{reads}");
        // After a pause, and a long reply counts as many.
        now += Duration::from_secs(3600);
        assert_eq!(rate.wait(now), Duration::ZERO);
        rate.count(READS_BURST + 100, now);
        assert!(rate.wait(now) >= READ_INTERVAL * 100);
    }

    #[tokio::test]
    async fn requests_whose_clients_have_left_do_not_delay_others() {
        let rate = ReadRate::default();
        rate.count(READS_BURST + 1, clock::now());
        let before = *rate.until.lock().unwrap();
        for _ in 0..1000 {
            let mut context = Context::from_waker(Waker::noop());
            assert!(pin!(rate.acquire()).poll(&mut context).is_pending());
        }
        assert_eq!(*rate.until.lock().unwrap(), before);
    }
}
