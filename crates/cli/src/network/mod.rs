//! `sluice emu` and `sluice play`: an emulated network, and its output.

mod failure_reports;
mod network_args;
mod play;
mod startup;
mod summary;
mod terminal_view;
mod text_output;

use std::io::{IsTerminal as _, stdout};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sluice_emu::live::{LiveNetwork, PingPacing, PingRounds};
use sluice_io::clock;

use network_args::{NetworkArgs, NetworkConfig};
pub(crate) use play::PlayArgs;

use crate::{EXIT_FAILURE, EXIT_USAGE, print_error, signals, write_stdout};

/// With `--once`, how long switches may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of screen updates and key polling.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  sluice emu --topo ring,4 --controller 192.0.2.7:6653
  sluice emu --topo campus.mn --once            One round of pings, then a summary; for scripts
  sluice emu --topo leafspine,2,4 --start       Time until every host reaches another one

docs/emu.md describes topologies and output.";

/// Emulate a network for a controller
///
/// Emulates OpenFlow switches, hosts and links, and connects the switches to a controller. When all switches are connected,
/// every host pings every other host, round after round. Needs no privileges.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EmuArgs {
    /// Host name or IP address of the controller, with its port
    #[arg(short, long, default_value = "localhost:6653", value_name = "ADDRESS")]
    controller: String,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The options of pings and of the output.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Stop after one round of pings; exit with 1 if a ping was lost
    #[arg(long)]
    once: bool,
    /// Measure startup: each host pings the next one until it has a reply; print how long that took
    #[arg(long, conflicts_with_all = ["once", "pings"])]
    start: bool,
    /// Print one line per second instead of a full-screen display
    #[arg(long)]
    plain: bool,
    /// Pings per second, over all hosts
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pings: u32,
}

impl OutputArgs {
    /// Whether the full-screen display is used.
    fn is_full_screen(&self) -> bool {
        !self.once && !self.start && !self.plain && stdout().is_terminal()
    }
}

impl EmuArgs {
    /// Emulates the network until it is stopped.
    pub(crate) fn run(&self) -> ExitCode {
        match self.network.network() {
            Ok(network) => exit_code(self.start(network)),
            Err(error) => usage_error(&error),
        }
    }

    fn start(&self, network: NetworkConfig) -> Result<ExitCode, String> {
        let controller = controller(&self.controller)?;
        emulate(controller, &format!("controller {controller}"), network, &self.output)
    }
}

/// Resolves the address of a controller.
pub(crate) fn controller(name: &str) -> Result<SocketAddr, String> {
    if !name.contains(':') {
        return Err(format!("controller {name:?}: missing port, such as {name}:6653"));
    }
    let mut addresses = name.to_socket_addrs().map_err(|e| format!("controller {name:?}: {e}"))?;
    addresses.next().ok_or_else(|| format!("controller {name:?}: the name has no address"))
}

/// Emulates a network for `controller` and displays it.
fn emulate(
    controller: SocketAddr,
    title: &str,
    (topology, options): NetworkConfig,
    output: &OutputArgs,
) -> Result<ExitCode, String> {
    let stop = signals::stop_flag().map_err(|e| format!("cannot receive signals: {e}"))?;
    let network =
        LiveNetwork::connect(controller, topology, &options).map_err(|e| e.to_string())?;
    if output.start {
        let is_complete = startup::measure(network, title, &stop)?;
        return Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) });
    }
    let pacing = PingPacing { pings_pps: output.pings, ..PingPacing::default() };
    let mut emulation = Emulation {
        rounds: PingRounds::new(network, pacing),
        once: output.once,
        stop,
        started_at: clock::now(),
        links_cut: 0,
    };
    let result = if output.is_full_screen() {
        terminal_view::run(&mut emulation, title)
    } else {
        text_output::run(&mut emulation, title)
    };
    let printed = write_stdout(&summary::text(&emulation));
    result?;
    printed?;
    let is_success = !output.once
        || (emulation.is_round_complete() && emulation.rounds.status().pings_lost == 0);
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
}

/// A running network, and when to stop.
#[derive(Debug)]
struct Emulation {
    rounds: PingRounds,
    once: bool,
    stop: Arc<AtomicBool>,
    started_at: Instant,
    /// Links that were cut from the keyboard.
    links_cut: u32,
}

impl Emulation {
    /// Runs the network until the next screen update; `false` if it should stop.
    fn run_interval(&mut self) -> Result<bool, String> {
        let until = clock::now() + UPDATE_INTERVAL;
        while clock::now() < until {
            self.rounds.run_once(Some(until)).map_err(|e| e.to_string())?;
            if self.stop.load(Relaxed) || (self.once && self.is_round_complete()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether one round of pings is complete; without pairs of hosts, whether all switches are connected.
    fn is_round_complete(&self) -> bool {
        let network = self.rounds.network();
        let has_pairs = self.rounds.pair_count() > 0;
        self.rounds.completed_rounds() > 0
            || !has_pairs
                && network.connected_switches() == network.data_plane().topology().switches.len()
    }
}

fn usage_error(error: &str) -> ExitCode {
    print_error(error);
    ExitCode::from(EXIT_USAGE)
}

fn exit_code(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|error| {
        print_error(&error);
        ExitCode::from(EXIT_FAILURE)
    })
}
