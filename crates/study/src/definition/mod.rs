//! What is measured: controllers and experiments as files, checked before anything starts.

mod axis;
mod catalogue;
mod check;
mod controller;
mod experiment;
mod figure;
mod measure;
pub(crate) mod metrics;
mod placeholder_names;

pub use axis::{Axis, AxisValue, Cell, SocketCores};
pub use catalogue::{Catalogue, DefinitionError, read_definition};
pub(crate) use check::check_rounds;
pub use controller::{
    ControllerRow, HttpCount, Northbound, PathRequest, PathRequestScope, Ready, Start, Stop,
    StopSignal, Variant,
};
pub use experiment::{Experiment, Requirement, Shorter};
pub use figure::{Figure, FigureKind, PublishedValue, PublishedValues};
pub use measure::{
    BenchSettings, CbenchSettings, ConnectionSettings, LinkSettings, LoadSetting, Measure,
    PathsSettings, Rfc8456Settings, StartupSettings, StreamSettings,
};
pub use metrics::Direction;
