//! What a model switch counts beside what the specification has it count.

/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchCounters {
    /// Frames sent to the controller.
    pub packet_ins: u64,
    /// Of these, how many had the whole frame because all places for waiting packets were taken.
    pub buffer_full_packet_ins: u64,
    /// Packets that waited with the first of their flow instead of going up.
    pub buffered_with_flow: u64,
    /// Packets that the controller's answer found waiting, those that joined included.
    pub released_packets: u64,
    /// `FLOW_MOD`s that were done.
    pub flow_mods: u64,
    /// `PACKET_OUT`s that were done.
    pub packet_outs: u64,
    /// `ERROR`s sent.
    pub errors: u64,
    /// What was dropped, and why.
    pub drops: DropCounters,
}

/// Packets that were dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropCounters {
    /// Too short for an Ethernet header.
    pub runt: u64,
    /// A port that is down, not there, or set not to take or send it; the one that it came in at.
    pub blocked_port: u64,
    /// No rule matched, and there is none for that.
    pub table_miss: u64,
    /// For the controller, which is not there or has not asked for it.
    pub no_controller: u64,
    /// For the controller, to which too much waits to be sent already.
    pub tx_backlog: u64,
    /// A rule that does nothing with it.
    pub no_output: u64,
    /// A meter.
    pub meter: u64,
    /// Its time to live ran out.
    pub ttl_expired: u64,
    /// A group without a live bucket, or groups too deep within one another.
    pub group: u64,
    /// No answer came while it waited.
    pub buffer_timeout: u64,
}

impl DropCounters {
    /// All of them.
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
