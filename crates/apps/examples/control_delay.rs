//! Effects of a distant or slow control link, in virtual time. Prints CSV for `lab/connect` and `lab/udp-loss`.
//!
//! `control_delay connect` opens TCP connections, `control_delay udp` sends UDP streams, `control_delay hog` sends short
//! flows of one host while another host causes many packet-ins.
#![expect(clippy::print_stdout, reason = "the output of a program")]
#![expect(clippy::unwrap_used, reason = "an experiment that fails ends with a panic")]

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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

/// One-way delays of control links.
const DELAYS_MS: [u32; 5] = [5, 50, 100, 300, 500];

/// Delay of links between switches and to hosts.
const LINK_DELAY: Duration = Duration::from_micros(100);

/// Rate of a control link, bit/s.
const CONTROL_RATE_BPS: u64 = 10_000_000;

/// Unsent bytes at which a switch drops packet-ins: a hundred packets, like Open vSwitch.
const TX_BACKLOG_MAX: usize = 100 * 1100;

fn main() {
    let lines = match std::env::args().nth(1).as_deref() {
        Some("connect") => connect(),
        Some("udp") => udp(),
        Some("hog") => busy_host(),
        _ => vec!["usage: control_delay connect|udp|hog".to_owned()],
    };
    for line in lines {
        println!("{line}");
    }
}

/// Runs all cases in parallel. Returns the header and one line per case, in the order of the cases.
fn run_cases<T: Sync>(header: &str, cases: &[T], run: impl Fn(&T) -> String + Sync) -> Vec<String> {
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); cases.len()]));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    let Some(case) = cases.get(n) else { break };
                    let text = run(case);
                    *lines.lock().unwrap().get_mut(n).unwrap() = text;
                }
            });
        }
    });
    [vec![header.to_owned()], lines.into_inner().unwrap()].concat()
}

/// A linear topology of `switches` with `hosts` each.
fn linear(
    switches: u32,
    hosts: u32,
    link: LinkImpairments,
    switch: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    let mut topology = Topology::from_text(&format!("linear,{switches},{hosts}")).unwrap();
    topology.set_impairments(LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() });
    let options = NetworkOptions {
        switch,
        control_up: link,
        control_down: link,
        control_transport: ControlTransport::Tcp,
        ..NetworkOptions::default()
    };
    let names = ["limiter", "topology", "hosts", "forwarding"].map(str::to_owned);
    Scenario::new(topology, &options, || chain(&names, cfg).unwrap())
}

/// Flow entries match five-tuples, packet-ins contain addresses and ports only, no limiter.
fn five_tuple_config() -> Config {
    let mut cfg = Config::default();
    cfg.forwarding.matching = Matching::FiveTuple;
    cfg.forwarding.miss_send_len = 128;
    cfg.limiter.packets_per_s_max = 0;
    cfg
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Connections with known addresses, or with addresses resolved by the ARP proxy or by the other host.
fn connect() -> Vec<String> {
    let mut cases = vec![];
    for switches in [1, 4, 8] {
        for delay_ms in DELAYS_MS {
            for both_directions in [true, false] {
                for addresses in ["known", "proxy", "host"] {
                    cases.push((switches, delay_ms, both_directions, addresses));
                }
            }
        }
    }
    let header = "switches,delay_ms,both_directions,addresses,took_ms,loaded,asked_tcp,asked_arp";
    run_cases(header, &cases, |&(switches, delay_ms, both_directions, addresses)| {
        let mut cfg = five_tuple_config();
        cfg.forwarding.both_directions = both_directions;
        cfg.hosts.arp_proxy = addresses != "host";
        let hosts = if switches == 1 { 2 } else { 1 };
        let link = LinkImpairments { delay: delay_ms * MS, ..LinkImpairments::default() };
        let mut scenario = linear(switches, hosts, link, EmulatedSwitchConfig::default(), &cfg);
        let last = usize::try_from(switches * hosts - 1).unwrap();
        if addresses == "known" {
            scenario.resolve_addresses(0, last);
        }
        let before = scenario.metric("forwarding_paths_installed");
        let opened = scenario.open_connection(0, last);
        let (setup_ms, packet_ins) = (ms(opened.setup_time), opened.packet_ins);
        let installed = scenario.metric("forwarding_paths_installed") - before;
        format!(
            "{switches},{delay_ms},{both_directions},{addresses},{setup_ms},{installed},{},{}",
            packet_ins.tcp, packet_ins.arp
        )
    })
}

/// Where it is known that flow entries of a flow are being installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingFlowState {
    Nowhere,
    Controller,
    Switch,
}

impl PendingFlowState {
    fn name(self) -> &'static str {
        match self {
            Self::Nowhere => "nobody",
            Self::Controller => "controller",
            Self::Switch => "switch",
        }
    }
}

/// The first three seconds of a stream, through four switches.
fn udp() -> Vec<String> {
    let mut cases = vec![];
    for delay_ms in DELAYS_MS {
        for rate_pps in [100, 200, 500, 1000, 2000, 5000] {
            cases.push((delay_ms, rate_pps, 256, PendingFlowState::Controller));
        }
        for buffers in [0, 16, 64, 1024, 4096] {
            cases.push((delay_ms, 2000, buffers, PendingFlowState::Controller));
            cases.push((delay_ms, 2000, buffers, PendingFlowState::Switch));
        }
        // Without buffers, for comparison with Open vSwitch.
        for rate_pps in [200, 500, 1000] {
            cases.push((delay_ms, rate_pps, 0, PendingFlowState::Controller));
        }
        for rate_pps in [100, 200, 500, 1000, 2000, 5000] {
            cases.push((delay_ms, rate_pps, 256, PendingFlowState::Nowhere));
            cases.push((delay_ms, rate_pps, 256, PendingFlowState::Switch));
        }
    }
    let header = "delay_ms,rate_pps,buffers,knows,sent,received,reordered,full,untaken,asked,paths,flow_mods,bytes_up,\
                bytes_down";
    run_cases(header, &cases, |&(delay_ms, rate_pps, buffers, kept_by)| {
        let mut cfg = five_tuple_config();
        if kept_by == PendingFlowState::Nowhere {
            cfg.forwarding.path_pending = Duration::ZERO;
        }
        let link = LinkImpairments {
            delay: delay_ms * MS,
            rate_bps: NonZeroU64::new(CONTROL_RATE_BPS),
            ..LinkImpairments::default()
        };
        let switch = EmulatedSwitchConfig {
            n_buffers: buffers,
            flow_buffering: kept_by == PendingFlowState::Switch,
            tx_backlog_max: TX_BACKLOG_MAX,
            ..EmulatedSwitchConfig::default()
        };
        let mut scenario = linear(4, 1, link, switch, &cfg);
        scenario.resolve_addresses(0, 3);
        let (before, paths) =
            (scenario.control_load(), scenario.metric("forwarding_paths_installed"));
        let packets = 3 * u64::from(rate_pps);
        let stream =
            UdpStream { to: [0, 0, 0, 0].into(), port: 5001, rate_pps, packets, data_len: 1000 };
        let stream = scenario.start_stream(0, 3, &stream);
        scenario.run_for(Duration::from_secs(13));
        let (sent, load) =
            (scenario.stream_counts(0, 3, stream), scenario.control_load().since(before));
        let paths = scenario.metric("forwarding_paths_installed") - paths;
        let (up, down) = load.bytes;
        format!(
            "{delay_ms},{rate_pps},{buffers},{},{},{},{},{},{},{},{paths},{},{up},{down}",
            kept_by.name(),
            sent.sent,
            sent.received,
            sent.reordered,
            load.buffer_full,
            load.dropped_packet_ins,
            load.packet_ins.udp,
            load.flow_mods,
        )
    })
}

/// How the busy host is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limiting {
    Off,
    Meters,
    FlowEntries,
    ProactiveMeters,
}

impl Limiting {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "no",
            Self::Meters => "meter",
            Self::FlowEntries => "rule",
            Self::ProactiveMeters => "ahead",
        }
    }
}

/// Ten new flows of five packets per second for ten seconds, while a busy host sends packets that are a new flow each.
fn busy_host() -> Vec<String> {
    let mut cases = vec![];
    for delay_ms in [5, 100, 500] {
        for hog_pps in [0, 100, 200, 500, 1000, 2000, 4000] {
            for limiting in
                [Limiting::Off, Limiting::FlowEntries, Limiting::Meters, Limiting::ProactiveMeters]
            {
                cases.push((delay_ms, hog_pps, limiting));
            }
        }
    }
    let header =
        "delay_ms,hog_pps,held,sent,received,hog_received,full,untaken,bytes_up,bytes_down";
    run_cases(header, &cases, |&(delay_ms, hog_pps, limiting)| {
        let mut cfg = five_tuple_config();
        if limiting != Limiting::Off {
            (cfg.limiter.packets_per_s_max, cfg.limiter.burst_packets) = (100, 50);
            cfg.limiter.meters = limiting != Limiting::FlowEntries;
            cfg.limiter.proactive = limiting == Limiting::ProactiveMeters;
            cfg.limiter.miss_send_len = 128;
        }
        let link = LinkImpairments {
            delay: delay_ms * MS,
            rate_bps: NonZeroU64::new(CONTROL_RATE_BPS / 5),
            ..LinkImpairments::default()
        };
        let switch = EmulatedSwitchConfig {
            tx_backlog_max: TX_BACKLOG_MAX,
            ..EmulatedSwitchConfig::default()
        };
        let mut scenario = linear(2, 2, link, switch, &cfg);
        scenario.resolve_addresses(0, 2);
        scenario.resolve_addresses(1, 3);
        let before = scenario.control_load();
        let one_packet =
            UdpStream { to: [0, 0, 0, 0].into(), port: 0, rate_pps: 1, packets: 1, data_len: 1000 };
        let (mut flows, mut busy_streams) = (vec![], vec![]);
        for n in 0..10_000u32 {
            let ports = n * hog_pps / 1000..(n + 1) * hog_pps / 1000;
            for port in ports {
                let port = u16::try_from(1000 + port % 60_000).unwrap();
                busy_streams.push(scenario.start_stream(0, 2, &UdpStream { port, ..one_packet }));
            }
            if n % 100 == 50 {
                let port = u16::try_from(30_000 + n).unwrap();
                let flow = UdpStream { port, rate_pps: 100, packets: 5, ..one_packet };
                flows.push(scenario.start_stream(1, 3, &flow));
            }
            scenario.run_for(MS);
        }
        scenario.run_for(Duration::from_secs(20));
        let flows = flows.iter().map(|&flow| scenario.stream_counts(1, 3, flow));
        let (sent, received) =
            flows.fold((0, 0), |sum, flow| (sum.0 + flow.sent, sum.1 + flow.received));
        let busy_streams: u64 =
            busy_streams.iter().map(|&stream| scenario.stream_counts(0, 2, stream).received).sum();
        let load = scenario.control_load().since(before);
        let (up, down) = load.bytes;
        format!(
            "{delay_ms},{hog_pps},{},{sent},{received},{busy_streams},{},{},{up},{down}",
            limiting.name(),
            load.buffer_full,
            load.dropped_packet_ins,
        )
    })
}
