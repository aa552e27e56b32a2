//! Topology files.

use std::num::NonZeroU64;
use std::time::Duration;

use sluice_base::Rng;
use sluice_emu::link::LossRatio;
use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::{DatapathId, PortNo};

fn port_ref(switch: usize, port: u32) -> PortRef {
    PortRef { switch, port: PortNo(port) }
}

#[test]
fn a_miniedit_file_is_parsed_completely() {
    let campus = Topology::from_file("campus.mn", include_str!("topologies/campus.mn")).unwrap();
    let switches: Vec<_> =
        campus.switches.iter().map(|s| (s.name.as_str(), s.datapath_id.0)).collect();
    assert_eq!(switches, [("s1", 1), ("s2", 2), ("core", 0xff)]);
    let hosts: Vec<_> =
        campus.hosts.iter().map(|h| (h.name.as_str(), h.ipv4.to_string(), h.port)).collect();
    let [h1, h2, printer] = ["10.0.0.1", "10.0.0.20", "10.0.0.3"].map(String::from);
    let expected = [
        ("h1", h1, port_ref(0, 1)),
        ("h2", h2, port_ref(1, 1)),
        ("printer", printer, port_ref(1, 2)),
    ];
    assert_eq!(hosts, expected);
    assert_eq!(campus.hosts[1].impairments.rate_bps, NonZeroU64::new(100_000_000));
    let trunk = &campus.links[0];
    assert_eq!((trunk.a, trunk.b), (port_ref(0, 2), port_ref(1, 3)));
    assert_eq!(trunk.impairments.rate_bps, NonZeroU64::new(1_000_000_000));
    assert_eq!(trunk.impairments.delay, Duration::from_millis(5));
    assert_eq!(trunk.impairments.jitter, Duration::from_millis(1));
    assert_eq!(trunk.impairments.loss, LossRatio::from_ppm(10_000));
    assert_eq!((campus.links[2].a, campus.links[2].b), (port_ref(0, 3), port_ref(2, 2)));
}

#[test]
fn a_graphml_file_gives_a_switch_with_a_host_per_node() {
    let text = include_str!("topologies/backbone.graphml");
    let backbone = Topology::from_file("backbone.graphml", text).unwrap();
    let names: Vec<_> = backbone.switches.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Berlin", "Paris", "Rome", "s4"]);
    assert_eq!(backbone.switches[3].datapath_id, DatapathId(4));
    let ports: Vec<_> = backbone.hosts.iter().map(|h| h.port).collect();
    assert_eq!(ports, [port_ref(0, 1), port_ref(1, 1), port_ref(2, 1), port_ref(3, 1)]);
    assert_eq!(backbone.links[0].impairments.rate_bps, NonZeroU64::new(10_000_000_000));
    let us: Vec<_> = backbone.links.iter().map(|l| l.impairments.delay.as_micros()).collect();
    assert!((4300..4500).contains(&us[0]), "some 880 km: {us:?}");
    assert_eq!((us[3], backbone.links[3].impairments.rate_bps), (0, None));
}

#[test]
fn a_topology_knows_whether_it_has_loops() {
    for (shape, has_loops) in [
        ("single,4", false),
        ("linear,5", false),
        ("tree,3,2", false),
        ("ring,3", true),
        ("mesh,2", false),
        ("mesh,3", true),
        ("leafspine,1,4", false),
        ("leafspine,2,4", true),
        ("torus,3,3", true),
    ] {
        assert_eq!(Topology::from_text(shape).unwrap().has_loops(), has_loops, "{shape}");
    }
}

#[test]
fn unknown_file_types_and_large_files_are_rejected() {
    let error = |name: &str, text: &str| Topology::from_file(name, text).unwrap_err().to_string();
    assert_eq!(
        error("net.yaml", ""),
        "net.yaml: unknown file type (expected .mn, .graphml or .xml)"
    );
    let long = " ".repeat((16 << 20) + 1);
    assert_eq!(error("net.mn", &long), "more than 16777216 bytes");
}

/// A damaged file is rejected, or gives a topology without dangling references.
#[test]
fn damaged_files_never_cause_a_panic() {
    let mut rng = Rng::new(0x5eed);
    let files = [
        ("campus.mn", include_str!("topologies/campus.mn")),
        ("backbone.graphml", include_str!("topologies/backbone.graphml")),
    ];
    let below = |rng: &mut Rng, n: usize| rng.below(u32::try_from(n).unwrap()) as usize;
    let (mut accepted, mut rejected) = (0, 0);
    for n in 0..3000 {
        let (name, text) = files[n % 2];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=below(&mut rng, 3) {
            let at = below(&mut rng, bytes.len());
            match rng.below(3) {
                0 => bytes[at] = b" 019-{}[]\"<>/=x"[below(&mut rng, 15)],
                1 => _ = bytes.remove(at),
                _ => {
                    let len = below(&mut rng, 40).min(bytes.len() - at);
                    let copied = bytes[at..at + len].to_vec();
                    bytes.splice(at..at, copied);
                }
            }
        }
        match Topology::from_file(name, &String::from_utf8_lossy(&bytes)) {
            Ok(topology) => {
                accepted += 1;
                let ports = topology.links.iter().flat_map(|link| [link.a, link.b]);
                for at in ports.chain(topology.hosts.iter().map(|host| host.port)) {
                    assert!((1..=topology.switches[at.switch].n_ports).contains(&at.port.0));
                }
            }
            Err(_) => rejected += 1,
        }
    }
    assert!(accepted > 100 && rejected > 100, "{accepted} accepted, {rejected} rejected");
}
