//! Copies of packet-ins for threads that are no workers.
//!
//! A worker that has a [`CaptureSender`] offers it each packet-in, before the applications get it. The [`Capture`] has a bounded buffer:
//! if its thread is too slow, packets are dropped and counted, and the worker does not wait: neither for room nor for another thread that
//! uses the buffer.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use std::{fmt, hint, mem};

use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, EtherType, Ethernet, MacAddr, PacketInReason};

use crate::view::SwitchPort;

/// Packets that may wait for the thread that captures. More are dropped.
const PACKETS_MAX: usize = 8192;

/// Bytes of frames that may wait for it.
const BYTES_MAX: usize = 8 << 20;

/// Packets, and bytes of their frames, after which the thread that captures takes no more from the buffer at a time: workers find the
/// buffer in use for so long.
const TAKEN_MAX: usize = 64;
const TAKEN_BYTES_MAX: usize = 64 << 10;

/// How often a worker tries again if another thread uses the buffer, before it drops the packet.
const ATTEMPTS_MAX: usize = 64;

/// Which packet-ins are captured. `None` is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Of this switch.
    pub switch: Option<DatapathId>,
    /// That were received on this port.
    pub port: Option<sluice_openflow::PortNo>,
    /// With this Ethernet type, behind the outermost VLAN tag.
    pub ethertype: Option<EtherType>,
    /// With this source or destination address.
    pub mac: Option<MacAddr>,
    /// With this source or destination address: IPv4, IPv6, or in ARP.
    pub ip: Option<IpAddr>,
    /// The first of each so many that the others select.
    pub one_in: NonZeroU32,
}

impl Default for CaptureFilter {
    fn default() -> Self {
        let (switch, port, ethertype, mac, ip) = (None, None, None, None, None);
        Self { switch, port, ethertype, mac, ip, one_in: NonZeroU32::MIN }
    }
}

/// A packet-in that was captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedPacket {
    /// When the worker received it.
    pub at: Instant,
    /// The switch, and the port on which it received the packet.
    pub from: SwitchPort,
    /// Why it was sent to the controller.
    pub reason: PacketInReason,
    /// Table of the flow entry that sent it.
    pub table_id: u8,
    /// Cookie of that flow entry; all ones before 1.3.
    pub cookie: u64,
    /// Length of the frame that the switch received.
    pub total_len: u16,
    /// The frame, or its beginning.
    pub frame: Vec<u8>,
}

/// The receiving end. Dropping it ends the capture.
pub struct Capture {
    shared: Arc<Shared>,
    /// Taken from the buffer.
    taken: VecDeque<CapturedPacket>,
}

/// For engines: the end of the workers.
#[derive(Clone)]
pub struct CaptureSender {
    shared: Arc<Shared>,
}

struct Shared {
    filter: CaptureFilter,
    /// Packets that the filter selects, of which one in so many is captured.
    selected: AtomicU64,
    is_open: AtomicBool,
    dropped: AtomicU64,
    buffer: Mutex<Buffer>,
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Buffer {
    packets: VecDeque<CapturedPacket>,
    /// Of their frames.
    bytes: usize,
}

impl Buffer {
    /// Whether there is room for another packet with a frame of this length.
    fn has_room(&self, frame_len: usize) -> bool {
        self.packets.len() < PACKETS_MAX && self.bytes + frame_len <= BYTES_MAX
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The buffer, unless another thread uses it and does not finish at once.
    fn try_lock(&self) -> Option<MutexGuard<'_, Buffer>> {
        for _ in 0..ATTEMPTS_MAX {
            match self.buffer.try_lock() {
                Ok(buffer) => return Some(buffer),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => hint::spin_loop(),
            }
        }
        None
    }
}

impl CaptureFilter {
    fn selects(&self, switch: DatapathId, p: &PacketIn<'_>) -> bool {
        if self.switch.is_some_and(|id| id != switch) || self.port.is_some_and(|it| it != p.in_port)
        {
            return false;
        }
        if self.ethertype.is_none() && self.mac.is_none() && self.ip.is_none() {
            return true;
        }
        let Some(eth) = Ethernet::new(p.frame) else { return false };
        self.ethertype.is_none_or(|it| it == eth.ethertype)
            && self.mac.is_none_or(|it| it == eth.src || it == eth.dst)
            && self.ip.is_none_or(|it| addresses(&eth, p.frame).contains(&Some(it)))
    }
}

/// The source and destination of IP, or the sender and the target of ARP.
fn addresses(eth: &Ethernet<'_>, frame: &[u8]) -> [Option<IpAddr>; 2] {
    let start = if eth.tagged { 18 } else { 14 };
    let v4 = |at: usize| {
        let bytes: [u8; 4] = frame.get(start + at..)?.first_chunk().copied()?;
        Some(IpAddr::from(bytes))
    };
    let v6 = |at: usize| {
        let bytes: [u8; 16] = frame.get(start + at..)?.first_chunk().copied()?;
        Some(IpAddr::from(bytes))
    };
    match eth.ethertype {
        EtherType::IPV4 => [v4(12), v4(16)],
        EtherType::ARP => [v4(14), v4(24)],
        EtherType::IPV6 => [v6(8), v6(24)],
        _ => [None; 2],
    }
}

impl CaptureSender {
    /// Both ends of a capture. `notify` is called, in the thread of a worker, when something can be received and nothing could before; it
    /// must neither block nor take long.
    pub fn new(filter: CaptureFilter, notify: Box<dyn Fn() + Send + Sync>) -> (Self, Capture) {
        let shared = Arc::new(Shared {
            filter,
            selected: AtomicU64::new(0),
            is_open: AtomicBool::new(true),
            dropped: AtomicU64::new(0),
            buffer: Mutex::default(),
            notify,
        });
        (Self { shared: Arc::clone(&shared) }, Capture { shared, taken: VecDeque::new() })
    }

    /// Whether the other end still exists.
    pub fn is_open(&self) -> bool {
        self.shared.is_open.load(Relaxed)
    }

    /// Captures a packet-in, if the filter selects it and there is room.
    ///
    /// # Cost
    /// For a packet that is selected, a copy of the frame and a lock, for which it does not wait.
    pub fn offer(&self, now: Instant, switch: DatapathId, p: &PacketIn<'_>) {
        let shared = &*self.shared;
        if !shared.filter.selects(switch, p) {
            return;
        }
        let number = shared.selected.fetch_add(1, Relaxed);
        if !number.is_multiple_of(u64::from(shared.filter.one_in.get())) {
            return;
        }
        let packet = CapturedPacket {
            at: now,
            from: SwitchPort::new(switch, p.in_port),
            reason: p.reason,
            table_id: p.table_id,
            cookie: p.cookie,
            total_len: p.total_len,
            frame: p.frame.to_vec(),
        };
        let Some(mut buffer) = shared.try_lock().filter(|it| it.has_room(p.frame.len())) else {
            shared.dropped.fetch_add(1, Relaxed);
            return;
        };
        let was_empty = buffer.packets.is_empty();
        buffer.bytes += p.frame.len();
        buffer.packets.push_back(packet);
        drop(buffer);
        if was_empty {
            (shared.notify)();
        }
    }
}

impl Capture {
    /// Receives the next packet; `None` if there is none yet.
    pub fn try_next(&mut self) -> Option<CapturedPacket> {
        if self.taken.is_empty() {
            self.take();
        }
        self.taken.pop_front()
    }

    /// Takes some packets from the buffer.
    fn take(&mut self) {
        self.taken.reserve(TAKEN_MAX);
        let mut buffer = self.shared.lock();
        let mut bytes = 0;
        while self.taken.len() < TAKEN_MAX && bytes < TAKEN_BYTES_MAX {
            let Some(packet) = buffer.packets.pop_front() else { break };
            bytes += packet.frame.len();
            self.taken.push_back(packet);
        }
        buffer.bytes -= bytes;
    }

    /// Packets that were dropped, since too many waited, or since the buffer was in use when a worker offered them.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Relaxed)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.shared.is_open.store(false, Relaxed);
        let rest = mem::take(&mut *self.shared.lock());
        // Frees thousands of frames, now that workers find the buffer unused.
        drop(rest);
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("filter", &self.shared.filter).finish_non_exhaustive()
    }
}

impl fmt::Debug for CaptureSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureSender").field("filter", &self.shared.filter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use sluice_openflow::PortNo;

    use super::*;

    /// A frame from host 1 to host 2: ARP, IPv4 in VLAN 5, or IPv6.
    fn frame(ethertype: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if ethertype == 0x800 {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend(ethertype.to_be_bytes());
        let (v4, v6) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [[0xfd; 16], [0xfe; 16]]);
        match ethertype {
            0x800 => frame.extend([&[0x45; 12][..], &v4[0], &v4[1]].concat()),
            0x806 => frame.extend([&[1; 14][..], &v4[0], &[0; 6], &v4[1]].concat()),
            _ => frame.extend([&[0x60; 8][..], &v6[0], &v6[1]].concat()),
        }
        frame
    }

    fn packet(in_port: u32, frame: &[u8]) -> PacketIn<'_> {
        PacketIn {
            buffer_id: None,
            in_port: PortNo(in_port),
            total_len: 100,
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: 7,
            frame,
        }
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn capture(filter: CaptureFilter) -> (CaptureSender, Capture) {
        CaptureSender::new(filter, Box::new(|| {}))
    }

    #[test]
    fn packets_are_selected_by_each_field() {
        let all = CaptureFilter::default();
        let (ipv4, ipv6) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from([0xfd; 16]));
        // What each filter selects of ARP, IPv4 and IPv6, from port 1 and from port 2.
        let cases = [
            (all, [1, 1, 1, 2, 2, 2]),
            (CaptureFilter { port: Some(PortNo(2)), ..all }, [0, 0, 0, 2, 2, 2]),
            (CaptureFilter { switch: Some(DatapathId(9)), ..all }, [0; 6]),
            (CaptureFilter { ethertype: Some(EtherType::IPV4), ..all }, [0, 1, 0, 0, 2, 0]),
            (CaptureFilter { ip: Some(ipv4), ..all }, [1, 1, 0, 2, 2, 0]),
            (CaptureFilter { ip: Some(ipv6), ..all }, [0, 0, 1, 0, 0, 2]),
            (CaptureFilter { mac: Some(MacAddr([2, 0, 0, 0, 0, 1])), ..all }, [1, 1, 1, 2, 2, 2]),
            (CaptureFilter { mac: Some(MacAddr([2, 0, 0, 0, 0, 3])), ..all }, [0; 6]),
            (CaptureFilter { one_in: NonZeroU32::new(4).unwrap(), ..all }, [1, 0, 0, 0, 2, 0]),
        ];
        for (filter, expected) in cases {
            let (sender, mut capture) = capture(filter);
            let mut captured = Vec::new();
            for port in [1, 2] {
                for ethertype in [0x806, 0x800, 0x86dd] {
                    sender.offer(now(), DatapathId(3), &packet(port, &frame(ethertype)));
                    captured.push(capture.try_next().map_or(0, |packet| packet.from.port.0));
                }
            }
            assert_eq!(captured, expected, "{filter:?}");
        }
        // A truncated frame has no addresses.
        let (sender, mut capture) = capture(CaptureFilter { ip: Some(ipv4), ..all });
        for len in 0..frame(0x806).len() {
            sender.offer(now(), DatapathId(3), &packet(1, &frame(0x806)[..len]));
        }
        assert_eq!(capture.try_next(), None);
    }

    #[test]
    fn a_reader_that_does_not_keep_up_loses_packets_which_are_counted() {
        let notified = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&notified);
        let notify = Box::new(move || _ = counter.fetch_add(1, Relaxed));
        let (sender, mut capture) = CaptureSender::new(CaptureFilter::default(), notify);
        for _ in 0..PACKETS_MAX + 5 {
            sender.offer(now(), DatapathId(3), &packet(1, &frame(0x806)));
        }
        assert_eq!((capture.dropped(), notified.load(Relaxed)), (5, 1));
        assert_eq!(std::iter::from_fn(|| capture.try_next()).count(), PACKETS_MAX);
        let long = vec![0; 60_000];
        for _ in 0..1000 {
            sender.offer(now(), DatapathId(3), &packet(1, &long));
        }
        let count = std::iter::from_fn(|| capture.try_next()).count();
        assert_eq!(count, BYTES_MAX / long.len());
        assert_eq!(capture.dropped(), 5 + 1000 - count as u64);
        assert!(sender.is_open());
        drop(capture);
        assert!(!sender.is_open());
    }

    #[test]
    fn a_worker_does_not_wait_for_a_thread_that_uses_the_buffer() {
        let (sender, mut capture) = capture(CaptureFilter::default());
        let in_use = capture.shared.lock();
        sender.offer(now(), DatapathId(3), &packet(1, &frame(0x806)));
        drop(in_use);
        assert_eq!((capture.dropped(), capture.try_next()), (1, None));
        sender.offer(now(), DatapathId(3), &packet(1, &frame(0x806)));
        assert!(capture.try_next().is_some());
    }
}
