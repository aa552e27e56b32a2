//! Studies of several controllers, with those that come with the binary, and with controllers that misbehave.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sluice_system_tests::{LONG_TIMEOUT, TestEnv, binary, wait_until};

/// Runs `sluice study` with these arguments in the folder of the test.
fn study(env: &TestEnv, arguments: &[&str]) -> Output {
    command(env, arguments).output().unwrap()
}

fn command(env: &TestEnv, arguments: &[&str]) -> Command {
    let mut command = env.command(&binary().display().to_string());
    // The environment of a study is part of it.
    command.env_remove("GOGC");
    command.arg("study").args(arguments).current_dir(env.dir());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All samples of a study, one JSON object each, also those that were disturbed and taken again.
fn all_samples(folder: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(folder.join("samples.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The samples of a study that count: the last one of each cell and round.
fn samples(folder: &Path) -> Vec<serde_json::Value> {
    let mut last: Vec<serde_json::Value> = Vec::new();
    for sample in all_samples(folder) {
        let is_same = |it: &serde_json::Value| {
            let mut key = ["experiment", "controller", "cell", "round"].iter();
            key.all(|name| it.get(name) == sample.get(name))
        };
        last.retain(|it| !is_same(it));
        last.push(sample);
    }
    last
}

#[test]
fn a_short_study_has_all_samples_and_a_report_and_goes_on_after_an_interruption() {
    let env = TestEnv::shared();
    let arguments = [
        "run",
        "--short",
        "--rounds",
        "2",
        "--controllers",
        "null,sluice",
        "--experiments",
        "response-least,throughput-threads",
        "--output",
        "out",
    ];
    let folder = env.dir().join("out");
    // Interrupted after a few samples.
    let mut first =
        command(&env, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(LONG_TIMEOUT * 2, "two samples", || samples(&folder).len() >= 2);
    let killed = Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(first.wait().unwrap().code(), Some(130));
    let before = all_samples(&folder);

    let output = study(&env, &arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("report: out/report.html"), "{out}");
    assert_eq!(all_samples(&folder)[..before.len()], before[..]);
    let after = samples(&folder);
    assert_eq!(after.len(), 12, "{err}");
    for sample in &after {
        assert!(sample["failure"].is_null(), "{sample}");
        assert!(sample["figures"]["rate"].as_f64().unwrap() > 100.0, "{sample}");
        assert_eq!(sample["usage"]["survived"], true, "{sample}");
        assert_eq!(sample["usage"]["stopped_in_order"], true, "{sample}");
    }
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script src") && !html.contains("<link "));
    for file in ["samples.csv", "summary.csv", "report.json", "study.json"] {
        assert!(fs::metadata(folder.join(file)).unwrap().len() > 100, "{file}");
    }
    let processes = fs::read_to_string(folder.join("processes.csv")).unwrap();
    assert!(processes.lines().skip(1).any(|row| row.contains(",sluice,")), "{processes}");

    // Nothing has changed between a study and itself; two rounds are too few for the gate.
    let output = study(&env, &["compare", "out", "out"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let output = study(&env, &["compare", "out", "out", "--gate", "0"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("gate: no figure has three samples in both studies"));
    // Another plan does not overwrite it.
    let output =
        study(&env, &["run", "--experiments", "flood", "--controllers", "null", "--output", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("contains a study with another plan"));
    // Nor do samples in another environment.
    let output = command(&env, &arguments).env("GOGC", "50").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(err.contains(r#"controller null: environment variables that it inherits have changed: GOGC (null and "50")"#), "{err}");
}

/// A controller that serves one switch only.
const ONE_SWITCH: &str = "one-switch";

/// Files of controllers that misbehave, by name: what the failure of their samples says, and the file.
const BAD: [(&str, &str, &str); 8] = [
    (
        "accepts-only",
        "no handshake completes",
        r#"program = "python3"
arguments = ["-c", "import socket,sys,time\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\nc=[]\nwhile 1: c.append(s.accept())", "{port}"]"#,
    ),
    (
        "ends-at-once",
        "it ended before it was ready; its log ends with: no licence",
        r#"program = "sh"
arguments = ["-c", "echo no licence; exit 3"]"#,
    ),
    (
        "flaky",
        "",
        r#"program = "sh"
arguments = ["-c", "[ -e ../../flaky ] || { : > ../../flaky; echo the first start fails; exit 1; }; exec {sluice} bench null --no-buffer --listen 127.0.0.1:{port}"]"#,
    ),
    (
        "ends-later",
        "the controller ended during the measurement",
        r#"program = "timeout"
arguments = ["2.5", "{sluice}", "bench", "null", "--no-buffer", "--listen", "127.0.0.1:{port}"]"#,
    ),
    (
        "other-version",
        "no handshake completes",
        r#"program = "{sluice}"
arguments = ["run", "--listen", "127.0.0.1:{port}", "--no-api", "--app", "hub", "--state-dir", "{directory}"]
environment = { SLUICE_SESSION__VERSIONS = "1.0" }"#,
    ),
    (
        ONE_SWITCH,
        "",
        r#"program = "{sluice}"
arguments = ["run", "--listen", "127.0.0.1:{port}", "--no-api", "--app", "learning", "--state-dir", "{directory}"]
environment = { SLUICE_LIMITS__SWITCHES_MAX = "1" }"#,
    ),
    (
        "port-in-use",
        "port 1, which it needs, is in use",
        r#"program = "sleep"
arguments = ["600"]
port = 1"#,
    ),
    (
        "forks",
        "",
        r#"program = "sh"
arguments = ["-c", "trap '' TERM; setsid sh -c 'trap \"\" TERM; {sluice} bench null --no-buffer --listen 127.0.0.1:{port} & while :; do sleep 1; done' & exit 0"]"#,
    ),
];

/// Of a shell that has started the controller: both processes are listed, and the one that was busy has readings.
fn assert_each_process_was_read(sample: &serde_json::Value) {
    let usage = &sample["usage"];
    let processes = usage["processes"].as_array().unwrap();
    assert!(processes.iter().any(|process| process["name"] == "sh"), "{usage}");
    let is_busy = |process: &serde_json::Value| process["cpu_s"].as_f64() > Some(0.0);
    let controller = processes.iter().position(|it| it["name"] == "sluice" && is_busy(it)).unwrap();
    let readings = usage["readings"].as_array().unwrap().iter();
    let mut of_each = readings.filter_map(|reading| reading["of_each"].as_array()).flatten();
    assert!(of_each.any(|reading| reading["process"] == controller), "{usage}");
    // The shell sleeps again and again: a `sleep` that ends is replaced.
    assert!(!sample["warnings"].to_string().contains("ended early"), "{sample}");
}

/// With one switch all is well; with 32, all but one are refused.
fn assert_one_switch_was_served(samples: &[serde_json::Value]) {
    let failure_with = |switches: u64| {
        let is_cell = |it: &&serde_json::Value| {
            it.pointer("/cell/switches").and_then(serde_json::Value::as_u64) == Some(switches)
        };
        let sample = samples.iter().find(is_cell).unwrap();
        sample.get("failure").and_then(serde_json::Value::as_str)
    };
    assert_eq!(failure_with(1), None, "{samples:?}");
    let failure = failure_with(32).unwrap();
    assert!(failure.contains("only 1 of 32 switches took part: "), "{failure}");
}

#[test]
fn controllers_that_misbehave_are_named_and_the_others_are_measured() {
    let env = TestEnv::shared();
    let controllers = env.dir().join("definitions/controllers");
    fs::create_dir_all(&controllers).unwrap();
    // Nobody may listen on port 1 but this test.
    let _listener = env.within(|| std::net::TcpListener::bind("0.0.0.0:1").unwrap());
    for (name, _, start) in BAD {
        let file = format!(
            "title = \"{name}\"\nsource = \"a test\"\napplication = \"none\"\nlanguage = \"none\"\n\
             openflow = [\"1.3\"]\n[ready]\ntimeout_s = 3\n[stop]\ngrace_s = 0.5\n[start]\n{start}\n"
        );
        fs::write(controllers.join(format!("{name}.toml")), file).unwrap();
    }
    let missing = "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n\
                   [start]\nprogram = \"no-such-controller\"\n";
    fs::write(controllers.join("missing.toml"), missing).unwrap();
    let names: Vec<_> = BAD.iter().map(|(name, ..)| *name).chain(["missing", "null"]).collect();
    // Of those that a plan names, one may be absent.
    fs::write(env.dir().join("plan.toml"), format!("controllers = {names:?}\n")).unwrap();
    let arguments = [
        "run",
        "--short",
        "--rounds",
        "1",
        "--definitions",
        "definitions",
        "--plan",
        "plan.toml",
        "--experiments",
        "response-switches",
        "--output",
        "out",
    ];
    let output = study(&env, &arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // Samples are missing, which the exit code says.
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("not on this machine: no-such-controller was not found"), "{out}");
    let samples = samples(&env.dir().join("out"));
    // Two cells of each but the one that is not there.
    assert_eq!(samples.len(), 2 * (BAD.len() + 1), "{err}");
    let of = |name: &str| {
        let found = samples.iter().filter(|sample| sample["controller"] == name);
        found.cloned().collect::<Vec<_>>()
    };
    for (name, why, _) in BAD.into_iter().filter(|(name, ..)| *name != ONE_SWITCH) {
        for sample in of(name) {
            let failure = sample["failure"].as_str().unwrap_or_default();
            assert!(failure.contains(why) && failure.is_empty() == why.is_empty(), "{sample}");
        }
    }
    // It was found behind the shell that had ended, measured, and killed since it ignored the signal.
    for sample in of("forks") {
        assert_eq!(sample["usage"]["stopped_in_order"], false, "{sample}");
        assert!(sample["figures"]["rate"].as_f64().unwrap() > 100.0, "{sample}");
        assert_each_process_was_read(&sample);
    }
    // Its first start failed, and cost no sample, though perhaps that sample was disturbed and taken again.
    let taken = all_samples(&env.dir().join("out"));
    let flaky: Vec<_> = taken.iter().filter(|it| it["controller"] == "flaky").collect();
    let restarts = flaky.iter().map(|it| it["restarts"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(restarts, 1, "{flaky:?}");
    let is_warned = |it: &&serde_json::Value| {
        it["restarts"] == 1 && it["warnings"].to_string().contains("the first start fails")
    };
    assert!(flaky.iter().any(is_warned), "{flaky:?}");
    assert!(of("ends-at-once").iter().any(|it| it["restarts"] == 1));
    assert_one_switch_was_served(&of(ONE_SWITCH));
    for sample in of("null") {
        assert!(sample["failure"].is_null(), "{sample}");
    }
    let html = fs::read_to_string(env.dir().join("out/report.html")).unwrap();
    assert!(html.contains("no licence") && html.contains("no-such-controller"));
}

#[test]
fn the_tests_of_rfc_8456_in_the_short_study_succeed_with_the_default_applications() {
    let env = TestEnv::shared();
    let tests = "5.1.1,5.1.2,5.1.4,5.1.8,5.4.2";
    let arguments = [
        "rfc8456",
        "--test",
        tests,
        "--short",
        "--rounds",
        "1",
        "--controllers",
        "sluice",
        "--output",
        "out",
    ];
    let output = study(&env, &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let samples = samples(&env.dir().join("out"));
    let figures = [
        ("rfc8456-5-1-1", "discovery_ms"),
        ("rfc8456-5-1-2", "processing_us"),
        ("rfc8456-5-1-4", "path_ms"),
        ("rfc8456-5-1-8", "detection_ms"),
        ("rfc8456-5-4-2", "reprovisioning_ms"),
    ];
    for (experiment, figure) in figures {
        let sample = samples.iter().find(|sample| sample["experiment"] == experiment).unwrap();
        assert!(sample["figures"][figure].as_f64().unwrap() > 0.0, "{sample}");
    }
    // Without a northbound interface there is no topology to be asked for.
    let row = "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n\
               [start]\nprogram = \"{sluice}\"\narguments = [\"run\", \"--listen\", \"127.0.0.1:{port}\", \"--no-api\", \
               \"--app\", \"learning\", \"--state-dir\", \"{directory}\"]\n";
    fs::create_dir_all(env.dir().join("more/controllers")).unwrap();
    fs::write(env.dir().join("more/controllers/mute.toml"), row).unwrap();
    let arguments = [
        "rfc8456",
        "--test",
        "5.1.1",
        "--rounds",
        "1",
        "--definitions",
        "more",
        "--controllers",
        "mute",
        "--output",
        "none",
    ];
    let output = study(&env, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let err = text(&output.stderr);
    assert!(err.contains("the controller's file has no [northbound]"), "{err}");
}

/// Prints a result as cbench does.
const CBENCH: &str = "#!/bin/sh\n\
    echo 'RESULT: 8 switches 5 tests min/max/avg/stdev = 100.00/300.00/200.00/1.00 responses/s'\n";

#[test]
fn connections_streams_churn_and_cbench_are_measured() {
    let env = TestEnv::shared();
    let cbench = env.dir().join("home/cbench/cbench");
    fs::create_dir_all(cbench.parent().unwrap()).unwrap();
    fs::write(&cbench, CBENCH).unwrap();
    fs::set_permissions(&cbench, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = [
        "run",
        "--short",
        "--rounds",
        "1",
        "--home",
        "home",
        "--controllers",
        "sluice",
        "--experiments",
        "first-connection,first-packets,churn,cbench",
        "--output",
        "out",
    ];
    let output = study(&env, &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let samples = samples(&env.dir().join("out"));
    let figure = |experiment: &str, name: &str| {
        let sample = samples.iter().rfind(|sample| sample["experiment"] == experiment).unwrap();
        sample["figures"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {sample}"))
    };
    // The controller is 50 ms away: the first packet of a connection waits for two round trips at most after those of ARP, and all
    // packets of a stream before the entries go through the controller.
    let first = figure("first-connection", "first_connection_s");
    assert!((0.1..5.0).contains(&first), "{first}");
    assert!(figure("first-connection", "second_connection_s") < first);
    assert!(figure("first-connection", "first_packet_ins") >= 1.0);
    assert!(figure("first-packets", "stream_packet_ins") >= 50.0);
    assert!(figure("first-packets", "lost") < 0.5);
    assert!(figure("churn", "unanswered") < 0.5);
    assert!((figure("cbench", "throughput_cbench") - 200.0).abs() < 1e-9);
    assert!(figure("cbench", "latency_ratio") > 0.0);

    // What the machine does not have is said.
    let output = study(&env, &["run", "--dry-run", "--home", "nowhere", "--controllers", "null"]);
    assert!(text(&output.stdout).contains("/nowhere/cbench/cbench was not found"));
    let named = ["run", "--experiments", "cbench", "--home", "nowhere", "--controllers", "null"];
    let output = study(&env, &named);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/cbench/cbench was not found"));
}

#[test]
fn two_processes_do_not_use_the_folder_of_a_study_at_a_time() {
    let env = TestEnv::shared();
    let arguments = [
        "run",
        "--short",
        "--controllers",
        "null",
        "--experiments",
        "response-least",
        "--output",
        "out",
    ];
    let mut first =
        command(&env, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(LONG_TIMEOUT, "the first one", || env.dir().join("out/study.json").exists());
    let second = study(&env, &arguments);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another process carries out a study in out"));
    assert!(first.wait().unwrap().success());
}

#[test]
fn a_plan_is_checked_before_anything_starts() {
    let env = TestEnv::shared();
    let write = |name: &str, text: &str| fs::write(env.dir().join(name), text).unwrap();
    write("unknown-key.toml", "short = true\nspeed = 3\n");
    write("unknown-name.toml", "experiments = [\"no-such-experiment\"]\n");
    fs::create_dir_all(env.dir().join("bad/experiments")).unwrap();
    write(
        "bad/experiments/wrong.toml",
        "title = \"x\"\nquestion = \"x\"\n[measure]\nkind = \"bench\"\n[axes]\ntopology = [\"ring,4\"]\n\
         [[figures]]\nid = \"a\"\nkind = \"bars\"\ntitle = \"x\"\ncaption = \"x\"\nmetric = \"rate\"\n",
    );
    fs::create_dir_all(env.dir().join("metric/experiments")).unwrap();
    write(
        "metric/experiments/wrong.toml",
        "title = \"x\"\nquestion = \"x\"\n[measure]\nkind = \"bench\"\n[[figures]]\nid = \"a\"\nkind = \"bars\"\n\
         title = \"x\"\ncaption = \"x\"\nmetric = \"speed\"\n",
    );
    fs::create_dir_all(env.dir().join("nan/experiments")).unwrap();
    write(
        "nan/experiments/wrong.toml",
        "title = \"x\"\nquestion = \"x\"\n[measure]\nkind = \"bench\"\nload = { rate = nan }\n[[figures]]\nid = \"a\"\n\
         kind = \"bars\"\ntitle = \"x\"\ncaption = \"x\"\nmetric = \"rate\"\n",
    );
    write("many-rounds.toml", "rounds = 4294967295\n");
    fs::create_dir_all(env.dir().join("misspelled/controllers")).unwrap();
    write(
        "misspelled/controllers/wrong.toml",
        "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n[start]\n\
         program = \"x\"\narguments = [\"--port\", \"{prot}\"]\n",
    );
    let cases: [(&[&str], &str); 13] = [
        (
            &["run", "--definitions", "misspelled"],
            "wrong.toml: start.arguments[1]: unknown placeholder {prot} (known: {port}, ",
        ),
        (&["run", "--definitions", "nan"], "wrong.toml: measure.load.rate: NaN (expected 0.001"),
        (&["run", "--plan", "many-rounds.toml"], "4294967295 rounds (expected 1 to 1000)"),
        (&["run", "--plan", "/dev/zero"], "/dev/zero: not a regular file"),
        (&["run", "--controllers", "null,null"], "controller \"null\" is named twice"),
        (
            &["run", "--controllers", "onos", "--home", "nowhere"],
            "/nowhere/onos/bin/onos-service was not found",
        ),
        (&["run", "--controllers", "null,onos", "--home", "nowhere"], "(controller onos: "),
        (&["run", "--definitions", "metric"], "figure a: unknown metric \"speed\" (known: rate, "),
        (
            &["run", "--plan", "unknown-key.toml"],
            "unknown-key.toml: TOML parse error at line 2, column 1",
        ),
        (
            &["run", "--plan", "unknown-name.toml"],
            "unknown experiment \"no-such-experiment\" (known: ",
        ),
        (&["run", "--controllers", "nobody"], "unknown controller \"nobody\" (known: "),
        (
            &["run", "--definitions", "bad"],
            "wrong.toml: axes.topology: this measurement does not have it",
        ),
        (&["rfc8456", "--test", "9.9"], "unknown test \"9.9\" (known: 5.1.1, "),
    ];
    for (arguments, expected) in cases {
        let output = study(&env, arguments);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(expected), "{err}");
        assert!(!env.dir().join("sluice-study").exists());
    }
    let dry = study(&env, &["run", "--short", "--controllers", "null", "--dry-run"]);
    assert!(dry.status.success() && text(&dry.stdout).contains("samples, about "));
    assert!(!env.dir().join("sluice-study").exists());
}
