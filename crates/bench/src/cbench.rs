//! The lines that scripts made for `cbench` parse.
//!
//! The counts are those of the bench: one request is answered once. A controller that answers with a rule and a frame
//! has half the figure here that `cbench` itself gives it.

use std::fmt::Write;
use std::time::Duration;

use crate::plan::{Announce, Load, Plan};
use crate::report::{LoopFigures, Report};

/// What goes before, for people; on the standard error output.
pub fn header(plan: &Plan, host: &str, port: u16, ranged: bool) -> String {
    let mode = if plan.load == Load::Fit { "throughput" } else { "latency" };
    let learning = if plan.announce == Announce::Hosts { "learning" } else { "NOT learning" };
    let (delay_ms, gap_ms) = (plan.delay.as_millis(), plan.connect_gap.as_millis());
    let lines = [
        "cbench: controller benchmarking tool".to_owned(),
        format!("running in mode '{mode}'"),
        format!("connecting to controller at {host}:{port} "),
        format!(
            "faking{} {} switches offset {} :: {} tests each; {} ms per test",
            if ranged { " from 1 to" } else { "" },
            plan.switches,
            plan.dpid_offset,
            plan.loops,
            plan.loop_time.as_millis()
        ),
        format!("with {} unique source MACs per switch", plan.hosts),
        format!("{learning} destination mac addresses before the test"),
        format!("starting test with {delay_ms} ms delay after features_reply"),
        format!(
            "ignoring first {} \"warmup\" and last {} \"cooldown\" loops",
            plan.warmup, plan.cooldown
        ),
        format!("connection delay of {gap_ms}ms per {} switch(es)", plan.connect_group),
        "debugging info is off".to_owned(),
    ];
    lines.join("\n   ") + "\n"
}

/// One loop that ended at `time` since midnight: answers by switch, and per millisecond over all.
pub fn loop_line(figures: &LoopFigures, time: Duration) -> String {
    let s = time.as_secs() % 86_400;
    let (hour, minute, second, ms) = (s / 3600, s / 60 % 60, s % 60, time.subsec_millis());
    let n = figures.answered.len();
    let mut line =
        format!("{hour:02}:{minute:02}:{second:02}.{ms:03} {n:<3} switches: flows/sec:  ");
    for answered in &figures.answered {
        // Writing to a string does not fail.
        let _ = write!(line, "{answered}  ");
    }
    let _ = write!(line, " total = {:.6} per ms ", figures.rate / 1000.0);
    line
}

/// The line at the end.
pub fn result_line(report: &Report) -> String {
    let (n, tests) = (report.plan.switches, report.plan.measured().len());
    let rate = report.rate;
    format!(
        "RESULT: {n} switches {tests} tests min/max/avg/stdev = {:.2}/{:.2}/{:.2}/{:.2} responses/s",
        rate.min, rate.max, rate.mean, rate.deviation
    )
}
