//! UDP streams: sent at a constant rate, and measured by the receiver.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::ip_stack::IpStack;
use super::timers::Timer;

/// The first bytes of every packet of a stream.
const MAGIC: [u8; 8] = *b"sluiceUD";

/// Smallest data length: magic, stream number, packet number, timestamp.
pub const STREAM_DATA_MIN: usize = 28;

/// Largest data length, for a frame of 1514 bytes with IPv4 or IPv6.
pub const STREAM_DATA_MAX: usize = 1452;

/// Most streams that a host sends.
const SENT_STREAMS_MAX: usize = 1 << 16;

/// Most streams that a host receives; packets of further ones are not counted.
const RECEIVED_STREAMS_MAX: usize = 1 << 16;

/// Duplicates are detected among this many packets before the highest number.
const DUPLICATE_WINDOW: u64 = 4096;

/// A stream to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpStream {
    /// Destination: a host, or 255.255.255.255 for all hosts.
    pub to: IpAddr,
    /// Destination port; the source port is the same.
    pub port: u16,
    /// Packets per second, at least 1.
    pub rate_pps: u32,
    /// Number of packets.
    pub packets: u64,
    /// UDP data length in bytes, clamped to [`STREAM_DATA_MIN`]..=[`STREAM_DATA_MAX`].
    pub data_len: usize,
}

/// Statistics of a received stream.
#[derive(Debug, Clone)]
pub struct StreamStats {
    /// Packets received, without duplicates.
    pub received: u64,
    /// Duplicate packets.
    pub duplicates: u64,
    /// Packets received after one that was sent later.
    pub reordered: u64,
    /// Highest packet number, from 0.
    pub highest_seq: u64,
    /// One-way latency in nanoseconds, to two digits.
    pub latency_ns: Histogram<u32>,
    seen: Box<[u64]>,
}

impl StreamStats {
    /// Packets missing up to the highest number.
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
            let cleared = (number - self.highest_seq).min(DUPLICATE_WINDOW);
            (1..=cleared).for_each(|n| _ = self.mark(self.highest_seq + n, WindowBit::Clear));
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
        // The histogram resizes itself; a value that it cannot hold exceeds a century.
        let _ = self.latency_ns.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Changes the bit of `number` and returns its previous value.
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

/// Streams that a host sends and receives.
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
    /// Starts a stream and returns its number; `None` if there are too many.
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
            // Relative to the start, so that errors do not accumulate.
            let after = u128::from(*next) * 1_000_000_000 / u128::from(stream.rate_pps);
            let after = Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX));
            stack.timers.set(*start + after, Timer::Stream(id));
        }
    }

    /// Stops a stream.
    pub(super) fn stop(&mut self, id: u32) {
        if let Some(sent) = usize::try_from(id).ok().and_then(|id| self.sent.get_mut(id)) {
            sent.stream.packets = sent.next;
        }
    }

    /// Packets sent of a stream.
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
        if let Some(stats) = self.received.get_mut(&key) {
            stats.record(number, Duration::from_nanos(took));
        }
    }

    /// Statistics of stream `id` from host `from`.
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
        let mut stats = StreamStats::new(*numbers.peek().unwrap()).unwrap();
        numbers.for_each(|number| stats.record(number, Duration::from_millis(1)));
        (stats.received, stats.lost(), stats.duplicates, stats.reordered)
    }

    #[test]
    fn lost_duplicate_and_reordered_packets_are_counted() {
        assert_eq!(record_all([0, 1, 2]), (3, 0, 0, 0));
        assert_eq!(record_all([1, 4]), (2, 3, 0, 0));
        assert_eq!(record_all([0, 2, 1, 1, 2]), (3, 0, 2, 1));
        assert_eq!(record_all((0..10_000).chain([9_999, 5_904, 5_903])), (10_001, 0, 2, 1));
        assert_eq!(record_all([0, 10_000, 4]), (3, 9_998, 0, 1));
    }
}
