//! What a control link that is far away or thin costs, in virtual time: rows of CSV for `lab/connect` and `lab/udp-loss`.
//!
//! `far connect` opens TCP connections, `far udp` sends streams of UDP, `far hog` sends conversations beside a host that
//! asks too much.
#![expect(clippy::print_stdout, reason = "it is what it is for")]
#![expect(clippy::unwrap_used, reason = "an experiment that cannot be made ends")]

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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

/// How far away the controller is, one way.
const DELAYS_MS: [u32; 5] = [5, 50, 100, 300, 500];

/// What a link between switches, or to a host, takes.
const HOP: Duration = Duration::from_micros(100);

/// Rate of a control link, bit/s, and what may wait for it: 100 ms, as routers have.
const RATE: u64 = 10_000_000;

/// What a switch has to say and has not sent when it sends up no more: a hundred frames, as with Open vSwitch.
const UNTAKEN_MAX: usize = 100 * 1100;

fn main() {
    let rows = match std::env::args().nth(1).as_deref() {
        Some("connect") => connect(),
        Some("udp") => udp(),
        Some("hog") => hog(),
        _ => vec!["far connect, far udp or far hog".to_owned()],
    };
    for row in rows {
        println!("{row}");
    }
}

/// What is made of every case, on all cores; the rows are in the order of the cases.
fn each<T: Sync>(head: &str, cases: &[T], row: impl Fn(&T) -> String + Sync) -> Vec<String> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); cases.len()]));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    let Some(case) = cases.get(n) else { break };
                    let made = row(case);
                    *rows.lock().unwrap().get_mut(n).unwrap() = made;
                }
            });
        }
    });
    [vec![head.to_owned()], rows.into_inner().unwrap()].concat()
}

/// A row of switches with so many hosts each.
fn row(
    switches: u32,
    hosts: u32,
    link: LinkImpairments,
    plan: EmulatedSwitchConfig,
    cfg: &Config,
) -> Scenario<Chain> {
    let mut topology = Topology::from_text(&format!("linear,{switches},{hosts}")).unwrap();
    topology.set_impairments(LinkImpairments { delay: HOP, ..LinkImpairments::default() });
    let options = NetworkOptions {
        switch: plan,
        control_up: link,
        control_down: link,
        control_transport: ControlTransport::Tcp,
        ..NetworkOptions::default()
    };
    let names = ["limiter", "topology", "hosts", "forwarding"].map(str::to_owned);
    Scenario::new(topology, &options, Chain::new(&names, cfg).unwrap())
}

/// Rules for each conversation, and as much of a frame comes up as is needed to read its addresses and ports.
fn each_flow() -> Config {
    let mut cfg = Config::default();
    cfg.forwarding.matching = Matching::FiveTuple;
    cfg.forwarding.miss_send_len = 128;
    cfg.limiter.packets_per_s_max = 0;
    cfg
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Connections through rows of switches: with addresses known, answered by the controller, or asked of the other host.
fn connect() -> Vec<String> {
    let mut cases = vec![];
    for switches in [1, 4, 8] {
        for delay_ms in DELAYS_MS {
            for both in [true, false] {
                for addresses in ["known", "proxy", "host"] {
                    cases.push((switches, delay_ms, both, addresses));
                }
            }
        }
    }
    let head = "switches,delay_ms,both_directions,addresses,took_ms,loaded,asked_tcp,asked_arp";
    each(head, &cases, |&(switches, delay_ms, both, addresses)| {
        let mut cfg = each_flow();
        cfg.forwarding.both_directions = both;
        cfg.hosts.arp_proxy = addresses != "host";
        let hosts = if switches == 1 { 2 } else { 1 };
        let link = LinkImpairments { delay: delay_ms * MS, ..LinkImpairments::default() };
        let mut scenario = row(switches, hosts, link, EmulatedSwitchConfig::default(), &cfg);
        let last = usize::try_from(switches * hosts - 1).unwrap();
        if addresses == "known" {
            scenario.resolve_addresses(0, last);
        }
        let before = scenario.metric("forwarding_paths_installed");
        let opened = scenario.open_connection(0, last);
        let (took, asked) = (ms(opened.setup_time), opened.packet_ins);
        let loaded = scenario.metric("forwarding_paths_installed") - before;
        format!(
            "{switches},{delay_ms},{both},{addresses},{took},{loaded},{},{}",
            asked.tcp, asked.arp
        )
    })
}

/// Who knows that a flow waits for its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knows {
    Nobody,
    Controller,
    Switch,
}

impl Knows {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
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
            cases.push((delay_ms, rate_pps, 256, Knows::Controller));
        }
        for buffers in [0, 16, 64, 1024, 4096] {
            cases.push((delay_ms, 2000, buffers, Knows::Controller));
            cases.push((delay_ms, 2000, buffers, Knows::Switch));
        }
        // As Open vSwitch, to be compared with it.
        for rate_pps in [200, 500, 1000] {
            cases.push((delay_ms, rate_pps, 0, Knows::Controller));
        }
        for rate_pps in [100, 200, 500, 1000, 2000, 5000] {
            cases.push((delay_ms, rate_pps, 256, Knows::Nobody));
            cases.push((delay_ms, rate_pps, 256, Knows::Switch));
        }
    }
    let head = "delay_ms,rate_pps,buffers,knows,sent,received,reordered,full,untaken,asked,paths,flow_mods,bytes_up,\
                bytes_down";
    each(head, &cases, |&(delay_ms, rate_pps, buffers, knows)| {
        let mut cfg = each_flow();
        if knows == Knows::Nobody {
            cfg.forwarding.waiting = Duration::ZERO;
        }
        let link = LinkImpairments {
            delay: delay_ms * MS,
            rate_bps: NonZeroU64::new(RATE),
            ..LinkImpairments::default()
        };
        let plan = EmulatedSwitchConfig {
            n_buffers: buffers,
            flow_buffering: knows == Knows::Switch,
            tx_backlog_max: UNTAKEN_MAX,
            ..EmulatedSwitchConfig::default()
        };
        let mut scenario = row(4, 1, link, plan, &cfg);
        scenario.resolve_addresses(0, 3);
        let (before, paths) =
            (scenario.control_load(), scenario.metric("forwarding_paths_installed"));
        let count = 3 * u64::from(rate_pps);
        let stream = UdpStream {
            to: [0, 0, 0, 0].into(),
            port: 5001,
            rate_pps,
            packets: count,
            data_len: 1000,
        };
        let stream = scenario.start_stream(0, 3, &stream);
        scenario.run_for(Duration::from_secs(13));
        let (sent, work) =
            (scenario.stream_counts(0, 3, stream), scenario.control_load().since(before));
        let paths = scenario.metric("forwarding_paths_installed") - paths;
        let (up, down) = work.bytes;
        format!(
            "{delay_ms},{rate_pps},{buffers},{},{},{},{},{},{},{},{paths},{},{up},{down}",
            knows.name(),
            sent.sent,
            sent.received,
            sent.reordered,
            work.buffer_full,
            work.dropped_packet_ins,
            work.packet_ins.udp,
            work.flow_mods,
        )
    })
}

/// How a host that asks too much is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Not,
    ByMeter,
    ByRule,
    Ahead,
}

impl Held {
    fn name(self) -> &'static str {
        match self {
            Self::Not => "no",
            Self::ByMeter => "meter",
            Self::ByRule => "rule",
            Self::Ahead => "ahead",
        }
    }
}

/// Ten seconds of conversations of five packets, ten a second, beside a host each of whose packets is a flow of its own.
fn hog() -> Vec<String> {
    let mut cases = vec![];
    for delay_ms in [5, 100, 500] {
        for hog_pps in [0, 100, 200, 500, 1000, 2000, 4000] {
            for held in [Held::Not, Held::ByRule, Held::ByMeter, Held::Ahead] {
                cases.push((delay_ms, hog_pps, held));
            }
        }
    }
    let head = "delay_ms,hog_pps,held,sent,received,hog_received,full,untaken,bytes_up,bytes_down";
    each(head, &cases, |&(delay_ms, hog_pps, held)| {
        let mut cfg = each_flow();
        if held != Held::Not {
            (cfg.limiter.packets_per_s_max, cfg.limiter.burst_packets) = (100, 50);
            cfg.limiter.meters = held != Held::ByRule;
            cfg.limiter.proactive = held == Held::Ahead;
            cfg.limiter.miss_send_len = 128;
        }
        let link = LinkImpairments {
            delay: delay_ms * MS,
            rate_bps: NonZeroU64::new(RATE / 5),
            ..LinkImpairments::default()
        };
        let plan =
            EmulatedSwitchConfig { tx_backlog_max: UNTAKEN_MAX, ..EmulatedSwitchConfig::default() };
        let mut scenario = row(2, 2, link, plan, &cfg);
        scenario.resolve_addresses(0, 2);
        scenario.resolve_addresses(1, 3);
        let before = scenario.control_load();
        let one =
            UdpStream { to: [0, 0, 0, 0].into(), port: 0, rate_pps: 1, packets: 1, data_len: 1000 };
        let (mut talks, mut hogs) = (vec![], vec![]);
        for n in 0..10_000u32 {
            let due = n * hog_pps / 1000..(n + 1) * hog_pps / 1000;
            for port in due {
                let port = u16::try_from(1000 + port % 60_000).unwrap();
                hogs.push(scenario.start_stream(0, 2, &UdpStream { port, ..one }));
            }
            if n % 100 == 50 {
                let port = u16::try_from(30_000 + n).unwrap();
                let talk = UdpStream { port, rate_pps: 100, packets: 5, ..one };
                talks.push(scenario.start_stream(1, 3, &talk));
            }
            scenario.run_for(MS);
        }
        scenario.run_for(Duration::from_secs(20));
        let talks = talks.iter().map(|&talk| scenario.stream_counts(1, 3, talk));
        let (sent, received) =
            talks.fold((0, 0), |sum, talk| (sum.0 + talk.sent, sum.1 + talk.received));
        let hogs: u64 = hogs.iter().map(|&hog| scenario.stream_counts(0, 2, hog).received).sum();
        let work = scenario.control_load().since(before);
        let (up, down) = work.bytes;
        format!(
            "{delay_ms},{hog_pps},{},{sent},{received},{hogs},{},{},{up},{down}",
            held.name(),
            work.buffer_full,
            work.dropped_packet_ins,
        )
    })
}
