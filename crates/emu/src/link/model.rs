//! Model of one direction of a link; the caller supplies the time.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::impairments::LinkImpairments;
use super::units::LossRatio;

/// Most bytes in transit (queued or in flight), whatever the impairments: one second at 1 Gbit/s.
pub const IN_TRANSIT_BYTES_MAX: u64 = 128 << 20;

/// Most packets in transit; with their bookkeeping, about 100 MiB.
pub const IN_TRANSIT_PACKETS_MAX: usize = 1 << 20;

/// One direction of a link: a queue, a rate, then delay and jitter.
///
/// ```text
///           queue (bytes)           delay and jitter
///  offer ──▶ ▓▓▓▓▓▓▓ ──▶ rate ──▶ · · · · · · · · ──▶ pop_due
///     └ queue full          └ lost
/// ```
///
/// A packet waits for those before it, is transmitted at the rate, and is due a delay after its last byte was sent. A
/// lost packet takes its transmission time as well. **Order is kept:** a packet is never due before one that was
/// offered earlier, so with jitter or a reduced delay some packets wait for their predecessors.
///
/// Time is an argument and must not go back; randomness comes from the caller's generator, so a seed reproduces a run.
#[derive(Debug)]
pub struct LinkModel<T> {
    impairments: LinkImpairments,
    /// In order of arrival; the first `n_sent` have been transmitted.
    packets: VecDeque<QueuedPacket<T>>,
    /// How many at the front of `packets` have been transmitted.
    n_sent: usize,
    /// Bytes in the queue, not yet transmitted.
    queued_bytes: u64,
    /// Bytes queued or in flight.
    in_transit_bytes: u64,
    /// When the last queued packet will have been transmitted.
    free_at: Option<Instant>,
    /// When the last packet that is not lost is due.
    last_due: Option<Instant>,
    counters: LinkCounters,
}

#[derive(Debug)]
struct QueuedPacket<T> {
    /// `None` if the packet is lost.
    item: Option<T>,
    len: u32,
    sent_at: Instant,
    /// Delay and jitter of this packet, before order is enforced.
    extra_delay: Duration,
    due: Instant,
}

/// What happened to an offered packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferOutcome {
    /// It is due then, unless the rate changes while it is queued.
    Due(Instant),
    /// It is lost in transit.
    Lost,
    /// It was dropped because the queue is full.
    QueueFull,
}

/// A packet that has arrived at the far end.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What was offered.
    pub item: T,
    /// Length in bytes.
    pub len: u32,
    /// When it was due.
    pub due: Instant,
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficTotal {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl TrafficTotal {
    fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

/// Packet and byte counters of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Offered to the link.
    pub offered: TrafficTotal,
    /// Delivered to the far end.
    pub delivered: TrafficTotal,
    /// Lost in transit.
    pub lost: TrafficTotal,
    /// Dropped because the queue was full.
    pub queue_full: TrafficTotal,
}

impl LinkCounters {
    /// Queued or in flight.
    pub fn in_transit(&self) -> TrafficTotal {
        let rest = |of: fn(&TrafficTotal) -> u64| {
            let ended = of(&self.delivered) + of(&self.lost) + of(&self.queue_full);
            of(&self.offered).saturating_sub(ended)
        };
        TrafficTotal { packets: rest(|tally| tally.packets), bytes: rest(|tally| tally.bytes) }
    }
}

impl<T> LinkModel<T> {
    /// An empty link.
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

    /// Enqueues a packet of `len` bytes, or drops it.
    ///
    /// # Cost
    /// Constant; the queue's memory grows by doubling.
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

    /// The next packet that is due by `now`, in order of arrival.
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

    /// Changes the impairments. Packets in flight keep their due time; queued packets are sent at the new rate.
    ///
    /// # Cost
    /// Linear in the number of packets in transit if the rate changes, else constant.
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

    /// Counts packets whose transmission ends by `now` as sent.
    pub fn advance(&mut self, now: Instant) {
        while let Some(packet) =
            self.packets.get(self.n_sent).filter(|packet| packet.sent_at <= now)
        {
            self.queued_bytes -= u64::from(packet.len);
            self.n_sent += 1;
        }
    }

    /// When to call [`pop_due`](Self::pop_due) next; `None` while nothing is in transit. If the next packet is lost,
    /// nothing may be due then.
    pub fn next_due_at(&self) -> Option<Instant> {
        self.packets.front().map(|packet| packet.due)
    }

    /// When the next queued packet is transmitted, which frees room in the queue; `None` while the queue is empty.
    pub fn next_sent_at(&self) -> Option<Instant> {
        self.packets.get(self.n_sent).map(|packet| packet.sent_at)
    }

    /// Whether a packet of `len` bytes fits, as of the last call that had the time.
    pub fn has_room(&self, len: u32) -> bool {
        let bytes = u64::from(len);
        let in_queue = self.queued_bytes == 0
            || self.queued_bytes + bytes <= self.impairments.effective_queue_bytes();
        let in_memory = self.in_transit_bytes + bytes <= IN_TRANSIT_BYTES_MAX;
        in_queue && in_memory && self.packets.len() < IN_TRANSIT_PACKETS_MAX
    }

    /// Bytes in the queue, as of the last call that had the time.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Bytes queued or in flight.
    pub fn in_transit_bytes(&self) -> u64 {
        self.in_transit_bytes
    }

    /// The current impairments.
    pub fn impairments(&self) -> LinkImpairments {
        self.impairments
    }

    /// The counters.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }
}

/// Transmission time of `bytes`, rounded up so that the rate is never exceeded.
fn transmission_time(bytes: u64, rate: Option<NonZeroU64>) -> Duration {
    rate.map_or(Duration::ZERO, |rate| {
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.get()));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    })
}

/// The remaining transmission time `left`, converted from the old rate to the new one.
fn rescale(left: Duration, old: NonZeroU64, new: Option<NonZeroU64>) -> Duration {
    new.map_or(Duration::ZERO, |new| {
        let ns = left.as_nanos().saturating_mul(u128::from(old.get())).div_ceil(new.get().into());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    })
}

/// A uniformly distributed time from zero to `most`.
fn jitter(most: Duration, rng: &mut Rng) -> Duration {
    match u32::try_from(most.as_nanos()) {
        Ok(0) => Duration::ZERO,
        Ok(ns) => Duration::from_nanos(rng.below(ns.saturating_add(1)).into()),
        Err(_) => Duration::from_nanos(rng.below(u32::MAX).into()),
    }
}
