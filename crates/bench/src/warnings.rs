//! What casts doubt on a report.

use crate::plan::{Announce, Load};
use crate::report::Report;

/// Share of the time from which on a generator thread was too busy to measure by.
const BUSY: f64 = 0.95;

/// Lateness of one request in a hundred from which on a schedule was not kept, as a share of the median latency.
const LATE: f64 = 0.5;

/// Disagreement with Little's law that is worth a word, percent.
const LITTLE: f64 = 10.0;

/// What casts doubt on `report`, in sentences.
pub(crate) fn of(report: &Report, still_answering: bool) -> Vec<String> {
    let mut said = Vec::new();
    let busy = report.threads.iter().filter(|thread| thread.busy > BUSY).count();
    if busy > 0 {
        said.push(format!(
            "{busy} of {} generator threads were busy more than {:.0} % of the time: \
             the controller may be faster than this; give more --threads, on cores of their own",
            report.threads.len(),
            BUSY * 100.0,
        ));
    }
    if let Some(behind) = report.behind {
        #[expect(clippy::cast_precision_loss, reason = "a share of it is enough")]
        let late = behind.p99_ns as f64 > LATE * report.latency_ns.value_at_quantile(0.5) as f64;
        if late {
            said.push(format!(
                "the generator itself sent one request in a hundred more than {:.1} µs late, which is in the \
                 latencies: give it a core of its own with --pin, --spin, or a lower --rate",
                behind.p99_ns as f64 / 1e3,
            ));
        }
    }
    let gone = report.switches.iter().filter(|switch| switch.ended.is_some()).count();
    if gone > 0 {
        let why = report.switches.iter().find_map(|switch| switch.ended.clone());
        said.push(format!(
            "{gone} of {} switches lost their connection or never had one: {}",
            report.switches.len(),
            why.unwrap_or_default()
        ));
    }
    let silent = report.switches.iter().filter(|s| s.ended.is_none() && s.handshake.is_none());
    let silent = silent.count();
    if silent > 0 {
        said.push(format!("{silent} switches were not greeted in time and sent nothing"));
    }
    let least = report.switches.iter().map(|switch| switch.announced).min().unwrap_or(0);
    if report.plan.announce == Announce::Hosts && least < report.plan.hosts {
        said.push(format!(
            "the controller took the announcements of {least} of {} hosts per switch in time: \
             only those take part",
            report.plan.hosts
        ));
    }
    if still_answering {
        said.push("answers were still coming when the drain was cut: some of the requests never answered were only \
                   waiting".into());
    }
    let open_loop = matches!(report.plan.load, Load::Rate(_));
    if report.little.disagreement_percent > LITTLE && report.counts.answered > 0 {
        said.push(format!(
            "open requests, rate and latency disagree by {:.0} % with Little's law: {}",
            report.little.disagreement_percent,
            if open_loop {
                "the queue was growing"
            } else {
                "the load was not steady, or requests went unanswered"
            }
        ));
    }
    said
}
