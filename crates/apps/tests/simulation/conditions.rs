//! The conditions of a simulated network that do not change while it runs.

use super::*;

/// What is decided from a separate stream of random numbers, so that the other choices of a seed do not depend on it.
#[derive(Debug)]
pub(super) struct NetworkConditions {
    pub(super) workers: usize,
    pub(super) apps: &'static [&'static str],
    pub(super) transport: ControlTransport,
    /// Rate of control links, and packets that they lose.
    pub(super) rate_bps: Option<NonZeroU64>,
    pub(super) loss: LossRatio,
    pub(super) backlog_bytes_max: usize,
    /// Weight of what may wait for a thread.
    pub(super) queue_capacity: usize,
    pub(super) moves: SwitchMoves,
    pub(super) reconnect_delay: Duration,
}

/// The limit of a backlog where it is not small.
const BACKLOG_BYTES_MAX: usize = 256 << 10;

/// Whether switches move between workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchMoves {
    Never,
    /// All at once, each to the next worker.
    InTurn,
    /// Some of them, to any worker, so that one may have many more than another.
    Random,
}

impl NetworkConditions {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(3) ^ 0xc0d1);
        let mut one_in = |n: u32| rng.below(n) == 0;
        let (is_tcp, is_limited, has_limiter) = (one_in(2), one_in(4), one_in(8));
        let moves_switches = one_in(4);
        // From 0.5 to 100 Mbit/s, evenly in the logarithm.
        let kbit = 500.0 * 200f64.powf(f64::from(rng.below(1000)) / 1000.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
        let rate_bps = NonZeroU64::new(kbit as u64 * 1000).filter(|_| is_tcp);
        let loss = LossRatio::from_ppm(if is_tcp { rng.below(20_000) } else { 0 });
        let workers = 1 + rng.below(4) as usize;
        let backlog_bytes_max = 512 << rng.below(5);
        let queue_capacity = if rng.below(4) == 0 { 1 + rng.below(16) as usize } else { 4096 };
        let moves = match (moves_switches, rng.below(4)) {
            (true, 0 | 1) => SwitchMoves::InTurn,
            (true, _) | (false, 0) => SwitchMoves::Random,
            (false, _) => SwitchMoves::Never,
        };
        // A switch may connect again before the loss of its connection is noticed.
        let is_impatient = rng.below(2) == 0;
        let reconnect_ms = if is_impatient { rng.below(100) } else { 1000 };
        Self {
            workers,
            apps: if has_limiter { APPS_WITH_LIMITER } else { APPS },
            transport: if is_tcp { ControlTransport::Tcp } else { ControlTransport::Ideal },
            rate_bps,
            loss,
            backlog_bytes_max: if is_limited { backlog_bytes_max } else { BACKLOG_BYTES_MAX },
            queue_capacity,
            moves,
            reconnect_delay: Duration::from_millis(reconnect_ms.into()),
        }
    }

    /// Whether the backlogs of switches have small limits.
    pub(super) fn has_limited_backlogs(&self) -> bool {
        self.backlog_bytes_max < BACKLOG_BYTES_MAX
    }

    /// How long the controller may take to flood a packet: several retransmissions, if control links lose packets.
    pub(super) fn flood_time(&self) -> Duration {
        match self.transport {
            ControlTransport::Ideal => Duration::from_millis(200),
            ControlTransport::Tcp => Duration::from_secs(5),
        }
    }

    /// The impairments of a control link.
    pub(super) fn on_link(&self, link: LinkImpairments) -> LinkImpairments {
        LinkImpairments { rate_bps: self.rate_bps, loss: self.loss, ..link }
    }
}
