//! Captures: packets to TCP streams, streams to messages.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use sluice_base::HashMap;
use sluice_openflow::{HEADER_LEN, MessageType, Version, split_message};

use crate::reassembly::{StreamData, TcpReassembler};
use crate::report::{PacketOrigin, Reporter};

/// Maximum size of a block of a pcapng file, in bytes.
const BLOCK_MAX: usize = 1 << 20;

/// Length of the file header of pcap, in bytes.
const PCAP_HEADER_LEN: u64 = 24;

/// Length of the start of a section header block of pcapng, in bytes: type, length of the block, byte order.
const SECTION_START_LEN: u64 = 12;

/// Minimum length of a section header block of pcapng, in bytes.
const SECTION_LEN_MIN: u64 = 28;

/// Maximum number of TCP streams, one per direction. Packets of further ones are counted only.
const STREAMS_MAX: usize = 65_536;

/// One direction of a TCP connection.
#[derive(Debug, Default)]
struct Stream {
    tcp: TcpReassembler,
    /// Bytes that are not decoded yet.
    bytes: Vec<u8>,
    content: StreamContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StreamContent {
    /// Not known yet; the next bytes decide.
    #[default]
    Unknown,
    OpenFlow,
    /// Something else, until the connection is opened again.
    Other,
}

/// Source and destination.
type Endpoints = (SocketAddr, SocketAddr);

/// A network interface in a capture.
#[derive(Debug, Clone, Copy)]
struct CaptureInterface {
    link: Linktype,
    /// Timestamp units per second, and seconds to add.
    resolution: u64,
    offset: u64,
}

/// Decodes a capture (pcap or pcapng) and reports its messages.
pub(crate) fn decode<W: Write>(
    mut input: impl Read + Send,
    report: &mut Reporter<W>,
) -> io::Result<()> {
    let header = io::Cursor::new(read_file_header(&mut input)?);
    let mut reader = create_reader(BLOCK_MAX, header.chain(input)).map_err(|e| corrupt(&e))?;
    let mut streams = Streams::default();
    let mut interfaces = Vec::new();
    let mut has_nanoseconds = false;
    loop {
        let is_exhausted = reader.reader_exhausted();
        match reader.next() {
            Ok((len, block)) => {
                if let Some((interface, time, bytes)) =
                    packet(block, &mut interfaces, &mut has_nanoseconds)
                {
                    streams.receive_packet(interface, time, bytes, report)?;
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) if !is_exhausted => {
                report.flush()?;
                reader.refill().map_err(|e| corrupt(&e))?;
            }
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
                report.report_error("the capture ends within a packet", None)?;
                break;
            }
            Err(error) => {
                let error = corrupt(&error);
                streams.finish(report)?;
                return Err(error);
            }
        }
    }
    streams.finish(report)
}

/// Reads the file header: that of pcap, or the section header block of pcapng; less if the input ends or the header is
/// invalid.
///
/// The parser needs it in one read. Everything after it may come in reads of any length, so the packets of a live capture
/// are decoded as they arrive.
fn read_file_header(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    input.take(SECTION_START_LEN).read_to_end(&mut header)?;
    let len = match *header.as_slice() {
        [0x0a, 0x0d, 0x0d, 0x0a, a, b, c, d, ref byte_order @ ..] => {
            let len = match byte_order {
                [0x1a, 0x2b, 0x3c, 0x4d] => u32::from_be_bytes([a, b, c, d]),
                [0x4d, 0x3c, 0x2b, 0x1a] => u32::from_le_bytes([a, b, c, d]),
                _ => 0,
            };
            u64::from(len).clamp(SECTION_LEN_MIN, BLOCK_MAX as u64)
        }
        _ => PCAP_HEADER_LEN,
    };
    input.take(len.saturating_sub(SECTION_START_LEN)).read_to_end(&mut header)?;
    Ok(header)
}

/// The error of a capture that cannot be read on. It does not quote the bytes that follow, which may be a megabyte.
fn corrupt<I: std::fmt::Debug>(error: &PcapError<I>) -> io::Error {
    let what = match error {
        PcapError::BufferTooSmall => "a packet or block is longer than 1 MiB",
        PcapError::HeaderNotRecognized => "the file header is invalid",
        PcapError::Incomplete(_) | PcapError::Eof | PcapError::UnexpectedEof => {
            "it ends within the file header"
        }
        PcapError::ReadError => return io::Error::other("the capture cannot be read"),
        PcapError::NomError(..) | PcapError::OwnedNomError(..) => "a packet or block is invalid",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("corrupt capture: {what}"))
}

/// The packet of a block, with its interface and time; `None` for other blocks.
#[expect(clippy::cast_precision_loss, reason = "exact to the microsecond for 270 years")]
fn packet<'a>(
    block: PcapBlockOwned<'a>,
    interfaces: &mut Vec<CaptureInterface>,
    has_nanoseconds: &mut bool,
) -> Option<(CaptureInterface, f64, &'a [u8])> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            *has_nanoseconds = header.is_nanosecond_precision();
            let resolution = if *has_nanoseconds { 1_000_000_000 } else { 1_000_000 };
            *interfaces = vec![CaptureInterface { link: header.network, resolution, offset: 0 }];
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = *interfaces.first()?;
            let fraction = f64::from(packet.ts_usec) / interface.resolution as f64;
            Some((interface, f64::from(packet.ts_sec) + fraction, packet.data))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
            interfaces.push(CaptureInterface {
                link: description.linktype,
                resolution: description.ts_resolution().filter(|&r| r > 0).unwrap_or(1_000_000),
                offset: u64::try_from(description.ts_offset()).unwrap_or(0),
            });
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = *interfaces.get(usize::try_from(packet.if_id).ok()?)?;
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let seconds = ticks as f64 / interface.resolution as f64;
            let bytes = packet.data.get(..usize::try_from(packet.caplen).ok()?)?;
            Some((interface, seconds + interface.offset as f64, bytes))
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let len = usize::try_from(packet.origlen).ok()?.min(packet.data.len());
            Some((*interfaces.first()?, 0.0, packet.data.get(..len)?))
        }
        PcapBlockOwned::NG(_) => None,
    }
}

/// Length of the pseudo header of a Linux "cooked" capture, and offset of the protocol in it.
const SLL: (usize, usize) = (16, 14);
const SLL2: (usize, usize) = (20, 0);

/// Parses a packet, from the header of its link type on.
fn parse_packet(link: Linktype, bytes: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let cooked = |(len, protocol): (usize, usize)| {
        let ether_type = bytes.get(protocol..protocol + 2)?.first_chunk()?;
        let ether_type = EtherType(u16::from_be_bytes(*ether_type));
        Some(LaxSlicedPacket::from_ether_type(ether_type, bytes.get(len..)?))
    };
    match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        Linktype::LINUX_SLL => cooked(SLL),
        Linktype::LINUX_SLL2 => cooked(SLL2),
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(bytes.get(4..)?).ok(),
        _ => LaxSlicedPacket::from_ip(bytes).ok(),
    }
}

/// The TCP streams of a capture.
#[derive(Debug, Default)]
struct Streams {
    by_endpoints: HashMap<Endpoints, Stream>,
    /// Packets that were not decoded, since they belong to further streams.
    ignored_packets: u64,
    /// Time of the last packet.
    last_s: f64,
}

impl Streams {
    fn receive_packet<W: Write>(
        &mut self,
        interface: CaptureInterface,
        time: f64,
        bytes: &[u8],
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        self.last_s = time;
        let Some(packet) = parse_packet(interface.link, bytes) else { return Ok(()) };
        let (Some(net), Some(TransportSlice::Tcp(tcp))) = (packet.net, packet.transport) else {
            return Ok(());
        };
        let (from, to) = match &net {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()))
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()))
            }
            LaxNetSlice::Arp(_) => return Ok(()),
        };
        let endpoints =
            (SocketAddr::new(from, tcp.source_port()), SocketAddr::new(to, tcp.destination_port()));
        if self.by_endpoints.len() == STREAMS_MAX && !self.by_endpoints.contains_key(&endpoints) {
            self.ignored_packets += 1;
            return Ok(());
        }
        let stream = self.by_endpoints.entry(endpoints).or_default();
        let mut seq = tcp.sequence_number();
        if tcp.syn() {
            *stream = Stream::default();
            stream.tcp.open(seq);
            seq = seq.wrapping_add(1);
        }
        for data in stream.tcp.insert(seq, tcp.payload()) {
            stream.receive(data, endpoints, time, report)?;
        }
        Ok(())
    }

    /// Reports what is left at the end of the capture.
    fn finish<W: Write>(mut self, report: &mut Reporter<W>) -> io::Result<()> {
        let mut streams: Vec<_> = self.by_endpoints.drain().collect();
        streams.sort_by_key(|(endpoints, _)| *endpoints);
        for (endpoints, mut stream) in streams {
            while let Some(data) = stream.tcp.skip_gap() {
                stream.receive(data, endpoints, self.last_s, report)?;
            }
            match stream.content {
                StreamContent::OpenFlow if !stream.bytes.is_empty() => {
                    let origin = origin(endpoints, self.last_s);
                    report.report_error("the capture ends within a message", Some(&origin))?;
                }
                StreamContent::Other => report.counts.other_streams += 1,
                _ => {}
            }
        }
        if self.ignored_packets > 0 {
            let error = format!(
                "{} packets were not decoded, since the capture has more than {STREAMS_MAX} TCP streams",
                self.ignored_packets
            );
            report.report_error(&error, None)?;
        }
        Ok(())
    }
}

fn origin((from, to): Endpoints, time: f64) -> PacketOrigin {
    PacketOrigin { time, from: from.to_string(), to: to.to_string() }
}

impl Stream {
    fn receive<W: Write>(
        &mut self,
        data: StreamData,
        endpoints: Endpoints,
        time: f64,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        match data {
            StreamData::Next(bytes) => self.bytes.extend_from_slice(&bytes),
            StreamData::AfterGap(bytes) => {
                if self.content == StreamContent::OpenFlow {
                    let error = "bytes are missing here in the capture";
                    report.report_error(error, Some(&origin(endpoints, time)))?;
                }
                (self.bytes, self.content) = (bytes, StreamContent::Unknown);
            }
        }
        if self.content == StreamContent::Unknown {
            match starts_with_message(&self.bytes) {
                None => return Ok(()),
                Some(true) => self.content = StreamContent::OpenFlow,
                Some(false) => self.content = StreamContent::Other,
            }
        }
        if self.content == StreamContent::Other {
            self.bytes.clear();
            return Ok(());
        }
        let mut rest = self.bytes.as_slice();
        let origin = origin(endpoints, time);
        loop {
            match split_message(rest) {
                Ok(Some((msg, after))) => {
                    report.report_message(msg.bytes(), Some(&origin))?;
                    rest = after;
                }
                Ok(None) => break,
                Err(_) => {
                    // The length is invalid, so the start of the next message is unknown.
                    let header = rest.get(..HEADER_LEN).unwrap_or(rest);
                    report.report_message(header, Some(&origin))?;
                    (rest, self.content) = (&[], StreamContent::Other);
                    break;
                }
            }
        }
        self.bytes = rest.to_vec();
        Ok(())
    }
}

/// Whether `bytes` start with an OpenFlow header; `None` while there are too few of them.
fn starts_with_message(bytes: &[u8]) -> Option<bool> {
    let &[version, message_type, high, low, ..] = bytes.first_chunk::<HEADER_LEN>()?;
    let is_spoken = (Version::V1_0.0..=Version::V1_5.0).contains(&version);
    let is_hello = u16::from(message_type) == MessageType::HELLO.0 && version != 0;
    let is_known = u16::from(message_type) <= MessageType::CONTROLLER_STATUS.0;
    let has_length = usize::from(u16::from_be_bytes([high, low])) >= HEADER_LEN;
    Some((is_spoken || is_hello) && is_known && has_length)
}
