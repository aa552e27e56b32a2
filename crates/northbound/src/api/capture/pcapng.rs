//! A capture as pcapng (draft-ietf-opsawg-pcapng): one interface for each port of a switch, and a comment for each packet.
//!
//! Four kinds of blocks are written, which is less than a dependency that also reads costs.

use std::collections::BTreeMap;

use sluice_sdk::view::SwitchPort;

use super::body::{CaptureSummary, DescribedPacket, PacketWriter};
use super::json::cookie;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Ethernet.
const LINK_TYPE: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_DESCRIPTION: u16 = 3;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_INTERFACE_RECEIVED: u16 = 4;
const OPTION_DROPPED: u16 = 7;

/// Nanoseconds.
const TIME_RESOLUTION: u8 = 9;

/// Length of an option, at most: names and comments are shorter.
const OPTION_LEN_MAX: usize = 1024;

/// Writes a section.
#[derive(Default)]
pub(super) struct PcapngWriter {
    interfaces: BTreeMap<SwitchPort, u32>,
    last_at: u64,
}

impl PacketWriter for PcapngWriter {
    fn start(&mut self, out: &mut Vec<u8>) {
        block(out, SECTION_HEADER, |out| {
            out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            out.extend([1, 0, 0, 0]);
            // Until the end of the file.
            out.extend(u64::MAX.to_le_bytes());
            let application = concat!("Sluice ", env!("CARGO_PKG_VERSION"));
            option(out, OPTION_USER_APPLICATION, application.as_bytes());
            option(out, OPTION_END, &[]);
        });
    }

    fn packet(&mut self, described: &DescribedPacket, out: &mut Vec<u8>) {
        let packet = &described.packet;
        let interface = self.interface(described, out);
        let at = u64::try_from(described.at.as_nanos()).unwrap_or(u64::MAX);
        self.last_at = at;
        block(out, ENHANCED_PACKET, |out| {
            out.extend(interface.to_le_bytes());
            timestamp(out, at);
            let len = u32::try_from(packet.frame.len()).unwrap_or(u32::MAX);
            out.extend(len.to_le_bytes());
            out.extend(len.max(packet.total_len.into()).to_le_bytes());
            out.extend(&packet.frame);
            pad(out, packet.frame.len());
            let reason =
                packet.reason.name().map_or_else(|| packet.reason.0.to_string(), str::to_owned);
            let of_entry =
                cookie(packet.cookie).map_or_else(String::new, |it| format!(" cookie={it}"));
            let comment = format!("packet-in reason={reason} table={}{of_entry}", packet.table_id);
            option(out, OPTION_COMMENT, comment.as_bytes());
            option(out, OPTION_END, &[]);
        });
    }

    fn end(&mut self, summary: CaptureSummary, out: &mut Vec<u8>) {
        if self.interfaces.is_empty() {
            return;
        }
        block(out, INTERFACE_STATISTICS, |out| {
            out.extend(0_u32.to_le_bytes());
            timestamp(out, self.last_at);
            let CaptureSummary { packets, dropped, end } = summary;
            let comment = format!(
                "of all interfaces; the capture has ended: {} (packets={packets} dropped={dropped})",
                end.name()
            );
            option(out, OPTION_COMMENT, comment.as_bytes());
            option(out, OPTION_INTERFACE_RECEIVED, &(packets + dropped).to_le_bytes());
            option(out, OPTION_DROPPED, &dropped.to_le_bytes());
            option(out, OPTION_END, &[]);
        });
    }
}

impl PcapngWriter {
    /// The number of the interface of a port, which is described first.
    fn interface(&mut self, described: &DescribedPacket, out: &mut Vec<u8>) -> u32 {
        let at = described.packet.from;
        let next = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        let number = *self.interfaces.entry(at).or_insert(next);
        if number == next {
            let switch = described.switch_name.clone().unwrap_or_else(|| at.switch.to_string());
            let port = described.port_name.clone().unwrap_or_else(|| at.port.to_string());
            block(out, INTERFACE_DESCRIPTION, |out| {
                out.extend(LINK_TYPE.to_le_bytes());
                out.extend([0, 0]);
                // No limit of the length of packets.
                out.extend(0_u32.to_le_bytes());
                option(out, OPTION_INTERFACE_NAME, format!("{switch}:{port}").as_bytes());
                let description = format!("datapath id {} port {}", at.switch, at.port);
                option(out, OPTION_INTERFACE_DESCRIPTION, description.as_bytes());
                option(out, OPTION_TIME_RESOLUTION, &[TIME_RESOLUTION]);
                option(out, OPTION_END, &[]);
            });
        }
        number
    }
}

/// Writes a block: its type, its length before and after its body, which is padded.
fn block(out: &mut Vec<u8>, kind: u32, write_body: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write_body(&mut body);
    let len = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(len);
    out.append(&mut body);
    out.extend(len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..OPTION_LEN_MAX).unwrap_or(value);
    out.extend(code.to_le_bytes());
    out.extend(u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
    out.extend(value);
    pad(out, value.len());
}

/// Pads to four bytes what is `len` bytes long.
fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend(std::iter::repeat_n(0, len.next_multiple_of(4) - len));
}

/// The high and the low half of a time.
fn timestamp(out: &mut Vec<u8>, at: u64) {
    let [high, low] = [at >> 32, at & 0xffff_ffff].map(|half| u32::try_from(half).unwrap_or(0));
    out.extend(high.to_le_bytes());
    out.extend(low.to_le_bytes());
}
