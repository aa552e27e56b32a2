//! How many packet-ins the control link of a switch carries, and how many of them each port may send.
//!
//! A barrier request waits behind the replies to earlier packet-ins, and its reply behind the packet-ins that the switch sent
//! earlier, so its delay is that of a new conversation. When it is much longer than on the idle link, the link is
//! saturated, in whichever direction. Between two late replies the link was never idle, so that what passed is its capacity.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A link is saturated when a barrier reply takes longer than on the idle link by this much.
const SATURATED_DELAY: Duration = Duration::from_millis(100);

/// It is relieved when the reply takes longer by less than this.
const RELIEVED_DELAY: Duration = Duration::from_millis(50);

/// Shortest time over which the capacity is measured.
const SAMPLE_TIME_MIN: Duration = Duration::from_millis(100);

/// Fewest packet-ins from which the capacity is measured: a few replies are also late where a lossy link sends segments again.
const SAMPLE_PACKETS_MIN: u64 = 24;

/// Packet-ins after which a barrier request is sent at the next tick.
const PACKETS_PER_TICK_MIN: u64 = 4;

/// Packet-ins after which a barrier request is sent at once. It has less than a hundredth of their bytes.
const PACKETS_PER_BARRIER_MAX: u64 = 64;

/// Barrier requests in flight.
const BARRIERS_MAX: usize = 64;

/// When at most this many packet-ins were received while a barrier request was in flight, they did not delay the reply.
const IDLE_PACKETS_MAX: u64 = 2;

/// Packet-ins per second that each port may send, whatever the link carries: enough for a host that does not scan.
pub(super) const SHARE_MIN: u32 = 10;

/// Packet-ins per second that every link is assumed to carry, so that the estimate can grow again.
const ESTIMATE_MIN: u32 = 2 * SHARE_MIN;

/// Time without relief, if it is more than twice the delay, after which the link is assumed to carry half of the estimate.
const HALVING_INTERVAL: Duration = Duration::from_secs(4);

/// Time of relief after which the link is assumed to carry a tenth more than the estimate, while a port is limited.
const GROWTH_INTERVAL: Duration = Duration::from_secs(2);

/// The same while no port is limited. The estimate harms nobody then, and is of use when the next scan begins.
const UNUSED_GROWTH_INTERVAL: Duration = Duration::from_secs(30);

/// The packet-ins that the control link of a switch carries.
#[derive(Debug, Default)]
pub(super) struct LinkCapacity {
    /// Barrier requests in flight, in the order of sending.
    barriers: VecDeque<Barrier>,
    received: u64,
    /// Of these, packet-ins that the other applications have handled.
    answered: u64,
    /// Packet-ins that had been received when the last barrier request was sent; `None` before the first.
    received_at_barrier: Option<u64>,
    /// Delay of a barrier reply on the idle link.
    idle_delay: Option<Duration>,
    /// Longest delay of the replies since the last update.
    delay: Option<Duration>,
    /// The last reply, if it was late.
    late_reply: Option<LateReply>,
    /// Capacity measured since the last update, packet-ins per second.
    sample: Option<u32>,
    /// Assumed capacity, packet-ins per second; `None` unless the link has been saturated.
    estimate: Option<u32>,
    is_saturated: bool,
    /// Since when the estimate has neither changed nor been put in doubt.
    unchanged_since: Option<Instant>,
    share: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Barrier {
    xid: u32,
    sent_at: Instant,
    /// Packet-ins received and answered before.
    received: u64,
    answered: u64,
}

#[derive(Debug, Clone, Copy)]
struct LateReply {
    barrier: Barrier,
    at: Instant,
    delay: Duration,
    /// Packet-ins received before it.
    received: u64,
}

/// The packet-ins of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    /// Packet-ins received per second.
    pub(super) packets_per_s: u32,
    /// Whether it would be more if the port were not limited.
    pub(super) is_limited: bool,
}

/// The result of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The share of a port is as before.
    Unchanged,
    /// The share of a port has changed.
    Share,
    /// The link turned out to be saturated, and the share of a port has changed.
    Saturated {
        /// Packet-ins per second that the link carries.
        capacity: u32,
    },
}

impl LinkCapacity {
    /// Counts a packet-in.
    #[inline]
    pub(super) fn count_received(&mut self) {
        self.received += 1;
    }

    /// Packet-ins received since the switch connected.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Counts a packet-in that the other applications handle.
    #[inline]
    pub(super) fn count_answered(&mut self) {
        self.answered += 1;
    }

    /// Packet-ins per second that a port may send if the link has been saturated, and the same for a port that has sent more.
    /// While the link is saturated, the latter is less, so that what waits is sent.
    #[inline]
    pub(super) fn share(&self, is_limited: bool) -> Option<u32> {
        let share = self.share?;
        Some(if is_limited && self.is_saturated { (share / 4).max(SHARE_MIN) } else { share })
    }

    /// Delay of a barrier reply on the idle link.
    #[inline]
    pub(super) fn idle_delay(&self) -> Option<Duration> {
        self.idle_delay
    }

    /// Whether a barrier request is due: before the first packet-in, and after several.
    pub(super) fn needs_barrier_at_tick(&self) -> bool {
        self.needs_barrier_after(PACKETS_PER_TICK_MIN)
    }

    /// Whether a barrier request is due between two ticks.
    #[inline]
    pub(super) fn needs_barrier(&self) -> bool {
        self.needs_barrier_after(PACKETS_PER_BARRIER_MAX)
    }

    #[inline]
    fn needs_barrier_after(&self, packets: u64) -> bool {
        let is_due = |last| self.received - last >= packets;
        self.received_at_barrier.is_none_or(is_due) && self.barriers.len() < BARRIERS_MAX
    }

    /// Records that a barrier request was sent, behind everything that waits for the switch.
    pub(super) fn on_barrier_sent(&mut self, xid: u32, now: Instant) {
        let (received, answered) = (self.received, self.answered);
        self.barriers.push_back(Barrier { xid, sent_at: now, received, answered });
        self.received_at_barrier = Some(received);
    }

    /// Handles a barrier reply, which may be to a request of another application.
    pub(super) fn on_barrier_reply(&mut self, xid: u32, now: Instant) {
        let Some(index) = self.barriers.iter().position(|barrier| barrier.xid == xid) else {
            return;
        };
        // Those before it will not be answered any more.
        let Some(barrier) = self.barriers.drain(..=index).next_back() else { return };
        let delay = now.saturating_duration_since(barrier.sent_at);
        let idle_delay = self.idle_delay.get_or_insert(delay);
        if self.received - barrier.received <= IDLE_PACKETS_MAX {
            *idle_delay = delay.min((*idle_delay * 3 + delay) / 4);
        }
        *idle_delay = delay.min(*idle_delay);
        self.delay = self.delay.max(Some(delay));
        if self.is_late(delay) { self.measure(barrier, delay, now) } else { self.late_reply = None }
    }

    fn is_late(&self, delay: Duration) -> bool {
        self.idle_delay.is_some_and(|idle_delay| delay > idle_delay + SATURATED_DELAY)
    }

    /// Measures the capacity between the last late reply and this one.
    fn measure(&mut self, barrier: Barrier, delay: Duration, now: Instant) {
        let reply = LateReply { barrier, at: now, delay, received: self.received };
        let Some(last) = self.late_reply else {
            self.late_reply = Some(reply);
            return;
        };
        let time = now.saturating_duration_since(last.at);
        let answered = barrier.answered - last.barrier.answered;
        // The direction that carries less is the one that is saturated.
        let carried = (self.received - last.received).min(answered);
        if time < SAMPLE_TIME_MIN || carried < SAMPLE_PACKETS_MIN {
            return;
        }
        self.late_reply = Some(reply);
        let discarded = (barrier.received - last.barrier.received).saturating_sub(answered);
        // While the delay decreases or the limiter discards packet-ins, less is sent than the link carries.
        if delay >= last.delay && discarded <= answered / 4 {
            self.sample = Some(per_second(carried, time).max(ESTIMATE_MIN));
        }
    }

    /// Updates the share of a port, at a tick. No port may send more than `rate_max` packet-ins per second anyway.
    pub(super) fn update(&mut self, now: Instant, rate_max: u32, demands: &mut [Demand]) -> Change {
        let waiting =
            self.barriers.front().map(|barrier| now.saturating_duration_since(barrier.sent_at));
        // Without packet-ins there are no barrier requests.
        let delay = self.delay.take().max(waiting).or(self.idle_delay).unwrap_or_default();
        let is_relieved =
            self.idle_delay.is_none_or(|idle_delay| delay <= idle_delay + RELIEVED_DELAY);
        let unchanged_for = now.saturating_duration_since(*self.unchanged_since.get_or_insert(now));
        let was_saturated = self.is_saturated;
        match (self.sample.take(), self.estimate) {
            (Some(sample), Some(estimate)) if was_saturated => {
                // Samples are lower while ports are limited to less than the link carries.
                self.estimate = Some(sample.max(estimate));
            }
            (Some(sample), _) => {
                self.is_saturated = true;
                self.estimate = Some(sample);
            }
            (None, Some(_)) if was_saturated && is_relieved => self.is_saturated = false,
            (None, Some(estimate))
                if was_saturated && unchanged_for >= HALVING_INTERVAL.max(delay * 2) =>
            {
                self.estimate = Some((estimate / 2).max(ESTIMATE_MIN));
            }
            (None, Some(estimate)) if !was_saturated && is_relieved => {
                let is_used = demands.iter().any(|demand| demand.is_limited);
                let interval = if is_used { GROWTH_INTERVAL } else { UNUSED_GROWTH_INTERVAL };
                if unchanged_for < interval {
                    return Change::Unchanged;
                }
                self.estimate = Some(estimate + estimate.div_ceil(10));
            }
            (None, _) => {
                if !was_saturated {
                    self.unchanged_since = Some(now);
                }
                return Change::Unchanged;
            }
        }
        self.unchanged_since = Some(now);
        let share_before = self.share;
        self.set_share(rate_max, demands);
        match self.estimate {
            Some(capacity) if self.is_saturated && !was_saturated => Change::Saturated { capacity },
            _ if self.share == share_before && self.is_saturated == was_saturated => {
                Change::Unchanged
            }
            _ => Change::Share,
        }
    }

    fn set_share(&mut self, rate_max: u32, demands: &mut [Demand]) {
        let Some(estimate) = self.estimate else { return };
        let share = max_min_share(estimate - estimate / 10, demands).max(SHARE_MIN);
        // If all ports send about as much, limits would only discard what the link would.
        let ports = u32::try_from(demands.len().max(2)).unwrap_or(u32::MAX);
        let much = (estimate / ports).saturating_mul(5) / 4;
        let is_unfair =
            demands.iter().any(|demand| demand.is_limited || demand.packets_per_s > much);
        let is_in_use = self.share.is_some() || is_unfair;
        self.share = Some(share).filter(|&share| share < rate_max && is_in_use);
        if self.share.is_none() {
            (self.estimate, self.is_saturated) = (None, false);
        }
    }
}

/// The share of max-min fairness: the rate above which a port is limited, so that all ports together send `capacity`. The port
/// that sends most is taken to have no limit to its demand.
fn max_min_share(capacity: u32, demands: &mut [Demand]) -> u32 {
    demands.sort_unstable_by_key(|demand| (demand.is_limited, demand.packets_per_s));
    let (mut left, mut ports) = (capacity, u32::try_from(demands.len()).unwrap_or(u32::MAX));
    for demand in demands.iter().filter(|demand| !demand.is_limited) {
        if ports <= 1 || demand.packets_per_s >= left / ports {
            break;
        }
        left -= demand.packets_per_s;
        ports -= 1;
    }
    left / ports.max(1)
}

/// Packets per second.
pub(super) fn per_second(packets: u64, time: Duration) -> u32 {
    let rate = u128::from(packets) * 1_000_000 / time.as_micros().max(1);
    u32::try_from(rate).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE_MAX: u32 = 1000;
    const MS: Duration = Duration::from_millis(1);
    const IDLE_DELAY: Duration = Duration::from_millis(20);

    /// Replies that wait when the switch is not read any more.
    const BACKLOG_MAX: u64 = 600;

    /// A link that carries a number of replies per second, and ports that send at constant rates.
    struct Model {
        link: LinkCapacity,
        now: Instant,
        carries_per_s: u64,
        ports_per_s: Vec<u32>,
        /// Thousandths of packets that each port has sent, and the link has carried.
        sent: Vec<u64>,
        carried: u64,
        /// Replies that wait, or were carried.
        replies: u64,
        /// Barrier requests: transaction id, and replies before it.
        barriers: VecDeque<(u32, u64)>,
        replies_due: VecDeque<(Instant, u32)>,
        ms: u32,
        /// Delay of the last reply, and the longest since it was reset.
        delay: Duration,
        delay_max: Duration,
    }

    impl Model {
        fn new(carries_per_s: u64, ports_per_s: &[u32]) -> Self {
            #[expect(clippy::disallowed_methods, reason = "any instant will do")]
            let now = Instant::now();
            let mut new = Self {
                link: LinkCapacity::default(),
                now,
                carries_per_s,
                ports_per_s: ports_per_s.to_vec(),
                sent: vec![0; ports_per_s.len()],
                carried: 0,
                replies: 0,
                barriers: VecDeque::new(),
                replies_due: VecDeque::new(),
                ms: 0,
                delay: Duration::ZERO,
                delay_max: Duration::ZERO,
            };
            new.send_barrier();
            new
        }

        fn send_barrier(&mut self) {
            self.ms += 1;
            self.link.on_barrier_sent(self.ms, self.now);
            self.barriers.push_back((self.ms, self.replies));
        }

        /// What a port sends per second that would send `per_s`, and whether it is limited.
        fn limited(&self, per_s: u32) -> (u32, bool) {
            let is_limited = self.link.share(false).is_some_and(|share| per_s > share);
            let limit = self.link.share(is_limited).unwrap_or(RATE_MAX).min(RATE_MAX);
            (per_s.min(limit), is_limited)
        }

        fn run_ms(&mut self, time_ms: u32) {
            for _ in 0..time_ms {
                self.now += MS;
                for n in 0..self.ports_per_s.len() {
                    let (rate, _) = self.limited(self.ports_per_s[n]);
                    let before = self.sent[n] / 1000;
                    self.sent[n] += u64::from(rate);
                    for _ in before..self.sent[n] / 1000 {
                        if self.replies >= self.carried / 1000 + BACKLOG_MAX {
                            break;
                        }
                        if self.link.needs_barrier() {
                            self.send_barrier();
                        }
                        self.link.count_received();
                        self.link.count_answered();
                        self.replies += 1;
                    }
                }
                self.carried = (self.carried + self.carries_per_s).min(self.replies * 1000);
                while let Some(&(xid, replies)) = self.barriers.front()
                    && replies <= self.carried / 1000
                {
                    self.barriers.pop_front();
                    self.replies_due.push_back((self.now + IDLE_DELAY, xid));
                }
                while let Some(&(at, xid)) = self.replies_due.front()
                    && at <= self.now
                {
                    self.replies_due.pop_front();
                    self.link.on_barrier_reply(xid, self.now);
                    self.delay = self.link.delay.unwrap_or_default();
                    self.delay_max = self.delay_max.max(self.delay);
                }
                self.ms += 1;
                if self.ms.is_multiple_of(250) {
                    self.tick();
                }
            }
        }

        fn tick(&mut self) {
            let demand = |&per_s: &u32| {
                let (packets_per_s, is_limited) = self.limited(per_s);
                Demand { packets_per_s, is_limited }
            };
            let mut demands: Vec<_> = self.ports_per_s.iter().map(demand).collect();
            self.link.update(self.now, RATE_MAX, &mut demands);
            if self.link.needs_barrier_at_tick() {
                self.send_barrier();
            }
        }
    }

    #[test]
    fn a_scan_is_limited_to_what_other_ports_leave_of_the_capacity() {
        for carries_per_s in [100, 300, 600] {
            let mut model = Model::new(carries_per_s, &[10, 20, 3000]);
            model.run_ms(20_000);
            model.delay_max = Duration::ZERO;
            for _ in 0..60 {
                model.run_ms(1_000);
                let share = u64::from(model.link.share(false).unwrap());
                let rest = carries_per_s - 30;
                let context = format!("{carries_per_s}: {share}");
                assert!(share <= rest * 5 / 4 && (share >= rest / 3 || share == 10), "{context}");
            }
            assert!(model.delay_max < 700 * MS, "{carries_per_s}: {:?}", model.delay_max);
            let idle_delay = model.link.idle_delay().unwrap();
            assert!(idle_delay < IDLE_DELAY + 5 * MS, "of the idle link: {idle_delay:?}");
        }
    }

    #[test]
    fn two_scans_have_equal_shares() {
        let mut model = Model::new(500, &[10, 900, 3000]);
        model.run_ms(20_000);
        let share = model.link.share(false).unwrap();
        assert!((120..=300).contains(&share), "{share}");
    }

    #[test]
    fn a_link_that_carries_all_is_never_limited() {
        let mut model = Model::new(10_000, &[10, 3000, 3000]);
        for _ in 0..100 {
            model.run_ms(100);
            assert_eq!(model.link.share(false), None);
        }
    }

    #[test]
    fn ports_of_equal_demand_are_not_limited() {
        let mut model = Model::new(500, &[150; 4]);
        for _ in 0..100 {
            model.run_ms(100);
            assert_eq!(model.link.share(false), None);
        }
        assert!(model.delay > Duration::from_secs(1), "the link is saturated: {:?}", model.delay);
    }

    #[test]
    fn a_limit_stays_for_the_next_scan_and_ends_in_the_end() {
        let mut model = Model::new(400, &[10, 3000]);
        model.run_ms(10_000);
        model.ports_per_s[1] = 0;
        model.run_ms(10_000);
        model.delay_max = Duration::ZERO;
        model.ports_per_s[1] = 3000;
        model.run_ms(10_000);
        assert!(model.delay_max < 250 * MS, "the next scan: {:?}", model.delay_max);
        model.ports_per_s[1] = 0;
        model.run_ms(600_000);
        assert_eq!(model.link.share(false), None);
    }

    #[test]
    fn a_link_that_becomes_faster_is_used() {
        let mut model = Model::new(300, &[10, 3000]);
        model.run_ms(10_000);
        assert!(model.link.share(false).unwrap() < 400);
        model.carries_per_s = 3000;
        model.run_ms(60_000);
        assert_eq!(model.link.share(false), None);
    }

    #[test]
    fn a_link_that_was_almost_unusable_is_used_again() {
        let mut model = Model::new(300, &[10, 3000]);
        model.run_ms(10_000);
        model.carries_per_s = 15;
        model.run_ms(200_000);
        assert_eq!(model.link.share(false), Some(SHARE_MIN), "the least");
        model.carries_per_s = 300;
        model.run_ms(120_000);
        let share = model.link.share(false).unwrap();
        assert!((100..=400).contains(&share), "{share}");
    }

    #[test]
    fn a_switch_that_answers_no_barrier_is_not_limited() {
        let mut model = Model::new(0, &[10, 3000]);
        model.barriers.push_front((0, u64::MAX));
        model.run_ms(60_000);
        assert_eq!(model.link.share(false), None);
    }

    #[test]
    fn the_fair_share_is_what_ports_of_low_demand_leave() {
        let share = |capacity, demands: &[u32]| {
            let demand = |&packets_per_s| Demand { packets_per_s, is_limited: false };
            max_min_share(capacity, &mut demands.iter().map(demand).collect::<Vec<_>>())
        };
        assert_eq!(share(100, &[]), 100);
        assert_eq!(share(100, &[5]), 100, "a port alone may send all");
        assert_eq!(share(100, &[10, 20, 1000]), 70);
        assert_eq!(share(100, &[10, 1000, 1000]), 45);
        assert_eq!(share(100, &[1000, 1000]), 50);
        assert_eq!(share(90, &[40, 40, 40]), 30);
        let limited = Demand { packets_per_s: 5, is_limited: true };
        let small = Demand { packets_per_s: 10, is_limited: false };
        assert_eq!(max_min_share(100, &mut [limited, small, limited]), 45, "they would send more");
    }
}
