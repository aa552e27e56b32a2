//! The comparison of studies whose samples are drawn from known distributions: the error of the instrument itself.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use sluice_study::compare::{Change, Comparison, Row, Study, Undecided, compare, of_controller};
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
fn of_equal_studies_no_row_differs_and_the_gate_passes() {
    let record = record(10);
    let [first, second] = [1, 2].map(|seed| Sampler::new(seed).samples(&record));
    let comparison = compared(&record, [&first, &second]);
    let [known, different] = comparison.significant();
    assert_eq!(known, 200);
    assert_eq!(different, 0, "of {known}");
    assert!((comparison.expected_by_chance() - 0.05).abs() < 1e-9);
    assert!(comparison.regressions(0.0).is_empty(), "{:?}", comparison.regressions(0.0));
    let text = comparison.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "95 % of the comparisons in which nothing has changed show no difference";
    assert!(text.contains(expected), "{text}");
    assert!(comparison.warnings.is_empty() && comparison.unmatched.is_empty());
}

/// An experiment of one cell.
const ONE_CELL: &str = r#"
title = "Throughput"
question = "How fast?"
rounds = 5

[measure]
kind = "bench"

[[figures]]
id = "rate"
kind = "bars"
title = "Throughput"
caption = "Answers per second."
metric = "rate"
unit = "1/s"
"#;

/// Comparisons of one cell with twelve independent figures, with so many samples; `value` draws them, and `factor` changes the first one.
fn comparisons(
    (number, rounds): (u64, u32),
    value: impl Fn(&mut Sampler) -> f64,
    factor: f64,
) -> Vec<Comparison> {
    let mut record = study(vec![controller("c0", "C0")], &[("throughput", ONE_CELL)]);
    record.experiments.first_mut().unwrap().experiment.rounds = rounds;
    let drawn = |seed: u64, factor: f64| {
        let mut draws = Sampler { noise: 0.05, ..Sampler::new(seed) };
        let mut samples = draws.samples(&record);
        for sample in &mut samples {
            let figure = |n: u32| {
                let factor = if n == 0 { factor } else { 1.0 };
                (format!("figure-{n:02}"), factor * value(&mut draws))
            };
            sample.figures = (0..12).map(figure).collect();
        }
        samples
    };
    let one = |seed: u64| {
        let [first, second] = [drawn(2 * seed, 1.0), drawn(2 * seed + 1, factor)];
        compared(&record, [&first, &second])
    };
    (0..number).map(one).collect()
}

#[test]
fn at_most_one_in_twenty_comparisons_of_equal_distributions_shows_any_difference() {
    let normal = |draws: &mut Sampler| draws.around(100.0);
    // A logarithm with a standard deviation of 0.5: values of three times the median are common.
    let skewed = |draws: &mut Sampler| draws.around(10.0).exp();
    let all = [
        ("normal", comparisons((400, 5), normal, 1.0)),
        ("skewed", comparisons((400, 5), skewed, 1.0)),
        ("three samples", comparisons((400, 3), normal, 1.0)),
    ];
    for (name, comparisons) in all {
        assert!(comparisons.iter().all(|it| it.significant()[0] == 12), "{name}");
        let different = comparisons.iter().filter(|it| it.significant()[1] > 0).count();
        assert!(different * 20 <= comparisons.len(), "{name}: {different}");
    }
}

#[test]
fn thirty_percent_are_found_in_ten_samples_with_a_deviation_of_five() {
    let all = comparisons((100, 10), |draws| draws.around(100.0), 1.3);
    let is_found = |it: &&Comparison| {
        let row = &it.rows[0];
        row.change() == Change::Different && row.interval.unwrap().contains(1.3)
    };
    let found = all.iter().filter(is_found).count();
    assert!(found >= 95, "{found}");
}

#[test]
fn another_build_of_the_load_generator_is_a_warning() {
    let mut records = [record(1), record(1)];
    let samples = Sampler::new(1).samples(&records[0]);
    let warnings = |[first, second]: &[StudyRecord; 2]| {
        let [first, second] =
            [first, second].map(|record| Study { name: "name", record, samples: &samples });
        compare(first, second).warnings
    };
    records[0].program = "1000 bytes, hash 1".to_owned();
    assert!(warnings(&records).is_empty(), "the second study does not say");
    records[1].program = "1000 bytes, hash 2".to_owned();
    let found = warnings(&records);
    assert!(
        found.concat().contains("different builds of sluice (the load generator)"),
        "{found:?}"
    );
    records[1].version = "0.2.0".to_owned();
    let found = warnings(&records);
    assert!(found.len() == 1 && found.concat().contains("the versions of Sluice"), "{found:?}");
}

#[test]
fn two_controllers_of_one_study_are_compared_as_two_studies() {
    let record = record(2);
    let samples = Sampler { noise: 0.01, ..Sampler::new(9) }.samples(&record);
    let [first, second] =
        ["c0", "c1"].map(|id| of_controller(&record, &samples, id, "subject").unwrap());
    let comparison = compare(
        Study { name: "c0", record: &first.0, samples: &first.1 },
        Study { name: "c1", record: &second.0, samples: &second.1 },
    );
    assert_eq!(comparison.rows.len(), 20);
    assert!(comparison.unmatched.is_empty(), "{:?}", comparison.unmatched);
    // The second one of the sampler has a third of the rate.
    let is_worse = |it: &Row| it.controller == "subject" && it.change() == Change::Worse;
    assert!(comparison.rows.iter().all(is_worse));
    assert!(of_controller(&record, &samples, "c2", "subject").is_none());
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

#[test]
fn figures_that_are_lower_bounds_in_both_studies_do_not_pass_silently() {
    let record = record(1);
    let mut first = Sampler::new(7).samples(&record);
    for sample in &mut first {
        sample.lower_bounds = vec!["rate".to_owned()];
    }
    let comparison = compared(&record, [&first, &first]);
    let verdict = comparison.gate(0.05);
    // The latencies can be compared, so that the rates do not count; but they are named.
    assert!(verdict.has_passed() && verdict.tested > 0);
    assert_eq!(verdict.undecided.len(), 10);
    let both =
        |(row, why): &(&Row, Undecided)| row.metric == "rate" && *why == Undecided::BothAreBounds;
    assert!(verdict.undecided.iter().all(both), "{:?}", verdict.undecided);
    let reasons = verdict.reasons();
    assert!(
        reasons[0].starts_with(
            "cannot tell whether throughput: c0, switches 1: rate is worse: both values"
        ),
        "{reasons:?}"
    );

    // Without anything else, there is no verdict, which is a failure.
    for sample in &mut first {
        sample.figures.remove("p50_us");
    }
    let comparison = compared(&record, [&first, &first]);
    let verdict = comparison.gate(0.05);
    assert!(!verdict.has_passed() && verdict.worse.is_empty() && verdict.lost.is_empty());
    assert_eq!(verdict.reasons().last().unwrap(), "no figure can be compared");
}

#[test]
fn a_lower_bound_on_one_side_decides_in_one_direction_only() {
    let record = record(1);
    let mut sampler = Sampler { noise: 0.01, ..Sampler::new(8) };
    let exact = sampler.samples(&record);
    let mut bounded = exact.clone();
    for sample in &mut bounded {
        sample.lower_bounds = vec!["rate".to_owned()];
    }
    sampler.speed = 0.5;
    let slower = sampler.samples(&record);
    let rates = |first: &[Sample], second: &[Sample]| {
        let comparison = compared(&record, [first, second]);
        let of_rates = |it: &&Row| it.metric == "rate";
        let changes: Vec<_> = comparison.rows.iter().filter(of_rates).map(Row::change).collect();
        let undecided =
            comparison.gate(0.05).undecided.iter().map(|(_, why)| *why).collect::<Vec<_>>();
        (changes, undecided)
    };
    // At least as much before, and half of it now: worse, whatever it was before.
    assert_eq!(rates(&bounded, &slower), (vec![Change::Worse; 10], vec![]));
    // As much as before at least.
    let (changes, undecided) = rates(&exact, &bounded);
    assert!(changes.iter().all(|it| *it == Change::None) && undecided.is_empty(), "{changes:?}");
    // It may have been more before.
    let (changes, undecided) = rates(&bounded, &exact);
    assert!(changes.iter().all(|it| *it == Change::Unknown), "{changes:?}");
    assert_eq!(undecided, vec![Undecided::FirstIsLowerBound; 10]);
    // Half of it at least now: it may be as much as before.
    let mut slower = slower;
    for sample in &mut slower {
        sample.lower_bounds = vec!["rate".to_owned()];
    }
    assert_eq!(rates(&exact, &slower).1, vec![Undecided::SecondIsLowerBound; 10]);
}

#[test]
fn an_upper_bound_on_one_side_decides_in_the_other_direction_only() {
    let record = record(1);
    let mut sampler = Sampler { noise: 0.01, ..Sampler::new(9) };
    let fast = sampler.samples(&record);
    sampler.speed = 0.5;
    let slow = sampler.samples(&record);
    let bounded = |samples: &[Sample]| {
        let mut all = samples.to_vec();
        for sample in &mut all {
            sample.upper_bounds = vec!["p50_us".to_owned()];
        }
        all
    };
    let medians = |first: &[Sample], second: &[Sample]| {
        let comparison = compared(&record, [first, second]);
        let of_medians = |it: &&Row| it.metric == "p50_us";
        let changes: Vec<_> = comparison.rows.iter().filter(of_medians).map(Row::change).collect();
        assert_eq!(changes.len(), 10);
        let verdict = comparison.gate(0.05);
        let undecided = verdict.undecided.iter().filter(|(row, _)| row.metric == "p50_us");
        (changes, undecided.map(|(_, why)| *why).collect::<Vec<_>>(), comparison.to_string())
    };
    let (changes, _, text) = medians(&fast, &slow);
    assert_eq!(changes, [Change::Worse; 10]);
    assert!(!text.contains('≤'), "{text}");
    // At most that much before: worse, whatever it was.
    let (changes, undecided, text) = medians(&bounded(&fast), &slow);
    assert_eq!((changes, undecided), (vec![Change::Worse; 10], vec![]));
    assert!(text.contains('≤') && text.contains('≥'), "{text}");
    // Twice as much at most now: it may be as much as before.
    let (changes, undecided, _) = medians(&fast, &bounded(&slow));
    assert_eq!(changes, [Change::Unknown; 10]);
    assert_eq!(undecided, [Undecided::SecondIsUpperBound; 10]);
    // Half as much at most now: better. Half as much now as it was at most: it may have been less.
    assert_eq!(medians(&slow, &bounded(&fast)).0, [Change::Better; 10]);
    let (changes, undecided, _) = medians(&bounded(&slow), &fast);
    assert_eq!(changes, [Change::Unknown; 10]);
    assert_eq!(undecided, [Undecided::FirstIsUpperBound; 10]);
    let (changes, undecided, _) = medians(&bounded(&slow), &bounded(&slow));
    assert_eq!(changes, [Change::Unknown; 10]);
    assert_eq!(undecided, [Undecided::BothAreBounds; 10]);
}

#[test]
fn losses_by_chance_fail_no_study_of_many_rows() {
    let record = record(10);
    let mut failed = 0;
    for seed in 0..4 {
        let [first, second] = [1, 2].map(|half| {
            let mut draws = Sampler::new(100 * seed + half);
            let mut samples = draws.samples(&record);
            for sample in &mut samples {
                sample.figures.clear();
                // None, or up to three packets of a thousand: many rows have a 0.
                let lost = f64::from(draws.rng.below(4)) / 1000.0;
                sample.figures.insert("unanswered".to_owned(), lost);
            }
            samples
        });
        let comparison = compared(&record, [&first, &second]);
        let verdict = comparison.gate(0.0);
        failed += usize::from(verdict.worse.iter().any(|row| row.metric == "unanswered"));
    }
    // A test of each row by itself, at 1 %, would fail most of these studies, of 100 rows each.
    assert_eq!(failed, 0, "of 4 studies");
}
