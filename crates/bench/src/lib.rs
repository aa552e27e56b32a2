//! Plays switches against any controller and measures its answers.
//!
//! A [`Plan`] says what is to be measured; [`run`] does it and returns a [`Report`]. [`null`] is the ceiling: a
//! responder that answers without looking; [`flood`] opens connections that are no switches.
//!
//! A reply counts only if it answers a request that is open, by the number of the buffer or, where there is none, by the
//! addresses of the frame. A second answer, one that nobody asked for, and a request without answer are counted apart.

pub mod cbench;
mod connect;
mod control;
mod counts;
mod error;
pub mod flood;
mod generator;
pub mod hdr;
pub mod json;
mod latency;
mod ledger;
pub mod null;
mod offer;
mod pairs;
mod plan;
mod player;
pub mod present;
mod reply;
mod report;
mod requests;
mod run;
mod schedule;
mod statistics;
pub mod table;
mod warnings;

pub use counts::{Counts, Errors};
pub use error::Error;
pub use offer::Behind;
pub use plan::{Announce, Count, Load, Plan, SWITCHES_MAX};
pub use report::{Little, LoopFigures, Report, SwitchFigures, ThreadFigures};
pub use requests::Kept;
pub use run::{Stage, Watch, run};
pub use statistics::{Spread, Three};
