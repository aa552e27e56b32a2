//! A report as people read it.

use std::fmt::Write;
use std::time::Duration;

use crate::Report;
use crate::plan::{Load, ReplyCounting};
use crate::requests::Buffering;
use crate::statistics::DurationSummary;

/// Switches that the table shows one by one: the slowest ones.
const SLOWEST: usize = 3;

/// The report in lines of two columns.
pub fn of(report: &Report) -> String {
    let mut text = TextReport::default();
    text.line("", &heading(report));
    let rate = report.rate;
    let share = if rate.mean > 0.0 { rate.deviation / rate.mean * 100.0 } else { 0.0 };
    text.line(
        "answers/s",
        &format!(
            "{} ± {share:.1} %   least {}, most {}, over {} loops of {}",
            quantity(rate.mean),
            quantity(rate.min),
            quantity(rate.max),
            report.plan.measured().len(),
            time(report.plan.loop_time)
        ),
    );
    if report.plan.count == ReplyCounting::Answers {
        text.line("latency", &latency(report));
    }
    text.line("fairness", &fairness(report));
    text.line("requests", &requests(report));
    text.line("replies beside", &beside(report));
    text.line("errors", &errors(report));
    let three = |three: Option<DurationSummary>| {
        three.map_or_else(
            || "none".to_owned(),
            |t| format!("{} / {} / {}", time(t.min), time(t.median), time(t.max)),
        )
    };
    text.line("connected in", &format!("{}   least, middle, most", three(report.connect)));
    text.line("greeted in", &three(report.handshake));
    if report.plan.count == ReplyCounting::Answers {
        let l = report.little;
        text.line(
            "Little's law",
            &format!(
                "{} open; {}/s × {} = {}: {:.2} % apart",
                quantity(l.open),
                quantity(l.rate),
                seconds(l.latency_s),
                quantity(l.rate * l.latency_s),
                l.disagreement_percent
            ),
        );
    }
    text.line("generator", &generator(report));
    for warning in &report.warnings {
        text.line("warning", warning);
    }
    text.0
}

/// Lines of two columns.
#[derive(Default)]
struct TextReport(String);

impl TextReport {
    fn line(&mut self, name: &str, what: &str) {
        if !what.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(self.0, "{name:<15}{what}");
        }
    }
}

fn heading(report: &Report) -> String {
    let plan = &report.plan;
    let load = match plan.load {
        Load::Window(1) => "one open request on each".to_owned(),
        Load::Window(n) => format!("{n} open requests on each"),
        Load::WindowTotal(n) => format!("{n} open requests in all"),
        Load::Unlimited => "as many open requests as fit".to_owned(),
        Load::Rate(rate) => format!("{} requests/s", quantity(rate)),
    };
    let kept = if plan.kept == Buffering::Buffered { "buffered" } else { "not buffered" };
    let addrs: Vec<_> = plan.targets.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "{}: {} switches of OpenFlow {}, {} hosts each; {load}; frames of {} bytes, {kept}",
        addrs.join(", "),
        plan.switches,
        plan.version,
        plan.hosts,
        plan.frame_len
    );
    if plan.new_sources > 0.0 {
        let _ = write!(text, ", {:.1} % from new sources", plan.new_sources * 100.0);
    }
    text
}

fn latency(report: &Report) -> String {
    let h = &report.latency_ns;
    if h.is_empty() {
        return "nothing was answered".to_owned();
    }
    let at = |q: f64| time(Duration::from_nanos(h.value_at_quantile(q)));
    format!(
        "p50 {}  p90 {}  p99 {}  p99.9 {}  most {}  mean {}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        time(Duration::from_nanos(h.max())),
        seconds(h.mean() / 1e9)
    )
}

fn fairness(report: &Report) -> String {
    let mut text = format!("{:.4} by Jain's index", report.fairness);
    if report.switches.len() > SLOWEST {
        let mut switches: Vec<_> = report.switches.iter().collect();
        switches.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        text.push_str("; slowest switches");
        for switch in switches.iter().take(SLOWEST) {
            let p99 = time(Duration::from_nanos(switch.latency_ns[1]));
            let (id, rate) = (switch.datapath_id, quantity(switch.rate));
            let _ = write!(text, "  {id:x}: {rate}/s, p99 {p99}");
        }
    }
    text
}

fn requests(report: &Report) -> String {
    let c = report.counts;
    let (late, never) = (grouped(c.late), grouped(c.never_answered));
    format!(
        "{} sent, {} answered, {late} answered late, {never} never answered",
        grouped(c.sent),
        grouped(c.answered)
    )
}

fn beside(report: &Report) -> String {
    let c = report.counts;
    let all = [
        (c.twice, "answered twice"),
        (c.unasked, "unasked"),
        (c.untied, "rules that cannot be tied to a request"),
        (c.paired, "second halves of an answer"),
        (c.announcements, "floods"),
        (c.other, "for nobody here"),
        (c.malformed, "malformed"),
    ];
    let some: Vec<_> = all
        .iter()
        .enumerate()
        // The first two are told even when there are none.
        .filter(|&(at, &(n, _))| at < 2 || n > 0)
        .map(|(_, &(n, what))| format!("{} {what}", grouped(n)))
        .collect();
    some.join(", ")
}

fn errors(report: &Report) -> String {
    let kinds = report.errors.kinds.iter();
    let some: Vec<_> = kinds.map(|(reason, n)| format!("{} × {reason}", grouped(*n))).collect();
    if some.is_empty() { "none".to_owned() } else { some.join(", ") }
}

fn generator(report: &Report) -> String {
    let busy: Vec<_> =
        report.threads.iter().map(|thread| format!("{:.0} %", thread.busy * 100.0)).collect();
    let spins = if report.plan.spin.is_zero() { "" } else { ", spinning while it waits" };
    let mut text = format!("busy {}{spins}", busy.join(", "));
    if let Some(behind) = report.behind {
        let [half, most, all] =
            [behind.p50_ns, behind.p99_ns, behind.max_ns].map(|ns| time(Duration::from_nanos(ns)));
        let _ = write!(text, "; behind its schedule p50 {half}  p99 {most}  most {all}");
    }
    text
}

/// A number with three digits and a letter for its thousands.
pub(crate) fn quantity(n: f64) -> String {
    let (n, unit) = match n {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let digits = match n {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{n:.digits$}{unit}")
}

/// A count with a space between its thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn time(t: Duration) -> String {
    seconds(t.as_secs_f64())
}

fn seconds(s: f64) -> String {
    let (n, unit) = match s {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    format!("{} {unit}", quantity(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_counts_are_whole() {
        let quantities = [0.0, 1.5, 12.34, 999.0, 1234.0, 39_472_885.0].map(quantity);
        assert_eq!(quantities, ["0.00", "1.50", "12.3", "999", "1.23 k", "39.5 M"]);
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1 000", "1 234 567"]);
        assert_eq!([6e-6, 0.0123, 2.0].map(seconds), ["6.00 µs", "12.3 ms", "2.00 s"]);
    }
}
