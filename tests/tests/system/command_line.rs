//! Exit codes, error messages and signals of the binary.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use sluice_system_tests::{
    Controller, ExitReport, OpenFlow, OvsNetwork, SHORT_TIMEOUT, TestEnv, becomes_true, binary,
    wait_until,
};

/// Exit code of errors in flags and configuration.
const USAGE: Option<i32> = Some(2);

/// Exit code of errors at run time.
const RUN_TIME: Option<i32> = Some(1);

/// Checks that it ended with `code` and one line of error that contains all of `parts`.
#[track_caller]
fn assert_refuses(exit: &ExitReport, code: Option<i32>, parts: &[&str]) {
    assert_eq!(exit.code, code, "{exit:?}");
    let errors: Vec<_> = exit.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{exit:?}");
    for part in parts {
        assert!(errors.iter().all(|error| error.contains(part)), "no {part:?} in {errors:?}");
    }
}

fn sluice_run(arguments: &str) -> Command {
    let mut sluice = Command::new(binary());
    sluice.args(["run", "--no-api"]).args(arguments.split_whitespace());
    sluice
}

#[test]
fn the_error_about_a_port_in_use_says_what_to_do() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let exit = ExitReport::of(&sluice_run(&format!("--listen {address}")));
    assert_refuses(&exit, RUN_TIME, &[&address, "in use", "--listen"]);
}

#[test]
fn the_error_about_a_privileged_port_says_what_to_do() {
    // In a network namespace of its own, where ports below 1024 need the privilege as by default.
    let env = TestEnv::shared();
    let mut nobody = env.command("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    nobody.args(["run", "--no-api", "--listen", "127.0.0.1:653"]);
    assert_refuses(&ExitReport::of(&nobody), RUN_TIME, &["127.0.0.1:653", "ermission", "1024"]);
}

#[test]
fn the_error_about_too_few_file_descriptors_says_what_to_do() {
    let mut few = Command::new("prlimit");
    few.arg("--nofile=8:8").arg(binary()).args(["run", "--no-api", "--listen", "127.0.0.1:0"]);
    assert_refuses(&ExitReport::of(&few), RUN_TIME, &["file", "ulimit -n"]);
}

#[test]
fn the_error_about_an_unknown_key_names_file_and_line() {
    let env = TestEnv::shared();
    let file = env.write("sluice.toml", "[learning]\nidle_timeout_s = 5\nidel_timeout_s = 5\n");
    let exit = ExitReport::of(&sluice_run(&format!("--config {}", file.display())));
    assert_refuses(&exit, USAGE, &["sluice.toml:3", "learning.idel_timeout_s"]);
}

#[test]
fn the_error_about_a_value_of_the_wrong_type_names_file_and_line() {
    let env = TestEnv::shared();
    let file = env.write("sluice.toml", "[learning]\nidle_timeout_s = \"soon\"\n");
    let exit = ExitReport::of(&sluice_run(&format!("--config {}", file.display())));
    assert_refuses(&exit, USAGE, &["sluice.toml:2", "learning.idle_timeout_s"]);
}

#[test]
fn the_error_about_a_missing_configuration_file_names_it() {
    let exit = ExitReport::of(&sluice_run("--config /nonexistent/sluice.toml"));
    assert_refuses(&exit, USAGE, &["/nonexistent/sluice.toml"]);
}

#[test]
fn the_error_about_an_unknown_application_names_it_and_the_known_ones() {
    let exit = ExitReport::of(&sluice_run("--app lerning --listen 127.0.0.1:0"));
    assert_refuses(&exit, USAGE, &["lerning", "learning"]);
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    let exit = ExitReport::of(&sluice_run("--lissen 127.0.0.1:0"));
    assert_eq!(exit.code, USAGE, "{exit:?}");
    assert!(exit.stderr.contains("--lissen"), "{exit:?}");
}

#[test]
fn the_first_screen_says_how_to_connect_a_switch() {
    let env = TestEnv::shared();
    let mut controller = Controller::new(&env, "");
    controller.terminate();
    let exit = controller.wait_for_end();
    assert!(exit.stdout.contains("ovs-vsctl set-controller"), "{exit:?}");
    assert!(exit.stdout.contains("mn --controller"), "{exit:?}");
}

#[test]
fn sigterm_closes_connections_and_ends_with_exit_code_0() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let mut controller = Controller::new(network.env(), "--app learning");
    network.connect(&controller);
    controller.terminate();
    assert!(
        becomes_true(Duration::from_secs(2), || controller.has_ended()),
        "{}",
        controller.log()
    );
    assert_eq!(controller.wait_for_end().code, Some(0), "{}", controller.log());
    wait_until(SHORT_TIMEOUT, "the switches to be disconnected", || {
        network.disconnections("s1") > 0
    });
}

#[test]
fn sighup_applies_changed_keys_and_keeps_sessions() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 1);
    let config = network.env().write("sluice.toml", "[learning]\nidle_timeout_s = 30\n");
    let mut controller =
        Controller::new(network.env(), &format!("--app learning --config {}", config.display()));
    let (h1, h2, h3) = (network.host("s1"), network.host("s1"), network.host("s1"));
    network.connect(&controller);
    h1.assert_reaches(&h2);
    network.env().write("sluice.toml", "[learning]\nidle_timeout_s = 40\n");
    controller.reload();
    controller.wait_for_log(&["idle_timeout_s"]);
    h1.assert_reaches(&h3);
    for (host, idle_timeout) in [(&h2, "30"), (&h3, "40")] {
        network.assert_forwards_to("s1", host);
        for entry in network.flows_to("s1", host) {
            assert_eq!(entry.value("idle_timeout"), Some(idle_timeout), "{entry}");
        }
    }
    assert_eq!((network.connections("s1"), network.disconnections("s1")), (1, 0));
}

#[test]
fn sighup_with_an_invalid_file_keeps_the_old_configuration_and_logs_the_error() {
    let env = TestEnv::shared();
    let config = env.write("sluice.toml", "[learning]\nidle_timeout_s = 30\n");
    let mut controller = Controller::new(&env, &format!("--config {}", config.display()));
    env.write("sluice.toml", "[learning]\nidel_timeout_s = 40\n");
    controller.reload();
    controller.wait_for_log(&["sluice.toml:2", "learning.idel_timeout_s"]);
    assert!(!controller.has_ended());
    controller.terminate();
    assert_eq!(controller.wait_for_end().code, Some(0));
}
