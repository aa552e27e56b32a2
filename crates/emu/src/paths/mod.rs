//! Measures how fast a controller installs paths.
//!
//! The emulated switches have no flow tables. They carry the controller's discovery probes over their links; hosts
//! announce themselves, and then send first packets to the hosts farthest away. A path counts as installed when flow
//! entries lead from host to host (in both directions, if requested) and the packet has been sent to its destination.

mod connections;
mod flow_entry;
mod report;
mod requests;
mod wiring;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::{WaitStrategy, clock, cores, limits};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{Encoder, PacketInReason, PortNo, Version, Versions};

use crate::topology::Topology;
use connections::SwitchConnections;
pub use report::{LoopResult, PathsReport};
use requests::{PathRequests, host_mac};
use wiring::Wiring;

/// Longest path, in switches.
pub const PATH_LEN_MAX: usize = 8;

/// Hosts that announce themselves at a time, and the time between; no controller should miss any.
const ANNOUNCE_BATCH: usize = 64;
const ANNOUNCE_GAP: Duration = Duration::from_millis(5);

/// How long switches may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a path may take; later ones count as lost.
const PATH_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between checks for lost paths.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// File descriptors besides the connections.
const OPEN_FILES: u64 = 64;

/// The directions of a path that must be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// That of the packet.
    One,
    /// Also that of its replies.
    Both,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct PathsConfig {
    /// The controller's address.
    pub controller: SocketAddr,
    /// Switches, links and hosts.
    pub topology: Topology,
    /// OpenFlow version of the switches; 1.1 is not supported.
    pub version: Version,
    /// Most outstanding path requests, over all switches.
    pub window: usize,
    /// The directions that must be installed.
    pub directions: Directions,
    /// Time before and after the announcements, for the controller to discover links and hosts.
    pub settle: Duration,
    /// Number of measured loops.
    pub loops: u32,
    /// Loops before them that are not measured.
    pub warmup: u32,
    /// Duration of a loop.
    pub loop_time: Duration,
    /// CPU core for the generator's thread.
    pub pin: Option<usize>,
    /// How long it polls before it blocks.
    pub spin: Duration,
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum PathsError {
    /// The configuration is invalid.
    Config(String),
    /// A system error.
    Io(io::Error),
    /// This many switches did not connect, or lost their connection.
    NotConnected(usize),
}

impl fmt::Display for PathsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => f.write_str(why),
            Self::Io(e) => e.fmt(f),
            Self::NotConnected(n) => write!(f, "{n} switches are without a controller"),
        }
    }
}

impl std::error::Error for PathsError {}

impl From<io::Error> for PathsError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Runs the measurement.
///
/// # Errors
/// An invalid configuration, a system error, or switches that are not connected.
pub fn run(config: &PathsConfig) -> Result<PathsReport, PathsError> {
    let wiring = validate(config)?;
    limits::raise_open_files(config.topology.switches.len() as u64 + OPEN_FILES);
    if let Some(core) = config.pin {
        cores::pin(core)?;
    }
    let connections = SwitchConnections::new(config, WaitStrategy { spin: config.spin })?;
    let requests = PathRequests::new(&wiring, config.directions);
    let frame = first_packet();
    let mut bench = PathsBench {
        config,
        wiring,
        connections,
        requests,
        frame,
        counters: LoopCounters::default(),
    };
    bench.connect()?;
    bench.announce()?;
    bench.measure()
}

fn validate(config: &PathsConfig) -> Result<Wiring, PathsError> {
    let invalid = |error: String| Err(PathsError::Config(error));
    if config.version == Version::V1_1 || !Versions::SUPPORTED.contains(config.version) {
        return invalid(
            "OpenFlow 1.1 is not supported (expected 1.0 or 1.2 to 1.5 for --openflow)".into(),
        );
    }
    if config.loops == 0 || config.window == 0 || config.loop_time.is_zero() {
        return invalid("--loops, --ms-per-test and --window must be at least 1".into());
    }
    let wiring = Wiring::new(&config.topology);
    if wiring.hosts().len() < 2 {
        return invalid("the topology needs at least two hosts".into());
    }
    if wiring.path_len() > PATH_LEN_MAX {
        return invalid(format!(
            "the longest path has {} switches (at most {PATH_LEN_MAX} are supported)",
            wiring.path_len()
        ));
    }
    Ok(wiring)
}

/// Counters of a loop.
#[derive(Debug)]
struct LoopCounters {
    paths: u64,
    flow_entries: u64,
    packet_outs: u64,
    latency_ns: Histogram<u64>,
}

impl Default for LoopCounters {
    fn default() -> Self {
        Self { paths: 0, flow_entries: 0, packet_outs: 0, latency_ns: report::histogram() }
    }
}

/// The load generator.
struct PathsBench<'p> {
    config: &'p PathsConfig,
    wiring: Wiring,
    connections: SwitchConnections,
    requests: PathRequests,
    /// A first packet; only its MAC addresses change.
    frame: Vec<u8>,
    counters: LoopCounters,
}

impl PathsBench<'_> {
    fn connect(&mut self) -> Result<(), PathsError> {
        let until = clock::now() + CONNECT_TIMEOUT;
        let mut now = clock::now();
        while self.connections.disconnected() > 0 && now < until {
            now = self.run_once(until)?;
        }
        self.check_connected()?;
        self.run_for(self.config.settle)
    }

    fn check_connected(&self) -> Result<(), PathsError> {
        match self.connections.disconnected() {
            0 => Ok(()),
            n => Err(PathsError::NotConnected(n)),
        }
    }

    /// Runs the event loop for a while.
    fn run_for(&mut self, time: Duration) -> Result<(), PathsError> {
        let until = clock::now() + time;
        while self.run_once(until)? < until {}
        self.check_connected()
    }

    /// Every host announces itself by an ARP reply to itself, which need not be forwarded.
    fn announce(&mut self) -> Result<(), PathsError> {
        for host in 0..self.wiring.hosts().len() {
            let own = host_mac(host);
            let ip = (0x0a00_0001 + u32::try_from(host).unwrap_or(0)).to_be_bytes();
            let head = [&own.0[..], &own.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
            let frame = [&head[..], &own.0, &ip, &own.0, &ip, &[0; 18]].concat();
            self.send_frame_of_host(host, &frame);
            if host % ANNOUNCE_BATCH == ANNOUNCE_BATCH - 1 {
                self.run_for(ANNOUNCE_GAP)?;
            }
        }
        self.run_for(self.config.settle)
    }

    /// Runs all loops.
    fn measure(&mut self) -> Result<PathsReport, PathsError> {
        let config = self.config;
        let mut report = PathsReport::new(config, &self.wiring);
        let start = clock::now();
        let (mut now, mut next_check) = (start, start);
        for number in 0..config.warmup + config.loops {
            let (cpu, started_at) = (clock::thread_cpu(), now);
            self.counters = LoopCounters::default();
            let end = start + config.loop_time * (number + 1);
            let mut lost = 0;
            while now < end {
                self.fill_window();
                if now >= next_check {
                    next_check = now + TIMEOUT_CHECK_INTERVAL;
                    lost += self.requests.expire(now, PATH_TIMEOUT);
                }
                now = self.run_once(end.min(next_check))?;
            }
            self.check_connected()?;
            if number >= config.warmup {
                let used = clock::thread_cpu().saturating_sub(cpu);
                report.add(std::mem::take(&mut self.counters), lost, now - started_at, used);
            }
        }
        Ok(report)
    }

    /// Requests paths until the window is full.
    fn fill_window(&mut self) {
        while self.requests.outstanding() < self.config.window {
            let Some((src, dst)) = self.requests.start_next(&self.wiring, clock::now()) else {
                return;
            };
            let mut frame = std::mem::take(&mut self.frame);
            if let Some(macs) = frame.first_chunk_mut::<12>() {
                macs[..6].copy_from_slice(&host_mac(dst).0);
                macs[6..].copy_from_slice(&host_mac(src).0);
            }
            self.send_frame_of_host(src, &frame);
            self.frame = frame;
        }
    }

    /// Sends a frame of a host as a packet-in of its switch.
    fn send_frame_of_host(&mut self, host: usize, frame: &[u8]) {
        if let Some(at) = self.wiring.hosts().get(host) {
            self.connections.send(at.switch, |out| send_packet_in(at.port, frame, out));
        }
    }

    /// One iteration of the event loop: sends, waits, handles messages.
    fn run_once(&mut self, until: Instant) -> Result<Instant, PathsError> {
        let (wiring, requests, counters) = (&self.wiring, &mut self.requests, &mut self.counters);
        Ok(self.connections.run_once(until, wiring, |now, switch, message| {
            let requested_at = match message {
                connections::ControllerMessage::FlowEntry(entry) => {
                    counters.flow_entries += 1;
                    requests.on_flow_entry(wiring, switch, entry)
                }
                connections::ControllerMessage::PacketOut { out_port, dst, src } => {
                    counters.packet_outs += 1;
                    let is_delivery =
                        PathRequests::host_port(wiring, dst) == Some((switch, out_port));
                    if is_delivery { requests.on_packet_out(wiring, dst, src) } else { None }
                }
            };
            if let Some(requested_at) = requested_at {
                counters.paths += 1;
                let took = now.saturating_duration_since(requested_at).as_nanos();
                counters.latency_ns.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
            }
        })?)
    }
}

/// Encodes a packet-in with the whole frame.
fn send_packet_in(in_port: PortNo, frame: &[u8], out: &mut Encoder<'_>) {
    let packet_in = PacketIn {
        buffer_id: None,
        in_port,
        total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame,
    };
    let result = packet_in.encode(out);
    debug_assert!(result.is_ok(), "every version can encode a packet-in");
}

/// The first packet of a TCP connection, 60 bytes; the MAC addresses are filled in later.
fn first_packet() -> Vec<u8> {
    let ip = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let tcp = [0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
    [&[0; 12][..], &[8, 0], &ip, &tcp, &[0; 6]].concat()
}
