//! Whether what a file says can be carried out.

use sluice_emu::host::{STREAM_DATA_MAX, STREAM_DATA_MIN};
use sluice_emu::topology::Topology;

use super::{
    Axis, AxisValue, ControllerRow, Experiment, Figure, FigureKind, LinkSettings, LoadSetting,
    Measure, PathRequestScope, SocketCores, metrics, placeholder_names,
};

use crate::measure::CHANGES_PER_S_MAX;
use crate::rfc8456::{self, FRAME_BYTES_MAX, FRAME_BYTES_MIN};

/// Most samples of a cell.
const ROUNDS_MAX: u32 = 1000;

/// Most values of an axis.
const VALUES_MAX: usize = 100;

/// Longest time of a setting in seconds.
const SECONDS_MAX: f64 = 86_400.0;

/// Most packets per second of a stream: more than an emulated network forwards.
const PACKETS_PER_S_MAX: u32 = 1_000_000;

/// Versions of OpenFlow.
const VERSIONS: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];

/// Checks a controller.
pub(super) fn check_controller(row: &ControllerRow) -> Result<(), String> {
    if row.title.trim().is_empty() {
        return Err("title is empty".to_owned());
    }
    if row.openflow.is_empty() {
        return Err("openflow is empty: name at least one version, such as \"1.3\"".to_owned());
    }
    for version in &row.openflow {
        if !VERSIONS.contains(&version.as_str()) {
            return Err(format!(
                "openflow: unknown version {version:?} (expected one of {})",
                VERSIONS.join(", ")
            ));
        }
    }
    if row.threads_max == Some(0) {
        return Err("threads_max: 0 (expected at least 1)".to_owned());
    }
    let members_per_link = row.northbound.as_ref().map(|it| it.members_per_link);
    if members_per_link.is_some_and(|n| !(1..=2).contains(&n)) {
        return Err("northbound.members_per_link: expected 1 or 2".to_owned());
    }
    let path = row.northbound.as_ref().and_then(|it| it.path.as_ref());
    if path.is_some_and(|it| (it.per == PathRequestScope::Entries) == it.entry.is_empty()) {
        return Err(
            "northbound.path: entry is needed with per = \"entries\", and only then".to_owned()
        );
    }
    seconds("ready.timeout_s", row.ready.timeout_s)?;
    seconds("ready.settle_s", row.ready.settle_s)?;
    seconds("stop.grace_s", row.stop.grace_s)?;
    seconds("warm_up_s", row.warm_up_s)?;
    for name in row.start.files.keys() {
        let is_inside = !name.starts_with('/') && name.split('/').all(|part| part != "..");
        if name.is_empty() || !is_inside {
            return Err(format!("start.files: {name:?} is not a path inside of the folder"));
        }
    }
    placeholder_names::check(row)
}

/// Checks a number of samples of each cell.
pub(crate) fn check_rounds(rounds: u32) -> Result<(), String> {
    if (1..=ROUNDS_MAX).contains(&rounds) {
        return Ok(());
    }
    Err(format!("{rounds} rounds (expected 1 to {ROUNDS_MAX})"))
}

/// Checks an experiment.
pub(super) fn check_experiment(experiment: &Experiment) -> Result<(), String> {
    let short = experiment.short.as_ref();
    for (key, rounds) in
        [("rounds", Some(experiment.rounds)), ("short.rounds", short.and_then(|it| it.rounds))]
    {
        if let Some(rounds) = rounds {
            check_rounds(rounds).map_err(|_| format!("{key}: expected 1 to {ROUNDS_MAX}"))?;
        }
    }
    if let Some(time) = short.and_then(|it| it.seconds) {
        positive_seconds("short.seconds", time)?;
    }
    check_measure(&experiment.measure)?;
    let short_axes = short.map(|it| &it.axes);
    for (key, axes) in [("axes", Some(&experiment.axes)), ("short.axes", short_axes)] {
        for (axis, values) in axes.into_iter().flatten() {
            check_axis(&experiment.measure, *axis, values)
                .map_err(|why| format!("{key}.{}: {why}", axis.name()))?;
        }
    }
    check_load_axes(experiment)?;
    for axis in short_axes.into_iter().flatten().map(|(axis, _)| axis) {
        if !experiment.axes.contains_key(axis) {
            return Err(format!("short.axes.{}: not one of the axes", axis.name()));
        }
    }
    if experiment.figures.is_empty() {
        return Err("figures is empty: nothing would be shown".to_owned());
    }
    for (n, figure) in experiment.figures.iter().enumerate() {
        if experiment.figures.iter().take(n).any(|other| other.id == figure.id) {
            return Err(format!("figure {}: there are two with this id", figure.id));
        }
        check_figure(experiment, figure).map_err(|why| format!("figure {}: {why}", figure.id))?;
    }
    for published in &experiment.published {
        if !experiment.figures.iter().any(|figure| figure.id == published.figure) {
            return Err(format!("published: there is no figure {:?}", published.figure));
        }
        for value in &published.values {
            let x = value.x.as_ref().and_then(AxisValue::as_number);
            let numbers = [Some(value.y), value.deviation, x];
            if !numbers.into_iter().flatten().all(f64::is_finite) {
                return Err(format!("published: {:?} has a value that is no number", value.series));
            }
        }
    }
    Ok(())
}

fn check_measure(measure: &Measure) -> Result<(), String> {
    match measure {
        Measure::Bench(it) => {
            if let LoadSetting::Rate(rate) = it.load {
                within("measure.load.rate", rate, 1e-3, 1e9)?;
            }
            within("measure.new_sources", it.new_sources, 0.0, 1.0)?;
            check_link(&it.link)?;
            positive_seconds("measure.seconds", it.seconds)?;
            seconds("measure.warm_up_s", it.warm_up_s)?;
            seconds("measure.delay_s", it.delay_s)?;
            seconds("measure.after_s", it.after_s)
        }
        Measure::Paths(it) => {
            check_topology("measure.topology", &it.topology)?;
            positive_seconds("measure.seconds", it.seconds)?;
            seconds("measure.warm_up_s", it.warm_up_s)?;
            seconds("measure.delay_s", it.delay_s)
        }
        Measure::Startup(it) => {
            check_topology("measure.topology", &it.topology)?;
            check_link(&it.link)?;
            positive_seconds("measure.timeout_s", it.timeout_s)
        }
        Measure::Connection(it) => {
            check_topology("measure.topology", &it.topology)?;
            check_link(&it.link)?;
            positive_seconds("measure.timeout_s", it.timeout_s)
        }
        Measure::Cbench(it) => {
            positive_seconds("measure.seconds", it.seconds)?;
            seconds("measure.warm_up_s", it.warm_up_s)
        }
        Measure::Stream(it) => {
            check_topology("measure.topology", &it.topology)?;
            check_link(&it.link)?;
            if !(1..=PACKETS_PER_S_MAX).contains(&it.packets_per_s) {
                return Err(format!(
                    "measure.packets_per_s: {} (expected 1 to {PACKETS_PER_S_MAX})",
                    it.packets_per_s
                ));
            }
            if !(STREAM_DATA_MIN..=STREAM_DATA_MAX).contains(&(it.packet_bytes as usize)) {
                return Err(format!(
                    "measure.packet_bytes: {} (expected {STREAM_DATA_MIN} to {STREAM_DATA_MAX})",
                    it.packet_bytes
                ));
            }
            positive_seconds("measure.seconds", it.seconds)
        }
        Measure::Rfc8456(it) => {
            if !rfc8456::is_known(&it.test) {
                return Err(format!(
                    "measure.test: unknown section {:?} (expected 5.1.1 to 5.4.2)",
                    it.test
                ));
            }
            check_topology("measure.topology", &it.topology)?;
            check_frame_bytes(it.frame_bytes.into())
                .map_err(|why| format!("measure.frame_bytes: {why}"))?;
            positive_seconds("measure.seconds", it.seconds)
        }
    }
}

fn check_frame_bytes(bytes: u64) -> Result<(), String> {
    if (u64::from(FRAME_BYTES_MIN)..=FRAME_BYTES_MAX.into()).contains(&bytes) {
        return Ok(());
    }
    Err(format!("{bytes} (expected {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX})"))
}

/// Refuses several axes that set the load, of which only one would have an effect.
fn check_load_axes(experiment: &Experiment) -> Result<(), String> {
    let all = [Axis::Window, Axis::WindowTotal, Axis::Rate];
    let mut present = all.into_iter().filter(|axis| experiment.axes.contains_key(axis));
    match (present.next(), present.next()) {
        (Some(first), Some(second)) => Err(format!(
            "axes.{}: axes.{} sets the load, too (expected one of window, window-total and rate)",
            second.name(),
            first.name()
        )),
        _ => Ok(()),
    }
}

fn check_topology(key: &str, topology: &str) -> Result<(), String> {
    Topology::from_text(topology).map(drop).map_err(|error| format!("{key}: {topology}: {error}"))
}

fn check_link(link: &LinkSettings) -> Result<(), String> {
    within("measure.link.delay_ms", link.delay_ms, 0.0, 1e6)?;
    within("measure.link.rate_mbit", link.rate_mbit, 0.0, 1e6)
}

/// Whether a number is in a range, which NaN is not.
fn within(key: &str, value: f64, min: f64, max: f64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{key}: {value} (expected {min} to {max})"))
}

/// The axes that a measurement has.
fn axes(measure: &Measure) -> Vec<Axis> {
    use Axis::{
        Churn, Cores, DelayMs, Flood, Hosts, NewSources, Rate, RateMbit, Switches, Threads,
        Topology, Variant, Window, WindowTotal,
    };
    let of_measure: &[Axis] = match measure {
        Measure::Bench(_) => &[
            Switches,
            Window,
            WindowTotal,
            Rate,
            NewSources,
            Hosts,
            Flood,
            Churn,
            DelayMs,
            RateMbit,
        ],
        Measure::Paths(_) => &[Topology, Window],
        Measure::Startup(_) | Measure::Connection(_) => &[Topology, DelayMs, RateMbit],
        Measure::Stream(_) => &[Topology, DelayMs, RateMbit, Rate],
        Measure::Cbench(_) => &[],
        Measure::Rfc8456(it) => rfc8456::axes(&it.test),
    };
    [&[Threads, Cores, Variant][..], of_measure].concat()
}

fn check_axis(measure: &Measure, axis: Axis, values: &[AxisValue]) -> Result<(), String> {
    let allowed = axes(measure);
    if !allowed.contains(&axis) {
        let names: Vec<_> = allowed.iter().map(|axis| axis.name()).collect();
        let names = names.join(", ");
        return Err(match measure {
            Measure::Rfc8456(it) => format!("test {} does not have it (it has {names})", it.test),
            _ => format!("this measurement does not have it (it has {names})"),
        });
    }
    if values.is_empty() || values.len() > VALUES_MAX {
        return Err(format!("{} values (expected 1 to {VALUES_MAX})", values.len()));
    }
    for (n, value) in values.iter().enumerate() {
        let is_equal = |other: &AxisValue| match (other.as_number(), value.as_number()) {
            (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
            _ => other == value,
        };
        if values.iter().take(n).any(is_equal) {
            return Err(format!("{value} is there twice"));
        }
        if let (Axis::Topology, AxisValue::Text(text)) = (axis, value) {
            check_topology("topology", text)?;
        }
        if let (Axis::FrameBytes, AxisValue::Integer(bytes)) = (axis, value) {
            check_frame_bytes(*bytes)?;
        }
        let is_valid = match (axis, value) {
            (Axis::Cores, AxisValue::Text(text)) => is_core_set(text),
            (Axis::Variant | Axis::Topology, AxisValue::Text(_))
            | (Axis::FrameBytes, AxisValue::Integer(_)) => true,
            (Axis::Flood, AxisValue::Integer(n)) => *n <= 1_000_000,
            (Axis::Churn, AxisValue::Integer(n)) => *n <= CHANGES_PER_S_MAX,
            (
                Axis::Threads | Axis::Switches | Axis::Window | Axis::WindowTotal | Axis::Hosts,
                AxisValue::Integer(n),
            ) => (1..=1 << 24).contains(n),
            (Axis::NewSources | Axis::Invalid, value) => {
                value.as_number().is_some_and(|share| (0.0..=1.0).contains(&share))
            }
            (Axis::Rate, value) if matches!(measure, Measure::Stream(_)) => {
                matches!(value, AxisValue::Integer(n) if (1..=PACKETS_PER_S_MAX.into()).contains(n))
            }
            (Axis::Rate, value) => value.as_number().is_some_and(|rate| rate > 0.0 && rate <= 1e9),
            (Axis::DelayMs | Axis::RateMbit, value) => {
                value.as_number().is_some_and(|it| (0.0..=1e6).contains(&it))
            }
            _ => false,
        };
        if !is_valid {
            return Err(format!("invalid value {value}"));
        }
    }
    Ok(())
}

/// Whether this is a list of cores, or the name of a set of them.
fn is_core_set(text: &str) -> bool {
    SocketCores::from_name(text).is_some()
        || text.split(',').all(|core| core.trim().parse::<usize>().is_ok())
}

fn check_figure(experiment: &Experiment, figure: &Figure) -> Result<(), String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if figure.id.is_empty() || !figure.id.bytes().all(is_name) {
        return Err("id: expected letters, digits and hyphens".to_owned());
    }
    let used = figure.x.iter().chain(&figure.panels).chain(figure.only.keys());
    for axis in used {
        if !experiment.axes.contains_key(axis) {
            return Err(format!("{} is not one of the axes", axis.name()));
        }
    }
    let needs_metric = !matches!(figure.kind, FigureKind::Cdf | FigureKind::Memory);
    if needs_metric && figure.metric.is_empty() {
        return Err("metric is missing".to_owned());
    }
    if needs_metric {
        check_metric(&experiment.measure, figure)?;
    }
    if figure.kind == FigureKind::Lines && figure.x.is_none() {
        return Err("x is missing: the axis along which the line is drawn".to_owned());
    }
    Ok(())
}

/// Whether samples have the metric of a figure, in its unit.
fn check_metric(measure: &Measure, figure: &Figure) -> Result<(), String> {
    let Some(metric) = metrics::find(measure, &figure.metric) else {
        let names = metrics::names(measure).join(", ");
        return Err(format!("unknown metric {:?} (known: {names})", figure.metric));
    };
    if figure.unit.is_empty() || figure.unit == metric.unit {
        return Ok(());
    }
    Err(format!("unit {:?}: {} has the unit {:?}", figure.unit, metric.name, metric.unit))
}

fn seconds(key: &str, value: f64) -> Result<(), String> {
    within(key, value, 0.0, SECONDS_MAX)
}

fn positive_seconds(key: &str, value: f64) -> Result<(), String> {
    if value > 0.0 {
        seconds(key, value)
    } else {
        Err(format!("{key}: {value} (expected more than 0)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(measure: &str, figure: &str) -> Result<(), String> {
        let text = format!(
            "title = \"x\"\nquestion = \"x\"\n[measure]\n{measure}\n[[figures]]\nid = \"a\"\nkind = \"bars\"\ntitle = \"x\"\n\
             caption = \"x\"\n{figure}\n"
        );
        check_experiment(&toml::from_str(&text).unwrap())
    }

    #[test]
    fn metrics_have_declared_names_and_units() {
        let rfc8456 = "kind = \"rfc8456\"\ntest = \"5.1.8\"";
        assert_eq!(checked(rfc8456, "metric = \"detection_ms\"\nunit = \"ms\""), Ok(()));
        assert_eq!(checked(rfc8456, "metric = \"detection_ms\""), Ok(()));
        assert_eq!(
            checked(rfc8456, "metric = \"detection_ms\"\nunit = \"s\""),
            Err("figure a: unit \"s\": detection_ms has the unit \"ms\"".to_owned())
        );
        assert_eq!(
            checked(rfc8456, "metric = \"rate\""),
            Err("figure a: unknown metric \"rate\" (known: detection_ms, northbound_ms)".to_owned())
        );
    }

    /// The result for a measurement with these axes.
    fn with_axes(measure: &str, axes: &str, metric: &str) -> Result<(), String> {
        checked(&format!("{measure}\n[axes]\n{axes}"), &format!("metric = \"{metric}\""))
    }

    fn rfc8456_with(test: &str, axes: &str) -> Result<(), String> {
        let metric = match test {
            "5.1.4" | "5.3.1" | "5.3.2" => "path_ms",
            "5.2.1" => "sessions",
            "5.2.2" => "nodes",
            _ => "rate",
        };
        with_axes(&format!("kind = \"rfc8456\"\ntest = \"{test}\""), axes, metric)
    }

    #[test]
    fn a_test_of_rfc_8456_refuses_axes_that_it_does_not_use() {
        let topology = "topology = [\"linear,2\"]";
        for (test, axes) in [
            ("5.1.4", "frame-bytes = [60, 1514]"),
            ("5.1.6", topology),
            ("5.3.1", "invalid = [0, 0.5]"),
            ("5.3.2", "flood = [0, 10]"),
        ] {
            assert_eq!(rfc8456_with(test, axes), Ok(()), "{test}");
        }
        assert_eq!(
            rfc8456_with("5.1.4", "flood = [0, 10]").unwrap_err(),
            "axes.flood: test 5.1.4 does not have it (it has threads, cores, variant, topology, frame-bytes)"
        );
        for (test, axes) in [
            ("5.1.4", "invalid = [0, 0.5]"),
            ("5.3.1", "flood = [0, 10]"),
            ("5.3.2", "invalid = [0, 0.5]"),
            ("5.1.6", "frame-bytes = [128]"),
            ("5.2.1", topology),
            ("5.2.2", topology),
        ] {
            let error = rfc8456_with(test, axes).unwrap_err();
            assert!(error.contains(&format!("test {test} does not have it")), "{error}");
        }
    }

    #[test]
    fn a_length_of_frames_that_ethernet_does_not_have_is_refused() {
        assert_eq!(
            rfc8456_with("5.1.4", "frame-bytes = [128, 1515]").unwrap_err(),
            "axes.frame-bytes: 1515 (expected 60 to 1514)"
        );
        assert!(rfc8456_with("5.1.4", "frame-bytes = [59]").is_err());
        assert_eq!(
            checked("kind = \"rfc8456\"\ntest = \"5.1.6\"\nframe_bytes = 59", "metric = \"rate\"")
                .unwrap_err(),
            "measure.frame_bytes: 59 (expected 60 to 1514)"
        );
    }

    #[test]
    fn only_one_axis_sets_the_load() {
        let bench = |axes: &str| with_axes("kind = \"bench\"", axes, "rate");
        assert_eq!(bench("window = [1, 2]\nswitches = [1, 2]"), Ok(()));
        assert_eq!(
            bench("window = [1, 2]\nwindow-total = [16]").unwrap_err(),
            "axes.window-total: axes.window sets the load, too (expected one of window, window-total and rate)"
        );
        for axes in ["rate = [1]\nwindow = [1]", "rate = [1]\nwindow-total = [1]"] {
            assert!(bench(axes).unwrap_err().starts_with("axes.rate: axes.window"), "{axes}");
        }
    }

    #[test]
    fn the_length_of_packets_is_refused_rather_than_changed() {
        let stream = |bytes: u32| {
            checked(&format!("kind = \"stream\"\npacket_bytes = {bytes}"), "metric = \"lost\"")
        };
        assert_eq!(stream(1452), Ok(()));
        for bytes in [0, 27, 1453, u32::MAX] {
            assert!(stream(bytes).unwrap_err().starts_with("measure.packet_bytes"), "{bytes}");
        }
    }
}
