//! Distant or slow control links, in virtual time: numbers of packet-ins, setup times and losses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use sluice_apps::forwarding::Matching;
use sluice_apps::{Config, chain};
use sluice_emu::host::UdpStream;
use sluice_emu::link::LinkImpairments;
use sluice_emu::net::{ControlTransport, NetworkOptions};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::Topology;
use sluice_sdk::Chain;
use sluice_testkit::Scenario;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A linear topology of `switches` with `hosts` each, and control links over TCP.
fn linear(
    switches: usize,
    hosts: usize,
    link: LinkImpairments,
    switch: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    linear_over(ControlTransport::Tcp, (switches, hosts), link, switch, cfg)
}

fn linear_over(
    transport: ControlTransport,
    (switches, hosts): (usize, usize),
    link: LinkImpairments,
    switch: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    let topology = Topology::from_text(&format!("linear,{switches},{hosts}")).unwrap();
    let options = NetworkOptions {
        switch,
        control_up: link,
        control_down: link,
        control_transport: transport,
        ..NetworkOptions::default()
    };
    let names = ["limiter", "topology", "hosts", "forwarding"].map(str::to_owned);
    Scenario::new(topology, &options, || chain(&names, cfg).unwrap())
}

fn delayed(delay: Duration) -> LinkImpairments {
    LinkImpairments { delay, ..LinkImpairments::default() }
}

/// Flow entries match five-tuples, packet-ins contain 128 bytes, no limiter.
fn five_tuple_config() -> Config {
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
fn a_connection_causes_one_packet_in_or_two_if_each_direction_is_installed_separately() {
    for (switches, hosts) in [(1, 2), (4, 1), (8, 1)] {
        for (both_directions, packet_ins) in [(true, 1), (false, 2)] {
            let mut cfg = five_tuple_config();
            cfg.forwarding.both_directions = both_directions;
            let last = switches * hosts - 1;
            let mut scenario =
                linear(switches, hosts, delayed(50 * MS), EmulatedSwitchConfig::default(), &cfg);
            scenario.resolve_addresses(0, last);
            let opened = scenario.open_connection(0, last);
            let context = format!("{switches} switches, both directions: {both_directions}");
            assert_eq!(
                (opened.packet_ins.tcp, opened.packet_ins.arp),
                (packet_ins, 0),
                "{context}"
            );
            assert_eq!(
                opened.setup_time,
                100 * MS * u32::try_from(packet_ins).unwrap(),
                "{context}"
            );
        }
    }
}

#[test]
fn an_unknown_address_costs_two_arp_packet_ins_before_the_connection() {
    for (matching, proxy, arp, tcp) in [
        // The controller answers the requests of both hosts.
        (Matching::FiveTuple, true, 2, 1),
        (Matching::Pair, true, 2, 1),
        // The request is flooded. The reply installs flow entries, which with `Pair` also match the connection.
        (Matching::FiveTuple, false, 2, 1),
        (Matching::Pair, false, 2, 0),
    ] {
        let mut cfg = five_tuple_config();
        cfg.forwarding.matching = matching;
        cfg.hosts.arp_proxy = proxy;
        let mut scenario = linear(4, 1, delayed(50 * MS), EmulatedSwitchConfig::default(), &cfg);
        let opened = scenario.open_connection(0, 3);
        let context = format!("{matching:?}, proxy: {proxy}");
        assert_eq!((opened.packet_ins.arp, opened.packet_ins.tcp), (arp, tcp), "{context}");
        let trips = u32::try_from(arp + tcp).unwrap();
        assert_eq!(opened.setup_time, 100 * MS * trips, "{context}");
    }
}

/// With a delay of 500 ms, flow entries take effect after one second. In TCP slow start it takes longer than the measured round
/// trip: the path may then be installed up to three times. With `waiting` set to 0, packet-ins install it again.
#[test]
fn packet_ins_received_while_a_path_is_being_installed_do_not_install_it_again() {
    for (transport, delay, data_len, installs_max) in [
        (ControlTransport::Ideal, 5 * MS, 1000, 1),
        (ControlTransport::Ideal, 500 * MS, 1000, 1),
        (ControlTransport::Ideal, 500 * MS, 28, 1),
        (ControlTransport::Tcp, 5 * MS, 1000, 1),
        (ControlTransport::Tcp, 500 * MS, 1000, 3),
    ] {
        for (path_pending, expected) in [(50 * MS, 1..=installs_max), (Duration::ZERO, 5..=1500)] {
            let mut cfg = five_tuple_config();
            cfg.forwarding.path_pending = path_pending;
            let switch =
                EmulatedSwitchConfig { n_buffers: 4096, ..EmulatedSwitchConfig::default() };
            let mut scenario = linear_over(transport, (4, 1), delayed(delay), switch, &cfg);
            scenario.resolve_addresses(0, 3);
            let before = scenario.metric("forwarding_paths_installed");
            let stream = scenario.start_stream(0, 3, &udp(1000, 1500, data_len));
            scenario.run_for(10 * S);
            let (sent, installed) = (
                scenario.stream_counts(0, 3, stream),
                scenario.metric("forwarding_paths_installed") - before,
            );
            let context =
                format!("{transport:?}, delay {delay:?}, {data_len} bytes, {path_pending:?}");
            assert!(expected.contains(&installed), "{context}: installed {installed} times");
            assert_eq!((sent.sent, sent.received), (1500, 1500), "{context}");
            assert_eq!(scenario.metric("forwarding_truncated"), 0, "{context}");
        }
    }
}

/// A switch with flow buffering sends one packet-in per flow and buffers the packets that follow.
#[test]
fn with_flow_buffering_a_switch_sends_one_packet_in_per_flow() {
    for (flow_buffering, data_len) in [(true, 1000), (true, 28), (false, 1000)] {
        let switch = EmulatedSwitchConfig {
            n_buffers: 4096,
            flow_buffering,
            ..EmulatedSwitchConfig::default()
        };
        let mut scenario = linear(4, 1, delayed(100 * MS), switch, &five_tuple_config());
        scenario.resolve_addresses(0, 3);
        let before = scenario.control_load();
        let stream = scenario.start_stream(0, 3, &udp(1000, 1000, data_len));
        scenario.run_for(10 * S);
        let packet_ins = scenario.control_load().since(before).packet_ins.udp;
        assert!(if flow_buffering { packet_ins == 1 } else { packet_ins >= 200 }, "{packet_ins}");
        assert_eq!(
            scenario.stream_counts(0, 3, stream).received,
            1000,
            "{flow_buffering} {data_len}"
        );
    }
}

/// Host 0 sends packets to host 2 that are a new flow each, while host 1 sends short flows to host 3. Returns the loss ratio of
/// the latter.
fn loss_beside_a_busy_host(cfg: &Config) -> f64 {
    let link = LinkImpairments { rate_bps: NonZeroU64::new(1_000_000), ..delayed(50 * MS) };
    let switch = EmulatedSwitchConfig { tx_backlog_max: 65_536, ..EmulatedSwitchConfig::default() };
    let mut scenario = linear(2, 2, link, switch, cfg);
    scenario.resolve_addresses(0, 2);
    scenario.resolve_addresses(1, 3);
    let mut flows = vec![];
    for ms in 0..4_000u32 {
        let busy = UdpStream { port: u16::try_from(10_000 + ms).unwrap(), ..udp(1, 1, 1000) };
        scenario.start_stream(0, 2, &busy);
        if ms % 100 == 0 {
            let port = u16::try_from(30_000 + ms).unwrap();
            flows.push(scenario.start_stream(1, 3, &UdpStream { port, ..udp(100, 5, 1000) }));
        }
        scenario.run_for(MS);
    }
    scenario.run_for(10 * S);
    let sent: Vec<_> = flows.iter().map(|&flow| scenario.stream_counts(1, 3, flow)).collect();
    let packets: u64 = sent.iter().map(|sent| sent.sent).sum();
    let received: u64 = sent.iter().map(|sent| sent.received).sum();
    assert_eq!(packets, 200);
    1.0 - f64::from(u32::try_from(received).unwrap()) / 200.0
}

#[test]
fn a_host_with_many_flows_causes_losses_to_others_unless_the_limiter_limits_its_port() {
    let unlimited = loss_beside_a_busy_host(&five_tuple_config());
    let mut cfg = five_tuple_config();
    (cfg.limiter.packets_per_s_max, cfg.limiter.burst_packets) = (50, 50);
    let limited = loss_beside_a_busy_host(&cfg);
    cfg.limiter.proactive = true;
    let proactive = loss_beside_a_busy_host(&cfg);
    let context = format!(
        "loss without limiter: {unlimited:.3}, with: {limited:.3}, proactive: {proactive:.3}"
    );
    assert!(unlimited > 0.2 && limited < unlimited / 2.0 && proactive < 0.01, "{context}");
}

/// Host 0 sends 3 000 packets per second to host 2 that are a new flow each, for ten seconds. Meanwhile host 1 begins ten flows
/// per second to host 3. Returns how many of these have arrived within a second.
fn flows_in_time_beside_a_scan(cfg: &Config) -> usize {
    let link = LinkImpairments { rate_bps: NonZeroU64::new(2_000_000), ..delayed(MS) };
    let switch = EmulatedSwitchConfig { tx_backlog_max: 65_536, ..EmulatedSwitchConfig::default() };
    let mut scenario = linear(2, 2, link, switch, cfg);
    scenario.resolve_addresses(0, 2);
    scenario.resolve_addresses(1, 3);
    let (mut flows, mut in_time) = (VecDeque::new(), 0);
    for ms in 0..10_900u32 {
        if ms < 10_000 {
            for n in 0..3 {
                let port = u16::try_from(1_000 + ms * 3 + n).unwrap();
                scenario.start_stream(0, 2, &UdpStream { port, ..udp(1, 1, 20) });
            }
            if ms % 100 == 0 {
                let port = u16::try_from(40_000 + ms).unwrap();
                flows.push_back(scenario.start_stream(1, 3, &UdpStream { port, ..udp(1, 1, 20) }));
            }
        }
        scenario.run_for(MS);
        if ms % 100 == 99 && ms >= 999 {
            let flow = flows.pop_front().unwrap();
            in_time += usize::from(scenario.stream_counts(1, 3, flow).received > 0);
        }
    }
    assert_eq!(flows.len(), 0);
    in_time
}

#[test]
fn a_scan_over_a_thin_control_link_leaves_other_ports_their_share_with_the_default_limits() {
    let mut cfg = Config::default();
    cfg.forwarding.matching = Matching::FiveTuple;
    for meters in [true, false] {
        cfg.limiter.meters = meters;
        let in_time = flows_in_time_beside_a_scan(&cfg);
        assert!(in_time >= 90, "meters: {meters}: {in_time} of 100 flows");
    }
}
