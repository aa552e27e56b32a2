//! Whole networks in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sluice_emu::host::{Outcome, Stream};
use sluice_emu::link::Settings;
use sluice_emu::net::{Family, Fault, Net, NetError, Options, Pings};
use sluice_emu::topology::{Place, Topology};
use sluice_openflow::{PortNo, Version, Versions};
use support::{Brain, Flood, MS, Mind, S, network, wise};

fn all_pairs<M: Mind>(net: &mut Net<Brain<M>>, family: Family) -> Pings {
    let pairs = Pings::all_pairs(net.fabric().topology());
    net.ping(pairs, family, 5 * S).unwrap()
}

fn slow(delay: Duration) -> Settings {
    Settings { delay, ..Settings::default() }
}

#[test]
fn every_pair_pings_in_every_shape() {
    for text in
        ["minimal", "linear,4,2", "tree,2,3", "ring,5", "mesh,4", "leafspine,2,4,3", "torus,3,3"]
    {
        let mut net = wise(text, &Options::default());
        let n = net.fabric().topology().hosts.len() as u64;
        for family in [Family::V4, Family::V6] {
            let pings = all_pairs(&mut net, family);
            assert_eq!((pings.answered, &*pings.lost), (n * (n - 1), &[][..]), "{text} {family:?}");
        }
        assert_eq!(net.controller().packet_ins, 0, "{text}");
    }
}

#[test]
fn every_version_carries_frames_up_and_down() {
    for version in Versions::SPOKEN.iter() {
        let options = Options { up: slow(5 * MS), down: slow(5 * MS), ..Options::default() };
        let mut net =
            network("linear,2", &options, |_| Brain::speaking(Versions::of(&[version]), Flood));
        net.run_for(S).unwrap();
        assert_eq!(net.known(), 2, "{version}");
        let pings = net.ping([(0, 1)], Family::V4, S).unwrap();
        assert_eq!((pings.answered, pings.lost.len()), (1, 0), "{version}");
        // Request and answer of ARP, both of the ping, through two switches, and 10 ms for each.
        assert_eq!(pings.slowest, 80 * MS, "{version}");
    }
    assert!(Versions::SPOKEN.iter().any(|v| v == Version::V1_5));
}

#[test]
fn delays_and_rates_of_links_add_up() {
    let mut topology = Topology::from_text("linear,3").unwrap();
    topology.set_shape(Settings {
        delay: 2 * MS,
        rate: std::num::NonZeroU64::new(1_000_000),
        ..Settings::default()
    });
    let brain = Brain::new(support::Oracle::new(&topology));
    let mut net = Net::new(topology, &Options::default(), sluice_io::clock::now(), brain).unwrap();
    net.run_for(S).unwrap();
    let pings = net.ping([(0, 2)], Family::V4, 5 * S).unwrap();
    // ARP there and back with 42 bytes, then 98 bytes of the ping, over four links each way.
    let arp = 4 * (2 * MS + Duration::from_micros(42 * 8));
    let echo = 4 * (2 * MS + Duration::from_micros(98 * 8));
    assert_eq!(pings.slowest, 2 * arp + 2 * echo);
}

#[test]
fn a_connection_takes_as_long_as_the_control_links_let_it() {
    let options = Options { up: slow(50 * MS), down: slow(50 * MS), ..Options::default() };
    let mut net = network("linear,4", &options, |_| Brain::new(Flood));
    net.run_for(S).unwrap();
    let (now, fabric) = net.fabric_mut();
    let to = fabric.topology().hosts[3].ipv4.into();
    fabric.open(now, 0, (to, 80, 1)).unwrap();
    net.run_for(30 * S).unwrap();
    let outcomes = net.fabric_mut().1.take_outcomes();
    let [(0, Outcome::Tcp(c))] = outcomes[..] else { panic!("{outcomes:?}") };
    // Four packets, each sent up by four switches.
    assert_eq!(c.established, Some(4 * 4 * 100 * MS));
    assert!(c.closed.is_some());
}

#[test]
fn a_flood_in_a_ring_ends_the_run_and_not_the_memory() {
    let mut net = network("ring,4", &Options::default(), |_| Brain::new(Flood));
    net.run_for(S).unwrap();
    assert_eq!(net.ping([(0, 1)], Family::V4, S).unwrap().answered, 1, "before the storm");
    let stormed = net.run_for(S).unwrap_err();
    let NetError::Storm { copies, at } = stormed else { panic!("{stormed}") };
    assert_eq!((copies, at), (64 * 8 + 1001, S));
    let mut tree = network("tree,2,2", &Options::default(), |_| Brain::new(Flood));
    tree.run_for(S).unwrap();
    assert_eq!(tree.ping([(0, 1)], Family::V4, S).unwrap().answered, 1);
    assert_eq!(tree.fabric().copies(), 6, "every link once");
}

#[test]
fn a_cut_link_carries_nothing_and_is_told_of_at_both_ends() {
    let mut net = wise("linear,2", &Options::default());
    let before = net.controller().heard.len();
    net.fault(Fault::Cut(0)).unwrap();
    net.run_for(S).unwrap();
    // One PORT_STATUS from each switch, whatever its length.
    assert!(net.controller().heard.len() > before);
    assert_eq!(all_pairs(&mut net, Family::V4).lost, [(0, 1), (1, 0)]);
    net.schedule(net.now() + S, Fault::Join(0));
    net.run_for(2 * S).unwrap();
    assert_eq!(all_pairs(&mut net, Family::V4).answered, 2);
    let host = net.fabric().host_link(1);
    net.fault(Fault::Cut(host)).unwrap();
    assert_eq!(net.ping([(0, 1)], Family::V4, S).unwrap().lost, [(0, 1)]);
}

#[test]
fn a_broken_session_is_opened_again_and_keeps_the_rules() {
    let options = Options { up: slow(10 * MS), down: slow(20 * MS), ..Options::default() };
    let mut net = wise("linear,3", &options);
    net.fault(Fault::Break(1)).unwrap();
    assert_eq!(net.known(), 2);
    assert_eq!(all_pairs(&mut net, Family::V4).answered, 6, "nobody asks the controller");
    net.run_for(10 * MS).unwrap();
    assert_eq!(net.controller().closed, 1);
    net.run_for(2 * S).unwrap();
    assert_eq!((net.known(), net.controller().opened), (3, 4));
    assert!(net.fabric().switch(1).unwrap().n_entries() > 0);
}

#[test]
fn what_is_held_arrives_late_and_a_silent_switch_is_hung_up() {
    let mut net = network("single,2", &Options::default(), |_| Brain::new(Flood));
    net.run_for(S).unwrap();
    net.fault(Fault::Hold(0)).unwrap();
    net.schedule(net.now() + 2 * S, Fault::Release(0));
    let pings = net.ping([(0, 1)], Family::V4, 10 * S).unwrap();
    assert_eq!((pings.answered, pings.slowest), (1, 2 * S));
    net.fault(Fault::Hold(0)).unwrap();
    net.run_for(120 * S).unwrap();
    assert_eq!(sluice_emu::net::Controller::deadline(net.controller()), None, "it gave up");
    net.fault(Fault::Release(0)).unwrap();
    net.run_for(5 * S).unwrap();
    assert_eq!((net.controller().opened, net.known()), (2, 1));
}

#[test]
fn another_controller_takes_over() {
    let mut net = wise("ring,3", &Options::default());
    let brain = Brain::new(support::Oracle::new(net.fabric().topology()));
    let old = net.replace(brain).unwrap();
    assert_eq!((old.opened, net.known()), (3, 0));
    assert_eq!(all_pairs(&mut net, Family::V6).answered, 6, "the rules are still there");
    net.run_for(2 * S).unwrap();
    assert_eq!((net.controller().opened, net.known()), (3, 3));
}

#[test]
fn a_host_moves_to_a_free_port_and_says_so() {
    let mut net = network("linear,2", &Options::default(), |_| Brain::new(Flood));
    net.run_for(S).unwrap();
    let to = net.fabric().free_port(1).unwrap();
    assert_eq!(to, Place { switch: 1, port: PortNo(3) });
    let before = net.controller().packet_ins;
    net.fault(Fault::Move(0, to)).unwrap();
    net.run_for(S).unwrap();
    assert_eq!(net.controller().packet_ins - before, 4, "ARP and ND, at two switches");
    assert_eq!(all_pairs(&mut net, Family::V4).answered, 2);
    assert_eq!(net.fault(Fault::Move(1, to)), Err(NetError::Taken(to)));
    let nowhere = Place { switch: 7, port: PortNo(1) };
    assert_eq!(net.fault(Fault::Move(1, nowhere)), Err(NetError::Taken(nowhere)));
    let nobody = NetError::Nobody { what: "switch", index: 9 };
    assert_eq!(net.fault(Fault::Break(9)), Err(nobody));
}

#[test]
fn a_stream_loses_what_the_buffer_does_not_hold_while_the_answer_is_away() {
    let options = Options { up: slow(100 * MS), down: slow(100 * MS), ..Options::default() };
    let mut net = wise("single,2", &options);
    let to = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    let (now, fabric) = net.fabric_mut();
    let stream = Stream { to, port: 5001, rate_pps: 1000, count: 500, data_len: 100 };
    let id = fabric.stream(now, 0, stream).unwrap().unwrap();
    net.schedule(net.now() + 100 * MS, Fault::Cut(0));
    net.schedule(net.now() + 200 * MS, Fault::Join(0));
    net.run_for(2 * S).unwrap();
    let (sender, receiver) = (net.fabric().host(0).unwrap(), net.fabric().host(1).unwrap());
    let heard = receiver.heard([10, 0, 0, 1].into(), id).unwrap();
    assert_eq!(sender.sent(id), 500);
    assert_eq!((heard.received, heard.lost()), (400, 100));
}

#[test]
fn a_seed_repeats_a_run_to_the_byte() {
    let run = |seed| {
        let jittery = Settings { delay: 3 * MS, jitter: 2 * MS, ..Settings::default() };
        let options = Options { seed, up: jittery, down: jittery, spread: S, ..Options::default() };
        let mut net = network("tree,3,2", &options, |_| Brain::new(Flood));
        net.run_for(2 * S).unwrap();
        net.fault(Fault::Break(2)).unwrap();
        let pings = all_pairs(&mut net, Family::V4);
        (pings, std::mem::take(&mut net.controller_mut().heard))
    };
    let (pings, heard) = run(7);
    assert!(!heard.is_empty());
    assert!(run(7) == (pings, heard.clone()), "the same seed, another run");
    assert!(run(8).1 != heard, "another seed, the same run");
}

#[test]
fn a_thousand_switches_come_up_and_reach_each_other() {
    let mut topology = Topology::from_text("leafspine,10,990,1").unwrap();
    topology.hosts.truncate(20);
    let brain = Brain::new(support::Oracle::new(&topology));
    let mut net = Net::new(topology, &Options::default(), sluice_io::clock::now(), brain).unwrap();
    net.run_for(S).unwrap();
    assert_eq!(net.known(), 1000);
    assert_eq!(all_pairs(&mut net, Family::V4).answered, 380);
    // What keeps sessions alive, for a minute.
    net.run_for(60 * S).unwrap();
    assert_eq!((net.known(), net.controller().closed), (1000, 0));
}
