//! What has been decoded, and what could not be.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// What has been decoded, and what could not be. Its JSON form is documented in `docs/decode.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MessageCounts {
    /// Well-formed messages.
    pub well_formed: u64,
    /// Malformed messages, and input that is not a message at all.
    pub malformed: u64,
    /// TCP streams of a capture (one per direction) that are not OpenFlow.
    pub other_streams: u64,
    /// Places in OpenFlow streams at which the capture lacks bytes.
    pub gaps: u64,
    /// Bytes that the capture lacks there.
    pub missing_bytes: u64,
    /// Fragments of IP packets with TCP segments, which are not reassembled: the segments are missing.
    pub fragments: u64,
    /// Places at which messages were found again after a gap or an invalid length.
    pub resynchronised: u64,
    /// Bytes before these places that were not decoded.
    pub skipped_bytes: u64,
    /// Streams that end within a message.
    pub incomplete_streams: u64,
    /// Connections that were evicted because the capture has too many.
    pub evicted_connections: u64,
    /// Messages that a filter by datapath id left out, since the datapath id of their connection is unknown.
    pub messages_without_dpid: u64,
    /// Counts of the kernel in a live capture.
    #[serde(flatten)]
    pub kernel: Option<KernelCounts>,
}

/// Packets of a live capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounts {
    /// Packets that the kernel has captured.
    pub captured_packets: u64,
    /// Packets that the kernel has dropped, since they were not read in time.
    pub dropped_packets: u64,
}

/// `n` with the noun that it needs.
fn number(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// One line; the first two numbers are always there, the others if they are not zero.
impl fmt::Display for MessageCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = number(self.well_formed, "well-formed message", "well-formed messages");
        write!(f, "{messages}, {} malformed", self.malformed)?;
        let mut part = |n: u64, text: String| if n == 0 { Ok(()) } else { f.write_str(&text) };
        let n = self.other_streams;
        part(n, format!("; {} not OpenFlow", number(n, "TCP stream is", "TCP streams are")))?;
        let n = self.gaps;
        let (gaps, bytes) = (number(n, "gap", "gaps"), self.missing_bytes);
        part(n, format!("; {gaps} in the capture ({})", number(bytes, "byte", "bytes")))?;
        let n = self.fragments;
        part(n, format!("; {} not reassembled", number(n, "IP fragment", "IP fragments")))?;
        let n = self.skipped_bytes;
        part(n, format!("; {} skipped to find the next message", number(n, "byte", "bytes")))?;
        let n = self.incomplete_streams;
        part(n, format!("; {} within a message", number(n, "stream ends", "streams end")))?;
        let n = self.evicted_connections;
        part(n, format!("; {} evicted", number(n, "connection", "connections")))?;
        let n = self.messages_without_dpid;
        part(n, format!("; {} with unknown datapath id", number(n, "message", "messages")))?;
        if let Some(KernelCounts { captured_packets, dropped_packets }) = self.kernel {
            let captured = number(captured_packets, "packet", "packets");
            write!(f, "; {captured} captured, {dropped_packets} dropped by the kernel")?;
        }
        f.write_char('\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_zero_are_left_out_of_the_text() {
        let counts = MessageCounts { well_formed: 1, ..MessageCounts::default() };
        assert_eq!(counts.to_string(), "1 well-formed message, 0 malformed\n");
        let kernel = Some(KernelCounts { captured_packets: 9, dropped_packets: 0 });
        let counts =
            MessageCounts { gaps: 2, missing_bytes: 40, other_streams: 1, kernel, ..counts };
        let text = "1 well-formed message, 0 malformed; 1 TCP stream is not OpenFlow; 2 gaps in the capture \
                    (40 bytes); 9 packets captured, 0 dropped by the kernel\n";
        assert_eq!(counts.to_string(), text);
    }
}
