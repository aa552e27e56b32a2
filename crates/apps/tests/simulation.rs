//! Random networks in virtual time, with failed links, lost control connections, moved hosts, and late or reordered replies.
//! After recovery there must be no loop, no black hole and no stale flow entry, and all hosts must reach each other. All workers
//! must have the same view whenever nothing is in flight between them. An operator adds a flow entry, which must stay, and deletes
//! all entries of switches. No message may have been torn apart on a control connection;
//! without a cause no connection may have been closed and no message of an application lost.
//!
//! The controller is the engine with its acceptor and one to four workers, whose threads are delayed at random and interrupted
//! within iterations, and whose connections have buffers of random sizes. In half of the networks control links lose packets and
//! have a rate of 0.5 to 100 Mbit/s; in some the end of a connection is not noticed or the switch connects again at once, the
//! backlogs of switches or the queues between threads have small limits, or switches move between workers.
//!
//! `make sim` runs two thousand networks, which takes part of the time of `make test`; `RUNS` and `SEED` set their number and the
//! first seed. With `RUNS=10000`, which takes three minutes on two cores, no seed fails either. A failure prints its seed, and
//! `make sim RUNS=1 SEED=…` repeats it exactly; with `SLUICE_SIM_TRACE=1` it prints the faults.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Flooding};
use sluice_apps::forwarding::{SpanningTree, TreePhase};
use sluice_apps::topology::{self, WallClock};
use sluice_apps::{Chain, Config};
use sluice_base::metrics::MetricValue;
use sluice_base::{HashMap, Rng};
use sluice_emu::link::{LinkImpairments, LossRatio};
use sluice_emu::net::{
    ControlTransport, IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary,
};
use sluice_emu::switch::{EmulatedSwitchConfig, FlowEntry};
use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::{
    Action, DatapathId, Field, FieldId, FlowMod, Instruction, MacAddr, Version, Versions, VlanId,
};
use sluice_sdk::App;
use sluice_sdk::view::{HostId, PortRole, SwitchPort};
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

/// Number of networks without `SLUICE_SIM_RUNS`.
const RUNS: u64 = 30;

/// Number of networks that are run twice and compared.
const REPEATED_RUNS: u64 = 12;

const APPS: &[&str] = &["topology", "hosts", "forwarding"];
const APPS_WITH_LIMITER: &[&str] = &["topology", "limiter", "hosts", "forwarding"];

const SHAPES: [&str; 9] = [
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

/// Delay of links. While the flow entries of a new path are being sent, which takes longer if a control link is paused, a frame
/// may match old and new ones and loop.
const LINK_DELAY: Duration = Duration::from_millis(1);

/// How often one frame may be sent within a second: a looping frame is sent a thousand times, a multiplying one without limit.
const COPIES_MAX: u64 = 1500;

/// Long enough for discovery over the slowest control link.
const DISCOVERY_TIME: Duration = Duration::from_secs(5);

/// Long enough for discovery and the installation of a spanning tree.
const TREE_INSTALLATION_TIME: Duration = Duration::from_secs(16);

/// Broadcasts that hosts send while faults occur.
const TRACED_FRAMES: u32 = 100;

/// Period in which faults occur.
const FAULTS_MS: u32 = 10_000;

/// Time after the faults in which everything must recover: covers lost probes, probed hosts and expiring limits.
const RECOVERY_TIME: Duration = Duration::from_secs(30);

#[test]
fn after_faults_and_recovery_all_hosts_reach_each_other_and_no_entry_is_stale() {
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
                    if let Err(why) = run_one(seed) {
                        next.store(first + runs, Relaxed);
                        panic!("SLUICE_SIM_RUNS=1 SLUICE_SIM_SEED={seed}: {why}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_repeats_every_byte_and_its_time() {
    let run = |seed| std::thread::spawn(move || run_one(seed).unwrap()).join().unwrap();
    for seed in 1..=REPEATED_RUNS {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}

/// Its ports are edge ports by then, until the first probe arrives.
#[test]
fn a_link_that_carries_nothing_for_a_while_causes_no_storm_when_it_does_again() {
    for (seed, shape) in (1..).zip(["ring,3", "ring,4", "mesh,4", "leafspine,2,4,1"]) {
        let mut topology = Topology::from_text(shape).unwrap();
        let working = LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() };
        topology.set_impairments(working);
        let frame_copies_max = Some(COPIES_MAX);
        let options = NetworkOptions { seed, frame_copies_max, ..NetworkOptions::default() };
        let engine =
            SimulatedEngineOptions { seed, workers: 2, ..SimulatedEngineOptions::default() };
        let names: Vec<_> = APPS.iter().map(|&name| name.to_owned()).collect();
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let apps = |_| -> Chain { Chain::new(&names, &Config::default()).unwrap() };
        let controller = SimulatedEngine::new(&engine, start, apps);
        let mut net = NetworkSimulation::new(topology, &options, start, controller).unwrap();
        net.run_for(DISCOVERY_TIME).unwrap();
        let silent = LinkImpairments { loss: LossRatio::from_ppm(1_000_000), ..working };
        net.apply(NetworkChange::SetLinkImpairments(0, silent)).unwrap();
        net.run_for(Duration::from_secs(45)).unwrap();
        let end = net.data_plane().topology().links.first().unwrap().a;
        let switch = net.data_plane().topology().switches.get(end.switch).unwrap().datapath_id;
        let role = net
            .controller()
            .networks()
            .next()
            .unwrap()
            .view()
            .port_role(SwitchPort::new(switch, end.port));
        assert_eq!(role, PortRole::Edge, "{shape}");
        net.apply(NetworkChange::SetLinkImpairments(0, working)).unwrap();
        let hosts = net.data_plane().topology().hosts.len();
        for number in 0..TRACED_FRAMES {
            let host = number as usize % hosts;
            net.apply(NetworkChange::SendTracedFrame(host, number)).unwrap();
            net.run_for(Duration::from_millis(20)).unwrap();
        }
        net.run_for(DISCOVERY_TIME).unwrap();
        let traces = net.data_plane().traces();
        for number in 0..TRACED_FRAMES {
            let most = traces.deliveries(number).map(|(_, times)| times).max();
            assert!(most <= Some(2), "{shape}: broadcast {number} was delivered {most:?} times");
        }
        check_pings(&mut net).unwrap();
    }
}

/// Runs the network of a seed, its faults and the checks afterwards. Returns a hash of all that was sent over control
/// connections, and the metrics of the applications.
fn run_one(seed: u64) -> Result<(u64, String), String> {
    let mut rng = Rng::new(seed);
    let shape = SHAPES.get(rng.below(9) as usize).unwrap();
    let mut topology = Topology::from_text(shape).map_err(|e| e.to_string())?;
    topology.set_impairments(LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() });
    let versions = [Version::V1_0, Version::V1_3, Version::V1_3, Version::V1_5];
    let version = versions.get(rng.below(4) as usize).unwrap();
    let control = |rng: &mut Rng| LinkImpairments {
        delay: Duration::from_micros(rng.below(20_000).into()),
        jitter: Duration::from_micros(rng.below(5_000).into()),
        ..LinkImpairments::default()
    };
    let conditions = NetworkConditions::new(seed);
    let options = NetworkOptions {
        seed,
        switch: EmulatedSwitchConfig {
            versions: Versions::of(&[*version]),
            n_buffers: if rng.below(2) == 0 { 0 } else { 64 },
            ..EmulatedSwitchConfig::default()
        },
        control_up: conditions.on_link(control(&mut rng)),
        control_down: conditions.on_link(control(&mut rng)),
        control_transport: conditions.transport,
        reconnect_delay: conditions.reconnect_delay,
        connect_spread: Duration::from_millis(200),
        frame_copies_max: Some(COPIES_MAX),
        ..NetworkOptions::default()
    };
    let names: Vec<_> = conditions.apps.iter().map(|&name| name.to_owned()).collect();
    // From a separate stream, so that the other choices of a seed do not depend on it.
    let mut more = Rng::new(!seed);
    let flooding = if more.below(4) == 0 { Flooding::Tree } else { Flooding::Controller };
    let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let start = Instant::now();
    let clock = Some(WallClock { at: start, since_1970: Duration::ZERO });
    let topology_app = topology::Config { clock, ..topology::Config::default() };
    let config = Config { forwarding, topology: topology_app, ..Config::default() };
    let apps = |_| -> Chain { Chain::new(&names, &config).unwrap() };
    // The choice that was made here before there were four workers, so that the others of a seed stay.
    rng.below(3);
    let mut engine = SimulatedEngineOptions { seed, ..SimulatedEngineOptions::default() };
    engine.workers = conditions.workers;
    engine.config.limits.backlog_bytes_max = conditions.backlog_bytes_max;
    engine.config.limits.queue_capacity = conditions.queue_capacity;
    if more.below(4) == 0 {
        engine.conditions = Conditions::overloaded();
    }
    engine.conditions.silent_end_odds = if more.below(2) == 0 { 2 } else { 0 };
    let controller = SimulatedEngine::new(&engine, start, apps);
    let mut net =
        NetworkSimulation::new(topology, &options, start, controller).map_err(|e| e.to_string())?;
    let context = format!("{shape} in {version}, floods by {flooding:?}, {conditions:?}");
    let failed = |what: &str, why: &dyn std::fmt::Display| format!("{context}: {what}: {why}");
    let startup = if flooding == Flooding::Tree { TREE_INSTALLATION_TIME } else { DISCOVERY_TIME };
    net.run_for(startup).map_err(|e| failed("discovery", &e))?;
    let operator = Operator::new(seed, &mut net).map_err(|e| failed("operator", &e))?;
    let mut faults =
        run_with_faults(&mut net, &mut rng, &conditions).map_err(|e| failed("faults", &e))?;
    faults.have_silent_ends = engine.conditions.silent_end_odds > 0;
    net.run_for(RECOVERY_TIME).map_err(|e| failed("recovery", &e))?;
    Operator::use_entry(&mut net).map_err(|e| failed("operator", &e))?;
    // A packet-in that a paused control link delays is flooded again if its port was not yet known to be a link.
    let deliveries_max = if faults.have_pauses { 2 } else { 1 };
    check_broadcasts(&mut net, flooding, deliveries_max, &conditions)
        .map_err(|why| failed("broadcasts", &why))?;
    check_connections(&net, &faults).map_err(|why| failed("connections", &why))?;
    operator.check_entry(&net).map_err(|why| failed("operator", &why))?;
    check_views(&net).map_err(|why| failed("after recovery", &why))?;
    check_pings(&mut net).map_err(|why| {
        let entries = check_flow_entries(&net).err().unwrap_or_default();
        failed("after recovery", &format!("{why}; {entries}; {}", metrics(&net)))
    })?;
    Ok((net.controller().digest(), metrics(&net)))
}

/// What is decided from a separate stream of random numbers, so that the other choices of a seed do not depend on it.
#[derive(Debug)]
struct NetworkConditions {
    workers: usize,
    apps: &'static [&'static str],
    transport: ControlTransport,
    /// Rate of control links, and packets that they lose.
    rate_bps: Option<NonZeroU64>,
    loss: LossRatio,
    backlog_bytes_max: usize,
    /// Weight of what may wait for a thread.
    queue_capacity: usize,
    moves: SwitchMoves,
    reconnect_delay: Duration,
}

/// Whether switches move between workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwitchMoves {
    Never,
    /// All at once, each to the next worker.
    InTurn,
    /// Some of them, to any worker, so that one may have many more than another.
    Random,
}

impl NetworkConditions {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(3) ^ 0xc0d1);
        let mut one_in = |n: u32| rng.below(n) == 0;
        let (is_tcp, is_limited, has_limiter) = (one_in(2), one_in(4), one_in(8));
        let moves_switches = one_in(4);
        // From 0.5 to 100 Mbit/s, evenly in the logarithm.
        let kbit = 500.0 * 200f64.powf(f64::from(rng.below(1000)) / 1000.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let rate_bps = NonZeroU64::new(kbit as u64 * 1000).filter(|_| is_tcp);
        let loss = LossRatio::from_ppm(if is_tcp { rng.below(20_000) } else { 0 });
        let workers = 1 + rng.below(4) as usize;
        let backlog_bytes_max = 512 << rng.below(5);
        let queue_capacity = if rng.below(4) == 0 { 1 + rng.below(16) as usize } else { 4096 };
        let moves = match (moves_switches, rng.below(4)) {
            (true, 0 | 1) => SwitchMoves::InTurn,
            (true, _) | (false, 0) => SwitchMoves::Random,
            (false, _) => SwitchMoves::Never,
        };
        // A switch may connect again before the loss of its connection is noticed.
        let is_impatient = rng.below(2) == 0;
        let reconnect_ms = if is_impatient { rng.below(100) } else { 1000 };
        Self {
            workers,
            apps: if has_limiter { APPS_WITH_LIMITER } else { APPS },
            transport: if is_tcp { ControlTransport::Tcp } else { ControlTransport::Ideal },
            rate_bps,
            loss,
            backlog_bytes_max: if is_limited { backlog_bytes_max } else { 256 << 10 },
            queue_capacity,
            moves,
            reconnect_delay: Duration::from_millis(reconnect_ms.into()),
        }
    }

    /// How long the controller may take to flood a packet: several retransmissions, if control links lose packets.
    fn flood_time(&self) -> Duration {
        match self.transport {
            ControlTransport::Ideal => Duration::from_millis(200),
            ControlTransport::Tcp => Duration::from_secs(5),
        }
    }

    /// The impairments of a control link.
    fn on_link(&self, link: LinkImpairments) -> LinkImpairments {
        LinkImpairments { rate_bps: self.rate_bps, loss: self.loss, ..link }
    }
}

/// An operator who adds a flow entry to a switch and deletes all entries of others.
#[derive(Debug)]
struct Operator {
    /// The switch that has the entry, unless it is emptied.
    switch: Option<usize>,
}

impl Operator {
    /// A host that does not exist, to which the entry sends.
    const UNKNOWN: MacAddr = MacAddr([2, 0, 0, 0, 0x12, 0x34]);
    const COOKIE: u64 = 0x1234;

    /// Adds the entry, to a port with a link, and schedules deletions.
    fn new(seed: u64, net: &mut ChainSimulation) -> Result<Self, sluice_emu::net::NetworkError> {
        let mut rng = Rng::new(seed.wrapping_mul(5) ^ 0x0b5e);
        let topology = net.data_plane().topology().clone();
        let link = topology.links.get(pick(&mut rng, topology.links.len())).unwrap();
        let entry = FlowMod {
            cookie: Self::COOKIE,
            priority: 1234,
            matching: [Field::eth_dst(Self::UNKNOWN)].into(),
            instructions: vec![Instruction::apply([Action::output(link.a.port)])],
            ..FlowMod::default()
        };
        let (start, switch) = (net.now(), link.a.switch);
        let (now, data_plane) = net.data_plane_mut();
        assert!(data_plane.change_tables(now, switch, entry)?, "the entry is valid");
        let mut is_emptied = false;
        for _ in 0..rng.below(3) {
            let emptied = pick(&mut rng, topology.switches.len());
            let at = start + Duration::from_millis(rng.below(FAULTS_MS + 20_000).into());
            net.schedule(at, NetworkChange::EmptyTables(emptied));
            is_emptied |= emptied == switch;
        }
        Ok(Self { switch: (!is_emptied).then_some(switch) })
    }

    /// Has all hosts send to the unknown host.
    fn use_entry(net: &mut ChainSimulation) -> Result<(), sluice_emu::net::NetworkError> {
        let hosts = net.data_plane().topology().hosts.clone();
        for (n, host) in hosts.iter().enumerate() {
            let addresses = [Self::UNKNOWN.0, host.mac.0].concat();
            let frame = [&addresses[..], &0x1234_u16.to_be_bytes(), &[0; 46]].concat();
            let (now, data_plane) = net.data_plane_mut();
            data_plane.send_frame(now, n, frame)?;
        }
        net.run_for(Duration::from_secs(5))
    }

    /// Checks that the controller has not deleted the entry.
    fn check_entry(&self, net: &ChainSimulation) -> Result<(), String> {
        let Some(switch) = self.switch else { return Ok(()) };
        let mut entries =
            net.data_plane().switch(switch).into_iter().flat_map(|s| s.flow_entries(0));
        if entries.any(|entry| entry.cookie == Self::COOKIE) {
            return Ok(());
        }
        Err(format!("the entry of the operator is not at switch {switch} any more"))
    }
}

type ChainSimulation = NetworkSimulation<SimulatedEngine<Chain>>;

/// The faults of control connections.
#[derive(Debug, Default)]
struct Faults {
    /// Connections are broken.
    have_breaks: bool,
    /// The engine is not told of the end of some connections.
    have_silent_ends: bool,
    /// Control links carry nothing for a while.
    have_pauses: bool,
}

impl Faults {
    /// Whether they are a cause for which the engine may close a connection.
    fn explain(&self, reason: &str) -> bool {
        match reason {
            "closed_by_peer" | "connection_reset" | "connection_error" => self.have_breaks,
            "duplicate_datapath_id" | "replaced_by_new_connection" => {
                self.have_breaks && self.have_silent_ends
            }
            "echo_timeout" | "send_timeout" | "handshake_timeout" => {
                self.have_pauses || (self.have_breaks && self.have_silent_ends)
            }
            _ => false,
        }
    }
}

/// Schedules faults, has hosts send meanwhile, and repairs permanent faults.
fn run_with_faults(
    net: &mut ChainSimulation,
    rng: &mut Rng,
    conditions: &NetworkConditions,
) -> Result<Faults, sluice_emu::net::NetworkError> {
    let topology = net.data_plane().topology().clone();
    let (n_links, n_switches) = (topology.links.len(), topology.switches.len());
    let (start, mut cut_links) = (net.now(), BTreeSet::new());
    let (mut paused, mut used_switches) = (BTreeSet::new(), BTreeSet::new());
    let mut faults = Faults::default();
    for _ in 0..=rng.below(8) {
        let at = start + Duration::from_millis(rng.below(FAULTS_MS).into());
        let schedule = |net: &mut ChainSimulation, at: Instant, fault| {
            if std::env::var_os("SLUICE_SIM_TRACE").is_some() {
                let _ = writeln!(std::io::stderr(), "{:?}: {fault:?}", at - start);
            }
            net.schedule(at, fault);
        };
        match rng.below(6) {
            0 | 1 if n_links > 0 => {
                let link = pick(rng, n_links);
                schedule(net, at, NetworkChange::CutLink(link));
                cut_links.insert(link);
                if rng.below(2) == 0 {
                    let later = at + Duration::from_millis(rng.below(3000).into());
                    schedule(net, later, NetworkChange::RestoreLink(link));
                }
            }
            2 => {
                let switch = pick(rng, n_switches);
                schedule(net, at, NetworkChange::BreakControlConnection(switch));
                faults.have_breaks = true;
            }
            3 => {
                let switch = pick(rng, n_switches);
                schedule(net, at, NetworkChange::PauseControlLink(switch));
                paused.insert(switch);
                let later = at + Duration::from_millis(rng.below(8000).into());
                schedule(net, later, NetworkChange::ResumeControlLink(switch));
            }
            4 => {
                let (host, switch) = (pick(rng, topology.hosts.len()), pick(rng, n_switches));
                // Each switch has one free port.
                if used_switches.insert(switch)
                    && let Some(to) = net.data_plane().free_port(switch)
                {
                    schedule(net, at, NetworkChange::MoveHost(host, to));
                }
            }
            _ => {
                let slow = LinkImpairments {
                    delay: Duration::from_micros(rng.below(50_000).into()),
                    jitter: Duration::from_micros(rng.below(50_000).into()),
                    ..LinkImpairments::default()
                };
                schedule(
                    net,
                    at,
                    NetworkChange::SetControlImpairments(pick(rng, n_switches), slow, slow),
                );
            }
        }
    }
    for number in 0..TRACED_FRAMES {
        let at = start + Duration::from_millis(rng.below(FAULTS_MS + 12_000).into());
        net.schedule(at, NetworkChange::SendTracedFrame(pick(rng, topology.hosts.len()), number));
    }
    ping_meanwhile(net, rng, conditions)?;
    let end = start + Duration::from_millis((FAULTS_MS + 12_000).into());
    net.run_until(end.max(net.now()))?;
    // In a partitioned network some pairs cannot reach each other.
    cut_links.iter().try_for_each(|&link| net.apply(NetworkChange::RestoreLink(link)))?;
    paused.iter().try_for_each(|&switch| net.apply(NetworkChange::ResumeControlLink(switch)))?;
    faults.have_pauses = !paused.is_empty();
    Ok(faults)
}

fn pick(rng: &mut Rng, n: usize) -> usize {
    rng.below(u32::try_from(n.max(1)).unwrap()) as usize
}

/// Has hosts ping each other while faults occur, and moves switches between workers.
fn ping_meanwhile(
    net: &mut ChainSimulation,
    rng: &mut Rng,
    conditions: &NetworkConditions,
) -> Result<(), sluice_emu::net::NetworkError> {
    let (topology, start) = (net.data_plane().topology().clone(), net.now());
    for round in 0..5 {
        let pairs: Vec<_> =
            PingSummary::all_pairs(&topology).filter(|_| rng.below(3) == 0).collect();
        if conditions.moves != SwitchMoves::Never {
            // Entries are being installed while the switches move.
            let soon = Duration::from_millis(rng.below(50).into());
            net.ping(pairs.clone(), IpFamily::V4, soon)?;
            for (n, switch) in topology.switches.iter().enumerate() {
                let worker = match conditions.moves {
                    SwitchMoves::Random if rng.below(2) == 0 => continue,
                    SwitchMoves::Random => pick(rng, conditions.workers),
                    SwitchMoves::Never | SwitchMoves::InTurn => (n + round) % conditions.workers,
                };
                net.controller_mut().move_switch(switch.datapath_id, worker);
            }
        }
        net.ping(pairs, IpFamily::V4, Duration::from_millis((FAULTS_MS / 5).into()))?;
        let until = start + Duration::from_millis((FAULTS_MS / 5).into());
        net.run_until(until.max(net.now()))?;
    }
    Ok(())
}

/// Checks that all hosts reach each other and that no flow entry is stale, before and after the pings.
fn check_pings(net: &mut ChainSimulation) -> Result<(), String> {
    let topology = net.data_plane().topology().clone();
    check_flow_entries(net).map_err(|why| format!("before the pings: {why}"))?;
    for family in [IpFamily::V4, IpFamily::V6] {
        // A host that has moved may be learned only from the first pings.
        let timeout = Duration::from_secs(5);
        net.ping(PingSummary::all_pairs(&topology), family, timeout).map_err(|e| e.to_string())?;
        let pings = net.ping(PingSummary::all_pairs(&topology), family, timeout);
        let pings = pings.map_err(|e| e.to_string())?;
        if let Some(&(from, to)) = pings.lost_pairs.first() {
            let (answered, lost) = (pings.answered, &pings.lost_pairs);
            let locations = [from, to].map(|host| host_location(net, host)).join("; ");
            let counts = metrics(net);
            return Err(format!(
                "{family:?}: of {answered} pings lost {lost:?}; {locations}; {counts}"
            ));
        }
    }
    check_flow_entries(net)
}

/// Checks that no broadcast was delivered too often or crossed a link twice, and that each host now receives every broadcast once.
fn check_broadcasts(
    net: &mut ChainSimulation,
    flooding: Flooding,
    deliveries_max: u32,
    conditions: &NetworkConditions,
) -> Result<(), String> {
    let hosts = u32::try_from(net.data_plane().topology().hosts.len()).unwrap();
    if flooding == Flooding::Tree && net.data_plane().topology().switches.len() > 1 {
        for network in net.controller().networks() {
            let tree = SpanningTree::of(network.view());
            if tree.is_none_or(|tree| tree.phase != TreePhase::Active) {
                return Err(format!("no spanning tree is active: {tree:?}"));
            }
        }
    }
    for from in 0..hosts {
        net.apply(NetworkChange::SendTracedFrame(from as usize, TRACED_FRAMES + from))
            .map_err(|e| e.to_string())?;
        net.run_for(conditions.flood_time()).map_err(|e| e.to_string())?;
    }
    let traces = net.data_plane().traces();
    for number in 0..TRACED_FRAMES + hosts {
        let delivered_max = traces.deliveries(number).map(|(_, times)| times).max();
        let deliveries_max = if number < TRACED_FRAMES { deliveries_max } else { 1 };
        if delivered_max > Some(deliveries_max) || traces.link_crossings_max(number) > 1 {
            let delivered: Vec<_> = traces.deliveries(number).collect();
            let links = traces.link_crossings_max(number);
            return Err(format!(
                "broadcast {number} was delivered {delivered:?} and crossed a link {links} times"
            ));
        }
        let delivered = traces.deliveries(number).count();
        if number >= TRACED_FRAMES && delivered + 1 != hosts as usize {
            let (from, counts) = (number - TRACED_FRAMES, metrics(net));
            return Err(format!(
                "{delivered} of {hosts} hosts received the broadcast of host {from}: {counts}"
            ));
        }
    }
    Ok(())
}

/// Checks that both ends of all connections could split what they received into messages, however these were torn and delayed,
/// and that the controller has closed no connection and lost no message of an application without a cause.
fn check_connections(net: &ChainSimulation, faults: &Faults) -> Result<(), String> {
    if let Some((switch, error)) = net.data_plane().session_error() {
        return Err(format!("switch {switch} closed its connection: {error}"));
    }
    let mut unexplained = Vec::new();
    net.controller().metrics().collect(&mut |sample| {
        let reason = sample.labels.first().map(|(_, value)| value.as_str()).unwrap_or_default();
        let is_expected = match sample.name {
            "connections_closed" => faults.explain(reason),
            // Messages to a switch that has just disconnected.
            "app_messages_undeliverable" => faults.explain("closed_by_peer"),
            "malformed_messages" => false,
            _ => true,
        };
        if !is_expected && sample.value != MetricValue::Counter(0) {
            unexplained.push(format!("{} {reason} {:?}", sample.name, sample.value));
        }
    });
    if unexplained.is_empty() { Ok(()) } else { Err(format!("{unexplained:?} after {faults:?}")) }
}

/// Checks that all workers had the same view of the network whenever nothing was in flight between them.
fn check_views(net: &ChainSimulation) -> Result<(), String> {
    if let Some(what) = net.controller().divergence() {
        return Err(format!("two workers have different views: {what}"));
    }
    let compared_at = net.controller().compared_at();
    let is_recent = compared_at.is_some_and(|at| at + Duration::from_secs(1) > net.now());
    is_recent
        .then_some(())
        .ok_or_else(|| "something is always in flight between workers".to_owned())
}

/// The location of a host, and what each worker knows of the host and its port.
fn host_location(net: &ChainSimulation, host: usize) -> String {
    let topology = net.data_plane().topology();
    let Some(node) = topology.hosts.get(host) else { return String::new() };
    let switch = topology.switches.get(node.port.switch).map(|switch| switch.datapath_id);
    let at = SwitchPort::new(switch.unwrap_or(DatapathId(0)), node.port.port);
    let id = HostId { mac: node.mac, vlan: VlanId(0) };
    let views = net.controller().networks().map(|network| {
        let view = network.view();
        let known = view.host(id).map(|host| host.at.to_string());
        format!("{known:?}, port is {:?}", view.port_role(at))
    });
    format!("{} is at {at}: {}", node.name, views.collect::<Vec<_>>().join(" / "))
}

/// The flow entries between two hosts, in both directions.
fn entries_between(net: &ChainSimulation, from: usize, to: usize) -> String {
    let topology = net.data_plane().topology();
    let mac = |n: usize| topology.hosts.get(n).map(|host| u128::from(host.mac.to_u64()));
    let mut entries = Vec::new();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in
            net.data_plane().switch(at).into_iter().flat_map(|switch| switch.flow_entries(0))
        {
            let addrs = [FieldId::ETH_SRC, FieldId::ETH_DST].map(|id| value(entry, id));
            if addrs == [mac(from), mac(to)] || addrs == [mac(to), mac(from)] {
                let direction = if addrs == [mac(from), mac(to)] { "forward" } else { "backward" };
                let (n, age) = (entry.packets, net.now() - entry.added_at);
                let port = output(entry);
                entries
                    .push(format!("{} {direction} to {port:?}, {n} packets in {age:?}", node.name));
            }
        }
    }
    entries.join(", ")
}

/// Non-zero metrics of the applications, summed over workers.
fn metrics(net: &ChainSimulation) -> String {
    let mut counts = BTreeMap::new();
    for app in net.controller().apps() {
        app.metrics(&mut |metric| *counts.entry(metric.name).or_insert(0) += metric.value);
    }
    counts.retain(|_, &mut n| n > 0);
    format!("{counts:?}")
}

/// Follows every flow entry that leads to a host, from every switch that has one.
fn check_flow_entries(net: &ChainSimulation) -> Result<(), String> {
    let data_plane = net.data_plane();
    let topology = data_plane.topology();
    let mut peers = HashMap::default();
    for link in &topology.links {
        peers.insert(link.a, link.b);
        peers.insert(link.b, link.a);
    }
    let hosts = topology.hosts.iter();
    let host_ports: HashMap<_, _> =
        hosts.map(|host| (u128::from(host.mac.to_u64()), host.port)).collect();
    for (at, node) in topology.switches.iter().enumerate() {
        for entry in data_plane.switch(at).into_iter().flat_map(|switch| switch.flow_entries(0)) {
            let Some(dst) = value(entry, FieldId::ETH_DST) else { continue };
            let Some(&host_port) = host_ports.get(&dst) else { continue };
            let (mut switch, mut current) = (at, Some(entry));
            // Entries form chains of pairs of switch and ingress port.
            for _ in 0..=peers.len() {
                let Some(port) = current.and_then(output) else { break };
                let out = PortRef { switch, port };
                if out == host_port {
                    current = None;
                    break;
                }
                let Some(to) = peers.get(&out) else {
                    return Err(format!(
                        "{} sends {dst:012x} out of {out:?}, not {host_port:?}",
                        node.name
                    ));
                };
                switch = to.switch;
                let key = (value(entry, FieldId::ETH_SRC), dst);
                let mut others =
                    data_plane.switch(switch).into_iter().flat_map(|s| s.flow_entries(0));
                current = others.find(|other| {
                    let dst = value(other, FieldId::ETH_DST);
                    let in_port = value(other, FieldId::IN_PORT);
                    in_port == Some(to.port.0.into())
                        && dst.map(|dst| (value(other, FieldId::ETH_SRC), dst)) == Some(key)
                });
            }
            if current.and_then(output).is_some() {
                let src = value(entry, FieldId::ETH_SRC).unwrap_or_default();
                let loops = format!("{src:012x} to {dst:012x} loops");
                let host =
                    |mac| topology.hosts.iter().position(|h| u128::from(h.mac.to_u64()) == mac);
                let entries =
                    host(src).zip(host(dst)).map(|(src, dst)| entries_between(net, src, dst));
                return Err(format!("from {} {loops}: {}", node.name, entries.unwrap_or_default()));
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
