//! Reasons to distrust a report.

use std::time::Duration;

use crate::counts::{NotSent, RequestCounts};
use crate::paths;
use crate::plan::{Announce, Load, ReplyCounting};
use crate::report::Report;
use crate::text_report::{counted, short_time};

/// Share of the time from which a generator thread is too busy to measure with.
const BUSY_MAX: f64 = 0.95;

/// Schedule lag (99th percentile) from which the schedule was not kept, relative to the median latency.
const LAG_MAX: f64 = 0.5;

/// Disagreement with Little's law from which there is a warning, in percent.
const DISAGREEMENT_MAX: f64 = 10.0;

/// Share of the announcements above which it matters that they were flooded during the measurement, in percent.
const LATE_FLOODS_MAX: f64 = 1.0;

/// Time without an answer from which there is a warning, if it is also long compared with the latencies.
const SILENCE_MAX: Duration = Duration::from_millis(100);

/// Reasons to distrust `report`, as sentences.
pub(crate) fn of(report: &Report, drain_cut_short: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(generator(report));
    warnings.extend(switches(report));
    if !report.paused.is_zero() {
        warnings.push(format!(
            "the benchmark did not run for {}, as if its process or its machine was stopped: requests that \
             were outstanding then count as never answered",
            short_time(report.paused)
        ));
    }
    if drain_cut_short {
        warnings.push(
            "requests were still outstanding when the run ended: some of those never answered were only \
             waiting"
                .into(),
        );
    }
    if report.counts.answered == 0 {
        warnings.push(if let Some(figures) = report.paths {
            paths::nothing_installed(figures).into()
        } else if report.counts.unmatched > 0 {
            "no reply could be matched to a request: the flow entries had neither a buffer id nor both \
             Ethernet addresses; --count messages counts them without matching"
                .into()
        } else {
            "no request was answered: either the controller runs no application that forwards packets, or it \
             dropped the first ones while it discovered links (--delay 1000 waits for that), or there are more \
             hosts than it learns (--mac-addresses 1000)"
                .into()
        });
    }
    warnings.extend(not_sent(report));
    warnings.extend(silence(report));
    warnings.extend(replies(report));
    warnings.extend(paths::warnings(report));
    let is_measured = report.plan.counting == ReplyCounting::Answers && report.counts.answered > 0;
    if report.littles_law.disagreement_percent > DISAGREEMENT_MAX && is_measured {
        warnings.push(format!(
            "outstanding requests, rate and latency disagree with Little's law by {:.0} %: {}",
            report.littles_law.disagreement_percent,
            if matches!(report.plan.load, Load::Rate(_)) {
                "the queue was growing, so the controller does not sustain this rate"
            } else {
                "the load was not steady, or requests were not answered"
            }
        ));
    }
    warnings
}

/// Was the generator itself the bottleneck?
fn generator(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let busy = report.threads.iter().filter(|thread| thread.busy > BUSY_MAX).count();
    if busy > 0 {
        warnings.push(format!(
            "{busy} of {} was busy more than {:.0} % of the time: the controller may be \
             faster than measured; use more --threads, on CPU cores of their own (--pin)",
            counted(report.threads.len() as u64, "generator thread", "generator threads"),
            BUSY_MAX * 100.0,
        ));
    }
    if let Some(lag) = report.schedule_lag {
        let lag = Duration::from_nanos(lag.p99_ns);
        let median = Duration::from_nanos(report.latency.quantile(0.5).ns());
        if lag > median.mul_f64(LAG_MAX) {
            warnings.push(format!(
                "the generator sent 1 % of the requests more than {} late, which the latencies include: \
                 give it a CPU core of its own (--pin), use --spin, or lower --rate",
                short_time(lag),
            ));
        }
    }
    warnings
}

/// Was every request sent when it was due?
fn not_sent(report: &Report) -> Vec<String> {
    let NotSent { socket_full, window_full, generator_late, disconnected } = report.counts.not_sent;
    let due = report.counts.sent + report.counts.not_sent.total();
    let mut warnings = Vec::new();
    let mut warn = |count: u64, why: &str| {
        if count > 0 {
            let requests = counted(count, "request", "requests");
            let percent = percent(count, due);
            warnings.push(format!("{requests} ({percent:.2} % of those due) were not sent: {why}"));
        }
    };
    warn(socket_full, "the controller did not read; it does not sustain this rate");
    warn(window_full, "the controller did not answer earlier ones; it does not sustain this rate");
    warn(
        generator_late,
        "the generator was too slow, not the controller; use more --threads, or lower --rate",
    );
    warn(disconnected, "their switch was not connected");
    if let Some(lag) = report.schedule_lag.filter(|lag| lag.held_back > 0) {
        let requests = counted(lag.held_back, "request", "requests");
        warnings.push(format!(
            "{requests} waited up to {} since the controller did not read or answer earlier ones \
             (back-pressure); the latencies include that",
            short_time(Duration::from_nanos(lag.held_back_max_ns))
        ));
    }
    warnings
}

/// Did the controller pause, which the percentiles of a closed loop hardly show?
fn silence(report: &Report) -> Option<String> {
    let silence = report.longest_silence;
    let p99 = Duration::from_nanos(report.latency.quantile(0.99).ns());
    let is_closed = !matches!(report.plan.load, Load::Rate(_));
    (is_closed && silence > SILENCE_MAX && silence > 10 * p99).then(|| {
        format!(
            "no request was answered for {}, though some were outstanding: a closed loop sends nothing in such a \
             pause, so that the percentiles hardly show it; --rate does",
            short_time(silence)
        )
    })
}

#[expect(clippy::cast_precision_loss, reason = "a percentage needs few digits")]
fn percent(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64 * 100.0
}

/// Was every request answered once and in time?
fn replies(report: &Report) -> Vec<String> {
    let RequestCounts { sent, answered, late, never_answered, duplicate, .. } = report.counts;
    let mut warnings = Vec::new();
    if answered == 0 {
        return warnings;
    }
    let mut warn = |count: u64, what: &str| {
        if count > 0 {
            let requests = counted(count, "request", "requests");
            let percent = percent(count, sent);
            warnings.push(format!("{requests} ({percent:.2} % of those sent) {what}"));
        }
    };
    let stall = if report.plan.load == Load::Window(1) {
        "; with one outstanding request, a switch sends nothing more until --timeout"
    } else {
        ""
    };
    let never = format!(
        "were never answered: percentiles count those of the measured loops as slower than all others{stall}"
    );
    warn(never_answered, &never);
    warn(late, "were answered after --timeout: they count as not answered");
    if duplicate > 0 {
        let replies = counted(duplicate, "reply", "replies");
        warnings.push(format!(
            "{replies} for requests that had been answered before, or minutes ago: they do not count as answers"
        ));
    }
    warnings
}

/// Did all switches and hosts take part?
fn switches(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let all = counted(report.switches.len() as u64, "switch", "switches");
    let mut reasons =
        report.switches.iter().filter_map(|switch| switch.disconnect_reason.as_deref());
    if let Some(reason) = reasons.next() {
        let n = 1 + reasons.count();
        warnings.push(format!("{n} of {all} could not connect or were disconnected: {reason}"));
    }
    let unready = report.switches.iter();
    let unready =
        unready.filter(|s| s.disconnect_reason.is_none() && s.handshake.is_none()).count();
    if unready > 0 {
        warnings.push(format!(
            "{unready} of {all} did not complete the handshake in time and sent no requests"
        ));
    }
    if report.plan.network.is_some() {
        return warnings;
    }
    let announced = report.switches.iter().map(|switch| switch.hosts_announced).min().unwrap_or(0);
    if report.plan.announce == Announce::AllHosts && announced < report.plan.hosts {
        warnings.push(format!(
            "the controller processed the announcements of only {announced} of {} hosts per switch in time: \
             only those took part",
            report.plan.hosts
        ));
    }
    let sent = report.switches.iter().map(|switch| u64::from(switch.hosts_announced)).sum();
    let floods = report.counts.broadcasts;
    if report.plan.announce == Announce::AllHosts && percent(floods, sent) > LATE_FLOODS_MAX {
        let floods = counted(floods, "broadcast", "broadcasts");
        warnings.push(format!(
            "the controller sent {floods} during the measurement, as if it still processed announcements of hosts: \
             requests waited behind them"
        ));
    }
    warnings
}
