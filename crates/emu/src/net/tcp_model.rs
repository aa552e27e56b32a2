//! What TCP does to one direction of a control link: a cwnd that grows, losses that are noticed, order that is kept.
//!
//! It is the sender of RFC 5681 with selective acknowledgments (RFC 2018) and ten segments to begin with (RFC 6928), as
//! Linux has it but for CUBIC: after slow start, the cwnd grows by one segment in a round trip. Nothing is delayed by the
//! receiver (RFC 1122 §4.2.3.2), nothing by the sender to make it longer (RFC 896), and what waits for the cwnd goes in
//! segments as long as can be. Acknowledgments take the delay of the other direction, and no room in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::ConnectionId;
use super::control_link::{ControlEvent, HEADERS_LEN, SEGMENT_LEN};
use crate::link::{LinkImpairments, LinkModel};

/// Segments that are sent before anything is acknowledged, and after a pause. RFC 6928 §2.
const INITIAL_CWND: f64 = 10.0;

/// The fewest that a loss makes of the cwnd. RFC 5681 §3.1.
const SSTHRESH_MIN: f64 = 2.0;

/// What is sent so many segments before one that was acknowledged is lost. RFC 6675 §2.
const DUP_THRESH: u64 = 3;

/// The least that a segment is waited for beyond a round trip before it is taken for lost, as Linux has it. RFC 6298 §2.
const RTO_MARGIN: Duration = Duration::from_millis(200);

/// The longest retransmission timeout. RFC 6298 §2.5.
const RTO_MAX: Duration = Duration::from_secs(60);

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct TcpModel {
    /// Transmissions: their numbers, and the places in the stream of what they carry.
    model: LinkModel<(u64, u64)>,
    /// How long an acknowledgment takes.
    reverse_delay: Duration,
    /// What was never sent, and its bytes.
    unsent: VecDeque<(ConnectionId, ControlEvent)>,
    unsent_bytes: usize,
    /// Places in the stream of what is to be sent again.
    lost: VecDeque<u64>,
    /// What was sent and has not come, by its seq in the stream.
    sent: BTreeMap<u64, (ConnectionId, ControlEvent)>,
    /// Transmissions that were neither acknowledged nor taken for lost.
    flight: BTreeMap<u64, InFlight>,
    next_seq: u64,
    next_transmission: u64,
    /// In segments: what may be in flight, and up to where it grows quickly.
    cwnd: f64,
    ssthresh: f64,
    /// The most segments that were in flight in this round trip, which ends with the acknowledgment of this transmission.
    flight_max: f64,
    round_end: u64,
    /// Losses of what was sent before this transmission are one event with an earlier one.
    recovery_end: u64,
    rtt: RttEstimate,
    rto: Duration,
    rto_at: Option<Instant>,
    last_sent: Option<Instant>,
    /// What came before what precedes it, and what may be read.
    out_of_order: BTreeMap<u64, (ConnectionId, ControlEvent)>,
    next_expected: u64,
    received: VecDeque<(ConnectionId, ControlEvent)>,
    /// When a transmission will be acknowledged, in order.
    acks: VecDeque<(Instant, u64)>,
}

/// A transmission on its way.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    seq: u64,
    sent: Instant,
}

/// A smoothed round trip and how much it varies. RFC 6298 §2.
#[derive(Debug, Clone, Copy)]
struct RttEstimate {
    mean: Duration,
    var: Duration,
}

impl RttEstimate {
    fn first(took: Duration) -> Self {
        Self { mean: took, var: took / 2 }
    }

    fn rto(self) -> Duration {
        (self.mean + (4 * self.var).max(RTO_MARGIN)).min(RTO_MAX)
    }
}

impl TcpModel {
    /// A connection that was made just now, so that a round trip is known.
    pub(super) fn new(impairments: LinkImpairments, reverse_delay: Duration) -> Self {
        let rtt = RttEstimate::first(impairments.delay + reverse_delay);
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

    /// The same link without anything on it.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.model.impairments(), self.reverse_delay)
    }

    /// A connection begins. What an earlier one said last is still on its way.
    pub(super) fn start_connection(&mut self) {
        (self.cwnd, self.ssthresh) = (INITIAL_CWND, f64::INFINITY);
        self.rtt = RttEstimate::first(self.model.impairments().delay + self.reverse_delay);
        self.rto = self.rtt.rto();
    }

    /// Takes what is to be sent, and sends what the cwnd lets through.
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

    /// Does what is due: what comes is acknowledged, what is acknowledged makes room, what is lost is sent again.
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

    /// The next event that has come, in the order in which they were sent.
    pub(super) fn receive(&mut self) -> Option<(ConnectionId, ControlEvent)> {
        self.received.pop_front()
    }

    /// When there is something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ack = self.acks.front().map(|ack| ack.0);
        [self.model.next_due_at(), ack, self.rto_at].into_iter().flatten().min()
    }

    /// Changes what the link does.
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

    /// Bytes that the cwnd has not let through yet.
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

    /// A segment more may be in flight, or a part of one, if as many were as may be. RFC 5681 §3.1, RFC 7661.
    fn grow_cwnd(&mut self) {
        if self.cwnd < self.ssthresh {
            self.cwnd += if self.cwnd < 2.0 * self.flight_max { 1.0 } else { 0.0 };
        } else if self.flight_max + 1.0 >= self.cwnd {
            self.cwnd += self.cwnd.recip();
        }
    }

    /// Nothing was acknowledged for too long: all is sent again, one segment first.
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

    /// Has a segment sent again, unless it has come after all.
    fn mark_lost(&mut self, seq: u64) {
        if self.sent.contains_key(&seq) && !self.lost.contains(&seq) {
            self.lost.push_back(seq);
        }
    }

    fn record_rtt(&mut self, took: Duration) {
        let RttEstimate { mean, var } = self.rtt;
        self.rtt =
            RttEstimate { mean: (7 * mean + took) / 8, var: (3 * var + mean.abs_diff(took)) / 4 };
        self.rto = self.rtt.rto();
    }

    /// Sends what the cwnd lets through.
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
            // Whether it is lost, or finds no room, is for the sender to notice.
            let _ = self.model.offer(now, len, (number, seq), rng);
            self.flight.insert(number, InFlight { seq, sent: now });
            self.flight_max = self.flight_max.max(self.in_flight());
            self.last_sent = Some(now);
            self.rto_at.get_or_insert(now + self.rto);
        }
    }

    /// The seq of what is to be sent next: again, or for the first time.
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

    /// Sends so many segments over a link; the time at which each had come.
    fn send(segments: usize, impairments: LinkImpairments) -> Vec<Duration> {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut transport, mut rng) = (TcpModel::new(impairments, impairments.delay), Rng::new(7));
        let conn = ConnectionId::new(0, 1);
        for n in 0..segments {
            let bytes = vec![u8::try_from(n % 251).unwrap(); SEGMENT_LEN];
            transport.send(start, conn, ControlEvent::Bytes(bytes), &mut rng);
        }
        let mut came = vec![];
        while let Some(at) = transport.deadline() {
            transport.tick(at, &mut rng);
            while let Some((from, event)) = transport.receive() {
                let ControlEvent::Bytes(bytes) = event else { panic!("{event:?}") };
                assert_eq!((from, usize::from(bytes[0])), (conn, came.len() % 251), "in order");
                came.push(at - start);
            }
        }
        assert_eq!((transport.unsent_bytes(), came.len()), (0, segments), "all of it");
        came
    }

    fn delay(ms: u32) -> LinkImpairments {
        LinkImpairments { delay: ms * MS, ..LinkImpairments::default() }
    }

    #[test]
    fn the_window_doubles_in_each_round_trip_from_ten_segments_on() {
        let came = send(150, delay(50));
        let by = |ms: u32| came.iter().filter(|&&at| at <= ms * MS).count();
        assert_eq!([by(49), by(50), by(150), by(250), by(350)], [0, 10, 30, 70, 150]);
    }

    #[test]
    fn it_is_no_faster_than_the_rate_and_nothing_is_lost_in_a_queue_that_is_long_enough() {
        let rate_bps = NonZeroU64::new(12_000_000);
        let came = send(200, LinkImpairments { rate_bps, queue_bytes: Some(400_000), ..delay(5) });
        // A segment of 1500 bytes takes a millisecond.
        assert!(came[199] >= 205 * MS && came[199] <= 230 * MS, "{:?}", came[199]);
    }

    #[test]
    fn what_is_lost_or_finds_no_room_is_sent_again_and_all_comes_in_order() {
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
