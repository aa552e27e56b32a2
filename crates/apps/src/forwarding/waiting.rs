//! Flows whose rules are on their way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::flow::Flow;

/// Flows that are remembered; of more, the packets cause a way to be loaded again.
const FLOWS_MAX: usize = 65_536;

/// The longest that rules are taken to be on their way: what comes up later asks for others.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How often room is made when there is none.
const SWEEP: Duration = Duration::from_millis(50);

/// Flows for which rules were written just now: a packet of theirs that comes up nevertheless was on its way before.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    flows: HashMap<Flow, Rules>,
    swept: Option<Instant>,
}

/// Rules that are on their way.
#[derive(Debug)]
struct Rules {
    until: Instant,
    time: Duration,
    /// Whether packets came up meanwhile.
    is_asked: bool,
}

/// How long rules are on their way to a switch, and what was on its way before is on its own: `least`, and half as much
/// again as the switch takes to answer, if that is known. No time if `least` is none.
pub(super) fn time(least: Duration, rtt: Option<Duration>) -> Duration {
    if least.is_zero() {
        return least;
    }
    let far = rtt.unwrap_or_default();
    (least + far + far / 2).min(TIME_MAX)
}

impl Waiting {
    /// Notes that rules for `flow` are on their way for `time`. Where packets came up all the while and still do, the
    /// switch is farther away than was thought: the next time is twice as long.
    pub(super) fn begin(&mut self, flow: Flow, now: Instant, time: Duration) {
        if time.is_zero() {
            return;
        }
        let before = self.flows.get(&flow).filter(|rules| rules.is_asked && rules.lasts(now));
        let time = before.map_or(time, |rules| (rules.time * 2).clamp(time, TIME_MAX));
        if before.is_none() && self.flows.len() >= FLOWS_MAX {
            if self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP) {
                return;
            }
            self.sweep(now);
            if self.flows.len() >= FLOWS_MAX {
                return;
            }
        }
        self.flows.insert(flow, Rules { until: now + time, time, is_asked: false });
    }

    /// Whether rules for `flow` are on their way; a packet of it has come up.
    pub(super) fn has(&mut self, flow: &Flow, now: Instant) -> bool {
        let Some(rules) = self.flows.get_mut(flow).filter(|rules| now < rules.until) else {
            return false;
        };
        rules.is_asked = true;
        true
    }

    /// Forgets those that have arrived.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.flows.retain(|_, rules| rules.lasts(now));
    }

    /// Flows that are remembered.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Forgets all: what was loaded may not be right any more.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
    }
}

impl Rules {
    /// Whether they are on their way, or it matters that they were: that packets came up, for as long again.
    fn lasts(&self, now: Instant) -> bool {
        let over = if self.is_asked { self.until + self.time } else { self.until };
        now < over
    }
}

#[cfg(test)]
mod tests {
    use sluice_wire::{Ethernet, MacAddr};

    use super::*;
    use crate::forwarding::Matching;

    const MS: Duration = Duration::from_millis(1);

    fn flow(n: u64) -> Flow {
        let (src, dst) = (MacAddr::from_u64(n), MacAddr::from_u64(1 << 40));
        let frame = [&dst.0[..], &src.0, &[8, 0, 0, 0]].concat();
        Flow::read(&Ethernet::new(&frame).unwrap(), &frame, Matching::Pair).unwrap()
    }

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn the_time_follows_how_far_the_switch_is() {
        assert_eq!(time(50 * MS, None), 50 * MS);
        assert_eq!(time(50 * MS, Some(1000 * MS)), 1550 * MS);
        assert_eq!(time(50 * MS, Some(60_000 * MS)), TIME_MAX);
        assert_eq!(time(Duration::ZERO, Some(1000 * MS)), Duration::ZERO, "it is off");
    }

    #[test]
    fn a_flow_that_goes_on_asking_has_its_rules_waited_for_longer() {
        let (mut waiting, start) = (Waiting::default(), start());
        let mut loads = 0;
        // A packet each millisecond, and rules that arrive after a second.
        for ms in 0..1000 {
            let now = start + ms * MS;
            if !waiting.has(&flow(1), now) {
                waiting.begin(flow(1), now, 50 * MS);
                loads += 1;
            }
        }
        assert_eq!(loads, 5, "after 0, 50, 150, 350 and 750 ms");
        // Nobody asked meanwhile: the rules had arrived, and are gone for another reason.
        waiting.begin(flow(2), start, 50 * MS);
        waiting.begin(flow(2), start + 60 * MS, 50 * MS);
        assert!(!waiting.has(&flow(2), start + 110 * MS));
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more_is_looked_at_for_it_than_now_and_then() {
        let (mut waiting, start) = (Waiting::default(), start());
        for n in 0..FLOWS_MAX as u64 + 10 {
            waiting.begin(flow(n), start, 40 * MS);
        }
        assert_eq!(waiting.len(), FLOWS_MAX);
        waiting.begin(flow(1 << 30), start + 45 * MS, 40 * MS);
        assert_eq!(waiting.len(), FLOWS_MAX, "it was looked at just now");
        waiting.begin(flow(1 << 30), start + 50 * MS, 40 * MS);
        assert_eq!(waiting.len(), 1);
    }
}
