//! Capture files, pcap and pcapng: blocks to packets.

mod link;

use std::io::{self, Read, Write};
use std::time::Duration;

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

pub(crate) use link::{PacketContent, TcpSegment};

use crate::connections::Connections;
use crate::report::Reporter;
use link::LinkType;

/// Maximum size of a block of a pcapng file, in bytes. The longest packet has 256 KiB.
const BLOCK_MAX: usize = 1 << 20;

/// Length of the file header of pcap, in bytes.
const PCAP_HEADER_LEN: u64 = 24;

/// Length of the start of a section header block of pcapng, in bytes: type, length of the block, byte order.
const SECTION_START_LEN: u64 = 12;

/// Minimum length of a section header block of pcapng, in bytes.
const SECTION_LEN_MIN: u64 = 28;

/// Timestamp units per second of a pcapng interface that does not state them.
const MICROSECONDS: u64 = 1_000_000;

/// Interfaces per section of a pcapng file. A machine with a virtual interface per container has some hundreds.
const INTERFACES_MAX: usize = 65_536;

/// A network interface in a capture.
#[derive(Debug, Clone, Copy)]
struct CaptureInterface {
    link: Linktype,
    /// Timestamp units per second, at least 1.
    resolution: u64,
    /// Seconds to add to timestamps.
    offset_s: u64,
}

impl CaptureInterface {
    /// The time of a packet since 1970, from its timestamp.
    fn time(&self, units: u64) -> Duration {
        let fraction = u128::from(units % self.resolution) * 1_000_000_000;
        let nanos = u32::try_from(fraction / u128::from(self.resolution)).unwrap_or_default();
        let seconds = (units / self.resolution).saturating_add(self.offset_s);
        Duration::new(seconds, nanos)
    }
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy)]
struct CapturedPacket<'a> {
    link: Linktype,
    time: Duration,
    bytes: &'a [u8],
}

/// Decodes a capture (pcap or pcapng) and reports its messages.
pub(crate) fn decode<W: Write>(
    mut input: impl Read + Send,
    report: &mut Reporter<W>,
) -> io::Result<()> {
    let header = io::Cursor::new(read_file_header(&mut input)?);
    let mut reader = create_reader(BLOCK_MAX, header.chain(input)).map_err(|e| corrupt(&e))?;
    let mut packets = Packets::default();
    loop {
        let is_exhausted = reader.reader_exhausted();
        match reader.next() {
            Ok((len, block)) => {
                packets.receive_block(block, report)?;
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
                packets.finish(report)?;
                return Err(error);
            }
        }
    }
    packets.finish(report)
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

/// The error that no packet of a capture can be decoded, since all have the link type `link`.
fn unsupported(link: Linktype) -> io::Error {
    let error = format!(
        "link type {} of the capture is not supported (supported: {})",
        link.0,
        LinkType::SUPPORTED
    );
    io::Error::new(io::ErrorKind::Unsupported, error)
}

/// The packets of a capture.
#[derive(Debug, Default)]
struct Packets {
    /// pcap has one, pcapng any number per section.
    interfaces: Vec<CaptureInterface>,
    connections: Connections,
    has_supported: bool,
    /// The first unsupported link type, and the number of packets with such a link type.
    unsupported: Option<(Linktype, u64)>,
}

impl Packets {
    fn receive_block<W: Write>(
        &mut self,
        block: PcapBlockOwned<'_>,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        if let PcapBlockOwned::LegacyHeader(header) = &block
            && LinkType::from_number(header.network).is_none()
        {
            return Err(unsupported(header.network));
        }
        let Some(packet) = self.packet(block) else {
            if self.interfaces.len() <= INTERFACES_MAX {
                return Ok(());
            }
            let error = format!("corrupt capture: more than {INTERFACES_MAX} interfaces");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        };
        let Some(link) = LinkType::from_number(packet.link) else {
            self.unsupported.get_or_insert((packet.link, 0)).1 += 1;
            return Ok(());
        };
        self.has_supported = true;
        self.connections.receive(link.content(packet.bytes), packet.time, report)
    }

    /// The packet of a block; `None` for other blocks, of which those that describe an interface are noted.
    fn packet<'a>(&mut self, block: PcapBlockOwned<'a>) -> Option<CapturedPacket<'a>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let is_nanoseconds = header.is_nanosecond_precision();
                let resolution = if is_nanoseconds { 1_000_000_000 } else { MICROSECONDS };
                self.interfaces =
                    vec![CaptureInterface { link: header.network, resolution, offset_s: 0 }];
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = self.interfaces.first()?;
                let whole = u64::from(packet.ts_sec) * interface.resolution;
                let time = interface.time(whole + u64::from(packet.ts_usec));
                Some(CapturedPacket { link: interface.link, time, bytes: packet.data })
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                let resolution = description.ts_resolution().filter(|&units| units > 0);
                self.interfaces.push(CaptureInterface {
                    link: description.linktype,
                    resolution: resolution.unwrap_or(MICROSECONDS),
                    offset_s: u64::try_from(description.ts_offset()).unwrap_or(0),
                });
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(usize::try_from(packet.if_id).ok()?)?;
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let bytes = packet.data.get(..usize::try_from(packet.caplen).ok()?)?;
                Some(CapturedPacket { link: interface.link, time: interface.time(units), bytes })
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let len = usize::try_from(packet.origlen).ok()?.min(packet.data.len());
                let (interface, bytes) = (self.interfaces.first()?, packet.data.get(..len)?);
                Some(CapturedPacket { link: interface.link, time: Duration::ZERO, bytes })
            }
            PcapBlockOwned::NG(_) => None,
        }
    }

    /// Reports what is left at the end of the capture.
    fn finish<W: Write>(self, report: &mut Reporter<W>) -> io::Result<()> {
        self.connections.finish(report)?;
        match self.unsupported {
            Some((link, _)) if !self.has_supported => Err(unsupported(link)),
            Some((link, packets)) => {
                let count = if packets == 1 {
                    "1 packet was".to_owned()
                } else {
                    format!("{packets} packets were")
                };
                let error = format!("{count} not decoded: {}", unsupported(link));
                report.report_error(&error, None)
            }
            None => Ok(()),
        }
    }
}
