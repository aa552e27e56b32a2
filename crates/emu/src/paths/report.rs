//! The report of a measurement.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::wiring::Wiring;
use super::{LoopCounters, PathsConfig};

/// The longest latency that is recorded, in nanoseconds; longer ones count as this.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// The report of a measurement.
#[derive(Debug, Clone)]
pub struct PathsReport {
    /// Number of switches.
    pub switches: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Length of the requested paths, in switches.
    pub path_len: usize,
    /// Maximum number of outstanding path requests.
    pub window: usize,
    /// Results of each measured loop.
    pub loops: Vec<LoopResult>,
    /// Time from the first packet to the end of the iteration in which the path was complete.
    pub latency_ns: Histogram<u64>,
}

/// The results of one loop.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LoopResult {
    /// Paths installed per second.
    pub paths_per_second: f64,
    /// Flow entries received per second.
    pub flow_entries_per_second: f64,
    /// Packet-outs to ports per second.
    pub packet_outs_per_second: f64,
    /// Path requests that were not complete within a second.
    pub lost: u64,
    /// CPU time of the generator per second, 0 to 1.
    pub cpu_share: f64,
}

/// The JSON form, which other programs parse.
#[derive(Serialize)]
struct JsonReport<'a> {
    schema: &'static str,
    switches: usize,
    hosts: usize,
    path_len: usize,
    window: usize,
    paths_per_second: f64,
    flow_entries_per_second: f64,
    lost: u64,
    cpu_share: f64,
    latency_ns: JsonLatency,
    loops: &'a [LoopResult],
}

#[derive(Serialize)]
struct JsonLatency {
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl PathsReport {
    pub(super) fn new(config: &PathsConfig, wiring: &Wiring) -> Self {
        Self {
            switches: config.topology.switches.len(),
            hosts: wiring.hosts().len(),
            path_len: wiring.path_len(),
            window: config.window,
            loops: vec![],
            latency_ns: histogram(),
        }
    }

    pub(super) fn add(
        &mut self,
        counters: LoopCounters,
        lost: u64,
        time: Duration,
        used: Duration,
    ) {
        let per_second = |n: u64| rate(n, time);
        self.loops.push(LoopResult {
            paths_per_second: per_second(counters.paths),
            flow_entries_per_second: per_second(counters.flow_entries),
            packet_outs_per_second: per_second(counters.packet_outs),
            lost,
            cpu_share: used.as_secs_f64() / time.as_secs_f64().max(1e-9),
        });
        let added = self.latency_ns.add(counters.latency_ns);
        debug_assert!(added.is_ok(), "both have the same bounds");
    }

    fn mean(&self, of: impl Fn(&LoopResult) -> f64) -> f64 {
        let count = u32::try_from(self.loops.len()).unwrap_or(u32::MAX);
        self.loops.iter().map(of).sum::<f64>() / f64::from(count.max(1))
    }

    /// Path requests that were not complete within a second.
    pub fn lost(&self) -> u64 {
        self.loops.iter().map(|figures| figures.lost).sum()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        let latency = |share| self.latency_ns.value_at_quantile(share);
        let document = JsonReport {
            schema: "sluice-paths/2",
            switches: self.switches,
            hosts: self.hosts,
            path_len: self.path_len,
            window: self.window,
            paths_per_second: self.mean(|figures| figures.paths_per_second),
            flow_entries_per_second: self.mean(|figures| figures.flow_entries_per_second),
            lost: self.lost(),
            cpu_share: self.mean(|figures| figures.cpu_share),
            latency_ns: JsonLatency {
                count: self.latency_ns.len(),
                p50: latency(0.5),
                p90: latency(0.9),
                p99: latency(0.99),
                max: self.latency_ns.max(),
            },
            loops: &self.loops,
        };
        // Only numbers and names: serialisation cannot fail.
        serde_json::to_string(&document).unwrap_or_default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2⁵³")]
fn rate(n: u64, time: Duration) -> f64 {
    n as f64 / time.as_secs_f64().max(1e-9)
}

/// A histogram with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_max(LATENCY_MAX_NS, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("these bounds are in order"),
    }
}

impl fmt::Display for PathsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switches, hosts, path_len, window, .. } = self;
        let us = |share| Duration::from_nanos(self.latency_ns.value_at_quantile(share));
        writeln!(
            f,
            "network     {switches} switches, {hosts} hosts; {path_len} switches per path, {window} in flight"
        )?;
        writeln!(f, "paths       {:.0}/s", self.mean(|figures| figures.paths_per_second))?;
        writeln!(f, "flow-mods   {:.0}/s", self.mean(|figures| figures.flow_entries_per_second))?;
        writeln!(f, "latency     p50 {:.1?}, p90 {:.1?}, p99 {:.1?}", us(0.5), us(0.9), us(0.99))?;
        writeln!(f, "timed out   {}", self.lost())?;
        writeln!(f, "generator   {:.2} CPU cores", self.mean(|figures| figures.cpu_share))
    }
}
