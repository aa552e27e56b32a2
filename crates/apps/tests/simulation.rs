//! Networks in virtual time, with cut links, cut sessions, moved hosts, and replies that are late or out of order: after
//! quiet no loop, no black hole, no stale rule, and every pair reaches each other.
//!
//! `make sim` plays ten thousand; `RUNS` and `SEED` say how many and from which seed on. A failure names its seed, and
//! `make sim RUNS=1 SEED=…` plays that again; with `SLUICE_SIM_TELL=1` it tells what went wrong when. What applications
//! draw by chance themselves (keys, the order of maps) is not the seed's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Flooding};
use sluice_apps::forwarding::{SpanningTree, TreePhase};
use sluice_apps::{Chain, Config};
use sluice_base::Rng;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary};
use sluice_emu::switch::{EmulatedSwitchConfig, FlowEntry};
use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::{Action, DatapathId, FieldId, Instruction, Version, Versions, VlanId};
use sluice_sdk::App;
use sluice_sdk::view::HostId;
use sluice_testkit::SimulatedController;

/// Runs without `SLUICE_SIM_RUNS`.
const RUNS: u64 = 30;

/// What runs a network.
const APPS: [&str; 3] = ["topology", "hosts", "forwarding"];

/// How long a frame is on a link. While the rules of a new way are on theirs, which takes as long as the control links
/// take and longer where one is held, a frame may meet old and new ones and go round.
const LINK: Duration = Duration::from_millis(1);

/// How often one frame may be sent within a second: what goes round comes to a thousand, what multiplies to any number.
const COPIES_MAX: u64 = 1500;

/// Long enough for discovery on the slowest control link here.
const DISCOVERY: Duration = Duration::from_secs(5);

/// In which a tree stands as well, if there is to be one.
const GROWTH: Duration = Duration::from_secs(16);

/// Broadcasts that hosts send while faults occur.
const TRACES: u32 = 100;

/// In which all that goes wrong goes wrong.
const TROUBLE_MS: u32 = 10_000;

/// After which everything must be well: lost probes, hosts that are asked, limits that pass.
const QUIET: Duration = Duration::from_secs(30);

#[test]
fn after_trouble_and_quiet_every_network_is_whole() {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let runs = number("SLUICE_SIM_RUNS").unwrap_or(RUNS);
    let first = number("SLUICE_SIM_SEED").unwrap_or(1);
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + runs {
                        break;
                    }
                    if let Err(why) = play(seed) {
                        next.store(first + runs, Relaxed);
                        panic!("SLUICE_SIM_RUNS=1 SLUICE_SIM_SEED={seed}: {why}");
                    }
                }
            });
        }
    });
}

/// One network, its trouble and its end.
fn play(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shapes = [
        "ring,3",
        "ring,4",
        "ring,6",
        "mesh,4",
        "mesh,5",
        "leafspine,2,4,1",
        "tree,2,2",
        "torus,3,3",
        "linear,4",
    ];
    let shape = shapes.get(rng.below(9) as usize).unwrap();
    let mut topology = Topology::from_text(shape).map_err(|e| e.to_string())?;
    topology.set_impairments(LinkImpairments { delay: LINK, ..LinkImpairments::default() });
    let versions = [Version::V1_0, Version::V1_3, Version::V1_3, Version::V1_5];
    let version = versions.get(rng.below(4) as usize).unwrap();
    let control = |rng: &mut Rng| LinkImpairments {
        delay: Duration::from_micros(rng.below(20_000).into()),
        jitter: Duration::from_micros(rng.below(5_000).into()),
        ..LinkImpairments::default()
    };
    let options = NetworkOptions {
        seed,
        switch: EmulatedSwitchConfig {
            versions: Versions::of(&[*version]),
            n_buffers: if rng.below(2) == 0 { 0 } else { 64 },
            ..EmulatedSwitchConfig::default()
        },
        control_up: control(&mut rng),
        control_down: control(&mut rng),
        connect_spread: Duration::from_millis(200),
        frame_copies_max: Some(COPIES_MAX),
        ..NetworkOptions::default()
    };
    let names = APPS.map(str::to_owned);
    // Not the stream that all else is drawn from.
    let flooding =
        if Rng::new(!seed).below(4) == 0 { Flooding::Tree } else { Flooding::Controller };
    let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
    let config = Config { forwarding, ..Config::default() };
    let apps = |_| -> Chain { Chain::new(&names, &config).unwrap() };
    let controller = SimulatedController::new((0..=rng.below(3)).map(apps), seed);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let mut net =
        NetworkSimulation::new(topology, &options, start, controller).map_err(|e| e.to_string())?;
    let story = format!("{shape} in {version}, floods by {flooding:?}");
    let told = |what: &str, why: &dyn std::fmt::Display| format!("{story}: {what}: {why}");
    let begin = if flooding == Flooding::Tree { GROWTH } else { DISCOVERY };
    net.run_for(begin).map_err(|e| told("discovery", &e))?;
    let heard_max = trouble(&mut net, &mut rng).map_err(|e| told("trouble", &e))?;
    net.run_for(QUIET).map_err(|e| told("quiet", &e))?;
    broadcasts(&mut net, flooding, heard_max).map_err(|why| told("broadcasts", &why))?;
    whole(&mut net).map_err(|why| {
        let rules = no_stale_rule(&net).err().unwrap_or_default();
        told("after quiet", &format!("{why}; {rules}; {}", counts_of(&net)))
    })
}

type Network = NetworkSimulation<SimulatedController<Chain>>;

/// Schedules faults, lets hosts send meanwhile, and repairs what must be repaired. How often a host may hear a frame
/// to all: what a control link holds back is flooded once more when it comes, if it came from a port that nobody knew yet
/// to be at a link.
fn trouble(net: &mut Network, rng: &mut Rng) -> Result<u32, sluice_emu::net::NetworkError> {
    let topology = net.data_plane().topology().clone();
    let (n_links, n_switches) = (topology.links.len(), topology.switches.len());
    let pick = |rng: &mut Rng, n: usize| rng.below(u32::try_from(n.max(1)).unwrap()) as usize;
    let (start, mut cut) = (net.now(), BTreeSet::new());
    let (mut held, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..=rng.below(8) {
        let at = start + Duration::from_millis(rng.below(TROUBLE_MS).into());
        let schedule = |net: &mut Network, at: Instant, fault| {
            if std::env::var_os("SLUICE_SIM_TELL").is_some() {
                let _ = writeln!(std::io::stderr(), "{:?}: {fault:?}", at - start);
            }
            net.schedule(at, fault);
        };
        match rng.below(6) {
            0 | 1 if n_links > 0 => {
                let link = pick(rng, n_links);
                schedule(net, at, NetworkChange::CutLink(link));
                cut.insert(link);
                if rng.below(2) == 0 {
                    let later = at + Duration::from_millis(rng.below(3000).into());
                    schedule(net, later, NetworkChange::RestoreLink(link));
                }
            }
            2 => net.schedule(at, NetworkChange::BreakControlConnection(pick(rng, n_switches))),
            3 => {
                let switch = pick(rng, n_switches);
                schedule(net, at, NetworkChange::PauseControlLink(switch));
                held.insert(switch);
                let later = at + Duration::from_millis(rng.below(8000).into());
                schedule(net, later, NetworkChange::ResumeControlLink(switch));
            }
            4 => {
                let (host, switch) = (pick(rng, topology.hosts.len()), pick(rng, n_switches));
                // One free port each.
                if taken.insert(switch)
                    && let Some(to) = net.data_plane().free_port(switch)
                {
                    schedule(net, at, NetworkChange::MoveHost(host, to));
                }
            }
            _ => {
                let late = LinkImpairments {
                    delay: Duration::from_micros(rng.below(50_000).into()),
                    jitter: Duration::from_micros(rng.below(50_000).into()),
                    ..LinkImpairments::default()
                };
                schedule(
                    net,
                    at,
                    NetworkChange::SetControlImpairments(pick(rng, n_switches), late, late),
                );
            }
        }
    }
    for number in 0..TRACES {
        let at = start + Duration::from_millis(rng.below(TROUBLE_MS + 12_000).into());
        net.schedule(at, NetworkChange::SendTracedFrame(pick(rng, topology.hosts.len()), number));
    }
    for _ in 0..5 {
        let pairs: Vec<_> =
            PingSummary::all_pairs(&topology).filter(|_| rng.below(3) == 0).collect();
        net.ping(pairs, IpFamily::V4, Duration::from_millis((TROUBLE_MS / 5).into()))?;
        let until = start + Duration::from_millis((TROUBLE_MS / 5).into());
        net.run_until(until.max(net.now()))?;
    }
    let over = start + Duration::from_millis((TROUBLE_MS + 12_000).into());
    net.run_until(over.max(net.now()))?;
    // A network in two halves has pairs that cannot reach each other.
    cut.iter().try_for_each(|&link| net.apply(NetworkChange::RestoreLink(link)))?;
    held.iter().try_for_each(|&switch| net.apply(NetworkChange::ResumeControlLink(switch)))?;
    Ok(if held.is_empty() { 1 } else { 2 })
}

/// Every pair reaches each other, and every rule leads where it should.
fn whole(net: &mut Network) -> Result<(), String> {
    let topology = net.data_plane().topology().clone();
    let rules = "before anybody speaks again";
    no_stale_rule(net).map_err(|why| format!("{rules}: {why}"))?;
    for family in [IpFamily::V4, IpFamily::V6] {
        // The first may be what makes a moved host heard of.
        let timeout = Duration::from_secs(5);
        net.ping(PingSummary::all_pairs(&topology), family, timeout).map_err(|e| e.to_string())?;
        let pings = net.ping(PingSummary::all_pairs(&topology), family, timeout);
        let pings = pings.map_err(|e| e.to_string())?;
        if let Some(&(from, to)) = pings.lost_pairs.first() {
            let (answered, lost) = (pings.answered, &pings.lost_pairs);
            let known = [from, to].map(|host| known_of(net, host)).join("; ");
            let counts = counts_of(net);
            return Err(format!(
                "{family:?}: of {answered} pings lost {lost:?}; {known}; {counts}"
            ));
        }
    }
    no_stale_rule(net)
}

/// No frame to all came too often to anybody or took a link twice, whatever happened; now each comes to everybody once.
fn broadcasts(net: &mut Network, flooding: Flooding, heard_max: u32) -> Result<(), String> {
    let hosts = u32::try_from(net.data_plane().topology().hosts.len()).unwrap();
    if flooding == Flooding::Tree && net.data_plane().topology().switches.len() > 1 {
        for network in net.controller().networks() {
            let tree = SpanningTree::of(network.view());
            if tree.is_none_or(|tree| tree.phase != TreePhase::Active) {
                return Err(format!("no tree stands: {tree:?}"));
            }
        }
    }
    for from in 0..hosts {
        net.apply(NetworkChange::SendTracedFrame(from as usize, TRACES + from))
            .map_err(|e| e.to_string())?;
        net.run_for(Duration::from_millis(200)).map_err(|e| e.to_string())?;
    }
    let traces = net.data_plane().traces();
    for number in 0..TRACES + hosts {
        let most = traces.deliveries(number).map(|(_, times)| times).max();
        let heard_max = if number < TRACES { heard_max } else { 1 };
        if most > Some(heard_max) || traces.link_crossings_max(number) > 1 {
            let heard: Vec<_> = traces.deliveries(number).collect();
            let links = traces.link_crossings_max(number);
            return Err(format!("frame {number} came {heard:?}, and took a link {links} times"));
        }
        let heard = traces.deliveries(number).count();
        if number >= TRACES && heard + 1 != hosts as usize {
            let (from, counts) = (number - TRACES, counts_of(net));
            return Err(format!("{heard} of {hosts} heard what host {from} sent: {counts}"));
        }
    }
    Ok(())
}

/// Where a host is, and what each worker thinks of it and of its port.
fn known_of(net: &Network, host: usize) -> String {
    let topology = net.data_plane().topology();
    let Some(node) = topology.hosts.get(host) else { return String::new() };
    let switch = topology.switches.get(node.port.switch).map(|switch| switch.datapath_id);
    let at = sluice_sdk::view::SwitchPort::new(switch.unwrap_or(DatapathId(0)), node.port.port);
    let id = HostId { mac: node.mac, vlan: VlanId(0) };
    let views = net.controller().networks().map(|network| {
        let view = network.view();
        let known = view.host(id).map(|host| host.at.to_string());
        format!("{known:?}, there is {:?}", view.port_role(at))
    });
    format!("{} is at {at}: {}", node.name, views.collect::<Vec<_>>().join(" / "))
}

/// The rules for what two hosts say to each other, in both directions.
fn rules_of(net: &Network, from: usize, to: usize) -> String {
    let topology = net.data_plane().topology();
    let mac = |n: usize| topology.hosts.get(n).map(|host| u128::from(host.mac.to_u64()));
    let mut rules = Vec::new();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in
            net.data_plane().switch(at).into_iter().flat_map(|switch| switch.flow_entries(0))
        {
            let ends = [FieldId::ETH_SRC, FieldId::ETH_DST].map(|id| value(entry, id));
            if ends == [mac(from), mac(to)] || ends == [mac(to), mac(from)] {
                let way = if ends == [mac(from), mac(to)] { "there" } else { "back" };
                let (n, age) = (entry.packets, net.now() - entry.added_at);
                let port = output(entry);
                rules.push(format!("{} {way} by {port:?}, {n} packets in {age:?}", node.name));
            }
        }
    }
    rules.join(", ")
}

/// What the applications count, all workers together.
fn counts_of(net: &Network) -> String {
    let mut counts = BTreeMap::new();
    for app in net.controller().apps() {
        app.metrics(&mut |metric| *counts.entry(metric.name).or_insert(0) += metric.value);
    }
    counts.retain(|_, &mut n| n > 0);
    format!("{counts:?}")
}

/// Follows every rule that leads to a host, from every switch that has one.
fn no_stale_rule(net: &Network) -> Result<(), String> {
    let fabric = net.data_plane();
    let topology = fabric.topology();
    let mut ends = HashMap::new();
    for link in &topology.links {
        ends.insert(link.a, link.b);
        ends.insert(link.b, link.a);
    }
    let hosts = topology.hosts.iter();
    let places: HashMap<_, _> =
        hosts.map(|host| (u128::from(host.mac.to_u64()), host.port)).collect();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in fabric.switch(at).into_iter().flat_map(|switch| switch.flow_entries(0)) {
            let Some(dst) = value(entry, FieldId::ETH_DST) else { continue };
            let Some(&home) = places.get(&dst) else { continue };
            let (mut here, mut rule) = (at, Some(entry));
            for _ in 0..=topology.switches.len() {
                let Some(port) = rule.and_then(output) else { break };
                let out = PortRef { switch: here, port };
                if out == home {
                    rule = None;
                    break;
                }
                let Some(to) = ends.get(&out) else {
                    return Err(format!(
                        "{} leads {dst:012x} out of {out:?}, not {home:?}",
                        node.name
                    ));
                };
                here = to.switch;
                let key = (value(entry, FieldId::ETH_SRC), dst);
                let mut others = fabric.switch(here).into_iter().flat_map(|s| s.flow_entries(0));
                rule = others.find(|other| {
                    let dst = value(other, FieldId::ETH_DST);
                    dst.map(|dst| (value(other, FieldId::ETH_SRC), dst)) == Some(key)
                });
            }
            if rule.and_then(output).is_some() {
                let src = value(entry, FieldId::ETH_SRC).unwrap_or_default();
                let loops = format!("{src:012x} to {dst:012x} goes round in a loop");
                let host =
                    |mac| topology.hosts.iter().position(|h| u128::from(h.mac.to_u64()) == mac);
                let rules = host(src).zip(host(dst)).map(|(src, dst)| rules_of(net, src, dst));
                return Err(format!("from {} {loops}: {}", node.name, rules.unwrap_or_default()));
            }
        }
    }
    Ok(())
}

fn value(entry: &FlowEntry, id: FieldId) -> Option<u128> {
    entry.matching.iter().find(|field| field.id == id).map(|field| field.value)
}

fn output(entry: &FlowEntry) -> Option<sluice_openflow::PortNo> {
    entry.instructions.iter().find_map(|instruction| match instruction {
        Instruction::ApplyActions { actions } => actions.iter().find_map(|action| match action {
            Action::Output { port, .. } => Some(*port),
            _ => None,
        }),
        _ => None,
    })
}
