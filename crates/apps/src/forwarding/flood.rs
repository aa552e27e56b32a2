//! Broadcasts: the ports they are flooded to, their rate limit, and detection of broadcasts that come back.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::hash::{HashMap, HashSet, HashState};
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, PortRole, SwitchPort};

use super::routes::Routes;
use super::tree::{self, SpanningTree, StaleTreePort, TreePhase};

/// A broadcast that is received again at another port within this time has looped through an unknown path.
const LOOP_WINDOW: Duration = Duration::from_millis(100);

/// Broadcasts that are remembered to detect loops.
const FRAMES_MAX: usize = 8192;

/// Whether hosts may be attached to a port. Of a shared segment, this is one port only.
pub(super) fn is_edge(view: &NetworkView, at: SwitchPort) -> bool {
    view.port(at).is_some_and(|port| port.is_up)
        && match view.port_role(at) {
            PortRole::Edge => true,
            PortRole::SharedSegment(by) => by == at,
            PortRole::Pending | PortRole::Link => false,
        }
}

/// A switch and its edge ports.
#[derive(Debug)]
pub(super) struct SwitchEdgePorts {
    pub(super) switch: DatapathId,
    pub(super) ports: Vec<PortNo>,
}

/// The ports that broadcasts are flooded to, cached until the view changes.
#[derive(Debug, Default)]
pub(super) struct EdgePortCache {
    versions: Option<(u64, u64)>,
    /// By switch; switches that have a path to each other share an area.
    areas: HashMap<DatapathId, Arc<[SwitchEdgePorts]>>,
}

impl EdgePortCache {
    /// The edge ports of all switches to which there is a path from `id`, including `id` itself.
    ///
    /// # Cost
    /// Visits all of these switches, unless the result is cached.
    pub(super) fn reachable_from(
        &mut self,
        view: &NetworkView,
        routes: &mut Routes,
        id: DatapathId,
    ) -> Arc<[SwitchEdgePorts]> {
        let versions = tree::version(view);
        if self.versions != Some(versions) {
            self.versions = Some(versions);
            self.areas.clear();
        }
        if let Some(area) = self.areas.get(&id) {
            return area.clone();
        }
        let ids = routes.reachable(view, id);
        // No host is behind a port of a tree, nor behind one that leads to a switch which may still forward along an
        // old tree.
        let tree = SpanningTree::of(view).filter(|tree| tree.phase != TreePhase::Removed);
        let links: HashSet<_> = tree.iter().flat_map(|tree| tree.links.iter().flatten()).collect();
        let may_forward = |at| links.contains(&at) || view.record::<StaleTreePort>(at).is_some();
        let is_flooded = |at| is_edge(view, at) && !may_forward(at);
        let edge_ports = |&switch: &DatapathId| {
            let ports = view.switch(switch).into_iter().flat_map(|view| view.ports.keys().copied());
            let ports: Vec<_> =
                ports.filter(|&no| is_flooded(SwitchPort::new(switch, no))).collect();
            (!ports.is_empty()).then_some(SwitchEdgePorts { switch, ports })
        };
        let area: Arc<[_]> = ids.iter().filter_map(edge_ports).collect();
        for id in ids {
            self.areas.insert(id, area.clone());
        }
        area
    }
}

/// Decision about a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloodDecision {
    /// Flood it.
    Flood,
    /// Drop it: its port has reached the limit.
    LimitExceeded,
    /// Drop it: it was received at another port just before.
    Looped,
}

/// Limits the rate of floods, and detects broadcasts that loop.
#[derive(Debug, Default)]
pub(super) struct FloodFilter {
    /// Start of the current second and floods in it, by ingress port.
    counts: HashMap<SwitchPort, (Instant, u32)>,
    hash_state: HashState,
    seen: HashMap<u64, (SwitchPort, Instant)>,
    order: VecDeque<u64>,
}

impl FloodFilter {
    /// Decides about a broadcast received at `at`.
    ///
    /// # Cost
    /// Hashes the whole frame.
    pub(super) fn check(
        &mut self,
        at: SwitchPort,
        frame: &[u8],
        now: Instant,
        per_s_max: u32,
    ) -> FloodDecision {
        let (since, count) = self.counts.entry(at).or_insert((now, 0));
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        if *count >= per_s_max {
            return FloodDecision::LimitExceeded;
        }
        *count += 1;
        let hash = self.hash_state.hash_one(frame);
        if let Some(&(port, time)) = self.seen.get(&hash)
            && now.saturating_duration_since(time) < LOOP_WINDOW
        {
            return if port == at { FloodDecision::Flood } else { FloodDecision::Looped };
        }
        if self.seen.insert(hash, (at, now)).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > FRAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        FloodDecision::Flood
    }

    /// Removes the counts of ports that have sent no broadcast for a while.
    pub(super) fn sweep(&mut self, now: Instant) {
        let is_old = |since: Instant| now.saturating_duration_since(since) > Duration::from_secs(1);
        self.counts.retain(|_, (since, _)| !is_old(*since));
    }
}
