//! Whether a second study is as good as a first one, for use in scripts.

use super::{Change, Comparison, Direction, Row, SAMPLES_MIN, UnmatchedCell};

/// Most figures of one kind that are listed as undecided.
const LISTED_MAX: usize = 10;

/// What the gate has found.
#[derive(Debug)]
pub struct GateVerdict<'c> {
    /// Figures that are worse.
    pub worse: Vec<&'c Row>,
    /// Cells that have fewer figures, or more failures.
    pub lost: Vec<&'c UnmatchedCell>,
    /// Figures of which it cannot be told whether they are worse, and why. They do not count, unless there are no others.
    pub undecided: Vec<(&'c Row, Undecided)>,
    /// Number of figures that could be compared.
    pub tested: usize,
}

/// Why it cannot be told whether a figure is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// A study has fewer than three samples.
    FewSamples,
    /// Both means are only lower bounds, or both only upper ones, or the ratio has no bound for another such reason.
    BothAreBounds,
    /// The first mean is only a lower bound, and the true value may be better.
    FirstIsLowerBound,
    /// The second mean is only a lower bound, and the true value may be worse.
    SecondIsLowerBound,
    /// The first mean is only an upper bound, and the true value may be better.
    FirstIsUpperBound,
    /// The second mean is only an upper bound, and the true value may be worse.
    SecondIsUpperBound,
    /// The first study has a value of 0, so that there is no ratio.
    Zero,
}

impl Undecided {
    /// As the end of a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::FewSamples => "a study has fewer than three samples",
            Self::BothAreBounds => {
                "both values are only bounds (requests were not answered, or the load generator was the limit)"
            }
            Self::FirstIsLowerBound => "the first value is only a lower bound",
            Self::SecondIsLowerBound => "the second value is only a lower bound",
            Self::FirstIsUpperBound => "the first value is only an upper bound",
            Self::SecondIsUpperBound => "the second value is only an upper bound",
            Self::Zero => "the first study has a value of 0",
        }
    }
}

impl GateVerdict<'_> {
    /// Whether the second study is as good as the first, as far as it can be told.
    pub fn has_passed(&self) -> bool {
        self.worse.is_empty() && self.lost.is_empty() && self.tested > 0
    }

    /// Sentences about what is worse, missing or unknown.
    pub fn reasons(&self) -> Vec<String> {
        let worse = self.worse.iter().map(|row| {
            let how = match row.worsening() {
                share if share.is_finite() => format!("is {:.1} % worse", 100.0 * share),
                _ => "was 0 before".to_owned(),
            };
            format!("{}: {}: {} {how}", row.experiment, row.cell_text(), row.metric)
        });
        let lost = self
            .lost
            .iter()
            .map(|cell| format!("{}: {}: {}", cell.experiment, cell.controller, cell.reason));
        let undecided = self.undecided.iter().take(LISTED_MAX).map(|(row, why)| {
            format!(
                "cannot tell whether {}: {}: {} is worse: {}",
                row.experiment,
                row.cell_text(),
                row.metric,
                why.text()
            )
        });
        let more = self.undecided.len().saturating_sub(LISTED_MAX);
        let more = (more > 0).then(|| format!("cannot tell either of {more} more figures"));
        let untested = (self.tested == 0).then(|| {
            let has_bounds = self.undecided.iter().any(|(_, why)| *why != Undecided::FewSamples);
            if has_bounds {
                "no figure can be compared".to_owned()
            } else {
                "no figure has three samples in both studies".to_owned()
            }
        });
        worse.chain(lost).chain(undecided).chain(more).chain(untested).collect()
    }
}

impl Row {
    /// Whether the gate tests it: a figure that the report shows, or a loss where there was none.
    pub(super) fn can_fail_the_gate(&self) -> bool {
        (self.is_shown || self.is_new) && self.direction != Direction::Neutral
    }

    /// Why the gate cannot tell whether it is worse, if it cannot.
    fn undecided(&self) -> Option<Undecided> {
        if self.change_by(self.joint_interval) != Change::Unknown {
            return None;
        }
        if self.samples.iter().any(|&n| n < SAMPLES_MIN) {
            return Some(Undecided::FewSamples);
        }
        let [first, second] = self.means;
        let is_higher_better = self.direction == Direction::HigherIsBetter;
        match self.ratio_bounds() {
            [true, true] => Some(Undecided::BothAreBounds),
            [true, false] if self.at_least[0] => Some(Undecided::FirstIsLowerBound),
            [true, false] => Some(Undecided::SecondIsUpperBound),
            [false, true] if is_higher_better && second >= first => None,
            [false, true] if self.at_least[1] => Some(Undecided::SecondIsLowerBound),
            [false, true] => Some(Undecided::FirstIsUpperBound),
            // Whether values are greater than those of which some are 0 was tested.
            [false, false] => (is_higher_better && second < first).then_some(Undecided::Zero),
        }
    }
}

impl Comparison {
    /// Whether the second study is worse, by more than the share `threshold` (0.05 for 5 %) and beyond what chance explains.
    pub fn gate(&self, threshold: f64) -> GateVerdict<'_> {
        let candidates = || self.rows.iter().filter(|row| row.can_fail_the_gate());
        let undecided: Vec<_> =
            candidates().filter_map(|row| Some((row, row.undecided()?))).collect();
        GateVerdict {
            worse: self.regressions(threshold),
            lost: self.lost(),
            tested: candidates().count() - undecided.len(),
            undecided,
        }
    }

    /// The rows in which the second study is worse, beyond what chance explains in so many rows, and by more than the share `threshold`
    /// (0.05 for 5 %).
    ///
    /// Cells that have figures no more are not among them; see [`Comparison::lost`]. Only figures that the report shows count, and
    /// losses where there were none.
    pub fn regressions(&self, threshold: f64) -> Vec<&Row> {
        let is_regression = |row: &&Row| {
            row.can_fail_the_gate()
                && row.change_by(row.joint_interval) == Change::Worse
                && row.worsening() > threshold
        };
        self.rows.iter().filter(is_regression).collect()
    }

    /// The cells that have figures in the first study only, or more failures in the second.
    pub fn lost(&self) -> Vec<&UnmatchedCell> {
        self.unmatched.iter().filter(|it| it.study == 0).collect()
    }
}
