//! Runs the threads of an engine in an order that the test chooses, on simulated connections and clocks.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod limits;
mod migration;
mod operations;
mod ports;
mod queues;
mod reconnects;
mod requests;
mod subscribers;
mod test_engine;
mod timers;

use sluice_openflow::{Field, Message, PacketIn, PacketInReason, PortNo};

/// A packet-in with 64 zero bytes.
fn packet_in() -> Message {
    Message::PacketIn(PacketIn {
        buffer_id: None,
        total_len: 64,
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        matching: [Field::in_port(PortNo(1))].into(),
        data: vec![0; 64],
    })
}
