//! The controller's threads: an acceptor, and workers that run the applications.
//!
//! The acceptor thread accepts connections and runs the handshake of each; a peer that turns out not to be a switch never
//! reaches a worker. A worker owns the connections of its switches and an instance of the applications, and can be bound to
//! a core. The division follows Ivashchenko, Shalimov and Smeliansky, "High performance in-kernel SDN/OpenFlow controller".
//!
//! Workers share nothing while they process packet-ins: no lock, no atomic read-modify-write, no allocation and no system
//! call per message. Threads communicate through bounded queues only, which a worker sends to once in an iteration.

mod acceptor;
mod backpressure;
mod close_reason;
mod config;
mod connection;
mod counters;
mod deadlines;
mod engine;
mod error_log;
mod handle;
mod listen;
mod log_limit;
mod messages;
mod outstanding;
mod progress;
mod queue;
mod receive_buffer;
mod requests;
pub mod simulation;
mod switch_counters;
mod threads;
mod transmit_queue;
mod worker;

pub use close_reason::CloseReason;
pub use config::{
    Batching, Config, Endpoint, Limits, PORTS_PER_SWITCH_MAX, Pin, SYN_BURST, SYN_INTERVAL,
    TlsListeners, Transport, WorkerEngine, Workers,
};
pub use engine::{Engine, MakeChain, StartError, try_in_kernel, try_syn_filter};
pub use handle::EngineHandle;
pub use listen::PassedListener;
pub use progress::ProgressMonitor;
pub use sluice_kernel::IS_BUILT as IS_IN_KERNEL_ENGINE_BUILT;
