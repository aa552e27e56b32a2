//! What an engine may repeat that answers packet-ins in the place of the application: what the [fast path](super::fast_path) does for ordinary
//! packets between two hosts of one switch.
//!
//! The engine knows the hosts at edge ports, and the flow entries. It asks the application about a pair of hosts while a path between them is
//! being installed, and reports each answer, which the application records as if it had sent it at that time.

use std::time::{Duration, Instant};

use sluice_openflow::VlanId;
use sluice_sdk::view::HostId;
use sluice_sdk::{
    AnswerCache, AnswerForm, AnswerRule, AnsweredPacket, HostChanges, Network, SwitchIndex,
};

use super::fast_path::{EdgePortBits, SwitchFastPath};
use super::{Forwarding, Matching, pending};

/// By how much longer an engine asks about a pair of hosts: times of installations are rounded to milliseconds.
const HOLD_MARGIN: Duration = Duration::from_millis(2);

/// What an engine knows of a switch.
#[derive(Debug, Default)]
pub(super) struct PublishedAnswers {
    /// For how long it asks about a pair of hosts; `None` if it does not have the form.
    hold_time: Option<Duration>,
    /// The edge ports for which the hosts were published.
    edges: Option<Box<EdgePortBits>>,
}

impl PublishedAnswers {
    /// The form of the answers is another from now on.
    pub(super) fn forget_form(&mut self) {
        self.hold_time = None;
    }
}

impl Forwarding {
    /// Brings what an engine knows up to date. Returns whether it may answer for this switch.
    pub(super) fn publish(
        &mut self,
        switch: SwitchIndex,
        now: Instant,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        let knows_pending = self.pending.hold_touched(switch, now, cache);
        let Some(Some(fast_path)) = self.fast_paths.get_mut(switch.index()) else { return false };
        let is_common = self.cfg.templates
            && self.cfg.both_directions
            && fast_path.matching == Matching::Pair
            && !self.switches.is_paused(fast_path.switch, now);
        let time = pending::installation_time(self.cfg.path_pending, network.rtt(switch));
        if !is_common || !fast_path.publish_form(switch, time, cache) {
            return false;
        }
        fast_path.publish_hosts(switch, network, cache);
        knows_pending
    }

    /// Records an answer of an engine.
    pub(super) fn record_answered(&mut self, answered: &AnsweredPacket, network: &mut Network) {
        let &AnsweredPacket { switch, src, dst, at } = answered;
        let time = pending::installation_time(self.cfg.path_pending, network.rtt(switch));
        self.pending.begin_both([dst, src], at, time);
        self.counters.paths_installed += 1;
        self.counters.flow_entries_written += 2;
        let Some(hosts) = network.fast_path_hosts().switch(switch) else { return };
        let seen = hosts.coarse_time(at);
        if let Some(mut src) = hosts.find(src.bits()) {
            src.mark_seen(seen);
        }
    }
}

impl SwitchFastPath {
    /// Returns `false` if the engine does not have the form of the messages, or does not know it.
    fn publish_form(
        &mut self,
        switch: SwitchIndex,
        time: Duration,
        cache: &mut dyn AnswerCache,
    ) -> bool {
        let Some([flow_mod, packet_out]) = self.templates.common_form() else { return false };
        let hold_time = if time.is_zero() { time } else { round_up(time) + HOLD_MARGIN };
        if self.published.hold_time == Some(hold_time) {
            return true;
        }
        let (version, rule) = (self.templates.version(), AnswerRule::Paths { hold_time });
        let form = AnswerForm { version, flow_mod, packet_out, rule };
        self.published.hold_time = cache.set_form(switch, &form).then_some(hold_time);
        self.published.hold_time.is_some()
    }

    /// Publishes the hosts that have changed, or all if it is not known which have.
    fn publish_hosts(
        &mut self,
        switch: SwitchIndex,
        network: &mut Network,
        cache: &mut dyn AnswerCache,
    ) {
        let (view, hosts) = network.view_and_fast_path_hosts();
        self.edges.refresh(view, self.switch);
        let tracked = hosts.take_changes(switch);
        let has_known_edges =
            self.published.edges.as_ref().is_some_and(|it| it.is_same(&self.edges));
        if !has_known_edges {
            self.published.edges = Some(Box::new(self.edges.clone()));
        }
        let at_switch = || view.hosts_of(self.switch).map(|(id, _)| id);
        let changed: Vec<HostId> = match tracked {
            HostChanges::Some(changed) if has_known_edges => changed,
            HostChanges::Some(changed) => changed.into_iter().chain(at_switch()).collect(),
            HostChanges::All => {
                cache.withdraw_all(switch);
                at_switch().collect()
            }
        };
        let Some(hosts) = hosts.switch(switch) else { return };
        for HostId { mac, .. } in changed.into_iter().filter(|id| id.vlan == VlanId(0)) {
            let entry = hosts.find(mac.bits()).map(|slot| slot.entry());
            match entry.filter(|entry| self.edges.contains(entry.port())) {
                Some(entry) => cache.publish_path_host(switch, mac, entry),
                None => cache.withdraw(switch, mac),
            }
        }
    }
}

/// A time in whole milliseconds.
fn round_up(time: Duration) -> Duration {
    let millis = time.as_micros().div_ceil(1000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
