//! `sluice bench paths`: turns arguments into a configuration of `sluice_emu::paths`.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use sluice_emu::paths::{Directions, PathsConfig, PathsError, run};
use sluice_emu::topology::Topology;
use sluice_openflow::Version;

use crate::bench::{DEFAULT_PORT, resolve, version};
use crate::{EXIT_FAILURE, EXIT_USAGE, print_error};

const PATHS_EXAMPLES: &str = "\
Examples:
  sluice bench paths --topo leafspine,4,16,64       paths installed per second
  sluice bench paths --topo linear,5,64 --window 1  time to install one path over five switches";

/// Measure how fast a controller installs paths through a network.
///
/// Emulates a network whose hosts send a first packet to the hosts farthest away.
/// A path counts as installed when flow entries lead from host to host through all
/// switches and the packet has left the last of them. The controller finds the links
/// by its own discovery probes, and the hosts by their announcements.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = PATHS_EXAMPLES)]
pub(crate) struct PathsArgs {
    /// Host name or address of the controller, optionally with a port.
    #[arg(short, long, value_name = "HOST", default_value = "localhost:6653")]
    controller: String,
    /// Topology: leafspine,4,16,64 or linear,5,8 or another shape of `sluice emu`.
    #[arg(long, default_value = "leafspine,4,16,64", value_name = "SHAPE")]
    topo: String,
    /// OpenFlow version of the switches: 1.0, or 1.2 to 1.5.
    #[arg(long, value_name = "VERSION", default_value = "1.3", value_parser = version)]
    openflow: Version,
    /// Outstanding path requests over all switches; 1 measures the time to install a path.
    #[arg(long, value_name = "N", default_value_t = 256)]
    window: usize,
    /// Count a path as soon as the direction of the first packet is installed, without the reverse direction.
    #[arg(long)]
    one_way: bool,
    /// Milliseconds to wait for link discovery, before the hosts announce themselves and after.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    settle: u64,
    /// Number of measured loops.
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    loops: u32,
    /// Number of loops at the start that are not measured.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Duration of a loop in milliseconds.
    #[arg(short, long, value_name = "MS", default_value_t = 1000)]
    ms_per_test: u64,
    /// CPU core that the generator thread is pinned to [default: no pinning].
    #[arg(long, value_name = "CORE")]
    pin: Option<usize>,
    /// Microseconds for which the idle thread polls before it sleeps.
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl PathsArgs {
    pub(crate) fn run(&self) -> ExitCode {
        let (exit_code, error) = match self.measure() {
            Ok(()) => return ExitCode::SUCCESS,
            Err(PathsError::Config(error)) => (EXIT_USAGE, error),
            Err(error) => (EXIT_FAILURE, error.to_string()),
        };
        print_error(&error);
        ExitCode::from(exit_code)
    }

    fn measure(&self) -> Result<(), PathsError> {
        let report = run(&self.config().map_err(PathsError::Config)?)?;
        let text = if self.json { report.to_json() + "\n" } else { report.to_string() };
        let mut out = stdout().lock();
        Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
    }

    fn config(&self) -> Result<PathsConfig, String> {
        let topology = Topology::from_text(&self.topo)
            .map_err(|e| format!("invalid value {} for --topo: {e}", self.topo))?;
        Ok(PathsConfig {
            controller: resolve(&self.controller, DEFAULT_PORT).map_err(|e| e.to_string())?,
            topology,
            version: self.openflow,
            window: self.window,
            directions: if self.one_way { Directions::One } else { Directions::Both },
            settle: Duration::from_millis(self.settle),
            loops: self.loops,
            warmup: self.warmup,
            loop_time: Duration::from_millis(self.ms_per_test),
            pin: self.pin,
            spin: Duration::from_micros(self.spin),
        })
    }
}
