//! The figures that a measurement has, by name.

use super::Measure;

/// Figures of every measurement by the bench: name, unit and meaning.
const BENCH: [(&str, &str, &str); 14] = [
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

/// Names of the figures that samples of `measure` have; `None` for the tests of RFC 8456, each of which has its own.
pub(super) fn names(measure: &Measure) -> Option<Vec<&'static str>> {
    let tables: &[&[(&str, &str, &str)]] = match measure {
        Measure::Bench(_) => &[&BENCH],
        Measure::Paths(_) => &[&BENCH, &PATHS],
        Measure::Startup(_) => &[&STARTUP],
        Measure::Rfc8456(_) => return None,
    };
    Some(tables.iter().flat_map(|table| table.iter().map(|(name, ..)| *name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_all_figures() {
        let page = include_str!("../../../../docs/study.md");
        for (name, unit, meaning) in BENCH.iter().chain(&PATHS).chain(&STARTUP) {
            let row = format!("| `{name}` | {unit} | {meaning} |");
            assert!(page.contains(&row), "missing in docs/study.md: {row}");
        }
    }
}
