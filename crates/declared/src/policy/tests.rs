//! What packets see of policies that are replaced: the compiled entries run in the pipeline of emulated switches.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sluice_base::Rng;
use sluice_openflow::{FlowDesc, FlowMod, Port, PortNo, Version};
use sluice_pipeline::frames::frame;
use sluice_pipeline::trace::{OutputTo, SwitchState, TraceLimits, trace};

use super::compile::PolicyFlow;
use super::*;
use crate::entry::{Key, Kind, parse_flow};
use crate::{Reserved, Selector};

/// A ring of four switches: at each, ports 1 and 2 lead to the next and to the previous one, ports 3 and 4 to hosts.
pub(crate) const SWITCHES: u64 = 4;

fn peer(at: u64, port: u32) -> Option<(u64, u32)> {
    match port {
        1 => Some((at % SWITCHES + 1, 2)),
        2 => Some(((at + SWITCHES - 2) % SWITCHES + 1, 1)),
        _ => None,
    }
}

pub(crate) fn topology() -> PolicyTopology {
    let ports = |at| (1..=4).map(move |port| (port, peer(at, port).map(|(at, _)| DatapathId(at))));
    PolicyTopology::of((1..=SWITCHES).map(|at| (DatapathId(at), ports(at).collect())))
}

fn declaration(name: &str, at: u64, text: &str) -> Declaration {
    let key = Key { kind: Kind::Flow, name: name.to_owned() };
    let switches = Selector::Switches(vec![DatapathId(at).to_string()]);
    Declaration { key, switches, text: text.to_owned() }
}

fn flow(declaration: &Declaration) -> Result<PolicyFlow, FlowError> {
    let Selector::Switches(list) = &declaration.switches else { unreachable!() };
    let switches = list.iter().map(|id| id.parse().unwrap()).collect();
    PolicyFlow::new(declaration, switches, &Reserved::default())
}

fn version(flows: &[Declaration], tag: u16) -> Result<PolicyVersion, PolicyError> {
    let flows: Vec<_> = flows.iter().map(|it| flow(it).unwrap()).collect();
    let switches = (1..=SWITCHES).map(DatapathId).collect();
    let network = compile::PolicyNetwork::new(&topology(), &switches)?;
    compile::compile("p", &flows, &network, tag, (1, Duration::ZERO))
}

/// Flow entries that forward, rewrite and drop at random, in two tables, with loops among them.
pub(crate) fn random_flows(rng: &mut Rng) -> Vec<Declaration> {
    let mut flows = vec![];
    for at in 1..=SWITCHES {
        for n in 0..=rng.below(4) {
            let table = rng.below(2);
            let mut parts = vec![format!("table={table},priority={}", 10 + rng.below(5))];
            parts.extend((rng.below(3) == 0).then(|| format!("in_port={}", rng.below(4) + 1)));
            parts.extend(match rng.below(4) {
                0 => Some(format!("ip,nw_dst=10.0.0.{}", rng.below(2))),
                1 => Some(format!("ip,nw_tos={}", 4 * rng.below(2))),
                _ => None,
            });
            let is_ip = parts.iter().any(|part| part.starts_with("ip,"));
            let mut actions = vec![];
            for _ in 0..rng.below(4) {
                actions.push(match rng.below(6) {
                    0 if is_ip => format!("mod_nw_tos:{}", 4 * rng.below(2)),
                    1 => format!("set_field:02:00:00:00:00:0{}->eth_src", rng.below(8)),
                    2 => "in_port".to_owned(),
                    _ => format!("output:{}", rng.below(4) + 1),
                });
            }
            actions.extend((table == 0 && rng.below(3) == 0).then(|| "goto_table:1".to_owned()));
            if actions.is_empty() {
                actions.push("drop".to_owned());
            }
            parts.push(format!("actions={}", actions.join(",")));
            flows.push(declaration(&format!("f{at}-{n}"), at, &parts.join(",")));
        }
    }
    // Otherwise goto_table would be refused.
    for at in 1..=SWITCHES {
        flows.push(declaration(&format!("f{at}-last"), at, "table=1,priority=9,actions=drop"));
    }
    // Two with the same table, priority and match would be refused.
    while let Err(PolicyError::Flows(errors)) = version(&flows, 4000) {
        flows.retain(|it| !errors.iter().any(|error| error.flow == it.key.name));
    }
    flows
}

fn describe(entries: impl IntoIterator<Item = (u64, FlowMod)>) -> BTreeMap<u64, SwitchState> {
    let mut flows: BTreeMap<u64, Vec<FlowDesc>> = BTreeMap::new();
    for (at, flow) in entries {
        let FlowMod { table_id, priority, matching, instructions, .. } = flow;
        let desc = FlowDesc { table_id, priority, matching, instructions, ..FlowDesc::default() };
        flows.entry(at).or_default().push(desc);
    }
    let port = |port_no| Port { port_no: PortNo(port_no), ..Port::default() };
    let state = |at| {
        let mut state = SwitchState::new(Version::V1_3, (1..=4).map(port).collect());
        state.add_flows(flows.remove(&at).unwrap_or_default());
        (at, state)
    };
    (1..=SWITCHES).map(state).collect()
}

fn installed<'e>(entries: impl IntoIterator<Item = &'e Arc<Entry>>) -> Vec<(u64, FlowMod)> {
    let of_entry = |entry: &Arc<Entry>| {
        let Selector::Switches(list) = entry.declaration.switches.clone() else { unreachable!() };
        let flow = parse_flow(&entry.declaration.text).unwrap();
        let id = |id: String| id.parse::<DatapathId>().unwrap().0;
        list.into_iter().map(move |at| (id(at), flow.clone())).collect::<Vec<_>>()
    };
    entries.into_iter().flat_map(of_entry).collect()
}

/// The flow entries of a policy, installed as they are.
fn unversioned(flows: &[Declaration]) -> BTreeMap<u64, SwitchState> {
    describe(flows.iter().map(|it| {
        let Selector::Switches(list) = &it.switches else { unreachable!() };
        (list[0].parse::<DatapathId>().unwrap().0, parse_flow(&it.text).unwrap())
    }))
}

/// Where the copies of a packet leave the network, and as which frames. `None` if it travels for too long.
fn travel<'s>(
    from: (u64, u32),
    frame: &[u8],
    mut state: impl FnMut(u64) -> &'s SwitchState,
) -> Option<Vec<(u64, u32, Vec<u8>)>> {
    let (mut left, mut hops) = (vec![], 0);
    let mut in_flight = VecDeque::from([(from.0, from.1, frame.to_vec())]);
    while let Some((at, port, frame)) = in_flight.pop_front() {
        hops += 1;
        if hops > 30 {
            return None;
        }
        let limits = TraceLimits { steps: 1000, frame_bytes: 100_000 };
        for output in trace(state(at), PortNo(port), frame, limits).unwrap().outputs {
            let OutputTo::Port(to) = output.to else { panic!("{output:?}") };
            match peer(at, to.0) {
                Some((next, in_port)) => {
                    in_flight.push_back((next, in_port, output.frame.to_vec()));
                }
                None => left.push((at, to.0, output.frame.to_vec())),
            }
        }
    }
    left.sort();
    Some(left)
}

fn packets() -> Vec<Vec<u8>> {
    let texts = ["ip,nw_dst=10.0.0.0,nw_tos=0", "ip,nw_dst=10.0.0.1,nw_tos=4", "arp"];
    texts.map(|text| frame(&text.parse().unwrap()).unwrap()).to_vec()
}

#[test]
fn a_policy_processes_packets_as_its_flow_entries_do() {
    let (mut compared, mut delivered) = (0, 0);
    for seed in 0..300 {
        let flows = random_flows(&mut Rng::new(seed));
        let version = version(&flows, 4000).unwrap();
        let plain = unversioned(&flows);
        let tagged = describe(installed(version.ingress().chain(version.transit())));
        for (at, port) in (1..=SWITCHES).flat_map(|at| [(at, 3), (at, 4)]) {
            for packet in packets() {
                let expected = travel((at, port), &packet, |at| &plain[&at]);
                let found = travel((at, port), &packet, |at| &tagged[&at]);
                assert_eq!(found, expected, "seed {seed}, port {at}:{port}\n{flows:#?}");
                compared += 1;
                delivered += found.map_or(0, |it| it.len());
            }
        }
    }
    assert!(delivered > compared / 10, "{delivered} of {compared}");
}

/// Between two hops, anything may happen to the ingress entries of any switch.
#[test]
fn a_packet_is_processed_by_one_version_on_its_whole_path() {
    let mut mixtures_without_versions = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let flows = [random_flows(&mut rng), random_flows(&mut rng)];
        let plain = [unversioned(&flows[0]), unversioned(&flows[1])];
        let [old, new] = [(0, 4000), (1, 4001)].map(|(no, tag)| version(&flows[no], tag).unwrap());
        let transit = || installed(old.transit().chain(new.transit()));
        let with = |version: &PolicyVersion| {
            describe(transit().into_iter().chain(installed(version.ingress())))
        };
        let (before, after) = (with(&old), with(&new));
        for (at, port) in (1..=SWITCHES).flat_map(|at| [(at, 3), (at, 4)]) {
            for packet in packets() {
                let pure =
                    [&before, &after].map(|states| travel((at, port), &packet, |at| &states[&at]));
                for _ in 0..4 {
                    let mut first = None;
                    let mixed = travel((at, port), &packet, |at| {
                        let used = rng.below(2) as usize;
                        first.get_or_insert(used);
                        &[&before, &after][used][&at]
                    });
                    assert_eq!(mixed, pure[first.unwrap()], "seed {seed}, port {at}:{port}");
                    let mixed =
                        travel((at, port), &packet, |at| &plain[rng.below(2) as usize][&at]);
                    mixtures_without_versions += usize::from(!pure.contains(&mixed));
                }
            }
        }
    }
    assert!(mixtures_without_versions > 1000, "{mixtures_without_versions}");
}

#[test]
fn a_host_cannot_send_packets_with_a_tag() {
    let flows = [
        declaration("a", 1, "priority=10,actions=output:1"),
        declaration("b", 2, "priority=10,actions=output:3"),
    ];
    let version = version(&flows, 4000).unwrap();
    let states = describe(installed(version.ingress().chain(version.transit())));
    let packet = frame(&"ip".parse().unwrap()).unwrap();
    assert_eq!(travel((1, 3), &packet, |at| &states[&at]), Some(vec![(2, 3, packet.clone())]));
    let spoofed = frame(&"ip,dl_vlan=4000".parse().unwrap()).unwrap();
    for (at, port) in [(1, 3), (2, 4)] {
        assert_eq!(travel((at, port), &spoofed, |at| &states[&at]), Some(vec![]));
    }
    // Packets with other tags are not those of the policy.
    let other = frame(&"ip,dl_vlan=7".parse().unwrap()).unwrap();
    assert_eq!(travel((1, 3), &other, |at| &states[&at]), Some(vec![]));
}

#[test]
fn what_cannot_be_versioned_is_refused() {
    for (text, why) in [
        ("priority=10,dl_vlan=5,actions=drop", "VLAN tags"),
        ("priority=10,actions=mod_vlan_vid:5,output:1", "is not possible in a policy"),
        ("priority=10,actions=strip_vlan,output:1", "is not possible in a policy"),
        ("priority=10,actions=push_mpls:0x8847,output:1", "is not possible in a policy"),
        ("priority=10,actions=normal", "is not possible in a policy"),
        ("priority=10,actions=all", "is not possible in a policy"),
        ("priority=10,actions=group:1", "is not possible in a policy"),
        ("priority=10,actions=write_actions(output:1)", "is not possible in a policy"),
        ("priority=10,actions=resubmit(,1)", "is not possible in a policy"),
        ("priority=10,actions=set_field:7->in_port,in_port", "is not possible in a policy"),
        ("priority=7,actions=drop", "priority 7 (a policy has 8 to 65530)"),
        ("priority=65531,actions=drop", "priority 65531"),
        ("priority=10,idle_timeout=5,actions=drop", "idle_timeout"),
        ("priority=10,actions=outptu:1", "outptu"),
    ] {
        let error = flow(&declaration("f", 1, text)).unwrap_err();
        assert!(error.message.contains(why), "{text}: {error}");
    }
    for text in [
        "priority=8,actions=output:1",
        "priority=10,tcp,tp_dst=80,actions=dec_ttl,set_queue:1,output:1,controller",
        "table=3,priority=10,actions=meter:1,write_metadata:1,goto_table:4",
        "priority=10,in_port=LOCAL,actions=local,in_port",
    ] {
        flow(&declaration("f", 1, text)).unwrap();
    }
    for (flows, why) in [
        (vec![declaration("f", 1, "priority=10,in_port=9,actions=drop")], "in_port=9: switch"),
        (vec![declaration("f", 1, "priority=10,actions=goto_table:2")], "goto_table:2"),
        (
            vec![
                declaration("f", 1, "priority=10,tcp,actions=drop"),
                declaration("g", 1, "priority=10,tcp,in_port=3,actions=drop"),
            ],
            "as flow \"f\" at switch 0000000000000001",
        ),
    ] {
        let error = version(&flows, 4000).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let group = Declaration {
        key: Key { kind: Kind::Group, name: "g".to_owned() },
        ..declaration("g", 1, "group_id=1,type=all")
    };
    assert!(flow(&group).unwrap_err().message.contains("flow entries only"));
}

#[test]
fn too_many_entries_and_unknown_ports_are_refused() {
    let flows: Vec<_> = (0..4096)
        .map(|n| {
            declaration(
                &format!("f{n}"),
                n % 4 + 1,
                &format!("priority=10,udp,tp_dst={n},actions=drop"),
            )
        })
        .collect();
    let more = flows.iter().take(2000).map(|it| {
        let text = it.text.replace("priority=10", "priority=11");
        Declaration { text, ..it.clone() }
    });
    let many: Vec<_> = flows.iter().cloned().chain(more).collect();
    assert!(matches!(version(&many, 4000), Err(PolicyError::TooManyEntries)));
    version(&flows, 4000).unwrap();
    let all = BTreeSet::from([DatapathId(1), DatapathId(9)]);
    let unknown = compile::PolicyNetwork::new(&topology(), &all).unwrap_err();
    assert_eq!(unknown, PolicyError::NotConnected("0000000000000009".to_owned()));
}
