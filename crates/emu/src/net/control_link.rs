//! The control link between a switch and the controller: events in order, each direction through a link model.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sluice_base::Rng;

use crate::link::{LinkImpairments, LinkModel, LossRatio, OfferOutcome, QUEUE_MAX};

use super::tcp_model::TcpModel;
use super::{ConnectionId, ControlTransport, NetworkError};

/// Most bytes that may wait at one end of a control link.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Bytes for which there is room at each end of a control link: to be sent, and received but not taken.
pub(super) const WINDOW_BYTES: usize = 64 << 10;

/// TCP payload of a segment, and length of its IPv4 and TCP headers with timestamps.
pub(super) const SEGMENT_LEN: usize = 1448;
pub(super) const HEADERS_LEN: u32 = 52;

/// What passes through a control link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ControlEvent {
    Open,
    Bytes(Vec<u8>),
    Close,
}

impl ControlEvent {
    pub(super) fn len(&self) -> usize {
        if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// One direction. Nothing is dropped at its ends; exceeding the backlog is an error.
#[derive(Debug)]
pub(super) struct ControlDirection {
    carrier: ControlCarrier,
    /// Events that have arrived and were not taken.
    arrived: VecDeque<(ConnectionId, ControlEvent)>,
    arrived_bytes: usize,
    in_transit_bytes: usize,
    /// Events that wait while the link is paused or the receive window is closed.
    waiting: VecDeque<(ConnectionId, ControlEvent)>,
    waiting_bytes: usize,
    wakeup_at: Option<Instant>,
    is_paused: bool,
    bytes: u64,
}

/// What transports events over the link.
#[derive(Debug)]
enum ControlCarrier {
    Ideal(Box<LinkModel<(ConnectionId, ControlEvent)>>),
    Tcp(Box<TcpModel>),
}

impl ControlCarrier {
    fn new(
        transport: ControlTransport,
        impairments: LinkImpairments,
        reverse_delay: Duration,
    ) -> Self {
        match transport {
            ControlTransport::Ideal => Self::Ideal(Box::new(LinkModel::new(lossless(impairments)))),
            ControlTransport::Tcp => Self::Tcp(Box::new(TcpModel::new(impairments, reverse_delay))),
        }
    }

    /// The next event that arrives by `now`.
    fn receive(&mut self, now: Instant) -> Option<(ConnectionId, ControlEvent)> {
        match self {
            Self::Ideal(model) => model.pop_due(now).map(|departure| departure.item),
            Self::Tcp(transport) => transport.receive(),
        }
    }
}

impl ControlDirection {
    /// One direction; `reverse_delay` is the delay of the other one.
    pub(super) fn new(
        transport: ControlTransport,
        impairments: LinkImpairments,
        reverse_delay: Duration,
    ) -> Self {
        Self {
            carrier: ControlCarrier::new(transport, impairments, reverse_delay),
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            in_transit_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            wakeup_at: None,
            is_paused: false,
            bytes: 0,
        }
    }

    /// Sends an event; bytes are split into segments.
    pub(super) fn send(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        event: ControlEvent,
        rng: &mut Rng,
    ) -> Result<(), NetworkError> {
        self.bytes += event.len() as u64;
        if self.waiting.is_empty() && !self.is_paused && !self.is_window_closed() {
            return self.enqueue(now, conn, event, rng);
        }
        self.waiting_bytes += event.len();
        self.waiting.push_back((conn, event));
        (self.waiting_bytes <= BACKLOG_BYTES_MAX)
            .then_some(())
            .ok_or_else(|| NetworkError::ControlBacklog(conn.switch()))
    }

    fn enqueue(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        event: ControlEvent,
        rng: &mut Rng,
    ) -> Result<(), NetworkError> {
        self.in_transit_bytes += event.len();
        let carrier = &mut self.carrier;
        let mut offer = |event: ControlEvent| {
            let is_taken = match &mut *carrier {
                ControlCarrier::Ideal(model) => {
                    let len = u32::try_from(event.len()).unwrap_or(u32::MAX);
                    let len = len.saturating_add(HEADERS_LEN);
                    matches!(model.offer(now, len, (conn, event), rng), OfferOutcome::Due(_))
                }
                ControlCarrier::Tcp(transport) => {
                    transport.send(now, conn, event, rng);
                    transport.unsent_bytes() <= BACKLOG_BYTES_MAX
                }
            };
            is_taken.then_some(()).ok_or_else(|| NetworkError::ControlBacklog(conn.switch()))
        };
        match event {
            ControlEvent::Bytes(bytes) => bytes
                .chunks(SEGMENT_LEN)
                .try_for_each(|segment| offer(ControlEvent::Bytes(segment.to_vec()))),
            event => offer(event),
        }
    }

    /// The next event that has arrived.
    pub(super) fn receive(&mut self) -> Option<(ConnectionId, ControlEvent)> {
        let (conn, event) = self.arrived.pop_front()?;
        self.arrived_bytes -= event.len();
        Some((conn, event))
    }

    /// Returns the rest of bytes that were received. While the receiver does not take them, the window closes.
    pub(super) fn put_back(&mut self, conn: ConnectionId, rest: Vec<u8>) {
        self.arrived_bytes += rest.len();
        self.arrived.push_front((conn, ControlEvent::Bytes(rest)));
    }

    /// Whether the receiver takes less than arrives. What is in transit would have been sent anyway.
    fn is_window_closed(&self) -> bool {
        self.arrived_bytes > 0 && self.arrived_bytes + self.in_transit_bytes >= WINDOW_BYTES
    }

    /// Handles a wake-up: receives what has arrived.
    pub(super) fn on_wakeup(&mut self, now: Instant, rng: &mut Rng) {
        self.wakeup_at.take_if(|wakeup_at| *wakeup_at <= now);
        if let ControlCarrier::Tcp(transport) = &mut self.carrier {
            transport.tick(now, rng);
        }
        while let Some((conn, event)) = self.carrier.receive(now) {
            self.in_transit_bytes = self.in_transit_bytes.saturating_sub(event.len());
            self.arrived_bytes += event.len();
            self.arrived.push_back((conn, event));
        }
    }

    /// Sends events that wait, as far as the link is not paused and the window is open.
    pub(super) fn send_waiting(&mut self, now: Instant, rng: &mut Rng) -> Result<(), NetworkError> {
        while !self.is_paused
            && !self.is_window_closed()
            && let Some((conn, event)) = self.waiting.pop_front()
        {
            self.waiting_bytes -= event.len();
            self.enqueue(now, conn, event, rng)?;
        }
        Ok(())
    }

    /// The time of a wake-up that must be scheduled.
    pub(super) fn next_wakeup(&mut self) -> Option<Instant> {
        let due = match &self.carrier {
            ControlCarrier::Ideal(model) => model.next_due_at()?,
            ControlCarrier::Tcp(transport) => transport.deadline()?,
        };
        let is_late = self.wakeup_at.is_none_or(|wakeup_at| wakeup_at > due);
        is_late.then(|| *self.wakeup_at.insert(due))
    }

    /// Discards everything that is in transit or waits.
    pub(super) fn discard(&mut self) {
        match &mut self.carrier {
            ControlCarrier::Ideal(model) => **model = LinkModel::new(model.impairments()),
            ControlCarrier::Tcp(transport) => **transport = transport.emptied(),
        }
        self.arrived.clear();
        self.waiting.clear();
        (self.arrived_bytes, self.in_transit_bytes, self.waiting_bytes) = (0, 0, 0);
        self.wakeup_at = None;
    }

    /// Pauses the link; further events wait.
    pub(super) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Resumes the link and sends the events that waited.
    pub(super) fn resume(&mut self, now: Instant, rng: &mut Rng) -> Result<(), NetworkError> {
        self.is_paused = false;
        self.send_waiting(now, rng)
    }

    /// Changes the impairments; `reverse_delay` is the delay of the other direction.
    pub(super) fn set_impairments(
        &mut self,
        now: Instant,
        impairments: LinkImpairments,
        reverse_delay: Duration,
    ) {
        match &mut self.carrier {
            ControlCarrier::Ideal(model) => model.set_impairments(now, lossless(impairments)),
            ControlCarrier::Tcp(transport) => {
                transport.set_impairments(now, impairments, reverse_delay);
            }
        }
    }

    /// A new connection starts.
    pub(super) fn start_connection(&mut self) {
        if let ControlCarrier::Tcp(transport) = &mut self.carrier {
            transport.start_connection();
        }
    }

    pub(super) fn delay(&self) -> Duration {
        match &self.carrier {
            ControlCarrier::Ideal(model) => model.impairments().delay,
            ControlCarrier::Tcp(transport) => transport.impairments().delay,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn backlog_bytes(&mut self, now: Instant) -> usize {
        let unsent = match &mut self.carrier {
            ControlCarrier::Ideal(model) => {
                model.advance(now);
                usize::try_from(model.queued_bytes()).unwrap_or(usize::MAX)
            }
            ControlCarrier::Tcp(transport) => transport.unsent_bytes(),
        };
        self.waiting_bytes + unsent
    }

    /// How many bytes it takes now without a growing backlog.
    pub(super) fn room(&mut self, now: Instant) -> usize {
        if self.is_paused { 0 } else { WINDOW_BYTES.saturating_sub(self.backlog_bytes(now)) }
    }

    /// Bytes ever sent.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An ideal transport does not retransmit, so nothing may be lost.
fn lossless(impairments: LinkImpairments) -> LinkImpairments {
    LinkImpairments { loss: LossRatio::NONE, queue_bytes: Some(QUEUE_MAX), ..impairments }
}
