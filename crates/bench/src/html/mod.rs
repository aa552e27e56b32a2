//! A report as a page of HTML with diagrams: one file that needs no network and no scripts.

mod chart;
mod diagrams;
mod scale;
mod tables;

use crate::entries::NO_BREAK_SPACE;
use crate::plan::ReplyCounting;
use crate::provenance::rfc3339;
use crate::report::Report;
use crate::text_report::{bounded_time, grouped, quantity};
use crate::{RunsSummary, text_report, text_runs};

pub use scale::Scale;

/// Colors and layout, for light and dark screens and for paper.
const STYLE: &str = include_str!("style.css");

/// The page of one report, or of several with their summary if they are runs of one plan.
pub fn page(reports: &[Report], summary: Option<&RunsSummary>) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let targets: Vec<_> = first.plan.targets.iter().map(ToString::to_string).collect();
    let title = escape(&format!("Benchmark of the controller at {}", targets.join(", ")));
    let started_at = rfc3339(first.provenance.started_at);
    let version = escape(first.provenance.version);
    let content = match (summary, reports) {
        (Some(summary), _) => runs(reports, summary),
        (None, [report]) => run("r1", report),
        (None, _) => ranged(reports),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p class=\"lead\">Measured {started_at} by sluice {version}.</p>\n{content}</main>\n</body>\n</html>\n"
    )
}

/// Several runs of one plan: their summary, then each run.
fn runs(reports: &[Report], summary: &RunsSummary) -> String {
    let key_figures = [
        ("Throughput, median".to_owned(), format!("{}/s", quantity(summary.rate.median))),
        (
            "Throughput, range".to_owned(),
            format!("{} to {}", quantity(summary.rate.min), quantity(summary.rate.max)),
        ),
        ("Runs".to_owned(), summary.runs.to_string()),
    ];
    let diagrams = [diagrams::rate_per_run(reports, summary), diagrams::latency_per_run(reports)];
    let mut page = warnings(&summary.warnings);
    page += &key_figures_list(&key_figures);
    page += &section("Runs", &diagrams);
    page += &tables::runs(reports);
    page += "<h2>Summary</h2>\n";
    page += &tables::entries(&text_runs::summary_of(summary, reports));
    page += &details(reports, "Run");
    page
}

/// Reports of different numbers of switches.
fn ranged(reports: &[Report]) -> String {
    let all = reports.iter().flat_map(|report| {
        let switches = report.plan.switches;
        report.warnings.iter().map(move |warning| format!("{switches} switches: {warning}"))
    });
    warnings(&all.collect::<Vec<_>>()) + &tables::runs(reports) + &details(reports, "Measurement")
}

/// Each report in a part of its own that can be opened.
fn details(reports: &[Report], name: &str) -> String {
    let one = |(number, report): (usize, &Report)| {
        let rate = quantity(report.rate.mean);
        let switches = grouped(report.plan.switches.into());
        let content = run(&format!("r{number}"), report);
        format!(
            "<details><summary>{name} {number}: {switches} switches, {rate} responses/s</summary>\n{content}</details>\n"
        )
    };
    (1..).zip(reports).map(one).collect()
}

/// The report of one run.
fn run(id: &str, report: &Report) -> String {
    let is_matched = report.plan.counting == ReplyCounting::Answers;
    let mut key_figures =
        vec![("Throughput".to_owned(), format!("{}/s", quantity(report.rate.mean)))];
    if is_matched {
        for (name, q) in [("Median latency", 0.5), ("99th percentile", 0.99)] {
            key_figures.push((name.to_owned(), bounded_time(report.latency.quantile(q))));
        }
    }
    let lost = report.counts.late + report.counts.never_answered;
    key_figures.push(("Requests not answered in time".to_owned(), grouped(lost)));
    let mut all = vec![diagrams::rate_per_loop(id, report)];
    if is_matched {
        all.push(diagrams::percentiles(id, &report.latency));
        all.push(diagrams::latency_per_loop(id, report));
    }
    all.push(diagrams::fairness(id, report));
    let mut page = warnings(&report.warnings);
    page += &key_figures_list(&key_figures);
    page += &section("Diagrams", &all);
    page += "<h2>Report</h2>\n";
    page += &tables::entries(&text_report::entries(report));
    page += "<h2>Figures</h2>\n";
    page += &tables::percentiles(report);
    page += &tables::loops(report);
    page += &tables::switches(report);
    page += "<h2>Provenance</h2>\n";
    page += &tables::provenance(report);
    page
}

fn section(title: &str, diagrams: &[String]) -> String {
    format!("<h2>{title}</h2>\n<div class=\"diagrams\">\n{}</div>\n", diagrams.concat())
}

fn warnings(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let items = warnings.iter().map(|warning| format!("<li>{}</li>\n", escape(warning)));
    let items: String = items.collect();
    format!("<section class=\"warnings\">\n<h2>Warnings</h2>\n<ul>\n{items}</ul>\n</section>\n")
}

fn key_figures_list(figures: &[(String, String)]) -> String {
    let one = |(name, value): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
    };
    let figures: String = figures.iter().map(one).collect();
    format!("<dl class=\"figures\">\n{figures}</dl>\n")
}

/// `text` without characters that have a meaning in HTML or SVG, in content and in quoted attributes, and without those that are not
/// allowed there.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c if c.is_control() && !c.is_whitespace() => escaped.push('\u{fffd}'),
            NO_BREAK_SPACE => escaped += "&nbsp;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::report::ThreadResults;

    fn report(rate: f64) -> Report {
        let plan = Plan { loops: 4, switches: 3, ..Plan::default() };
        let mut report = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        for (n, figures) in (0u64..).zip(&mut report.loops) {
            figures.rate = rate;
            figures.latency.answered.record_n(50_000 + n * 100, 1000).unwrap();
        }
        report.latency.answered.record_n(50_000, 3000).unwrap();
        (report.latency.unanswered, report.latency.unanswered_min_ns) = (3, 5_000_000_000);
        report.warnings.push("the rate is <low> & late".to_owned());
        report
    }

    /// Asserts that each element is closed, in the right order, and that ids are unique.
    fn assert_well_formed(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
            if tag.starts_with('!') || ["meta"].contains(&name) || tag.ends_with('/') {
                continue;
            }
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
        let mut ids: Vec<_> = page.split(" id=\"").skip(1).map(|it| it.split('"').next()).collect();
        let n = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), n, "ids are unique");
    }

    #[test]
    fn the_page_is_well_formed_and_complete_in_itself() {
        let report = report(1e6);
        let page = page(std::slice::from_ref(&report), None);
        assert_well_formed(&page);
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("url("));
        assert!(page.contains("the rate is &lt;low&gt; &amp; late"));
        let figures = ["Throughput per loop", "Latency by percentile", "Latency per loop"];
        assert!(figures.iter().all(|title| page.contains(&format!("<figcaption>{title}"))));
        assert_eq!(page.matches("<svg").count(), page.matches("<desc").count());
        let warning = page.find("class=\"warnings\"").unwrap();
        assert!(warning < page.find("<svg").unwrap(), "warnings come first");
    }

    #[test]
    fn several_runs_have_a_summary_and_a_part_each() {
        let reports = [report(1e6), report(1.1e6), report(0.9e6)];
        let page = page(&reports, Some(&RunsSummary::of(&reports)));
        assert_well_formed(&page);
        assert_eq!(page.matches("<details><summary>Run ").count(), 3);
        assert!(page.contains("<figcaption>Throughput per run"));
        assert!(page.contains("runs 1, 2, 3: the rate is"));
    }

    #[test]
    fn reports_of_nothing_and_of_many_switches_can_be_drawn() {
        let plan = Plan { loops: 0, ..Plan::default() };
        let nothing = Report::new(&plan, ThreadResults { loops: vec![], totals: vec![] });
        let mut many = report(1e6);
        let switch = crate::SwitchFigures {
            datapath_id: sluice_openflow::DatapathId(1),
            rate: 10.0,
            latency: [crate::Quantile::Exactly(7); 3],
            counts: crate::RequestCounts::default(),
            connect: None,
            handshake: None,
            hosts_announced: 0,
            disconnect_reason: Some("reset <by> peer".to_owned()),
        };
        many.switches = vec![switch; 2000];
        let page = page(&[nothing, many], None);
        assert_well_formed(&page);
        assert!(page.contains("<figcaption>Fairness between switches"));
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
