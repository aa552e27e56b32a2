//! Captures: packets to streams, streams to messages.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use sluice_openflow::{HEADER_LEN, MessageType, Version, split_message};

use crate::reassembly::{Reassembler, StreamData};
use crate::report::{PacketOrigin, Reporter};

/// Bytes of the largest block that is read at once.
const BLOCK_MAX: usize = 1 << 20;

/// Connections that are followed at once, each way; packets of more are passed over.
const STREAMS_MAX: usize = 65_536;

/// What one direction of a connection carries.
#[derive(Debug, Default)]
struct Stream {
    tcp: Reassembler,
    bytes: Vec<u8>,
    kind: StreamContent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StreamContent {
    /// Nobody knows yet: the next bytes may begin a message.
    #[default]
    Unknown,
    OpenFlow,
    /// Something else, until it is opened anew.
    Other,
}

type Endpoints = (SocketAddr, SocketAddr);

/// What an interface of a capture says of its packets.
#[derive(Debug, Clone, Copy)]
struct CaptureInterface {
    link: Linktype,
    /// Units of a second in time stamps, and seconds to add.
    resolution: u64,
    offset: u64,
}

/// Reads a capture, pcap or pcapng, and tells its messages.
pub(crate) fn decode<W: Write>(
    input: impl Read + Send,
    report: &mut Reporter<W>,
) -> io::Result<()> {
    let mut reader = create_reader(BLOCK_MAX, input).map_err(|e| broken(&e))?;
    let mut streams = Streams::default();
    let mut interfaces = Vec::new();
    let mut nanoseconds = false;
    loop {
        let exhausted = reader.reader_exhausted();
        match reader.next() {
            Ok((len, block)) => {
                if let Some((interface, time, bytes)) =
                    packet(block, &mut interfaces, &mut nanoseconds)
                {
                    streams.packet(interface, time, bytes, report)?;
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) if !exhausted => {
                reader.refill().map_err(|e| broken(&e))?;
            }
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
                report.fault("the capture ends inside a packet", None)?;
                break;
            }
            Err(error) => return Err(broken(&error)),
        }
    }
    streams.finish(report)
}

fn broken<I: std::fmt::Debug>(error: &PcapError<I>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a whole capture: {error:?}"))
}

/// The packet of a block, with when and where it was seen; `None` for other blocks.
#[expect(clippy::cast_precision_loss, reason = "microseconds are kept for 270 years")]
fn packet<'a>(
    block: PcapBlockOwned<'a>,
    interfaces: &mut Vec<CaptureInterface>,
    nanoseconds: &mut bool,
) -> Option<(CaptureInterface, f64, &'a [u8])> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            *nanoseconds = header.is_nanosecond_precision();
            let resolution = if *nanoseconds { 1_000_000_000 } else { 1_000_000 };
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

/// Bytes of the pseudo header of a Linux "cooked" capture, and where the protocol stands in it.
const SLL: (usize, usize) = (16, 14);
const SLL2: (usize, usize) = (20, 0);

/// The packet under the header of its link.
fn slice(link: Linktype, bytes: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let cooked = |(len, protocol): (usize, usize)| {
        let kind = bytes.get(protocol..protocol + 2)?.first_chunk()?;
        let kind = EtherType(u16::from_be_bytes(*kind));
        Some(LaxSlicedPacket::from_ether_type(kind, bytes.get(len..)?))
    };
    match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        Linktype::LINUX_SLL => cooked(SLL),
        Linktype::LINUX_SLL2 => cooked(SLL2),
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(bytes.get(4..)?).ok(),
        _ => LaxSlicedPacket::from_ip(bytes).ok(),
    }
}

/// All connections of a capture.
#[derive(Debug, Default)]
struct Streams {
    streams: HashMap<Endpoints, Stream>,
    last_s: f64,
}

impl Streams {
    fn packet<W: Write>(
        &mut self,
        interface: CaptureInterface,
        time: f64,
        bytes: &[u8],
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        self.last_s = time;
        let Some(packet) = slice(interface.link, bytes) else { return Ok(()) };
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
        let ends =
            (SocketAddr::new(from, tcp.source_port()), SocketAddr::new(to, tcp.destination_port()));
        if self.streams.len() == STREAMS_MAX && !self.streams.contains_key(&ends) {
            return Ok(());
        }
        let stream = self.streams.entry(ends).or_default();
        let mut seq = tcp.sequence_number();
        if tcp.syn() {
            let tcp = Reassembler::default();
            *stream = Stream { tcp, ..Stream::default() };
            stream.tcp.open(seq);
            seq = seq.wrapping_add(1);
        }
        for arrival in stream.tcp.segment(seq, tcp.payload()) {
            stream.hear(arrival, ends, time, report)?;
        }
        Ok(())
    }

    /// Tells what is left when the capture ends.
    fn finish<W: Write>(mut self, report: &mut Reporter<W>) -> io::Result<()> {
        let mut streams: Vec<_> = self.streams.drain().collect();
        streams.sort_by_key(|(ends, _)| *ends);
        for (ends, mut stream) in streams {
            while let Some(arrival) = stream.tcp.skip() {
                stream.hear(arrival, ends, self.last_s, report)?;
            }
            let place = place(ends, self.last_s);
            match stream.kind {
                StreamContent::OpenFlow if !stream.bytes.is_empty() => {
                    report.fault("the capture ends inside a message", Some(&place))?;
                }
                StreamContent::Other => report.tally.foreign += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn place((from, to): Endpoints, time: f64) -> PacketOrigin {
    PacketOrigin { time, from: from.to_string(), to: to.to_string() }
}

impl Stream {
    fn hear<W: Write>(
        &mut self,
        arrival: StreamData,
        ends: Endpoints,
        time: f64,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        match arrival {
            StreamData::Next(bytes) => self.bytes.extend_from_slice(&bytes),
            StreamData::AfterGap(bytes) => {
                if self.kind == StreamContent::OpenFlow {
                    let place = place(ends, time);
                    report.fault("bytes are missing in the capture here", Some(&place))?;
                }
                (self.bytes, self.kind) = (bytes, StreamContent::Unknown);
            }
        }
        if self.kind == StreamContent::Unknown {
            match begins_a_message(&self.bytes) {
                None => return Ok(()),
                Some(true) => self.kind = StreamContent::OpenFlow,
                Some(false) => self.kind = StreamContent::Other,
            }
        }
        if self.kind == StreamContent::Other {
            self.bytes.clear();
            return Ok(());
        }
        let mut rest = self.bytes.as_slice();
        let place = place(ends, time);
        loop {
            match split_message(rest) {
                Ok(Some((frame, after))) => {
                    report.message(frame.bytes(), Some(&place))?;
                    rest = after;
                }
                Ok(None) => break,
                Err(_) => {
                    // Nobody can tell where the next message begins.
                    report.message(rest.get(..HEADER_LEN).unwrap_or(rest), Some(&place))?;
                    (rest, self.kind) = (&[], StreamContent::Other);
                    break;
                }
            }
        }
        self.bytes = rest.to_vec();
        Ok(())
    }
}

/// Whether `bytes` begin as a message does; `None` while they are too few to tell.
fn begins_a_message(bytes: &[u8]) -> Option<bool> {
    let &[version, kind, high, low, ..] = bytes.first_chunk::<HEADER_LEN>()?;
    let spoken = (Version::V1_0.0..=Version::V1_5.0).contains(&version);
    let hello = u16::from(kind) == MessageType::HELLO.0 && version != 0;
    let known = u16::from(kind) <= MessageType::CONTROLLER_STATUS.0;
    let long_enough = usize::from(u16::from_be_bytes([high, low])) >= HEADER_LEN;
    Some((spoken || hello) && known && long_enough)
}
