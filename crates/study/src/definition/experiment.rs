//! An experiment as a file: what is varied, what is measured, which figures show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axis::{Axis, AxisValue, Cell};
use super::figure::{Figure, PublishedValues};
use super::measure::Measure;

/// An experiment. `study/experiments/NAME.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Heading in the report.
    pub title: String,
    /// Which question it answers.
    pub question: String,
    /// The paper or document whose experiment it repeats; `None` if it is new.
    #[serde(default)]
    pub repeats: Option<String>,
    /// Number of samples of each cell.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// Controllers that take part, by file name; empty for all of the study.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// What the machine must have.
    #[serde(default)]
    pub requires: Option<Requirement>,
    /// How a sample is taken.
    pub measure: Measure,
    /// What is varied, with its values; the cells are all combinations.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<AxisValue>>,
    /// What differs in the short form.
    #[serde(default)]
    pub short: Option<Shorter>,
    /// Figures and tables of the report.
    pub figures: Vec<Figure>,
    /// Published values that are shown beside the measured ones.
    #[serde(default)]
    pub published: Vec<PublishedValues>,
}

/// What a machine must have for an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// Energy counters (RAPL) that this process can read.
    EnergyCounters,
    /// At least two processor sockets.
    TwoSockets,
    /// The original cbench, as `cbench/cbench` where controllers are installed.
    Cbench,
}

/// Samples of each cell in the short form, unless it says otherwise.
const SHORT_ROUNDS: u32 = 3;

fn default_rounds() -> u32 {
    5
}

/// What differs in the short form of an experiment, which is also the one with fewer cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// Values of the axes that have fewer of them.
    #[serde(default)]
    pub axes: BTreeMap<Axis, Vec<AxisValue>>,
    /// Number of samples of each cell.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Duration of a sample in seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
}

impl Experiment {
    /// The experiment with the values of its short form.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        let Some(short) = self.short.take() else {
            self.rounds = self.rounds.min(SHORT_ROUNDS);
            return self;
        };
        self.axes.extend(short.axes);
        self.rounds = short.rounds.unwrap_or_else(|| SHORT_ROUNDS.min(self.rounds));
        if let Some(seconds) = short.seconds {
            match &mut self.measure {
                Measure::Bench(it) => it.seconds = seconds,
                Measure::Paths(it) => it.seconds = seconds,
                Measure::Startup(it) => it.timeout_s = seconds,
                Measure::Connection(it) => it.timeout_s = seconds,
                Measure::Stream(it) => it.seconds = seconds,
                Measure::Cbench(it) => it.seconds = seconds,
                Measure::Rfc8456(it) => it.seconds = seconds,
            }
        }
        self
    }

    /// All combinations of the values of its axes; one empty cell if it has none.
    pub fn cells(&self) -> Vec<Cell> {
        self.axes.iter().fold(vec![Cell::new()], |cells, (axis, values)| {
            let with = |cell: &Cell, value: &AxisValue| {
                let mut cell = cell.clone();
                cell.insert(*axis, value.clone());
                cell
            };
            cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, value))).collect()
        })
    }
}
