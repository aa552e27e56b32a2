//! Emulated networks: links with delay, rate and loss, OpenFlow switches, hosts and topologies.

pub mod host;
pub mod link;
pub mod live;
pub mod net;
pub mod switch;
pub mod topology;
