//! How often intervals show a difference: by chance, and where there is one. The tables are in `lab/study-error`.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use serde_json::Value;
use sluice_base::Rng;

use super::{ERROR, RATIO_ERROR, RatioEstimate};

/// Figures of a comparison.
const FIGURES: usize = 12;

const COMPARISONS: u32 = 2000;

/// Samples of each side.
const SAMPLES: [usize; 3] = [3, 5, 10];

/// Between 0 and 1, both excluded.
fn uniform(rng: &mut Rng) -> f64 {
    (f64::from(rng.below(u32::MAX)) + 0.5) / f64::from(u32::MAX)
}

/// Of the normal distribution with mean 0 and deviation 1, by the transform of Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * uniform(rng).ln()).sqrt() * (TAU * uniform(rng)).cos()
}

/// The figures of both sides of a comparison with so many samples each.
type Figures = Vec<[Vec<f64>; 2]>;

/// Independent figures, of which the first is greater by `factor` on the second side.
fn independent(
    value: impl Fn(&mut Rng) -> f64,
    factor: f64,
) -> impl Fn(&mut Rng, usize) -> Figures {
    move |rng, n| {
        let mut side = || (0..n).map(|_| value(rng)).collect::<Vec<_>>();
        let mut figures: Figures = (0..FIGURES).map(|_| [side(), side()]).collect();
        figures[0][1].iter_mut().for_each(|value| *value *= factor);
        figures
    }
}

/// The figures of measured samples of one controller, drawn without replacement: they depend on each other.
fn measured() -> impl Fn(&mut Rng, usize) -> Figures {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/study-error/data/same/samples.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let figures = |line: &str| {
        let sample: Value = serde_json::from_str(line).unwrap();
        sample["figures"].as_object().unwrap().clone()
    };
    let samples: Vec<_> = lines.lines().map(figures).collect();
    let value = |sample: usize, name: &str| samples[sample][name].as_f64().unwrap();
    let names = samples[0].keys();
    let names = names.filter(|name| (0..samples.len()).all(|it| value(it, name) > 0.0));
    let columns: Vec<Vec<f64>> =
        names.map(|name| (0..samples.len()).map(|it| value(it, name)).collect()).collect();
    move |rng, n| {
        let mut left: Vec<usize> = (0..columns[0].len()).collect();
        let mut draw = || {
            let at = rng.below(u32::try_from(left.len()).unwrap());
            left.swap_remove(at as usize)
        };
        let drawn: [Vec<usize>; 2] = [(); 2].map(|()| (0..n).map(|_| draw()).collect());
        let of = |column: &Vec<f64>| {
            drawn.each_ref().map(|side| side.iter().map(|&at| column[at]).collect())
        };
        columns.iter().map(of).collect()
    }
}

/// The share of comparisons in which any figure differs, for each number of samples.
fn shares(draw: impl Fn(&mut Rng, usize) -> Figures) -> [f64; SAMPLES.len()] {
    SAMPLES.map(|n| {
        let mut rng = Rng::new(n as u64);
        let mut differs = || {
            let figures = draw(&mut rng, n);
            let error = RATIO_ERROR / f64::from(u32::try_from(figures.len()).unwrap());
            let includes_one = |[first, second]: &[Vec<f64>; 2]| {
                RatioEstimate::new(first, second, 0.0).at(error).contains(1.0)
            };
            !figures.iter().all(includes_one)
        };
        let found = (0..COMPARISONS).filter(|_| differs()).count();
        f64::from(u32::try_from(found).unwrap()) / f64::from(COMPARISONS)
    })
}

fn row(table: &mut String, name: &str, shares: [f64; SAMPLES.len()]) {
    let [few, some, many] = shares.map(|share| format!("{:.1} %", 100.0 * share));
    writeln!(table, "| {name} | {few} | {some} | {many} |").unwrap();
}

#[test]
fn equal_distributions_differ_in_at_most_one_of_twenty_comparisons() {
    let gauss = |deviation: f64| move |rng: &mut Rng| (1.0 + deviation * normal(rng)).max(0.01);
    let log_normal = |deviation: f64| move |rng: &mut Rng| (deviation * normal(rng)).exp();
    let pareto = |rng: &mut Rng| uniform(rng).powf(-1.0 / 1.5);
    let with_outliers = |rng: &mut Rng| {
        let outlier = if rng.below(10) == 0 { 0.5 } else { 0.0 };
        1.0 + 0.02 * normal(rng) + outlier
    };
    let rows = [
        ("figures of the rounds of `same`", shares(measured())),
        ("normal, deviation 5 %", shares(independent(gauss(0.05), 1.0))),
        ("normal, deviation 20 %", shares(independent(gauss(0.2), 1.0))),
        ("log-normal, deviation of the logarithm 0.5", shares(independent(log_normal(0.5), 1.0))),
        ("log-normal, deviation of the logarithm 1", shares(independent(log_normal(1.0), 1.0))),
        ("Pareto, exponent 1.5", shares(independent(pareto, 1.0))),
        (
            "normal, deviation 2 %, and one sample of ten is 50 % greater",
            shares(independent(with_outliers, 1.0)),
        ),
    ];
    let mut table = String::new();
    for &(name, shares) in &rows {
        row(&mut table, name, shares);
    }
    println!("{table}");
    assert!(rows.iter().flat_map(|(_, shares)| shares).all(|&share| share <= ERROR), "{table}");
}

#[test]
fn a_figure_that_differs_is_found_the_more_often_the_more_samples_there_are() {
    let mut table = String::new();
    let mut found = |deviation: f64, factor: f64| {
        let value = move |rng: &mut Rng| (1.0 + deviation * normal(rng)).max(0.01);
        let shares = shares(independent(value, factor));
        row(&mut table, &format!("{} %, {factor}", 100.0 * deviation), shares);
        assert!(shares.is_sorted(), "{deviation} {factor}: {shares:?}");
        shares
    };
    let [_, with_5, with_10] = found(0.02, 1.1);
    assert!(with_5 > 0.9 && with_10 > 0.99, "{with_5} {with_10}");
    for (deviation, factor) in
        [(0.02, 1.05), (0.05, 1.1), (0.05, 1.2), (0.05, 1.3), (0.1, 1.3), (0.2, 1.5)]
    {
        found(deviation, factor);
    }
    println!("{table}");
}
