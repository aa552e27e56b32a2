//! `sluice bench paths`: a network that asks for ways.

use std::io::{Write, stdout};
use std::time::Duration;

use sluice_emu::paths::{Directions, PathsConfig, run};
use sluice_emu::topology::Topology;
use sluice_openflow::{Version, Versions};

use crate::network::controller;

/// Plays a network whose hosts ask for ways to those farthest away; reports how many are loaded, and how late.
///
/// Links are shown to the controller by its own probes, hosts by their announcements. A way counts when its rules lead from
/// host to host and the packet that asked is out at the far end.
#[derive(Debug, clap::Args)]
pub(crate) struct Paths {
    /// Where the controller is: a name or an address, with a port.
    #[arg(short, long, default_value = "localhost:6653")]
    controller: String,
    /// Which network: leafspine,4,16,64 or linear,5,8 or another of those of `sluice emu`.
    #[arg(long, default_value = "leafspine,4,16,64", value_name = "SHAPE")]
    topo: String,
    /// Version of OpenFlow that the switches speak: 1.0, 1.2 to 1.5.
    #[arg(long, default_value = "1.3", value_parser = version)]
    openflow: Version,
    /// Ways that are asked for at a time, over all switches; 1 is the latency test.
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// A way counts as soon as the direction of its packet is there, without the way back.
    #[arg(long)]
    one_way: bool,
    /// Milliseconds before hosts announce themselves, and after: the controller finds links meanwhile.
    #[arg(long, default_value_t = 3000)]
    settle: u64,
    /// Loops that count.
    #[arg(short, long, default_value_t = 5)]
    loops: u32,
    /// Loops before them that do not.
    #[arg(short, long, default_value_t = 1)]
    warmup: u32,
    /// Length of a loop, milliseconds.
    #[arg(short, long, default_value_t = 1000)]
    ms_per_test: u64,
    /// The core to which its thread is bound.
    #[arg(long)]
    pin: Option<usize>,
    /// Microseconds for which it asks again and again before it sleeps.
    #[arg(long, default_value_t = 0)]
    spin: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Paths {
    /// Does it; what could not be done is a sentence.
    pub(crate) fn run(&self) -> Result<(), String> {
        let report = run(&self.plan()?).map_err(|e| e.to_string())?;
        let text = if self.json { report.to_json() + "\n" } else { report.to_string() };
        stdout().write_all(text.as_bytes()).map_err(|e| e.to_string())
    }

    fn plan(&self) -> Result<PathsConfig, String> {
        let topology = Topology::from_text(&self.topo);
        Ok(PathsConfig {
            controller: controller(&self.controller)?,
            topology: topology.map_err(|e| format!("--topo {}: {e}", self.topo))?,
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

fn version(text: &str) -> Result<Version, String> {
    let known = Version::from_text(text).filter(|&version| Versions::SPOKEN.contains(version));
    known.ok_or_else(|| "give 1.0 or 1.2 to 1.5".to_owned())
}
