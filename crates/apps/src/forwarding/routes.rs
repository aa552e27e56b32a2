//! Shortest paths between switches.

use std::collections::VecDeque;

use sluice_base::{HashMap, Rng};
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};

/// Cached distances, over all destinations: 16 MiB. When there are more, the cache is cleared.
const DISTANCES_MAX: usize = 4 << 20;

/// Distance of a switch from which there is no path.
const UNREACHABLE: u32 = u32::MAX;

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
}

/// Shortest paths over links that are known in both directions, between connected switches.
///
/// Distances are computed on demand, and cached until the view changes.
#[derive(Debug, Default)]
pub(super) struct Routes {
    version: Option<u64>,
    ids: Vec<DatapathId>,
    index_of: HashMap<DatapathId, usize>,
    out_links: Vec<Vec<OutLink>>,
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

    /// The number of links between two switches; `None` if there is no path.
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
        if self.version == Some(view.version()) {
            return;
        }
        *self = Self { version: Some(view.version()), ..Self::default() };
        self.ids.extend(view.switches().map(|(id, _)| id));
        self.index_of = self.ids.iter().enumerate().map(|(n, &id)| (id, n)).collect();
        let index_of = &self.index_of;
        self.out_links.extend(self.ids.iter().map(|&id| {
            let there = view.links_of(id).filter_map(|link| {
                let &to = index_of.get(&link.to.switch)?;
                Some(OutLink { to, out_port: link.from.port, in_port: link.to.port })
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
            let nearer = distance.checked_sub(1).filter(|_| distance != UNREACHABLE)?;
            let next = || out_links.get(current).into_iter().flatten();
            let next = || next().filter(|link| distances.get(link.to) == Some(&nearer));
            let n_choices = u32::try_from(next().count()).unwrap_or(u32::MAX);
            let chosen = Rng::new(hash ^ switch.0.rotate_left(32)).below(n_choices);
            let link = next().nth(usize::try_from(chosen).unwrap_or(0))?;
            hops.push(Hop { switch, in_port, out_port: link.out_port });
            (current, in_port) = (link.to, link.in_port);
        }
        hops.push(Hop { switch: to.switch, in_port, out_port: to.port });
        Some(hops)
    }

    /// The number of links between each switch and `to`.
    fn distances(&mut self, to: usize) -> &[u32] {
        if (self.distances.len() + 1) * self.ids.len() > DISTANCES_MAX
            && !self.distances.contains_key(&to)
        {
            self.distances.clear();
        }
        let (ids, out_links) = (&self.ids, &self.out_links);
        self.distances.entry(to).or_insert_with(|| {
            let mut distances = vec![UNREACHABLE; ids.len()];
            let mut next = VecDeque::from([(to, 0)]);
            while let Some((current, distance)) = next.pop_front() {
                match distances.get_mut(current) {
                    Some(known) if *known == UNREACHABLE => *known = distance,
                    _ => continue,
                }
                // Links work in both directions, so the switches they lead to are those from which `to` is reached.
                next.extend(
                    out_links
                        .get(current)
                        .into_iter()
                        .flatten()
                        .map(|link| (link.to, distance + 1)),
                );
            }
            distances
        })
    }
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
}
