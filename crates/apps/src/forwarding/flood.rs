//! Broadcasts: the ports they are flooded to, their rate limit, and detection of broadcasts that come back.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_base::hash::{HashMap, HashState};
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{AppEvent, IsolatedPort, NetworkView, SuspectedConnection, SwitchPort};

use super::multicast::PortFilter;
use super::tree::{SpanningTree, StaleTreePort, TreePart, TreePorts};
use crate::rate_limit::{RateLimit, admit_after};
use sluice_sdk::routes::Routes;

/// A broadcast that is received again at another port within this time has looped through an unknown path.
const LOOP_WINDOW: Duration = Duration::from_millis(100);

/// A broadcast that is received so often, each time within [`REPEAT_TIME`] after the last, circulates through unknown paths, be it
/// slowly, and is not flooded until it has not been received for this time.
const REPEATS_MAX: u32 = 16;
const REPEAT_TIME: Duration = Duration::from_secs(1);

/// Broadcasts that are remembered to detect loops.
const FRAMES_MAX: usize = 8192;

/// Whether hosts may be attached to a port. Of a shared segment or a bundle, this is one port only.
pub(super) fn is_edge(view: &NetworkView, at: SwitchPort) -> bool {
    view.port(at).is_some_and(|port| port.is_up && port.role.attachment_port(at) == Some(at))
}

/// Whether packets are flooded to a port: hosts may be attached to it, and not only one that is in quarantine.
pub(super) fn is_flooded(view: &NetworkView, at: SwitchPort) -> bool {
    is_edge(view, at) && !view.is_isolated(at)
}

/// A switch and its edge ports.
#[derive(Debug)]
struct SwitchEdgePorts {
    switch: DatapathId,
    ports: Arc<[PortNo]>,
}

/// The edge ports of switches that have a path to each other.
#[derive(Debug, Default)]
pub(super) struct ReachableEdgePorts {
    /// All switches, those without edge ports included.
    switch_count: usize,
    /// By datapath id.
    edge_ports: Vec<SwitchEdgePorts>,
}

/// The ports that broadcasts are flooded to, cached until what they depend on changes.
#[derive(Debug, Default)]
pub(super) struct EdgePortCache {
    /// The versions of the view and of the records.
    versions: Option<(u64, RecordVersions)>,
    /// By switch.
    areas: HashMap<DatapathId, Arc<ReachableEdgePorts>>,
    /// The edge ports of each switch, with the version of the switch.
    edge_ports: HashMap<DatapathId, (u64, Arc<[PortNo]>)>,
}

/// The versions of the records that edge ports depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordVersions([u64; 3]);

impl RecordVersions {
    fn of(view: &NetworkView) -> Self {
        Self([
            view.records_version::<SpanningTree>(),
            view.records_version::<StaleTreePort>(),
            view.records_version::<IsolatedPort>(),
        ])
    }
}

impl EdgePortCache {
    /// The edge ports of all switches to which there is a path from `id`, including `id` itself. `tree` are the ports at links of the
    /// spanning tree, unless its flow entries were removed.
    ///
    /// # Cost
    /// Visits all of these switches, and the ports of those that have changed, unless the result is cached.
    pub(super) fn reachable_from(
        &mut self,
        view: &NetworkView,
        routes: &mut Routes,
        tree: Option<&TreePorts>,
        id: DatapathId,
    ) -> Arc<ReachableEdgePorts> {
        let records = RecordVersions::of(view);
        let before = self.versions.replace((view.version(), records));
        if before != self.versions {
            self.areas.clear();
        }
        if before.is_none_or(|(_, before)| before != records) {
            self.edge_ports.clear();
        }
        if let Some(area) = self.areas.get(&id) {
            return area.clone();
        }
        let ids = routes.reachable(view, id);
        let edge_ports = ids.iter().map(|&switch| {
            let ports = self.edge_ports_of(view, tree, switch);
            SwitchEdgePorts { switch, ports }
        });
        let edge_ports = edge_ports.filter(|edge| !edge.ports.is_empty()).collect();
        let area = Arc::new(ReachableEdgePorts { switch_count: ids.len(), edge_ports });
        self.areas.extend(ids.into_iter().map(|id| (id, area.clone())));
        if self.edge_ports.len() > view.switch_count() {
            self.edge_ports.retain(|&id, _| view.switch(id).is_some());
        }
        area
    }

    fn edge_ports_of(
        &mut self,
        view: &NetworkView,
        tree: Option<&TreePorts>,
        id: DatapathId,
    ) -> Arc<[PortNo]> {
        let version = view.switch_version(id);
        if let Some((known, ports)) = self.edge_ports.get(&id)
            && *known == version
        {
            return ports.clone();
        }
        // No host is behind a port of a tree, nor behind one that leads to a switch which may still forward along an
        // old tree.
        let may_forward = |at| {
            tree.is_some_and(|tree| tree.contains(at)) || view.record::<StaleTreePort>(at).is_some()
        };
        let is_reached = |at| is_flooded(view, at) && !may_forward(at);
        let ports = view.switch(id).into_iter().flat_map(|switch| switch.ports.keys().copied());
        let ports: Arc<[_]> = ports.filter(|&no| is_reached(SwitchPort::new(id, no))).collect();
        self.edge_ports.insert(id, (version, ports.clone()));
        ports
    }
}

/// Where a packet is flooded to from a switch.
#[derive(Debug)]
pub(super) struct FloodArea {
    pub(super) here: DatapathId,
    pub(super) area: Arc<ReachableEdgePorts>,
    /// The switches that the packet reaches along the spanning tree.
    pub(super) tree_part: Option<Arc<TreePart>>,
    /// The edge ports that get it; `None` for all.
    pub(super) filter: Option<PortFilter>,
}

impl FloodArea {
    /// The ports of this switch: edge ports, and those at links of the tree.
    pub(super) fn local_ports(&self) -> impl Iterator<Item = PortNo> {
        let all = &self.area.edge_ports;
        let edges = all.binary_search_by_key(&self.here, |edge| edge.switch).ok();
        let links = self.tree_part.iter().flat_map(|part| part.ports(self.here));
        let edges = edges.and_then(|at| all.get(at)).into_iter();
        edges.flat_map(|edge| self.admitted_ports(edge)).chain(links.copied())
    }

    /// The edge ports of other switches that the tree does not reach.
    ///
    /// # Cost
    /// Visits all switches, unless the tree reaches all of them.
    pub(super) fn others(&self) -> impl Iterator<Item = (DatapathId, Vec<PortNo>)> {
        let part = self.tree_part.as_deref();
        // Switches that the tree connects have paths to each other.
        let are_all_reached = part.is_some_and(|it| it.switch_count() == self.area.switch_count);
        let all: &[_] = if are_all_reached { &[] } else { &self.area.edge_ports };
        let is_reached = move |id| id == self.here || part.is_some_and(|part| part.contains(id));
        let others = all.iter().filter(move |edge| !is_reached(edge.switch));
        let others = others.map(|edge| (edge.switch, self.admitted_ports(edge).collect()));
        others.filter(|(_, ports): &(_, Vec<_>)| !ports.is_empty())
    }

    fn admitted_ports(&self, edge: &SwitchEdgePorts) -> impl Iterator<Item = PortNo> {
        let admits = |port| {
            let at = SwitchPort::new(edge.switch, port);
            self.filter.as_ref().is_none_or(|filter| filter.admits(at))
        };
        edge.ports.iter().copied().filter(move |&port| admits(port))
    }
}

/// Decision about a broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FloodDecision {
    /// Flood it, and tell the other workers of the frame, unless it was flooded just before.
    Flood(Option<FloodedFrame>),
    /// Drop it: its port has reached the limit.
    LimitExceeded,
    /// Drop it: it was received many times within a short time, last at this port.
    Repeated(SwitchPort),
    /// Drop it: it was received at this other port just before.
    Looped(SwitchPort),
}

/// Interval at which drops of a kind are logged for one port.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Ports and kinds of drops of which the last log line is remembered. Drops at others are not logged meanwhile.
const REPORTS_MAX: usize = 1024;

/// Shortest time between two events about broadcasts that loop to one port.
const LOOP_EVENT_INTERVAL: Duration = Duration::from_millis(100);

/// Ports with such an event within this time: each event is sent to all workers.
const LOOP_EVENTS_MAX: usize = 64;

/// A worker has flooded a frame, so that the others notice if it comes back to one of their switches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FloodedFrame {
    hash: u64,
    at: SwitchPort,
}

impl AppEvent for FloodedFrame {}

/// A broadcast that was received.
#[derive(Debug, Clone, Copy)]
struct SeenFrame {
    /// The port at which it was flooded from last.
    at: SwitchPort,
    last: Instant,
    count: u32,
}

impl SeenFrame {
    fn is_within(&self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < time
    }
}

/// Limits the rate of floods, and detects broadcasts that loop.
#[derive(Debug, Default)]
pub(super) struct FloodFilter {
    /// Floods, by ingress port.
    rates: HashMap<SwitchPort, RateLimit>,
    /// The same in all workers.
    hash_state: HashState,
    seen: HashMap<u64, SeenFrame>,
    order: VecDeque<u64>,
    /// When a drop was logged last, by kind and port: a host that provokes drops at its port does not hide those at others.
    reported: HashMap<(DropKind, SwitchPort), Instant>,
    /// When there was an event about a loop last, by port.
    loop_events: HashMap<SwitchPort, Instant>,
}

/// Why a broadcast is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum DropKind {
    Rate,
    Repetition,
    Loop,
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
        if !self.rates.entry(at).or_default().admit(per_s_max, now) {
            return FloodDecision::LimitExceeded;
        }
        let hash = self.hash_state.hash_one(frame);
        let new = SeenFrame { at, last: now, count: 1 };
        let Some(seen) = self.seen.get_mut(&hash).filter(|seen| seen.is_within(REPEAT_TIME, now))
        else {
            self.remember(hash, new);
            return FloodDecision::Flood(Some(FloodedFrame { hash, at }));
        };
        let is_recent = seen.is_within(LOOP_WINDOW, now);
        (seen.last, seen.count) = (now, seen.count.saturating_add(1));
        if seen.count > REPEATS_MAX {
            return FloodDecision::Repeated(seen.at);
        }
        if seen.at == at {
            return FloodDecision::Flood(None);
        }
        if is_recent {
            return FloodDecision::Looped(seen.at);
        }
        seen.at = at;
        FloodDecision::Flood(Some(FloodedFrame { hash, at }))
    }

    /// Remembers a frame that this or another worker has flooded.
    pub(super) fn on_flooded(&mut self, FloodedFrame { hash, at }: FloodedFrame, now: Instant) {
        match self.seen.get_mut(&hash) {
            Some(seen) if seen.is_within(REPEAT_TIME, now) => {
                if seen.at != at {
                    (seen.at, seen.last, seen.count) = (at, now, seen.count.saturating_add(1));
                }
            }
            _ => self.remember(hash, SeenFrame { at, last: now, count: 1 }),
        }
    }

    fn remember(&mut self, hash: u64, frame: SeenFrame) {
        if self.seen.insert(hash, frame).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > FRAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }

    /// The log line about a packet from `at` that is dropped, unless there was one of its kind about this port just before.
    pub(super) fn report(
        &mut self,
        decision: FloodDecision,
        at: SwitchPort,
        per_s_max: u32,
        now: Instant,
    ) -> Option<String> {
        let SwitchPort { switch, port } = at;
        let (kind, line) = match decision {
            FloodDecision::Flood(_) => return None,
            FloodDecision::LimitExceeded => (
                DropKind::Rate,
                format!(
                    "port sends more than {per_s_max} broadcasts and packets to unknown hosts per second; more are dropped dpid={switch} port={port}"
                ),
            ),
            FloodDecision::Repeated(other) => (
                DropKind::Repetition,
                format!(
                    "the same broadcast is received again and again and is dropped; it circulates through unknown paths, or its source repeats it dpid={switch} port={port} last_dpid={} last_port={}",
                    other.switch, other.port
                ),
            ),
            FloodDecision::Looped(other) => (
                DropKind::Loop,
                format!(
                    "broadcast returned at another port and is dropped; hosts or unmanaged segments connect the two ports dpid={switch} port={port} first_dpid={} first_port={}",
                    other.switch, other.port
                ),
            ),
        };
        admit_after(REPORT_INTERVAL, REPORTS_MAX, &mut self.reported, (kind, at), now)
            .then_some(line)
    }

    /// The event about a broadcast that looped to `at`, unless there was one about this port just before.
    pub(super) fn loop_event(
        &mut self,
        decision: FloodDecision,
        at: SwitchPort,
        now: Instant,
    ) -> Option<SuspectedConnection> {
        let (FloodDecision::Looped(other) | FloodDecision::Repeated(other)) = decision else {
            return None;
        };
        admit_after(LOOP_EVENT_INTERVAL, LOOP_EVENTS_MAX, &mut self.loop_events, at, now)
            .then_some(SuspectedConnection { ports: [other, at] })
    }

    /// Removes the counts of ports that have sent no broadcast for a while.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.rates.retain(|_, rate| !rate.is_over(now));
        self.reported.retain(|_, at| now.saturating_duration_since(*at) < REPORT_INTERVAL);
        self.loop_events.retain(|_, at| now.saturating_duration_since(*at) < LOOP_EVENT_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use sluice_sdk::view::{Fact, PortInfo, RecordFact};

    use super::*;
    use crate::forwarding::Config;
    use crate::forwarding::test_network::{HOST, TestLinks, TestNetwork, host};

    #[test]
    fn drops_are_logged_with_their_ports_and_not_too_often() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let [a, b] =
            [1, 2].map(|id| SwitchPort::new(DatapathId(id), PortNo(id.try_into().unwrap())));
        let mut filter = FloodFilter::default();
        let mut log = |at, n: u8, s| {
            let now = start + Duration::from_secs(s);
            let decision = filter.check(at, &[n], now, 2);
            filter.report(decision, at, 2, now)
        };
        assert_eq!([log(a, 1, 0), log(a, 2, 0)], [None, None]);
        let line = log(a, 3, 0).unwrap();
        assert!(
            line.contains("more than 2") && line.ends_with("dpid=0000000000000001 port=1"),
            "{line}"
        );
        assert_eq!(log(a, 4, 0), None);
        let line = log(b, 1, 0).unwrap();
        assert!(
            line.contains("returned") && line.ends_with("first_dpid=0000000000000001 first_port=1"),
            "{line}"
        );
        assert_eq!(log(b, 2, 0), None);
        assert_eq!([log(a, 5, 10), log(a, 6, 10)], [None, None]);
        assert!(log(a, 7, 10).is_some());
    }

    /// Otherwise a host could hide where another loop is, and delay the probes that find it.
    #[test]
    fn drops_that_a_host_provokes_do_not_hide_a_loop_at_another_port() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let [liar, other, a, b] =
            [1, 2, 3, 4].map(|port| SwitchPort::new(DatapathId(1), PortNo(port)));
        let mut filter = FloodFilter::default();
        let mut send = |at, frame: &[u8]| {
            let decision = filter.check(at, frame, now, 1000);
            let line = filter.report(decision, at, 1000, now);
            (line.is_some(), filter.loop_event(decision, at, now))
        };
        let event = |ports| Some(SuspectedConnection { ports });
        assert_eq!(send(other, b"lie"), (false, None));
        assert_eq!(send(liar, b"lie"), (true, event([other, liar])));
        assert_eq!(send(liar, b"lie"), (false, None), "not too often");
        assert_eq!(send(a, b"loop"), (false, None));
        assert_eq!(send(b, b"loop"), (true, event([a, b])));
    }

    #[test]
    fn the_ports_whose_drops_are_logged_are_bounded() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let mut filter = FloodFilter::default();
        let decision = FloodDecision::LimitExceeded;
        let mut lines = |now, ports: std::ops::Range<u32>| {
            let at = |port| SwitchPort::new(DatapathId(1), PortNo(port));
            ports.filter(|&port| filter.report(decision, at(port), 1, now).is_some()).count()
        };
        assert_eq!(lines(now, 0..2000), REPORTS_MAX);
        assert_eq!(filter.reported.len(), REPORTS_MAX);
        filter.sweep(now + REPORT_INTERVAL);
        assert_eq!(filter.reported.len(), 0);
    }

    /// Over a slow control link it returns later than [`LOOP_WINDOW`], and through a segment that is not known yet at the port at
    /// which it was received first.
    #[test]
    fn a_broadcast_that_circulates_slowly_ends() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let ports = [1, 2].map(|n| SwitchPort::new(DatapathId(n), PortNo(1)));
        for ports in [[ports[0]; 2], ports] {
            let mut filter = FloodFilter::default();
            let mut floods = |from: u32, to| {
                let receive = |&n: &u32| {
                    let now = start + Duration::from_millis(150) * n;
                    let at = ports[usize::from(n % 2 == 1)];
                    matches!(filter.check(at, b"frame", now, 1000), FloodDecision::Flood(_))
                };
                (from..to).filter(receive).count()
            };
            assert_eq!(floods(0, 100), REPEATS_MAX as usize);
            assert_eq!(floods(110, 111), 1, "its source sends it again");
        }
    }

    #[test]
    fn a_broadcast_that_returns_at_a_switch_of_another_worker_is_dropped() {
        let mut links = TestLinks { switches: 2, pairs: Vec::new() };
        links.add(1, 2);
        let mut net = TestNetwork::new(&Config::default(), &links, 2);
        let [first, second] = [1, 2].map(|n| SwitchPort::new(DatapathId(n), HOST));
        let frame = [&[0xff; 6][..], &host(1).mac.0, &[0x88, 0xb8, 0x55, 0x55]].concat();
        net.packet_in(first, &frame);
        assert_eq!(net.sent, [second]);
        net.packet_in(second, &frame);
        assert_eq!(net.sent, [second], "not sent back");
        net.packet_in(first, &frame);
        assert_eq!(net.sent, [second, second], "its source sends it again");
    }

    /// In a network of a thousand switches, the ports of all of them would be visited again.
    #[test]
    fn a_change_at_one_switch_leaves_the_edge_ports_of_others_cached() {
        let links = TestLinks::leaf_spine(1, 3);
        let mut net = TestNetwork::new(&Config::default(), &links, 1);
        let (mut cache, mut routes) = (EdgePortCache::default(), Routes::default());
        let mut area = |net: &TestNetwork| {
            cache.reachable_from(net.workers[0].network.view(), &mut routes, None, DatapathId(1))
        };
        let before = area(&net);
        assert_eq!((before.switch_count, before.edge_ports.len()), (4, 4));
        let at = SwitchPort::new(DatapathId(3), HOST);
        let port = net.workers[0].network.view().port(at).unwrap().clone();
        net.publish(&Fact::Port(at, Some(PortInfo { is_up: false, ..port })));
        let after = area(&net);
        let switches: Vec<_> = after.edge_ports.iter().map(|edge| edge.switch.0).collect();
        assert_eq!((after.switch_count, &switches[..]), (4, &[1, 2, 4][..]));
        for edge in &after.edge_ports {
            let known = before.edge_ports.iter().find(|it| it.switch == edge.switch).unwrap();
            assert!(Arc::ptr_eq(&known.ports, &edge.ports), "{edge:?}");
        }
        assert!(Arc::ptr_eq(&area(&net), &after));
    }

    #[test]
    fn nothing_is_flooded_to_an_isolated_port() {
        let links = TestLinks::leaf_spine(1, 3);
        let mut net = TestNetwork::new(&Config::default(), &links, 2);
        let isolated = net.location(3);
        let mut count = 0;
        let mut reaches = |net: &mut TestNetwork| {
            count += 1;
            let frame = [&[0xff; 6][..], &host(1).mac.0, &[0x88, 0xb8, 0x55, count]].concat();
            net.sent.clear();
            net.packet_in(net.location(1), &frame);
            assert!(net.sent.contains(&net.location(2)), "{:?}", net.sent);
            net.sent.contains(&isolated)
        };
        assert!(reaches(&mut net));
        let set = |value| Fact::Record(RecordFact::new(isolated, value));
        net.publish(&set(Some(IsolatedPort)));
        assert!(!reaches(&mut net));
        net.publish(&set(None));
        assert!(reaches(&mut net));
    }
}
