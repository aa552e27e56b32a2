//! Requests, prebuilt: whole `PACKET_IN`s in a row, in which only what differs is written before they are sent.

use sluice_openflow::{EncodeError, Encoder, NO_BUFFER, PacketIn, PacketInReason, PortNo, Version};

use crate::host_pairs::HostPairs;

/// Bytes sent at a time, at most.
const CHUNK_LEN: usize = 128 << 10;

/// Announcements sent at a time, at most.
const ANNOUNCEMENTS: usize = 256;

/// Shortest frame: what Ethernet allows, without the checksum.
pub(crate) const FRAME_LEN_MIN: u16 = 60;

/// Longest frame.
pub(crate) const FRAME_LEN_MAX: u16 = 9216;

/// Where the parts that differ lie in one message.
#[derive(Debug, Clone, Copy)]
struct TemplateLayout {
    len: usize,
    /// `in_phy_port` of 1.1 follows, and is the same.
    in_port_at: usize,
    frame_at: usize,
}

/// How requests name the frame they bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffering {
    /// The switch keeps it under a number, as 1.0 switches did.
    Buffered,
    /// The switch keeps nothing, as Open vSwitch does: the request brings all of it.
    Unbuffered,
}

/// Requests in a row, for all switches of one thread.
#[derive(Debug)]
pub(crate) struct RequestTemplates {
    version: Version,
    layout: TemplateLayout,
    chunk: Vec<u8>,
    announcement: TemplateLayout,
    announcements: Vec<u8>,
}

impl RequestTemplates {
    /// Builds them for frames of `frame_len` bytes.
    ///
    /// # Errors
    /// What the version cannot say.
    pub(crate) fn new(version: Version, frame_len: u16) -> Result<Self, EncodeError> {
        let (layout, one) = message(version, &frame(frame_len))?;
        let (announcement, arp) = message(version, &arp())?;
        Ok(Self {
            version,
            layout,
            chunk: one.repeat(CHUNK_LEN / layout.len),
            announcement,
            announcements: arp.repeat(ANNOUNCEMENTS),
        })
    }

    /// Bytes of one request.
    pub(crate) fn len(&self) -> usize {
        self.layout.len
    }

    /// Requests that one chunk holds.
    pub(crate) fn per_chunk(&self) -> usize {
        self.chunk.len() / self.layout.len
    }

    /// Writes the next `n` requests, numbered from `seq`, at most a chunk, and returns their bytes.
    ///
    /// `pairs` is a copy: how many were sent is known later.
    #[inline]
    pub(crate) fn fill(&mut self, n: usize, seq: u32, kept: Buffering, pairs: HostPairs) -> &[u8] {
        let (layout, bytes) = (self.layout, n * self.layout.len);
        let Some(chunk) = self.chunk.get_mut(..bytes) else { return &[] };
        match kept {
            Buffering::Buffered => fill::<true>(self.version, chunk, layout.len, seq, pairs),
            Buffering::Unbuffered => fill::<false>(self.version, chunk, layout.len, seq, pairs),
        }
        chunk
    }

    /// Writes the announcements of the hosts from `first` to below `end`, as many as go at a time; returns their
    /// bytes and how many there are.
    pub(crate) fn announce(&mut self, first: u32, end: u32, pairs: &HostPairs) -> (&[u8], u32) {
        let TemplateLayout { len, in_port_at, frame_at } = self.announcement;
        let n = ((end - first) as usize).min(ANNOUNCEMENTS);
        let chunk = self.announcements.get_mut(..n * len).unwrap_or_default();
        for (msg, host) in chunk.chunks_exact_mut(len).zip(first..end) {
            let (address, port) = pairs.whereabouts(host);
            let (address, port) = (address.to_be_bytes(), port.to_be_bytes());
            let ip = pairs.ip(host).to_be_bytes();
            let mac = address.get(2..).unwrap_or_default();
            match self.version {
                Version::V1_0 => put(msg, in_port_at, port.get(2..).unwrap_or_default()),
                Version::V1_1 => put(msg, in_port_at, &[port, port].concat()),
                _ => put(msg, in_port_at, &port),
            }
            // Source; then in the ARP message the sender and, since it tells of itself, the target.
            put(msg, frame_at + 6, mac);
            put(msg, frame_at + 22, mac);
            put(msg, frame_at + 28, &ip);
            put(msg, frame_at + 32, mac);
            put(msg, frame_at + 38, &ip);
        }
        (chunk, u32::try_from(n).unwrap_or(0))
    }

    /// Bytes of one announcement.
    pub(crate) fn announcement_len(&self) -> usize {
        self.announcement.len
    }
}

#[inline]
fn fill<const BUFFERED: bool>(
    version: Version,
    chunk: &mut [u8],
    len: usize,
    seq: u32,
    pairs: HostPairs,
) {
    match version {
        Version::V1_0 => fill_10::<BUFFERED>(chunk, len, seq, pairs),
        Version::V1_1 => fill_11::<BUFFERED>(chunk, len, seq, pairs),
        Version::V1_2 => fill_12_on::<BUFFERED, 24, 46>(chunk, len, seq, pairs),
        _ => fill_12_on::<BUFFERED, 32, 54>(chunk, len, seq, pairs),
    }
}

/// Buffer, length and port are one store of eight bytes in 1.0.
#[inline]
fn fill_10<const BUFFERED: bool>(chunk: &mut [u8], len: usize, seq: u32, pairs: HostPairs) {
    let frame_len = (len as u64 - 18) << 16;
    let mut messages = chunk.chunks_exact_mut(len);
    pairs.each(seq, |seq, pair| {
        let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<30>) else {
            return false;
        };
        let buffer_id = if BUFFERED { seq } else { NO_BUFFER };
        let fixed = u64::from(buffer_id) << 32 | frame_len | u64::from(pair.in_port);
        msg[8..16].copy_from_slice(&fixed.to_be_bytes());
        msg[18..30].copy_from_slice(&pair.bytes());
        true
    });
}

/// In 1.1, `in_port` and `in_phy_port` follow the buffer.
#[inline]
fn fill_11<const BUFFERED: bool>(chunk: &mut [u8], len: usize, seq: u32, pairs: HostPairs) {
    let mut messages = chunk.chunks_exact_mut(len);
    pairs.each(seq, |seq, pair| {
        let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<36>) else {
            return false;
        };
        let buffer_id = if BUFFERED { seq } else { NO_BUFFER };
        msg[8..12].copy_from_slice(&buffer_id.to_be_bytes());
        msg[12..16].copy_from_slice(&pair.in_port.to_be_bytes());
        msg[16..20].copy_from_slice(&pair.in_port.to_be_bytes());
        msg[24..36].copy_from_slice(&pair.bytes());
        true
    });
}

/// Since 1.2 the port is a field of the match, `IN_PORT_AT`; the addresses end at `END`.
#[inline]
fn fill_12_on<const BUFFERED: bool, const IN_PORT_AT: usize, const END: usize>(
    chunk: &mut [u8],
    len: usize,
    seq: u32,
    pairs: HostPairs,
) {
    let mut messages = chunk.chunks_exact_mut(len);
    pairs.each(seq, |seq, pair| {
        let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<END>) else {
            return false;
        };
        if BUFFERED {
            msg[8..12].copy_from_slice(&seq.to_be_bytes());
        }
        msg[IN_PORT_AT..IN_PORT_AT + 4].copy_from_slice(&pair.in_port.to_be_bytes());
        msg[END - 12..END].copy_from_slice(&pair.bytes());
        true
    });
}

/// One `PACKET_IN` around `frame`, unbuffered, and where its parts are.
fn message(version: Version, frame: &[u8]) -> Result<(TemplateLayout, Vec<u8>), EncodeError> {
    let (mut tx, mut xid) = (vec![], 0);
    let p = PacketIn {
        buffer_id: None,
        in_port: PortNo(1),
        total_len: u16::try_from(frame.len()).unwrap_or(u16::MAX),
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame,
    };
    p.encode(&mut Encoder::new(&mut tx, version, &mut xid))?;
    let (in_port_at, frame_at) = match version {
        Version::V1_0 => (14, 18),
        Version::V1_1 => (12, 24),
        Version::V1_2 => (24, 34),
        _ => (32, 42),
    };
    Ok((TemplateLayout { len: tx.len(), in_port_at, frame_at }, tx))
}

/// An IPv4 frame with a UDP datagram from 10.0.0.1 to 10.0.0.2, `len` bytes in all.
fn frame(len: u16) -> Vec<u8> {
    let (ip_len, udp_len) = ((len - 14).to_be_bytes(), (len - 34).to_be_bytes());
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(ip_len);
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    // Ports 10000 and 10001; no checksum, which UDP over IPv4 allows.
    frame.extend([0x27, 0x10, 0x27, 0x11]);
    frame.extend(udp_len);
    frame.resize(usize::from(len), 0);
    let words = frame.get(14..34).unwrap_or_default().chunks_exact(2);
    let sum: u32 = words.map(|w| w.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    put(&mut frame, 24, &(!((sum + (sum >> 16)) & 0xffff)).to_be_bytes()[2..]);
    frame
}

/// A gratuitous ARP reply, padded to the least length.
fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([0; 6]);
    frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
    frame.resize(usize::from(FRAME_LEN_MIN), 0);
    frame
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Ethernet, Message, RawMessage, Versions, split_message};

    use super::*;

    #[test]
    fn a_request_of_1_0_is_as_long_as_the_one_everybody_measures_with() {
        assert_eq!(RequestTemplates::new(Version::V1_0, 64).unwrap().len(), 82);
        let lens = Versions::SPOKEN.iter().map(|v| RequestTemplates::new(v, 64).unwrap().len());
        assert_eq!(lens.collect::<Vec<_>>(), [82, 88, 98, 106, 106, 106]);
    }

    #[test]
    fn what_is_written_in_place_is_what_a_switch_would_send() {
        for version in Versions::SPOKEN.iter() {
            for kept in [Buffering::Buffered, Buffering::Unbuffered] {
                let mut requests = RequestTemplates::new(version, 128).unwrap();
                let pairs = HostPairs::new(9, 100, 4, 0.2, 3);
                let mut bytes = requests.fill(50, 7000, kept, pairs);
                let mut all = vec![];
                pairs.each(7000, |seq, pair| {
                    all.push((seq, pair));
                    seq < 7049
                });
                for (seq, pair) in all {
                    let (msg, rest) = split_message(bytes).unwrap().unwrap();
                    let p = PacketIn::new(msg).unwrap();
                    assert_eq!(p.buffer_id, (kept == Buffering::Buffered).then_some(seq));
                    assert_eq!((p.in_port.0, p.total_len), (pair.in_port, 128));
                    let eth = Ethernet::new(p.frame).unwrap();
                    assert_eq!((eth.dst.to_u64(), eth.src.to_u64()), (pair.dst, pair.src));
                    assert_eq!(p.frame.len(), 128);
                    let (mut again, mut xid) = (vec![], 0);
                    let mut out = Encoder::new(&mut again, version, &mut xid);
                    Message::parse(msg).unwrap().encode(msg.xid(), &mut out).unwrap();
                    assert_eq!(again, msg.bytes(), "{version}");
                    bytes = rest;
                }
                assert!(bytes.is_empty());
            }
        }
    }

    #[test]
    fn the_checksum_of_the_frame_is_right() {
        let frame = frame(64);
        let words = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn a_host_announces_itself_where_it_lives() {
        for version in Versions::SPOKEN.iter() {
            let mut requests = RequestTemplates::new(version, 64).unwrap();
            let pairs = HostPairs::new(9, 100, 4, 0.0, 3);
            let (bytes, n) = requests.announce(97, 100, &pairs);
            assert_eq!((n, bytes.len()), (3, 3 * requests.announcement_len()));
            let (bytes, _) = requests.announce(98, 100, &pairs);
            let p = PacketIn::new(RawMessage::new(&bytes[..bytes.len() / 2]).unwrap()).unwrap();
            let eth = Ethernet::new(p.frame).unwrap();
            assert_eq!((p.buffer_id, p.in_port.0), (None, 3));
            assert_eq!((eth.src.to_u64(), 3), pairs.whereabouts(98));
            assert_eq!((eth.dst.0, &p.frame[22..28]), ([0xff; 6], &eth.src.0[..]));
        }
    }
}
