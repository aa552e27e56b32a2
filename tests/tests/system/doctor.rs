//! `sluice doctor` with a real Open vSwitch: as it should be, and with what people set wrong.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use sluice_system_tests::{
    Controller, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, wait_until,
};

/// Exit code and findings of `sluice doctor`, as `level check: message`.
fn findings(network: &OvsNetwork, port: &str) -> (Option<i32>, Vec<String>) {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["doctor", "--json", "--config", "/dev/null", "--listen", port]);
    let output = command.env("OVS_RUNDIR", network.env().dir()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let finding = |it: &Value| {
        assert_eq!(it["level"] == "ok", it.get("advice").is_none(), "{it}");
        format!("{} {}: {}", text(&it["level"]), text(&it["check"]), text(&it["message"]))
    };
    let findings = report["findings"].as_array().unwrap().iter().map(finding).collect();
    (output.status.code(), findings)
}

fn problems(findings: &[String]) -> Vec<&str> {
    let problems = findings.iter().filter(|line| line.starts_with("problem"));
    problems.map(String::as_str).collect()
}

/// Waits until code and findings meet the condition; shows the last ones if they do not.
#[track_caller]
fn wait_for(
    (network, port): (&OvsNetwork, &str),
    what: &str,
    is_met: impl Fn(Option<i32>, &[String]) -> bool,
) {
    let mut last = (None, Vec::new());
    let reached = catch_unwind(AssertUnwindSafe(|| {
        wait_until(LONG_TIMEOUT, what, || {
            last = findings(network, port);
            is_met(last.0, &last.1)
        });
    }));
    assert!(reached.is_ok(), "{what}: {last:#?}");
}

#[test]
fn the_doctor_sees_what_is_right_and_what_is_wrong_with_open_vswitch() {
    let mut network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    network.bridge("s1", 1);
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1"]);
    let mut controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    let port = controller.port().to_owned();

    // The database shows the connection up to 5 s late.
    wait_for((&network, &port), "a report without problems", |code, findings| {
        let has = |text: &str| findings.iter().any(|line| line.contains(text));
        code == Some(0)
            && problems(findings).is_empty()
            && has("ok open vswitch: s1: connected to tcp:")
            && has("ok open vswitch: s1: fail_mode is secure")
            && has("ok controller: 1 switch is connected")
            && has("(listen) is used by sluice")
    });

    network.make_standalone("s1");
    network.set_controller_at("s1", "127.0.0.1:6634");
    wait_for((&network, &port), "a report of the wrong port", |code, findings| {
        let has = |text: &str| findings.iter().any(|line| line.contains(text));
        code == Some(1)
            && has("warning open vswitch: s1: fail_mode is standalone")
            && has(&format!("the controller listens on port {port}, not 6634"))
            && has("problem open vswitch: s1: not connected to tcp:127.0.0.1:6634")
    });

    network.set_tls_controller("s1", &format!("127.0.0.1:{port}"));
    let (code, findings_of_tls) = findings(&network, &port);
    let problems_of_tls = problems(&findings_of_tls).join("\n");
    assert_eq!(code, Some(1), "{problems_of_tls}");
    assert!(
        problems_of_tls.contains("begins with ssl:, but the controller expects tcp:"),
        "{problems_of_tls}"
    );
    assert!(problems_of_tls.contains("no certificate is set"), "{problems_of_tls}");

    controller.terminate();
    controller.wait_for_end();
    let listener = network.env().within(|| TcpListener::bind(format!("0.0.0.0:{port}")).unwrap());
    let (code, held) = findings(&network, &port);
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let (name, pid) = (name.trim(), std::process::id());
    let held_by_test = |line: &&str| {
        line.contains("(listen) is used by") && line.contains(&format!("(process {pid})"))
    };
    assert_eq!(code, Some(1));
    assert!(problems(&held).iter().any(held_by_test), "{name}: {held:#?}");
    assert!(
        held.iter().any(|line| line.starts_with("warning controller: no controller answers")),
        "{held:#?}"
    );
    drop(listener);
}
