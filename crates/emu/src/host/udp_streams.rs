//! UDP at a rate, and what arrives of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::ip_stack::IpStack;
use super::timers::Timer;

/// What a packet of a stream begins with.
const MAGIC: [u8; 8] = *b"sluiceUD";

/// Magic, stream, number, time: what the receiver needs.
pub const STREAM_DATA_MIN: usize = 28;

/// Bytes of a packet that fits in a frame of 1 514, in either family.
pub const STREAM_DATA_MAX: usize = 1452;

/// Streams that one host sends.
const SENT_STREAMS_MAX: usize = 1 << 16;

/// Streams that one host hears; packets of more are not counted.
const RECEIVED_STREAMS_MAX: usize = 1 << 16;

/// Numbers back from the highest for which a receiver knows whether it has them already.
const DUPLICATE_WINDOW: u64 = 4096;

/// A stream to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpStream {
    /// To whom: a host, or 255.255.255.255 for all.
    pub to: IpAddr,
    /// To which port; the sender's is the same.
    pub port: u16,
    /// Packets per second, at least 1.
    pub rate_pps: u32,
    /// How many.
    pub packets: u64,
    /// Bytes of UDP data in each, brought into [`STREAM_DATA_MIN`]..=[`STREAM_DATA_MAX`].
    pub data_len: usize,
}

/// What arrived of a stream.
#[derive(Debug, Clone)]
pub struct StreamStats {
    /// Packets, duplicates not included.
    pub received: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets that came after one that was sent later.
    pub reordered: u64,
    /// The highest number, from 0.
    pub highest_seq: u64,
    /// How long they took, nanoseconds, to two digits.
    pub latency_ns: Histogram<u32>,
    seen: Box<[u64]>,
}

impl StreamStats {
    /// Packets that are missing up to the highest number; what came late is not.
    pub fn lost(&self) -> u64 {
        (self.highest_seq + 1).saturating_sub(self.received)
    }

    fn new(number: u64) -> Option<Self> {
        let latency_ns = Histogram::new(2).ok()?;
        let words = usize::try_from(DUPLICATE_WINDOW / 64).unwrap_or_default();
        let seen = vec![0; words].into_boxed_slice();
        Some(Self {
            received: 0,
            duplicates: 0,
            reordered: 0,
            highest_seq: number,
            latency_ns,
            seen,
        })
    }

    fn record(&mut self, number: u64, took: Duration) {
        if number > self.highest_seq {
            let gone = (number - self.highest_seq).min(DUPLICATE_WINDOW);
            (1..=gone).for_each(|n| _ = self.mark(self.highest_seq + n, WindowBit::Clear));
            self.highest_seq = number;
        } else if self.received > 0 {
            let is_old = self.highest_seq - number >= DUPLICATE_WINDOW;
            if !is_old && self.mark(number, WindowBit::Keep) {
                self.duplicates += 1;
                return;
            }
            self.reordered += 1;
        }
        self.mark(number, WindowBit::Set);
        self.received += 1;
        // It grows as far as it must; what no histogram holds took more than a century.
        let _ = self.latency_ns.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Whether `number` was marked, and marks it.
    fn mark(&mut self, number: u64, mark: WindowBit) -> bool {
        let at = usize::try_from(number % DUPLICATE_WINDOW / 64).unwrap_or_default();
        let Some(word) = self.seen.get_mut(at) else { return false };
        let (bit, before) = (1 << (number % 64), *word);
        match mark {
            WindowBit::Set => *word |= bit,
            WindowBit::Clear => *word &= !bit,
            WindowBit::Keep => {}
        }
        before & bit != 0
    }
}

#[derive(Debug, Clone, Copy)]
enum WindowBit {
    Set,
    Clear,
    Keep,
}

/// Streams of a host, both ways.
#[derive(Debug, Default)]
pub(super) struct UdpStreams {
    sent: Vec<OutgoingStream>,
    received: BTreeMap<(IpAddr, u32), StreamStats>,
}

#[derive(Debug)]
struct OutgoingStream {
    stream: UdpStream,
    start: Instant,
    next: u64,
}

impl UdpStreams {
    /// Begins a stream; its number is told, or nothing if there are too many.
    pub(super) fn start(
        &mut self,
        now: Instant,
        stream: UdpStream,
        stack: &mut IpStack,
    ) -> Option<u32> {
        if self.sent.len() >= SENT_STREAMS_MAX {
            return None;
        }
        let id = u32::try_from(self.sent.len()).ok()?;
        let data_len = stream.data_len.clamp(STREAM_DATA_MIN, STREAM_DATA_MAX);
        let stream = UdpStream { data_len, rate_pps: stream.rate_pps.max(1), ..stream };
        self.sent.push(OutgoingStream { stream, start: now, next: 0 });
        stack.timers.set(now, Timer::Stream(id));
        Some(id)
    }

    /// Sends the next packet of a stream.
    pub(super) fn send_next(
        &mut self,
        now: Instant,
        id: u32,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) {
        let sent = usize::try_from(id).ok().and_then(|id| self.sent.get_mut(id));
        let Some(OutgoingStream { stream, start, next }) = sent else { return };
        if *next >= stream.packets {
            return;
        }
        let mut data = Vec::with_capacity(stream.data_len);
        data.extend(MAGIC);
        data.extend(id.to_be_bytes());
        data.extend(next.to_be_bytes());
        data.extend(nanos(now, stack.config.epoch).to_be_bytes());
        data.resize(stream.data_len, 0);
        stack.send(now, stream.to, out, |route| route.udp(stream.port, stream.port, &data));
        *next += 1;
        if *next < stream.packets {
            // From the start, so that errors do not add up.
            let after = u128::from(*next) * 1_000_000_000 / u128::from(stream.rate_pps);
            let after = Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX));
            stack.timers.set(*start + after, Timer::Stream(id));
        }
    }

    /// Ends a stream.
    pub(super) fn stop(&mut self, id: u32) {
        if let Some(sent) = usize::try_from(id).ok().and_then(|id| self.sent.get_mut(id)) {
            sent.stream.packets = sent.next;
        }
    }

    /// Packets that were sent of a stream.
    pub(super) fn packets_sent(&self, id: u32) -> u64 {
        let sent = usize::try_from(id).ok().and_then(|id| self.sent.get(id));
        sent.map_or(0, |sent| sent.next)
    }

    pub(super) fn on_udp(&mut self, now: Instant, from: IpAddr, data: &[u8], epoch: Instant) {
        let Some(data) = data.strip_prefix(&MAGIC) else { return };
        let Some((id, data)) = data.split_first_chunk() else { return };
        let Some((number, data)) = data.split_first_chunk() else { return };
        let Some(sent) = data.first_chunk() else { return };
        let (key, number) = ((from, u32::from_be_bytes(*id)), u64::from_be_bytes(*number));
        let took = nanos(now, epoch).saturating_sub(u64::from_be_bytes(*sent));
        if !self.received.contains_key(&key) {
            if self.received.len() >= RECEIVED_STREAMS_MAX {
                return;
            }
            let Some(new) = StreamStats::new(number) else { return };
            self.received.insert(key, new);
        }
        if let Some(heard) = self.received.get_mut(&key) {
            heard.record(number, Duration::from_nanos(took));
        }
    }

    /// What arrived of stream `id` of `from`.
    pub(super) fn stats(&self, from: IpAddr, id: u32) -> Option<&StreamStats> {
        self.received.get(&(from, id))
    }
}

fn nanos(now: Instant, epoch: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(epoch).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_all(numbers: impl IntoIterator<Item = u64>) -> (u64, u64, u64, u64) {
        let mut numbers = numbers.into_iter().peekable();
        let mut heard = StreamStats::new(*numbers.peek().unwrap()).unwrap();
        numbers.for_each(|number| heard.record(number, Duration::from_millis(1)));
        (heard.received, heard.lost(), heard.duplicates, heard.reordered)
    }

    #[test]
    fn what_is_missing_twice_or_late_is_counted() {
        assert_eq!(record_all([0, 1, 2]), (3, 0, 0, 0));
        assert_eq!(record_all([1, 4]), (2, 3, 0, 0));
        assert_eq!(record_all([0, 2, 1, 1, 2]), (3, 0, 2, 1));
        assert_eq!(record_all((0..10_000).chain([9_999, 5_904, 5_903])), (10_001, 0, 2, 1));
        assert_eq!(record_all([0, 10_000, 4]), (3, 9_998, 0, 1));
    }
}
