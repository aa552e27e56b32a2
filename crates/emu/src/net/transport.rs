//! What TCP does to one direction of a control link: a window that grows, losses that are noticed, order that is kept.
//!
//! It is the sender of RFC 5681 with selective acknowledgments (RFC 2018) and ten segments to begin with (RFC 6928), as
//! Linux has it but for CUBIC: after slow start, the window grows by one segment in a round trip. Nothing is delayed by the
//! receiver (RFC 1122 §4.2.3.2), nothing by the sender to make it longer (RFC 896), and what waits for the window goes in
//! segments as long as can be. Acknowledgments take the delay of the other direction, and no room in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_base::Rng;

use super::Conn;
use super::control::{HEADERS_LEN, Letter, SEGMENT_LEN};
use crate::link::{Pipe, Settings};

/// Segments that are sent before anything is acknowledged, and after a pause. RFC 6928 §2.
const WINDOW_FIRST: f64 = 10.0;

/// The fewest that a loss makes of the window. RFC 5681 §3.1.
const WINDOW_HALVED_MIN: f64 = 2.0;

/// What is sent so many segments before one that was acknowledged is lost. RFC 6675 §2.
const LATE: u64 = 3;

/// The least that a segment is waited for beyond a round trip before it is taken for lost, as Linux has it. RFC 6298 §2.
const RTO_MARGIN: Duration = Duration::from_millis(200);

/// The most. RFC 6298 §2.5.
const RTO_MAX: Duration = Duration::from_secs(60);

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Transport {
    /// Transmissions: their numbers, and the places in the stream of what they carry.
    pipe: Pipe<(u64, u64)>,
    /// How long an acknowledgment takes.
    back: Duration,
    /// What was never sent, and its bytes.
    fresh: VecDeque<(Conn, Letter)>,
    fresh_bytes: usize,
    /// Places in the stream of what is to be sent again.
    lost: VecDeque<u64>,
    /// What was sent and has not come, by its place in the stream.
    sent: BTreeMap<u64, (Conn, Letter)>,
    /// Transmissions that were neither acknowledged nor taken for lost.
    flight: BTreeMap<u64, Flying>,
    next_place: u64,
    next_number: u64,
    /// In segments: what may be in flight, and up to where it grows quickly.
    window: f64,
    threshold: f64,
    /// The most that was in flight in this round trip, which ends with the acknowledgment of this transmission.
    most: f64,
    round_until: u64,
    /// Losses of what was sent before this transmission are one event with an earlier one.
    recovers_until: u64,
    trip: Trip,
    rto: Duration,
    rto_at: Option<Instant>,
    last_sent: Option<Instant>,
    /// What came before what precedes it, and what may be read.
    early: BTreeMap<u64, (Conn, Letter)>,
    wanted: u64,
    ready: VecDeque<(Conn, Letter)>,
    /// When a transmission will be acknowledged, in order.
    acks: VecDeque<(Instant, u64)>,
}

/// A transmission on its way.
#[derive(Debug, Clone, Copy)]
struct Flying {
    place: u64,
    sent: Instant,
}

/// A smoothed round trip and how much it varies. RFC 6298 §2.
#[derive(Debug, Clone, Copy)]
struct Trip {
    mean: Duration,
    var: Duration,
}

impl Trip {
    fn first(took: Duration) -> Self {
        Self { mean: took, var: took / 2 }
    }

    fn rto(self) -> Duration {
        (self.mean + (4 * self.var).max(RTO_MARGIN)).min(RTO_MAX)
    }
}

impl Transport {
    /// A connection that was made just now, so that a round trip is known.
    pub(super) fn new(settings: Settings, back: Duration) -> Self {
        let trip = Trip::first(settings.delay + back);
        Self {
            pipe: Pipe::new(settings),
            back,
            fresh: VecDeque::new(),
            fresh_bytes: 0,
            lost: VecDeque::new(),
            sent: BTreeMap::new(),
            flight: BTreeMap::new(),
            next_place: 0,
            next_number: 0,
            window: WINDOW_FIRST,
            threshold: f64::INFINITY,
            most: 0.0,
            round_until: 0,
            recovers_until: 0,
            trip,
            rto: trip.rto(),
            rto_at: None,
            last_sent: None,
            early: BTreeMap::new(),
            wanted: 0,
            ready: VecDeque::new(),
            acks: VecDeque::new(),
        }
    }

    /// The same link without anything on it.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.pipe.settings(), self.back)
    }

    /// A connection begins. What an earlier one said last is still on its way.
    pub(super) fn begin(&mut self) {
        (self.window, self.threshold) = (WINDOW_FIRST, f64::INFINITY);
        self.trip = Trip::first(self.pipe.settings().delay + self.back);
        self.rto = self.trip.rto();
    }

    /// Takes what is to be sent, and sends what the window lets through.
    pub(super) fn send(&mut self, now: Instant, conn: Conn, letter: Letter, rng: &mut Rng) {
        self.fresh_bytes += letter.len();
        self.fresh.push_back((conn, letter));
        self.pump(now, rng);
    }

    /// Does what is due: what comes is acknowledged, what is acknowledged makes room, what is lost is sent again.
    pub(super) fn on_time(&mut self, now: Instant, rng: &mut Rng) {
        while let Some(departure) = self.pipe.pop_due(now) {
            self.arrive(departure.item, departure.due);
        }
        while let Some(&(at, number)) = self.acks.front().filter(|ack| ack.0 <= now) {
            self.acks.pop_front();
            self.on_ack(at, number);
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.time_out(now);
        }
        self.pump(now, rng);
    }

    /// The next letter that has come, in the order in which they were sent.
    pub(super) fn receive(&mut self) -> Option<(Conn, Letter)> {
        self.ready.pop_front()
    }

    /// When there is something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ack = self.acks.front().map(|ack| ack.0);
        [self.pipe.next_due(), ack, self.rto_at].into_iter().flatten().min()
    }

    /// Changes what the link does.
    pub(super) fn set(&mut self, now: Instant, settings: Settings, back: Duration) {
        self.pipe.set(now, settings);
        self.back = back;
    }

    pub(super) fn settings(&self) -> Settings {
        self.pipe.settings()
    }

    /// Bytes that the window has not let through yet.
    pub(super) fn untaken(&self) -> usize {
        self.fresh_bytes
    }

    fn arrive(&mut self, (number, place): (u64, u64), at: Instant) {
        self.acks.push_back((at + self.back, number));
        if let Some(letter) = self.sent.remove(&place) {
            self.early.insert(place, letter);
        }
        while let Some(letter) = self.early.remove(&self.wanted) {
            self.wanted += 1;
            self.ready.push_back(letter);
        }
    }

    fn on_ack(&mut self, now: Instant, number: u64) {
        let before = self.in_flight();
        let Some(flying) = self.flight.remove(&number) else { return };
        self.measure(now.saturating_duration_since(flying.sent));
        if number >= self.round_until {
            (self.most, self.round_until) = (before, self.next_number);
        }
        if number >= self.recovers_until {
            self.grow();
        }
        let overdue = self.flight.range(..number.saturating_sub(LATE - 1));
        let overdue: Vec<_> = overdue.map(|(&number, flying)| (number, flying.place)).collect();
        for (number, place) in overdue {
            self.flight.remove(&number);
            self.lose(place);
            if number >= self.recovers_until {
                self.threshold = (before / 2.0).max(WINDOW_HALVED_MIN);
                self.window = self.threshold;
                self.recovers_until = self.next_number;
            }
        }
        self.rto_at = (!self.flight.is_empty()).then(|| now + self.rto);
    }

    /// A segment more may be in flight, or a part of one, if as many were as may be. RFC 5681 §3.1, RFC 7661.
    fn grow(&mut self) {
        if self.window < self.threshold {
            self.window += if self.window < 2.0 * self.most { 1.0 } else { 0.0 };
        } else if self.most + 1.0 >= self.window {
            self.window += self.window.recip();
        }
    }

    /// Nothing was acknowledged for too long: all is sent again, one segment first.
    fn time_out(&mut self, now: Instant) {
        self.threshold = (self.in_flight() / 2.0).max(WINDOW_HALVED_MIN);
        self.window = 1.0;
        self.recovers_until = self.next_number;
        self.rto = (self.rto * 2).min(RTO_MAX);
        for flying in std::mem::take(&mut self.flight).into_values() {
            self.lose(flying.place);
        }
        self.rto_at = (!self.lost.is_empty()).then(|| now + self.rto);
    }

    /// Has a segment sent again, unless it has come after all.
    fn lose(&mut self, place: u64) {
        if self.sent.contains_key(&place) && !self.lost.contains(&place) {
            self.lost.push_back(place);
        }
    }

    fn measure(&mut self, took: Duration) {
        let Trip { mean, var } = self.trip;
        self.trip = Trip { mean: (7 * mean + took) / 8, var: (3 * var + mean.abs_diff(took)) / 4 };
        self.rto = self.trip.rto();
    }

    /// Sends what the window lets through.
    fn pump(&mut self, now: Instant, rng: &mut Rng) {
        let is_idle = self.flight.is_empty() && self.lost.is_empty();
        let silence = self.last_sent.map(|at| now.saturating_duration_since(at));
        if is_idle && silence.is_some_and(|silence| silence > self.rto) {
            // RFC 5681 §4.1.
            self.window = self.window.min(WINDOW_FIRST);
        }
        while self.in_flight() < self.window.floor().max(1.0) {
            let Some(place) = self.next() else { break };
            let Some((_, letter)) = self.sent.get(&place) else { continue };
            let len = u32::try_from(letter.len()).unwrap_or(u32::MAX).saturating_add(HEADERS_LEN);
            let number = self.next_number;
            self.next_number += 1;
            // Whether it is lost, or finds no room, is for the sender to notice.
            let _ = self.pipe.offer(now, len, (number, place), rng);
            self.flight.insert(number, Flying { place, sent: now });
            self.most = self.most.max(self.in_flight());
            self.last_sent = Some(now);
            self.rto_at.get_or_insert(now + self.rto);
        }
    }

    /// The place of what is to be sent next: again, or for the first time.
    fn next(&mut self) -> Option<u64> {
        while let Some(place) = self.lost.pop_front() {
            if self.sent.contains_key(&place) {
                return Some(place);
            }
        }
        let (conn, mut letter) = self.fresh.pop_front()?;
        self.fresh_bytes -= letter.len();
        while let Letter::Bytes(bytes) = &mut letter
            && let Some((_, Letter::Bytes(more))) = self.fresh.front().filter(|it| it.0 == conn)
            && bytes.len() + more.len() <= SEGMENT_LEN
        {
            self.fresh_bytes -= more.len();
            bytes.extend_from_slice(more);
            self.fresh.pop_front();
        }
        let place = self.next_place;
        self.next_place += 1;
        self.sent.insert(place, (conn, letter));
        Some(place)
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
    use crate::link::Change;

    const MS: Duration = Duration::from_millis(1);

    /// Sends so many segments over a link; the time at which each had come.
    fn send(segments: usize, settings: Settings) -> Vec<Duration> {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Instant::now();
        let (mut transport, mut rng) = (Transport::new(settings, settings.delay), Rng::new(7));
        let conn = Conn::new(0, 1);
        for n in 0..segments {
            let bytes = vec![u8::try_from(n % 251).unwrap(); SEGMENT_LEN];
            transport.send(start, conn, Letter::Bytes(bytes), &mut rng);
        }
        let mut came = vec![];
        while let Some(at) = transport.deadline() {
            transport.on_time(at, &mut rng);
            while let Some((from, letter)) = transport.receive() {
                let Letter::Bytes(bytes) = letter else { panic!("{letter:?}") };
                assert_eq!((from, usize::from(bytes[0])), (conn, came.len() % 251), "in order");
                came.push(at - start);
            }
        }
        assert_eq!((transport.untaken(), came.len()), (0, segments), "all of it");
        came
    }

    fn delay(ms: u32) -> Settings {
        Settings { delay: ms * MS, ..Settings::default() }
    }

    #[test]
    fn the_window_doubles_in_each_round_trip_from_ten_segments_on() {
        let came = send(150, delay(50));
        let by = |ms: u32| came.iter().filter(|&&at| at <= ms * MS).count();
        assert_eq!([by(49), by(50), by(150), by(250), by(350)], [0, 10, 30, 70, 150]);
    }

    #[test]
    fn it_is_no_faster_than_the_rate_and_nothing_is_lost_in_a_queue_that_is_long_enough() {
        let rate = NonZeroU64::new(12_000_000);
        let came = send(200, Settings { rate, queue: Some(400_000), ..delay(5) });
        // A segment of 1500 bytes takes a millisecond.
        assert!(came[199] >= 205 * MS && came[199] <= 230 * MS, "{:?}", came[199]);
    }

    #[test]
    fn what_is_lost_or_finds_no_room_is_sent_again_and_all_comes_in_order() {
        let rate = NonZeroU64::new(12_000_000);
        let long = Settings { rate, queue: Some(2_000_000), ..delay(20) };
        let whole = *send(500, long).last().unwrap();
        let Some(Ok(Change::Loss(loss))) = Change::parse("loss", "2%") else { panic!() };
        let lossy = *send(500, Settings { loss, ..long }).last().unwrap();
        let narrow = *send(500, Settings { queue: Some(8_000), ..long }).last().unwrap();
        assert!(whole < lossy && whole < narrow, "{whole:?} {lossy:?} {narrow:?}");
        let Some(Ok(Change::Loss(loss))) = Change::parse("loss", "40%") else { panic!() };
        send(50, Settings { loss, ..delay(20) });
    }
}
