//! Links taken out of service while hosts send, in virtual time: not one packet is lost.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluice_apps::Config;
use sluice_apps::forwarding::{Flooding, Matching};
use sluice_emu::host::UdpStream;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{NetworkChange, NetworkOptions};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};
use sluice_sdk::Chain;
use sluice_sdk::view::{Cable, DrainProgress, DrainedLink, NetworkView, RecordFact, SwitchPort};
use sluice_testkit::{Scenario, StreamCounts};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A network, and streams between pairs of its hosts.
struct Drained {
    scenario: Scenario<Chain>,
    streams: Vec<(usize, usize, u32)>,
}

impl Drained {
    fn new(shape: &str, version: Version, control_delay: Duration, config: &Config) -> Self {
        let topology = Topology::from_text(shape).unwrap();
        let link = LinkImpairments { delay: control_delay, ..LinkImpairments::default() };
        let options = NetworkOptions {
            switch: EmulatedSwitchConfig {
                versions: Versions::of(&[version]),
                ..EmulatedSwitchConfig::default()
            },
            control_up: link,
            control_down: link,
            ..NetworkOptions::default()
        };
        let names = ["topology", "hosts", "forwarding"].map(str::to_owned);
        let scenario =
            Scenario::new(topology, &options, || sluice_apps::chain(&names, config).unwrap());
        Self { scenario, streams: Vec::new() }
    }

    /// Starts streams between hosts, of 200 packets per second each.
    fn start_streams(&mut self, pairs: &[(usize, usize)]) {
        for &(from, to) in pairs {
            self.scenario.resolve_addresses(from, to);
        }
        for &(from, to) in pairs {
            let udp = UdpStream {
                to: [0, 0, 0, 0].into(),
                port: 5001,
                rate_pps: 200,
                packets: u64::MAX,
                data_len: 100,
            };
            let stream = self.scenario.start_stream(from, to, &udp);
            self.streams.push((from, to, stream));
        }
        self.scenario.run_for(3 * S);
    }

    fn view(&mut self) -> &NetworkView {
        self.scenario.net().controller().networks().next().unwrap().view()
    }

    /// The cable with this number in the topology.
    fn cable(&mut self, link: usize) -> Cable {
        let topology = self.scenario.net().data_plane().topology().clone();
        let ends = topology.links.get(link).unwrap();
        let [a, b] = [ends.a, ends.b].map(|end| {
            let switch = topology.switches.get(end.switch).unwrap();
            SwitchPort::new(switch.datapath_id, end.port)
        });
        Cable::new(a, b)
    }

    fn drain(&mut self, cable: Cable, is_drained: bool) {
        let drained = is_drained.then_some(DrainedLink { requested_at: Duration::ZERO });
        let record = RecordFact::new(cable, drained);
        assert!(self.scenario.net().controller_mut().publish(vec![record]));
    }

    fn progress(&mut self, cable: Cable) -> [DrainProgress; 2] {
        cable.ends().map(|at| self.view().record::<DrainProgress>(at).copied().unwrap_or_default())
    }

    fn counts(&self) -> Vec<StreamCounts> {
        let count = |&(from, to, stream)| self.scenario.stream_counts(from, to, stream);
        self.streams.iter().map(count).collect()
    }

    /// Waits until both ends of a cable say that it can be unplugged.
    fn wait_until_done(&mut self, cable: Cable) {
        for _ in 0..60 {
            self.scenario.run_for(S / 2);
            if self.progress(cable).iter().all(DrainProgress::is_done) {
                return;
            }
        }
        panic!("{cable} is not drained: {:?}", self.progress(cable));
    }

    /// Stops nothing, lets packets in flight arrive, and checks that none is missing.
    fn assert_nothing_lost(&mut self, what: &str) {
        for counts in self.counts() {
            // Those sent in the last milliseconds are on their way.
            assert!(counts.sent - counts.received <= 10, "{what}: {counts:?}");
            assert!(counts.received > 100, "{what}: {counts:?}");
        }
    }
}

fn matching(matching: Matching) -> Config {
    let mut config = Config::default();
    config.forwarding.matching = matching;
    config
}

/// The numbers of all links between switches.
fn links(drained: &mut Drained) -> std::ops::Range<usize> {
    0..drained.scenario.net().data_plane().topology().links.len()
}

/// Drains each link in turn, unplugs it, plugs it in and puts it back.
fn drain_and_unplug_each_link(shape: &str, version: Version, kind: Matching) {
    let context = format!("{shape} in {version}, {kind:?}");
    let mut net = Drained::new(shape, version, 5 * MS, &matching(kind));
    net.start_streams(&[(0, 2), (1, 0), (2, 1)]);
    for link in links(&mut net) {
        let cable = net.cable(link);
        net.drain(cable, true);
        net.wait_until_done(cable);
        net.assert_nothing_lost(&format!("{context}, {cable} drained"));
        net.scenario.net().apply(NetworkChange::CutLink(link)).unwrap();
        net.scenario.run_for(3 * S);
        net.assert_nothing_lost(&format!("{context}, {cable} unplugged"));
        net.scenario.net().apply(NetworkChange::RestoreLink(link)).unwrap();
        net.scenario.run_for(8 * S);
        net.drain(cable, false);
        net.scenario.run_for(S);
        assert_eq!(net.progress(cable), <[DrainProgress; 2]>::default());
        net.assert_nothing_lost(&format!("{context}, {cable} restored"));
    }
    assert!(net.scenario.metric("forwarding_paths_moved") > 0, "{context}");
}

#[test]
fn each_link_of_a_ring_is_drained_and_unplugged_without_losing_a_packet() {
    drain_and_unplug_each_link("ring,4,1", Version::V1_3, Matching::Pair);
}

#[test]
fn the_same_in_1_0_whose_entries_cannot_be_selected_by_cookie() {
    drain_and_unplug_each_link("ring,4,1", Version::V1_0, Matching::FiveTuple);
}

#[test]
fn the_same_in_a_leaf_spine_network_with_entries_for_each_connection() {
    drain_and_unplug_each_link("leafspine,2,3,1", Version::V1_5, Matching::FiveTuple);
}

#[test]
fn paths_move_make_before_break_so_no_packet_reaches_the_controller() {
    let mut net = Drained::new("ring,6,1", Version::V1_3, 20 * MS, &Config::default());
    net.start_streams(&[(0, 2), (2, 0), (3, 5)]);
    let before = net.scenario.control_load().packet_ins;
    for link in links(&mut net) {
        let cable = net.cable(link);
        net.drain(cable, true);
        net.wait_until_done(cable);
        net.drain(cable, false);
        net.scenario.run_for(2 * S);
    }
    assert_eq!(net.scenario.control_load().packet_ins.udp, before.udp);
    net.assert_nothing_lost("ring");
}

#[test]
fn entries_that_match_the_destination_only_move_by_way_of_the_controller() {
    let mut net = Drained::new("ring,5,1", Version::V1_3, 5 * MS, &matching(Matching::Dst));
    net.start_streams(&[(0, 2), (3, 1), (4, 0)]);
    for link in links(&mut net) {
        let cable = net.cable(link);
        net.drain(cable, true);
        net.wait_until_done(cable);
        net.assert_nothing_lost(&format!("{cable}"));
        net.drain(cable, false);
        net.scenario.run_for(2 * S);
    }
}

#[test]
fn a_link_without_an_alternative_stays_in_use() {
    let mut net = Drained::new("linear,3,1", Version::V1_3, 5 * MS, &Config::default());
    net.start_streams(&[(0, 2), (2, 0)]);
    let cable = net.cable(0);
    net.drain(cable, true);
    net.scenario.run_for(10 * S);
    for progress in net.progress(cable) {
        let (entries, kept) = (progress.entries, progress.without_alternative);
        assert!(kept > 0 && entries == kept && !progress.is_quiet, "{progress:?}");
    }
    net.assert_nothing_lost("a line");
    // New flows use it as well.
    net.scenario.resolve_addresses(1, 0);
    net.scenario.resolve_addresses(1, 2);
}

#[test]
fn the_broadcast_tree_moves_without_losing_a_broadcast() {
    let mut config = Config::default();
    config.forwarding.flooding = Flooding::Tree;
    let mut net = Drained::new("ring,5,1", Version::V1_3, 5 * MS, &config);
    net.scenario.run_for(30 * S);
    let udp = UdpStream {
        to: [0, 0, 0, 0].into(),
        port: 5001,
        rate_pps: 100,
        packets: u64::MAX,
        data_len: 100,
    };
    let stream = net.scenario.start_broadcasts(0, &udp);
    net.streams = (1..5).map(|to| (0, to, stream)).collect();
    net.scenario.run_for(20 * S);
    for link in links(&mut net) {
        let cable = net.cable(link);
        net.drain(cable, true);
        net.wait_until_done(cable);
        net.assert_nothing_lost(&format!("{cable}"));
        // Until there is another tree, without this link.
        net.scenario.run_for(10 * S);
        net.wait_until_done(cable);
        net.drain(cable, false);
    }
    net.assert_nothing_lost("broadcasts");
}
