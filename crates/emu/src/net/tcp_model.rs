//! A model of TCP for one direction of a control link: congestion window, loss recovery, in-order delivery.
//!
//! The sender of RFC 5681 with selective acknowledgments (RFC 2018) and an initial window of ten segments (RFC 6928),
//! as in Linux except for CUBIC: after slow start, the window grows by one segment per round trip. There are no delayed
//! acknowledgments (RFC 1122 §4.2.3.2) and no Nagle algorithm (RFC 896); bytes that wait for the window are sent in
//! segments of full size. Acknowledgments take the delay of the other direction, but no capacity.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::ConnectionId;
use super::control_link::{ControlEvent, HEADERS_LEN, SEGMENT_LEN};
use crate::link::{LinkImpairments, LinkModel};

/// Initial congestion window in segments, also after an idle period. RFC 6928 §2.
const INITIAL_CWND: f64 = 10.0;

/// Smallest slow start threshold after a loss, in segments. RFC 5681 §3.1.
const SSTHRESH_MIN: f64 = 2.0;

/// A transmission is lost when one sent this much later has been acknowledged. RFC 6675 §2.
const DUP_THRESH: u64 = 3;

/// Smallest margin of the retransmission timeout over the round trip, as in Linux. RFC 6298 §2.
const RTO_MARGIN: Duration = Duration::from_millis(200);

/// The longest retransmission timeout. RFC 6298 §2.5.
const RTO_MAX: Duration = Duration::from_secs(60);

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct TcpModel {
    /// Transmissions in transit: their number, and the sequence number of their segment.
    model: LinkModel<(u64, u64)>,
    /// Delay of an acknowledgment.
    reverse_delay: Duration,
    /// Events that have not been sent, and their bytes.
    unsent: VecDeque<(ConnectionId, ControlEvent)>,
    unsent_bytes: usize,
    /// Sequence numbers to retransmit.
    lost: VecDeque<u64>,
    /// Segments that were sent and have not arrived, by sequence number.
    sent: BTreeMap<u64, (ConnectionId, ControlEvent)>,
    /// Transmissions that were neither acknowledged nor declared lost.
    flight: BTreeMap<u64, InFlight>,
    next_seq: u64,
    next_transmission: u64,
    /// Congestion window and slow start threshold, in segments.
    cwnd: f64,
    ssthresh: f64,
    /// Most segments in flight in this round trip, which ends when this transmission is acknowledged.
    flight_max: f64,
    round_end: u64,
    /// Losses of transmissions before this one belong to the current recovery.
    recovery_end: u64,
    rtt: SmoothedRtt,
    rto: Duration,
    rto_at: Option<Instant>,
    last_sent: Option<Instant>,
    /// Segments received out of order, and events to deliver.
    out_of_order: BTreeMap<u64, (ConnectionId, ControlEvent)>,
    next_expected: u64,
    received: VecDeque<(ConnectionId, ControlEvent)>,
    /// When transmissions will be acknowledged, in order.
    acks: VecDeque<(Instant, u64)>,
}

/// A transmission in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    seq: u64,
    sent: Instant,
}

/// Smoothed round-trip time and its variation. RFC 6298 §2.
#[derive(Debug, Clone, Copy)]
struct SmoothedRtt {
    mean: Duration,
    var: Duration,
}

impl SmoothedRtt {
    fn first(took: Duration) -> Self {
        Self { mean: took, var: took / 2 }
    }

    fn rto(self) -> Duration {
        (self.mean + (4 * self.var).max(RTO_MARGIN)).min(RTO_MAX)
    }
}

impl TcpModel {
    /// A connection whose handshake has measured the round trip.
    pub(super) fn new(impairments: LinkImpairments, reverse_delay: Duration) -> Self {
        let rtt = SmoothedRtt::first(impairments.delay + reverse_delay);
        Self {
            model: LinkModel::new(impairments),
            reverse_delay,
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            lost: VecDeque::new(),
            sent: BTreeMap::new(),
            flight: BTreeMap::new(),
            next_seq: 0,
            next_transmission: 0,
            cwnd: INITIAL_CWND,
            ssthresh: f64::INFINITY,
            flight_max: 0.0,
            round_end: 0,
            recovery_end: 0,
            rtt,
            rto: rtt.rto(),
            rto_at: None,
            last_sent: None,
            out_of_order: BTreeMap::new(),
            next_expected: 0,
            received: VecDeque::new(),
            acks: VecDeque::new(),
        }
    }

    /// The same link with nothing in transit.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.model.impairments(), self.reverse_delay)
    }

    /// A new connection starts; segments of an earlier one may still be in transit.
    pub(super) fn start_connection(&mut self) {
        (self.cwnd, self.ssthresh) = (INITIAL_CWND, f64::INFINITY);
        self.rtt = SmoothedRtt::first(self.model.impairments().delay + self.reverse_delay);
        self.rto = self.rtt.rto();
    }

    /// Queues an event, and sends what the window allows.
    pub(super) fn send(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        event: ControlEvent,
        rng: &mut Rng,
    ) {
        self.unsent_bytes += event.len();
        self.unsent.push_back((conn, event));
        self.transmit(now, rng);
    }

    /// Handles arrivals, acknowledgments and timeouts that are due, then sends what the window allows.
    pub(super) fn tick(&mut self, now: Instant, rng: &mut Rng) {
        while let Some(departure) = self.model.pop_due(now) {
            self.on_arrival(departure.item, departure.due);
        }
        while let Some(&(at, number)) = self.acks.front().filter(|ack| ack.0 <= now) {
            self.acks.pop_front();
            self.on_ack(at, number);
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        self.transmit(now, rng);
    }

    /// The next event delivered, in order.
    pub(super) fn receive(&mut self) -> Option<(ConnectionId, ControlEvent)> {
        self.received.pop_front()
    }

    /// When [`tick`](Self::tick) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ack = self.acks.front().map(|ack| ack.0);
        [self.model.next_due_at(), ack, self.rto_at].into_iter().flatten().min()
    }

    /// Changes the impairments.
    pub(super) fn set_impairments(
        &mut self,
        now: Instant,
        impairments: LinkImpairments,
        reverse_delay: Duration,
    ) {
        self.model.set_impairments(now, impairments);
        self.reverse_delay = reverse_delay;
    }

    pub(super) fn impairments(&self) -> LinkImpairments {
        self.model.impairments()
    }

    /// Bytes that the window has not allowed to be sent yet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    fn on_arrival(&mut self, (number, seq): (u64, u64), at: Instant) {
        self.acks.push_back((at + self.reverse_delay, number));
        if let Some(event) = self.sent.remove(&seq) {
            self.out_of_order.insert(seq, event);
        }
        while let Some(event) = self.out_of_order.remove(&self.next_expected) {
            self.next_expected += 1;
            self.received.push_back(event);
        }
    }

    fn on_ack(&mut self, now: Instant, number: u64) {
        let before = self.in_flight();
        let Some(in_flight) = self.flight.remove(&number) else { return };
        self.record_rtt(now.saturating_duration_since(in_flight.sent));
        if number >= self.round_end {
            (self.flight_max, self.round_end) = (before, self.next_transmission);
        }
        if number >= self.recovery_end {
            self.grow_cwnd();
        }
        let overdue = self.flight.range(..number.saturating_sub(DUP_THRESH - 1));
        let overdue: Vec<_> = overdue.map(|(&number, in_flight)| (number, in_flight.seq)).collect();
        for (number, seq) in overdue {
            self.flight.remove(&number);
            self.mark_lost(seq);
            if number >= self.recovery_end {
                self.ssthresh = (before / 2.0).max(SSTHRESH_MIN);
                self.cwnd = self.ssthresh;
                self.recovery_end = self.next_transmission;
            }
        }
        self.rto_at = (!self.flight.is_empty()).then(|| now + self.rto);
    }

    /// Grows the window, if it was fully used. RFC 5681 §3.1, RFC 7661.
    fn grow_cwnd(&mut self) {
        if self.cwnd < self.ssthresh {
            self.cwnd += if self.cwnd < 2.0 * self.flight_max { 1.0 } else { 0.0 };
        } else if self.flight_max + 1.0 >= self.cwnd {
            self.cwnd += self.cwnd.recip();
        }
    }

    /// Handles a retransmission timeout: everything is retransmitted, starting with one segment.
    fn on_timeout(&mut self, now: Instant) {
        self.ssthresh = (self.in_flight() / 2.0).max(SSTHRESH_MIN);
        self.cwnd = 1.0;
        self.recovery_end = self.next_transmission;
        self.rto = (self.rto * 2).min(RTO_MAX);
        for in_flight in std::mem::take(&mut self.flight).into_values() {
            self.mark_lost(in_flight.seq);
        }
        self.rto_at = (!self.lost.is_empty()).then(|| now + self.rto);
    }

    /// Marks a segment for retransmission, unless it has arrived.
    fn mark_lost(&mut self, seq: u64) {
        if self.sent.contains_key(&seq) && !self.lost.contains(&seq) {
            self.lost.push_back(seq);
        }
    }

    fn record_rtt(&mut self, took: Duration) {
        let SmoothedRtt { mean, var } = self.rtt;
        self.rtt =
            SmoothedRtt { mean: (7 * mean + took) / 8, var: (3 * var + mean.abs_diff(took)) / 4 };
        self.rto = self.rtt.rto();
    }

    /// Sends what the window allows.
    fn transmit(&mut self, now: Instant, rng: &mut Rng) {
        let is_idle = self.flight.is_empty() && self.lost.is_empty();
        let silence = self.last_sent.map(|at| now.saturating_duration_since(at));
        if is_idle && silence.is_some_and(|silence| silence > self.rto) {
            // RFC 5681 §4.1.
            self.cwnd = self.cwnd.min(INITIAL_CWND);
        }
        while self.in_flight() < self.cwnd.floor().max(1.0) {
            let Some(seq) = self.next_segment() else { break };
            let Some((_, event)) = self.sent.get(&seq) else { continue };
            let len = u32::try_from(event.len()).unwrap_or(u32::MAX).saturating_add(HEADERS_LEN);
            let number = self.next_transmission;
            self.next_transmission += 1;
            // The sender must detect loss by itself.
            let _ = self.model.offer(now, len, (number, seq), rng);
            self.flight.insert(number, InFlight { seq, sent: now });
            self.flight_max = self.flight_max.max(self.in_flight());
            self.last_sent = Some(now);
            self.rto_at.get_or_insert(now + self.rto);
        }
    }

    /// The sequence number to send next: a retransmission, or a new segment.
    fn next_segment(&mut self) -> Option<u64> {
        while let Some(seq) = self.lost.pop_front() {
            if self.sent.contains_key(&seq) {
                return Some(seq);
            }
        }
        let (conn, mut event) = self.unsent.pop_front()?;
        self.unsent_bytes -= event.len();
        while let ControlEvent::Bytes(bytes) = &mut event
            && let Some((_, ControlEvent::Bytes(more))) =
                self.unsent.front().filter(|it| it.0 == conn)
            && bytes.len() + more.len() <= SEGMENT_LEN
        {
            self.unsent_bytes -= more.len();
            bytes.extend_from_slice(more);
            self.unsent.pop_front();
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        self.sent.insert(seq, (conn, event));
        Some(seq)
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 segments")]
    fn in_flight(&self) -> f64 {
        self.flight.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::link::ImpairmentChange;

    const MS: Duration = Duration::from_millis(1);

    /// Sends segments over a link; returns when each arrived.
    fn send(segments: usize, impairments: LinkImpairments) -> Vec<Duration> {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut transport, mut rng) = (TcpModel::new(impairments, impairments.delay), Rng::new(7));
        let conn = ConnectionId::new(0, 1);
        for n in 0..segments {
            let bytes = vec![u8::try_from(n % 251).unwrap(); SEGMENT_LEN];
            transport.send(start, conn, ControlEvent::Bytes(bytes), &mut rng);
        }
        let mut arrivals = vec![];
        while let Some(at) = transport.deadline() {
            transport.tick(at, &mut rng);
            while let Some((from, event)) = transport.receive() {
                let ControlEvent::Bytes(bytes) = event else { panic!("{event:?}") };
                assert_eq!((from, usize::from(bytes[0])), (conn, arrivals.len() % 251), "in order");
                arrivals.push(at - start);
            }
        }
        assert_eq!(
            (transport.unsent_bytes(), arrivals.len()),
            (0, segments),
            "all segments arrived"
        );
        arrivals
    }

    fn delay(ms: u32) -> LinkImpairments {
        LinkImpairments { delay: ms * MS, ..LinkImpairments::default() }
    }

    #[test]
    fn the_window_starts_at_ten_segments_and_doubles_in_each_round_trip() {
        let arrivals = send(150, delay(50));
        let by = |ms: u32| arrivals.iter().filter(|&&at| at <= ms * MS).count();
        assert_eq!([by(49), by(50), by(150), by(250), by(350)], [0, 10, 30, 70, 150]);
    }

    #[test]
    fn it_uses_the_rate_and_a_long_queue_loses_nothing() {
        let rate_bps = NonZeroU64::new(12_000_000);
        let arrivals =
            send(200, LinkImpairments { rate_bps, queue_bytes: Some(400_000), ..delay(5) });
        // A segment of 1500 bytes takes one millisecond.
        assert!(arrivals[199] >= 205 * MS && arrivals[199] <= 230 * MS, "{:?}", arrivals[199]);
    }

    #[test]
    fn lost_segments_are_retransmitted_and_delivered_in_order() {
        let rate_bps = NonZeroU64::new(12_000_000);
        let long = LinkImpairments { rate_bps, queue_bytes: Some(2_000_000), ..delay(20) };
        let whole = *send(500, long).last().unwrap();
        let Some(Ok(ImpairmentChange::Loss(loss))) = ImpairmentChange::parse("loss", "2%") else {
            panic!()
        };
        let lossy = *send(500, LinkImpairments { loss, ..long }).last().unwrap();
        let narrow =
            *send(500, LinkImpairments { queue_bytes: Some(8_000), ..long }).last().unwrap();
        assert!(whole < lossy && whole < narrow, "{whole:?} {lossy:?} {narrow:?}");
        let Some(Ok(ImpairmentChange::Loss(loss))) = ImpairmentChange::parse("loss", "40%") else {
            panic!()
        };
        send(50, LinkImpairments { loss, ..delay(20) });
    }
}
