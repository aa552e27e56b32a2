//! Random networks in virtual time, with failed links, lost control connections, moved hosts, and late or reordered replies.
//! After recovery there must be no loop, no black hole and no stale flow entry, and all hosts must reach each other. All workers
//! must have the same view whenever nothing is in flight between them. An operator adds a flow entry, which must stay, and deletes
//! all entries of switches. No message may have been torn apart on a control connection; without a cause no connection may have been
//! closed and no message of an application lost.
//!
//! The controller is the engine with its acceptor and one to four workers, whose threads are delayed at random and interrupted
//! within iterations, and whose connections have buffers of random sizes. In half of the networks control links lose packets and
//! have a rate of 0.5 to 100 Mbit/s; in some the end of a connection is not noticed or the switch connects again at once, the
//! backlogs of switches, the queues between threads, incomplete multipart replies, handshakes, switches or ports have small limits, or
//! switches move between workers. [`simple_chains`] has the networks of `learning` and `hub`.
//!
//! In one of four networks each there are also:
//!
//! - unmanaged segments, with one or several cables to switches and hosts behind them. Cables fail. A repeater that forwards LLDP has at
//!   least three cables: one with two is taken for a link, behind which no hosts are learned. While a segment with several cables is not
//!   known yet, a broadcast may be flooded again and again; afterwards it may not.
//! - hosts in a VLAN that have the MAC and IP addresses of hosts without one, and hosts that send priority tags
//! - hosts that claim addresses of others. Nobody's address is taken over if hosts can answer probes in time; otherwise the owner gets it
//!   back by announcing itself.
//! - hosts that move without announcing it and without their old port going down
//! - hosts that join a group and leave it, if switches send multicasts to members only. Every member receives each packet once, and
//!   nobody else does.
//!
//! A thread that is no worker sends requests to random switches while faults occur, of which each is answered once, and follows the
//! network view.
//!
//! In one of three networks the configuration is changed while faults occur, and changed back. In one of five, hosts send frames with
//! made-up source addresses; no more than a bounded number of these hosts is known.
//!
//! In one of five each, tables are so small that switches refuse flow entries, or one or several switches cannot match a field. In one of four,
//! flow entries match five-tuples. Backlogs are not limited in these networks, since packets that the controller forwards one by one
//! may be dropped if they are.
//!
//! After recovery each broadcast and multicast is delivered once to every other host of its VLAN, idle links carry only probes, and all
//! workers know exactly the hosts that exist, where they are.
//!
//! `make sim` runs two thousand networks, which takes part of the time of `make test`; `RUNS` and `SEED` set their number and the
//! first seed. A failure prints its seed, and `make sim RUNS=1 SEED=…` repeats it exactly; with `SLUICE_SIM_TRACE=1` it prints the
//! faults and the metrics.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broadcasts;
mod checks;
mod conditions;
mod drains;
mod faults;
mod flow_entries;
mod lies;
mod made_up_hosts;
mod members;
mod operator;
mod refusals;
mod reloads;
mod repair;
mod requests;
mod scenario;
mod segments;
mod simple_chains;
mod vlans;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Flooding, Matching};
use sluice_apps::forwarding::{SpanningTree, TreePhase};
use sluice_apps::topology::{self, WallClock};
use sluice_apps::{Config, chain};
use sluice_base::metrics::MetricValue;
use sluice_base::{HashMap, Rng};
use sluice_emu::link::{LinkImpairments, LossRatio};
use sluice_emu::net::{
    ControlTransport, IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary,
};
use sluice_emu::switch::{EmulatedSwitchConfig, FlowEntry};
use sluice_emu::topology::{PortRef, Topology};
use sluice_openflow::{
    Action, DatapathId, Field, FieldId, FlowMod, Instruction, MacAddr, PortNo, Version, Versions,
    VlanId,
};
use sluice_sdk::App;
use sluice_sdk::Chain;
use sluice_sdk::view::{HostId, PortRole, SwitchPort};
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

use broadcasts::{CopyLimits, check_broadcasts, check_tree, send_traced};
use checks::{check_connections, check_idle_links, check_pings, check_views, metrics};
use conditions::{NetworkConditions, SwitchMoves};
use drains::Drains;
use faults::{Faults, Senders, run_with_faults};
use flow_entries::check_flow_entries;
use lies::Lies;
use made_up_hosts::MadeUpHosts;
use members::Members;
use operator::Operator;
use refusals::Refusals;
use reloads::Reloads;
use requests::Requests;
use scenario::{Scenario, default_config};
use segments::Segments;
use vlans::add_vlans;

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

/// Size of tables that do not fill up.
const TABLE_ENTRIES_MAX: usize = 65_536;

/// Delay of links. While the flow entries of a new path are being sent, which takes longer if a control link is paused, a frame
/// may match old and new ones and loop.
const LINK_DELAY: Duration = Duration::from_millis(1);

/// How often one frame may be sent within a second: a looping frame is sent a thousand times, a multiplying one without limit.
const COPIES_MAX: u64 = 1500;

/// Copies of a broadcast that a host may receive while faults occur, if there are unmanaged segments. A frame that a segment returns
/// later than 100 ms, or that a spanning tree carries while the segment is not yet known, is flooded again until it is known.
const SEGMENT_COPIES_MAX: u32 = 200;

/// Frames that cross a link in a second while hosts send nothing: probes, which hubs repeat. A frame that circulates crosses each link
/// of its loop at least eighty times.
const IDLE_FRAMES_MAX: u64 = 40;

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
        let config = default_config(start);
        let apps = |_| -> Chain { chain(&names, &config).unwrap() };
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
    let mut scenario = Scenario::new(seed)?;
    let context = scenario.context.clone();
    let result = scenario.run().and_then(|faults| scenario.check(&faults));
    result.map_err(|why| format!("{context}: {why}"))?;
    let net = &scenario.net;
    if std::env::var_os("SLUICE_SIM_TRACE").is_some() {
        let _ = writeln!(std::io::stderr(), "{context}: {}", metrics(net));
    }
    Ok((net.controller().digest(), metrics(net)))
}

type ChainSimulation = NetworkSimulation<SimulatedEngine<Chain>>;

fn pick(rng: &mut Rng, n: usize) -> usize {
    rng.below(u32::try_from(n.max(1)).unwrap()) as usize
}
