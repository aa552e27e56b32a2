//! The web page in Chromium, with networks of Open vSwitch.
//!
//! A scenario is a script of `web/tests`, which `node` runs in the namespace of the network. What it wants done with the network it writes as a line
//! `@WORD`, and gets a line of JSON as the answer.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; durations are printed"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sluice_system_tests::{
    Controller, Host, LONG_TIMEOUT, OpenFlow, OvsNetwork, TestEnv, binary, output_of, wait_until,
};

/// Address of the controller within its namespace, which is not that of the loopback device.
const OTHER_ADDRESS: &str = "10.99.0.1";

/// A leaf of the network, and a spine.
const LINK: [&str; 2] = ["s1", "s4"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `sluice run` with the API at its default address.
fn command(network: &OvsNetwork) -> Command {
    let mut command = network.env().command(&binary().to_string_lossy());
    command.args(["run", "--threads", "1"]);
    command
}

/// Three leaves and two spines with a host at each leaf, all of which have reached each other.
fn leaf_spine(
    prepare: impl FnOnce(&OvsNetwork, &mut Command),
) -> (OvsNetwork, Controller, [Host; 3]) {
    let network = OvsNetwork::leaf_spine(TestEnv::new(), OpenFlow::V13, 2, 3);
    let hosts = ["s1", "s2", "s3"].map(|leaf| network.host(leaf));
    let mut command = command(&network);
    prepare(&network, &mut command);
    let controller = Controller::with(command, network.env().dir());
    network.connect(&controller);
    let [a, rest @ ..] = &hosts;
    for b in rest {
        wait_until(LONG_TIMEOUT, "the hosts to reach each other", || a.ping(b, 1).lost() == 0);
    }
    (network, controller, hosts)
}

/// Runs a script of `web/tests` to its end; `carry_out` does what it asks for.
fn run_script(network: &OvsNetwork, script: &str, mut carry_out: impl FnMut(&str) -> Value) {
    let mut node = network.env().command("node");
    node.arg(root().join("web/tests").join(script)).current_dir(root());
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        if let Some(order) = line.strip_prefix('@') {
            let answer = carry_out(order);
            // Fails if the script has ended, which its exit code tells.
            let _ = writeln!(input, "{answer}");
        }
        said.push(line);
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{script} ended with {status}:\n{}", said.join("\n"));
    println!("{}", said.join("\n"));
}

#[test]
fn the_page_shows_changes_of_the_network_and_makes_them() {
    let (network, _controller, _hosts) = leaf_spine(|_, _| {});
    let [leaf, spine] = LINK;
    run_script(&network, "network.mjs", |order| match order {
        "cut" => {
            network.cut_link(leaf, spine);
            Value::Null
        }
        "restore" => {
            network.restore_link(leaf, spine);
            Value::Null
        }
        "flows" => network.ofctl_output("dump-flows", "s1", &[]).into(),
        _ => panic!("unknown order {order}"),
    });
}

#[test]
fn every_view_is_accessible_in_both_themes_and_all_widths() {
    let (network, controller, [a, b, _c]) = leaf_spine(|_, _| {});
    // Load for the map and the charts.
    let ping = a.start_fast_ping(&b);
    run_script(&network, "look.mjs", |order| match order {
        "describe" => {
            let database = format!("--db=unix:{}", network.env().file("db.sock").display());
            let text = "other-config:dp-desc=\"<script>window.wasRun=1</script>\"";
            let mut vsctl = network.env().command("ovs-vsctl");
            output_of(vsctl.args([&database, "set", "bridge", "s1", text]));
            // Descriptions are read once per session.
            network.clear_controller("s1");
            network.set_controller("s1", &controller);
            Value::Null
        }
        _ => panic!("unknown order {order}"),
    });
    ping.stop();
}

#[test]
fn the_page_outlives_the_controller() {
    let (network, mut controller, _hosts) = leaf_spine(|_, _| {});
    run_script(&network, "restart.mjs", |order| {
        match order {
            "kill" => controller.kill(),
            "start" => controller.restart(),
            _ => panic!("unknown order {order}"),
        }
        Value::Null
    });
}

/// Makes a token; its text.
fn token(network: &OvsNetwork, words: &[&str]) -> String {
    let mut sluice = network.env().command(&binary().to_string_lossy());
    let file = network.env().file("tokens");
    sluice.args(["token", "add"]).args(words).arg("--file").arg(file);
    output_of(&mut sluice).trim().to_owned()
}

#[test]
fn the_page_asks_for_a_token_and_loses_nothing() {
    let mut tokens = Value::Null;
    let (network, _controller, _hosts) = leaf_spine(|network, command| {
        network.env().ip(&format!("addr add {OTHER_ADDRESS}/32 dev lo"));
        command.args(["--api", "0.0.0.0:8653"]);
        tokens = json!({
            "other": format!("http://{OTHER_ADDRESS}:8653"),
            "read": token(network, &["reader", "--role", "read"]),
            "operate": token(network, &["operator", "--role", "operate"]),
            "expired": token(network, &["old", "--role", "read", "--expires", "1h"]),
        });
        let file = network.env().file("tokens");
        let mut stored: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let old =
            stored["tokens"].as_array_mut().unwrap().iter_mut().find(|it| it["name"] == "old");
        // An hour later.
        *old.unwrap().get_mut("expires_unix_s").unwrap() = 1.into();
        fs::write(&file, stored.to_string()).unwrap();
        command.arg("--api-tokens").arg(network.env().file("tokens"));
        command.env("SLUICE_API__LOCAL_ROLE", "none");
    });
    run_script(&network, "access.mjs", |order| match order {
        "tokens" => tokens.clone(),
        "remove-token" => {
            let mut sluice = network.env().command(&binary().to_string_lossy());
            let file = network.env().file("tokens");
            output_of(sluice.args(["token", "remove", "reader", "--file"]).arg(file));
            Value::Null
        }
        _ => panic!("unknown order {order}"),
    });
}
