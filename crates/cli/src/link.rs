//! `sluice link`: a control link that is far away, thin or lossy.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _, stdin, stdout};
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
use crate::{EXIT_FAILURE, EXIT_USAGE, advice, print_error, signals};

/// Joins two network namespaces, or two sides of TCP connections, by a link with delay, jitter, rate, loss and a queue.
///
/// Values are for both directions, or `UP,DOWN`: up is from --from to --to, or from those who connect to --connect.
/// Lines on the standard input change them while it runs: `delay 50ms`, `up rate 10Mbit`; `show` prints what it has
/// measured so far.
#[derive(Debug, Args)]
pub(crate) struct Link {
    /// Network namespace of the one end: a name of `ip netns`, or a file such as /proc/1234/ns/net. The present one
    /// unless given.
    #[arg(long, value_name = "NS")]
    from: Option<String>,
    /// Network namespace of the other end.
    #[arg(long, value_name = "NS")]
    to: Option<String>,
    /// Addresses of both ends with their network.
    #[arg(long, value_name = "FROM,TO", default_value = "10.9.0.1/30,10.9.0.2/30")]
    addresses: String,
    /// Name of the device at both ends, or FROM,TO.
    #[arg(long, value_name = "NAME", default_value = "link0")]
    device: String,
    /// Bytes of the longest packet.
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    mtu: String,

    /// A relay instead of devices, which needs no privileges: takes TCP connections here.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where a relay connects to for each that it takes.
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<String>,

    /// How long a packet travels: 25ms, 300us; 25ms,50ms for up and down.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    delay: String,
    /// What is added to that at most, evenly; order is kept.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    jitter: String,
    /// How fast packets are sent: 100Mbit, 64kbit; none sends at once.
    #[arg(long, value_name = "RATE", default_value = "none")]
    rate: String,
    /// Share of packets that do not arrive: 0.1%.
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    loss: String,
    /// Bytes that may wait to be sent: 1.25MB, 64KiB; auto is what the rate sends in 100 ms, at least 64 KiB.
    #[arg(long, value_name = "BYTES", default_value = "auto")]
    queue: String,
    /// What loss and jitter start from.
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Writes the bytes of every 10 ms as CSV.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Makes a named pipe and reads lines from it as from the standard input.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
}

impl Link {
    /// Opens the link and keeps it open until a signal.
    pub(crate) fn run(&self) -> ExitCode {
        let ready = self.plan().and_then(|plan| Ok((plan, self.sink()?, self.pipe()?)));
        let (plan, sink, pipe) = match ready {
            Ok(ready) => ready,
            Err(why) => {
                print_error(&why);
                return ExitCode::from(EXIT_USAGE);
            }
        };
        match keep_open(&plan, sink, pipe.as_ref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                print_error(&why);
                ExitCode::from(EXIT_FAILURE)
            }
        }
    }

    /// Arguments in, plan out; everything that can be refused early is refused here.
    fn plan(&self) -> Result<LinkConfig, String> {
        let ends = match (&self.listen, &self.connect) {
            (Some(listen), Some(connect)) => self.relay(listen, connect)?,
            (None, None) => self.tuns()?,
            (Some(_), None) => {
                return Err("--connect: a relay needs to know where to; give an address".to_owned());
            }
            (None, Some(_)) => {
                return Err("--listen: a relay needs to know where; give an address".to_owned());
            }
        };
        let plan = LinkConfig { endpoints: ends, impairments: self.settings()?, seed: self.seed };
        plan.validate().map_err(|e| with_option(&e))?;
        Ok(plan)
    }

    fn settings(&self) -> Result<PerDirection<LinkImpairments>, String> {
        let given = [
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("rate", &self.rate),
            ("loss", &self.loss),
            ("queue", &self.queue),
        ];
        let mut settings = PerDirection::<LinkImpairments>::default();
        for (name, values) in given {
            let changes =
                link::parse_both_directions(name, values).map_err(|e| format!("--{e}"))?;
            for way in Direction::ALL {
                if let Some(change) = *changes.get(way) {
                    *settings.get_mut(way) = settings.get(way).with(change);
                }
            }
        }
        Ok(settings)
    }

    fn relay(&self, listen: &str, connect: &str) -> Result<LinkEndpoints, String> {
        if self.from.is_some() || self.to.is_some() {
            return Err(
                "--listen: a relay has no namespaces; leave --from and --to away".to_owned()
            );
        }
        Ok(LinkEndpoints::TcpProxy {
            listen: socket("--listen", listen)?,
            connect: socket("--connect", connect)?,
        })
    }

    fn tuns(&self) -> Result<LinkEndpoints, String> {
        if self.from.is_none() && self.to.is_none() {
            return Err("--to: name the network namespace of the other end, or make a relay with \
                        --listen and --connect"
                .to_owned());
        }
        let (from, to) = self.addresses.split_once(',').ok_or_else(|| {
            format!("--addresses: {:?} is one address, give two: FROM,TO", self.addresses)
        })?;
        let address =
            |text: &str| link::parse_address(text).map_err(|e| format!("--addresses: {e}"));
        let (from_address, to_address) = (address(from)?, address(to)?);
        let (from_device, to_device) =
            self.device.split_once(',').unwrap_or((&self.device, &self.device));
        for name in [from_device, to_device] {
            let is_good = !name.is_empty()
                && name.len() <= tun::NAME_MAX
                && name.chars().all(|c| c.is_ascii_graphic() && !"/:%".contains(c));
            if !is_good {
                let max = tun::NAME_MAX;
                return Err(format!(
                    "--device: {name:?} is no name of a device: give 1 to {max} letters or digits"
                ));
            }
        }
        let mtu = self.mtu.parse().ok().filter(|&mtu| mtu >= MTU_MIN).ok_or_else(|| {
            format!("--mtu: {:?} is not a number of bytes, {MTU_MIN} to 65535", self.mtu)
        })?;
        let end = |place: &Option<String>, device: &str, address| LinkEndpoint {
            namespace: place.clone(),
            device: device.to_owned(),
            address,
        };
        let up = end(&self.from, from_device, from_address);
        Ok(LinkEndpoints::Tun {
            endpoints: PerDirection { up, down: end(&self.to, to_device, to_address) },
            mtu,
        })
    }

    fn sink(&self) -> Result<Option<TimeSeriesWriter>, String> {
        let Some(path) = &self.series else { return Ok(None) };
        let file = File::create(path);
        file.map(|file| Some(TimeSeriesWriter::new(file)))
            .map_err(|e| format!("--series: {}: {e}", path.display()))
    }

    fn pipe(&self) -> Result<Option<NamedPipe>, String> {
        let Some(path) = &self.control else { return Ok(None) };
        let pipe = NamedPipe::new(path);
        pipe.map(Some)
            .map_err(|e| format!("--control: {}: {e}: choose a name that is free", path.display()))
    }
}

fn socket(option: &str, text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| {
        format!("{option}: {text:?} is not an address with a port, such as 127.0.0.1:6653")
    })
}

/// Opens the link and keeps it open until a signal.
fn keep_open(
    plan: &LinkConfig,
    sink: Option<TimeSeriesWriter>,
    pipe: Option<&NamedPipe>,
) -> Result<(), String> {
    let mut wishes = SignalReceiver::new().map_err(|e| advice::cannot("receive signals", &e))?;
    let open = RunningLink::open(plan, sink, signals::request_stop).map_err(|e| with_option(&e))?;
    say(&first_screen(plan, &open));
    if terminal::can_read(&stdin()) {
        listen("stdin", BufReader::new(stdin()), open.handle())?;
    }
    if let Some(pipe) = pipe {
        let file = pipe.open().map_err(|e| format!("--control: {e}"))?;
        listen("control", BufReader::new(file), open.handle())?;
    }
    while wishes.wait() == Signal::Reload {
        show(&open.handle());
    }
    let report = open.close().map_err(|e| with_option(&e))?;
    say(&report.to_string());
    Ok(())
}

/// Does what lines of `from` say, on a thread that ends with them or with the process.
fn listen(
    name: &str,
    mut from: impl BufRead + Send + 'static,
    link: LinkHandle,
) -> Result<(), String> {
    let obey = move || {
        while let Some(line) = next_line(&mut from) {
            match LinkCommand::parse(&line) {
                None => {}
                Some(Ok(LinkCommand::Show)) => show(&link),
                Some(Ok(LinkCommand::Set(changes))) => match link.change(changes) {
                    Ok(()) => say(&format!("ok: {}\n", line.trim())),
                    Err(e) => print_error(&e.to_string()),
                },
                Some(Err(e)) => print_error(&e.to_string()),
            }
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(obey);
    thread.map(drop).map_err(|e| advice::cannot("start a thread", &e))
}

/// The next line, or the beginning of one that is too long; `None` at the end.
fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let max = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
    let n = from.take(max).read_until(b'\n', &mut line).ok()?;
    (n > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

fn show(link: &LinkHandle) {
    if let Some(report) = link.report() {
        say(&report.to_string());
    }
}

/// Writes to the standard output. A reader that has gone is content with what it has.
fn say(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// What is joined, what it does, and how exactly it can.
fn first_screen(plan: &LinkConfig, open: &RunningLink) -> String {
    let mut text = match (&plan.endpoints, open.listen_addr()) {
        (LinkEndpoints::TcpProxy { connect, .. }, Some(at)) => format!(
            "relay: takes connections on {at}, makes them to {connect}\n\
             relay: TCP ends at each side, so slow start and loss are not real: nothing is lost, and a full queue \
             holds the sender back\n"
        ),
        (LinkEndpoints::Tun { endpoints: PerDirection { up, down }, mtu }, _) => {
            format!("link: {} to {}, packets of up to {mtu} bytes\n", place(up), place(down))
        }
        _ => String::new(),
    };
    for way in Direction::ALL {
        let _ = writeln!(text, "{}: {}", way.name(), plan.impairments.get(way));
    }
    let _ = match open.realtime_priority() {
        Ok(()) => writeln!(text, "priority: SCHED_FIFO"),
        Err(e) => writeln!(
            text,
            "priority: as all others, without SCHED_FIFO ({e}): packets leave late when the machine is busy"
        ),
    };
    text + "ready\n"
}

fn place(end: &LinkEndpoint) -> String {
    let LinkEndpoint { namespace: place, device, address: (address, _) } = end;
    let place = place.as_deref().unwrap_or("this namespace");
    format!("{place} ({address} on {device})")
}

/// The sentence, with the option that can change it and what needs no privileges.
fn with_option(error: &Error) -> String {
    let option = match error {
        Error::Namespace(Direction::Up, ..) => "--from: ",
        Error::Namespace(Direction::Down, ..) | Error::SameNamespace => "--to: ",
        Error::LossWithTcpProxy => "--",
        Error::Listen(..) => "--listen: ",
        Error::Tun(TunError::Create { .. }) => "--device: ",
        Error::Tun(_) | Error::System(_) | Error::Failed(_) => "",
    };
    let instead = match error {
        Error::Tun(e) if e.is_permission() => {
            ", or make a relay with --listen and --connect, which needs no privileges"
        }
        _ => "",
    };
    format!("{option}{error}{instead}")
}
