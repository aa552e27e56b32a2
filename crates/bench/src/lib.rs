//! Load generator: emulates OpenFlow switches against any controller and measures its replies.
//!
//! A [`Plan`] describes a measurement; [`run`] carries it out and returns a [`Report`]. [`null`] is a responder that does
//! the minimum that a controller must do, for comparison on the same machine; [`flood`] opens connections that never complete
//! a handshake.
//!
//! A reply counts only if it answers an outstanding request. Replies are matched by the buffer id or, where there is none,
//! by the Ethernet addresses of the packet. Late, duplicate and unsolicited replies, and requests without a reply, are
//! counted separately.

mod announcements;
mod base_entries;
mod bench_switch;
pub mod cbench;
pub mod compare;
mod connect;
mod coordination;
mod counts;
mod cpu_warnings;
pub mod csv;
mod distribution;
mod entries;
mod error;
pub mod flood;
mod generator;
mod generator_thread;
pub mod hdr_log;
mod host_pairs;
pub mod html;
pub mod json;
mod latency;
mod lifecycle;
pub mod null;
mod offered_load;
pub mod output;
mod outstanding;
mod overtaken;
pub mod paths;
mod pending;
mod plan;
#[cfg(test)]
mod planted_faults;
mod provenance;
mod repeat;
mod reply;
mod reply_templates;
mod report;
mod request_records;
mod requests;
mod run;
mod schedule;
mod statistics;
mod text_chart;
pub mod text_report;
mod text_runs;
mod timestamp;
mod warnings;

pub use counts::{ErrorCounts, NotSent, RequestCounts};
pub use distribution::{LatencyDistribution, Quantile};
pub use error::Error;
pub use offered_load::ScheduleLag;
pub use plan::{Announce, ConnectAttempts, Load, Plan, ReplyCounting, SWITCHES_MAX};
pub use provenance::{ControllerProcess, CpuUse, Host, Provenance, RunNumber, rfc3339};
pub use repeat::{Repetition, RunsSummary};
pub use report::{LittlesLaw, LoopFigures, OfferedRates, Report, SwitchFigures, ThreadFigures};
pub use requests::Buffering;
pub use run::{RunObserver, RunProgress, run};
pub use schedule::Arrivals;
pub use statistics::{ConfidenceInterval, DurationSummary, FigureSummary, median};
