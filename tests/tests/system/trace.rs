//! `sluice trace` of networks of Open vSwitch, whose `ofproto/trace` is the witness.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use sluice_base::Rng;
use sluice_openflow::{Field, FieldId, MacAddr, PortNo};
use sluice_pipeline::{PacketInPipeline, TtlHeader};
use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, both_versions, output_of,
    wait_until,
};
use sluice_testkit::random_tables::{RandomTables, TableShape, packet_frame, random_packet};

both_versions! {
    a_ping_is_traced_and_an_entry_that_drops_it_is_named() = ping;
}

/// What a subcommand of `sluice` prints.
fn sluice(network: &OvsNetwork, arguments: &[&str]) -> String {
    output_of(network.env().command(&binary().to_string_lossy()).args(arguments))
}

/// Nobody installs paths for what the hosts send meanwhile.
const ONLY_LINKS: &[&str] = &["--app", "topology"];

fn start(network: &OvsNetwork, options: &[&str]) -> Controller {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "2"]).args(options);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    controller
}

fn ping(version: OpenFlow) {
    let mut network = OvsNetwork::new(TestEnv::shared(), version);
    for (name, id) in [("s1", 1), ("s2", 2)] {
        network.bridge(name, id);
    }
    network.link("s1", "s2");
    let [a, b] = ["s1", "s2"].map(|switch| network.host(switch));
    let _controller = start(&network, &[]);
    wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(&b, 1).lost() == 0);

    let (from, to) = (a.ipv4(), b.ipv4());
    a.ping(&b, 1);
    let traced = sluice(&network, &["trace", &from, &to]);
    let end = format!("Result: delivered at s2 port {} (", b.port());
    assert!(traced.contains(&end) && traced.contains(&b.mac()), "{traced}");
    assert!(traced.contains("(forwarding)"), "{traced}");
    assert!(traced.lines().all(|line| line.chars().count() <= 80), "{traced}");

    let paths = sluice(&network, &["show", "paths", &from, &to]);
    let lines: Vec<_> = paths.lines().map(|line| line.split_at(11)).collect();
    assert_eq!(lines.len(), 2, "{paths}");
    assert_eq!((lines[0].0, lines[1].0), ("installed  ", "computed   "), "{paths}");
    assert_eq!(lines[0].1, lines[1].1, "{paths}");
    assert!(lines[0].1.starts_with(&format!("{}:s1:", a.port())), "{paths}");

    network.ofctl("add-flow", "s2", &[&format!("priority=60000,ip,nw_dst={to},actions=drop")]);
    let traced = sluice(&network, &["trace", &from, &to]);
    assert!(traced.contains("Result: dropped at s2: the flow entry sends it nowhere"), "{traced}");
    assert!(traced.contains(&format!("priority=60000,ip,nw_dst={to},actions=drop")), "{traced}");
    let flow = format!("tcp,dl_dst={},nw_dst={to},tp_dst=80", b.mac());
    let traced =
        sluice(&network, &["trace", "s2", &network.link_port("s2", "s1").to_string(), &flow]);
    assert!(traced.contains("Result: dropped at s2"), "{traced}");
    let paths = sluice(&network, &["show", "paths", &from, &to]);
    assert!(paths.starts_with("installed  none: dropped at s2"), "{paths}");

    // Nothing is left that could carry it.
    network.ofctl("add-flow", "s1", &["priority=60000,ip,actions=in_port"]);
    let port = network.link_port("s2", "s1");
    network.ofctl(
        "add-flow",
        "s2",
        &[&format!("priority=60001,ip,in_port={port},actions=in_port")],
    );
    let port = network.link_port("s1", "s2").to_string();
    let traced = sluice(&network, &["trace", "s1", &port, &flow]);
    assert!(traced.contains("Result: loop: it arrives as it has at hop 1"), "{traced}");
}

/// The switches of a differential test and how Open vSwitch numbers their ports.
struct Witness<'n> {
    network: &'n OvsNetwork,
    /// Bridge and port of each port of the datapath.
    ports: BTreeMap<u32, (String, u32)>,
}

/// Where a packet leaves, and its bytes.
type Sent = (String, String);

impl Witness<'_> {
    fn appctl(network: &OvsNetwork, arguments: &[&str]) -> String {
        let mut command = network.env().command("ovs-appctl");
        command.arg(format!("--target={}", network.env().file("ovs-vswitchd").display()));
        output_of(command.args(arguments))
    }

    fn new(network: &OvsNetwork) -> Witness<'_> {
        let (mut ports, mut bridge) = (BTreeMap::new(), String::new());
        for line in Self::appctl(network, &["dpif/show"]).lines() {
            if let Some(name) = line.strip_prefix("  ").filter(|it| !it.starts_with(' ')) {
                name.trim_end_matches(':').clone_into(&mut bridge);
                continue;
            }
            let numbers = line.split_whitespace().nth(1).and_then(|it| it.split_once('/'));
            let Some((port, in_datapath)) = numbers else { continue };
            let in_datapath = in_datapath.trim_end_matches(':').parse();
            if let (Ok(port), Ok(in_datapath)) = (port.parse(), in_datapath) {
                ports.insert(in_datapath, (bridge.clone(), port));
            }
        }
        Witness { network, ports }
    }

    /// Where Open vSwitch would send a packet, and what it says.
    fn trace(&self, bridge: &str, port: u32, frame: &[u8]) -> (Vec<Sent>, String) {
        let flow = format!("in_port={port}");
        let said = Self::appctl(self.network, &["ofproto/trace", bridge, &flow, &hex(frame)]);
        let actions = said.lines().find_map(|line| line.strip_prefix("Datapath actions: "));
        let actions = actions.unwrap_or_else(|| panic!("no actions in {said}"));
        let mut packet = PacketInPipeline::new(PortNo(port), frame.to_vec()).unwrap();
        let mut sent = vec![];
        for action in top_level(actions) {
            self.apply(action, &mut packet, &mut sent);
        }
        sent.sort();
        (sent, said)
    }

    fn apply(&self, action: &str, packet: &mut PacketInPipeline, sent: &mut Vec<Sent>) {
        if let Ok(port) = action.parse::<u32>() {
            let (bridge, port) = &self.ports[&port];
            // The local ports are down. Open vSwitch leaves it to the system that they are.
            if *port < 0xff00 {
                sent.push((format!("{bridge} {port}"), hex(&packet.bytes)));
            }
            return;
        }
        let (name, inner) = action.split_once('(').unwrap_or((action, ""));
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        match name {
            "drop" => {}
            "userspace" if inner.contains("controller(") => {
                sent.push(("controller".to_owned(), hex(&packet.bytes)));
            }
            "pop_vlan" => packet.pop_vlan(),
            "push_vlan" => {
                packet.push_vlan(0x8100);
                for (key, value) in pairs(inner) {
                    let value: u128 = value.parse().unwrap();
                    match key {
                        "vid" => packet.set_field(&Field::new(FieldId::VLAN_VID, 0x1000 | value)),
                        "pcp" => packet.set_field(&Field::new(FieldId::VLAN_PCP, value)),
                        other => panic!("{other} in {action}"),
                    }
                }
            }
            "set" => {
                let (header, fields) = inner.split_once('(').unwrap();
                for (key, value) in pairs(fields.strip_suffix(')').unwrap()) {
                    set(header, key, value, packet);
                }
            }
            _ => panic!("{action}"),
        }
    }
}

fn set(header: &str, key: &str, value: &str, packet: &mut PacketInPipeline) {
    let mac = || {
        value.parse::<MacAddr>().unwrap().0.into_iter().fold(0, |n, byte| n << 8 | u128::from(byte))
    };
    let ipv4 = || u128::from(u32::from(value.parse::<std::net::Ipv4Addr>().unwrap()));
    let field = match (header, key) {
        ("eth", "src") => Field::new(FieldId::ETH_SRC, mac()),
        ("eth", "dst") => Field::new(FieldId::ETH_DST, mac()),
        ("ipv4", "src") => Field::new(FieldId::IPV4_SRC, ipv4()),
        ("ipv4", "dst") => Field::new(FieldId::IPV4_DST, ipv4()),
        ("ipv4", "ttl") => return packet.set_ttl(TtlHeader::Ip, value.parse().unwrap()),
        ("tcp", "src") => Field::new(FieldId::TCP_SRC, value.parse().unwrap()),
        ("tcp", "dst") => Field::new(FieldId::TCP_DST, value.parse().unwrap()),
        ("udp", "src") => Field::new(FieldId::UDP_SRC, value.parse().unwrap()),
        ("udp", "dst") => Field::new(FieldId::UDP_DST, value.parse().unwrap()),
        other => panic!("{other:?}"),
    };
    packet.set_field(&field);
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').map(|pair| pair.split_once('=').unwrap())
}

fn hex(frame: &[u8]) -> String {
    let mut text = String::new();
    for byte in frame {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The actions of a list, without those within them.
fn top_level(actions: &str) -> Vec<&str> {
    let (mut list, mut depth, mut start) = (vec![], 0, 0);
    for (at, c) in actions.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                list.push(&actions[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    list.push(&actions[start..]);
    list
}

/// Where the trace says that a packet is sent: what is certain, and what a switch chooses from.
fn traced(document: &Value) -> [Vec<Sent>; 2] {
    let mut lists = [vec![], vec![]];
    for end in document["ends"].as_array().unwrap() {
        let to = match end["outcome"].as_str().unwrap() {
            "delivered" | "left" => {
                let port = &end["port"];
                if port["port"].as_u64().unwrap() >= 0xff00 {
                    continue;
                }
                format!("{} {}", port["switch"].as_str().unwrap(), port["port"])
            }
            "controller" => "controller".to_owned(),
            "dropped" => continue,
            other => panic!("{other}: {document:#}"),
        };
        let packet = end["packet"]["hex"].as_str().unwrap().to_owned();
        lists[usize::from(end["one_of"].as_bool().unwrap())].push((to, packet));
    }
    for list in &mut lists {
        list.sort();
    }
    lists
}

/// Compares `packets` random packets for each of `tables` random contents of the bridges.
fn compare(
    network: &OvsNetwork,
    edge: &[(&str, u32)],
    links: &[(&str, u32)],
    tables: u64,
    packets: u32,
) {
    let witness = Witness::new(network);
    let bridges: std::collections::BTreeSet<&str> = edge.iter().map(|it| it.0).collect();
    let (mut outputs, mut drops) = (0, 0);
    for seed in 0..tables {
        let mut rng = Rng::new(seed);
        let mut contents = vec![];
        for &bridge in &bridges {
            let ports = edge.iter().chain(links).filter(|it| it.0 == bridge).map(|it| it.1);
            let shape = TableShape {
                tables: 4,
                ports: ports.collect(),
                // In a network, packets could travel to and fro for too long.
                has_reserved_ports: links.is_empty(),
                // Open vSwitch would choose in a second pass, by a hash of the datapath.
                has_select_groups: false,
            };
            let random = RandomTables::new(&mut rng, &shape);
            let groups = network.env().write("groups.txt", random.groups.join("\n") + "\n");
            let flows = network.env().write("flows.txt", random.flows.join("\n") + "\n");
            network.ofctl("del-flows", bridge, &["cookie=0x7465737400000000/0xffffffff00000000"]);
            network.ofctl("del-groups", bridge, &[]);
            network.ofctl("add-groups", bridge, &[&groups.to_string_lossy()]);
            network.ofctl("add-flows", bridge, &[&flows.to_string_lossy()]);
            contents.push(random);
        }
        for _ in 0..packets {
            let (bridge, port) = edge[rng.below(u32::try_from(edge.len()).unwrap()) as usize];
            let mut text = random_packet(&mut rng);
            // When a TTL expires, Open vSwitch executes the action set nevertheless.
            while text.contains("nw_ttl") {
                text = random_packet(&mut rng);
            }
            let frame = packet_frame(&text);
            let (sent, said) = witness.trace(bridge, port, &frame);
            let traced_text =
                sluice(network, &["trace", "--json", bridge, &port.to_string(), &hex(&frame)]);
            let document: Value = serde_json::from_str(&traced_text).unwrap();
            let [certain, possible] = traced(&document);
            let context = || {
                format!("seed {seed}, {bridge} {port}, {text}\n{said}\n{document:#}\n{contents:#?}")
            };
            let mut left = sent.clone();
            for output in &certain {
                let at = left.iter().position(|it| it == output);
                left.remove(at.unwrap_or_else(|| panic!("not sent: {output:?} {}", context())));
            }
            let is_possible = |output: &Sent| possible.contains(output);
            assert!(left.iter().all(is_possible), "not traced: {left:?} {}", context());
            outputs += sent.len();
            drops += usize::from(sent.is_empty());
        }
    }
    assert!(outputs > 50 && drops > 50, "the cases have some of everything: {outputs} {drops}");
}

#[test]
fn traces_agree_with_open_vswitch_on_700_random_packets_at_one_bridge() {
    let mut network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    network.bridge("s1", 1);
    let hosts: Vec<_> = (0..4).map(|_| network.host("s1")).collect();
    let edge: Vec<_> = hosts.iter().map(|host| ("s1", u32::from(host.port()))).collect();
    let _controller = start(&network, ONLY_LINKS);
    compare(&network, &edge, &[], 20, 35);
}

#[test]
fn traces_agree_with_open_vswitch_on_300_random_packets_through_three_bridges() {
    let mut network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    for (name, id) in [("s1", 1), ("s2", 2), ("s3", 3)] {
        network.bridge(name, id);
    }
    let hosts = ["s1", "s2", "s3"].map(|it| (it, network.host(it)));
    let edge: Vec<_> = hosts.iter().map(|(it, host)| (*it, u32::from(host.port()))).collect();
    let mut links = vec![];
    for (a, b) in [("s1", "s2"), ("s2", "s3")] {
        network.patch(a, b);
        links.push((a, u32::from(network.link_port(a, b))));
        links.push((b, u32::from(network.link_port(b, a))));
    }
    let _controller = start(&network, ONLY_LINKS);
    wait_until(LONG_TIMEOUT, "all links", || {
        sluice(&network, &["show", "links"]).lines().count() == 5
    });
    compare(&network, &edge, &links, 10, 30);
}
