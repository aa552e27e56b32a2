//! What is measured: controllers and experiments as files, checked before anything starts.

mod catalogue;
mod check;
mod controller;
mod experiment;
mod figure;
mod metrics;

pub use catalogue::{Catalogue, DefinitionError};
pub use controller::{
    ControllerRow, HttpCount, Northbound, PathRequest, PathRequestScope, Ready, Start, Stop,
    StopSignal,
};
pub use experiment::{
    Axis, AxisValue, BenchSettings, Cell, Experiment, LinkSettings, LoadSetting, Measure,
    PathsSettings, Rfc8456Settings, Shorter, StartupSettings,
};
pub use figure::{Figure, FigureKind, PublishedValue, PublishedValues};
