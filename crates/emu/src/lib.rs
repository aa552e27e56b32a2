//! Networks that are not there: links with delay, rate and loss, model switches, hosts and topologies.

pub mod link;
pub mod topology;
