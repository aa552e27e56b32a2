//! Broadcasts: the ports they are flooded to, their rate limit, and detection of broadcasts that come back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, PortRole, SwitchPort};

use super::routes::Routes;
use super::tree::{self, SpanningTree, StaleTreePort, TreePhase};

/// A frame that is seen again elsewhere within this time came round by a way that we do not know.
const ROUND: Duration = Duration::from_millis(100);

/// Frames that are remembered for that.
const FRAMES_MAX: usize = 8192;

/// Whether hosts are reached through a port, by this port alone.
pub(super) fn is_edge(view: &NetworkView, at: SwitchPort) -> bool {
    view.port(at).is_some_and(|port| port.is_up)
        && match view.port_role(at) {
            PortRole::Edge => true,
            PortRole::SharedSegment(by) => by == at,
            PortRole::Pending | PortRole::Link => false,
        }
}

/// A switch, and its ports to hosts.
#[derive(Debug)]
pub(super) struct Outlets {
    pub(super) switch: DatapathId,
    pub(super) ports: Vec<PortNo>,
}

/// Ports that broadcasts are flooded to, cached until the view changes.
#[derive(Debug, Default)]
pub(super) struct Edges {
    versions: Option<(u64, u64)>,
    /// By any of the switches that have ways to one another.
    areas: HashMap<DatapathId, Arc<[Outlets]>>,
}

impl Edges {
    /// The ports to hosts of all switches to which there is a way from `id`, itself included.
    ///
    /// # Cost
    /// Looks at all of these switches, unless that was done since the view changed.
    pub(super) fn of(
        &mut self,
        view: &NetworkView,
        routes: &mut Routes,
        id: DatapathId,
    ) -> Arc<[Outlets]> {
        let versions = tree::version(view);
        if self.versions != Some(versions) {
            self.versions = Some(versions);
            self.areas.clear();
        }
        if let Some(area) = self.areas.get(&id) {
            return area.clone();
        }
        let ids = routes.area(view, id);
        // What leads to a switch that may still pass on what comes in is for no host.
        let tree = SpanningTree::of(view).filter(|tree| tree.phase != TreePhase::Removed);
        let links: HashSet<_> = tree.iter().flat_map(|tree| tree.links.iter().flatten()).collect();
        let is_open = |at| links.contains(&at) || view.record::<StaleTreePort>(at).is_some();
        let is_outlet = |at| is_edge(view, at) && !is_open(at);
        let outlets = |&switch: &DatapathId| {
            let ports = view.switch(switch).into_iter().flat_map(|view| view.ports.keys().copied());
            let ports: Vec<_> =
                ports.filter(|&no| is_outlet(SwitchPort::new(switch, no))).collect();
            (!ports.is_empty()).then_some(Outlets { switch, ports })
        };
        let area: Arc<[_]> = ids.iter().filter_map(outlets).collect();
        for id in ids {
            self.areas.insert(id, area.clone());
        }
        area
    }
}

/// Whether a frame is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is.
    Flood,
    /// It is one of too many that came in there.
    TooMany,
    /// It was seen elsewhere just now.
    CameRound,
}

/// What was flooded lately.
#[derive(Debug, Default)]
pub(super) struct Floods {
    /// By where they came in: in which second, and how many.
    counts: HashMap<SwitchPort, (Instant, u32)>,
    seeds: RandomState,
    seen: HashMap<u64, (SwitchPort, Instant)>,
    order: VecDeque<u64>,
}

impl Floods {
    /// Judges a frame that came in `at`.
    ///
    /// # Cost
    /// Reads the whole frame.
    pub(super) fn judge(
        &mut self,
        at: SwitchPort,
        frame: &[u8],
        now: Instant,
        per_s_max: u32,
    ) -> Verdict {
        let (since, count) = self.counts.entry(at).or_insert((now, 0));
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        if *count >= per_s_max {
            return Verdict::TooMany;
        }
        *count += 1;
        let hash = self.seeds.hash_one(frame);
        if let Some(&(place, when)) = self.seen.get(&hash)
            && now.saturating_duration_since(when) < ROUND
        {
            return if place == at { Verdict::Flood } else { Verdict::CameRound };
        }
        if self.seen.insert(hash, (at, now)).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > FRAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        Verdict::Flood
    }

    /// Forgets the counts of ports at which nothing came in for a while.
    pub(super) fn sweep(&mut self, now: Instant) {
        let is_old = |since: Instant| now.saturating_duration_since(since) > Duration::from_secs(1);
        self.counts.retain(|_, (since, _)| !is_old(*since));
    }
}
