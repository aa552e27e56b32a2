//! Logs ERROR messages of switches, with the request that was rejected.

use std::fmt::Write as _;

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, Message, RawMessage};

/// Characters of the rejected request in a log line. A flow-mod takes a few hundred.
const CHARS_MAX: usize = 300;

/// Logs an ERROR message of the switch `id`.
pub(crate) fn log(id: DatapathId, error: &ErrorMsg<'_>) {
    let request = error.request().map_or_else(|| "unknown".to_owned(), |kind| kind.to_string());
    let (rejected, error, xid) = (request_text(error.data), error.reason, error.xid);
    tracing::warn!(dpid = %id, %error, xid, request, "message rejected: {rejected}");
}

/// The request that an `ERROR` contains, in one line: as text like that of `sluice decode`, or as hex digits if it is
/// truncated.
fn request_text(request: &[u8]) -> String {
    let message =
        RawMessage::new(request).ok().and_then(|msg| Some((msg, Message::parse_raw(msg).ok()?)));
    let mut line = String::new();
    if let Some((msg, message)) = message {
        let text = message.to_text(msg.version(), msg.xid());
        line.extend(text.lines().flat_map(|part| [" ", part.trim()]).skip(1));
    } else {
        for byte in request.iter().take(CHARS_MAX / 2 + 1) {
            // Writing to a string does not fail.
            let _ = write!(line, "{byte:02x}");
        }
    }
    if let Some((end, _)) = line.char_indices().nth(CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Action, Encoder, Field, FlowMod, Instruction, MacAddr, PortNo, Version};

    use super::*;

    fn encoded(message: &Message) -> Vec<u8> {
        let (mut tx, mut xid) = (Vec::new(), 7);
        message.encode(7, &mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap();
        tx
    }

    fn flow_mod(outputs: u32) -> Message {
        let outputs: Vec<_> = (1..=outputs).map(|n| Action::output(PortNo(n))).collect();
        Message::FlowMod(FlowMod {
            priority: 101,
            matching: [Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9])), Field::untagged()].into(),
            instructions: vec![Instruction::apply(outputs)],
            ..FlowMod::default()
        })
    }

    #[test]
    fn a_rejected_request_is_logged_in_one_line() {
        let text = "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD \
                    priority=101,vlan_tci=0x0000/0x1fff,dl_dst=02:00:00:00:00:09,actions=output:1";
        assert_eq!(request_text(&encoded(&flow_mod(1))), text);
        // A table features request: `sluice decode` prints its table in a line of its own.
        let head = [4, 18, 0, 80, 0, 0, 0, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 64, 5];
        let text = request_text(&[&head[..], &[0; 61]].concat());
        assert!(text.starts_with("OFPST_TABLE_FEATURES request (OF1.3) (xid=0x2): "), "{text}");
        assert!(text.contains(" tables: ") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_truncated_request_is_logged_as_hex_digits_and_an_empty_one_as_nothing() {
        assert_eq!(request_text(&[4, 14, 0, 80, 0, 0, 0, 0xff]), "040e0050000000ff");
        assert_eq!(request_text(&[]), "");
    }

    #[test]
    fn a_long_request_is_truncated_at_a_character() {
        for text in [request_text(&encoded(&flow_mod(200))), request_text(&[0xab; 4000])] {
            assert_eq!((text.chars().count(), text.chars().last()), (CHARS_MAX + 1, Some('…')));
        }
    }
}
