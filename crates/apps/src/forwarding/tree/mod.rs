//! Broadcasts along a spanning tree: switches forward them by flow entries, from link to link and to edge ports.
//!
//! Only packets from a link match these entries. A broadcast from an edge port goes to the controller, which learns
//! from it, counts and limits it, and sends it into the tree by one `PACKET_OUT` to its own switch.
//! `docs/adr/0009-trees.md` has the reasons, and why there are no loops.

mod backoff;
mod coordinator;
mod exclusions;
mod failures;
mod flow_entries;
mod forest;
mod member;
mod member_backoffs;
mod ports;
mod reach;
mod state;

use std::sync::Arc;
use std::time::Instant;

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, MacAddr, MultipartType};
use sluice_sdk::view::{Fact, NetworkView};
use sluice_sdk::{Ctx, Network, SwitchIndex};

use super::group_streams::is_tree_demanded;
use super::multicast::Multicast;
use coordinator::Coordinator;
pub(super) use flow_entries::{LIFETIME, is_ours};
use member::Members;
pub(super) use ports::TreePorts;
pub(super) use reach::TreePart;
use reach::TreeParts;
pub use state::{SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};

/// How broadcasts reach all edge ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flooding {
    /// As [`Tree`](Self::Tree) while many packets are flooded, and otherwise as [`Controller`](Self::Controller).
    Auto,
    /// The controller sends a `PACKET_OUT` to each switch.
    Controller,
    /// The controller sends one `PACKET_OUT` to the first switch, and switches forward along a spanning tree.
    Tree,
}

impl Flooding {
    /// Whether there should be a tree.
    fn wants_tree(self, view: &NetworkView) -> bool {
        match self {
            Self::Auto => is_tree_demanded(view),
            Self::Controller => false,
            Self::Tree => true,
        }
    }
}

/// The spanning tree, as far as this worker is concerned.
#[derive(Debug, Default)]
pub(super) struct Trees {
    coordinator: Coordinator,
    members: Members,
    parts: TreeParts,
    ports: TreePorts,
    last_tick: Option<Instant>,
}

impl Trees {
    pub(super) fn on_iteration(&mut self, now: Instant) {
        self.members.on_iteration(now);
    }

    pub(super) fn on_connected(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        self.members.on_connected(flooding, ctx);
    }

    /// Handles the reply to the query for old flow entries.
    pub(super) fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.members.on_multipart_reply(xid, kind, body, ctx);
    }

    /// A switch has disconnected; it may have reconnected with another index.
    pub(super) fn on_disconnected(
        &mut self,
        id: DatapathId,
        sw: SwitchIndex,
        now: Instant,
        network: &mut Network,
    ) {
        self.members.on_disconnected(id, sw, now, network);
    }

    /// Performs what is due for a switch.
    pub(super) fn tick(&mut self, flooding: Flooding, multicast: &Multicast, ctx: &mut Ctx<'_>) {
        let is_wanted = flooding.wants_tree(ctx.view());
        self.members.tick(is_wanted, multicast, &mut self.ports, ctx);
        // Once for all switches; what they publish is a fact, which may cause a decision as well.
        if self.last_tick != Some(ctx.now) {
            self.last_tick = Some(ctx.now);
            self.coordinator.decide_soon(flooding, ctx.now, ctx.network);
        }
    }

    pub(super) fn on_fact(
        &mut self,
        fact: &Fact,
        flooding: Flooding,
        now: Instant,
        network: &mut Network,
    ) {
        self.members.on_fact(fact, now, network);
        if self.is_urgent(fact, network.view()) {
            self.coordinator.decide(flooding, now, network);
        } else {
            self.coordinator.decide_soon(flooding, now, network);
        }
    }

    /// Continues a decision that was not due.
    pub(super) fn on_deferred_work(
        &mut self,
        flooding: Flooding,
        now: Instant,
        network: &mut Network,
    ) {
        self.coordinator.decide_soon(flooding, now, network);
    }

    /// Whether a fact is about a link or a switch without which a tree must be removed. There is no hurry with a tree that is being
    /// removed: of many switches that disconnect together, only the first is urgent.
    fn is_urgent(&mut self, fact: &Fact, view: &NetworkView) -> bool {
        let lost_switch = match fact.record::<SwitchTreeState>() {
            Some((lost, None)) => Some(lost),
            _ => None,
        };
        let may_be_urgent = lost_switch.is_some() || matches!(fact, Fact::Link(..));
        if !may_be_urgent {
            return false;
        }
        let Some(tree) = SpanningTree::of(view).filter(|tree| tree.is_in_use()) else {
            return false;
        };
        self.ports.follow(tree);
        match fact {
            // A cable that was moved shows by the new link of its port.
            Fact::Link(to, link) => {
                let from = link.map(|link| link.from);
                [Some(*to), from].into_iter().flatten().any(|at| self.ports.contains(at))
            }
            _ => {
                tree.phase != TreePhase::Retiring
                    && lost_switch.is_some_and(|lost| !self.ports.of(lost).is_empty())
            }
        }
    }

    /// The ports at links of the tree, unless its flow entries were removed.
    pub(super) fn link_ports(&mut self, view: &NetworkView) -> Option<&TreePorts> {
        let tree = SpanningTree::of(view).filter(|tree| tree.phase != TreePhase::Removed)?;
        self.ports.follow(tree);
        Some(&self.ports)
    }

    pub(super) fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.members.on_barrier_reply(xid, ctx);
    }

    /// Whether a tree is active; only one worker returns `true`.
    pub(super) fn is_active(&self) -> bool {
        self.coordinator.is_active()
    }

    /// Switches of this worker that do not confirm the deletion of their flow entries.
    pub(super) fn unconfirmed(&self) -> usize {
        self.members.unconfirmed()
    }

    /// How often a switch did not confirm or list flow entries in time.
    pub(super) fn timeouts(&self) -> u64 {
        self.members.timeouts()
    }

    pub(super) fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        self.members.on_error(error, ctx);
    }

    /// Handles a refused flow entry. Returns `true` if the switch had entries of a tree.
    pub(super) fn on_refused(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) -> bool {
        let withheld = self.members.on_refused(error, ctx);
        if let Some(withheld) = withheld {
            let (id, reason, consequence) = (ctx.datapath_id, error.reason, withheld.consequence());
            ctx.network.report(|| {
                format!("switch refused a flow entry of the spanning tree; {consequence} dpid={id} reason=\"{reason}\"")
            });
        }
        withheld.is_some()
    }

    /// The part of the tree that a broadcast to `dst` reaches from `id`, if it is forwarded along the tree.
    pub(super) fn part(
        &mut self,
        id: DatapathId,
        dst: MacAddr,
        network: &Network,
    ) -> Option<Arc<TreePart>> {
        let tree = SpanningTree::of(network.view())?;
        let is_matched = match tree.traffic {
            TreeTraffic::Groups => dst.is_group(),
            TreeTraffic::Broadcast => dst == MacAddr::BROADCAST,
        };
        if is_matched { self.parts.part_of(network.view(), id) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_sdk::view::{Link, RecordFact, SwitchPort};
    use sluice_testkit::run_iterations;

    use super::super::Config;
    use super::super::test_network::{TestLinks, TestNetwork};
    use super::*;

    const CLEAR: SwitchTreeState =
        SwitchTreeState::Clear { generation: 0, traffic: Some(TreeTraffic::Groups) };

    #[test]
    fn a_worker_without_ticks_decides_when_it_is_due() {
        let cfg = Config { flooding: Flooding::Tree, ..Config::default() };
        let mut net = TestNetwork::new(&cfg, &TestLinks::leaf_spine(1, 1), 1);
        let start = net.now + Duration::from_secs(1);
        for (id, ms, has_tree) in [(1, 0, false), (2, 10, false), (2, 99, false), (2, 100, true)] {
            let now = start + Duration::from_millis(ms);
            net.workers[0].network.publish_record(now, DatapathId(id), Some(CLEAR));
            run_iterations(&mut net.workers, now);
            let tree = SpanningTree::of(net.workers[0].network.view());
            assert_eq!(tree.is_some(), has_tree, "after {ms} ms");
        }
    }

    #[test]
    fn the_loss_of_a_link_or_a_switch_of_a_tree_is_urgent() {
        let links = TestLinks::leaf_spine(2, 2);
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        let (now, network) = (net.now, &mut net.workers[0].network);
        let mut trees = Trees::default();
        let [of_tree, other] = [links.pairs[0], links.pairs[3]];
        let link_down = |at: SwitchPort| Fact::Link(at, None);
        let switch_lost = |id| Fact::Record(RecordFact::new::<SwitchTreeState>(id, None));
        for (phase, links_count, switches_count) in [
            (TreePhase::Installing, true, true),
            (TreePhase::Active, true, true),
            (TreePhase::Retiring, true, false),
            (TreePhase::Removing, false, false),
            (TreePhase::Removed, false, false),
        ] {
            let tree = SpanningTree {
                generation: 1,
                phase,
                traffic: TreeTraffic::Groups,
                links: [of_tree].into(),
            };
            network.publish_record(now, (), Some(tree));
            let view = network.view();
            let mut is_urgent = |fact: Fact| trees.is_urgent(&fact, view);
            assert_eq!(of_tree.map(|at| is_urgent(link_down(at))), [links_count; 2], "{phase:?}");
            assert_eq!(other.map(|at| is_urgent(link_down(at))), [false; 2], "{phase:?}");
            let lost = of_tree.map(|at| is_urgent(switch_lost(at.switch)));
            assert_eq!(lost, [switches_count; 2], "{phase:?}");
            assert!(!is_urgent(switch_lost(other[1].switch)), "{phase:?}");
            let moved = Link { from: of_tree[0], to: other[1] };
            let is_moved = is_urgent(Fact::Link(moved.to, Some(moved)));
            assert_eq!(is_moved, links_count, "{phase:?}");
        }
    }
}
