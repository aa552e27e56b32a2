//! Control links that are far away or thin: what is asked of the controller, and what is lost meanwhile. In virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU64;
use std::time::Duration;

use sluice_apps::forwarding::Matching;
use sluice_apps::{Chain, Config};
use sluice_emu::host::UdpStream;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{ControlTransport, NetworkOptions};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_testkit::Scenario;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A row of switches with so many hosts each, and control links of a delay, over TCP.
fn row(
    switches: usize,
    hosts: usize,
    link: LinkImpairments,
    plan: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    row_over(ControlTransport::Tcp, (switches, hosts), link, plan, cfg)
}

fn row_over(
    carriage: ControlTransport,
    (switches, hosts): (usize, usize),
    link: LinkImpairments,
    plan: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    let topology = Topology::from_text(&format!("linear,{switches},{hosts}")).unwrap();
    let options = NetworkOptions {
        switch: plan,
        control_up: link,
        control_down: link,
        control_transport: carriage,
        ..NetworkOptions::default()
    };
    let names = ["limiter", "topology", "hosts", "forwarding"].map(str::to_owned);
    Scenario::new(topology, &options, Chain::new(&names, cfg).unwrap())
}

fn far(delay: Duration) -> LinkImpairments {
    LinkImpairments { delay, ..LinkImpairments::default() }
}

/// Rules for each conversation, and frames of which 128 bytes come up.
fn each_flow() -> Config {
    let mut cfg = Config::default();
    cfg.forwarding.matching = Matching::FiveTuple;
    cfg.forwarding.miss_send_len = 128;
    cfg.limiter.packets_per_s_max = 0;
    cfg
}

fn udp(rate_pps: u32, count: u64, data_len: usize) -> UdpStream {
    UdpStream { to: [0, 0, 0, 0].into(), port: 5001, rate_pps, packets: count, data_len }
}

#[test]
fn a_connection_asks_once_and_twice_if_only_one_direction_is_loaded() {
    for (switches, hosts) in [(1, 2), (4, 1), (8, 1)] {
        for (both_directions, asked) in [(true, 1), (false, 2)] {
            let mut cfg = each_flow();
            cfg.forwarding.both_directions = both_directions;
            let last = switches * hosts - 1;
            let mut scenario =
                row(switches, hosts, far(50 * MS), EmulatedSwitchConfig::default(), &cfg);
            scenario.resolve_addresses(0, last);
            let opened = scenario.open_connection(0, last);
            let story = format!("{switches} switches, both directions: {both_directions}");
            assert_eq!((opened.packet_ins.tcp, opened.packet_ins.arp), (asked, 0), "{story}");
            assert_eq!(opened.setup_time, 100 * MS * u32::try_from(asked).unwrap(), "{story}");
        }
    }
}

#[test]
fn who_does_not_know_the_address_asks_for_it_first() {
    for (matching, proxy, arp, tcp) in [
        // The controller answers either host: the other does not hear of it.
        (Matching::FiveTuple, true, 2, 1),
        (Matching::Pair, true, 2, 1),
        // The request is flooded, and the answer loads rules: for addresses, those of the connection, too.
        (Matching::FiveTuple, false, 2, 1),
        (Matching::Pair, false, 2, 0),
    ] {
        let mut cfg = each_flow();
        cfg.forwarding.matching = matching;
        cfg.hosts.arp_proxy = proxy;
        let mut scenario = row(4, 1, far(50 * MS), EmulatedSwitchConfig::default(), &cfg);
        let opened = scenario.open_connection(0, 3);
        let story = format!("{matching:?}, proxy: {proxy}");
        assert_eq!((opened.packet_ins.arp, opened.packet_ins.tcp), (arp, tcp), "{story}");
        let trips = u32::try_from(arp + tcp).unwrap();
        assert_eq!(opened.setup_time, 100 * MS * trips, "{story}");
    }
}

/// Half a second away, rules take a second: what comes up meanwhile is known to wait for them. In TCP's slow start it takes
/// longer than was measured, which is noticed.
#[test]
fn a_flow_has_its_rules_written_once_however_far_away_the_controller_is() {
    for (carriage, delay, data_len, most) in [
        (ControlTransport::Ideal, 5 * MS, 1000, 1),
        (ControlTransport::Ideal, 500 * MS, 1000, 1),
        (ControlTransport::Ideal, 500 * MS, 28, 1),
        (ControlTransport::Tcp, 5 * MS, 1000, 1),
        (ControlTransport::Tcp, 500 * MS, 1000, 3),
    ] {
        for (waiting, sets) in [(50 * MS, 1..=most), (Duration::ZERO, 5..=1500)] {
            let mut cfg = each_flow();
            cfg.forwarding.waiting = waiting;
            let plan = EmulatedSwitchConfig { n_buffers: 4096, ..EmulatedSwitchConfig::default() };
            let mut scenario = row_over(carriage, (4, 1), far(delay), plan, &cfg);
            scenario.resolve_addresses(0, 3);
            let before = scenario.metric("forwarding_paths_installed");
            let stream = scenario.start_stream(0, 3, &udp(1000, 1500, data_len));
            scenario.run_for(10 * S);
            let (sent, loaded) = (
                scenario.stream_counts(0, 3, stream),
                scenario.metric("forwarding_paths_installed") - before,
            );
            let story = format!("{carriage:?}, {delay:?} away, {data_len} bytes, {waiting:?}");
            assert!(sets.contains(&loaded), "{story}: {loaded} sets");
            assert_eq!((sent.sent, sent.received), (1500, 1500), "{story}");
            assert_eq!(scenario.metric("forwarding_truncated"), 0, "{story}");
        }
    }
}

/// A switch that remembers which flows wait for an answer asks once for each, and has room for what comes meanwhile.
#[test]
fn a_switch_that_knows_what_waits_asks_once() {
    for (waiting_flows, data_len) in [(true, 1000), (true, 28), (false, 1000)] {
        let plan = EmulatedSwitchConfig {
            n_buffers: 4096,
            flow_buffering: waiting_flows,
            ..EmulatedSwitchConfig::default()
        };
        let mut scenario = row(4, 1, far(100 * MS), plan, &each_flow());
        scenario.resolve_addresses(0, 3);
        let before = scenario.control_load();
        let stream = scenario.start_stream(0, 3, &udp(1000, 1000, data_len));
        scenario.run_for(10 * S);
        let asked = scenario.control_load().since(before).packet_ins.udp;
        assert!(if waiting_flows { asked == 1 } else { asked >= 200 }, "{asked}");
        assert_eq!(
            scenario.stream_counts(0, 3, stream).received,
            1000,
            "{waiting_flows} {data_len}"
        );
    }
}

/// Sends from host 0 to host 2 packets each of which is a flow of its own, beside conversations of host 1 with host 3;
/// the share of these that is lost.
fn beside_a_hog(cfg: &Config) -> f64 {
    let link = LinkImpairments { rate_bps: NonZeroU64::new(1_000_000), ..far(50 * MS) };
    let plan = EmulatedSwitchConfig { tx_backlog_max: 65_536, ..EmulatedSwitchConfig::default() };
    let mut scenario = row(2, 2, link, plan, cfg);
    scenario.resolve_addresses(0, 2);
    scenario.resolve_addresses(1, 3);
    let mut talks = vec![];
    for ms in 0..4_000u32 {
        let hog = UdpStream { port: u16::try_from(10_000 + ms).unwrap(), ..udp(1, 1, 1000) };
        scenario.start_stream(0, 2, &hog);
        if ms % 100 == 0 {
            let port = u16::try_from(30_000 + ms).unwrap();
            talks.push(scenario.start_stream(1, 3, &UdpStream { port, ..udp(100, 5, 1000) }));
        }
        scenario.run_for(MS);
    }
    scenario.run_for(10 * S);
    let sent: Vec<_> = talks.iter().map(|&talk| scenario.stream_counts(1, 3, talk)).collect();
    let packets: u64 = sent.iter().map(|sent| sent.sent).sum();
    let received: u64 = sent.iter().map(|sent| sent.received).sum();
    assert_eq!(packets, 200);
    1.0 - f64::from(u32::try_from(received).unwrap()) / 200.0
}

#[test]
fn a_hog_takes_the_control_link_from_others_unless_its_port_is_held() {
    let without = beside_a_hog(&each_flow());
    let mut cfg = each_flow();
    (cfg.limiter.packets_per_s_max, cfg.limiter.burst_packets) = (50, 50);
    let with = beside_a_hog(&cfg);
    cfg.limiter.proactive = true;
    let ahead = beside_a_hog(&cfg);
    let story = format!("not held: {without:.3}, held: {with:.3}, from the beginning: {ahead:.3}");
    assert!(without > 0.2 && with < without / 2.0 && ahead < 0.01, "{story}");
}
