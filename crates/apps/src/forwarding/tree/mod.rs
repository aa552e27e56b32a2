//! Broadcasts along a spanning tree: switches forward them by flow entries, from link to link and to edge ports.
//!
//! Only frames that come in from a link match these entries. A broadcast from an edge port goes to the controller, which
//! learns from it, counts and limits it, and sends it into the tree by one `PACKET_OUT` to its own switch.
//! `docs/adr/0009-trees.md` has the reasons, and why there are no loops.

mod coordinator;
mod forest;
mod member;
mod reach;
mod rules;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, MacAddr, MultipartType};
use sluice_sdk::view::Fact;
use sluice_sdk::{Ctx, Network, SwitchIndex};

use coordinator::Coordinator;
use member::Members;
pub(super) use reach::Part;
use reach::Reach;
pub(super) use rules::is_ours;
pub(super) use state::version;
pub use state::{SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};

/// How broadcasts reach all edge ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flooding {
    /// The controller sends a `PACKET_OUT` to each switch.
    Controller,
    /// The controller sends one `PACKET_OUT` to the first switch, and switches forward along a spanning tree.
    Tree,
}

/// Time passes four times a second for a worker that has switches.
const IDLE: Duration = Duration::from_secs(1);

/// All that this worker knows and does about trees.
#[derive(Debug, Default)]
pub(super) struct Trees {
    coordinator: Coordinator,
    members: Members,
    reach: Reach,
    passed: Option<Instant>,
}

impl Trees {
    pub(super) fn on_time(&mut self, now: Instant) {
        self.members.on_time(now);
    }

    pub(super) fn up(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        self.members.up(flooding, ctx);
    }

    /// Hears what a switch was asked.
    pub(super) fn reply(&mut self, xid: u32, kind: MultipartType, body: &[u8], ctx: &mut Ctx<'_>) {
        self.members.reply(xid, kind, body, ctx);
    }

    pub(super) fn down(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.members.down(sw, now, network);
    }

    /// Lets time pass for a switch.
    pub(super) fn time_passes(&mut self, flooding: Flooding, ctx: &mut Ctx<'_>) {
        self.members.time_passes(flooding, ctx);
        // Once for all switches.
        if self.passed != Some(ctx.now) {
            self.passed = Some(ctx.now);
            self.coordinator.look(flooding, ctx.now, ctx.network);
        }
    }

    pub(super) fn told(
        &mut self,
        fact: &Fact,
        flooding: Flooding,
        now: Instant,
        network: &mut Network,
    ) {
        self.members.told(fact, now, network);
        let is_urgent = match fact {
            Fact::Link(to, _) => {
                SpanningTree::of(network.view()).is_some_and(|tree| tree.has_end(*to))
            }
            _ => fact.record::<SwitchTreeState>().is_some_and(|(_, state)| state.is_none()),
        };
        // A worker without switches hears of time by what others tell alone.
        let is_idle = self.passed.is_none_or(|at| now.saturating_duration_since(at) >= IDLE);
        if is_urgent || is_idle {
            self.coordinator.look(flooding, now, network);
        }
    }

    pub(super) fn barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.members.barrier_reply(xid, ctx);
    }

    /// Whether a tree stands: of all workers, one says so.
    pub(super) fn stands(&self) -> bool {
        self.coordinator.stands()
    }

    /// Switches of this worker that keep a tree from standing, since they do not confirm what they were told.
    pub(super) fn silent(&self) -> usize {
        self.members.silent()
    }

    /// A switch refused a rule of the tree. Whether that is news.
    pub(super) fn refused(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) -> bool {
        let is_news = self.members.refused(ctx);
        if is_news {
            let (id, reason) = (ctx.datapath_id, error.reason);
            ctx.network.report(|| {
                format!("{id} refused a flow entry of the spanning tree ({reason}): the controller sends broadcasts to it")
            });
        }
        is_news
    }

    /// The part of the tree that a frame to `dst` reaches from `id`, if it goes along the tree.
    pub(super) fn part(
        &mut self,
        id: DatapathId,
        dst: MacAddr,
        network: &Network,
    ) -> Option<Arc<Part>> {
        let tree = SpanningTree::of(network.view())?;
        let fits = match tree.traffic {
            TreeTraffic::Groups => dst.is_group(),
            TreeTraffic::Broadcast => dst == MacAddr::BROADCAST,
        };
        if fits { self.reach.of(network.view(), id) } else { None }
    }
}
