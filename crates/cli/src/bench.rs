//! `sluice bench`: arguments to a plan of `sluice_bench`.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use sluice_bench::output::{OutputFormat, OutputOptions, ProgressMode, SwitchRange, run_and_print};
use sluice_bench::{
    Announce, Arrivals, Buffering, Error, Load, Plan, Repetition, ReplyCounting, flood, null,
};
use sluice_io::{TlsClient, sock};
use sluice_openflow::Version;

use crate::bench_publish::PublishArgs;
use crate::compare::CompareArgs;
use crate::paths::PathsArgs;
use crate::{EXIT_FAILURE, EXIT_USAGE, print_error};

/// The port of OpenFlow registered with IANA, on which `sluice run` listens as well.
pub(crate) const DEFAULT_PORT: u16 = 6653;

const BENCH_EXAMPLES: &str = "\
Examples:
  sluice bench -M 1000 -D 1000               latency of a controller on this machine
  sluice bench -M 1000 -D 1000 -t            its throughput
  sluice bench -M 1000 -D 1000 --rate 50000  its latency at 50000 requests per second
  sluice bench -M 1000 -D 1000 -c 10.0.0.5 -s 64 --openflow 1.3 --no-buffer --json report.json

-M 1000 -D 1000 is for controllers that discover links and hosts, such as `sluice run` by default: 1000 hosts
per switch fit into their host table, and one second is time to discover the links. The options with a single
letter are those of cbench.";

const NULL_EXAMPLES: &str = "\
Example: measure the null responder and a controller on the same machine, then divide
  sluice bench null --listen 127.0.0.1:7000 --pin 1 &
  sluice bench -p 7000 -t -M 1000 --pin 0         the null responder
  sluice bench -p 6653 -t -M 1000 --pin 0         the controller";

const FLOOD_EXAMPLES: &str = "\
Example: 3000 connections per second that send random bytes, for 10 seconds
  sluice bench flood --rate 3000 --seconds 10 --send random";

/// Measure throughput and latency of an OpenFlow controller.
///
/// Emulates switches whose hosts send packets. Every packet becomes a request
/// (packet-in) to the controller; its replies (flow-mod, packet-out) are matched to
/// the requests. Reports throughput, latency percentiles, fairness between the
/// switches, and missing, duplicate and unsolicited replies.
///
/// Without options, each of 16 switches has one outstanding request at a time, for
/// 16 loops of one second.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true, after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,

    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    Null(NullArgs),
    Flood(FloodArgs),
    Paths(Box<PathsArgs>),
    Compare(CompareArgs),
}

#[derive(Debug, Args)]
struct MeasureArgs {
    /// Host name or address of the controller, optionally with a port. Several controllers get the switches in turn.
    #[arg(short, long, value_name = "HOST", default_value = "localhost", value_delimiter = ',')]
    controller: Vec<String>,
    /// TCP port of the controller, if -c names none.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Number of switches, 1 to 10000.
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    switches: u32,
    /// Duration of a loop in milliseconds.
    #[arg(short, long, value_name = "MS", default_value_t = 1000)]
    ms_per_test: u64,
    /// Number of loops, including warm-up and cool-down.
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    loops: u32,
    /// Hosts per switch, at least 2.
    #[arg(short = 'M', long, value_name = "N", default_value_t = 100_000)]
    mac_addresses: u32,
    /// Loops at the start that are not measured.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Loops at the end that are not measured.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0)]
    cooldown: u32,
    /// Milliseconds between the last handshake and the first request.
    #[arg(short = 'D', long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// Milliseconds between groups of switches that connect.
    #[arg(short = 'i', long, value_name = "MS", default_value_t = 0)]
    connect_delay: u64,
    /// Switches per such group.
    #[arg(short = 'I', long, value_name = "N", default_value_t = 1)]
    connect_group_size: u32,
    /// Let every host announce itself first, so that the controller knows all destinations: on or off.
    #[arg(short = 'L', long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "on", default_missing_value = "on")]
    learn_dst_macs: String,
    /// Measure with 1 switch, then with 2, and so on up to -s.
    #[arg(short, long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "off", default_missing_value = "on")]
    ranged_test: String,
    /// Datapath id of the first switch.
    #[arg(short = 'o', long, value_name = "DPID", default_value_t = 1)]
    dpid_offset: u64,

    /// Measure throughput: as many outstanding requests as the sockets accept, instead of one per switch.
    #[arg(short, long, conflicts_with_all = ["window", "window_total", "rate"], help_heading = "Load")]
    throughput: bool,
    /// Outstanding requests per switch [default: 1].
    #[arg(long, value_name = "N", conflicts_with_all = ["window_total", "rate"], help_heading = "Load")]
    window: Option<u32>,
    /// Outstanding requests over all switches together.
    #[arg(long, value_name = "N", conflicts_with = "rate", help_heading = "Load")]
    window_total: Option<u32>,
    /// Requests per second over all switches, answered or not. Latency counts from when a request was due.
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load")]
    rate: Option<f64>,
    /// How the requests of --rate are distributed over time: fixed, poisson, or burst:N (N at a time).
    #[arg(long, value_name = "HOW", default_value_t = Arrivals::Fixed, requires = "rate", help_heading = "Load")]
    arrivals: Arrivals,

    /// OpenFlow version of the switches: 1.0 to 1.5.
    #[arg(long, value_name = "VERSION", default_value = "1.0", value_parser = version, help_heading = "Switches")]
    openflow: Version,
    /// Do not buffer packets in the switches, like Open vSwitch: requests contain the complete packet.
    #[arg(long, help_heading = "Switches")]
    no_buffer: bool,
    /// Length of the Ethernet frame in a request in bytes, without FCS: 60 to 9216.
    #[arg(long, value_name = "BYTES", default_value_t = 64, help_heading = "Switches")]
    frame_len: u16,
    /// Share of requests with a source address that was never used before: 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Switches")]
    new_sources: f64,
    /// Ports per switch: 2 to 1000.
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Switches")]
    ports: u16,
    /// Seed of the order in which hosts send; the same seed gives the same order.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Switches")]
    seed: u64,

    /// Which messages count as replies.
    #[arg(long, value_enum, default_value_t = CountBy::Answers, help_heading = "Measurement")]
    count: CountBy,
    /// Milliseconds after which a request times out, unless answers are slow but arrive in order: 1 to 30000.
    #[arg(long, value_name = "MS", default_value_t = 5000, help_heading = "Measurement")]
    timeout: u64,
    /// Seconds within which all switches must complete the handshake.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Measurement")]
    handshake_timeout: u64,
    /// Number of generator threads, at most one per switch.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Measurement")]
    threads: usize,
    /// Number of runs, each with new connections: 1 to 1000. The report has median and range over the runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000),
          help_heading = "Measurement")]
    repeat: u32,
    /// Command of the shell that restarts the controller before each run; it must return. It and the switches, which try to
    /// connect again and again, have --handshake-timeout seconds each.
    #[arg(long, value_name = "COMMAND", help_heading = "Measurement")]
    restart: Option<String>,
    #[command(flatten)]
    system: SystemArgs,
    #[command(flatten)]
    tls: TlsArgs,

    /// Format of the printed result.
    #[arg(long, value_enum, default_value_t = Output::Text, help_heading = "Output")]
    output: Output,
    #[command(flatten)]
    files: OutputArgs,
}

/// Where reports and progress are written.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the report as JSON to a file; `-` for standard output instead of the text.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<String>,
    /// Write the report with diagrams as HTML to a file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<String>,
    /// Write the loops as CSV to a file, one line per loop.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<String>,
    /// Write the latencies as an HDR histogram log to a file, one interval per loop.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    hdr: Option<String>,
    /// Print a line per loop to standard error, instead of the live display.
    #[arg(short, long, value_name = "ON", num_args = 0..=1, require_equals = true,
          default_value = "off", default_missing_value = "on", help_heading = "Output")]
    debug: String,
    #[command(flatten)]
    publish: PublishArgs,
}

/// Options of threads and sockets.
#[derive(Debug, Args)]
pub(crate) struct SystemArgs {
    /// CPU cores that the threads are pinned to, in turn, such as 2,3 [default: no pinning].
    #[arg(long, value_delimiter = ',', value_name = "CORES", help_heading = "Measurement")]
    pub(crate) pin: Vec<usize>,
    /// Microseconds for which an idle thread polls before it sleeps; by default 0, and 1000000 for a bench with --rate.
    #[arg(long, value_name = "US", help_heading = "Measurement")]
    spin: Option<u64>,
    /// TCP congestion control of the sockets; `system` for the system's default.
    #[arg(long, value_name = "NAME", default_value = "cubic", help_heading = "Measurement")]
    congestion: String,
}

/// Certificates of the switches.
#[derive(Debug, Args)]
struct TlsArgs {
    /// Connect over TLS.
    #[arg(long, requires = "tls_ca", help_heading = "TLS")]
    tls: bool,
    /// PEM file with the authority that has issued the controller's certificate. The name in that is not checked.
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,
    /// PEM file with the certificate of the switches, if the controller requires one.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "tls_key"], help_heading = "TLS")]
    tls_cert: Option<PathBuf>,
    /// PEM file with its private key.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "tls_cert"], help_heading = "TLS")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    fn client(&self) -> Result<Option<TlsClient>, Error> {
        let identity = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let client = self.tls_ca.as_deref().map(|ca| TlsClient::load(ca, identity));
        client.transpose().map_err(|error| Error::Plan(error.to_string()))
    }
}

/// Run a null responder: the minimum that a controller must do, for comparison.
///
/// Completes handshakes and replies to each packet-in with a prepared flow-mod,
/// without reading the packet; with `--no-buffer` it returns the packet, too. Measure it on the same machine as a controller: the
/// ratio of the two figures depends less on the machine than either figure.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = NULL_EXAMPLES)]
struct NullArgs {
    /// Address to listen on: host and port, or a port alone.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6653", value_parser = listen_address)]
    listen: SocketAddr,
    /// Number of threads, 1 to 1024; connections are distributed over them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Do not copy the buffer id into the replies; measure with --count messages then.
    #[arg(long)]
    no_copy: bool,
    /// Flow-mods per reply: 2 for controllers that install both directions of a path.
    #[arg(long, value_name = "N", alias = "rules", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=i64::from(null::FLOW_MODS_MAX)))]
    flow_mods: u8,
    /// Answer packet-ins that are not buffered, as of Open vSwitch: copy both addresses
    /// into the flow-mods, and return the packet in a packet-out.
    #[arg(long, conflicts_with = "no_copy")]
    no_buffer: bool,
    /// What the flow-mods match, besides the VLAN; `pair` is shorter from OpenFlow 1.2 on.
    #[arg(long = "match", value_name = "MATCH", value_enum, default_value_t = NullMatch::PortPair)]
    matching: NullMatch,
    #[command(flatten)]
    system: SystemArgs,
}

/// What flow-mods of the null responder match.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum NullMatch {
    /// Ingress port and both addresses, as the applications of `sluice run` by default.
    PortPair,
    /// Both addresses, as `learning` with `learning.match = "pair"`.
    Pair,
}

/// Open many connections that never become switches, or not for long.
///
/// Shows how a controller handles a flood of useless connections: how many it
/// accepts, and how soon it closes them. Run `sluice bench` at the same time to see
/// what that costs the switches.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = FLOOD_EXAMPLES)]
struct FloodArgs {
    /// Host name or address of the controller, optionally with a port.
    #[arg(short, long, value_name = "HOST", default_value = "localhost")]
    controller: String,
    /// TCP port of the controller, if -c names none.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Connections opened per second.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1000.0)]
    rate: f64,
    /// Duration of the flood in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Milliseconds after which each connection is closed [default: at the end].
    #[arg(long, value_name = "MS")]
    hold: Option<u64>,
    /// Maximum number of open connections; beyond it, the oldest one is closed.
    #[arg(long, value_name = "N", alias = "held-max", default_value_t = 10_000)]
    max_open: usize,
    /// What is sent on each connection.
    #[arg(long, value_enum, default_value_t = FloodPayload::Nothing)]
    send: FloodPayload,
    /// Seed of the random bytes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FloodPayload {
    /// Nothing.
    Nothing,
    /// 512 random bytes.
    #[value(alias = "rubbish")]
    Random,
    /// A HELLO, then nothing.
    HelloOnly,
    /// A HELLO, one byte every half second.
    #[value(alias = "slow")]
    SlowHello,
    /// The `ClientHello` of a TLS handshake, then nothing.
    TlsHello,
    /// The whole handshake of a switch, which then leaves at once.
    Handshake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CountBy {
    /// Replies to an outstanding request.
    Answers,
    /// Every flow-mod and packet-out, without parsing it; there is no latency then.
    Messages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A report at the end.
    #[value(alias = "table")]
    Text,
    /// The lines of cbench, for scripts that parse them.
    Cbench,
}

impl BenchArgs {
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.command {
            None => self.measure.run(),
            Some(BenchCommand::Null(null)) => null.run(),
            Some(BenchCommand::Flood(flood)) => flood.run(),
            Some(BenchCommand::Paths(paths)) => paths.run(),
            Some(BenchCommand::Compare(compare)) => compare.run(),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            // The reader has closed the pipe, as `head` does.
            Err(Error::Output(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(e) => {
                print_error(&e.to_string());
                ExitCode::from(if matches!(e, Error::Plan(_)) { EXIT_USAGE } else { EXIT_FAILURE })
            }
        }
    }
}

impl MeasureArgs {
    fn run(&self) -> Result<(), Error> {
        let options = OutputOptions {
            range: if is_on(&self.ranged_test) {
                SwitchRange::Incremental
            } else {
                SwitchRange::All
            },
            format: match self.output {
                Output::Text => OutputFormat::Text,
                Output::Cbench => OutputFormat::Cbench,
            },
            repetition: Repetition { runs: self.repeat, restart: self.restart.clone() },
            ..self.files.options()
        };
        self.files.run_and_print_with(self.plan()?, &options)
    }

    fn plan(&self) -> Result<Plan, Error> {
        let load = match (self.throughput, self.window, self.window_total, self.rate) {
            (true, ..) => Load::Unlimited,
            (_, Some(n), ..) => Load::Window(n),
            (_, _, Some(n), _) => Load::WindowTotal(n),
            (.., Some(rate)) => Load::Rate(rate),
            _ => Load::Window(1),
        };
        let targets = self.controller.iter().map(|name| resolve(name, self.port));
        let plan = Plan {
            targets: targets.collect::<Result<_, _>>()?,
            switches: self.switches,
            threads: self.threads,
            version: self.openflow,
            ports: self.ports,
            // cbench allows a single host, which has no host to send to.
            hosts: self.mac_addresses.max(2),
            load,
            arrivals: self.arrivals,
            buffering: if self.no_buffer { Buffering::Unbuffered } else { Buffering::Buffered },
            frame_len: self.frame_len,
            new_sources: self.new_sources,
            loops: self.loops,
            warmup: self.warmup,
            cooldown: self.cooldown,
            loop_time: Duration::from_millis(self.ms_per_test),
            delay: Duration::from_millis(self.delay),
            connect_gap: Duration::from_millis(self.connect_delay),
            connect_group: self.connect_group_size,
            announce: if is_on(&self.learn_dst_macs) {
                Announce::AllHosts
            } else {
                Announce::NoHosts
            },
            dpid_offset: self.dpid_offset,
            seed: self.seed,
            pin: self.system.pin.clone(),
            spin: self.system.spin(if self.rate.is_some() { 1_000_000 } else { 0 }),
            socket: self.system.socket(),
            tls: self.tls.client()?,
            counting: match self.count {
                CountBy::Answers => ReplyCounting::Answers,
                CountBy::Messages => ReplyCounting::Messages,
            },
            handshake_timeout: Duration::from_secs(self.handshake_timeout),
            timeout: Duration::from_millis(self.timeout),
            ..Plan::default()
        };
        plan.check()?;
        Ok(plan)
    }
}

impl OutputArgs {
    /// Carries out a plan and prints its report as text.
    pub(crate) fn run_and_print(&self, plan: Plan) -> Result<(), Error> {
        self.run_and_print_with(plan, &self.options())
    }

    fn run_and_print_with(&self, plan: Plan, options: &OutputOptions) -> Result<(), Error> {
        let plan = Plan { has_interim_latencies: self.publish.is_wanted(), ..plan };
        let Some(mut publisher) = self.publish.start(&plan)? else {
            return run_and_print(&plan, options, &mut stdout(), &mut stderr(), &mut ());
        };
        let result = run_and_print(&plan, options, &mut stdout(), &mut stderr(), &mut publisher);
        if let Some(why) = publisher.finish() {
            writeln!(stderr(), "warning: {why}")?;
        }
        result
    }

    fn options(&self) -> OutputOptions {
        let progress = match (is_on(&self.debug), stderr().is_terminal()) {
            (true, _) => ProgressMode::PerLoop,
            (_, true) => ProgressMode::Live,
            _ => ProgressMode::Silent,
        };
        OutputOptions {
            json: self.json.clone(),
            html: self.html.clone(),
            csv: self.csv.clone(),
            hdr: self.hdr.clone(),
            progress,
            ..OutputOptions::default()
        }
    }
}

impl SystemArgs {
    pub(crate) fn spin(&self, default_us: u64) -> Duration {
        Duration::from_micros(self.spin.unwrap_or(default_us))
    }

    pub(crate) fn socket(&self) -> sock::Options {
        let congestion = Some(self.congestion.clone()).filter(|name| name != "system");
        sock::Options { congestion, ..sock::Options::default() }
    }
}

impl NullArgs {
    fn run(self) -> Result<(), Error> {
        let null = null::NullResponder::start(&null::Config {
            listen: self.listen,
            threads: self.threads.into(),
            spin: self.system.spin(0),
            socket: self.system.socket(),
            pin: self.system.pin,
            content: match (self.no_copy, self.no_buffer) {
                (true, _) => null::ReplyContent::Constant,
                (_, true) => null::ReplyContent::Packet,
                _ => null::ReplyContent::BufferId,
            },
            flow_mods: self.flow_mods,
            matching: match self.matching {
                NullMatch::PortPair => null::FlowMatch::PortPair,
                NullMatch::Pair => null::FlowMatch::Pair,
            },
        })?;
        writeln!(stderr(), "null responder listening on {}, Ctrl-C to stop", null.addr())?;
        null.join()
    }
}

impl FloodArgs {
    fn run(&self) -> Result<(), Error> {
        let plan = flood::Plan {
            target: resolve(&self.controller, self.port)?,
            rate: self.rate,
            time: Duration::from_secs(self.seconds),
            is_over: std::sync::Arc::default(),
            hold: self.hold.map(Duration::from_millis),
            open_max: self.max_open,
            payload: match self.send {
                FloodPayload::Nothing => flood::Payload::Nothing,
                FloodPayload::Random => flood::Payload::Random,
                FloodPayload::HelloOnly => flood::Payload::Hello,
                FloodPayload::SlowHello => flood::Payload::SlowHello,
                FloodPayload::TlsHello => flood::Payload::TlsHello,
                FloodPayload::Handshake => flood::Payload::Handshake,
            },
            seed: self.seed,
            socket: sock::Options::default(),
        };
        let report = flood::run(&plan)?;
        let mut out = stdout().lock();
        write!(out, "{report}").and_then(|()| out.flush()).map_err(Error::Output)
    }
}

/// Parses a boolean as `cbench` does: `on`, `true` and `1` are true, everything else is false.
fn is_on(text: &str) -> bool {
    ["on", "true", "1"].iter().any(|on| text.eq_ignore_ascii_case(on))
}

/// Parses an OpenFlow version.
pub(crate) fn version(text: &str) -> Result<Version, String> {
    Version::from_text(text).ok_or_else(|| "expected 1.0, 1.1, 1.2, 1.3, 1.4 or 1.5".to_owned())
}

/// The address of the host `name`, which may have a port; IPv4 is preferred, as in `cbench`.
pub(crate) fn resolve(name: &str, port: u16) -> Result<SocketAddr, Error> {
    let resolved = name.to_socket_addrs().or_else(|_| (name, port).to_socket_addrs());
    let error = |why: &dyn std::fmt::Display| {
        Error::Plan(format!(
            "cannot resolve the controller `{name}`: {why}; give a host name or an address with -c"
        ))
    };
    let addresses = resolved.map_err(|e| error(&e))?;
    addresses.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| error(&"it has no address"))
}

/// Parses an address to listen on: `host:port`, `:port` or `port`.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse();
    if let Ok(port) = port {
        return Ok(SocketAddr::from(([0, 0, 0, 0], port)));
    }
    let addresses = text.to_socket_addrs().ok();
    addresses
        .and_then(|addresses| addresses.min_by_key(SocketAddr::is_ipv6))
        .ok_or_else(|| "expected an address with a port, such as 127.0.0.1:6653".to_owned())
}
