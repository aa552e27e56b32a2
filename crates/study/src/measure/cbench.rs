//! The original cbench against the same controller, to check `sluice bench`.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

use sluice_bench::{Buffering, Load, Plan, ReplyCounting, Report};
use sluice_io::clock;
use sluice_io::command::{self, CommandOutput};
use sluice_openflow::Version;

use super::bench::{is_generator_the_limit, require_all_switches};
use super::idle::wait_until_idle;
use super::observer::Observer;
use super::{LOOPS, Measured, Subject, loops};
use crate::definition::CbenchSettings;

/// The program, where [`CbenchSettings`] look for it.
pub(crate) const PROGRAM: &str = "{home}/cbench/cbench";

/// Seconds between the last handshake and the first request.
const DELAY_S: f64 = 1.0;

/// Time for handshakes, besides the loops of cbench.
const SPARE: Duration = Duration::from_secs(30);

/// Interval at which the use of resources is looked at while cbench runs.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(50);

/// Longest line of its output that an error quotes.
const LINE_CHARS_MAX: usize = 200;

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

/// Measures with cbench, then with `sluice bench`, which counts every flow-mod and packet-out, like cbench. The packets of both are not the same,
/// so a controller that compiles while it runs compiles for each. Full sockets come last, and only when the controller has answered what was
/// sent before: it may need seconds for that.
pub(super) fn measure(
    settings: &CbenchSettings,
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, String> {
    if !subject.row.openflow.iter().any(|version| version == "1.0") {
        return Err("it does not speak OpenFlow 1.0, the only version of cbench".to_owned());
    }
    let mut measured = Measured::default();
    let warm_up_s = settings.warm_up_s.max(subject.row.warm_up_s);
    for mode in [Mode::Latency, Mode::Throughput] {
        let cbench = run_cbench(settings, (mode, warm_up_s), subject)?;
        wait_until_idle(subject, is_interrupted)?;
        let bench = run_bench(settings, (mode, warm_up_s), subject)?;
        wait_until_idle(subject, is_interrupted)?;
        measured.set(&format!("{}_cbench", mode.name()), cbench);
        measured.set(&format!("{}_bench", mode.name()), bench.rate.mean);
        if is_generator_the_limit(&bench) {
            measured.lower_bounds.push(format!("{}_bench", mode.name()));
        }
        measured.warnings.extend(bench.warnings);
        if cbench > 0.0 {
            measured.set(&format!("{}_ratio", mode.name()), bench.rate.mean / cbench);
        } else {
            measured
                .warnings
                .push(format!("cbench has counted no message in its {} mode", mode.name()));
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
    let output = run_observed(&program, &words, timeout, &mut || subject.controller.observe());
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => format!("cbench did not end within {} s", timeout.as_secs()),
        _ => format!("{program}: {error}"),
    })?;
    result_of(&output, settings.switches)
}

/// Runs a program on the cores of the generator, like this thread, and meanwhile calls `observe` often.
fn run_observed(
    program: &str,
    words: &[&str],
    timeout: Duration,
    observe: &mut dyn FnMut(),
) -> io::Result<CommandOutput> {
    thread::scope(|scope| {
        let running = scope.spawn(|| command::output(program, words, timeout));
        while !running.is_finished() {
            observe();
            clock::sleep(OBSERVE_INTERVAL);
        }
        running.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
    })
}

/// The mean that cbench has counted, or why there is none.
fn result_of(output: &CommandOutput, switches: u32) -> Result<f64, String> {
    let CommandOutput { is_success, stdout, stderr } = output;
    let last = |text: &str| {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        let line = line.replace(|c: char| c.is_control(), " ");
        Some(line.chars().take(LINE_CHARS_MAX).collect::<String>())
    };
    let end = last(stderr).or_else(|| last(stdout));
    let end = end.map_or_else(String::new, |line| format!("; its output ends with: {line}"));
    if !is_success {
        return Err(format!("cbench has failed{end}"));
    }
    let (found, mean) = parse_result(stdout).ok_or_else(|| {
        format!("cbench has printed no result, as if a switch was not accepted{end}")
    })?;
    if found != switches {
        return Err(format!("cbench has measured {found} switches instead of {switches}"));
    }
    Ok(mean)
}

/// Switches and mean in the result of cbench: `RESULT: 16 switches 4 tests min/max/avg/stdev = 1.00/2.00/1.50/0.50 responses/s`.
fn parse_result(output: &str) -> Option<(u32, f64)> {
    let line = output.lines().rfind(|line| line.starts_with("RESULT:"))?;
    let switches = line.split_whitespace().nth(1)?.parse().ok()?;
    let (_, values) = line.split_once("stdev = ")?;
    let mean: f64 = values.split('/').nth(2)?.parse().ok()?;
    (mean.is_finite() && mean >= 0.0).then_some((switches, mean))
}

fn run_bench(
    settings: &CbenchSettings,
    (mode, warm_up_s): (Mode, f64),
    subject: &mut Subject<'_>,
) -> Result<Report, String> {
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
    require_all_switches(&report)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str =
        "RESULT: 16 switches 4 tests min/max/avg/stdev = 10.00/30.50/20.25/1.00 responses/s\n";

    fn output(is_success: bool, stdout: &str, stderr: &str) -> CommandOutput {
        CommandOutput { is_success, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn the_mean_is_read_from_the_result() {
        let text = format!("00:00:01.000 16 switches: flows/sec: 1 2\n{RESULT}");
        assert_eq!(result_of(&output(true, &text, ""), 16), Ok(20.25));
        // The last one counts.
        let text = format!(
            "RESULT: 16 switches 1 tests min/max/avg/stdev = 1/1/1/0 responses/s\n{RESULT}"
        );
        assert_eq!(result_of(&output(true, &text, ""), 16), Ok(20.25));
    }

    #[test]
    fn what_is_no_result_is_an_error_that_quotes_the_end_of_the_output() {
        let error = |output: CommandOutput| result_of(&output, 16).unwrap_err();
        let none =
            error(output(true, "cbench: 16 switches\n", "controller msgbuf_read() = -1\n\n"));
        assert_eq!(
            none,
            "cbench has printed no result, as if a switch was not accepted; its output ends with: controller msgbuf_read() = -1"
        );
        // An exit code that is not 0 counts, whatever was printed.
        assert!(
            error(output(false, RESULT, ""))
                .starts_with("cbench has failed; its output ends with: RESULT")
        );
        assert_eq!(error(output(false, "", "")), "cbench has failed");
        for mean in ["nan", "inf", "-5.00", "x", "1e999"] {
            let text = RESULT.replace("20.25", mean);
            assert!(error(output(true, &text, "")).contains("printed no result"), "{mean}");
        }
        let fewer = RESULT.replace("16 switches", "7 switches");
        assert_eq!(error(output(true, &fewer, "")), "cbench has measured 7 switches instead of 16");
        let long = error(output(true, &"x\u{1b}".repeat(100_000), ""));
        assert!(long.chars().count() < 400 && !long.contains('\u{1b}'));
    }

    #[test]
    fn a_program_that_hangs_or_prints_without_end_is_ended_while_the_controller_is_observed() {
        let mut observed = 0;
        let hung =
            run_observed("sleep", &["600"], Duration::from_millis(200), &mut || observed += 1);
        assert_eq!(hung.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(observed > 1, "{observed}");
        let endless = run_observed("yes", &[], Duration::from_secs(60), &mut || {}).unwrap();
        assert!(result_of(&endless, 16).is_err(), "it was ended, since nobody reads on");
    }
}
