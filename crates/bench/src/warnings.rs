//! What casts doubt on a report.

use crate::plan::{Announce, Load, ReplyCounting};
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
        let late = std::time::Duration::from_nanos(behind.p99_ns);
        let half = std::time::Duration::from_nanos(report.latency_ns.value_at_quantile(0.5));
        if late > half.mul_f64(LATE) {
            said.push(format!(
                "the generator itself sent one request in a hundred more than {late:.1?} late, which is in the \
                 latencies: give it a core of its own with --pin, --spin, or a lower --rate",
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
    if report.counts.answered == 0 {
        said.push(if report.counts.untied > 0 {
            "no answer could be tied to a request: rules had neither a buffer nor both addresses; --count messages \
             counts them all the same".into()
        } else {
            "nothing was answered: is the controller one that forwards?".into()
        });
    }
    let open_loop = matches!(report.plan.load, Load::Rate(_));
    let tied = report.plan.count == ReplyCounting::Answers && report.counts.answered > 0;
    if report.little.disagreement_percent > LITTLE && tied {
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
