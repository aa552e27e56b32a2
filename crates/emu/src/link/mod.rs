//! Links with delay, jitter, rate, loss and a queue.
//!
//! [`LinkModel`] is the model of one direction; the caller supplies the time, so that simulations can use it.
//! [`RunningLink`] runs two of them in real time, between two TUN devices or as a TCP proxy, and measures its own
//! accuracy: how late packets leave, and how much of the rate is used.

mod command;
mod config;
mod duplex;
mod error;
mod impairments;
mod model;
mod report;
mod running;
mod tcp_proxy;
mod time_series;
mod tun_link;
mod units;

pub use command::{
    CommandError, Direction, LINE_MAX, LinkCommand, PerDirection, parse_both_directions,
};
pub use config::{AddressError, LinkConfig, LinkEndpoint, LinkEndpoints, MTU_MIN, parse_address};
pub use error::Error;
pub use impairments::{
    DELAY_MAX, IMPAIRMENT_NAMES, ImpairmentChange, JITTER_MAX, LinkImpairments, QUEUE_MAX,
    RATE_MAX, RATE_MIN,
};
pub use model::{
    Departure, IN_TRANSIT_BYTES_MAX, IN_TRANSIT_PACKETS_MAX, LinkCounters, LinkModel, OfferOutcome,
    TrafficTotal,
};
pub use report::{DirectionReport, Lateness, LinkReport};
pub use running::{LinkHandle, RunningLink};
pub use tcp_proxy::CONNECTIONS_MAX;
pub use time_series::{BIN_LEN, CSV_HEADER, TimeSeriesWriter};
pub use units::{LossRatio, ValueError, format_bytes, format_loss, format_rate, format_time};
