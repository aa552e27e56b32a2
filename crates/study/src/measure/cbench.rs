//! The original cbench against the same controller, to check `sluice bench`.

use std::io::ErrorKind;
use std::time::Duration;

use sluice_bench::{Buffering, Load, Plan, ReplyCounting};
use sluice_io::command;
use sluice_openflow::Version;

use super::observer::Observer;
use super::{LOOPS, Measured, Subject, loops};
use crate::definition::CbenchSettings;

/// The program, where [`CbenchSettings`] look for it.
pub(crate) const PROGRAM: &str = "{home}/cbench/cbench";

/// Seconds between the last handshake and the first request.
const DELAY_S: f64 = 1.0;

/// Time for handshakes, besides the loops of cbench.
const SPARE: Duration = Duration::from_secs(30);

/// How cbench puts load on a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As many requests as the sockets take.
    Throughput,
    /// One request per switch.
    Latency,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        }
    }
}

/// Measures with cbench, then with `sluice bench`, which counts every flow-mod and packet-out, like cbench.
pub(super) fn measure(
    settings: &CbenchSettings,
    subject: &mut Subject<'_>,
) -> Result<Measured, String> {
    if !subject.row.openflow.iter().any(|version| version == "1.0") {
        return Err("it does not speak OpenFlow 1.0, the only version of cbench".to_owned());
    }
    let mut measured = Measured::default();
    // Code that is compiled while it runs is compiled after the first.
    let mut warm_up_s = settings.warm_up_s.max(subject.row.warm_up_s);
    for mode in [Mode::Throughput, Mode::Latency] {
        let cbench = run_cbench(settings, (mode, warm_up_s), subject)?;
        warm_up_s = settings.warm_up_s;
        let bench = run_bench(settings, (mode, warm_up_s), subject)?;
        measured.set(&format!("{}_cbench", mode.name()), cbench);
        measured.set(&format!("{}_bench", mode.name()), bench);
        if cbench > 0.0 {
            measured.set(&format!("{}_ratio", mode.name()), bench / cbench);
        }
    }
    if !measured.figures.keys().any(|name| name.ends_with("_ratio")) {
        return Err("cbench has counted no message".to_owned());
    }
    Ok(measured)
}

fn run_cbench(
    settings: &CbenchSettings,
    (mode, warm_up_s): (Mode, f64),
    subject: &mut Subject<'_>,
) -> Result<f64, String> {
    let (loop_time, warm_up) = loops(settings.seconds, warm_up_s);
    let loops = warm_up + LOOPS;
    let port = subject.target.port().to_string();
    let arguments = [
        ("-p", port),
        ("-s", settings.switches.to_string()),
        ("-M", settings.hosts.to_string()),
        ("-l", loops.to_string()),
        ("-w", warm_up.to_string()),
        ("-m", loop_time.as_millis().to_string()),
        ("-D", (DELAY_S * 1e3).to_string()),
    ];
    let mut words = vec!["-c", "127.0.0.1"];
    words.extend(arguments.iter().flat_map(|(option, value)| [*option, value.as_str()]));
    words.extend((mode == Mode::Throughput).then_some("-t"));
    let program = subject.placeholders.fill(PROGRAM);
    let timeout = loop_time * loops + SPARE;
    // On the cores of the generator, like this thread.
    let output = command::output(&program, &words, timeout);
    subject.controller.observe();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => format!("cbench did not end within {} s", timeout.as_secs()),
        _ => format!("{program}: {error}"),
    })?;
    mean_of(&output.stdout)
        .ok_or_else(|| "cbench has printed no result: not all switches were accepted".to_owned())
}

/// The mean in the result of cbench: `RESULT: 16 switches 4 tests min/max/avg/stdev = 1.00/2.00/1.50/0.50 responses/s`.
fn mean_of(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("RESULT:"))?;
    let (_, values) = line.split_once("stdev = ")?;
    values.split('/').nth(2)?.parse().ok()
}

fn run_bench(
    settings: &CbenchSettings,
    (mode, warm_up_s): (Mode, f64),
    subject: &mut Subject<'_>,
) -> Result<f64, String> {
    let (loop_time, warmup) = loops(settings.seconds, warm_up_s);
    let plan = Plan {
        targets: vec![subject.target],
        switches: settings.switches,
        version: Version::V1_0,
        hosts: settings.hosts,
        load: match mode {
            Mode::Throughput => Load::Unlimited,
            Mode::Latency => Load::Window(1),
        },
        buffering: Buffering::Buffered,
        counting: ReplyCounting::Messages,
        loops: warmup + LOOPS,
        warmup,
        loop_time,
        delay: Duration::from_secs_f64(DELAY_S),
        pin: subject.generator_cores.to_vec(),
        ..Plan::default()
    };
    let mut observer = Observer::new(subject.controller, &plan);
    let report = sluice_bench::run(&plan, &mut observer).map_err(|error| error.to_string())?;
    Ok(report.rate.mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_read_from_the_result() {
        let output = "00:00:01.000 16 switches: flows/sec: 1 2\n\
            RESULT: 16 switches 4 tests min/max/avg/stdev = 10.00/30.50/20.25/1.00 responses/s\n";
        assert_eq!(mean_of(output), Some(20.25));
        assert_eq!(mean_of("controller msgbuf_read() = -1\n"), None);
    }
}
