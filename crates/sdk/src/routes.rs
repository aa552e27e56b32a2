//! Shortest paths between switches.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sluice_base::{HashMap, Rng};
use sluice_openflow::{DatapathId, PortNo};

use crate::view::{Cable, NetworkView, SwitchPort};

/// Cached distances, over all destinations: 16 MiB. When there are more, the cache is cleared.
const DISTANCES_MAX: usize = 4 << 20;

/// Distance of a switch from which there is no path.
const UNREACHABLE: u32 = u32::MAX;

/// Length of a link that is to carry no traffic: longer than any path over others, so that it is used only where there is no other
/// path. A path may have as many of them as [`DRAINED_CABLES_MAX`](crate::view::DRAINED_CABLES_MAX).
const DRAINED_LENGTH: u32 = 1 << 20;

const _: () =
    assert!((crate::view::DRAINED_CABLES_MAX as u64) < (UNREACHABLE / DRAINED_LENGTH) as u64);

/// A switch on a path, and its two ports on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The switch.
    pub switch: DatapathId,
    /// Where packets arrive.
    pub in_port: PortNo,
    /// Where they leave.
    pub out_port: PortNo,
}

impl Hop {
    /// The ingress port and the output port.
    pub const fn ports(self) -> [PortNo; 2] {
        [self.in_port, self.out_port]
    }
}

/// How one of several paths of equal length is chosen.
#[derive(Debug, Clone, Copy)]
pub enum PathChoice {
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

impl OutLink {
    /// Whether a shortest path leads over this link, from a switch that has `distance` left.
    fn is_nearer(&self, distances: &[u32], distance: u32) -> bool {
        let left = distances.get(self.to).and_then(|left| left.checked_add(self.length));
        left == Some(distance)
    }

    /// The other direction of the link of the switch `from`.
    fn reversed(self, from: usize) -> Self {
        Self { to: from, out_port: self.in_port, in_port: self.out_port, ..self }
    }
}

/// Shortest paths over links that are known in both directions, between connected switches. Links that are to carry no traffic are
/// avoided.
///
/// Distances are computed on demand, and cached until a link, a switch or a drained cable changes.
#[derive(Debug, Default)]
pub struct Routes {
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
    pub fn path(
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

    /// The shortest paths from an ingress port to an egress port, at most `paths_max`.
    ///
    /// # Cost
    /// That of [`path`](Self::path), and of the paths.
    pub fn shortest(
        &mut self,
        view: &NetworkView,
        from: SwitchPort,
        to: SwitchPort,
        paths_max: usize,
    ) -> Vec<Vec<Hop>> {
        self.refresh(view);
        let (mut paths, mut open) = (vec![], vec![]);
        let ends = (self.index_of.get(&from.switch), self.index_of.get(&to.switch));
        let (Some(&first), Some(&last)) = ends else { return paths };
        self.distances(last);
        let Some(distances) = self.distances.get(&last) else { return paths };
        open.push((first, from.port, vec![]));
        while let Some((current, in_port, hops)) = open.pop() {
            let (Some(&distance), Some(&switch)) = (distances.get(current), self.ids.get(current))
            else {
                continue;
            };
            let with = |out_port| {
                let mut hops: Vec<Hop> = hops.clone();
                hops.push(Hop { switch, in_port, out_port });
                hops
            };
            if current == last {
                paths.push(with(to.port));
                if paths.len() >= paths_max {
                    break;
                }
                continue;
            }
            if distance == UNREACHABLE {
                continue;
            }
            // All of them end at the last switch, so that there are at most as many open paths as links of the switches of one.
            let next = self.out_links.get(current).into_iter().flatten();
            let next = next.filter(|link| link.is_nearer(distances, distance));
            open.extend(next.map(|link| (link.to, link.in_port, with(link.out_port))));
        }
        paths
    }

    /// The length of the path between two switches: smaller for each that is nearer to `to`. `None` if there is no path.
    pub fn distance(
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
    pub fn reachable(&mut self, view: &NetworkView, id: DatapathId) -> Vec<DatapathId> {
        self.refresh(view);
        let Some(&current) = self.index_of.get(&id) else { return Vec::new() };
        let distances = self.distances(current);
        let reached: Vec<_> = distances.iter().map(|&distance| distance != UNREACHABLE).collect();
        let all = self.ids.iter().zip(reached);
        all.filter_map(|(&id, reached)| reached.then_some(id)).collect()
    }

    fn refresh(&mut self, view: &NetworkView) {
        let version = view.route_version();
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
            let hash = hash ^ switch.0.rotate_left(32);
            let (here, there) = (out_links.get(current)?, out_links.get(last)?);
            let link = if distance == 1 && there.len() < here.len() {
                // The last switch has fewer links to look through. The order is that of the other direction.
                let back = there.iter().filter(|link| link.to == current && link.length == 1);
                let mut next: Vec<_> = back.map(|link| link.reversed(last)).collect();
                next.sort_unstable_by_key(|link| link.out_port);
                *chosen(next.iter(), hash)?
            } else {
                *chosen(here.iter().filter(|link| link.is_nearer(distances, distance)), hash)?
            };
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

/// One of several links, by a hash.
fn chosen<'a>(
    mut links: impl Iterator<Item = &'a OutLink> + Clone,
    hash: u64,
) -> Option<&'a OutLink> {
    let n_choices = u32::try_from(links.clone().count()).unwrap_or(u32::MAX);
    let number = Rng::new(hash).below(n_choices);
    links.nth(usize::try_from(number).unwrap_or(0))
}

/// The number of links between each switch and `to`, if all have the same length.
fn distances_by_count(n_switches: usize, out_links: &[Vec<OutLink>], to: usize) -> Vec<u32> {
    let mut distances = vec![UNREACHABLE; n_switches];
    let mut next = VecDeque::new();
    let mut reach = |switch: usize, distance| match distances.get_mut(switch) {
        Some(known) if *known == UNREACHABLE => {
            *known = distance;
            true
        }
        _ => false,
    };
    if reach(to, 0) {
        next.push_back((to, 0));
    }
    while let Some((current, distance)) = next.pop_front() {
        // Links work in both directions, so the switches they lead to are those from which `to` is reached.
        let links = out_links.get(current).into_iter().flatten().map(|link| link.to);
        next.extend(
            links.filter(|&switch| reach(switch, distance + 1)).map(|it| (it, distance + 1)),
        );
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
