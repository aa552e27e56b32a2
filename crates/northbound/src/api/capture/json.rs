//! A capture as JSON: one object in each line, and one with the numbers at the end.

use serde::Serialize;

use super::body::{CaptureSummary, DescribedPacket, PacketWriter};

pub(super) struct JsonWriter;

/// A packet-in.
#[derive(Serialize)]
struct PacketDocument<'a> {
    at_unix_s: f64,
    dpid: String,
    switch: Option<&'a str>,
    port: u32,
    port_name: Option<&'a str>,
    reason: u16,
    reason_name: Option<&'static str>,
    table: u8,
    /// `null` before 1.3.
    cookie: Option<String>,
    /// Of the frame that the switch received; `data` may be its beginning.
    total_length: u16,
    /// Hexadecimal digits.
    data: String,
}

#[derive(Serialize)]
struct EndDocument {
    end: SummaryDocument,
}

#[derive(Serialize)]
struct SummaryDocument {
    reason: &'static str,
    packets: u64,
    dropped: u64,
}

impl PacketWriter for JsonWriter {
    fn start(&mut self, _: &mut Vec<u8>) {}

    fn packet(&mut self, described: &DescribedPacket, out: &mut Vec<u8>) {
        let packet = &described.packet;
        let document = PacketDocument {
            at_unix_s: described.at.as_secs_f64(),
            dpid: packet.from.switch.to_string(),
            switch: described.switch_name.as_deref(),
            port: packet.from.port.0,
            port_name: described.port_name.as_deref(),
            reason: packet.reason.0,
            reason_name: packet.reason.name(),
            table: packet.table_id,
            cookie: cookie(packet.cookie),
            total_length: packet.total_len,
            data: hexadecimal(&packet.frame),
        };
        write_line(&document, out);
    }

    fn end(&mut self, summary: CaptureSummary, out: &mut Vec<u8>) {
        let CaptureSummary { packets, dropped, end } = summary;
        write_line(
            &EndDocument { end: SummaryDocument { reason: end.name(), packets, dropped } },
            out,
        );
    }
}

/// The cookie of the flow entry that sent a packet; `None` before 1.3.
pub(super) fn cookie(cookie: u64) -> Option<String> {
    (cookie != u64::MAX).then(|| format!("{cookie:#x}"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn write_line(document: &impl Serialize, out: &mut Vec<u8>) {
    if serde_json::to_writer(&mut *out, document).is_ok() {
        out.push(b'\n');
    }
}
