//! What a switch refused, as a line of the log.

use std::fmt::Write as _;

use sluice_openflow::view::ErrorMsg;
use sluice_openflow::{DatapathId, Message, RawMessage};

/// Characters of a request that the log has, so that a line of it stays one: a rule has some hundred.
const CHARS_MAX: usize = 300;

/// Logs what a switch refused, and why.
pub(crate) fn log(id: DatapathId, error: &ErrorMsg<'_>) {
    let request = error.request().map_or_else(|| "unknown".to_owned(), |kind| kind.to_string());
    let (refused, error, xid) = (line(error.data), error.reason, error.xid);
    tracing::warn!(dpid = %id, %error, xid, request, "message rejected: {refused}");
}

/// The request that an `ERROR` quotes: as `sluice decode` tells it, but in one line; in hex digits, which that reads, if it
/// is cut off.
fn line(quoted: &[u8]) -> String {
    let message =
        RawMessage::new(quoted).ok().and_then(|msg| Some((msg, Message::parse_raw(msg).ok()?)));
    let mut line = String::new();
    if let Some((msg, message)) = message {
        let text = message.to_text(msg.version(), msg.xid());
        line.extend(text.lines().flat_map(|part| [" ", part.trim()]).skip(1));
    } else {
        for byte in quoted.iter().take(CHARS_MAX / 2 + 1) {
            // A string takes all that is written to it.
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

    fn quoted(message: &Message) -> Vec<u8> {
        let (mut tx, mut xid) = (Vec::new(), 7);
        message.encode(7, &mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap();
        tx
    }

    fn rule(outputs: u32) -> Message {
        let outputs: Vec<_> = (1..=outputs).map(|n| Action::output(PortNo(n))).collect();
        Message::FlowMod(FlowMod {
            priority: 101,
            matching: [Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9])), Field::untagged()].into(),
            instructions: vec![Instruction::apply(outputs)],
            ..FlowMod::default()
        })
    }

    #[test]
    fn a_rule_that_was_refused_is_told_in_one_line() {
        let text = "OFPT_FLOW_MOD (OF1.3) (xid=0x7): ADD \
                    priority=101,vlan_tci=0x0000/0x1fff,dl_dst=02:00:00:00:00:09,actions=output:1";
        assert_eq!(line(&quoted(&rule(1))), text);
        // A request for the features of all tables that names one, which has a line of its own elsewhere.
        let head = [4, 18, 0, 80, 0, 0, 0, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 64, 5];
        let told = line(&[&head[..], &[0; 61]].concat());
        assert!(told.starts_with("OFPST_TABLE_FEATURES request (OF1.3) (xid=0x2): "), "{told}");
        assert!(told.contains(" tables: ") && !told.contains('\n'), "{told}");
    }

    #[test]
    fn what_was_cut_off_is_told_in_hex_digits_and_nothing_is_nothing() {
        assert_eq!(line(&[4, 14, 0, 80, 0, 0, 0, 0xff]), "040e0050000000ff");
        assert_eq!(line(&[]), "");
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        for told in [line(&quoted(&rule(200))), line(&[0xab; 4000])] {
            assert_eq!((told.chars().count(), told.chars().last()), (CHARS_MAX + 1, Some('…')));
        }
    }
}
