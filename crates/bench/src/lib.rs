//! Plays switches against any controller and measures its answers.
//!
//! A [`Plan`] says what is to be measured; [`run`] does it and returns a [`Report`]. [`null`] is the ceiling: a
//! responder that answers without looking; [`flood`] opens connections that are no switches.
//!
//! A reply counts only if it answers a request that is open, by the number of the buffer or, where there is none, by the
//! addresses of the frame. A second answer, one that nobody asked for, and a request without answer are counted apart.

pub mod cbench;
mod connect;
mod coordination;
mod counts;
mod emulated_switch;
mod error;
pub mod flood;
mod generator;
pub mod hdr_log;
mod host_pairs;
pub mod json;
mod latency;
pub mod null;
mod offered_load;
pub mod output;
mod outstanding;
mod plan;
mod reply;
mod report;
mod requests;
mod run;
mod schedule;
mod statistics;
pub mod text_report;
mod warnings;

pub use counts::{ErrorCounts, RequestCounts};
pub use error::Error;
pub use offered_load::ScheduleLag;
pub use plan::{Announce, Load, Plan, ReplyCounting, SWITCHES_MAX};
pub use report::{LittlesLaw, LoopFigures, Report, SwitchFigures, ThreadFigures};
pub use requests::Buffering;
pub use run::{RunObserver, RunProgress, run};
pub use statistics::{DurationSummary, RateSummary};
