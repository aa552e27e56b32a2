//! How the binary ends, and the words it has for what went wrong.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use sluice_system_tests::{
    Controller, Ended, Lab, OpenFlow, Room, SOON, binary, happens, wait_until,
};

/// Exit code for what the user must say otherwise: flags and configuration.
const USAGE: Option<i32> = Some(2);

/// Exit code for what went wrong while it ran.
const RUN_TIME: Option<i32> = Some(1);

/// It must end with `code` and one error of one sentence, which has all of `parts`.
#[track_caller]
fn must_refuse(ended: &Ended, code: Option<i32>, parts: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    let errors: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{ended:?}");
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
fn a_port_in_use_is_named_with_what_to_do() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let ended = Ended::of(&sluice_run(&format!("--listen {address}")));
    must_refuse(&ended, RUN_TIME, &[&address, "in use", "--listen"]);
}

#[test]
fn a_port_that_needs_a_permission_is_named_with_what_to_do() {
    // In a namespace of its own, where ports below 1024 are root's as the kernel made them.
    let room = Room::new();
    let mut nobody = room.command("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    nobody.args(["run", "--no-api", "--listen", "127.0.0.1:653"]);
    must_refuse(&Ended::of(&nobody), RUN_TIME, &["127.0.0.1:653", "ermission", "1024"]);
}

#[test]
fn too_few_file_descriptors_are_named_with_what_to_do() {
    let mut few = Command::new("prlimit");
    few.arg("--nofile=8:8").arg(binary()).args(["run", "--no-api", "--listen", "127.0.0.1:0"]);
    must_refuse(&Ended::of(&few), RUN_TIME, &["file", "ulimit -n"]);
}

#[test]
fn an_unknown_key_is_named_with_its_file_and_line() {
    let room = Room::new();
    let file = room.write("sluice.toml", "[learning]\nidle_timeout_s = 5\nidel_timeout_s = 5\n");
    let ended = Ended::of(&sluice_run(&format!("--config {}", file.display())));
    must_refuse(&ended, USAGE, &["sluice.toml:3", "learning.idel_timeout_s"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_its_file_and_line() {
    let room = Room::new();
    let file = room.write("sluice.toml", "[learning]\nidle_timeout_s = \"soon\"\n");
    let ended = Ended::of(&sluice_run(&format!("--config {}", file.display())));
    must_refuse(&ended, USAGE, &["sluice.toml:2", "learning.idle_timeout_s"]);
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let ended = Ended::of(&sluice_run("--config /nonexistent/sluice.toml"));
    must_refuse(&ended, USAGE, &["/nonexistent/sluice.toml"]);
}

#[test]
fn an_unknown_application_is_named() {
    let ended = Ended::of(&sluice_run("--app lerning --listen 127.0.0.1:0"));
    must_refuse(&ended, USAGE, &["lerning", "learning"]);
}

#[test]
fn an_unknown_flag_ends_it_as_usage() {
    let ended = Ended::of(&sluice_run("--lissen 127.0.0.1:0"));
    assert_eq!(ended.code, USAGE, "{ended:?}");
    assert!(ended.stderr.contains("--lissen"), "{ended:?}");
}

#[test]
fn the_first_screen_says_how_to_connect_a_switch() {
    let room = Room::new();
    let mut controller = Controller::new(&room, "");
    controller.ask_to_end();
    let ended = controller.wait_for_end();
    assert!(ended.stdout.contains("ovs-vsctl set-controller"), "{ended:?}");
    assert!(ended.stdout.contains("mn --controller"), "{ended:?}");
}

#[test]
fn sigterm_ends_it_in_order_while_switches_are_connected() {
    let lab = Lab::line(OpenFlow::V13, 2);
    let mut controller = Controller::new(lab.room(), "--app learning");
    lab.connect(&controller);
    controller.ask_to_end();
    assert!(happens(Duration::from_secs(2), || controller.has_ended()), "{}", controller.log());
    assert_eq!(controller.wait_for_end().code, Some(0), "{}", controller.log());
    wait_until(SOON, "the switches to be told", || lab.disconnections("s1") > 0);
}

#[test]
fn sighup_applies_what_changed_and_keeps_sessions() {
    let lab = Lab::line(OpenFlow::V13, 1);
    let config = lab.room().write("sluice.toml", "[learning]\nidle_timeout_s = 30\n");
    let mut controller =
        Controller::new(lab.room(), &format!("--app learning --config {}", config.display()));
    let (h1, h2, h3) = (lab.host("s1"), lab.host("s1"), lab.host("s1"));
    lab.connect(&controller);
    h1.must_reach(&h2);
    lab.room().write("sluice.toml", "[learning]\nidle_timeout_s = 40\n");
    controller.reload();
    controller.wait_for_log(&["idle_timeout_s"]);
    h1.must_reach(&h3);
    for (host, idle_timeout) in [(&h2, "30"), (&h3, "40")] {
        lab.must_lead_to("s1", host);
        for rule in lab.flows_to("s1", host) {
            assert_eq!(rule.value("idle_timeout"), Some(idle_timeout), "{rule}");
        }
    }
    assert_eq!((lab.connections("s1"), lab.disconnections("s1")), (1, 0));
}

#[test]
fn sighup_with_a_mistake_keeps_what_was_and_says_so() {
    let room = Room::new();
    let config = room.write("sluice.toml", "[learning]\nidle_timeout_s = 30\n");
    let mut controller = Controller::new(&room, &format!("--config {}", config.display()));
    room.write("sluice.toml", "[learning]\nidel_timeout_s = 40\n");
    controller.reload();
    controller.wait_for_log(&["sluice.toml:2", "learning.idel_timeout_s"]);
    assert!(!controller.has_ended());
    controller.ask_to_end();
    assert_eq!(controller.wait_for_end().code, Some(0));
}
