//! The default applications on emulated switches in virtual time: spanning trees, streams to groups, multicast snooping, switches
//! that refuse flow entries, and hosts that claim the addresses of others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod group_streams;
mod lying_hosts;
mod modified_entries;
mod multicast_snooping;
mod refused_entries;
mod segments;
mod spanning_tree;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Flooding};
use sluice_apps::forwarding::{SpanningTree, TreePhase};
use sluice_apps::{Config, chain};
use sluice_base::Rng;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::App;
use sluice_sdk::Chain;
use sluice_testkit::{Conditions, SimulatedEngine, SimulatedEngineOptions};

/// Long enough for discovery, and for the installation of a spanning tree if configured.
const STARTUP_TIME: Duration = Duration::from_secs(16);

/// A simulated network of emulated switches and hosts.
#[derive(Debug)]
struct ModelNetwork {
    simulation: NetworkSimulation<SimulatedEngine<Chain>>,
    config: Config,
    /// Number of traced broadcasts sent so far.
    traced_frames: u32,
}

fn switch_config(version: Version) -> EmulatedSwitchConfig {
    EmulatedSwitchConfig { versions: Versions::of(&[version]), ..EmulatedSwitchConfig::default() }
}

/// A controller that starts at the time `start`.
fn controller(config: &Config, start: Instant) -> SimulatedEngine<Chain> {
    let names = ["topology", "hosts", "forwarding"].map(str::to_owned);
    let options = SimulatedEngineOptions {
        workers: 2,
        conditions: Conditions::ideal(),
        ..SimulatedEngineOptions::default()
    };
    SimulatedEngine::new(&options, start, |_| chain(&names, config).unwrap())
}

fn pick(rng: &mut Rng, n: usize) -> usize {
    rng.below(u32::try_from(n).unwrap()) as usize
}

impl ModelNetwork {
    /// Starts the network of `shape` with two workers and a delay of 5 ms each way on control links.
    fn new(shape: &str, switch: EmulatedSwitchConfig, forwarding: forwarding::Config) -> Self {
        let config = Config { forwarding, ..Config::default() };
        let mut topology = Topology::from_text(shape).unwrap();
        topology.set_impairments(LinkImpairments {
            delay: Duration::from_millis(1),
            ..LinkImpairments::default()
        });
        let control =
            LinkImpairments { delay: Duration::from_millis(5), ..LinkImpairments::default() };
        let options = NetworkOptions {
            switch,
            control_up: control,
            control_down: control,
            spare_ports: 1,
            ..NetworkOptions::default()
        };
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let simulation =
            NetworkSimulation::new(topology, &options, start, controller(&config, start)).unwrap();
        Self { simulation, config, traced_frames: 0 }
    }

    /// Starts a network and waits for [`STARTUP_TIME`].
    fn with_flooding(shape: &str, version: Version, flooding: Flooding) -> Self {
        let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
        let mut network = Self::new(shape, switch_config(version), forwarding);
        network.run_for(STARTUP_TIME);
        network
    }

    fn run_for(&mut self, time: Duration) {
        self.simulation.run_for(time).unwrap();
    }

    fn apply(&mut self, change: NetworkChange) {
        self.simulation.apply(change).unwrap();
    }

    /// The spanning tree, on which all workers must agree.
    #[track_caller]
    fn tree(&self) -> Option<SpanningTree> {
        let mut trees =
            self.simulation.controller().networks().map(|network| SpanningTree::of(network.view()));
        let tree = trees.next().unwrap();
        assert!(trees.all(|other| other == tree));
        tree.cloned()
    }

    /// The generation of the spanning tree, which must be active.
    #[track_caller]
    fn active_tree_generation(&self) -> u64 {
        let tree = self.tree().unwrap();
        assert_eq!(tree.phase, TreePhase::Active, "{:?}", self.metrics());
        tree.generation
    }

    /// Asserts that a broadcast of each host reaches every other host once and crosses no link twice.
    #[track_caller]
    fn assert_broadcasts_reach_all(&mut self) {
        let hosts = self.simulation.data_plane().topology().hosts.len();
        for host in 0..hosts {
            let number = self.traced_frames;
            self.traced_frames += 1;
            self.apply(NetworkChange::SendTracedFrame(host, number));
            self.run_for(Duration::from_millis(60));
            let traces = self.simulation.data_plane().traces();
            let received: Vec<_> = traces.deliveries(number).map(|(_, times)| times).collect();
            assert_eq!(received, vec![1; hosts - 1], "from {host}: {:?}", self.metrics());
            assert!(traces.link_crossings_max(number) <= 1);
        }
    }

    /// Has every host ping every other one. Returns the pairs without a reply.
    fn lost_pings(&mut self) -> Vec<(usize, usize)> {
        let pairs = PingSummary::all_pairs(self.simulation.data_plane().topology());
        self.simulation.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs
    }

    /// Lets this time pass. Returns the number of frames on the link that carried most.
    fn link_frames_max(&mut self, time: Duration) -> u64 {
        let sent = |network: &Self| -> Vec<u64> {
            let data_plane = network.simulation.data_plane();
            let links = (0..data_plane.link_count()).filter_map(|n| data_plane.link(n));
            links.map(|(_, counters)| counters.sent).collect()
        };
        let before = sent(self);
        self.run_for(time);
        let frames = before.iter().zip(sent(self)).map(|(before, after)| after - before);
        frames.max().unwrap_or_default()
    }

    /// Metrics of the applications, summed over workers.
    fn metrics(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for app in self.simulation.controller().apps() {
            app.metrics(&mut |metric| *sums.entry(metric.name).or_default() += metric.value);
        }
        sums
    }

    /// Bytes on all control links so far, in both directions.
    fn control_bytes(&self) -> u64 {
        let switches = 0..self.simulation.data_plane().topology().switches.len();
        let both = switches.filter_map(|n| self.simulation.control_bytes(n));
        both.map(|(up, down)| up + down).sum()
    }
}
