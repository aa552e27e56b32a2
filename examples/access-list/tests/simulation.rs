//! The access list and a hub with the engine itself, in a simulated network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use access_list::{AccessList, Config, Installed};
use sluice_apps::hub::Hub;
use sluice_emu::net::{IpFamily, NetworkOptions, NetworkSimulation};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_openflow::{DatapathId, Version, Versions};
use sluice_sdk::{App, AppConfigs, Chain, Registry};
use sluice_testkit::{SimulatedEngine, SimulatedEngineOptions};

const S1: DatapathId = DatapathId(1);

type Simulation = NetworkSimulation<SimulatedEngine<Chain>>;

fn configs(deny: &[&str]) -> AppConfigs {
    let deny = deny.iter().map(|text| (*text).to_owned().try_into().unwrap()).collect();
    AppConfigs::default().with::<AccessList>(&Config { deny, retry_s: 5 })
}

/// A switch with two hosts, 10.0.0.1 and 10.0.0.2, and two workers.
fn network(version: Version, table_entries_max: usize, deny: &[&str]) -> Simulation {
    let versions = Versions::of(&[version]);
    let switch = EmulatedSwitchConfig { versions, table_entries_max, ..Default::default() };
    let options = NetworkOptions { switch, ..NetworkOptions::default() };
    let mut registry = Registry::default();
    registry.register::<AccessList>().unwrap();
    registry.register::<Hub>().unwrap();
    let names = ["access-list", "hub"].map(str::to_owned);
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let (start, configs) = (Instant::now(), configs(deny));
    let controller = SimulatedEngine::new(&SimulatedEngineOptions::default(), start, |_| {
        Chain::new(&registry, &names, &configs).unwrap()
    });
    let topology = Topology::from_text("single,2").unwrap();
    let mut net = NetworkSimulation::new(topology, &options, start, controller).unwrap();
    run(&mut net, 3);
    net
}

fn run(net: &mut Simulation, seconds: u64) {
    net.run_for(Duration::from_secs(seconds)).unwrap();
}

fn configure(net: &mut Simulation, deny: &[&str]) {
    let configs = configs(deny);
    net.controller_mut().apply(|_| {}, move |chain: &mut Chain| chain.configure(&configs));
}

/// Whether a ping from the first host to the second is answered.
fn is_answered(net: &mut Simulation) -> bool {
    net.ping([(0, 1)], IpFamily::V4, Duration::from_secs(5)).unwrap().answered == 1
}

/// How many entries the switch has confirmed, in the view of each worker.
fn installed(net: &Simulation) -> Vec<Option<usize>> {
    let of = |network: &sluice_sdk::Network| network.view().record::<Installed>(S1).copied();
    net.controller().networks().map(|it| of(it).map(|installed| installed.entries)).collect()
}

/// The states of all workers, as text.
fn state(net: &Simulation) -> String {
    let states = net.controller().apps().filter_map(|chain| chain.state_of("access-list"));
    format!("{:?}", states.collect::<Vec<_>>())
}

#[test]
fn packets_of_a_denied_network_are_dropped_in_all_versions_until_it_is_removed() {
    for version in Versions::SUPPORTED.iter() {
        let mut net = network(version, 1000, &["192.168.0.0/16"]);
        assert!(is_answered(&mut net), "{version}");
        configure(&mut net, &["10.0.0.1/32", "192.168.0.0/16"]);
        run(&mut net, 1);
        assert_eq!(installed(&net), [Some(2); 2], "{version}");
        assert!(!is_answered(&mut net), "{version}");
        // The switch itself drops them.
        assert!(net.controller().metric("access_list_dropped") < 1.0, "{version}");
        configure(&mut net, &[]);
        run(&mut net, 1);
        assert_eq!(installed(&net), [Some(0); 2], "{version}");
        assert!(is_answered(&mut net), "{version}");
    }
}

/// The application drops them itself, and writes the entry again when a timer expires.
#[test]
fn an_entry_that_the_switch_refuses_is_written_again() {
    let mut net = network(Version::V1_0, 1, &["1.0.0.0/8", "10.0.0.1/32"]);
    assert_eq!(installed(&net), [Some(1); 2]);
    assert!(state(&net).contains("10.0.0.1/32"), "{}", state(&net));
    assert!(!is_answered(&mut net));
    assert!(net.controller().metric("access_list_dropped") >= 1.0);
    assert!(net.controller().metric("access_list_refused") >= 1.0);
    configure(&mut net, &["10.0.0.1/32"]);
    run(&mut net, 6);
    assert_eq!(installed(&net), [Some(1); 2]);
    assert!(!is_answered(&mut net));
}

#[test]
fn the_record_of_a_switch_that_disconnects_is_removed() {
    let mut net = network(Version::V1_3, 1000, &["10.0.0.1/32"]);
    assert_eq!(installed(&net), [Some(1); 2]);
    net.apply(sluice_emu::net::NetworkChange::PauseControlLink(0)).unwrap();
    run(&mut net, 60);
    assert_eq!(installed(&net), [None; 2]);
}
