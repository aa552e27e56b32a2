//! Flows, actions, groups, meters and messages as people write them: the syntax of `ovs-ofctl`, both ways.

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

pub use token::{TextError, caret};
