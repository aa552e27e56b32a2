//! One direction of a link, without a clock: packets go in, and come out when they are due.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::impairments::LinkImpairments;
use super::units::LossRatio;

/// Bytes that wait or are on the way at most, whatever the settings: a second at 1 Gbit/s.
pub const IN_TRANSIT_BYTES_MAX: u64 = 128 << 20;

/// Packets that wait or are on the way at most: with what each costs beside its bytes, some 100 MiB.
pub const IN_TRANSIT_PACKETS_MAX: usize = 1 << 20;

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
pub struct LinkModel<T> {
    impairments: LinkImpairments,
    /// In the order of offers; those at the front are sent.
    packets: VecDeque<QueuedPacket<T>>,
    /// How many at the front of `packets` are sent.
    n_sent: usize,
    /// Bytes of those that are not.
    queued_bytes: u64,
    /// Bytes of all.
    in_transit_bytes: u64,
    /// When the last of them is sent.
    free_at: Option<Instant>,
    /// When the last that arrives is due.
    last_due: Option<Instant>,
    counters: LinkCounters,
}

#[derive(Debug)]
struct QueuedPacket<T> {
    /// `None` if it is lost.
    item: Option<T>,
    len: u32,
    sent_at: Instant,
    /// From then until it is due, if none before it is due later.
    extra_delay: Duration,
    due: Instant,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferOutcome {
    /// It comes out then, unless the rate changes while it waits.
    Due(Instant),
    /// It does not come out: lost on the way.
    Lost,
    /// It was not let in: no room in the queue.
    QueueFull,
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
pub struct TrafficTotal {
    /// How many.
    pub packets: u64,
    /// All of them together.
    pub bytes: u64,
}

impl TrafficTotal {
    fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

/// What a direction has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Came in.
    pub offered: TrafficTotal,
    /// Came out.
    pub delivered: TrafficTotal,
    /// Were lost on the way.
    pub lost: TrafficTotal,
    /// Found no room in the queue.
    pub queue_full: TrafficTotal,
}

impl LinkCounters {
    /// What waits or is on the way.
    pub fn in_transit(&self) -> TrafficTotal {
        let rest = |of: fn(&TrafficTotal) -> u64| {
            let gone = of(&self.delivered) + of(&self.lost) + of(&self.queue_full);
            of(&self.offered).saturating_sub(gone)
        };
        TrafficTotal { packets: rest(|tally| tally.packets), bytes: rest(|tally| tally.bytes) }
    }
}

impl<T> LinkModel<T> {
    /// An empty direction.
    pub fn new(impairments: LinkImpairments) -> Self {
        Self {
            impairments,
            packets: VecDeque::new(),
            n_sent: 0,
            queued_bytes: 0,
            in_transit_bytes: 0,
            free_at: None,
            last_due: None,
            counters: LinkCounters::default(),
        }
    }

    /// Takes a packet of `len` bytes in, or drops it.
    ///
    /// # Cost
    /// Constant; twice the memory now and then.
    pub fn offer(&mut self, now: Instant, len: u32, item: T, rng: &mut Rng) -> OfferOutcome {
        self.advance(now);
        self.counters.offered.add(len);
        let bytes = u64::from(len);
        if !self.has_room(len) {
            self.counters.queue_full.add(len);
            return OfferOutcome::QueueFull;
        }
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        let sent_at = start + transmission_time(bytes, self.impairments.rate_bps);
        self.free_at = Some(sent_at);
        let is_lost = self.impairments.loss > LossRatio::NONE
            && rng.below(LossRatio::ALL.ppm()) < self.impairments.loss.ppm();
        if is_lost {
            self.counters.lost.add(len);
            if sent_at > now {
                self.push(QueuedPacket {
                    item: None,
                    len,
                    sent_at,
                    extra_delay: Duration::ZERO,
                    due: sent_at,
                });
            }
            return OfferOutcome::Lost;
        }
        let extra_delay = self.impairments.delay + jitter(self.impairments.jitter, rng);
        let due =
            self.last_due.map_or(sent_at + extra_delay, |last| last.max(sent_at + extra_delay));
        self.last_due = Some(due);
        self.push(QueuedPacket { item: Some(item), len, sent_at, extra_delay, due });
        self.advance(now);
        OfferOutcome::Due(due)
    }

    fn push(&mut self, packet: QueuedPacket<T>) {
        self.queued_bytes += u64::from(packet.len);
        self.in_transit_bytes += u64::from(packet.len);
        self.packets.push_back(packet);
    }

    /// The next packet that is due by `now`, in the order of offers.
    pub fn pop_due(&mut self, now: Instant) -> Option<Departure<T>> {
        self.advance(now);
        loop {
            self.packets.front().filter(|packet| packet.due <= now)?;
            let front = self.packets.pop_front()?;
            self.n_sent = self.n_sent.saturating_sub(1);
            self.in_transit_bytes -= u64::from(front.len);
            if let Some(item) = front.item {
                self.counters.delivered.add(front.len);
                return Some(Departure { item, len: front.len, due: front.due });
            }
        }
    }

    /// Changes what it does. What is on the way stays as it is; what waits is sent at the new rate.
    ///
    /// # Cost
    /// A look at every packet that it holds, if the rate changes.
    pub fn set_impairments(&mut self, now: Instant, impairments: LinkImpairments) {
        self.advance(now);
        let old = std::mem::replace(&mut self.impairments, impairments).rate_bps;
        let (Some(old), new) = (old, impairments.rate_bps) else { return };
        if Some(old) == new {
            return;
        }
        let (mut free_at, mut last_due) = (now, None);
        let mut is_head = true;
        for (rank, packet) in self.packets.iter_mut().enumerate() {
            if rank >= self.n_sent {
                let left = if std::mem::take(&mut is_head) {
                    rescale(packet.sent_at.saturating_duration_since(now), old, new)
                } else {
                    transmission_time(packet.len.into(), new)
                };
                free_at += left;
                packet.sent_at = free_at;
                packet.due = free_at + packet.extra_delay;
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
        while let Some(packet) =
            self.packets.get(self.n_sent).filter(|packet| packet.sent_at <= now)
        {
            self.queued_bytes -= u64::from(packet.len);
            self.n_sent += 1;
        }
    }

    /// When to look again; `None` while it is empty. There may be nothing then, if what was waited for was lost.
    pub fn next_due_at(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.due)
    }

    /// When the next that waits is sent, and there is more room in the queue; `None` while nothing waits.
    pub fn next_sent_at(&self) -> Option<Instant> {
        self.packets.get(self.n_sent).map(|packet| packet.sent_at)
    }

    /// Whether a packet of `len` bytes would be let in, as far as it knows the time.
    pub fn has_room(&self, len: u32) -> bool {
        let bytes = u64::from(len);
        let in_queue = self.queued_bytes == 0
            || self.queued_bytes + bytes <= self.impairments.effective_queue_bytes();
        let in_memory = self.in_transit_bytes + bytes <= IN_TRANSIT_BYTES_MAX;
        in_queue && in_memory && self.packets.len() < IN_TRANSIT_PACKETS_MAX
    }

    /// Bytes that were not sent by the last time it was told.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Bytes that wait or are on the way.
    pub fn in_transit_bytes(&self) -> u64 {
        self.in_transit_bytes
    }

    /// What it does.
    pub fn impairments(&self) -> LinkImpairments {
        self.impairments
    }

    /// What it has done.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }
}

/// How long sending `bytes` takes, rounded up so that the rate is never exceeded.
fn transmission_time(bytes: u64, rate: Option<NonZeroU64>) -> Duration {
    rate.map_or(Duration::ZERO, |rate| {
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.get()));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    })
}

/// How long the rest of a packet takes that would have taken `left` at another rate.
fn rescale(left: Duration, old: NonZeroU64, new: Option<NonZeroU64>) -> Duration {
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
