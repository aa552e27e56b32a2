//! Counters of an emulated switch beyond those of the specification.

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchCounters {
    /// Packet-ins sent.
    pub packet_ins: u64,
    /// Packet-ins with the whole packet because the buffer was full.
    pub buffer_full_packet_ins: u64,
    /// Packets that were buffered with the first packet of their flow instead of causing a packet-in.
    pub buffered_with_flow: u64,
    /// Packets released from the buffer by the controller.
    pub released_packets: u64,
    /// `FLOW_MOD`s executed.
    pub flow_mods: u64,
    /// `PACKET_OUT`s executed.
    pub packet_outs: u64,
    /// Messages that can change where packets go, accepted or not: `FLOW_MOD`, `GROUP_MOD`, `METER_MOD`, `PORT_MOD`, `TABLE_MOD`.
    pub changes: u64,
    /// `ERROR`s sent.
    pub errors: u64,
    /// Dropped packets, by reason.
    pub drops: DropCounters,
}

/// Dropped packets, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropCounters {
    /// Too short for an Ethernet header.
    pub runt: u64,
    /// The input or output port is down, does not exist, does not receive or forward, or both are the same port.
    pub blocked_port: u64,
    /// No flow entry matched, and there is no table-miss entry.
    pub table_miss: u64,
    /// For the controller, which is not connected or has filtered it out.
    pub no_controller: u64,
    /// For the controller, while too many bytes wait to be sent to it.
    pub tx_backlog: u64,
    /// The matching flow entry has no output.
    pub no_output: u64,
    /// Dropped by a meter.
    pub meter: u64,
    /// The TTL expired.
    pub ttl_expired: u64,
    /// For a group without a live bucket, or too many nested groups.
    pub group: u64,
    /// Discarded from the buffer without an answer.
    pub buffer_timeout: u64,
}

impl DropCounters {
    /// The sum over all reasons.
    pub const fn total(&self) -> u64 {
        self.runt
            + self.blocked_port
            + self.table_miss
            + self.no_controller
            + self.tx_backlog
            + self.no_output
            + self.meter
            + self.ttl_expired
            + self.group
            + self.buffer_timeout
    }
}
