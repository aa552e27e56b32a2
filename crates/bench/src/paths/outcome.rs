//! Figures of a measurement of paths that other measurements do not have.

/// Messages that the switches executed in one loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NetworkLoopCounts {
    /// `FLOW_MOD`s.
    pub(crate) flow_mods: u64,
    /// `PACKET_OUT`s.
    pub(crate) packet_outs: u64,
}

/// Figures of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NetworkTotals {
    /// Paths that were not requested, because the flow tables sent the first packet to its destination.
    pub(crate) already_installed: u64,
    /// Times at which no pair of hosts could be used, because all had been used a short time before.
    pub(crate) out_of_pairs: u64,
    /// Answers of destinations, sent because the flow tables would not have sent them to the source.
    pub(crate) answers: u64,
    /// Messages of the controller that the switches refused.
    pub(crate) refused_messages: u64,
    /// Frames dropped in loops.
    pub(crate) looping_frames: u64,
}
