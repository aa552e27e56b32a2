//! Templates of the requests: complete `PACKET_IN` messages in which only the varying fields are patched before sending.

use sluice_openflow::view::PacketIn;
use sluice_openflow::{EncodeError, Encoder, NO_BUFFER, PacketInReason, PortNo, Version};

use crate::host_pairs::{HostPair, HostPairs};

/// Bytes of requests sent at once, at most.
const BATCH_BYTES: usize = 128 << 10;

/// Host announcements sent at once, at most.
const ANNOUNCEMENTS: usize = 256;

/// Length of the shortest Ethernet frame, without FCS.
pub(crate) const FRAME_LEN_MIN: u16 = 60;

/// Length of the longest frame that can be requested, without FCS.
pub(crate) const FRAME_LEN_MAX: u16 = 9216;

/// Offsets of the patched fields in one message.
#[derive(Debug, Clone, Copy)]
struct TemplateLayout {
    len: usize,
    /// In 1.1, `in_phy_port` follows and has the same value.
    in_port_at: usize,
    frame_at: usize,
}

/// Whether switches buffer the packets that they send to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffering {
    /// They do: every packet-in has a buffer id of its own, as with many switches of OpenFlow 1.0.
    Buffered,
    /// They do not, like Open vSwitch: every packet-in has `NO_BUFFER` and the complete packet.
    Unbuffered,
}

/// Message templates for all switches of one thread, each repeated for a batch.
#[derive(Debug)]
pub(crate) struct RequestTemplates {
    version: Version,
    layout: TemplateLayout,
    requests: Vec<u8>,
    /// Sum of the 16-bit words of the IPv4 header of a request, without those that are patched.
    ip_header_sum: u32,
    announcement_layout: TemplateLayout,
    announcements: Vec<u8>,
}

impl RequestTemplates {
    /// Builds the templates for frames of `frame_len` bytes.
    ///
    /// # Errors
    /// The version cannot express a packet-in.
    pub(crate) fn new(version: Version, frame_len: u16) -> Result<Self, EncodeError> {
        let frame = udp_frame(frame_len);
        let (layout, request) = packet_in(version, &frame)?;
        let (announcement_layout, announcement) = packet_in(version, &arp_frame())?;
        Ok(Self {
            version,
            layout,
            requests: request.repeat(BATCH_BYTES / layout.len),
            ip_header_sum: sum_of_words(frame.get(14..34).unwrap_or_default()),
            announcement_layout,
            announcements: announcement.repeat(ANNOUNCEMENTS),
        })
    }

    /// Length of one request in bytes.
    pub(crate) fn request_len(&self) -> usize {
        self.layout.len
    }

    /// Number of requests in one batch.
    pub(crate) fn batch_size(&self) -> usize {
        self.requests.len() / self.layout.len
    }

    /// Patches the next `n` requests (one batch at most), numbered from `seq`, and returns their bytes.
    ///
    /// `pairs` is a copy: the caller advances its own when it knows how many requests were sent.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        n: usize,
        seq: u32,
        buffering: Buffering,
        pairs: HostPairs,
    ) -> &[u8] {
        let (len, ip_header_sum) = (self.layout.len, self.ip_header_sum);
        let Some(bytes) = self.requests.get_mut(..n * len) else { return &[] };
        let batch = Batch { bytes, len, ip_header_sum, seq, pairs };
        match buffering {
            Buffering::Buffered => batch.fill::<true>(self.version),
            Buffering::Unbuffered => batch.fill::<false>(self.version),
        }
        self.requests.get(..n * len).unwrap_or_default()
    }

    /// Patches the announcements of the hosts from `first` to below `end`, one batch at most; returns their bytes and
    /// their number.
    pub(crate) fn announcements(
        &mut self,
        first: u32,
        end: u32,
        pairs: &HostPairs,
    ) -> (&[u8], u32) {
        let TemplateLayout { len, in_port_at, frame_at } = self.announcement_layout;
        let n = ((end - first) as usize).min(ANNOUNCEMENTS);
        let batch = self.announcements.get_mut(..n * len).unwrap_or_default();
        for (msg, host) in batch.chunks_exact_mut(len).zip(first..end) {
            let (address, port) = pairs.location(host);
            let (address, port) = (address.to_be_bytes(), port.to_be_bytes());
            let ip = pairs.ip(host).to_be_bytes();
            let mac = address.get(2..).unwrap_or_default();
            match self.version {
                Version::V1_0 => put(msg, in_port_at, port.get(2..).unwrap_or_default()),
                Version::V1_1 => put(msg, in_port_at, &[port, port].concat()),
                _ => put(msg, in_port_at, &port),
            }
            // Ethernet source; ARP sender and target, which are the same in a gratuitous reply.
            put(msg, frame_at + 6, mac);
            put(msg, frame_at + 22, mac);
            put(msg, frame_at + 28, &ip);
            put(msg, frame_at + 32, mac);
            put(msg, frame_at + 38, &ip);
        }
        (batch, u32::try_from(n).unwrap_or(0))
    }

    /// Length of one announcement in bytes.
    pub(crate) fn announcement_len(&self) -> usize {
        self.announcement_layout.len
    }
}

/// Requests to patch.
struct Batch<'t> {
    bytes: &'t mut [u8],
    /// Length of one request.
    len: usize,
    ip_header_sum: u32,
    /// Sequence number of the first.
    seq: u32,
    pairs: HostPairs,
}

/// Offset of the IPv4 header checksum in a frame; the addresses follow.
const IP_CHECKSUM_AT: usize = 24;

impl Batch<'_> {
    #[inline]
    fn fill<const BUFFERED: bool>(self, version: Version) {
        match version {
            Version::V1_0 => self.fill_1_0::<BUFFERED>(),
            Version::V1_1 => self.fill_1_1::<BUFFERED>(),
            Version::V1_2 => self.fill_oxm::<BUFFERED, 24, 34, 68>(),
            _ => self.fill_oxm::<BUFFERED, 32, 42, 76>(),
        }
    }

    /// 1.0: buffer id, length and port are one store of eight bytes.
    #[inline]
    fn fill_1_0<const BUFFERED: bool>(self) {
        let frame_len = (self.len as u64 - 18) << 16;
        let mut messages = self.bytes.chunks_exact_mut(self.len);
        self.pairs.for_each(self.seq, |seq, pair| {
            let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<52>) else {
                return false;
            };
            let buffer_id = if BUFFERED { seq } else { NO_BUFFER };
            let fixed = u64::from(buffer_id) << 32 | frame_len | u64::from(pair.in_port);
            msg[8..16].copy_from_slice(&fixed.to_be_bytes());
            patch_frame::<18, 52>(msg, pair, self.ip_header_sum);
            true
        });
    }

    /// 1.1: `in_port` and `in_phy_port` follow the buffer id.
    #[inline]
    fn fill_1_1<const BUFFERED: bool>(self) {
        let mut messages = self.bytes.chunks_exact_mut(self.len);
        self.pairs.for_each(self.seq, |seq, pair| {
            let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<58>) else {
                return false;
            };
            let buffer_id = if BUFFERED { seq } else { NO_BUFFER };
            msg[8..12].copy_from_slice(&buffer_id.to_be_bytes());
            msg[12..16].copy_from_slice(&pair.in_port.to_be_bytes());
            msg[16..20].copy_from_slice(&pair.in_port.to_be_bytes());
            patch_frame::<24, 58>(msg, pair, self.ip_header_sum);
            true
        });
    }

    /// 1.2 and later: the ingress port is a match field at `IN_PORT_AT`; the frame begins at `FRAME_AT`, and its IPv4 header ends
    /// at `END`.
    #[inline]
    fn fill_oxm<
        const BUFFERED: bool,
        const IN_PORT_AT: usize,
        const FRAME_AT: usize,
        const END: usize,
    >(
        self,
    ) {
        let mut messages = self.bytes.chunks_exact_mut(self.len);
        self.pairs.for_each(self.seq, |seq, pair| {
            let Some(msg) = messages.next().and_then(<[u8]>::first_chunk_mut::<END>) else {
                return false;
            };
            if BUFFERED {
                msg[8..12].copy_from_slice(&seq.to_be_bytes());
            }
            msg[IN_PORT_AT..IN_PORT_AT + 4].copy_from_slice(&pair.in_port.to_be_bytes());
            patch_frame::<FRAME_AT, END>(msg, pair, self.ip_header_sum);
            true
        });
    }
}

/// Patches the addresses and the checksum of the IPv4 header in the frame at `FRAME_AT`.
#[inline]
fn patch_frame<const FRAME_AT: usize, const END: usize>(
    msg: &mut [u8; END],
    pair: HostPair,
    ip_header_sum: u32,
) {
    msg[FRAME_AT..FRAME_AT + 12].copy_from_slice(&pair.mac_bytes());
    msg[FRAME_AT + IP_CHECKSUM_AT..END].copy_from_slice(&pair.ip_bytes(ip_header_sum));
}

/// An unbuffered `PACKET_IN` with `frame`, and its layout.
fn packet_in(version: Version, frame: &[u8]) -> Result<(TemplateLayout, Vec<u8>), EncodeError> {
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

/// An Ethernet frame of `len` bytes with a UDP datagram; addresses and checksum of the IPv4 header are patched.
fn udp_frame(len: u16) -> Vec<u8> {
    let (ip_len, udp_len) = ((len - 14).to_be_bytes(), (len - 34).to_be_bytes());
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(ip_len);
    frame.extend([0, 0, 0x40, 0, 64, 17]);
    frame.resize(34, 0);
    // UDP ports 10000 and 10001; no UDP checksum, which IPv4 allows.
    frame.extend([0x27, 0x10, 0x27, 0x11]);
    frame.extend(udp_len);
    frame.resize(usize::from(len), 0);
    frame
}

/// Sum of the 16-bit words of `bytes`.
fn sum_of_words(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    words.map(|w| w.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))).sum()
}

/// A gratuitous ARP reply, padded to the minimum length.
fn arp_frame() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([0; 6]);
    frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
    frame.resize(usize::from(FRAME_LEN_MIN), 0);
    frame
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use sluice_base::HashSet;
    use sluice_openflow::{Ethernet, MacAddr, Message, RawMessage, Versions, split_message};

    use super::*;
    use crate::host_pairs::NEW_SOURCE_MIN;

    #[test]
    fn a_request_of_1_0_is_as_long_as_that_of_cbench() {
        assert_eq!(RequestTemplates::new(Version::V1_0, 64).unwrap().request_len(), 82);
        let lens =
            Versions::SUPPORTED.iter().map(|v| RequestTemplates::new(v, 64).unwrap().request_len());
        assert_eq!(lens.collect::<Vec<_>>(), [82, 88, 98, 106, 106, 106]);
    }

    #[test]
    fn patched_templates_parse_and_encode_to_the_same_bytes() {
        for version in Versions::SUPPORTED.iter() {
            for buffering in [Buffering::Buffered, Buffering::Unbuffered] {
                let mut templates = RequestTemplates::new(version, 128).unwrap();
                let pairs = HostPairs::new(9, 100, 4, 0.2, 3);
                let mut bytes = templates.fill(50, 7000, buffering, pairs);
                let mut all = vec![];
                pairs.for_each(7000, |seq, pair| {
                    all.push((seq, pair));
                    seq < 7049
                });
                for (seq, pair) in all {
                    let (msg, rest) = split_message(bytes).unwrap().unwrap();
                    let p = PacketIn::new(msg).unwrap();
                    assert_eq!(p.buffer_id, (buffering == Buffering::Buffered).then_some(seq));
                    assert_eq!((p.in_port.0, p.total_len), (pair.in_port, 128));
                    let eth = Ethernet::new(p.frame).unwrap();
                    assert_eq!((eth.dst.to_u64(), eth.src.to_u64()), (pair.dst, pair.src));
                    assert_eq!(p.frame.len(), 128);
                    let (mut again, mut xid) = (vec![], 0);
                    let mut out = Encoder::new(&mut again, version, &mut xid);
                    Message::parse_raw(msg).unwrap().encode(msg.xid(), &mut out).unwrap();
                    assert_eq!(again, msg.bytes(), "{version}");
                    bytes = rest;
                }
                assert!(bytes.is_empty());
            }
        }
    }

    #[test]
    fn requests_are_distinct_flows_with_the_addresses_of_their_hosts_and_a_correct_checksum() {
        for version in Versions::SUPPORTED.iter() {
            let mut templates = RequestTemplates::new(version, 64).unwrap();
            let pairs = HostPairs::new(9, 70_000, 4, 0.2, 3);
            let mut bytes = templates.fill(500, 7, Buffering::Unbuffered, pairs);
            let mut flows = HashSet::default();
            while let Some((msg, rest)) = split_message(bytes).unwrap() {
                let frame = PacketIn::new(msg).unwrap().frame;
                let header = &frame[14..34];
                let sum = sum_of_words(header);
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "{header:?}");
                let eth = Ethernet::new(frame).unwrap();
                let host = |mac: MacAddr| u32::from_be_bytes([0, mac.0[3], mac.0[4], mac.0[5]]);
                let is_new = eth.src.0[0] != 2;
                let src = host(eth.src) + if is_new { NEW_SOURCE_MIN } else { 0 };
                assert_eq!(header[12..16], pairs.ip(src).to_be_bytes());
                assert_eq!(header[16..20], pairs.ip(host(eth.dst)).to_be_bytes());
                assert!(flows.insert(header[12..20].to_vec()), "{header:?}");
                bytes = rest;
            }
            assert_eq!(flows.len(), 500);
        }
    }

    #[test]
    fn a_host_announces_itself_at_its_port() {
        for version in Versions::SUPPORTED.iter() {
            let mut templates = RequestTemplates::new(version, 64).unwrap();
            let pairs = HostPairs::new(9, 100, 4, 0.0, 3);
            let (bytes, n) = templates.announcements(97, 100, &pairs);
            assert_eq!((n, bytes.len()), (3, 3 * templates.announcement_len()));
            let (bytes, _) = templates.announcements(98, 100, &pairs);
            let p = PacketIn::new(RawMessage::new(&bytes[..bytes.len() / 2]).unwrap()).unwrap();
            let eth = Ethernet::new(p.frame).unwrap();
            assert_eq!((p.buffer_id, p.in_port.0), (None, 3));
            assert_eq!((eth.src.to_u64(), 3), pairs.location(98));
            assert_eq!((eth.dst.0, &p.frame[22..28]), ([0xff; 6], &eth.src.0[..]));
        }
    }
}
