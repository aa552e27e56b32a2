//! `sluice bench paths`: arguments to a plan of `sluice_bench` with a network.

use std::time::Duration;

use sluice_bench::paths::{Directions, NetworkPlan};
use sluice_bench::{Error, Plan};
use sluice_openflow::Version;

use crate::bench::{DEFAULT_PORT, OutputArgs, SystemArgs, resolve, version};

const PATHS_EXAMPLES: &str = "\
Examples:
  sluice bench paths --topo leafspine,4,16,64       paths installed per second
  sluice bench paths --topo linear,5,64 --window 1  time to install one path over five switches";

/// Measure how fast a controller installs paths through a network.
///
/// Emulates a network of switches with flow tables and groups, whose hosts send a
/// first packet to the hosts farthest away. A path counts as installed when the
/// packet has arrived and the flow tables lead from host to host. The controller
/// finds the links by its own discovery probes, and the hosts by their announcements.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = PATHS_EXAMPLES)]
pub(crate) struct PathsArgs {
    /// Host name or address of the controller, optionally with a port.
    #[arg(short, long, value_name = "HOST", default_value = "localhost")]
    controller: String,
    /// TCP port of the controller, if -c names none.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Duration of a loop in milliseconds.
    #[arg(short, long, value_name = "MS", default_value_t = 1000)]
    ms_per_test: u64,
    /// Number of loops, including warm-up and cool-down.
    #[arg(short, long, value_name = "N", default_value_t = 6)]
    loops: u32,
    /// Loops at the start that are not measured.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Loops at the end that are not measured.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0)]
    cooldown: u32,
    /// Milliseconds to wait for link discovery, before the hosts announce themselves and after.
    #[arg(short = 'D', long, alias = "settle", value_name = "MS", default_value_t = 3000)]
    delay: u64,
    /// Outstanding path requests over all switches; 1 measures the time to install a path.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,

    /// Topology: leafspine,4,16,64 or linear,5,8 or another shape of `sluice emu`.
    #[arg(
        long,
        default_value = "leafspine,4,16,64",
        value_name = "SHAPE",
        help_heading = "Switches"
    )]
    topo: String,
    /// OpenFlow version of the switches: 1.0 to 1.5.
    #[arg(long, value_name = "VERSION", default_value = "1.3", value_parser = version, help_heading = "Switches")]
    openflow: Version,

    /// Count a path as soon as the direction of the first packet is installed, without the reverse direction.
    #[arg(long, help_heading = "Measurement")]
    one_way: bool,
    /// Answer a request when its packet has arrived, and keep no flow entries in the switches: for controllers that install
    /// paths faster than the generator can check them.
    #[arg(long, conflicts_with = "one_way", help_heading = "Measurement")]
    arrival_only: bool,
    /// Milliseconds after which a path request times out: 1 to 30000.
    #[arg(long, value_name = "MS", default_value_t = 1000, help_heading = "Measurement")]
    timeout: u64,
    /// Seconds within which all switches must complete the handshake.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Measurement")]
    handshake_timeout: u64,
    #[command(flatten)]
    system: SystemArgs,

    #[command(flatten)]
    output: OutputArgs,
}

impl PathsArgs {
    pub(crate) fn run(&self) -> Result<(), Error> {
        self.output.run_and_print(self.plan()?)
    }

    fn plan(&self) -> Result<Plan, Error> {
        let directions = match (self.arrival_only, self.one_way) {
            (true, _) => Directions::None,
            (false, true) => Directions::One,
            (false, false) => Directions::Both,
        };
        let network = NetworkPlan::from_shape(&self.topo, directions)?;
        let plan = Plan {
            targets: vec![resolve(&self.controller, self.port)?],
            version: self.openflow,
            loops: self.loops,
            warmup: self.warmup,
            cooldown: self.cooldown,
            loop_time: Duration::from_millis(self.ms_per_test),
            delay: Duration::from_millis(self.delay),
            pin: self.system.pin.clone(),
            spin: self.system.spin(0),
            socket: self.system.socket(),
            handshake_timeout: Duration::from_secs(self.handshake_timeout),
            timeout: Duration::from_millis(self.timeout),
            ..Plan::for_network(network, self.window)
        };
        plan.check()?;
        Ok(plan)
    }
}
