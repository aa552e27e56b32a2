//! `sluice control-link`: emulates a control link that is long, slow or lossy.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use sluice_emu::link::{
    self, Direction, Error, LINE_MAX, LinkCommand, LinkConfig, LinkEndpoint, LinkEndpoints,
    LinkHandle, LinkImpairments, MTU_MIN, PerDirection, RunningLink, TimeSeriesWriter,
};
use sluice_io::named_pipe::NamedPipe;
use sluice_io::terminal;
use sluice_io::tun::{self, TunError};

use crate::signals::{Signal, SignalReceiver};
use crate::{EXIT_FAILURE, EXIT_USAGE, advice, print_error, signals, write_stdout};

const EXAMPLES: &str = "\
Examples:
  # 25 ms each way and 10 Mbit/s between the network namespaces sw and ctl, as root
  sluice control-link --from sw --to ctl --delay 25ms --rate 10Mbit

  # The same without privileges: switches connect to port 7000, the controller listens on 6653
  sluice control-link --listen 127.0.0.1:7000 --connect 127.0.0.1:6653 --delay 25ms --rate 10Mbit

Commands on standard input while it runs: `delay 50ms`, `up rate 10Mbit`, `down loss 5%`, `show`.";

/// Emulate a link with delay, jitter, rate, loss and a queue
///
/// The link connects two network namespaces through TUN devices (needs root), or acts as a TCP proxy (--listen and
/// --connect). It runs until SIGINT or SIGTERM and then prints a report.
///
/// An impairment applies to both directions, or takes two values: UP,DOWN. Up is from --from to --to, or from the clients
/// of a proxy to --connect.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ControlLinkArgs {
    /// Network namespace of one end: a name of `ip netns`, or a path such as /proc/1234/ns/net [default: the current one]
    #[arg(long, value_name = "NS")]
    from: Option<String>,
    /// Network namespace of the other end
    #[arg(long, value_name = "NS")]
    to: Option<String>,
    /// IP address and prefix length of each end
    #[arg(long, value_name = "FROM,TO", default_value = "10.9.0.1/30,10.9.0.2/30")]
    addresses: String,
    /// Name of the TUN device at both ends, or one name for each: FROM,TO
    #[arg(long, value_name = "NAME", default_value = "link0")]
    device: String,
    /// MTU of the TUN devices, 576 to 65535
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    mtu: String,

    /// Act as a TCP proxy that accepts connections on this address
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address to which the TCP proxy connects for each accepted connection
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<String>,

    /// One-way delay, such as 25ms or 300us
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    delay: String,
    /// Largest random time added to the delay, uniformly distributed; packets are not reordered
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    jitter: String,
    /// Rate, such as 100Mbit or 64kbit; none is unlimited
    #[arg(long, value_name = "RATE", default_value = "none")]
    rate: String,
    /// Percentage of packets that are lost, such as 0.1%
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    loss: String,
    /// Queue capacity, such as 1.25MB or 64KiB; auto is what the rate sends in 100 ms, at least 64 KiB
    #[arg(long, value_name = "BYTES", default_value = "auto")]
    queue: String,
    /// Seed for loss and jitter
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Write bytes offered and delivered to this CSV file, one row every 10 ms
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Create a named pipe and read commands from it as from standard input
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
}

impl ControlLinkArgs {
    /// Opens the link and runs it until a signal.
    pub(crate) fn run(&self) -> ExitCode {
        let prepared = self
            .config()
            .and_then(|config| Ok((config, self.time_series()?, self.command_pipe()?)));
        let (config, time_series, pipe) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                print_error(&error);
                return ExitCode::from(EXIT_USAGE);
            }
        };
        match run_until_signal(&config, time_series, pipe.as_ref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_error(&error);
                ExitCode::from(EXIT_FAILURE)
            }
        }
    }

    /// Checks the arguments and turns them into a configuration.
    fn config(&self) -> Result<LinkConfig, String> {
        let endpoints = match (&self.listen, &self.connect) {
            (Some(listen), Some(connect)) => self.proxy(listen, connect)?,
            (None, None) => self.tun_devices()?,
            (Some(_), None) => {
                return Err(
                    "--connect is missing: a TCP proxy (--listen) needs an address to connect to"
                        .to_owned(),
                );
            }
            (None, Some(_)) => {
                return Err(
                    "--listen is missing: a TCP proxy (--connect) needs an address to listen on"
                        .to_owned(),
                );
            }
        };
        let config = LinkConfig { endpoints, impairments: self.impairments()?, seed: self.seed };
        config.validate().map_err(|e| with_option(&e))?;
        Ok(config)
    }

    fn impairments(&self) -> Result<PerDirection<LinkImpairments>, String> {
        let values = [
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("rate", &self.rate),
            ("loss", &self.loss),
            ("queue", &self.queue),
        ];
        let mut impairments = PerDirection::<LinkImpairments>::default();
        for (name, value) in values {
            let changes = link::parse_both_directions(name, value).map_err(|e| format!("--{e}"))?;
            for direction in Direction::ALL {
                if let Some(change) = *changes.get(direction) {
                    let new = impairments.get(direction).with(change);
                    *impairments.get_mut(direction) = new;
                }
            }
        }
        Ok(impairments)
    }

    fn proxy(&self, listen: &str, connect: &str) -> Result<LinkEndpoints, String> {
        if self.from.is_some() || self.to.is_some() {
            return Err("--listen cannot be combined with --from and --to: a TCP proxy has no network namespaces"
                .to_owned());
        }
        Ok(LinkEndpoints::TcpProxy {
            listen: socket_address("--listen", listen)?,
            connect: socket_address("--connect", connect)?,
        })
    }

    fn tun_devices(&self) -> Result<LinkEndpoints, String> {
        if self.from.is_none() && self.to.is_none() {
            return Err("--to is missing: name the network namespace of the other end, or use a TCP proxy with \
                        --listen and --connect"
                .to_owned());
        }
        let (from, to) = self.addresses.split_once(',').ok_or_else(|| {
            format!("--addresses: expected two addresses FROM,TO, got {:?}", self.addresses)
        })?;
        let parse_address =
            |text: &str| link::parse_address(text).map_err(|e| format!("--addresses: {e}"));
        let (from_address, to_address) = (parse_address(from)?, parse_address(to)?);
        let (from_device, to_device) =
            self.device.split_once(',').unwrap_or((&self.device, &self.device));
        for name in [from_device, to_device] {
            let is_valid = !name.is_empty()
                && name.len() <= tun::NAME_MAX
                && name.chars().all(|c| c.is_ascii_graphic() && !"/:%".contains(c));
            if !is_valid {
                let max = tun::NAME_MAX;
                return Err(format!(
                    "--device: invalid name {name:?} (expected 1 to {max} letters or digits)"
                ));
            }
        }
        let mtu = self.mtu.parse().ok().filter(|&mtu| mtu >= MTU_MIN).ok_or_else(|| {
            format!("--mtu: {:?} is not a number from {MTU_MIN} to 65535", self.mtu)
        })?;
        let endpoint = |namespace: &Option<String>, device: &str, address| LinkEndpoint {
            namespace: namespace.clone(),
            device: device.to_owned(),
            address,
        };
        let up = endpoint(&self.from, from_device, from_address);
        let down = endpoint(&self.to, to_device, to_address);
        Ok(LinkEndpoints::Tun { endpoints: PerDirection { up, down }, mtu })
    }

    fn time_series(&self) -> Result<Option<TimeSeriesWriter>, String> {
        let Some(path) = &self.series else { return Ok(None) };
        let file = File::create(path);
        file.map(|file| Some(TimeSeriesWriter::new(file)))
            .map_err(|e| format!("--series: cannot create {}: {e}", path.display()))
    }

    fn command_pipe(&self) -> Result<Option<NamedPipe>, String> {
        let Some(path) = &self.control else { return Ok(None) };
        NamedPipe::new(path).map(Some).map_err(|e| {
            format!(
                "--control: cannot create {}: {e}: choose a path that does not exist",
                path.display()
            )
        })
    }
}

fn socket_address(option: &str, text: &str) -> Result<SocketAddr, String> {
    let address = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    address.ok_or_else(|| {
        format!("{option}: {text:?} is not an address with a port, such as 127.0.0.1:6653")
    })
}

/// Opens the link and runs it until a signal.
fn run_until_signal(
    config: &LinkConfig,
    time_series: Option<TimeSeriesWriter>,
    pipe: Option<&NamedPipe>,
) -> Result<(), String> {
    let mut signals = SignalReceiver::new().map_err(|e| advice::cannot("receive signals", &e))?;
    let link = RunningLink::open(config, time_series, signals::request_stop)
        .map_err(|e| with_option(&e))?;
    write_stdout(&start_message(config, &link))?;
    if terminal::can_read(&stdin()) {
        spawn_command_reader("stdin", BufReader::new(stdin()), link.handle())?;
    }
    if let Some(pipe) = pipe {
        let file = pipe.open().map_err(|e| format!("--control: {e}"))?;
        spawn_command_reader("control", BufReader::new(file), link.handle())?;
    }
    while signals.wait() == Signal::Reload {
        print_report(&link.handle());
    }
    let report = link.close().map_err(|e| with_option(&e))?;
    write_stdout(&report.to_string())?;
    report.time_series_error.map_or(Ok(()), |e| Err(format!("--series: cannot be written: {e}")))
}

/// Reads and executes commands on a new thread, which ends with the input or the process.
fn spawn_command_reader(
    name: &str,
    mut input: impl BufRead + Send + 'static,
    link: LinkHandle,
) -> Result<(), String> {
    let execute = move || {
        while let Some(line) = read_line(&mut input) {
            let Ok(text) = line else {
                print_error(&format!("line ignored: it is longer than {LINE_MAX} bytes"));
                continue;
            };
            match LinkCommand::parse(&text) {
                None => {}
                Some(Ok(LinkCommand::Show)) => print_report(&link),
                Some(Ok(LinkCommand::Set(changes))) => match link.change(changes) {
                    Ok(()) => print_now(&format!("ok: {}\n", text.trim())),
                    Err(e) => print_error(&e.to_string()),
                },
                Some(Err(e)) => print_error(&e.to_string()),
            }
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(execute);
    thread.map(drop).map_err(|e| advice::cannot("start a thread", &e))
}

/// A line that is longer than the longest valid command.
#[derive(Debug, PartialEq, Eq)]
struct LineTooLong;

/// The next line; `None` at the end of the input. A line that is too long is skipped as a whole, so that its end is not
/// executed as a command.
fn read_line(input: &mut impl BufRead) -> Option<Result<String, LineTooLong>> {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    loop {
        let len = input.by_ref().take(limit).read_until(b'\n', &mut line).ok()?;
        if len == 0 && line.is_empty() && !is_too_long {
            return None;
        }
        if len < LINE_MAX || line.last() == Some(&b'\n') {
            break;
        }
        is_too_long = true;
        line.clear();
    }
    Some(if is_too_long {
        Err(LineTooLong)
    } else {
        Ok(String::from_utf8_lossy(&line).into_owned())
    })
}

fn print_report(link: &LinkHandle) {
    if let Some(report) = link.report() {
        print_now(&report.to_string());
    }
}

/// Writes to standard output. A failure is reported but does not end the link.
fn print_now(text: &str) {
    if let Err(error) = write_stdout(text) {
        print_error(&error);
    }
}

/// The endpoints, the impairments, and whether timing is accurate.
fn start_message(config: &LinkConfig, link: &RunningLink) -> String {
    let mut text = match (&config.endpoints, link.listen_addr()) {
        (LinkEndpoints::TcpProxy { connect, .. }, Some(listen)) => format!(
            "proxy: listening on {listen}, connecting to {connect}\n\
             proxy: TCP ends at each side: slow start is not that of the link, nothing is lost, and a full queue \
             slows the sender down\n"
        ),
        (LinkEndpoints::Tun { endpoints: PerDirection { up, down }, mtu }, _) => {
            format!("link: {} to {}, MTU {mtu}\n", endpoint_name(up), endpoint_name(down))
        }
        _ => String::new(),
    };
    for direction in Direction::ALL {
        let _ = writeln!(text, "{}: {}", direction.name(), config.impairments.get(direction));
    }
    let _ = match link.realtime_priority() {
        Ok(()) => writeln!(text, "priority: real-time (SCHED_FIFO)"),
        Err(e) => writeln!(
            text,
            "priority: normal, since SCHED_FIFO is not available ({e}): packets leave late while the machine is busy"
        ),
    };
    text + "ready\n"
}

fn endpoint_name(endpoint: &LinkEndpoint) -> String {
    let LinkEndpoint { namespace, device, address: (address, _) } = endpoint;
    let namespace = namespace.as_deref().unwrap_or("current namespace");
    format!("{namespace} ({address} on {device})")
}

/// The error with the option that caused it, and the alternative that needs no privileges.
fn with_option(error: &Error) -> String {
    let option = match error {
        Error::Namespace(Direction::Up, ..) => "--from: ",
        Error::Namespace(Direction::Down, ..) | Error::SameNamespace => "--to: ",
        Error::LossWithTcpProxy => "--",
        Error::Listen(..) => "--listen: ",
        Error::Tun(TunError::Create { .. }) => "--device: ",
        Error::Tun(_) | Error::System(_) | Error::Failed(_) => "",
    };
    let alternative = match error {
        Error::Tun(e) if e.is_permission() => {
            ", or use a TCP proxy with --listen and --connect, which needs no privileges"
        }
        _ => "",
    };
    format!("{option}{error}{alternative}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_line_that_is_too_long_is_not_a_command() {
        let long = "x".repeat(2 * LINE_MAX);
        let mut input = long.as_bytes().chain(&b"delay 50ms\nshow\n\n"[..]).chain(&b"show"[..]);
        assert_eq!(read_line(&mut input), Some(Err(LineTooLong)));
        assert_eq!(read_line(&mut input), Some(Ok("show\n".to_owned())));
        assert_eq!(read_line(&mut input), Some(Ok("\n".to_owned())));
        assert_eq!(read_line(&mut input), Some(Ok("show".to_owned())));
        assert_eq!(read_line(&mut input), None);
        assert_eq!(read_line(&mut long.as_bytes()), Some(Err(LineTooLong)));
    }
}
