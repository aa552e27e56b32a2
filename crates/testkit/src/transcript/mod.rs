//! Transcripts: tests of an application as a list of messages.
//!
//! A transcript is a text with one line per event, between an application (the controller's side) and switches named
//! `s1`, `s2`, … in order of first use, with datapath ids 1, 2, …, four ports each. [`transcript`] runs it once for every
//! version of OpenFlow; all messages are encoded to bytes and parsed again. After each input, the application must send
//! exactly the messages that the following `>` lines describe, in that order.
//!
//! ```text
//! s1 < packet_in port=1 b>a                 s1 sends a PACKET_IN: a frame from host b to host a arrived at port 1
//! s1 > packet_out flood                     the application must send this PACKET_OUT to s1
//! [1.3..] s1 > flow_mod priority=0          only in OpenFlow 1.3 and later; also [1.3..1.4], [1.3]
//! wait 301s                                 time passes, with one tick per second
//! # a comment; also at the end of a line
//! ```
//!
//! # Inputs
//!
//! Connections:
//!
//! | line | event |
//! | --- | --- |
//! | `s1 connects` | the handshake of `s1` completes |
//! | `s1 disconnects` | the control connection of `s1` is closed |
//! | `s1 loses changes` | changes of its tables were not delivered, and there is room again |
//!
//! A switch that other lines use without `connects` is connected first, and the messages that the application sends to it
//! on connection are ignored.
//!
//! Messages from a switch:
//!
//! | line | message |
//! | --- | --- |
//! | `s1 < packet_in port=N SRC>DST …` | `PACKET_IN` with an IPv4 frame |
//! | `s1 < port_status port=N up` (`down`, `deleted`) | `PORT_STATUS` |
//! | `s1 < flow_removed cookie=N` | `FLOW_REMOVED`: the flow entry with this cookie has expired |
//! | `s1 < error table_full` | `ERROR` for the last `FLOW_MOD` to this switch: its table is full |
//! | `s1 < error bad_field` | `ERROR` for the last `FLOW_MOD` to this switch: it cannot match these fields |
//! | `s1 < error bad_type` | `ERROR` for the last message: the switch does not support this type of message |
//! | `s1 < aggregate_stats flows=N` | reply to the last `MULTIPART_REQUEST`: the number of flow entries |
//! | `s1 < flow_stats cookie=N DST:PORT …` | reply to the last `MULTIPART_REQUEST`: flow entries (priority 100) that send frames for `DST` out of `PORT`; `N:SRC>DST:PORT` also matches ingress port and source |
//! | `s1 < meter_features max=N` | reply to a request for the meter features: up to N meters |
//!
//! Hosts are single letters (`b` is `02:00:00:00:00:62`), `*` is the broadcast address; any Ethernet address can be written out.
//! A `packet_in` may have
//!
//! - `buffer=N`: the switch keeps the packet in buffer N;
//! - `vlan=N`: an 802.1Q tag with this VLAN id; `priority_tagged`: with VLAN id 0;
//! - `lldp`: an LLDP frame instead of an IPv4 frame; `ethertype=88b8`: a frame of this Ethernet type;
//! - `truncated`: only the start of the frame is in the message;
//! - `max_length`: the longest frame that a message can carry; `length=N`: a frame of only N bytes.
//!
//! Changes of the network, published as the applications `topology` and `hosts` would:
//!
//! | line | change |
//! | --- | --- |
//! | `link s1:1 s2:2 up` (`down`) | a link, in both directions, between port 1 of `s1` and port 2 of `s2` |
//! | `ports s1:3 s2:3 edge` (`pending`, `shared_segment`, `bundle`, `down`) | the role of ports; the first port of a shared segment is its designated port, that of a bundle the one that is used |
//! | `host a at s1:3` (`host a removed`) | location of a host; `a/5` is host a in VLAN 5 |
//! | `switch s1 removed` | the switch and its links leave the network view |
//!
//! # Expected messages
//!
//! After `>` come the name of the message and words in any order. Of these, a line must have **all** that apply:
//!
//! - the actions: `output=N` (`output=controller`, `output=table`), `flood`, `drop`, `meter=N`, `set_FIELD=N`, joined by `+` if
//!   there are several;
//! - the command of a `flow_mod` unless it is ADD: `delete`, `delete_strict`;
//! - `buffer=N`, if the message releases a buffer;
//! - `table=N` unless 0, and `out_port=N` unless ANY.
//!
//! The others are optional: `in_port=N` for both messages, and for a `flow_mod` `match=FIELD+FIELD+…` (the names of
//! all fields that are matched; `match=` matches every packet), `FIELD=N`, `untagged`, `idle_timeout=N`, `hard_timeout=N`,
//! `priority=N`, `cookie=N`. Fields have the names of the specification's OXM fields in lower case: `in_port`, `eth_src`,
//! `eth_dst`, `vlan_vid`, `eth_type`, …
//!
//! The frame in a `packet_out` must be the frame of the last `packet_in`.

mod describe;
mod network_event;
mod parse;
mod runner;

use sluice_openflow::{Version, Versions};
use sluice_sdk::App;

use parse::{TranscriptLine, TranscriptStep};
use runner::TranscriptRunner;

/// Runs a transcript against the application that `make` creates, once for each version of OpenFlow.
///
/// The [module](mod@crate::transcript) describes the lines of a transcript.
///
/// # Panics
/// If a line cannot be parsed or the application sends anything else; the message shows the transcript with the failed line marked.
#[track_caller]
pub fn transcript<A: App>(make: impl Fn() -> A, script: &str) {
    for version in Versions::SUPPORTED.iter() {
        if let Err(failure) = run(make(), version, script) {
            panic!("{failure}");
        }
    }
}

fn run<A: App>(app: A, version: Version, script: &str) -> Result<(), String> {
    let mut runner = TranscriptRunner::new(app, version);
    for (number, text) in script.lines().enumerate() {
        let marked = |why: String| mark(script, version, number, &why);
        let Some(TranscriptLine { versions, step }) =
            TranscriptLine::parse(text).map_err(marked)?
        else {
            continue;
        };
        if !versions.contains(&version) {
            continue;
        }
        match step {
            TranscriptStep::Wait(time) => {
                runner.expect_silence().map_err(marked)?;
                runner.wait(time).map_err(marked)?;
            }
            TranscriptStep::SwitchInput(switch, event) => {
                runner.expect_silence().map_err(marked)?;
                runner.handle_switch_event(&switch, &event).map_err(marked)?;
            }
            TranscriptStep::NetworkEvent(event) => {
                runner.expect_silence().map_err(marked)?;
                runner.publish(&event).map_err(marked)?;
            }
            TranscriptStep::Expect(switch, words) => {
                runner.expect(&switch, &words).map_err(marked)?;
            }
        }
    }
    let end = script.lines().count();
    runner.expect_silence().map_err(|why| mark(script, version, end, &why))
}

/// The transcript with the message `why` inserted before line `at`.
fn mark(script: &str, version: Version, at: usize, why: &str) -> String {
    let mut marked =
        vec![format!("OpenFlow {version}: the application does not follow the transcript:")];
    for (number, line) in script.lines().chain([""]).enumerate() {
        if number == at {
            marked.push(format!(">>>> {why}"));
        }
        marked.push(format!("     {}", line.trim()));
    }
    marked.join("\n")
}

#[cfg(test)]
mod tests {
    use sluice_openflow::view::PacketIn;
    use sluice_openflow::{Action, PacketOutRef, PortNo};
    use sluice_sdk::{Ctx, Verdict};

    use super::*;

    /// Floods every packet.
    struct Repeater;

    impl App for Repeater {
        fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
            let actions = [Action::output(PortNo::FLOOD)];
            ctx.switch
                .packet_out(&PacketOutRef { actions: &actions, ..PacketOutRef::answer(p) })
                .unwrap();
            Verdict::Stop
        }
    }

    #[test]
    fn a_transcript_that_the_application_follows_passes() {
        transcript(
            || Repeater,
            "
            s1 < packet_in  port=1 b>a vlan=5   # a comment
            s1 > packet_out flood in_port=1

            wait 5s
            s2 < packet_in  port=2 a>* buffer=7
            s2 > packet_out flood buffer=7
            s2 disconnects
            ",
        );
    }

    #[test]
    fn the_first_message_that_differs_is_marked() {
        let wrong = [
            ("s1 > packet_out output=2", "the application sends: s1 > packet_out flood"),
            ("s2 > packet_out flood", "the application sends: s1 > packet_out flood"),
            ("s1 > packet_out flood buffer=7", "the application sends: s1 > packet_out flood"),
            ("s1 disconnects", "the application also sends: s1 > packet_out flood"),
            ("", "the application also sends: s1 > packet_out flood"),
            ("s1 > packet_out flood\ns1 > packet_out flood", "the application sends nothing"),
        ];
        for (line, why) in wrong {
            let script = format!("s1 < packet_in port=1 b>a\n{line}");
            let failure = run(Repeater, Version::V1_3, &script).unwrap_err();
            assert!(failure.contains(&format!(">>>> {why}")), "{failure}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_parsed_is_marked() {
        for line in [
            "s1 < jump",
            "s1 packet_in",
            "wait long",
            "s1 < packet_in b>a",
            "s1 < port_status port=2",
            "ports edge",
            "[7] s1 connects",
            "[..1.3] s1 connects",
        ] {
            let failure = run(Repeater, Version::V1_0, line).unwrap_err();
            assert!(failure.contains(">>>> cannot parse"), "{failure}");
        }
    }
}
