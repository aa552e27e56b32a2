//! What an engine that answers in the place of the application has to know of pending flows.

use std::time::{Duration, Instant};

use sluice_openflow::MacAddr;
use sluice_sdk::{AnswerCache, SwitchIndex};

use super::touched_pairs::Touched;
use super::{PendingFlows, WrappingMillis, hash_pair};
use crate::forwarding::flow::Flow;

impl PendingFlows {
    /// Records an installation of both directions between two hosts that an engine has begun at `at` in the place of the application.
    pub(in super::super) fn begin_both(
        &mut self,
        hosts: [MacAddr; 2],
        at: Instant,
        time: Duration,
    ) {
        self.record_begun(at);
        let mut burst = self.burst(at, time);
        if burst.time > 0 {
            burst.check_or_begin_pair(hosts.map(MacAddr::bits), true);
        }
    }

    /// Records that the application handles a packet of `flow` that `switch` has sent: what is pending may become another.
    pub(in super::super) fn touch(&mut self, switch: SwitchIndex, flow: &Flow) {
        if flow.is_pair()
            && flow.vlan.is_none()
            && let Some(mut list) = self.touched.list(switch)
        {
            list.add([flow.dst, flow.src].map(MacAddr::bits));
        }
    }

    /// Has an engine that answers to `switch` in the place of the application ask it about pairs of hosts while their flow entries are in
    /// flight, or remembered. Returns whether the engine knows all of them.
    pub(in super::super) fn hold_touched(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        let until = |ahead: WrappingMillis| now + Duration::from_millis(ahead.into());
        match self.touched.take(switch, now) {
            Touched::Some(pairs) => {
                for pair in pairs {
                    let ahead = self.remembered(pair, now);
                    if ahead > 0 {
                        cache.hold(pair, until(ahead));
                    }
                }
                true
            }
            Touched::Any => {
                let ahead = self.longest_remembered(now);
                self.touched.set_unknown_until(switch, until(ahead));
                ahead == 0
            }
            Touched::AnyUntil(_) => false,
        }
    }

    /// For how many milliseconds any installation is remembered. Many switches may ask in the same iteration: the table is searched once.
    fn longest_remembered(&mut self, now: Instant) -> WrappingMillis {
        if let Some((at, ahead)) = self.longest
            && at == now
        {
            return ahead;
        }
        let millis = self.millis(now);
        let all = self.buckets.iter().flat_map(|it| it.installations.as_flattened());
        let ahead = all.map(|it| it.remembered(millis)).max().unwrap_or(0);
        self.longest = Some((now, ahead));
        ahead
    }

    /// For how many milliseconds an installation between two hosts is remembered, in one direction or the other.
    fn remembered(&self, pair: [MacAddr; 2], now: Instant) -> WrappingMillis {
        let (millis, flow_hash) = (self.millis(now), hash_pair(self.keys, pair.map(MacAddr::bits)));
        let Some(bucket) = self.buckets.get(flow_hash.bucket()) else { return 0 };
        let slot = bucket.find(flow_hash);
        let both = slot.and_then(|slot| bucket.installations.get(slot));
        both.map_or(0, |[one, other]| one.remembered(millis).max(other.remembered(millis)))
    }

    /// Forgets a switch that has disconnected.
    pub(in super::super) fn on_disconnected(&mut self, switch: SwitchIndex) {
        self.touched.remove(switch);
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::PortNo;
    use sluice_sdk::{AnswerForm, HostEntry};

    use super::*;

    const TIME: Duration = Duration::from_millis(50);

    /// The pairs that an engine asks about, and until when.
    #[derive(Debug, Default)]
    struct Holds(Vec<([MacAddr; 2], Instant)>);

    impl AnswerCache for Holds {
        fn set_tick(&mut self, tick: u16) {
            panic!("{tick}");
        }

        fn for_each_seen(&self, tick: u16, _: &mut dyn FnMut(SwitchIndex, MacAddr, u16)) {
            panic!("{tick}");
        }

        fn set_form(&mut self, _: SwitchIndex, form: &AnswerForm<'_>) -> bool {
            panic!("{form:?}");
        }

        fn publish(&mut self, _: SwitchIndex, host: MacAddr, _: PortNo, _: u16) {
            panic!("{host}");
        }

        fn publish_path_host(&mut self, _: SwitchIndex, host: MacAddr, _: HostEntry) {
            panic!("{host}");
        }

        fn withdraw(&mut self, _: SwitchIndex, host: MacAddr) {
            panic!("{host}");
        }

        fn withdraw_all(&mut self, switch: SwitchIndex) {
            panic!("{switch:?}");
        }

        fn hold(&mut self, hosts: [MacAddr; 2], until: Instant) {
            self.0.push((hosts, until));
        }
    }

    fn flow(n: u64) -> Flow {
        let [src, dst] = [2 * n, 2 * n + 1].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n));
        Flow::pair(src, dst)
    }

    fn begin(pending: &mut PendingFlows, switch: SwitchIndex, flow: Flow, now: Instant) {
        pending.touch(switch, &flow);
        pending.begin(flow, now, TIME);
    }

    #[test]
    fn a_switch_with_too_many_pairs_is_left_to_the_application_and_no_other_is() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut pending, mut holds) = (PendingFlows::default(), Holds::default());
        let [busy, other] = [1, 2].map(SwitchIndex);
        for switch in [busy, other] {
            assert!(pending.hold_touched(switch, start, &mut holds), "nothing is pending");
        }
        (1..6000).for_each(|n| begin(&mut pending, busy, flow(n), start));
        begin(&mut pending, other, flow(0), start);
        assert!(pending.hold_touched(other, start, &mut holds));
        let Flow { src, dst, .. } = flow(0);
        assert_eq!(holds.0, [([dst, src], start + TIME)]);
        let before = start + Duration::from_millis(49);
        assert!([start, before].iter().all(|&at| !pending.hold_touched(busy, at, &mut holds)));
        assert!(pending.hold_touched(busy, start + TIME, &mut holds));
        begin(&mut pending, busy, flow(1), start + TIME);
        assert!(pending.hold_touched(busy, start + TIME, &mut holds));
        assert_eq!(holds.0.len(), 2);
    }
}
