//! Shortest ways between switches, as the links of a view have them.

use std::collections::{HashMap, VecDeque};

use sluice_base::Rng;
use sluice_openflow::{DatapathId, PortNo};
use sluice_sdk::view::{NetworkView, SwitchPort};

/// Distances that are kept, over all destinations: 16 MiB. When there are more, all are computed anew as needed.
const DISTANCES_MAX: usize = 4 << 20;

/// What stands for the distance of a switch from which there is no way.
const NO_WAY: u32 = u32::MAX;

/// A switch on a way, and the ports through which the way goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) switch: DatapathId,
    pub(super) in_port: PortNo,
    pub(super) out_port: PortNo,
}

/// How one of several equal ways is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Choice {
    /// By this hash, the same way for both directions.
    Both(u64),
    /// By this hash, so that all ways to a destination are a tree.
    Tree(u64),
}

/// One direction of a link.
#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    out_port: PortNo,
    in_port: PortNo,
}

/// Shortest ways over links that are known in both directions, between switches that are connected.
///
/// What is asked for is computed then, and kept until the view is another.
#[derive(Debug, Default)]
pub(super) struct Routes {
    version: Option<u64>,
    ids: Vec<DatapathId>,
    places: HashMap<DatapathId, usize>,
    edges: Vec<Vec<Edge>>,
    /// By destination.
    distances: HashMap<usize, Vec<u32>>,
}

impl Routes {
    /// The way from where a frame comes in to where it goes out; `None` if there is none.
    ///
    /// # Cost
    /// Computes the distances of all switches from the last one, unless they are known.
    pub(super) fn path(
        &mut self,
        view: &NetworkView,
        from: SwitchPort,
        to: SwitchPort,
        choice: Choice,
    ) -> Option<Vec<Hop>> {
        self.refresh(view);
        match choice {
            Choice::Both(hash) if from.switch > to.switch => {
                let mut hops = self.walk(to, from, hash)?;
                hops.reverse();
                for hop in &mut hops {
                    std::mem::swap(&mut hop.in_port, &mut hop.out_port);
                }
                Some(hops)
            }
            Choice::Both(hash) | Choice::Tree(hash) => self.walk(from, to, hash),
        }
    }

    /// All switches to which there is a way from `id`, itself included.
    pub(super) fn area(&mut self, view: &NetworkView, id: DatapathId) -> Vec<DatapathId> {
        self.refresh(view);
        let Some(&at) = self.places.get(&id) else { return Vec::new() };
        let distances = self.distances(at);
        let reached: Vec<_> = distances.iter().map(|&distance| distance != NO_WAY).collect();
        let all = self.ids.iter().zip(reached);
        all.filter_map(|(&id, reached)| reached.then_some(id)).collect()
    }

    fn refresh(&mut self, view: &NetworkView) {
        if self.version == Some(view.version()) {
            return;
        }
        *self = Self { version: Some(view.version()), ..Self::default() };
        self.ids.extend(view.switches().map(|(id, _)| id));
        self.places = self.ids.iter().enumerate().map(|(n, &id)| (id, n)).collect();
        let places = &self.places;
        self.edges.extend(self.ids.iter().map(|&id| {
            let there = view.links_of(id).filter_map(|link| {
                let &to = places.get(&link.to.switch)?;
                Some(Edge { to, out_port: link.from.port, in_port: link.to.port })
            });
            there.collect()
        }));
    }

    fn walk(&mut self, from: SwitchPort, to: SwitchPort, hash: u64) -> Option<Vec<Hop>> {
        let (&first, &last) = (self.places.get(&from.switch)?, self.places.get(&to.switch)?);
        self.distances(last);
        let (ids, edges, distances) = (&self.ids, &self.edges, self.distances.get(&last)?);
        let (mut at, mut in_port, mut hops) = (first, from.port, Vec::new());
        while at != last {
            let (&distance, &switch) = (distances.get(at)?, ids.get(at)?);
            let nearer = distance.checked_sub(1).filter(|_| distance != NO_WAY)?;
            let next = || edges.get(at).into_iter().flatten();
            let next = || next().filter(|edge| distances.get(edge.to) == Some(&nearer));
            let ways = u32::try_from(next().count()).unwrap_or(u32::MAX);
            let chosen = Rng::new(hash ^ switch.0.rotate_left(32)).below(ways);
            let edge = next().nth(usize::try_from(chosen).unwrap_or(0))?;
            hops.push(Hop { switch, in_port, out_port: edge.out_port });
            (at, in_port) = (edge.to, edge.in_port);
        }
        hops.push(Hop { switch: to.switch, in_port, out_port: to.port });
        Some(hops)
    }

    /// How many links each switch is away from `to`.
    fn distances(&mut self, to: usize) -> &[u32] {
        if (self.distances.len() + 1) * self.ids.len() > DISTANCES_MAX
            && !self.distances.contains_key(&to)
        {
            self.distances.clear();
        }
        let (ids, edges) = (&self.ids, &self.edges);
        self.distances.entry(to).or_insert_with(|| {
            let mut distances = vec![NO_WAY; ids.len()];
            let mut next = VecDeque::from([(to, 0)]);
            while let Some((at, distance)) = next.pop_front() {
                match distances.get_mut(at) {
                    Some(place) if *place == NO_WAY => *place = distance,
                    _ => continue,
                }
                // Links are ways in both directions, so those that leave lead to where they come from.
                next.extend(
                    edges.get(at).into_iter().flatten().map(|edge| (edge.to, distance + 1)),
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
    use crate::forwarding::testing::{HOST, Net, Wires};

    fn place(id: u64) -> SwitchPort {
        SwitchPort::new(DatapathId(id), HOST)
    }

    #[test]
    fn all_pairs_reach_by_shortest_ways_that_both_directions_share() {
        for seed in 0..20 {
            let wires = Wires::random(&mut Rng::new(seed), 12, 8);
            let net = Net::new(&Config::default(), &wires, 1);
            let (view, mut routes) = (net.workers[0].1.view(), Routes::default());
            for a in 1..=12 {
                for (b, length) in wires.lengths(a) {
                    let choice = Choice::Both(seed ^ (a.min(b) << 8 | a.max(b)));
                    let path = routes.path(view, place(a), place(b), choice).unwrap();
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
                    let mut back = routes.path(view, place(b), place(a), choice).unwrap();
                    back.reverse();
                    let turned = |hop: &Hop| (hop.switch, hop.out_port, hop.in_port);
                    let straight = |hop: &Hop| (hop.switch, hop.in_port, hop.out_port);
                    assert!(back.iter().map(turned).eq(path.iter().map(straight)));
                }
            }
        }
    }

    #[test]
    fn ways_to_a_destination_are_a_tree() {
        let wires = Wires::random(&mut Rng::new(5), 20, 40);
        let net = Net::new(&Config::default(), &wires, 1);
        let (view, mut routes) = (net.workers[0].1.view(), Routes::default());
        for to in 1..=20 {
            let mut outs = BTreeMap::new();
            for from in 1..=20 {
                for hop in routes.path(view, place(from), place(to), Choice::Tree(to)).unwrap() {
                    assert_eq!(*outs.entry(hop.switch).or_insert(hop.out_port), hop.out_port);
                }
            }
        }
    }

    #[test]
    fn equal_ways_are_used_evenly() {
        let net = Net::new(&Config::default(), &Wires::leaf_spine(4, 3), 1);
        let (view, mut routes) = (net.workers[0].1.view(), Routes::default());
        let (mut used, mut rng) = (BTreeMap::<_, u32>::new(), Rng::new(1));
        for _ in 0..4000 {
            let choice = Choice::Both(rng.next_u64());
            let path = routes.path(view, place(5), place(7), choice).unwrap();
            *used.entry(path[1].switch).or_default() += 1;
        }
        assert!(used.len() == 4 && used.values().all(|n| (900..1100).contains(n)), "{used:?}");
    }

    #[test]
    fn two_links_between_the_same_switches_are_two_ways() {
        let mut wires = Wires { switches: 2, all: vec![] };
        (0..2).for_each(|_| wires.add(1, 2));
        let net = Net::new(&Config::default(), &wires, 1);
        let (view, mut routes) = (net.workers[0].1.view(), Routes::default());
        let mut used = BTreeMap::<_, u32>::new();
        for hash in 0..100 {
            let path = routes.path(view, place(1), place(2), Choice::Both(hash)).unwrap();
            *used.entry(path[0].out_port).or_default() += 1;
        }
        assert_eq!(used.len(), 2);
        assert_eq!(routes.area(view, DatapathId(1)), [DatapathId(1), DatapathId(2)]);
        assert!(routes.area(view, DatapathId(9)).is_empty());
    }
}
