//! `sluice bench`: plays switches against a controller.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use sluice_bench::output::{OutputFormat, OutputOptions, ProgressMode, SwitchRange, run_and_print};
use sluice_bench::{Announce, Buffering, Error, Load, Plan, ReplyCounting, flood, null};
use sluice_io::sock;
use sluice_openflow::Version;

use crate::paths::Paths;

/// Plays switches against a controller; reports throughput, latency, fairness and what went wrong.
///
/// The short options are those of `cbench`. One request is answered once: a second answer, one that nobody asked for
/// and a request without answer have lines of their own.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    play: Play,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Answers without looking: the ceiling that any controller can be compared with.
    Null(Null),
    /// Opens connections that are no switches.
    Flood(Flood),
    Paths(Paths),
}

#[derive(Debug, Args)]
struct Play {
    /// Where the controller is: a name or an address, perhaps with a port; several take switches in turn.
    #[arg(short, long, default_value = "localhost", value_delimiter = ',')]
    controller: Vec<String>,
    /// Port of the controller, where -c has none.
    #[arg(short, long, default_value_t = 6633)]
    port: u16,
    /// Switches to play, 1 to 10000.
    #[arg(short, long, default_value_t = 16)]
    switches: u32,
    /// Length of a loop, milliseconds.
    #[arg(short, long, default_value_t = 1000)]
    ms_per_test: u64,
    /// Number of loops, warm-up and cool-down included.
    #[arg(short, long, default_value_t = 16)]
    loops: u32,
    /// Hosts behind each switch; a lone one has nobody to talk to and gets a second.
    #[arg(short = 'M', long, default_value_t = 100_000)]
    mac_addresses: u32,
    /// Measures throughput: each switch has as many requests open as fit, instead of one at a time.
    #[arg(short, long, conflicts_with_all = ["window", "window_total", "rate"])]
    throughput: bool,
    /// Loops at the start that do not count.
    #[arg(short, long, default_value_t = 1)]
    warmup: u32,
    /// Loops at the end that do not count.
    #[arg(short = 'C', long, default_value_t = 0)]
    cooldown: u32,
    /// Milliseconds from the last handshake to the first request.
    #[arg(short = 'D', long, default_value_t = 0)]
    delay: u64,
    /// Milliseconds between groups of switches that connect.
    #[arg(short = 'i', long, default_value_t = 0)]
    connect_delay: u64,
    /// Switches in such a group.
    #[arg(short = 'I', long, default_value_t = 1)]
    connect_group_size: u32,
    /// Every host announces itself first, so that all destinations are known: on or off.
    #[arg(short = 'L', long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "on", default_missing_value = "on")]
    learn_dst_macs: String,
    /// Tests 1 switch, then 2, and so on up to -s.
    #[arg(short, long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "off", default_missing_value = "on")]
    ranged_test: String,
    /// Datapath id of the first switch.
    #[arg(short = 'o', long, default_value_t = 1)]
    dpid_offset: u64,
    /// Says more on the standard error output.
    #[arg(short, long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "off", default_missing_value = "on")]
    debug: String,

    /// Requests that each switch has open at a time, 1 if nothing else is asked for.
    #[arg(long, conflicts_with_all = ["window_total", "rate"])]
    window: Option<u32>,
    /// Requests that all switches together have open at a time.
    #[arg(long, conflicts_with = "rate")]
    window_total: Option<u32>,
    /// Requests a second over all switches, answered or not. Latency counts from the moment a request was due.
    #[arg(long)]
    rate: Option<f64>,
    /// Version of OpenFlow that the switches speak: 1.0 to 1.5.
    #[arg(long, default_value = "1.0", value_parser = version)]
    openflow: Version,
    /// Switches keep no frames, like Open vSwitch: every request brings its whole frame.
    #[arg(long)]
    no_buffer: bool,
    /// Bytes of a frame, without checksum.
    #[arg(long, default_value_t = 64)]
    frame_len: u16,
    /// Share of requests from an address that nobody has seen before, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    new_sources: f64,
    /// Ports of each switch.
    #[arg(long, default_value_t = 4)]
    ports: u16,
    /// How replies are counted.
    #[arg(long, value_enum, default_value_t = CountBy::Answers)]
    count: CountBy,
    /// Milliseconds after which a request is given up, unless others before it were answered meanwhile.
    #[arg(long, default_value_t = 5000)]
    timeout: u64,
    /// Seconds in which all switches must be connected and greeted.
    #[arg(long, default_value_t = 30)]
    handshake_timeout: u64,
    /// Threads that play the switches.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seed of the order in which hosts send: the same seed, the same order.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    shared: Shared,

    /// Writes everything as JSON to a file; `-` is the standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Writes the latencies as a log of `HdrHistogram`, an interval per loop.
    #[arg(long, value_name = "FILE")]
    hdr: Option<String>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Args)]
struct Shared {
    /// Cores to which the threads are bound, in turn, such as 2,3; without it they are bound to none.
    #[arg(long, value_delimiter = ',', value_name = "CORES")]
    pin: Vec<usize>,
    /// Microseconds for which a thread that has nothing to do asks again before it sleeps; 0 if nothing is said, but a
    /// second with --rate, since a thread that sleeps wakes up too late to keep a schedule.
    #[arg(long)]
    spin: Option<u64>,
    /// Congestion control of the sockets; `system` leaves it alone.
    #[arg(long, default_value = "cubic")]
    congestion: String,
}

#[derive(Debug, Args)]
struct Null {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:6633")]
    listen: SocketAddr,
    /// Threads that answer.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Copies nothing into the answers; measure it with `--count messages`.
    #[arg(long)]
    no_copy: bool,
    /// Rules in an answer: 2 for controllers that load both directions.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(null::RULES_MAX)))]
    rules: u8,
    #[command(flatten)]
    shared: Shared,
}

#[derive(Debug, Args)]
struct Flood {
    /// Where the controller is: a name or an address, perhaps with a port.
    #[arg(short, long, default_value = "localhost")]
    controller: String,
    /// Port of the controller.
    #[arg(short, long, default_value_t = 6633)]
    port: u16,
    /// Connections opened per second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// For how long, seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long each is held, milliseconds. Without it they are held to the end.
    #[arg(long)]
    hold: Option<u64>,
    /// Connections held at most; the oldest one goes first.
    #[arg(long, default_value_t = 10_000)]
    held_max: usize,
    /// What each says.
    #[arg(long, value_enum, default_value_t = Say::Nothing)]
    send: Say,
    /// Seed of the random bytes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Say {
    /// Nothing at all.
    Nothing,
    /// Random bytes.
    Rubbish,
    /// HELLO, and then nothing.
    HelloOnly,
    /// HELLO, a byte every half second.
    Slow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CountBy {
    /// What answers an open request.
    Answers,
    /// Every message that could be an answer, without a look inside; there is no latency then.
    Messages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table at the end.
    Table,
    /// The lines that scripts for cbench parse.
    Cbench,
}

impl Bench {
    /// Does it; a failure is one sentence on the standard error output.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.other {
            None => self.play.run(),
            Some(Other::Null(null)) => null.run(),
            Some(Other::Flood(flood)) => flood.run(),
            Some(Other::Paths(paths)) => paths.run().map_err(Error::Plan),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                // There is nowhere else to say it.
                let _ = writeln!(stderr(), "sluice bench: {e}");
                ExitCode::FAILURE
            }
        }
    }
}

impl Play {
    fn run(&self) -> Result<(), Error> {
        let progress = match (is_on(&self.debug), stderr().is_terminal()) {
            (true, _) => ProgressMode::PerLoop,
            (_, true) => ProgressMode::Live,
            _ => ProgressMode::Silent,
        };
        let show = OutputOptions {
            range: if is_on(&self.ranged_test) {
                SwitchRange::Incremental
            } else {
                SwitchRange::All
            },
            form: if self.output == Output::Cbench {
                OutputFormat::Cbench
            } else {
                OutputFormat::Table
            },
            json: self.json.clone(),
            hdr: self.hdr.clone(),
            progress,
        };
        run_and_print(&self.plan()?, &show, &mut stdout(), &mut stderr())
    }

    /// Arguments in, plan out.
    fn plan(&self) -> Result<Plan, Error> {
        let load = match (self.throughput, self.window, self.window_total, self.rate) {
            (true, ..) => Load::Unlimited,
            (_, Some(n), ..) => Load::Window(n),
            (_, _, Some(n), _) => Load::WindowTotal(n),
            (.., Some(rate)) => Load::Rate(rate),
            _ => Load::Window(1),
        };
        let announce =
            if is_on(&self.learn_dst_macs) { Announce::Hosts } else { Announce::Nothing };
        let plan = Plan {
            targets: targets(&self.controller, self.port)?,
            switches: self.switches,
            threads: self.threads,
            version: self.openflow,
            ports: self.ports,
            hosts: self.mac_addresses.max(2),
            load,
            kept: if self.no_buffer { Buffering::Unbuffered } else { Buffering::Buffered },
            frame_len: self.frame_len,
            new_sources: self.new_sources,
            loops: self.loops,
            warmup: self.warmup,
            cooldown: self.cooldown,
            loop_time: Duration::from_millis(self.ms_per_test),
            delay: Duration::from_millis(self.delay),
            connect_gap: Duration::from_millis(self.connect_delay),
            connect_group: self.connect_group_size,
            announce,
            dpid_offset: self.dpid_offset,
            seed: self.seed,
            pin: self.shared.pin.clone(),
            spin: self.shared.spin(if self.rate.is_some() { 1_000_000 } else { 0 }),
            socket: self.shared.socket(),
            count: match self.count {
                CountBy::Answers => ReplyCounting::Answers,
                CountBy::Messages => ReplyCounting::Messages,
            },
            handshake_timeout: Duration::from_secs(self.handshake_timeout),
            timeout: Duration::from_millis(self.timeout),
        };
        plan.check()?;
        Ok(plan)
    }
}

impl Shared {
    fn spin(&self, default_us: u64) -> Duration {
        Duration::from_micros(self.spin.unwrap_or(default_us))
    }

    fn socket(&self) -> sock::Options {
        let congestion = Some(self.congestion.clone()).filter(|name| name != "system");
        sock::Options { congestion, ..sock::Options::default() }
    }
}

impl Null {
    fn run(self) -> Result<(), Error> {
        let null = null::NullResponder::start(&null::Config {
            listen: self.listen,
            threads: self.threads,
            spin: self.shared.spin(0),
            socket: self.shared.socket(),
            pin: self.shared.pin,
            copy: if self.no_copy {
                null::ReplyContent::Nothing
            } else {
                null::ReplyContent::BufferId
            },
            rules: self.rules,
        })?;
        writeln!(stderr(), "answering without looking at {}", null.addr())?;
        null.join()
    }
}

impl Flood {
    fn run(&self) -> Result<(), Error> {
        let target = targets(std::slice::from_ref(&self.controller), self.port)?;
        let plan = flood::Plan {
            target: target.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], self.port).into()),
            rate: self.rate,
            time: Duration::from_secs(self.seconds),
            hold: self.hold.map(Duration::from_millis),
            held_max: self.held_max,
            say: match self.send {
                Say::Nothing => flood::Payload::Nothing,
                Say::Rubbish => flood::Payload::Rubbish,
                Say::HelloOnly => flood::Payload::Hello,
                Say::Slow => flood::Payload::Slowly,
            },
            seed: self.seed,
            socket: sock::Options::default(),
        };
        write!(stdout(), "{}", flood::run(&plan)?)?;
        Ok(())
    }
}

/// As `cbench` has it: `on`, `true` and `1` are, everything else is not.
fn is_on(word: &str) -> bool {
    ["on", "true", "1"].iter().any(|on| word.eq_ignore_ascii_case(on))
}

fn version(text: &str) -> Result<Version, String> {
    Version::from_text(text).ok_or_else(|| "give 1.0 to 1.5".to_owned())
}

/// The addresses of `names`, IPv4 first, as `cbench` takes them.
fn targets(names: &[String], port: u16) -> Result<Vec<SocketAddr>, Error> {
    let one = |name: &String| {
        let found = name.to_socket_addrs().or_else(|_| (name.as_str(), port).to_socket_addrs());
        let found = found.ok().and_then(|addrs| addrs.min_by_key(SocketAddr::is_ipv6));
        found.ok_or_else(|| {
            Error::Plan(format!(
                "nobody knows the host {name}: give another name or an address with -c"
            ))
        })
    };
    names.iter().map(one).collect()
}
