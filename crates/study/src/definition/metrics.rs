//! The figures that a measurement has, by name.

use super::Measure;

/// Figures of every measurement by the bench: name, unit and meaning.
const BENCH: [(&str, &str, &str); 18] = [
    ("rate", "1/s", "requests answered per second; of `paths`, paths installed per second"),
    ("mean_us", "us", "mean response time of the requests that were answered"),
    ("deviation_us", "us", "standard deviation of the response times within the sample"),
    ("min_us", "us", "shortest response time"),
    ("p50_us", "us", "median of the response times of all requests"),
    ("p90_us", "us", "90th percentile"),
    ("p99_us", "us", "99th percentile"),
    ("p999_us", "us", "99.9th percentile"),
    ("fairness", "", "Jain's index of the rates of the switches"),
    ("unanswered", "", "share of the requests that were not answered in time"),
    ("cpu_cores", "cores", "processor time of the controller, divided by the measured time"),
    ("cpu_us_per_answer", "us", "processor time of the controller for each answer"),
    (
        "power_w",
        "W",
        "power of all processor packages, with that of the generator; only where the machine has energy counters (RAPL)",
    ),
    ("energy_uj_per_answer", "uJ", "the same for each answer"),
    ("flood_per_s", "1/s", "connections of the flood that were opened per second"),
    (
        "changes",
        "",
        "changes of the network of the churn, from the first handshake of the bench to its end",
    ),
    ("resident_mib", "MiB", "largest resident memory of the controller during the load"),
    ("resident_after_mib", "MiB", "resident memory `after_s` seconds after the load"),
];

/// Figures of paths in addition to those of the bench.
const PATHS: [(&str, &str, &str); 2] = [
    ("flow_mods_per_s", "1/s", "flow-mods executed per second"),
    ("packet_outs_per_s", "1/s", "packet-outs executed per second"),
];

/// Figures of the start of a network.
const STARTUP: [(&str, &str, &str); 3] = [
    ("connected_s", "s", "time until all switches are connected"),
    ("half_reached_s", "s", "time until half of the hosts have reached another"),
    ("all_reached_s", "s", "time until all hosts have reached another"),
];

/// Figures of TCP connections.
const CONNECTION: [(&str, &str, &str); 6] = [
    (
        "first_connection_s",
        "s",
        "time to establish a TCP connection between hosts that have never sent anything before, with address resolution",
    ),
    ("second_connection_s", "s", "the same for another connection between them, afterwards"),
    ("first_packet_ins", "", "packet-ins of all switches because of the first connection"),
    ("second_packet_ins", "", "packet-ins because of the second"),
    (
        "first_flow_entries",
        "",
        "flow-mods that add or modify entries, because of the first connection",
    ),
    ("second_flow_entries", "", "the same because of the second"),
];

/// Figures of a UDP stream.
const STREAM: [(&str, &str, &str); 6] = [
    ("lost", "", "share of the packets that did not arrive"),
    ("lost_packets", "", "packets that did not arrive"),
    ("duplicates", "", "packets that arrived once more"),
    ("reordered", "", "packets that arrived after one that was sent later"),
    ("stream_packet_ins", "", "packet-ins of all switches"),
    ("stream_flow_entries", "", "flow-mods that add or modify entries"),
];

/// Figures of a comparison with cbench.
const CBENCH: [(&str, &str, &str); 6] = [
    (
        "throughput_cbench",
        "1/s",
        "flow-mods and packet-outs per second that cbench has counted with as many requests as the sockets take",
    ),
    ("throughput_bench", "1/s", "the same, counted by `sluice bench`"),
    ("throughput_ratio", "", "the second divided by the first"),
    (
        "latency_cbench",
        "1/s",
        "flow-mods and packet-outs per second that cbench has counted with one request per switch",
    ),
    ("latency_bench", "1/s", "the same, counted by `sluice bench`"),
    ("latency_ratio", "", "the second divided by the first"),
];

/// The figures that samples of `measure` have; none of the tests of RFC 8456, each of which has its own.
fn tables(measure: &Measure) -> &'static [&'static [(&'static str, &'static str, &'static str)]] {
    match measure {
        Measure::Bench(_) => &[&BENCH],
        Measure::Paths(_) => &[&BENCH, &PATHS],
        Measure::Startup(_) => &[&STARTUP],
        Measure::Connection(_) => &[&CONNECTION],
        Measure::Stream(_) => &[&STREAM],
        Measure::Cbench(_) => &[&CBENCH],
        Measure::Rfc8456(_) => &[],
    }
}

/// Names of the figures that samples of `measure` have; `None` if they are not known.
pub(super) fn names(measure: &Measure) -> Option<Vec<&'static str>> {
    let all = tables(measure).iter().flat_map(|table| table.iter().map(|(name, ..)| *name));
    Some(all.collect::<Vec<_>>()).filter(|names| !names.is_empty())
}

/// The unit of a figure; `None` if it is not known.
pub(crate) fn unit(measure: &Measure, name: &str) -> Option<&'static str> {
    let mut all = tables(measure).iter().flat_map(|table| table.iter());
    all.find(|(known, ..)| *known == name).map(|(_, unit, _)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_all_figures() {
        let page = include_str!("../../../../docs/study.md");
        let tables = BENCH
            .iter()
            .chain(&PATHS)
            .chain(&STARTUP)
            .chain(&CONNECTION)
            .chain(&STREAM)
            .chain(&CBENCH);
        for (name, unit, meaning) in tables {
            let row = format!("| `{name}` | {unit} | {meaning} |");
            assert!(page.contains(&row), "missing in docs/study.md: {row}");
        }
    }
}
