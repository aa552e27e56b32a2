//! An experiment as a file: what is varied, what is measured, which figures show it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, PublishedValues};

/// An experiment. `study/experiments/NAME.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Heading in the report.
    pub title: String,
    /// Which question it answers.
    pub question: String,
    /// The paper or document whose experiment it repeats; `None` if it is new.
    #[serde(default)]
    pub repeats: Option<String>,
    /// Number of samples of each cell.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// Controllers that take part, by file name; empty for all of the study.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// How a sample is taken.
    pub measure: Measure,
    /// What is varied, with its values; the cells are all combinations.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<AxisValue>>,
    /// What differs in the short form.
    #[serde(default)]
    pub short: Option<Shorter>,
    /// Figures and tables of the report.
    pub figures: Vec<Figure>,
    /// Published values that are shown beside the measured ones.
    #[serde(default)]
    pub published: Vec<PublishedValues>,
}

fn default_rounds() -> u32 {
    5
}

/// What differs in the short form of an experiment, which is also the one with fewer cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// Values of the axes that have fewer of them.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<AxisValue>>,
    /// Number of samples of each cell.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Duration of a sample in seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Controllers that take part; empty for all of the study.
    #[serde(default)]
    pub controllers: Vec<String>,
}

/// What is varied between the cells of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Threads of the controller.
    Threads,
    /// The controller's cores, such as `0` or `0,1`.
    Cores,
    /// Emulated switches.
    Switches,
    /// Outstanding requests of each switch.
    Window,
    /// Outstanding requests of all switches together.
    WindowTotal,
    /// Requests per second, open loop.
    Rate,
    /// Share of requests with a source address that was never used before.
    NewSources,
    /// Hosts of each switch.
    Hosts,
    /// Connections per second that are opened beside the load and never complete a handshake.
    Flood,
    /// One of the controller's variants.
    Variant,
    /// A topology, as `sluice emu --topo` takes it.
    Topology,
    /// One-way delay of the control link in milliseconds.
    DelayMs,
    /// Rate of the control link in Mbit/s.
    RateMbit,
    /// Share of invalid messages.
    Invalid,
    /// Length of the data frames in bytes.
    FrameBytes,
}

impl Axis {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Cores => "cores",
            Self::Switches => "switches",
            Self::Window => "window",
            Self::WindowTotal => "window-total",
            Self::Rate => "rate",
            Self::NewSources => "new-sources",
            Self::Hosts => "hosts",
            Self::Flood => "flood",
            Self::Variant => "variant",
            Self::Topology => "topology",
            Self::DelayMs => "delay-ms",
            Self::RateMbit => "rate-mbit",
            Self::Invalid => "invalid",
            Self::FrameBytes => "frame-bytes",
        }
    }
}

/// The value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl AxisValue {
    /// The value as a number, if it is one.
    #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^53")]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Number(n) => Some(*n),
            Self::Text(_) => None,
        }
    }
}

impl Experiment {
    /// The experiment with the values of its short form.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        let Some(short) = self.short.take() else { return self };
        self.axes.extend(short.axes);
        self.rounds = short.rounds.unwrap_or(self.rounds);
        if !short.controllers.is_empty() {
            self.controllers = short.controllers;
        }
        if let Some(seconds) = short.seconds {
            match &mut self.measure {
                Measure::Bench(it) => it.seconds = seconds,
                Measure::Paths(it) => it.seconds = seconds,
                Measure::Startup(it) => it.timeout_s = seconds,
                Measure::Rfc8456(it) => it.seconds = seconds,
            }
        }
        self
    }

    /// All combinations of the values of its axes; one empty cell if it has none.
    pub fn cells(&self) -> Vec<Cell> {
        self.axes.iter().fold(vec![Cell::new()], |cells, (axis, values)| {
            let with = |cell: &Cell, value: &AxisValue| {
                let mut cell = cell.clone();
                cell.insert(*axis, value.clone());
                cell
            };
            cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, value))).collect()
        })
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => n.fmt(f),
            Self::Number(n) => n.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A combination of values of the axes.
pub type Cell = BTreeMap<Axis, AxisValue>;

/// How a sample is taken, with the settings that are the same in all cells. An axis overrides the setting of its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Measure {
    /// `sluice bench`: packet-ins of single switches.
    Bench(BenchSettings),
    /// `sluice bench paths`: paths through a network.
    Paths(PathsSettings),
    /// An emulated network starts: time until hosts reach each other.
    Startup(StartupSettings),
    /// One of the tests of RFC 8456.
    Rfc8456(Rfc8456Settings),
}

/// Settings of `sluice bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BenchSettings {
    /// Emulated switches.
    pub switches: u32,
    /// Hosts of each switch.
    pub hosts: u32,
    /// The load.
    pub load: LoadSetting,
    /// Whether switches buffer packets, which Open vSwitch does not.
    pub buffered: bool,
    /// Share of requests with new source addresses.
    pub new_sources: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before, which are discarded.
    pub warm_up_s: f64,
    /// Seconds between the last handshake and the first request.
    pub delay_s: f64,
    /// Connections per second of a flood beside the load.
    pub flood: u32,
    /// Seconds for which the controller's memory is recorded after the load.
    pub after_s: f64,
    /// Whether the latencies are recorded as a distribution.
    pub distribution: bool,
    /// The control link.
    pub link: LinkSettings,
}

impl Default for BenchSettings {
    fn default() -> Self {
        Self {
            switches: 16,
            hosts: 1000,
            load: LoadSetting::Unlimited,
            buffered: false,
            new_sources: 0.0,
            seconds: 5.0,
            warm_up_s: 1.0,
            delay_s: 1.0,
            flood: 0,
            after_s: 0.0,
            distribution: false,
            link: LinkSettings::default(),
        }
    }
}

/// A control link that delays what switches and controller send to each other, as `sluice control-link` does as a TCP proxy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSettings {
    /// One-way delay in milliseconds.
    pub delay_ms: f64,
    /// Rate in each direction in Mbit/s; 0 is unlimited.
    pub rate_mbit: f64,
}

impl LinkSettings {
    /// Whether it changes nothing.
    pub fn is_ideal(&self) -> bool {
        self.delay_ms <= 0.0 && self.rate_mbit <= 0.0
    }
}

/// The load of `sluice bench`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadSetting {
    /// As many outstanding requests as the sockets take.
    Unlimited,
    /// This many outstanding requests of each switch.
    Window(u32),
    /// This many over all switches.
    WindowTotal(u32),
    /// This many requests per second, open loop.
    Rate(f64),
}

/// Settings of `sluice bench paths`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathsSettings {
    /// The topology.
    pub topology: String,
    /// Outstanding path requests.
    pub window: u32,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before, which are discarded.
    pub warm_up_s: f64,
    /// Seconds for the discovery of links before hosts announce themselves.
    pub delay_s: f64,
}

impl Default for PathsSettings {
    fn default() -> Self {
        let topology = "leafspine,2,8,4".to_owned();
        Self { topology, window: 256, seconds: 5.0, warm_up_s: 1.0, delay_s: 3.0 }
    }
}

/// Settings of the start of an emulated network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StartupSettings {
    /// The topology.
    pub topology: String,
    /// The control link.
    pub link: LinkSettings,
    /// Seconds after which hosts that have not been reached count as never reached.
    pub timeout_s: f64,
}

impl Default for StartupSettings {
    fn default() -> Self {
        Self {
            topology: "leafspine,2,4,2".to_owned(),
            link: LinkSettings::default(),
            timeout_s: 60.0,
        }
    }
}

/// Settings of a test of RFC 8456.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rfc8456Settings {
    /// Section of the test, `5.1.1` to `5.4.2`.
    pub test: String,
    /// The topology.
    #[serde(default = "rfc8456_topology")]
    pub topology: String,
    /// Seconds of a trial, where the test has a duration.
    #[serde(default = "rfc8456_seconds")]
    pub seconds: f64,
    /// Length of the data frames in bytes, without FCS.
    #[serde(default = "rfc8456_frame")]
    pub frame_bytes: u32,
}

fn rfc8456_topology() -> String {
    "leafspine,2,4,2".to_owned()
}

fn rfc8456_seconds() -> f64 {
    5.0
}

fn rfc8456_frame() -> u32 {
    128
}
