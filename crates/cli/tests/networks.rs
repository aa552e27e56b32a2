//! Networks that are not there, and the binary that plays them. What is asserted are counts, never times.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

/// Exit code, standard output and standard error.
fn sluice(arguments: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

fn play(arguments: &str) -> (Option<i32>, String, String) {
    sluice(&format!("play --config /dev/null --threads 1 --once --pings 1000 {arguments}"))
}

#[test]
fn every_pair_of_a_tree_pings_once() {
    let (code, out, err) = play("--topo tree,2,2 --app learning");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("3 switches, 4 hosts, 2 links between switches"), "{out}");
    assert!(out.contains("1 round: 12 pings answered, 0 lost"), "{out}");
}

#[test]
fn switches_speak_what_they_are_told_to_and_links_carry_what_they_are_told_to() {
    let (code, out, _) =
        play("--topo linear,2 --app hub --protocols 1.0 --buffers 0 --link-delay 1ms");
    assert_eq!(code, Some(0), "{out}");
    let (code, out, _) = play("--topo minimal --app hub --link-loss 100%");
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("0 pings answered, 2 lost"), "{out}");
    assert!(out.contains("lost in the last round: h1 to h2"), "{out}");
}

#[test]
fn a_start_ends_when_every_host_has_had_an_answer() {
    let (code, out, err) =
        sluice("play --config /dev/null --threads 1 --start --topo linear,3 --app learning");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for line in ["every switch known: ", "first answer: ", "every host answered: "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("hosts answered: 3 of 3"), "{out}");
}

#[test]
fn what_is_no_network_is_refused_before_anything_starts() {
    for (arguments, why) in [
        ("play --topo tree,2,x", "error: --topo tree,2,x: fanout: \"x\" is not a number\n"),
        (
            "emu --topo ring,2",
            "error: --topo ring,2: ring: k, the number of switches, is 3 at least\n",
        ),
        ("emu --pings 0", "error: invalid value '0' for '--pings <N>': "),
        ("emu --topo star", "error: --topo star: no shape is called \"star\"; there are minimal, "),
        ("emu --topo missing.graphml", "error: --topo missing.graphml: No such file"),
        ("emu --link-delay 5weeks", "error: --link-delay: \"5weeks\" is not a time"),
        ("emu --protocols 2.0", "error: --protocols: \"2.0\" is no version of OpenFlow\n"),
    ] {
        let (code, _, err) = sluice(arguments);
        assert_eq!(code, Some(2), "{arguments}");
        assert!(err.starts_with(why), "{err}");
    }
    let (_, _, err) = sluice("emu --controller nearby");
    assert_eq!(err, "error: controller nearby: there is no port; nearby:6653?\n");
}
