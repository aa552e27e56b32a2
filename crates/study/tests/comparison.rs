//! The comparison of studies whose samples are drawn from known distributions: the error of the instrument itself.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use sluice_study::compare::{Change, Comparison, Study, compare};
use sluice_study::record::{Sample, StudyRecord};
use support::{ALL_KINDS, Sampler, controller, study};

/// An experiment with two metrics, one of which shall be high and one low.
const TWO_METRICS: &str = r#"
title = "Throughput"
question = "How fast?"
rounds = 5

[measure]
kind = "bench"

[axes]
switches = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

[[figures]]
id = "rate"
kind = "lines"
title = "Throughput"
caption = "Answers per second."
x = "switches"
metric = "rate"
unit = "1/s"

[[figures]]
id = "latency"
kind = "lines"
title = "Latency"
caption = "Median."
x = "switches"
metric = "p50_us"
unit = "us"
"#;

fn record(controllers: usize) -> StudyRecord {
    let controllers = (0..controllers).map(|n| controller(&format!("c{n}"), &format!("C{n}")));
    study(controllers.collect(), &[("throughput", TWO_METRICS)])
}

fn compared(record: &StudyRecord, [first, second]: [&[Sample]; 2]) -> Comparison {
    compare(
        Study { name: "first", record, samples: first },
        Study { name: "second", record, samples: second },
    )
}

#[test]
fn of_equal_studies_about_one_row_in_twenty_differs_and_the_gate_passes() {
    let record = record(10);
    let [first, second] = [1, 2].map(|seed| Sampler::new(seed).samples(&record));
    let comparison = compared(&record, [&first, &second]);
    let [known, different] = comparison.significant();
    assert_eq!(known, 200);
    assert!((2..=20).contains(&different), "{different} of {known}");
    assert!((comparison.expected_by_chance() - 10.0).abs() < 1e-9);
    assert!(comparison.regressions(0.0).is_empty(), "{:?}", comparison.regressions(0.0));
    let text = comparison.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("10 of 200 differ by chance if nothing has changed"), "{text}");
    assert!(comparison.warnings.is_empty() && comparison.unmatched.is_empty());
}

#[test]
fn a_slowdown_of_ten_percent_is_found_with_its_size() {
    let record = record(2);
    let mut sampler = Sampler { noise: 0.01, ..Sampler::new(3) };
    let first = sampler.samples(&record);
    sampler.speed = 0.9;
    let second = sampler.samples(&record);
    let comparison = compared(&record, [&first, &second]);
    let regressions = comparison.regressions(0.05);
    assert_eq!(regressions.len(), 40, "each row is worse by 10 %");
    for row in &regressions {
        let expected = if row.metric == "rate" { 0.9 } else { 1.0 / 0.9 };
        assert!((row.ratio.unwrap() / expected - 1.0).abs() < 0.03, "{row:?}");
        assert!(row.joint_interval.unwrap().contains(expected), "{row:?}");
        assert_eq!(row.change(), Change::Worse);
    }
    assert!(comparison.regressions(0.2).is_empty(), "none is worse by 20 %");
    let reverse = compared(&record, [&second, &first]);
    assert!(reverse.regressions(0.0).is_empty());
    assert!(reverse.rows.iter().all(|row| row.change() == Change::Better));
}

#[test]
fn the_text_fits_80_columns_and_names_what_differs() {
    let mut records =
        [0, 1].map(|_| study(vec![controller("c0", "C0")], &[("all-kinds", ALL_KINDS)]));
    let mut sampler = Sampler::new(4);
    let first = sampler.samples(&records[0]);
    sampler.speed = 0.5;
    let mut second = sampler.samples(&records[1]);
    for sample in &mut second {
        if sample.cell.values().any(|it| it.as_number() == Some(16.0)) {
            sample.failure = Some("the controller did not get ready within 30 s".to_owned());
        }
        sample.lower_bounds = vec!["p50_us".to_owned()];
    }
    records[1].machine.governor = Some("powersave".to_owned());
    records[1].controllers[0].version = Some("c0 2.0".to_owned());
    let [a, b] = &records;
    let comparison = compare(
        Study { name: "studies/first", record: a, samples: &first },
        Study { name: "studies/second", record: b, samples: &second },
    );
    for text in [comparison.to_string(), format!("{comparison:#}")] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("Cells with values in the first study only: 1"), "{text}");
        assert!(text.contains("failed: the controller did not get"), "{text}");
        assert!(text.contains("the machines differ: governor"), "{text}");
        assert!(text.contains("version (c0 1.0 and c0 2.0)"), "{text}");
        assert!(text.contains("worse") && text.contains('≥'), "{text}");
    }
    assert_eq!(comparison.lost().len(), 1);
    let mut json = Vec::new();
    comparison.write_json(&mut json).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["schema"], sluice_study::compare::SCHEMA);
    assert_eq!(document["rows"].as_array().unwrap().len(), comparison.rows.len());
    assert_eq!(document["rows"][0]["cell"]["threads"], 1);
    assert_eq!(document["unmatched"][0]["study"], "first");
}

#[test]
fn losses_that_appear_are_regressions_although_they_have_no_ratio() {
    let record = record(1);
    let mut first = Sampler::new(5).samples(&record);
    for sample in &mut first {
        sample.figures.insert("unanswered".to_owned(), 0.0);
    }
    let mut second = first.clone();
    for sample in &mut second {
        sample.figures.insert("unanswered".to_owned(), 0.01);
    }
    let comparison = compared(&record, [&first, &second]);
    let regressions = comparison.regressions(0.1);
    assert_eq!(regressions.len(), 10);
    assert!(regressions.iter().all(|row| row.metric == "unanswered" && row.ratio.is_none()));
}

#[test]
fn more_failures_and_missing_figures_are_losses() {
    let record = record(1);
    let first = Sampler::new(6).samples(&record);
    let mut second = first.clone();
    let of_cell = |samples: &mut Vec<Sample>, switches: f64| -> Vec<usize> {
        let is_of = |it: &Sample| it.cell.values().any(|it| it.as_number() == Some(switches));
        samples.iter().enumerate().filter(|(_, it)| is_of(it)).map(|(at, _)| at).collect()
    };
    // Two of five samples fail in one cell, and another one has lost a figure.
    for at in of_cell(&mut second, 4.0).into_iter().take(2) {
        second[at].failure = Some("the controller ended during the measurement".to_owned());
    }
    for at in of_cell(&mut second, 8.0) {
        second[at].figures.remove("p50_us");
    }
    let comparison = compared(&record, [&first, &second]);
    let lost: Vec<_> = comparison.lost().into_iter().map(|it| it.reason.as_str()).collect();
    let failed = "2 of 5 samples failed: the controller ended during the measurement";
    assert_eq!(lost, [failed, "it has no p50_us"]);
    assert!(compared(&record, [&second, &first]).lost().is_empty());
}
