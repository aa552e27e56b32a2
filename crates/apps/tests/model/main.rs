//! Forwarding with model switches in virtual time, told as stories: trees, and switches that refuse.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod refused;
mod trees;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_apps::forwarding::{self, Flooding};
use sluice_apps::forwarding::{SpanningTree, TreePhase};
use sluice_apps::{Chain, Config};
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{IpFamily, NetworkChange, NetworkOptions, NetworkSimulation, PingSummary};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::App;
use sluice_testkit::SimulatedController;

/// In which everything is discovered, and a tree stands if one is wanted.
const BEGIN: Duration = Duration::from_secs(16);

/// A network, and how many frames were followed in it.
#[derive(Debug)]
struct Story {
    net: NetworkSimulation<SimulatedController<Chain>>,
    config: Config,
    traced: u32,
}

fn plan(version: Version) -> EmulatedSwitchConfig {
    EmulatedSwitchConfig { versions: Versions::of(&[version]), ..EmulatedSwitchConfig::default() }
}

fn controller(config: &Config) -> SimulatedController<Chain> {
    let names = ["topology", "hosts", "forwarding"].map(str::to_owned);
    SimulatedController::new((0..2).map(|_| Chain::new(&names, config).unwrap()), 7)
}

impl Story {
    /// The network of `shape` at its beginning, with two workers and control links of 5 ms each way.
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
            ..NetworkOptions::default()
        };
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let net = NetworkSimulation::new(topology, &options, start, controller(&config)).unwrap();
        Self { net, config, traced: 0 }
    }

    /// One that floods so, after its beginning.
    fn begun(shape: &str, version: Version, flooding: Flooding) -> Self {
        let forwarding = forwarding::Config { flooding, ..forwarding::Config::default() };
        let mut story = Self::new(shape, plan(version), forwarding);
        story.pass(BEGIN);
        story
    }

    fn pass(&mut self, time: Duration) {
        self.net.run_for(time).unwrap();
    }

    fn fault(&mut self, fault: NetworkChange) {
        self.net.apply(fault).unwrap();
    }

    /// The tree as all workers know it.
    #[track_caller]
    fn tree(&self) -> Option<SpanningTree> {
        let mut trees =
            self.net.controller().networks().map(|network| SpanningTree::of(network.view()));
        let tree = trees.next().unwrap();
        assert!(trees.all(|other| other == tree));
        tree.cloned()
    }

    /// The number of the tree that stands.
    #[track_caller]
    fn standing(&self) -> u64 {
        let tree = self.tree().unwrap();
        assert_eq!(tree.phase, TreePhase::Active, "{:?}", self.counts());
        tree.generation
    }

    /// Every host sends a frame to all, which comes to each other host once, and takes no link twice.
    #[track_caller]
    fn all_hear_all(&mut self) {
        let hosts = self.net.data_plane().topology().hosts.len();
        for host in 0..hosts {
            let number = self.traced;
            self.traced += 1;
            self.fault(NetworkChange::SendTracedFrame(host, number));
            self.pass(Duration::from_millis(60));
            let traces = self.net.data_plane().traces();
            let heard: Vec<_> = traces.deliveries(number).map(|(_, times)| times).collect();
            assert_eq!(heard, vec![1; hosts - 1], "from {host}: {:?}", self.counts());
            assert!(traces.link_crossings_max(number) <= 1);
        }
    }

    /// Every host pings every other one; those that were not answered.
    fn lost_pings(&mut self) -> Vec<(usize, usize)> {
        let pairs = PingSummary::all_pairs(self.net.data_plane().topology());
        self.net.ping(pairs, IpFamily::V4, Duration::from_secs(3)).unwrap().lost_pairs
    }

    /// What the applications count, all workers together.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for app in self.net.controller().apps() {
            app.metrics(&mut |metric| *counts.entry(metric.name).or_default() += metric.value);
        }
        counts
    }

    /// Bytes on all control links so far.
    fn bytes(&self) -> u64 {
        let switches = 0..self.net.data_plane().topology().switches.len();
        let both = switches.filter_map(|n| self.net.control_bytes(n));
        both.map(|(up, down)| up + down).sum()
    }
}
