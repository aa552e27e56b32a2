//! A network that is not there and asks a controller for ways, as fast as they are loaded.
//!
//! Its switches have no tables. They carry the controller's probes over their links, their hosts announce themselves, and
//! then hosts send first packets to those farthest away. A way counts when its rules lead from host to host in all
//! switches, in both directions if that is asked for, and the packet is out at the far end.

mod asks;
mod lines;
mod report;
mod said;
mod wiring;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::{WaitStrategy, clock, cores, limits};
use sluice_openflow::{Encoder, PacketIn, PacketInReason, PortNo, Version, Versions};

use crate::topology::Topology;
use asks::{Asks, mac};
use lines::Lines;
pub use report::{LoopFigures, Report};
use wiring::Wiring;

/// Switches on a way, at most.
pub const WAY_MAX: usize = 8;

/// Hosts that announce themselves at a time, and the time between: no controller is to lose some.
const ANNOUNCED: usize = 64;
const ANNOUNCE_GAP: Duration = Duration::from_millis(5);

/// How long switches may take to find the controller.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// How long a way may take; what takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks for what is lost.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// Files beside the connections.
const OPEN_FILES: u64 = 64;

/// Which directions of a way must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// That of the packet.
    One,
    /// That of its answers, too.
    Both,
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the controller is.
    pub to: SocketAddr,
    /// Switches, links and hosts.
    pub topology: Topology,
    /// What the switches speak: any but 1.1.
    pub version: Version,
    /// Ways that are asked for at a time, over all switches.
    pub window: usize,
    /// Which directions must be there.
    pub directions: Directions,
    /// From the last handshake to the first announcement: what a controller takes to find links.
    pub settle: Duration,
    /// Loops that count, and before them those that do not.
    pub loops: u32,
    /// Loops that do not count.
    pub warmup: u32,
    /// Length of a loop.
    pub loop_time: Duration,
    /// The core for its thread.
    pub pin: Option<usize>,
    /// How long it asks again and again before it blocks.
    pub spin: Duration,
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum PathsError {
    /// What was asked for cannot be.
    Plan(String),
    /// The system refuses something.
    Io(io::Error),
    /// So many switches did not find the controller, or lost it.
    NotKnown(usize),
}

impl fmt::Display for PathsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(why) => f.write_str(why),
            Self::Io(e) => e.fmt(f),
            Self::NotKnown(n) => write!(f, "{n} switches are without a controller"),
        }
    }
}

impl std::error::Error for PathsError {}

impl From<io::Error> for PathsError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Carries out `plan`.
///
/// # Errors
/// A plan that cannot be; what the system says; switches that have no controller.
pub fn run(plan: &Plan) -> Result<Report, PathsError> {
    let wiring = check(plan)?;
    limits::raise_open_files(plan.topology.switches.len() as u64 + OPEN_FILES);
    if let Some(core) = plan.pin {
        cores::pin(core)?;
    }
    let lines = Lines::new(plan, WaitStrategy { spin: plan.spin })?;
    let asks = Asks::new(&wiring, plan.directions);
    let frame = first_packet();
    let mut asker = Asker { plan, wiring, lines, asks, frame, heard: Heard::default() };
    asker.connect()?;
    asker.announce()?;
    asker.ask()
}

fn check(plan: &Plan) -> Result<Wiring, PathsError> {
    let refuse = |why: String| Err(PathsError::Plan(why));
    if plan.version == Version::V1_1 || !Versions::SPOKEN.contains(plan.version) {
        return refuse("switches speak 1.0 and 1.2 to 1.5 here: give one of them".into());
    }
    if plan.loops == 0 || plan.window == 0 || plan.loop_time.is_zero() {
        return refuse("nothing is asked for: give loops, their length and a window".into());
    }
    let wiring = Wiring::new(&plan.topology);
    if wiring.hosts().len() < 2 {
        return refuse("there are no two hosts: give a network with more".into());
    }
    if wiring.way_len() > WAY_MAX {
        return refuse(format!("a way has more than {WAY_MAX} switches: give a smaller network"));
    }
    Ok(wiring)
}

/// What was heard since it was asked last.
#[derive(Debug)]
struct Heard {
    ways: u64,
    rules: u64,
    frames: u64,
    latency_ns: Histogram<u64>,
}

impl Default for Heard {
    fn default() -> Self {
        Self { ways: 0, rules: 0, frames: 0, latency_ns: report::histogram() }
    }
}

/// The thread that plays it all.
struct Asker<'p> {
    plan: &'p Plan,
    wiring: Wiring,
    lines: Lines,
    asks: Asks,
    /// A first packet, in which only addresses differ.
    frame: Vec<u8>,
    heard: Heard,
}

impl Asker<'_> {
    fn connect(&mut self) -> Result<(), PathsError> {
        let until = clock::now() + CONNECT_MAX;
        let mut now = clock::now();
        while self.lines.unknown() > 0 && now < until {
            now = self.turn(until)?;
        }
        self.all_there()?;
        self.rest(self.plan.settle)
    }

    fn all_there(&self) -> Result<(), PathsError> {
        match self.lines.unknown() {
            0 => Ok(()),
            n => Err(PathsError::NotKnown(n)),
        }
    }

    /// Plays for a while.
    fn rest(&mut self, time: Duration) -> Result<(), PathsError> {
        let until = clock::now() + time;
        while self.turn(until)? < until {}
        self.all_there()
    }

    /// Every host says where it is, by an ARP reply to itself, which nobody need send on.
    fn announce(&mut self) -> Result<(), PathsError> {
        for host in 0..self.wiring.hosts().len() {
            let own = mac(host);
            let ip = (0x0a00_0001 + u32::try_from(host).unwrap_or(0)).to_be_bytes();
            let head = [&own.0[..], &own.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
            let frame = [&head[..], &own.0, &ip, &own.0, &ip, &[0; 18]].concat();
            self.comes_in(host, &frame);
            if host % ANNOUNCED == ANNOUNCED - 1 {
                self.rest(ANNOUNCE_GAP)?;
            }
        }
        self.rest(self.plan.settle)
    }

    /// The loops.
    fn ask(&mut self) -> Result<Report, PathsError> {
        let plan = self.plan;
        let mut report = Report::new(plan, &self.wiring);
        let start = clock::now();
        let (mut now, mut look) = (start, start);
        for number in 0..plan.warmup + plan.loops {
            let (cpu, begun) = (clock::thread_cpu(), now);
            self.heard = Heard::default();
            let end = start + plan.loop_time * (number + 1);
            let mut lost = 0;
            while now < end {
                self.fill();
                if now >= look {
                    look = now + LOOKED_EVERY;
                    lost += self.asks.give_up(now, PATIENCE);
                }
                now = self.turn(end.min(look))?;
            }
            self.all_there()?;
            if number >= plan.warmup {
                let used = clock::thread_cpu().saturating_sub(cpu);
                report.add(std::mem::take(&mut self.heard), lost, now - begun, used);
            }
        }
        Ok(report)
    }

    /// Asks for as many ways as may be asked for.
    fn fill(&mut self) {
        while self.asks.open() < self.plan.window {
            let Some((src, dst)) = self.asks.begin(&self.wiring, clock::now()) else { return };
            let mut frame = std::mem::take(&mut self.frame);
            if let Some(macs) = frame.first_chunk_mut::<12>() {
                macs[..6].copy_from_slice(&mac(dst).0);
                macs[6..].copy_from_slice(&mac(src).0);
            }
            self.comes_in(src, &frame);
            self.frame = frame;
        }
    }

    /// A host sends a frame, for which its switch has no rule.
    fn comes_in(&mut self, host: usize, frame: &[u8]) {
        if let Some(at) = self.wiring.hosts().get(host) {
            self.lines.say(at.switch, |out| comes_up(at.port, frame, out));
        }
    }

    /// Says what there is to say, waits, hears.
    fn turn(&mut self, until: Instant) -> Result<Instant, PathsError> {
        let (wiring, asks, heard) = (&self.wiring, &mut self.asks, &mut self.heard);
        Ok(self.lines.turn(until, wiring, |now, switch, said| {
            let done = match said {
                lines::Said::Rule(rule) => {
                    heard.rules += 1;
                    asks.rule(wiring, switch, rule)
                }
                lines::Said::RawMessage { out_port, dst, src } => {
                    heard.frames += 1;
                    let is_there = Asks::whereabouts(wiring, dst) == Some((switch, out_port));
                    if is_there { asks.frame(wiring, dst, src) } else { None }
                }
            };
            if let Some(since) = done {
                heard.ways += 1;
                let took = now.saturating_duration_since(since).as_nanos();
                heard.latency_ns.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
            }
        })?)
    }
}

/// A frame that no rule matched, all of it.
fn comes_up(in_port: PortNo, frame: &[u8], out: &mut Encoder<'_>) {
    let p = PacketIn {
        buffer_id: None,
        in_port,
        total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame,
    };
    let written = p.encode(out);
    debug_assert!(written.is_ok(), "every version can say it");
}

/// The first packet of a TCP connection, of 60 bytes; addresses are filled in.
fn first_packet() -> Vec<u8> {
    let ip = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let tcp = [0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
    [&[0; 12][..], &[8, 0], &ip, &tcp, &[0; 6]].concat()
}
