//! Test support for applications: transcripts, a simulated controller, simulated networks.
#![expect(
    clippy::panic,
    reason = "a failed expectation of this library fails the test that uses it"
)]

mod scenario;
mod simulated_controller;
mod simulated_network;
pub mod transcript;

pub use scenario::{ControlLoad, OpenedConnection, PacketInCounts, Scenario, StreamCounts};
pub use simulated_controller::SimulatedController;
pub use simulated_network::{SimulatedNetwork, switch_port};
pub use transcript::transcript;
