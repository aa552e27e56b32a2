//! Transcripts: tests of an application as a list of messages.

mod network_event;
mod parse;
mod runner;
mod sent_message;

use sluice_openflow::{Version, Versions};
use sluice_sdk::App;

use parse::{Line, Step};
use runner::TranscriptRunner;

/// Plays `script` to the application that `make` makes, once in each version: what is heard goes through real bytes,
/// and the application must say just what stands there, in that order.
///
/// ```text
/// s1 < packet_in port=1 b>a          a frame from station b to station a comes in at port 1 of switch s1
/// s1 > packet_out flood              and this is said to it
/// [1.3..] s1 > flow_mod priority=0   from 1.3 on; [1.3..1.4] in both of these, [1.3] in 1.3 only
/// wait 301s                          time passes
/// ```
///
/// **`<`** is one of `up`, `down`, `port_up N`, `port_down N`, `port_gone N` and `packet_in port=N SRC>DST`. Stations
/// are letters, `*` for all, or addresses. A frame may have `buffer=N`, `vlan=N`, `tagged` (with a priority only),
/// `lldp` (it claims to show a link), `cut` (it comes up truncated), `giant` (the longest that a message holds) or
/// `runt=N` (only its first N bytes).
///
/// `full` refuses the rule that the switch was told last, `count N` and `rules cookie=N b:3` answer what it was asked last.
///
/// **`know`** is what topology and hosts would tell: `link s1:1 s2:2`, `cut s1:1 s2:2`, `host a s1:3` (or `a/5` in a
/// VLAN), `gone a`, `lost s1`, and `edge`, `shared`, `settling` or `down` with ports. A switch that it names is up.
///
/// A switch that was not said to be up comes up at its first line, and what is said to it then is not looked at.
///
/// **`>`** is `flow_mod` or `packet_out`, what it does (`flood`, `port=N`, `drop`; `delete`), and the `buffer` it
/// releases, and the `table` if it is not the first; all of that must be there. Of the rest, which is
/// `in_port src dst vlan untagged idle hard priority out_port cookie`, as many as the test is about; `match=dst+vlan`
/// names all fields that are matched. A frame that is sent back must be the one that came.
///
/// # Panics
/// When something else is said; the message is the script with the place marked.
#[track_caller]
pub fn transcript<A: App>(make: impl Fn() -> A, script: &str) {
    for version in Versions::SPOKEN.iter() {
        if let Err(told) = play(make(), version, script) {
            panic!("{told}");
        }
    }
}

fn play<A: App>(app: A, version: Version, script: &str) -> Result<(), String> {
    let mut stage = TranscriptRunner::new(app, version);
    for (number, text) in script.lines().enumerate() {
        let marked = |why: String| mark(script, version, number, &why);
        let Some(Line { only, step }) = Line::parse(text).map_err(marked)? else { continue };
        if !only.contains(&version) {
            continue;
        }
        match step {
            Step::Wait(time) => {
                stage.must_be_silent().map_err(marked)?;
                stage.wait(time).map_err(marked)?;
            }
            Step::Heard(switch, heard) => {
                stage.must_be_silent().map_err(marked)?;
                stage.hear(&switch, &heard).map_err(marked)?;
            }
            Step::Known(known) => {
                stage.must_be_silent().map_err(marked)?;
                stage.know(&known).map_err(marked)?;
            }
            Step::Said(switch, words) => stage.must_say(&switch, &words).map_err(marked)?,
        }
    }
    let end = script.lines().count();
    stage.must_be_silent().map_err(|why| mark(script, version, end, &why))
}

/// The script with `why` at line `at`.
fn mark(script: &str, version: Version, at: usize, why: &str) -> String {
    let mut told = vec![format!("in {version}, this is not what happens:")];
    for (number, line) in script.lines().chain([""]).enumerate() {
        if number == at {
            told.push(format!(">>>> {why}"));
        }
        told.push(format!("     {}", line.trim()));
    }
    told.join("\n")
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Action, PacketIn, PacketOut, PortNo};
    use sluice_sdk::{Ctx, Verdict};

    use super::*;

    /// Floods everything.
    struct Repeater;

    impl App for Repeater {
        fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
            let actions = [Action::output(PortNo::FLOOD)];
            ctx.switch
                .packet_out(&PacketOut { actions: &actions, ..PacketOut::answer(p) })
                .unwrap();
            Verdict::Stop
        }
    }

    #[test]
    fn what_happens_as_written_passes() {
        transcript(
            || Repeater,
            "
            s1 < packet_in  port=1 b>a vlan=5   # a comment
            s1 > packet_out flood in_port=1

            wait 5s
            s2 < packet_in  port=2 a>* buffer=7
            s2 > packet_out flood buffer=7
            s2 < down
            ",
        );
    }

    #[test]
    fn what_happens_otherwise_is_marked() {
        let wrong = [
            ("s1 > packet_out port=2", "it says: s1 > packet_out flood"),
            ("s2 > packet_out flood", "it says: s1 > packet_out flood"),
            ("s1 > packet_out flood buffer=7", "it says: s1 > packet_out flood"),
            ("s1 < down", "it says more: s1 > packet_out flood"),
            ("", "it says more: s1 > packet_out flood"),
            ("s1 > packet_out flood\ns1 > packet_out flood", "it says nothing"),
        ];
        for (line, why) in wrong {
            let script = format!("s1 < packet_in port=1 b>a\n{line}");
            let told = play(Repeater, Version::V1_3, &script).unwrap_err();
            assert!(told.contains(&format!(">>>> {why}")), "{told}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_marked() {
        for line in [
            "s1 < jump",
            "s1 packet_in",
            "wait long",
            "s1 < packet_in b>a",
            "[7] s1 < up",
            "[..1.3] s1 < up",
        ] {
            let told = play(Repeater, Version::V1_0, line).unwrap_err();
            assert!(told.contains(">>>> cannot read"), "{told}");
        }
    }
}
