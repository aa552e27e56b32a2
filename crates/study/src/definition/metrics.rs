//! The figures that a measurement has: name, unit, and which values are better.

use super::Measure;

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Rates, capacities, fairness.
    HigherIsBetter,
    /// Latencies, durations, memory, losses.
    LowerIsBetter,
    /// Settings and counts that are neither good nor bad.
    Neutral,
}

impl Direction {
    /// The word of tables and JSON; `None` if neither is better.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::HigherIsBetter => Some("higher"),
            Self::LowerIsBetter => Some("lower"),
            Self::Neutral => None,
        }
    }
}

/// A figure of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// Empty for a number without one.
    pub(crate) unit: &'static str,
    pub(crate) direction: Direction,
    /// What it is, for the documentation, which a test compares.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test of the documentation"))]
    meaning: &'static str,
}

const fn higher(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, direction: Direction::HigherIsBetter, meaning }
}

const fn lower(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, direction: Direction::LowerIsBetter, meaning }
}

const fn neutral(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, direction: Direction::Neutral, meaning }
}

/// Figures of every measurement by the bench.
const BENCH: [Metric; 18] = [
    higher("rate", "1/s", "requests answered per second; of `paths`, paths installed per second"),
    lower("mean_us", "us", "mean response time of the requests that were answered"),
    lower("deviation_us", "us", "standard deviation of the response times within the sample"),
    lower("min_us", "us", "shortest response time"),
    lower("p50_us", "us", "median of the response times of all requests"),
    lower("p90_us", "us", "90th percentile"),
    lower("p99_us", "us", "99th percentile"),
    lower("p999_us", "us", "99.9th percentile"),
    higher("fairness", "", "Jain's index of the rates of the switches"),
    lower("unanswered", "", "share of the requests that were not answered in time"),
    neutral("cpu_cores", "cores", "processor time of the controller, divided by the measured time"),
    lower("cpu_us_per_answer", "us", "processor time of the controller for each answer"),
    lower(
        "power_w",
        "W",
        "power of all processor packages, with that of the generator; only where the machine has energy counters (RAPL)",
    ),
    lower("energy_uj_per_answer", "uJ", "the same for each answer"),
    neutral("flood_per_s", "1/s", "connections of the flood that were opened per second"),
    neutral(
        "changes",
        "",
        "changes of the network of the churn, from the first handshake of the bench to its end",
    ),
    lower("resident_mib", "MiB", "largest resident memory of the controller during the load"),
    lower("resident_after_mib", "MiB", "resident memory `after_s` seconds after the load"),
];

/// Figures of paths in addition to those of the bench.
const PATHS: [Metric; 2] = [
    neutral("flow_mods_per_s", "1/s", "flow-mods executed per second"),
    neutral("packet_outs_per_s", "1/s", "packet-outs executed per second"),
];

/// Figures of the start of a network.
const STARTUP: [Metric; 3] = [
    lower("connected_s", "s", "time until all switches are connected"),
    lower("half_reached_s", "s", "time until half of the hosts have reached another"),
    lower("all_reached_s", "s", "time until all hosts have reached another"),
];

/// Figures of TCP connections.
const CONNECTION: [Metric; 6] = [
    lower(
        "first_connection_s",
        "s",
        "time to establish a TCP connection between hosts that have never sent anything before, with address resolution",
    ),
    lower("second_connection_s", "s", "the same for another connection between them, afterwards"),
    neutral("first_packet_ins", "", "packet-ins of all switches because of the first connection"),
    neutral("second_packet_ins", "", "packet-ins because of the second"),
    neutral(
        "first_flow_entries",
        "",
        "flow-mods that add or modify entries, because of the first connection",
    ),
    neutral("second_flow_entries", "", "the same because of the second"),
];

/// Figures of a UDP stream.
const STREAM: [Metric; 6] = [
    lower("lost", "", "share of the packets that did not arrive"),
    lower("lost_packets", "", "packets that did not arrive"),
    lower("duplicates", "", "packets that arrived once more"),
    lower("reordered", "", "packets that arrived after one that was sent later"),
    neutral("stream_packet_ins", "", "packet-ins of all switches"),
    neutral("stream_flow_entries", "", "flow-mods that add or modify entries"),
];

/// Figures of a comparison with cbench.
const CBENCH: [Metric; 6] = [
    higher(
        "throughput_cbench",
        "1/s",
        "flow-mods and packet-outs per second that cbench has counted with as many requests as the sockets take",
    ),
    higher("throughput_bench", "1/s", "the same, counted by `sluice bench`"),
    neutral("throughput_ratio", "", "the second divided by the first"),
    higher(
        "latency_cbench",
        "1/s",
        "flow-mods and packet-outs per second that cbench has counted with one request per switch",
    ),
    higher("latency_bench", "1/s", "the same, counted by `sluice bench`"),
    neutral("latency_ratio", "", "the second divided by the first"),
];

/// Figures of the tests of RFC 8456, by section.
const RFC8456: [(&str, &[Metric]); 15] = [
    (
        "5.1.1",
        &[
            lower(
                "discovery_ms",
                "ms",
                "time from the first discovery message to the last packet-in that reported a new link",
            ),
            lower(
                "last_message_ms",
                "ms",
                "time from the first discovery message to the last one before the northbound interface showed the topology",
            ),
            neutral("messages", "", "discovery messages of the controller until then"),
        ],
    ),
    (
        "5.1.2",
        &[
            lower("processing_us", "us", "mean time from a packet-in to its answer"),
            lower("p50_us", "us", "median of the times of all packet-ins"),
            lower("p99_us", "us", "99th percentile of them"),
            neutral("exchanged", "", "packet-ins that were answered in the measured time"),
            lower("unanswered_percent", "%", "share of the packet-ins that were not answered"),
        ],
    ),
    (
        "5.1.3",
        &[
            higher(
                "rate",
                "1/s",
                "answers per second, with as many packet-ins as the sockets take",
            ),
            higher("loss_free_rate", "1/s", "greatest rate at which every packet-in was answered"),
            lower(
                "loss_at_maximum_percent",
                "%",
                "share of the packet-ins without an answer at the rate of the first step",
            ),
            neutral(
                "not_sent_percent",
                "%",
                "share of the packet-ins that the load generator was too slow to send at that rate",
            ),
        ],
    ),
    (
        "5.1.4",
        &[
            lower(
                "path_ms",
                "ms",
                "time from the first packet-in to the last flow entry of the path",
            ),
            lower("frame_ms", "ms", "time from sending the frame to its arrival"),
            neutral("entries", "", "flow entries of the path"),
        ],
    ),
    (
        "5.1.5",
        &[
            lower(
                "path_ms",
                "ms",
                "time from sending the first request to the last flow entry of the path",
            ),
            lower(
                "response_ms",
                "ms",
                "time from sending the first request to the response to the last one",
            ),
            neutral("entries", "", "flow entries of the path"),
        ],
    ),
    (
        "5.1.6",
        &[
            higher("rate", "1/s", "paths installed per second"),
            neutral("offered_rate", "1/s", "paths requested per second"),
            neutral("flow_mods_per_s", "1/s", "flow-mods executed per second"),
        ],
    ),
    (
        "5.1.7",
        &[
            higher("rate", "1/s", "paths installed per second"),
            neutral("offered_rate", "1/s", "paths requested per second"),
        ],
    ),
    (
        "5.1.8",
        &[
            lower(
                "detection_ms",
                "ms",
                "time from the notification of a switch to the first discovery message after it",
            ),
            lower(
                "northbound_ms",
                "ms",
                "time from the notification until the northbound interface does not list the link",
            ),
        ],
    ),
    (
        "5.2.1",
        &[
            higher("sessions", "", "sessions that were established, served and not dropped"),
            lower("dropped", "", "sessions that were established and dropped"),
        ],
    ),
    ("5.2.2", &[higher("nodes", "", "switches of the largest network that was discovered")]),
    (
        "5.2.3",
        &[
            higher(
                "reactive_entries",
                "",
                "flow entries that the controller has added for frames of new hosts",
            ),
            higher(
                "proactive_entries",
                "",
                "flow entries that the controller has added because of requests to its northbound interface",
            ),
        ],
    ),
    (
        "5.3.1",
        &[
            lower("path_ms", "ms", "as in 5.1.4, with invalid messages"),
            lower("frame_ms", "ms", "as in 5.1.4, with invalid messages"),
            lower("detection_ms", "ms", "as in 5.1.8, with invalid messages"),
            higher("rate", "1/s", "as in 5.1.6, with invalid messages"),
            neutral("invalid_messages", "", "invalid messages that were sent"),
        ],
    ),
    (
        "5.3.2",
        &[
            lower("path_ms", "ms", "as in 5.1.4, under attack"),
            lower("frame_ms", "ms", "as in 5.1.4, under attack"),
            lower("detection_ms", "ms", "as in 5.1.8, under attack"),
            higher("rate", "1/s", "as in 5.1.6, under attack"),
            neutral("attack_connections", "", "connections that the attack has opened"),
            neutral("attack_per_s", "1/s", "connections that the attack has opened per second"),
        ],
    ),
    (
        "5.4.1",
        &[
            lower(
                "failover_ms",
                "ms",
                "time from the last frame before the first loss to the first one after which none was lost",
            ),
            lower(
                "reconnected_ms",
                "ms",
                "time until all switches are connected to the other instance",
            ),
            lower("lost", "", "frames that never arrived"),
            neutral(
                "frame_interval_ms",
                "ms",
                "time between two frames, the resolution of the failover time",
            ),
        ],
    ),
    (
        "5.4.2",
        &[
            lower(
                "forward_ms",
                "ms",
                "time from the last frame before the first loss to the first one after which none was lost, in one direction",
            ),
            lower("reverse_ms", "ms", "the same in the other direction"),
            lower("reprovisioning_ms", "ms", "mean of both"),
            lower("forward_lost", "", "frames that never arrived in one direction"),
            lower("reverse_lost", "", "the same in the other direction"),
        ],
    ),
];

/// The figures that samples of `measure` can have.
fn all(measure: &Measure) -> impl Iterator<Item = &'static Metric> {
    let tables: [&[Metric]; 2] = match measure {
        Measure::Bench(_) => [&BENCH, &[]],
        Measure::Paths(_) => [&BENCH, &PATHS],
        Measure::Startup(_) => [&STARTUP, &[]],
        Measure::Connection(_) => [&CONNECTION, &[]],
        Measure::Stream(_) => [&STREAM, &[]],
        Measure::Cbench(_) => [&CBENCH, &[]],
        Measure::Rfc8456(settings) => {
            let test = RFC8456.iter().find(|(section, _)| *section == settings.test);
            [test.map_or(&[], |(_, metrics)| metrics), &[]]
        }
    };
    tables.into_iter().flatten()
}

/// Names of the figures that samples of `measure` can have.
pub(super) fn names(measure: &Measure) -> Vec<&'static str> {
    all(measure).map(|metric| metric.name).collect()
}

/// The figure with this name; `None` if samples of `measure` do not have it.
pub(crate) fn find(measure: &Measure, name: &str) -> Option<&'static Metric> {
    all(measure).find(|metric| metric.name == name)
}

/// The unit of a figure; `None` if it is not known.
pub(crate) fn unit(measure: &Measure, name: &str) -> Option<&'static str> {
    find(measure, name).map(|metric| metric.unit)
}

/// Which values of a figure are better; neither if it is not known, as of a study by another version.
pub(crate) fn direction(measure: &Measure, name: &str) -> Direction {
    find(measure, name).map_or(Direction::Neutral, |metric| metric.direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_all_figures_with_unit_and_direction() {
        let better = |metric: &Metric| metric.direction.name().unwrap_or("");
        let page = include_str!("../../../../docs/study.md");
        let tables: [&[Metric]; 6] = [&BENCH, &PATHS, &STARTUP, &CONNECTION, &STREAM, &CBENCH];
        for metric in tables.into_iter().flatten() {
            let Metric { name, unit, meaning, .. } = metric;
            let row = format!("| `{name}` | {unit} | {} | {meaning} |", better(metric));
            assert!(page.contains(&row), "missing in docs/study.md: {row}");
        }
        let page = include_str!("../../../../docs/rfc8456.md");
        for (section, metrics) in RFC8456 {
            for metric in metrics {
                let Metric { name, unit, meaning, .. } = metric;
                let row =
                    format!("| {section} | `{name}` | {unit} | {} | {meaning} |", better(metric));
                assert!(page.contains(&row), "missing in docs/rfc8456.md: {row}");
            }
        }
    }

    #[test]
    fn names_are_unique_and_each_test_of_rfc_8456_has_figures() {
        let tables = [BENCH.iter().chain(&PATHS).collect::<Vec<_>>(), CBENCH.iter().collect()];
        let rfc8456 = RFC8456.iter().map(|(section, metrics)| {
            assert!(crate::rfc8456::is_known(section), "{section}");
            metrics.iter().collect::<Vec<_>>()
        });
        for table in tables.into_iter().chain(rfc8456) {
            let mut names: Vec<_> = table.iter().map(|metric| metric.name).collect();
            let n = names.len();
            names.sort_unstable();
            names.dedup();
            assert!(n > 0 && names.len() == n, "{names:?}");
        }
    }
}
