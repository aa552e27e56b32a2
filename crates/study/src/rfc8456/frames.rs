//! Data frames with a sequence number, and what the arrival of a sequence of them says.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use sluice_emu::net::CapturedFrame;
use sluice_emu::topology::HostNode;
use sluice_openflow::MacAddr;

/// The first bytes of the data of a frame; its sequence number follows.
const MAGIC: [u8; 8] = *b"RFC 8456";

/// Where the data of a frame begins: after the headers of Ethernet, IPv4 and UDP.
const DATA_AT: usize = 14 + 20 + 8;

/// Length of the shortest frame in bytes: that of Ethernet, without FCS.
pub(crate) const FRAME_BYTES_MIN: u32 = 60;

/// Length of the longest one.
pub(crate) const FRAME_BYTES_MAX: u32 = 1514;

/// UDP port of source and destination: that of the discard protocol (RFC 863).
const PORT: u16 = 9;

/// Time to live of packets.
const TTL: u8 = 64;

/// The addresses at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameEnd {
    pub(super) mac: MacAddr,
    pub(super) ipv4: Ipv4Addr,
}

impl FrameEnd {
    pub(super) fn of(host: &HostNode) -> Self {
        Self { mac: host.mac, ipv4: host.ipv4 }
    }
}

/// Source and destination of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameEnds {
    pub(super) src: FrameEnd,
    pub(super) dst: FrameEnd,
}

impl FrameEnds {
    /// From one host to another.
    pub(super) fn of(from: &HostNode, to: &HostNode) -> Self {
        Self { src: FrameEnd::of(from), dst: FrameEnd::of(to) }
    }

    /// Addresses that no host has: pair number `n` of a series.
    pub(super) fn unique(n: u32) -> Self {
        let [_, high, middle, low] = n.to_be_bytes();
        let end = |kind| FrameEnd {
            mac: MacAddr([2, 0x84, 0x56, high | kind, middle, low]),
            ipv4: Ipv4Addr::new(10, 0x80 | (high | kind), middle, low),
        };
        Self { src: end(0), dst: end(0x40) }
    }

    /// The opposite direction.
    pub(super) fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }

    /// A UDP packet over IPv4 with a sequence number, of `bytes` bytes in all.
    pub(super) fn frame(&self, sequence: u64, bytes: usize) -> Vec<u8> {
        let mut data = [&MAGIC[..], &sequence.to_be_bytes()].concat();
        data.resize(bytes.saturating_sub(DATA_AT).max(data.len()), 0);
        let packet = PacketBuilder::ethernet2(self.src.mac.0, self.dst.mac.0)
            .ipv4(self.src.ipv4.octets(), self.dst.ipv4.octets(), TTL)
            .udp(PORT, PORT);
        let mut frame = Vec::with_capacity(packet.size(data.len()));
        // Writing to memory does not fail, and frames are shorter than a packet of IPv4 may be.
        let _ = packet.write(&mut frame, &data);
        frame
    }
}

/// The sequence number of a frame that [`FrameEnds::frame`] has made, also of its beginning.
pub(super) fn sequence_of(frame: &[u8]) -> Option<u64> {
    let data = frame.get(DATA_AT..)?.strip_prefix(&MAGIC)?;
    Some(u64::from_be_bytes(*data.first_chunk()?))
}

/// Sequence numbers that arrived at a host, with the times, each one once.
pub(super) fn arrivals(captured: &[CapturedFrame], host: usize) -> Vec<(u64, Instant)> {
    let mut seen = BTreeSet::new();
    captured
        .iter()
        .filter(|it| it.host == host)
        .filter_map(|it| Some((sequence_of(&it.frame)?, it.at)))
        .filter(|(sequence, _)| seen.insert(*sequence))
        .collect()
}

/// What the arrival of frames 0 to `sent` − 1 says about an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Interruption {
    /// Frames that never arrived.
    pub(super) lost: u64,
    /// Time from the last frame before the first loss to the first frame after which nothing was lost. Zero if nothing was lost.
    pub(super) time: Duration,
}

impl Interruption {
    /// Of the frames from number `from` on. `None` if no frame arrived after the last loss.
    pub(super) fn of(arrivals: &[(u64, Instant)], from: u64, sent: u64) -> Option<Self> {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let mut arrived = vec![None; index(sent)];
        for &(number, at) in arrivals {
            if let Some(arrival) = arrived.get_mut(index(number)) {
                *arrival = Some(at);
            }
        }
        let since_event = arrived.iter().enumerate().skip(index(from));
        let mut missing = since_event.filter(|(_, arrival)| arrival.is_none()).map(|(at, _)| at);
        let Some(first) = missing.next() else { return Some(Self::default()) };
        let (further, last) = missing.fold((0, first), |(count, _), number| (count + 1, number));
        let stable = arrived.iter().skip(last).find_map(|arrival| *arrival)?;
        // It may be older than the event.
        let before = arrived.iter().take(first).rev().find_map(|arrival| *arrival);
        let time = stable.saturating_duration_since(before.unwrap_or(stable));
        Some(Self { lost: 1 + further, time })
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    #[test]
    fn frames_have_the_length_the_addresses_and_the_number() {
        let ends = FrameEnds::unique(0x01_02_03);
        for bytes in [60, 128, 1508] {
            let frame = ends.frame(77, bytes);
            assert_eq!(frame.len(), bytes);
            assert_eq!(sequence_of(&frame), Some(77));
            let packet = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
            let Some(etherparse::NetSlice::Ipv4(ipv4)) = packet.net else { panic!("{packet:?}") };
            assert_eq!(ipv4.header().source_addr(), ends.src.ipv4);
            assert_eq!(ipv4.header().destination_addr(), ends.dst.ipv4);
            assert_eq!(
                ipv4.header().header_checksum(),
                ipv4.header().to_header().calc_header_checksum()
            );
        }
        assert_ne!(ends.src, ends.dst);
        assert_eq!(sequence_of(&[0; 128]), None);
        assert_eq!(ends.reversed().reversed(), ends);
    }

    #[test]
    fn the_interruption_is_from_the_last_frame_before_the_first_loss_to_the_first_after_the_last() {
        let start = clock::now();
        let ms = |n: u64| start + Duration::from_millis(n);
        let arrivals = |numbers: &[u64]| numbers.iter().map(|&n| (n, ms(n))).collect::<Vec<_>>();
        let nothing_lost = Interruption::of(&arrivals(&[0, 1, 2, 3]), 0, 4);
        assert_eq!(nothing_lost, Some(Interruption::default()));
        // Frames 5 and 6, which may have been flooded, are not the end of it: frame 7 was lost after them.
        let interrupted = Interruption::of(&arrivals(&[0, 1, 5, 6, 8]), 0, 9).unwrap();
        assert_eq!((interrupted.lost, interrupted.time), (4, Duration::from_millis(7)));
        // A single frame arrives, and then none for two seconds.
        let silence = arrivals(&[0, 1, 3, 2003, 2004]);
        let interrupted = Interruption::of(&silence, 2, 2005).unwrap();
        assert_eq!((interrupted.lost, interrupted.time), (2000, Duration::from_millis(2002)));
        // What was lost before the event does not count.
        assert_eq!(Interruption::of(&arrivals(&[0, 3, 4]), 3, 5).unwrap().lost, 0);
        // The last frame before the loss may be older than the event.
        let interrupted = Interruption::of(&arrivals(&[0, 1, 7]), 2, 8).unwrap();
        assert_eq!((interrupted.lost, interrupted.time), (5, Duration::from_millis(6)));
        // Nothing arrives any more.
        assert_eq!(Interruption::of(&arrivals(&[0, 1]), 0, 5), None);
        assert_eq!(Interruption::of(&arrivals(&[0, 1, 3]), 0, 5), None);
    }

    #[test]
    fn copies_and_frames_of_others_are_no_arrivals() {
        let at = clock::now();
        let frame = FrameEnds::unique(1).frame(5, 60);
        let captured = |host, frame: &[u8]| CapturedFrame { at, host, frame: frame.to_vec() };
        let all =
            [captured(1, &frame), captured(1, &frame), captured(2, &frame), captured(1, &[0; 60])];
        assert_eq!(arrivals(&all, 1), [(5, at)]);
    }
}
