//! Shortest paths between switches.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sluice_base::{HashMap, Rng};
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{Cable, NetworkView, SwitchPort};

/// Cached distances, over all destinations: 16 MiB. When there are more, the cache is cleared.
const DISTANCES_MAX: usize = 4 << 20;

/// Distance of a switch from which there is no path.
const UNREACHABLE: u32 = u32::MAX;

/// Length of a link that is to carry no traffic: longer than any path over others, so that it is used only where there is no other
/// path. A path may have as many of them as [`DRAINED_CABLES_MAX`](sluice_sdk::view::DRAINED_CABLES_MAX).
const DRAINED_LENGTH: u32 = 1 << 20;

const _: () =
    assert!((sluice_sdk::view::DRAINED_CABLES_MAX as u64) < (UNREACHABLE / DRAINED_LENGTH) as u64);

/// A switch on a path, and its two ports on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) switch: DatapathId,
    pub(super) in_port: PortNo,
    pub(super) out_port: PortNo,
}

impl Hop {
    /// The ingress port and the output port.
    pub(super) const fn ports(self) -> [PortNo; 2] {
        [self.in_port, self.out_port]
    }
}

/// How one of several paths of equal length is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathChoice {
    /// By this hash; both directions use the same path.
    Symmetric(u64),
    /// By this hash; all paths to a destination form a tree.
    PerDestination(u64),
}

/// The outgoing direction of a link of a switch.
#[derive(Debug, Clone, Copy)]
struct OutLink {
    to: usize,
    out_port: PortNo,
    in_port: PortNo,
    /// 1, or [`DRAINED_LENGTH`].
    length: u32,
}

/// Shortest paths over links that are known in both directions, between connected switches. Links that are to carry no traffic are
/// avoided.
///
/// Distances are computed on demand, and cached until the view changes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    version: Option<(u64, u64)>,
    ids: Vec<DatapathId>,
    index_of: HashMap<DatapathId, usize>,
    out_links: Vec<Vec<OutLink>>,
    /// Whether some link is longer than others.
    has_drained: bool,
    /// By destination.
    distances: HashMap<usize, Vec<u32>>,
}

impl Routes {
    /// The path from an ingress port to an egress port; `None` if there is none.
    ///
    /// # Cost
    /// Computes the distances of all switches to the last one, unless they are cached.
    pub(super) fn path(
        &mut self,
        view: &NetworkView,
        from: SwitchPort,
        to: SwitchPort,
        choice: PathChoice,
    ) -> Option<Vec<Hop>> {
        self.refresh(view);
        match choice {
            PathChoice::Symmetric(hash) if from.switch > to.switch => {
                let mut hops = self.walk(to, from, hash)?;
                hops.reverse();
                for hop in &mut hops {
                    std::mem::swap(&mut hop.in_port, &mut hop.out_port);
                }
                Some(hops)
            }
            PathChoice::Symmetric(hash) | PathChoice::PerDestination(hash) => {
                self.walk(from, to, hash)
            }
        }
    }

    /// The length of the path between two switches: smaller for each that is nearer to `to`. `None` if there is no path.
    pub(super) fn distance(
        &mut self,
        view: &NetworkView,
        from: DatapathId,
        to: DatapathId,
    ) -> Option<u32> {
        self.refresh(view);
        let (&from, &to) = (self.index_of.get(&from)?, self.index_of.get(&to)?);
        let distance = self.distances(to).get(from).copied();
        distance.filter(|&distance| distance != UNREACHABLE)
    }

    /// All switches to which there is a path from `id`, including `id` itself.
    pub(super) fn reachable(&mut self, view: &NetworkView, id: DatapathId) -> Vec<DatapathId> {
        self.refresh(view);
        let Some(&current) = self.index_of.get(&id) else { return Vec::new() };
        let distances = self.distances(current);
        let reached: Vec<_> = distances.iter().map(|&distance| distance != UNREACHABLE).collect();
        let all = self.ids.iter().zip(reached);
        all.filter_map(|(&id, reached)| reached.then_some(id)).collect()
    }

    fn refresh(&mut self, view: &NetworkView) {
        let version = view.path_version();
        if self.version == Some(version) {
            return;
        }
        *self = Self { version: Some(version), ..Self::default() };
        self.ids.extend(view.switches().map(|(id, _)| id));
        self.index_of = self.ids.iter().enumerate().map(|(n, &id)| (id, n)).collect();
        let index_of = &self.index_of;
        let has_drained = view.drained_cables().next().is_some();
        self.has_drained = has_drained;
        self.out_links.extend(self.ids.iter().map(|&id| {
            let there = view.links_of(id).filter_map(|link| {
                let &to = index_of.get(&link.to.switch)?;
                let is_drained = has_drained && view.is_drained(Cable::from(link));
                let length = if is_drained { DRAINED_LENGTH } else { 1 };
                Some(OutLink { to, out_port: link.from.port, in_port: link.to.port, length })
            });
            there.collect()
        }));
    }

    fn walk(&mut self, from: SwitchPort, to: SwitchPort, hash: u64) -> Option<Vec<Hop>> {
        let (&first, &last) = (self.index_of.get(&from.switch)?, self.index_of.get(&to.switch)?);
        self.distances(last);
        let (ids, out_links, distances) = (&self.ids, &self.out_links, self.distances.get(&last)?);
        let (mut current, mut in_port, mut hops) = (first, from.port, Vec::new());
        while current != last {
            let (&distance, &switch) = (distances.get(current)?, ids.get(current)?);
            if distance == UNREACHABLE {
                return None;
            }
            let is_nearer = |link: &&OutLink| {
                let left = distances.get(link.to).and_then(|left| left.checked_add(link.length));
                left == Some(distance)
            };
            let next = || out_links.get(current).into_iter().flatten().filter(is_nearer);
            let n_choices = u32::try_from(next().count()).unwrap_or(u32::MAX);
            let chosen = Rng::new(hash ^ switch.0.rotate_left(32)).below(n_choices);
            let link = next().nth(usize::try_from(chosen).unwrap_or(0))?;
            hops.push(Hop { switch, in_port, out_port: link.out_port });
            (current, in_port) = (link.to, link.in_port);
        }
        hops.push(Hop { switch: to.switch, in_port, out_port: to.port });
        Some(hops)
    }

    /// The length of the path from each switch to `to`.
    fn distances(&mut self, to: usize) -> &[u32] {
        if (self.distances.len() + 1) * self.ids.len() > DISTANCES_MAX
            && !self.distances.contains_key(&to)
        {
            self.distances.clear();
        }
        let (n_switches, out_links) = (self.ids.len(), &self.out_links);
        let has_drained = self.has_drained;
        self.distances.entry(to).or_insert_with(|| {
            if has_drained {
                distances_by_length(n_switches, out_links, to)
            } else {
                distances_by_count(n_switches, out_links, to)
            }
        })
    }
}

/// The number of links between each switch and `to`, if all have the same length.
fn distances_by_count(n_switches: usize, out_links: &[Vec<OutLink>], to: usize) -> Vec<u32> {
    let mut distances = vec![UNREACHABLE; n_switches];
    let mut next = VecDeque::from([(to, 0)]);
    while let Some((current, distance)) = next.pop_front() {
        match distances.get_mut(current) {
            Some(known) if *known == UNREACHABLE => *known = distance,
            _ => continue,
        }
        // Links work in both directions, so the switches they lead to are those from which `to` is reached.
        let links = out_links.get(current).into_iter().flatten();
        next.extend(links.map(|link| (link.to, distance + 1)));
    }
    distances
}

/// As [`distances_by_count`], for links of different lengths.
fn distances_by_length(n_switches: usize, out_links: &[Vec<OutLink>], to: usize) -> Vec<u32> {
    let mut distances = vec![UNREACHABLE; n_switches];
    let mut next = BinaryHeap::from([Reverse((0_u32, to))]);
    while let Some(Reverse((distance, current))) = next.pop() {
        match distances.get_mut(current) {
            Some(known) if *known == UNREACHABLE => *known = distance,
            _ => continue,
        }
        let links = out_links.get(current).into_iter().flatten();
        let farther = links.map(|link| Reverse((distance.saturating_add(link.length), link.to)));
        next.extend(farther.filter(|Reverse((distance, _))| *distance < UNREACHABLE));
    }
    distances
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::forwarding::Config;
    use crate::forwarding::test_network::{HOST, TestLinks, TestNetwork};

    fn host_port(id: u64) -> SwitchPort {
        SwitchPort::new(DatapathId(id), HOST)
    }

    #[test]
    fn both_directions_of_all_pairs_use_the_same_shortest_path() {
        for seed in 0..20 {
            let links = TestLinks::random(&mut Rng::new(seed), 12, 8);
            let net = TestNetwork::new(&Config::default(), &links, 1);
            let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
            for a in 1..=12 {
                for (b, length) in links.lengths(a) {
                    let choice = PathChoice::Symmetric(seed ^ (a.min(b) << 8 | a.max(b)));
                    let path = routes.path(view, host_port(a), host_port(b), choice).unwrap();
                    assert_eq!(path.len(), length + 1, "{a} {b} seed {seed}");
                    assert_eq!((path[0].switch, path[0].in_port), (DatapathId(a), HOST));
                    let last = path[length];
                    assert_eq!((last.switch, last.out_port), (DatapathId(b), HOST));
                    for pair in path.windows(2) {
                        let link =
                            view.link_from(SwitchPort::new(pair[0].switch, pair[0].out_port));
                        let to = SwitchPort::new(pair[1].switch, pair[1].in_port);
                        assert_eq!(link.unwrap().to, to);
                    }
                    let mut back = routes.path(view, host_port(b), host_port(a), choice).unwrap();
                    back.reverse();
                    let turned = |hop: &Hop| (hop.switch, hop.out_port, hop.in_port);
                    let straight = |hop: &Hop| (hop.switch, hop.in_port, hop.out_port);
                    assert!(back.iter().map(turned).eq(path.iter().map(straight)));
                }
            }
        }
    }

    #[test]
    fn paths_to_a_destination_form_a_tree() {
        let links = TestLinks::random(&mut Rng::new(5), 20, 40);
        let net = TestNetwork::new(&Config::default(), &links, 1);
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        for to in 1..=20 {
            let mut outs = BTreeMap::new();
            for from in 1..=20 {
                for hop in routes
                    .path(view, host_port(from), host_port(to), PathChoice::PerDestination(to))
                    .unwrap()
                {
                    assert_eq!(*outs.entry(hop.switch).or_insert(hop.out_port), hop.out_port);
                }
            }
        }
    }

    #[test]
    fn paths_of_equal_length_are_used_evenly() {
        let net = TestNetwork::new(&Config::default(), &TestLinks::leaf_spine(4, 3), 1);
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        let (mut used, mut rng) = (BTreeMap::<_, u32>::new(), Rng::new(1));
        for _ in 0..4000 {
            let choice = PathChoice::Symmetric(rng.next_u64());
            let path = routes.path(view, host_port(5), host_port(7), choice).unwrap();
            *used.entry(path[1].switch).or_default() += 1;
        }
        assert!(used.len() == 4 && used.values().all(|n| (900..1100).contains(n)), "{used:?}");
    }

    #[test]
    fn two_links_between_the_same_switches_are_two_paths() {
        let mut links = TestLinks { switches: 2, pairs: vec![] };
        (0..2).for_each(|_| links.add(1, 2));
        let net = TestNetwork::new(&Config::default(), &links, 1);
        let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
        let mut used = BTreeMap::<_, u32>::new();
        for hash in 0..100 {
            let path =
                routes.path(view, host_port(1), host_port(2), PathChoice::Symmetric(hash)).unwrap();
            *used.entry(path[0].out_port).or_default() += 1;
        }
        assert_eq!(used.len(), 2);
        assert_eq!(routes.reachable(view, DatapathId(1)), [DatapathId(1), DatapathId(2)]);
        assert!(routes.reachable(view, DatapathId(9)).is_empty());
    }

    #[test]
    fn paths_avoid_drained_links_as_long_as_there_are_others() {
        for seed in 0..20 {
            let links = TestLinks::random(&mut Rng::new(seed), 12, 8);
            let mut net = TestNetwork::new(&Config::default(), &links, 1);
            let mut rng = Rng::new(seed);
            let mut rest = TestLinks { switches: 12, pairs: Vec::new() };
            for &[a, b] in &links.pairs {
                if rng.below(3) == 0 {
                    net.drain(Cable::new(a, b), true);
                } else {
                    rest.pairs.push([a, b]);
                }
            }
            let (view, mut routes) = (net.workers[0].network.view(), Routes::default());
            for a in 1..=12 {
                let lengths = rest.lengths(a);
                for b in 1..=12 {
                    let choice = PathChoice::Symmetric(seed ^ (a.min(b) << 8 | a.max(b)));
                    let path = routes.path(view, host_port(a), host_port(b), choice).unwrap();
                    let drained = path.iter().filter(|hop| {
                        let link = view.link_from(SwitchPort::new(hop.switch, hop.out_port));
                        link.is_some_and(|link| view.is_drained(Cable::from(link)))
                    });
                    assert_eq!(drained.count() == 0, lengths.contains_key(&b), "{a} {b} {seed}");
                    if let Some(length) = lengths.get(&b) {
                        assert_eq!(path.len(), length + 1, "{a} {b} {seed}");
                    }
                    let mut back = routes.path(view, host_port(b), host_port(a), choice).unwrap();
                    back.reverse();
                    let turned = |hop: &Hop| (hop.switch, hop.out_port, hop.in_port);
                    let straight = |hop: &Hop| (hop.switch, hop.in_port, hop.out_port);
                    assert!(back.iter().map(turned).eq(path.iter().map(straight)));
                }
            }
        }
    }
}
