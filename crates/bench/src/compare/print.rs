//! A comparison as text and as JSON.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use super::{Basis, Comparison, Ratio};
use crate::entries::{Entries, WARNING};
use crate::text_report::{quantity, seconds};

/// Name and version of the schema of a comparison, the value of its field `schema`.
const COMPARISON_SCHEMA: &str = "sluice-bench-compare/1";

/// Columns of a figure.
const COLUMN: usize = 14;

impl fmt::Display for Comparison {
    /// Formats the comparison as a table, at most 80 columns wide.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = &self.files;
        let mut text = Entries::default();
        text.entry("First", first);
        text.entry("Second", second);
        let unit = if self.basis == Basis::Runs { "runs" } else { "loops" };
        let [a, b] = self.samples;
        text.entry("Samples", &format!("{a} {unit} and {b} {unit}"));
        let (first, second) = ("First", "Second");
        writeln!(f, "{}{:13}{first:<COLUMN$}{second:<COLUMN$}Ratio  95 % interval", text, "")?;
        let time = |ns: f64| seconds(ns / 1e9);
        let rate = |n: f64| format!("{}/s", quantity(n));
        row(f, "Throughput", self.rate, rate)?;
        row(f, "Median", self.p50_ns, time)?;
        row(f, "99th", self.p99_ns, time)?;
        let mut text = Entries::default();
        for warning in &self.warnings {
            text.entry(WARNING, warning);
        }
        write!(f, "{text}")
    }
}

fn row(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    ratio: Option<Ratio>,
    format: impl Fn(f64) -> String,
) -> fmt::Result {
    let Some(Ratio { means, at_least, ratio, confidence }) = ratio else {
        return writeln!(f, "{label:<13}none");
    };
    let figure = |mean, is_bound| format!("{}{}", if is_bound { "≥ " } else { "" }, format(mean));
    let [first, second] = [figure(means[0], at_least[0]), figure(means[1], at_least[1])];
    let ratio = match at_least {
        [false, false] => factor(ratio),
        [false, true] => format!("≥{}", factor(ratio)),
        [true, false] => format!("≤{}", factor(ratio)),
        [true, true] => "none".to_owned(),
    };
    let interval = match confidence {
        None => "none".to_owned(),
        Some(interval) => {
            let verdict = if interval.contains(1.0) { "not significant" } else { "significant" };
            format!("{} to {}, {verdict}", factor(interval.low), factor(interval.high))
        }
    };
    writeln!(f, "{label:<13}{first:<COLUMN$}{second:<COLUMN$}{ratio:<6} {interval}")
}

/// A ratio in at most five columns.
fn factor(n: f64) -> String {
    if n < 10.0 { format!("{n:.3}") } else { quantity(n) }
}

#[derive(Serialize)]
struct ComparisonDocument<'c> {
    schema: &'static str,
    files: &'c [String; 2],
    basis: &'static str,
    samples: [usize; 2],
    rate: Option<RatioDocument>,
    p50_ns: Option<RatioDocument>,
    p99_ns: Option<RatioDocument>,
    warnings: &'c [String],
}

#[derive(Serialize)]
struct RatioDocument {
    means: [f64; 2],
    at_least: [bool; 2],
    ratio: f64,
    confidence: Option<[f64; 2]>,
    significant: Option<bool>,
}

impl From<Ratio> for RatioDocument {
    fn from(from: Ratio) -> Self {
        let Ratio { means, at_least, ratio, confidence } = from;
        let confidence = confidence.map(|interval| [interval.low, interval.high]);
        Self { means, at_least, ratio, confidence, significant: from.is_significant() }
    }
}

impl Comparison {
    /// Writes the comparison as one line of JSON.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_json(&self, to: &mut dyn Write) -> io::Result<()> {
        let document = ComparisonDocument {
            schema: COMPARISON_SCHEMA,
            files: &self.files,
            basis: if self.basis == Basis::Runs { "runs" } else { "loops" },
            samples: self.samples,
            rate: self.rate.map(Into::into),
            p50_ns: self.p50_ns.map(Into::into),
            p99_ns: self.p99_ns.map(Into::into),
            warnings: &self.warnings,
        };
        serde_json::to_writer(&mut *to, &document)?;
        to.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfidenceInterval;

    fn comparison() -> Comparison {
        let ratio = |low, high| Ratio {
            means: [23.3e6, 20.1e6],
            at_least: [false; 2],
            ratio: 20.1 / 23.3,
            confidence: Some(ConfidenceInterval { low, high }),
        };
        Comparison {
            files: ["a.json".to_owned(), "b.json".to_owned()],
            basis: Basis::Runs,
            samples: [5, 6],
            rate: Some(ratio(0.85, 0.874)),
            p50_ns: Some(ratio(0.8, 1.1)),
            p99_ns: None,
            warnings: vec!["word ".repeat(30)],
        }
    }

    #[test]
    fn the_text_is_a_table_of_80_columns() {
        let text = comparison().to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let expected = "\
First        a.json
Second       b.json
Samples      5 runs and 6 runs
             First         Second        Ratio  95 % interval
Throughput   23.3 M/s      20.1 M/s      0.863  0.850 to 0.874, significant
Median       23.3 ms       20.1 ms       0.863  0.800 to 1.100, not significant
99th         none
Warning      word";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn lower_bounds_and_their_ratios_are_marked() {
        let row = |at_least| {
            let ratio = comparison().rate.map(|it| Ratio { at_least, confidence: None, ..it });
            let text = Comparison { p99_ns: ratio, ..comparison() }.to_string();
            text.lines().find(|line| line.starts_with("99th")).unwrap().to_owned()
        };
        let expected = [
            ([false, true], "99th         23.3 ms       ≥ 20.1 ms     ≥0.863 none"),
            ([true, false], "99th         ≥ 23.3 ms     20.1 ms       ≤0.863 none"),
            ([true, true], "99th         ≥ 23.3 ms     ≥ 20.1 ms     none   none"),
        ];
        for (at_least, expected) in expected {
            assert_eq!(row(at_least), expected);
        }
    }

    #[test]
    fn every_field_of_the_comparison_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-json.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, section) = page.split_once("\n## Comparison").unwrap();
        let mut line = Vec::new();
        comparison().write_json(&mut line).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert!(section.contains(COMPARISON_SCHEMA));
        assert_eq!(document["rate"]["significant"], true);
        let fields = document.as_object().unwrap().keys();
        for name in fields.chain(document["rate"].as_object().unwrap().keys()) {
            assert!(section.contains(&format!("`{name}`")), "{name} is not in docs/bench-json.md");
        }
    }
}
