//! One direction of a link, without a clock: packets go in, and come out when they are due.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::settings::Settings;
use super::units::Share;

/// Bytes that wait or are on the way at most, whatever the settings: a second at 1 Gbit/s.
pub const HELD_BYTES_MAX: u64 = 128 << 20;

/// Packets that wait or are on the way at most: with what each costs beside its bytes, some 100 MiB.
pub const HELD_PACKETS_MAX: usize = 1 << 20;

/// One direction of a link.
///
/// ```text
///           queue, by bytes         delay and jitter
///  offer ──▶ ▓▓▓▓▓▓▓ ──▶ rate ──▶ · · · · · · · · ──▶ pop_due
///     └ overflowed          └ lost
/// ```
///
/// A packet waits until those before it are sent, is sent at the rate, and is due a delay after its last byte was sent.
/// What is lost is sent as well, and takes the time for that. **Order is kept:** a packet is never due before one that
/// was offered earlier, so jitter and a shorter delay hold some back behind others.
///
/// It is told the time, which never goes back, and draws from a generator that it is handed, so a seed repeats all that
/// it does.
#[derive(Debug)]
pub struct Pipe<T> {
    settings: Settings,
    /// In the order of offers; those at the front are sent.
    packets: VecDeque<Packet<T>>,
    /// How many at the front of `packets` are sent.
    sent: usize,
    /// Bytes of those that are not.
    waiting: u64,
    /// Bytes of all.
    held: u64,
    /// When the last of them is sent.
    free_at: Option<Instant>,
    /// When the last that arrives is due.
    last_due: Option<Instant>,
    counts: Counts,
}

#[derive(Debug)]
struct Packet<T> {
    /// `None` if it is lost.
    item: Option<T>,
    len: u32,
    sent_at: Instant,
    /// From then until it is due, if none before it is due later.
    after: Duration,
    due: Instant,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It comes out then, unless the rate changes while it waits.
    Due(Instant),
    /// It does not come out: lost on the way.
    Lost,
    /// It was not let in: no room in the queue.
    Overflowed,
}

/// A packet that has come out.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What was offered.
    pub item: T,
    /// Its bytes.
    pub len: u32,
    /// When it should have come out.
    pub due: Instant,
}

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How many.
    pub packets: u64,
    /// All of them together.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

/// What a direction has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Came in.
    pub offered: Tally,
    /// Came out.
    pub delivered: Tally,
    /// Were lost on the way.
    pub lost: Tally,
    /// Found no room in the queue.
    pub overflowed: Tally,
}

impl Counts {
    /// What waits or is on the way.
    pub fn held(&self) -> Tally {
        let rest = |of: fn(&Tally) -> u64| {
            let gone = of(&self.delivered) + of(&self.lost) + of(&self.overflowed);
            of(&self.offered).saturating_sub(gone)
        };
        Tally { packets: rest(|tally| tally.packets), bytes: rest(|tally| tally.bytes) }
    }
}

impl<T> Pipe<T> {
    /// An empty direction.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            packets: VecDeque::new(),
            sent: 0,
            waiting: 0,
            held: 0,
            free_at: None,
            last_due: None,
            counts: Counts::default(),
        }
    }

    /// Takes a packet of `len` bytes in, or drops it.
    ///
    /// # Cost
    /// Constant; twice the memory now and then.
    pub fn offer(&mut self, now: Instant, len: u32, item: T, rng: &mut Rng) -> Fate {
        self.advance(now);
        self.counts.offered.add(len);
        let bytes = u64::from(len);
        if !self.has_room(len) {
            self.counts.overflowed.add(len);
            return Fate::Overflowed;
        }
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        let sent_at = start + sending(bytes, self.settings.rate);
        self.free_at = Some(sent_at);
        let is_lost = self.settings.loss > Share::NONE
            && rng.below(Share::ALL.parts()) < self.settings.loss.parts();
        if is_lost {
            self.counts.lost.add(len);
            if sent_at > now {
                self.hold(Packet { item: None, len, sent_at, after: Duration::ZERO, due: sent_at });
            }
            return Fate::Lost;
        }
        let after = self.settings.delay + jitter(self.settings.jitter, rng);
        let due = self.last_due.map_or(sent_at + after, |last| last.max(sent_at + after));
        self.last_due = Some(due);
        self.hold(Packet { item: Some(item), len, sent_at, after, due });
        self.advance(now);
        Fate::Due(due)
    }

    fn hold(&mut self, packet: Packet<T>) {
        self.waiting += u64::from(packet.len);
        self.held += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    /// The next packet that is due by `now`, in the order of offers.
    pub fn pop_due(&mut self, now: Instant) -> Option<Departure<T>> {
        self.advance(now);
        loop {
            self.packets.front().filter(|packet| packet.due <= now)?;
            let front = self.packets.pop_front()?;
            self.sent = self.sent.saturating_sub(1);
            self.held -= u64::from(front.len);
            if let Some(item) = front.item {
                self.counts.delivered.add(front.len);
                return Some(Departure { item, len: front.len, due: front.due });
            }
        }
    }

    /// Changes what it does. What is on the way stays as it is; what waits is sent at the new rate.
    ///
    /// # Cost
    /// A look at every packet that it holds, if the rate changes.
    pub fn set(&mut self, now: Instant, settings: Settings) {
        self.advance(now);
        let old = std::mem::replace(&mut self.settings, settings).rate;
        let (Some(old), new) = (old, settings.rate) else { return };
        if Some(old) == new {
            return;
        }
        let (mut free_at, mut last_due) = (now, None);
        let mut is_head = true;
        for (rank, packet) in self.packets.iter_mut().enumerate() {
            if rank >= self.sent {
                let left = if std::mem::take(&mut is_head) {
                    stretched(packet.sent_at.saturating_duration_since(now), old, new)
                } else {
                    sending(packet.len.into(), new)
                };
                free_at += left;
                packet.sent_at = free_at;
                packet.due = free_at + packet.after;
            }
            if packet.item.is_some() {
                packet.due = last_due.map_or(packet.due, |last: Instant| last.max(packet.due));
                last_due = Some(packet.due);
            }
        }
        self.free_at = Some(free_at);
        self.last_due = last_due;
    }

    /// Notes what is sent by `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some(packet) = self.packets.get(self.sent).filter(|packet| packet.sent_at <= now)
        {
            self.waiting -= u64::from(packet.len);
            self.sent += 1;
        }
    }

    /// When to look again; `None` while it is empty. There may be nothing then, if what was waited for was lost.
    pub fn next_due(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.due)
    }

    /// When the next that waits is sent, and there is more room in the queue; `None` while nothing waits.
    pub fn next_sent(&self) -> Option<Instant> {
        self.packets.get(self.sent).map(|packet| packet.sent_at)
    }

    /// Whether a packet of `len` bytes would be let in, as far as it knows the time.
    pub fn has_room(&self, len: u32) -> bool {
        let bytes = u64::from(len);
        let in_queue = self.waiting == 0 || self.waiting + bytes <= self.settings.queue_bytes();
        let in_memory = self.held + bytes <= HELD_BYTES_MAX;
        in_queue && in_memory && self.packets.len() < HELD_PACKETS_MAX
    }

    /// Bytes that were not sent by the last time it was told.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes that wait or are on the way.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// What it does.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// How long sending `bytes` takes, rounded up so that the rate is never exceeded.
fn sending(bytes: u64, rate: Option<NonZeroU64>) -> Duration {
    rate.map_or(Duration::ZERO, |rate| {
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.get()));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    })
}

/// How long the rest of a packet takes that would have taken `left` at another rate.
fn stretched(left: Duration, old: NonZeroU64, new: Option<NonZeroU64>) -> Duration {
    new.map_or(Duration::ZERO, |new| {
        let ns = left.as_nanos().saturating_mul(u128::from(old.get())).div_ceil(new.get().into());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    })
}

/// Some time up to `most`, which is as likely as any other.
fn jitter(most: Duration, rng: &mut Rng) -> Duration {
    match u32::try_from(most.as_nanos()) {
        Ok(0) => Duration::ZERO,
        Ok(ns) => Duration::from_nanos(rng.below(ns.saturating_add(1)).into()),
        Err(_) => Duration::from_nanos(rng.below(u32::MAX).into()),
    }
}
