//! `sluice play` and `sluice emu`. Tests assert counts, never times.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

/// Exit code, standard output and standard error.
fn sluice(arguments: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

fn play_once(arguments: &str) -> (Option<i32>, String, String) {
    sluice(&format!("play --config /dev/null --threads 1 --once --pings 1000 {arguments}"))
}

#[test]
fn every_pair_of_hosts_in_a_tree_pings_once() {
    let (code, out, err) = play_once("--topo tree,2,2 --app learning");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("3 switches, 4 hosts, 2 links between switches"), "{out}");
    assert!(out.contains("1 round of pings in "), "{out}");
    assert!(out.contains("12 sent, 12 answered, 0 lost"), "{out}");
}

#[test]
fn options_of_switches_and_links_take_effect() {
    let (code, out, _) =
        play_once("--topo linear,2 --app hub --protocols 1.0 --buffers 0 --link-delay 1ms");
    assert_eq!(code, Some(0), "{out}");
    let (code, out, _) = play_once("--topo minimal --app hub --link-loss 100%");
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("2 sent, 0 answered, 2 lost"), "{out}");
    assert!(out.contains("lost in the last round: h1 to h2"), "{out}");
}

#[test]
fn a_warning_is_printed_before_an_application_floods_into_loops() {
    // Whether the storm reaches its limit within one round depends on the machine.
    let (_, out, _) = play_once("--topo ring,3 --app hub");
    assert!(
        out.starts_with("warning: this topology has loops and `hub` floods into them"),
        "{out}"
    );
}

#[test]
fn the_startup_test_ends_when_every_host_has_a_reply() {
    let (code, out, err) =
        sluice("play --config /dev/null --threads 1 --start --topo linear,3 --app learning");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for line in ["all switches connected: ", "first reply: ", "all hosts have a reply: "] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("hosts with a reply: 3 of 3"), "{out}");
}

#[test]
fn invalid_arguments_are_rejected_before_anything_starts() {
    for (arguments, error) in [
        ("play --topo tree,2,x", "error: --topo tree,2,x: fanout: \"x\" is not a number\n"),
        ("play --api 127.0.0.1:0", "error: --api: `sluice play` serves no API; start `sluice run`"),
        ("play --api-socket /x", "error: --api-socket: `sluice play` serves no API"),
        ("emu --topo ring,2", "error: --topo ring,2: ring: k (switches) must be at least 3\n"),
        ("emu --pings 0", "error: invalid value '0' for '--pings <N>': "),
        ("emu --topo star", "error: --topo star: unknown shape \"star\" (known: minimal, single, "),
        ("emu --topo missing.graphml", "error: --topo missing.graphml: No such file"),
        ("emu --link-delay 5weeks", "error: --link-delay: \"5weeks\" is not a time"),
        ("emu --protocols 2.0", "error: --protocols: \"2.0\" is not a version of OpenFlow"),
    ] {
        let (code, _, err) = sluice(arguments);
        assert_eq!(code, Some(2), "{arguments}");
        assert!(err.starts_with(error), "{err}");
    }
    let (_, _, err) = sluice("emu --controller nearby");
    assert_eq!(err, "error: controller \"nearby\": missing port, such as nearby:6653\n");
}
