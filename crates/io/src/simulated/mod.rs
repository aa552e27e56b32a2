//! [`Io`](crate::Io) without a kernel, for simulations that a seed replays exactly.
//!
//! A [`SimulatedKernel`] contains all listeners and connections. Each simulated thread owns a [`SimulatedIo`], which never
//! blocks: [`wait`](crate::Io::wait) returns what is ready now, and [`SimulatedKernel::is_ready`] says whether that is
//! anything. The simulation runs a thread when it is ready or its deadline has passed, advances the time, and acts for
//! the peers: it connects, sends, receives and closes.
//!
//! Everything that the system may decide is decided by the seed: in which order events are reported, how many of them at
//! a time, and how long it takes to read the clock. `tests/conformance.rs` compares this implementation with
//! [`Epoll`](crate::Epoll).
//!
//! ```
//! use sluice_io::simulated::{ClockError, SimulatedKernel};
//! use sluice_io::{Io, IoEvent, clock};
//!
//! let kernel = SimulatedKernel::new(1, clock::now());
//! let mut io = kernel.add_thread(ClockError::default());
//! let addr = "10.0.0.1:6653".parse()?;
//! io.listen(kernel.listen(addr)?)?;
//!
//! let peer = kernel.connect(addr, "10.0.0.2:40000".parse()?)?;
//! assert_eq!(kernel.peer_send(peer, b"hello"), 5);
//! io.wait(None)?;
//! let Some(IoEvent::Accepted(conn, _, _)) = io.next_event() else { panic!() };
//! let id = io.adopt(conn)?;
//! assert!(kernel.is_ready(io.thread()));
//! io.wait(None)?;
//! assert!(matches!(io.next_event(), Some(IoEvent::Data(from, b"hello")) if from == id));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod connection;
mod kernel;
mod simulated_io;
mod state;

pub use clock::ClockError;
pub use connection::{BufferSizes, PeerState};
pub use kernel::{SimulatedConn, SimulatedKernel, SimulatedListener, SimulatedWaker};
pub use simulated_io::SimulatedIo;
pub use state::{DescriptorUse, PeerId, SimulatedThread};
