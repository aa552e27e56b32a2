//! A link of the data plane with the frames in transit.

use std::time::Instant;

use sluice_base::Rng;
use sluice_openflow::PortNo;

use crate::link::{LinkImpairments, LinkModel, OfferOutcome};
use crate::topology::PortRef;

/// What a link is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkEnd {
    Port(PortRef),
    Host(usize),
    Hub(usize),
}

impl LinkEnd {
    /// The lowest one, for range queries.
    pub(super) const FIRST: Self = Self::Port(PortRef { switch: 0, port: PortNo(0) });
}

/// One of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkSide {
    A,
    B,
}

/// Frame counters of a link, for both directions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameCounters {
    /// Frames sent into the link.
    pub sent: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Multicast and broadcast frames among them.
    pub multicast: u64,
    /// Frames delivered.
    pub delivered: u64,
    /// Frames dropped: lost, queue full, or link down.
    pub dropped: u64,
}

/// A link with one model per direction.
#[derive(Debug)]
pub(super) struct FabricLink {
    pub(super) a: LinkEnd,
    pub(super) b: LinkEnd,
    pub(super) is_up: bool,
    pub(super) counters: FrameCounters,
    impairments: LinkImpairments,
    from_a: OneWay,
    from_b: OneWay,
}

/// One direction, with its scheduled wake-up.
#[derive(Debug)]
struct OneWay {
    model: LinkModel<Vec<u8>>,
    wakeup_at: Option<Instant>,
}

impl OneWay {
    fn new(impairments: LinkImpairments) -> Self {
        Self { model: LinkModel::new(impairments), wakeup_at: None }
    }
}

impl FabricLink {
    pub(super) fn new(a: LinkEnd, b: LinkEnd, impairments: LinkImpairments) -> Self {
        Self {
            a,
            b,
            is_up: true,
            counters: FrameCounters::default(),
            impairments,
            from_a: OneWay::new(impairments),
            from_b: OneWay::new(impairments),
        }
    }

    fn direction(&mut self, from: LinkSide) -> &mut OneWay {
        match from {
            LinkSide::A => &mut self.from_a,
            LinkSide::B => &mut self.from_b,
        }
    }

    /// Sends a frame; `true` if it will arrive.
    pub(super) fn send(
        &mut self,
        now: Instant,
        from: LinkSide,
        frame: Vec<u8>,
        rng: &mut Rng,
    ) -> bool {
        self.counters.sent += 1;
        self.counters.bytes += frame.len() as u64;
        self.counters.multicast += u64::from(frame.first().is_some_and(|byte| byte & 1 == 1));
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let is_due = self.is_up
            && matches!(
                self.direction(from).model.offer(now, len, frame, rng),
                OfferOutcome::Due(_)
            );
        self.counters.dropped += u64::from(!is_due);
        is_due
    }

    /// The next frame that has arrived.
    pub(super) fn receive(&mut self, now: Instant, from: LinkSide) -> Option<Vec<u8>> {
        let frame = self.direction(from).model.pop_due(now)?.item;
        self.counters.delivered += 1;
        Some(frame)
    }

    /// The time of a wake-up that must be scheduled.
    pub(super) fn next_wakeup(&mut self, from: LinkSide) -> Option<Instant> {
        let direction = self.direction(from);
        let due = direction.model.next_due_at()?;
        let is_late = direction.wakeup_at.is_none_or(|wakeup_at| wakeup_at > due);
        is_late.then(|| *direction.wakeup_at.insert(due))
    }

    /// Clears a wake-up that has passed.
    pub(super) fn clear_wakeup(&mut self, now: Instant, from: LinkSide) {
        self.direction(from).wakeup_at.take_if(|wakeup_at| *wakeup_at <= now);
    }

    /// Sets the link up or down. Frames in transit are dropped; returns how many.
    pub(super) fn set_up(&mut self, is_up: bool) -> u64 {
        self.is_up = is_up;
        self.drop_frames()
    }

    /// Drops frames in transit; returns how many.
    pub(super) fn drop_frames(&mut self) -> u64 {
        let held = [&self.from_a, &self.from_b]
            .map(|direction| direction.model.counters().in_transit().packets);
        let lost = held.iter().sum();
        self.counters.dropped += lost;
        self.from_a = OneWay::new(self.impairments);
        self.from_b = OneWay::new(self.impairments);
        lost
    }

    /// Changes the impairments.
    pub(super) fn set_impairments(&mut self, now: Instant, impairments: LinkImpairments) {
        self.impairments = impairments;
        self.from_a.model.set_impairments(now, impairments);
        self.from_b.model.set_impairments(now, impairments);
    }
}
