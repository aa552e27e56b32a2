//! Text syntax of `ovs-ofctl` for flow entries, matches, actions, groups, meters and whole messages: parsing and
//! printing.

mod action;
mod conntrack;
mod field_action;
mod field_value;
mod flow;
mod group;
mod learn;
mod matching;
mod message;
mod meter;
mod nicira;
mod stat_trigger;
mod token;
mod traits;

pub use token::{TextError, caret};
