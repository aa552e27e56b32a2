//! Output in the format of `cbench`, for scripts that parse it.
//!
//! The counting differs: one request is answered once. For a controller that answers with a flow entry and a packet-out,
//! `cbench` prints twice the rate.

use std::fmt::Write;
use std::time::Duration;

use crate::plan::{Announce, Load, Plan};
use crate::report::{LoopFigures, Report};

/// The lines before the first loop, which go to standard error.
pub fn header(plan: &Plan, host: &str, port: u16, is_ranged: bool) -> String {
    let mode = if plan.load == Load::Unlimited { "throughput" } else { "latency" };
    let learning = if plan.announce == Announce::AllHosts { "learning" } else { "NOT learning" };
    let (delay_ms, gap_ms) = (plan.delay.as_millis(), plan.connect_gap.as_millis());
    let lines = [
        "cbench: controller benchmarking tool".to_owned(),
        format!("running in mode '{mode}'"),
        format!("connecting to controller at {host}:{port} "),
        format!(
            "faking{} {} switches offset {} :: {} tests each; {} ms per test",
            if is_ranged { " from 1 to" } else { "" },
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

/// The line of a loop that ended at `time` (since midnight): responses by switch, and per millisecond over all.
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

/// The last line: statistics over the measured loops. `cbench` divides the sum of squares by `n`.
pub fn result_line(report: &Report) -> String {
    let (n, tests, rate) = (report.plan.switches, report.plan.measured().len(), report.rate);
    #[expect(clippy::cast_precision_loss, reason = "there are at most 10 000")]
    let share = tests.saturating_sub(1) as f64 / tests.max(1) as f64;
    format!(
        "RESULT: {n} switches {tests} tests min/max/avg/stdev = {:.2}/{:.2}/{:.2}/{:.2} responses/s",
        rate.min,
        rate.max,
        rate.mean,
        rate.deviation * share.sqrt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordination::{ThreadLoopResult, ThreadResult};
    use crate::report::ThreadResults;

    /// Two threads, three switches, three loops of which the first is warm-up.
    fn report() -> Report {
        let plan = Plan { switches: 3, threads: 2, loops: 3, ..Plan::default() };
        let result = |thread, number, answered: &[u64]| ThreadLoopResult {
            thread,
            number,
            elapsed: Duration::from_millis(500),
            answered: answered.to_vec(),
            cpu: Duration::ZERO,
            waited: Duration::ZERO,
            outstanding_area_s: 0.0,
            latencies: None,
            network: None,
        };
        let answered = [[900, 800], [10, 20], [30, 30]];
        let loops = (0u32..)
            .zip(answered)
            .flat_map(|(n, [first, second])| [result(0, n, &[first, 40]), result(1, n, &[second])]);
        let totals = (0..2).map(|thread| ThreadResult {
            thread,
            switches: vec![],
            loops: vec![],
            unanswered_min_ns: 0,
            errors: crate::ErrorCounts::default(),
            schedule_lag: None,
            drain_cut_short: false,
            network: None,
            paused: Duration::ZERO,
            longest_silence: Duration::ZERO,
            socket: None,
        });
        Report::new(&plan, ThreadResults { loops: loops.collect(), totals: totals.collect() })
    }

    #[test]
    fn loops_and_result_are_printed_as_by_cbench() {
        let report = report();
        let time = Duration::from_millis(1000 * (86_400 + 3 * 3600 + 25 * 60 + 45) + 7);
        assert_eq!(
            loop_line(&report.loops[1], time),
            "03:25:45.007 3   switches: flows/sec:  10  20  40   total = 0.140000 per ms "
        );
        assert_eq!(
            result_line(&report),
            "RESULT: 3 switches 2 tests min/max/avg/stdev = 140.00/200.00/170.00/30.00 responses/s"
        );
    }

    #[test]
    fn the_header_is_that_of_cbench() {
        let plan = Plan { load: Load::Unlimited, ..Plan::default() };
        assert_eq!(
            header(&plan, "127.0.0.1", 6633, true),
            "cbench: controller benchmarking tool\n   \
             running in mode 'throughput'\n   \
             connecting to controller at 127.0.0.1:6633 \n   \
             faking from 1 to 16 switches offset 1 :: 16 tests each; 1000 ms per test\n   \
             with 100000 unique source MACs per switch\n   \
             learning destination mac addresses before the test\n   \
             starting test with 0 ms delay after features_reply\n   \
             ignoring first 1 \"warmup\" and last 0 \"cooldown\" loops\n   \
             connection delay of 0ms per 1 switch(es)\n   \
             debugging info is off\n"
        );
    }
}
