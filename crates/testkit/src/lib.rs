//! Test support for applications: transcripts, the engine in simulated time, simulated networks.
#![expect(
    clippy::panic,
    reason = "a failed expectation of this library fails the test that uses it"
)]

mod app_worker;
pub mod claims;
pub mod random_tables;
mod scenario;
mod simulated_engine;
mod simulated_network;
pub mod transcript;

pub use app_worker::{AppOutput, AppWorker, CallOutput, CalledSwitch, run_iterations};
pub use scenario::{ControlLoad, OpenedConnection, PacketInCounts, Scenario, StreamCounts};
pub use simulated_engine::{Conditions, SimulatedEngine, SimulatedEngineOptions};
pub use simulated_network::{SimulatedNetwork, switch_port};
pub use transcript::transcript;
