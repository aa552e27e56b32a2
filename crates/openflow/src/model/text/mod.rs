//! Flows, actions, groups, meters and messages as people write them: the syntax of `ovs-ofctl`, both ways.

mod action;
mod conntrack;
mod flow;
mod form;
mod group;
mod learn;
mod matching;
mod message;
mod meter;
mod nicira;
mod register;
mod scan;
mod stat_trigger;

pub use scan::{TextError, caret};
