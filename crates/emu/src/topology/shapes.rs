//! Topologies of regular shape. Those that Mininet has too are built in its order, so names and port numbers are the
//! same.

use sluice_openflow::DatapathId;

use super::{NodeRef, Topology, TopologyBuilder, TopologyErrorKind};
use crate::link::LinkImpairments;

/// One switch with `k` hosts.
pub(super) fn single(k: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let switch = numbered(&mut b, 1)?;
    for n in 1..=k {
        host_at(&mut b, switch, format!("h{n}"))?;
    }
    b.build()
}

/// A line of `k` switches with `n` hosts each.
pub(super) fn linear(k: u32, n: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let mut last = None;
    for i in 1..=k {
        let switch = numbered(&mut b, i)?;
        hosts_at(&mut b, switch, i, n)?;
        if let Some(last) = last.replace(switch) {
            wire(&mut b, switch, last)?;
        }
    }
    b.build()
}

/// A tree of `depth` levels of switches with `fanout` children each; hosts are the leaves.
pub(super) fn tree(depth: u32, fanout: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let (mut n_switches, mut n_hosts) = (1, 0);
    // The path from the root to where the next node is added, with the number of linked children of each switch. As in
    // Mininet, children come first, depth first; then the link to the parent.
    let mut path = vec![(numbered(&mut b, 1)?, 0)];
    while let Some(&(switch, linked)) = path.last() {
        if linked == fanout {
            path.pop();
            if let Some((above, linked)) = path.last_mut() {
                wire(&mut b, *above, switch)?;
                *linked += 1;
            }
        } else if path.len() == usize::try_from(depth).unwrap_or(usize::MAX) {
            n_hosts += 1;
            host_at(&mut b, switch, format!("h{n_hosts}"))?;
            if let Some((_, linked)) = path.last_mut() {
                *linked += 1;
            }
        } else {
            n_switches += 1;
            path.push((numbered(&mut b, n_switches)?, 0));
        }
    }
    b.build()
}

/// A ring of `k` switches with `n` hosts each.
pub(super) fn ring(k: u32, n: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let switches = row(&mut b, k, n)?;
    let next = switches.iter().cycle().skip(1);
    for (&switch, &next) in switches.iter().zip(next) {
        wire(&mut b, switch, next)?;
    }
    b.build()
}

/// A full mesh of `k` switches with `n` hosts each.
pub(super) fn mesh(k: u32, n: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let switches = row(&mut b, k, n)?;
    for (i, &switch) in switches.iter().enumerate() {
        for &other in switches.iter().skip(i + 1) {
            wire(&mut b, switch, other)?;
        }
    }
    b.build()
}

/// `spines` switches, each linked to all `leaves`, which have `hosts` hosts each. Spines are numbered first.
pub(super) fn leaf_spine(
    spines: u32,
    leaves: u32,
    hosts: u32,
) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let spines = (1..=spines).map(|n| numbered(&mut b, n)).collect::<Result<Vec<_>, _>>()?;
    let first = u32::try_from(spines.len()).unwrap_or(u32::MAX);
    let mut n_hosts = 0;
    for n in 1..=leaves {
        let leaf = numbered(&mut b, first.saturating_add(n))?;
        for _ in 0..hosts {
            n_hosts += 1;
            host_at(&mut b, leaf, format!("h{n_hosts}"))?;
        }
        for &spine in &spines {
            wire(&mut b, leaf, spine)?;
        }
    }
    b.build()
}

/// A fat tree of switches with `k` ports each (M. Al-Fares et al., *A Scalable, Commodity Data Center Network Architecture*,
/// section 2.2): `k` pods of `k`/2 edge and `k`/2 aggregation switches, and (`k`/2)² core switches. Each edge switch has `hosts` hosts.
/// Core switches are numbered first, then those of each pod, its aggregation switches before its edge switches.
pub(super) fn fat_tree(k: u32, hosts: u32) -> Result<Topology, TopologyErrorKind> {
    if !k.is_multiple_of(2) {
        return Err(TopologyErrorKind::InvalidValue("an even number", k.to_string()));
    }
    let mut b = TopologyBuilder::new();
    let half = k / 2;
    let (mut n_switches, mut n_hosts) = (0, 0);
    let mut next = |b: &mut TopologyBuilder| {
        n_switches += 1;
        numbered(b, n_switches)
    };
    let mut cores = Vec::new();
    for _ in 0..half {
        cores.push((0..half).map(|_| next(&mut b)).collect::<Result<Vec<_>, _>>()?);
    }
    for _ in 0..k {
        let aggregations = cores.iter().map(|_| next(&mut b)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..half {
            let edge = next(&mut b)?;
            for _ in 0..hosts {
                n_hosts += 1;
                host_at(&mut b, edge, format!("h{n_hosts}"))?;
            }
            for &aggregation in &aggregations {
                wire(&mut b, edge, aggregation)?;
            }
        }
        for (&aggregation, cores) in aggregations.iter().zip(&cores) {
            for &core in cores {
                wire(&mut b, aggregation, core)?;
            }
        }
    }
    b.build()
}

/// An `x` by `y` grid of switches that wraps around, with `n` hosts each.
pub(super) fn torus(x: u32, y: u32, n: u32) -> Result<Topology, TopologyErrorKind> {
    let mut b = TopologyBuilder::new();
    let mut switches = Vec::new();
    for i in 1..=x {
        for j in 1..=y {
            let datapath_id = DatapathId(u64::from(i) * 256 + u64::from(j));
            let switch = b.add_switch(format!("s{i}x{j}"), datapath_id)?;
            for k in 1..=n {
                let name = if n == 1 { format!("h{i}x{j}") } else { format!("h{i}x{j}x{k}") };
                host_at(&mut b, switch, name)?;
            }
            switches.push(switch);
        }
    }
    let at = |i: u32, j: u32| {
        let index = usize::try_from(i % x * y + j % y).ok();
        let switch = index.and_then(|index| switches.get(index)).copied();
        switch.ok_or_else(|| TopologyErrorKind::UnknownNode(format!("s{i}x{j}")))
    };
    for i in 0..x {
        for j in 0..y {
            let switch = at(i, j)?;
            wire(&mut b, switch, at(i, j + 1)?)?;
            wire(&mut b, switch, at(i + 1, j)?)?;
        }
    }
    b.build()
}

/// `k` switches with `n` hosts each, without links.
fn row(b: &mut TopologyBuilder, k: u32, n: u32) -> Result<Vec<NodeRef>, TopologyErrorKind> {
    let mut switches = Vec::new();
    for i in 1..=k {
        let switch = numbered(b, i)?;
        hosts_at(b, switch, i, n)?;
        switches.push(switch);
    }
    Ok(switches)
}

fn numbered(b: &mut TopologyBuilder, n: u32) -> Result<NodeRef, TopologyErrorKind> {
    b.add_switch(format!("s{n}"), DatapathId(n.into()))
}

fn hosts_at(
    b: &mut TopologyBuilder,
    switch: NodeRef,
    i: u32,
    n: u32,
) -> Result<(), TopologyErrorKind> {
    (1..=n).try_for_each(|j| {
        let name = if n == 1 { format!("h{i}") } else { format!("h{j}s{i}") };
        host_at(b, switch, name)
    })
}

fn host_at(
    b: &mut TopologyBuilder,
    switch: NodeRef,
    name: String,
) -> Result<(), TopologyErrorKind> {
    let host = b.add_host(name, None)?;
    b.add_link(host, switch, LinkImpairments::default())
}

fn wire(b: &mut TopologyBuilder, a: NodeRef, to: NodeRef) -> Result<(), TopologyErrorKind> {
    b.add_link(a, to, LinkImpairments::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All links as `s1:2-s2:3`, those of hosts first.
    fn links(topology: &Topology) -> String {
        let name = |end: super::super::PortRef| {
            format!("{}:{}", topology.switches[end.switch].name, end.port)
        };
        let hosts = topology.hosts.iter().map(|host| format!("{}-{}", host.name, name(host.port)));
        let links = topology.links.iter().map(|link| format!("{}-{}", name(link.a), name(link.b)));
        hosts.chain(links).collect::<Vec<_>>().join(" ")
    }

    /// Compared with `Topo.links()` of Mininet 2.3.0.
    #[test]
    fn ports_are_numbered_as_in_mininet() {
        assert_eq!(links(&single(2).unwrap()), "h1-s1:1 h2-s1:2");
        assert_eq!(links(&linear(3, 1).unwrap()), "h1-s1:1 h2-s2:1 h3-s3:1 s2:2-s1:2 s3:2-s2:3");
        assert_eq!(
            links(&linear(2, 2).unwrap()),
            "h1s1-s1:1 h2s1-s1:2 h1s2-s2:1 h2s2-s2:2 s2:3-s1:3"
        );
        assert_eq!(
            links(&tree(2, 2).unwrap()),
            "h1-s2:1 h2-s2:2 h3-s3:1 h4-s3:2 s1:1-s2:3 s1:2-s3:3"
        );
        let torus = torus(3, 3, 1).unwrap();
        let listed = links(&torus);
        assert!(listed.starts_with("h1x1-s1x1:1 h1x2-s1x2:1"));
        assert!(
            listed.contains("s1x1:2-s1x2:2 s1x1:3-s2x1:2 s1x2:3-s1x3:2 s1x2:4-s2x2:2"),
            "{listed}"
        );
        assert_eq!(torus.switches[8].datapath_id, DatapathId(0x303));
    }

    #[test]
    fn shapes_have_the_expected_number_of_nodes() {
        let count = |t: Topology| (t.switches.len(), t.hosts.len(), t.links.len());
        assert_eq!(count(tree(3, 4).unwrap()), (21, 64, 20));
        assert_eq!(count(tree(1, 2).unwrap()), (1, 2, 0));
        assert_eq!(count(ring(4, 1).unwrap()), (4, 4, 4));
        assert_eq!(count(mesh(4, 2).unwrap()), (4, 8, 6));
        assert_eq!(count(leaf_spine(2, 4, 10).unwrap()), (6, 40, 8));
        assert_eq!(count(torus(3, 4, 1).unwrap()), (12, 12, 24));
        assert_eq!(count(fat_tree(4, 2).unwrap()), (20, 16, 32));
        assert_eq!(count(fat_tree(28, 1).unwrap()), (980, 392, 10_976));
        // One core switch, and two pods of one aggregation and one edge switch.
        assert_eq!(
            links(&fat_tree(2, 1).unwrap()),
            "h1-s3:1 h2-s5:1 s3:2-s2:1 s2:2-s1:1 s5:2-s4:1 s4:2-s1:2"
        );
        assert_eq!(links(&ring(3, 0).unwrap()), "s1:1-s2:1 s2:2-s3:1 s3:2-s1:2");
        assert_eq!(links(&leaf_spine(2, 1, 1).unwrap()), "h1-s3:1 s3:2-s1:1 s3:3-s2:1");
    }

    /// The first `k`/2 core switches are linked to the first aggregation switch of every pod, the next to the second one.
    #[test]
    fn a_core_switch_of_a_fat_tree_has_a_link_to_each_pod() {
        let topology = fat_tree(4, 0).unwrap();
        let links = links(&topology);
        for link in ["s5:3-s1:1", "s5:4-s2:1", "s6:3-s3:1", "s6:4-s4:1", "s17:3-s1:4", "s18:4-s4:4"]
        {
            assert!(links.split(' ').any(|it| it == link), "{link} in {links}");
        }
    }
}
