//! `sluice emu` and `sluice play`: a network that is not there, and what is seen of it.

mod plain;
mod play;
mod screen;
mod shape;
mod start;

use std::io::{IsTerminal as _, stdout};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sluice_emu::live::{LiveNetwork, PingPacing, PingRounds};
use sluice_io::clock;

pub(crate) use play::Play;
use shape::{Network, Shape};

use crate::{EXIT_FAILURE, EXIT_USAGE, print_error, signals};

/// How long switches may take to find the controller when all is over after one round.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often what is seen is drawn, and what people type is read.
const FRAME: Duration = Duration::from_millis(100);

/// Plays a network of switches and hosts against a controller; every pair of hosts pings, round after round.
#[derive(Debug, clap::Args)]
pub(crate) struct Emu {
    /// Where the controller is: a name or an address, with a port.
    #[arg(short, long, default_value = "localhost:6653")]
    controller: String,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    seen: Seen,
}

/// What is done in a network, and how it is seen.
#[derive(Debug, clap::Args)]
struct Seen {
    /// Ends when every pair of hosts has pinged once; exits with 1 if a ping was lost.
    #[arg(long)]
    once: bool,
    /// Every host pings the next one from the first moment on; ends when each has had an answer, and says how long that
    /// took.
    #[arg(long, conflicts_with_all = ["once", "pings"])]
    start: bool,
    /// Prints a line a second instead of drawing on the whole terminal.
    #[arg(long)]
    plain: bool,
    /// Pings that all hosts together send in a second, 1 at least.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pings: u32,
}

impl Seen {
    /// Whether it is seen on the whole screen.
    fn draws(&self) -> bool {
        !self.once && !self.start && !self.plain && stdout().is_terminal()
    }
}

impl Emu {
    /// Plays until it is told to stop.
    pub(crate) fn run(&self) -> ExitCode {
        match self.shape.network() {
            Ok(network) => ended(self.start(network)),
            Err(why) => refused(&why),
        }
    }

    fn start(&self, network: Network) -> Result<ExitCode, String> {
        let to = controller(&self.controller)?;
        watch(to, &format!("controller {to}"), network, &self.seen)
    }
}

/// Where the controller of this name is.
pub(crate) fn controller(name: &str) -> Result<SocketAddr, String> {
    let why = |e: &dyn std::fmt::Display| format!("controller {name}: {e}");
    if !name.contains(':') {
        return Err(why(&format_args!("there is no port; {name}:6653?")));
    }
    let mut found = name.to_socket_addrs().map_err(|e| why(&e))?;
    found.next().ok_or_else(|| why(&"no address"))
}

/// Plays a network against `to` and shows it.
fn watch(
    to: SocketAddr,
    title: &str,
    (topology, options): Network,
    seen: &Seen,
) -> Result<ExitCode, String> {
    let stop = signals::stop_flag().map_err(|e| format!("cannot receive signals: {e}"))?;
    let live = LiveNetwork::connect(to, topology, &options).map_err(|e| e.to_string())?;
    if seen.start {
        let is_whole = start::measure(live, title, &stop)?;
        return Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) });
    }
    let pace = PingPacing { pings_pps: seen.pings, ..PingPacing::default() };
    let mut watched = Watched { rounds: PingRounds::new(live, pace), once: seen.once, stop };
    if seen.draws() {
        screen::show(&mut watched, title)?;
    } else {
        plain::show(&mut watched, title)?;
    }
    let glance = watched.rounds.status();
    let is_well = !seen.once || (watched.is_over() && glance.pings_lost == 0);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
}

/// A network, and when to stop.
#[derive(Debug)]
struct Watched {
    rounds: PingRounds,
    once: bool,
    stop: Arc<AtomicBool>,
}

impl Watched {
    /// Lets the network live for a moment; whether it goes on.
    fn moment(&mut self) -> Result<bool, String> {
        let until = clock::now() + FRAME;
        while clock::now() < until {
            self.rounds.run_once(Some(until)).map_err(|e| e.to_string())?;
            if self.stop.load(Relaxed) || (self.once && self.is_over()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether every pair has pinged; where there is none, whether every switch is known.
    fn is_over(&self) -> bool {
        let live = self.rounds.network();
        let is_empty = self.rounds.pair_count() == 0;
        self.rounds.completed_rounds() > 0
            || is_empty && live.connected_switches() == live.data_plane().topology().switches.len()
    }
}

fn refused(why: &str) -> ExitCode {
    print_error(why);
    ExitCode::from(EXIT_USAGE)
}

fn ended(done: Result<ExitCode, String>) -> ExitCode {
    done.unwrap_or_else(|why| {
        print_error(&why);
        ExitCode::from(EXIT_FAILURE)
    })
}
