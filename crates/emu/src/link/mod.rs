//! A control link with delay, jitter, rate, loss and a queue.
//!
//! [`Pipe`] is the model of one direction and knows no clock: a simulator drives it in its own time, and [`Link`] in
//! that of the wall, between two TUN devices or as a relay of TCP connections. The link measures itself: how late it
//! lets packets go, and how much of the rate there is.

mod control;
mod course;
mod error;
mod pipe;
mod plan;
mod relay;
mod report;
mod run;
mod series;
mod settings;
mod tuns;
mod units;

pub use control::{BadLine, Both, LINE_MAX, Order, Way, both};
pub use error::Error;
pub use pipe::{Counts, Departure, Fate, HELD_BYTES_MAX, HELD_PACKETS_MAX, Pipe, Tally};
pub use plan::{BadEnd, End, Ends, MTU_MIN, Plan, address};
pub use relay::CONNECTIONS_MAX;
pub use report::{Lateness, Report, WayReport};
pub use run::{Handle, Link};
pub use series::{BIN, COLUMNS, Sink};
pub use settings::{Change, DELAY_MAX, JITTER_MAX, NAMES, QUEUE_MAX, RATE_MAX, RATE_MIN, Settings};
pub use units::{BadValue, Share, show_bytes, show_rate, show_share, show_time};
