//! The store of static entries on disks that are full, fail or are damaged.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use sluice_base::Rng;
use sluice_system_tests::{Controller, OpenFlow, OvsNetwork, Stopwatch, TestEnv, binary};

use crate::static_entries::{BLOCK, has, sluice, sluice_ok, start};

/// A file system of a few megabytes, unmounted at the end.
struct SmallDisk<'p>(&'p std::path::Path);

impl<'p> SmallDisk<'p> {
    fn new(dir: &'p std::path::Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(dir).status();
        assert!(mount.unwrap().success());
        Self(dir)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Lazily, since the controller has a file open there.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_changes_and_loses_none() {
    let network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    let state = network.env().file("state");
    let disk = SmallDisk::new(&state);
    let mut controller = start(&network);
    let file = |count: usize| {
        let ports = "output:1,".repeat(1500);
        let entry = |n| {
            format!(
                "[[flows]]\nname = \"e{n}\"\nswitch = \"all\"\nflow = \"in_port={n},actions={ports}output:2\"\n"
            )
        };
        let text: String = (1..=count).map(entry).collect();
        network.env().write("many.toml", text).display().to_string()
    };
    sluice_ok(&network, &["flow", "add", "all", BLOCK, "--name", "block"]);
    sluice_ok(&network, &["apply", &file(5)]);
    let filler = state.join("filler");
    // Fails when the disk is full.
    let _ = std::fs::write(&filler, vec![0; 8 << 20]);
    let (code, _, error) = sluice(&network, &["apply", &file(200)]);
    assert!(code == 1 && error.contains("nothing was changed"), "{error}");
    assert!(error.contains("static.redb"), "{error}");
    assert_eq!(sluice_ok(&network, &["flow", "list"]).lines().count(), 6);
    controller.kill();
    controller.restart();
    assert_eq!(sluice_ok(&network, &["flow", "list"]).lines().count(), 6);
    std::fs::remove_file(&filler).unwrap();
    sluice_ok(&network, &["apply", &file(20)]);
    controller.kill();
    controller.restart();
    assert_eq!(sluice_ok(&network, &["flow", "list"]).lines().count(), 21);
    drop((controller, disk));
}

/// With no room at all, and with some for the beginning of the file, or for all of it.
#[test]
fn the_first_change_on_a_full_disk_leaves_no_broken_store() {
    let network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    let state = network.env().file("state");
    let disk = SmallDisk::new(&state);
    let mut controller = start(&network);
    let filler = state.join("filler");
    for free in [0, 8 << 10, 256 << 10] {
        // Fails when the disk is full.
        let _ = std::fs::write(&filler, vec![0; 8 << 20]);
        let file = std::fs::OpenOptions::new().write(true).open(&filler).unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(free)).unwrap();
        let (code, _, error) = sluice(&network, &["flow", "add", "all", BLOCK, "--name", "block"]);
        let is_declared = code == 0;
        assert!(is_declared || error.contains("nothing was changed"), "{free}: {error}");
        assert!(free > 0 || !is_declared);
        controller.kill();
        controller.restart();
        let shown = sluice_ok(&network, &["flow", "list"]);
        assert_eq!(shown.lines().count(), 1 + usize::from(is_declared), "{free}: {shown}");
        std::fs::remove_file(&filler).unwrap();
    }
    sluice_ok(&network, &["flow", "add", "all", BLOCK, "--name", "block"]);
    controller.kill();
    controller.restart();
    assert_eq!(sluice_ok(&network, &["flow", "list"]).lines().count(), 2);
    drop((controller, disk));
}

#[test]
fn a_damaged_store_is_reported_and_changes_nothing() {
    let mut network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
    network.bridge("s1", 1);
    let mut controller = start(&network);
    network.connect(&controller);
    sluice_ok(&network, &["flow", "add", "s1", BLOCK, "--name", "block"]);
    controller.terminate();
    let path = network.env().file("state").join("static.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = 4096..bytes.len().min(65_536);
    bytes.get_mut(middle).unwrap().fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    controller.restart();
    controller.wait_for_sessions(2);
    let (code, _, error) = sluice(&network, &["flow", "add", "s1", "in_port=3,actions=drop"]);
    assert_eq!(code, 1);
    assert!(error.contains("static.redb") && error.contains("nothing was changed"), "{error}");
    controller.wait_for_log(&["static.redb"]);
    Stopwatch::start().wait_until(Duration::from_secs(12));
    assert!(has(&network, 55, "drop"), "entries on switches stay");
}

/// The controller is killed at any time while a client changes entries, names, quarantines and drains, one by one and several at once: what was
/// acknowledged is there after the restart, and at the switch.
#[test]
fn what_was_acknowledged_survives_kill_9_at_any_time() {
    let network = OvsNetwork::line(TestEnv::shared(), OpenFlow::V13, 2);
    let mut controller = start(&network);
    network.connect(&controller);
    let nothing =
        r#"{"flows": {}, "names": {"switches": {}, "hosts": {}}, "quarantines": [], "drains": 0}"#;
    let file = network.env().write("declared.json", nothing);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/acknowledged.py");
    let client = |words: &[&str]| {
        let mut client = network.env().command("python3");
        client.arg(script).arg(words[0]).arg(&file).args(&words[1..]);
        client
    };
    let mut rng = Rng::new(7);
    for round in 1..=6 {
        let mut changes = client(&["change", &round.to_string()]);
        let mut child = changes.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let count = 5 + rng.below(20) as usize;
        // Open until the client ends, which goes on.
        let mut acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(acknowledged.by_ref().take(count).count(), count, "round {round}");
        let delay = Duration::from_micros(rng.below(20_000).into());
        Stopwatch::start().wait_until(delay);
        controller.kill();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "round {round}: {}", text(&output.stderr));
        controller.restart();
        controller.wait_for_sessions(2 * (round + 1));
        let output = client(&["check"]).output().unwrap();
        let found = text(&output.stderr);
        assert!(output.status.success(), "round {round}, {count}, {delay:?}: {found}");
    }
}

/// The names of the entries that are declared.
fn declared(network: &OvsNetwork) -> BTreeSet<String> {
    let shown = sluice_ok(network, &["flow", "list"]);
    let names = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// A failed `fdatasync` does not say whether what was written is on the disk. Each one of a change fails once, and then for good.
#[test]
fn a_disk_that_fails_makes_a_change_or_does_not_and_says_which() {
    let (mut refused, mut unknown) = (0, 0);
    for when in (1..=6).flat_map(|n| [format!("{n}"), format!("{n}+")]) {
        let network = OvsNetwork::new(TestEnv::shared(), OpenFlow::V13);
        let mut command = network.env().command("strace");
        command.args(["--daemonize", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e"]);
        command.arg(format!("inject=fdatasync:error=EIO:when={when}")).arg(binary());
        command.args(["run", "--threads", "1", "--state-dir"]).arg(network.env().file("state"));
        let mut controller = Controller::with(command, network.env().dir());
        let (mut acknowledged, mut uncertain) = (BTreeSet::new(), BTreeSet::new());
        for n in 1..=4 {
            let (name, flow) = (format!("e{n}"), format!("in_port={n},actions=drop"));
            let (code, _, error) =
                sluice(&network, &["flow", "add", "all", &flow, "--name", &name]);
            if code == 0 {
                acknowledged.insert(name);
            } else if error.contains("after a restart it may be") {
                unknown += 1;
                uncertain.insert(name);
            } else {
                assert!(error.contains("nothing was changed"), "{when}: {error}");
                refused += 1;
            }
            assert_eq!(declared(&network), acknowledged, "{when}: {}", controller.log());
        }
        controller.kill();
        drop(controller);
        let controller = start(&network);
        let stored = declared(&network);
        assert!(stored.is_superset(&acknowledged), "{when}: {stored:?}, {acknowledged:?}");
        assert!(
            stored.difference(&acknowledged).all(|name| uncertain.contains(name)),
            "{when}: {stored:?}, {acknowledged:?}, {uncertain:?}"
        );
        drop(controller);
    }
    assert!(refused > 0 && unknown > 0, "{refused} refused, {unknown} unknown");
}
