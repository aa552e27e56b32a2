//! Figures and tables of the report, and published values.

use serde::{Deserialize, Serialize};

use super::axis::{Axis, AxisValue, Cell};

/// A figure or table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name within the experiment, for links and files: letters, digits and hyphens.
    pub id: String,
    /// What is drawn.
    pub kind: FigureKind,
    /// Heading.
    pub title: String,
    /// One sentence that says what it shows and how to read it.
    pub caption: String,
    /// The figure or table that it repeats, such as `Fig. 1`.
    #[serde(default)]
    pub repeats: Option<String>,
    /// The axis along which values are drawn, for lines, and for groups of bars; the columns of a table.
    #[serde(default)]
    pub x: Option<Axis>,
    /// A second axis, of which each value has a panel of its own.
    #[serde(default)]
    pub panels: Option<Axis>,
    /// Only cells with these values are shown.
    #[serde(default, rename = "where")]
    pub only: Cell,
    /// Name of the figure of a sample that is shown; not for [`FigureKind::Cdf`].
    #[serde(default)]
    pub metric: String,
    /// What the metric is, as the label of its axis.
    #[serde(default)]
    pub label: String,
    /// Unit of the metric; by default the one that it has.
    #[serde(default)]
    pub unit: String,
    /// Whether its best value of each controller is in the summary: a rate as throughput, a time as latency.
    #[serde(default)]
    pub headline: bool,
    /// Whether the axis of the metric is logarithmic.
    #[serde(default)]
    pub logarithmic: bool,
}

/// What is drawn of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A line for each controller, with the interval of each point.
    Lines,
    /// A bar for each controller, with its interval, in groups by `x` if that is given.
    Bars,
    /// The cumulative distribution of latencies, a line for each controller.
    Cdf,
    /// The controllers' resident memory over time.
    Memory,
    /// A table: a row for each controller, mean and deviation in each column.
    Table,
    /// A table as RFC 8456 demands: a row for each trial, then average and variance; a column for each controller.
    Trials,
}

/// Values that were published for a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValues {
    /// Id of the figure.
    pub figure: String,
    /// Where they were published.
    pub source: String,
    /// Machine and method, as far as they are known, and how the values were taken: from the text, a table or read off a figure.
    pub conditions: String,
    /// The values.
    pub values: Vec<PublishedValue>,
}

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The controller, as the source names it.
    pub series: String,
    /// Value of the figure's `x`, if it has one.
    #[serde(default)]
    pub x: Option<AxisValue>,
    /// The value, in the figure's unit.
    pub y: f64,
    /// Standard deviation, if it was published.
    #[serde(default)]
    pub deviation: Option<f64>,
}
