//! How a sample is taken, with its settings.

use serde::{Deserialize, Serialize};

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
    /// TCP connections between the ends of an emulated network.
    Connection(ConnectionSettings),
    /// A UDP stream between them.
    Stream(StreamSettings),
    /// The original cbench and `sluice bench` against the same controller.
    Cbench(CbenchSettings),
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
    /// Changes per second of a network beside the load.
    pub churn: u32,
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
            churn: 0,
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

/// Settings of TCP connections between the first and the last host of an emulated network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSettings {
    /// The topology.
    pub topology: String,
    /// The control link.
    pub link: LinkSettings,
    /// Packets that each switch can buffer.
    pub n_buffers: u32,
    /// Seconds after which a connection counts as never established.
    pub timeout_s: f64,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            topology: "linear,4,1".to_owned(),
            link: LinkSettings::default(),
            n_buffers: 0,
            timeout_s: 20.0,
        }
    }
}

/// Settings of a UDP stream between the first and the last host of an emulated network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// The topology.
    pub topology: String,
    /// The control link.
    pub link: LinkSettings,
    /// Packets that each switch can buffer.
    pub n_buffers: u32,
    /// Packets per second.
    pub packets_per_s: u32,
    /// UDP data of each packet in bytes.
    pub packet_bytes: u32,
    /// Duration of the stream in seconds.
    pub seconds: f64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            topology: "linear,4,1".to_owned(),
            link: LinkSettings::default(),
            n_buffers: 0,
            packets_per_s: 1000,
            packet_bytes: 1000,
            seconds: 3.0,
        }
    }
}

/// Settings of a comparison with the original cbench, which speaks OpenFlow 1.0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CbenchSettings {
    /// Emulated switches. Some controllers take no more than 16, with the one that tests whether they are ready.
    pub switches: u32,
    /// Hosts of each switch.
    pub hosts: u32,
    /// Seconds that are measured, by each program in each of its two modes.
    pub seconds: f64,
    /// Seconds before, which are discarded.
    pub warm_up_s: f64,
}

impl Default for CbenchSettings {
    fn default() -> Self {
        Self { switches: 8, hosts: 1000, seconds: 5.0, warm_up_s: 1.0 }
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
