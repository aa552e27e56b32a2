//! Ports whose packet-ins are limited.

use super::{AppRecord, SwitchPort};
use crate::PortBlock;

/// The current blocks of a port and its hosts. Published by the application that limits packet-ins, and removed when the last one ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedPort(pub Vec<PortBlock>);

impl AppRecord for BlockedPort {
    type Key = SwitchPort;
}
