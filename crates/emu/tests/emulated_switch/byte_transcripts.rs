//! Transcripts in bytes.
//!
//! `>` is a message to the switch, `<` one from it; `2>` is a frame that it receives at port 2, `<3` a frame that it
//! sends to port 3.

use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{DatapathId, PortNo, Version, Versions, split_message};

use crate::support::any_time;

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The messages and frames that a switch sends, one per line.
fn output_lines(out: &SwitchOutput) -> Vec<String> {
    let (mut rest, mut lines) = (&*out.control, vec![]);
    while let Some((msg, after)) = split_message(rest).unwrap() {
        lines.push(format!("<{}", hex(msg.bytes())));
        rest = after;
    }
    lines.extend(out.frames.iter().map(|(port, frame)| format!("<{port}:{}", hex(frame))));
    lines
}

/// Runs a transcript against a switch that supports `versions`.
fn run_transcript(versions: Versions, transcript: &str) {
    let config = EmulatedSwitchConfig {
        versions,
        n_buffers: 1,
        n_tables: 2,
        ..EmulatedSwitchConfig::numbered(DatapathId(7), 2)
    };
    let (mut switch, now, mut out) =
        (EmulatedSwitch::new(config), any_time(), SwitchOutput::default());
    switch.on_connected(now, &mut out);
    let mut output = output_lines(&out);
    for line in transcript.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (direction, text) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(port) = direction.strip_suffix('>') {
            assert!(output.is_empty(), "unexpected before `{line}`: {output:?}");
            out.clear();
            match port.parse() {
                Ok(port) => switch.on_frame(now, PortNo(port), &bytes(text), &mut out),
                Err(_) => switch.on_control_bytes(now, &bytes(text), &mut out).unwrap(),
            }
            output = output_lines(&out);
            continue;
        }
        let port = direction.strip_prefix('<').unwrap();
        let sep = if port.is_empty() { "" } else { ":" };
        let expected = format!("<{port}{sep}{}", hex(&bytes(text)));
        assert!(!output.is_empty(), "no output for `{line}`");
        let line = output.remove(0);
        assert_eq!(line, expected);
    }
    assert!(output.is_empty(), "{output:?}");
}

#[test]
fn a_table_miss_its_flow_entry_and_its_packet_in_1_0() {
    run_transcript(
        Versions::of(&[Version::V1_0]),
        "
        <  01 00 0008 00000001
        >  01 00 0008 00000001
        >  01 05 0008 00000002
        <  01 06 0080 00000002 0000000000000007 00000001 02 000000 00000087 00000fff \
           0001 060000070001 706f72743100000000000000000000 00 00000000 00000000 000000c0 00000000 000000c0 00000000 \
           0002 060000070002 706f72743200000000000000000000 00 00000000 00000000 000000c0 00000000 000000c0 00000000
        >  01 09 000c 00000003 0000 0010
        1> 020000000002 020000000001 88b5 00000000000000000000
        <  01 0a 0022 00000002 00000000 0018 0001 00 00 020000000002 020000000001 88b5 0000
        2> 020000000001 020000000002 88b5 11111111111111111111
        <  01 0a 002a 00000003 ffffffff 0018 0002 00 00 020000000001 020000000002 88b5 11111111111111111111
        >  01 0e 0050 00000004 003fffef 0000 000000000000 000000000000 0000 00 00 88b5 00 00 0000 00000000 00000000 \
           0000 0000 0000000000000001 0000 0000 0000 0001 00000000 ffff 0000 0000 0008 0002 0000
        <2 020000000002 020000000001 88b5 00000000000000000000
        >  01 0d 0018 00000005 00000000 0001 0008 0000 0008 0002 0000
        <  01 01 0024 00000005 0001 0007 010d0018 00000005 00000000 0001 0008 0000 0008 0002 0000
        >  01 12 0008 00000006
        <  01 13 0008 00000006
        ",
    );
}

#[test]
fn a_table_miss_in_1_3_with_a_message_received_in_parts() {
    run_transcript(
        Versions::SUPPORTED,
        "
        <  06 00 0010 00000001 0001 0008 0000007e
        >  04 00 0010 00000001 0001 0008 00000010
        >  04 05 0008 00000002
        <  04 06 0020 00000002 0000000000000007 00000001 02 00 0000 0000000f 00000000
        >  04 0e 0050 00000003 0000000000000000 0000000000000000 00 00 0000 0000 0000 ffffffff ffffffff ffffffff 0000 0000 \
           0001 0004 00000000 0004 0018 00000000 0000 0010 fffffffd 0010 000000000000
        1> 020000000002 020000000001 88b5 00000000000000000000
        <  04 0a 003a 00000002 00000000 0018 00 00 0000000000000000 0001 000c 80000004 00000001 00000000 0000 \
           020000000002 020000000001 88b5 0000
        >  04 0d 0028 00000004 00000000 00000001 0010
        >  000000000000 0000 0010 00000002 0000
        >  000000000000
        <2 020000000002 020000000001 88b5 00000000000000000000
        >  05 14 0008 00000005
        <  04 01 0014 00000005 0001 0000 05140008 00000005
        >  04 02 000a 00000006 abcd
        <  04 03 000a 00000006 abcd
        ",
    );
}

#[test]
fn a_table_miss_and_a_packet_out_in_1_5() {
    run_transcript(
        Versions::of(&[Version::V1_4, Version::V1_5]),
        "
        <  06 00 0010 00000001 0001 0008 00000060
        >  06 00 0010 00000001 0001 0008 00000040
        >  06 05 0008 00000002
        <  06 06 0020 00000002 0000000000000007 00000001 02 00 0000 0000000f 00000000
        >  06 0e 0050 00000003 0000000000000000 0000000000000000 00 00 0000 0000 0000 ffffffff ffffffff ffffffff 0000 0000 \
           0001 0004 00000000 0004 0018 00000000 0000 0010 fffffffd 0010 000000000000
        1> 020000000002 020000000001 88b5 00000000000000000000
        <  06 0a 003a 00000002 00000000 0018 00 00 0000000000000000 0001 000c 80000004 00000001 00000000 0000 \
           020000000002 020000000001 88b5 0000
        >  06 0d 0030 00000004 00000000 0010 0000 0001 000c 80000004 00000001 00000000 0000 0010 00000002 0000 000000000000
        <2 020000000002 020000000001 88b5 00000000000000000000
        >  06 18 0018 00000005 00000001 0000 0000 0000000000000000
        <  06 19 0018 00000005 00000001 0000 0000 ffffffffffffffff
        ",
    );
}

#[test]
fn without_a_common_version_an_error_is_sent() {
    let config = EmulatedSwitchConfig {
        versions: Versions::of(&[Version::V1_3]),
        ..EmulatedSwitchConfig::default()
    };
    let (mut switch, now, mut out) =
        (EmulatedSwitch::new(config), any_time(), SwitchOutput::default());
    switch.on_connected(now, &mut out);
    out.clear();
    let error = switch.on_control_bytes(now, &bytes("01 00 0008 00000001"), &mut out).unwrap_err();
    assert_eq!(error.label(), "no_common_version");
    let expected = format!("<0101001d00000001{}{}", "00000000", hex(b"no common version"));
    assert_eq!(output_lines(&out), [expected]);
}
