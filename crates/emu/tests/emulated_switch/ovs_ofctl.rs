//! The emulated switch, configured and queried by Open vSwitch's `ovs-ofctl`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use sluice_emu::switch::{EmulatedSwitch, SwitchOutput};
use sluice_openflow::{Version, Versions};

use crate::support::{SwitchTest, any_time};

/// Bytes read at once.
const READ_MAX: usize = 1 << 16;

/// An emulated switch that listens on a TCP port.
///
/// The latest connection is its controller, because `ovs-ofctl` keeps connections open that it no longer uses.
struct ServedSwitch {
    port: u16,
    events: Sender<ServerEvent>,
    thread: JoinHandle<EmulatedSwitch>,
}

enum ServerEvent {
    Accepted(TcpStream),
    /// The number of the connection, counted from 1, and bytes received on it.
    Received(usize, Vec<u8>),
    Stop,
}

impl ServedSwitch {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (events, receiver) = channel();
        let (thread, sender) = (thread::spawn(move || serve(&receiver)), events.clone());
        thread::spawn(move || {
            for (n, stream) in (1..).zip(listener.incoming()) {
                let (mut stream, sender) = (stream.unwrap(), sender.clone());
                // After the test, the receiver has been dropped.
                let Ok(()) = sender.send(ServerEvent::Accepted(stream.try_clone().unwrap())) else {
                    return;
                };
                thread::spawn(move || {
                    let mut bytes = vec![0; READ_MAX];
                    while let Ok(len @ 1..) = stream.read(&mut bytes) {
                        let _ = sender.send(ServerEvent::Received(n, bytes[..len].to_vec()));
                    }
                });
            }
        });
        Self { port, events, thread }
    }

    /// Runs `ovs-ofctl` and returns its standard output and error, without its own log.
    fn ofctl(&self, version: Version, args: &[&str]) -> String {
        let options = args.iter().take_while(|arg| arg.starts_with("--")).count();
        let (command, rest) = args.split_at(options + 1);
        let output = Command::new("ovs-ofctl")
            .args(["-vOFF", "-O", &format!("OpenFlow1{}", version.0 - 1)])
            .args(command)
            .arg(format!("tcp:127.0.0.1:{}", self.port))
            .args(rest)
            .output()
            .unwrap_or_else(|e| panic!("ovs-ofctl: {e}; `make setup` installs it"));
        let mut text = String::from_utf8(output.stdout).unwrap();
        text += &String::from_utf8(output.stderr).unwrap();
        text.truncate(2000);
        text
    }

    fn stop(self) -> EmulatedSwitch {
        self.events.send(ServerEvent::Stop).unwrap();
        self.thread.join().unwrap()
    }
}

/// Runs the switch until it is stopped.
fn serve(events: &Receiver<ServerEvent>) -> EmulatedSwitch {
    let (mut switch, mut out) =
        (EmulatedSwitch::new(SwitchTest::config()), SwitchOutput::default());
    let (mut current, mut n_accepted) = (None, 0);
    for event in events {
        match event {
            ServerEvent::Accepted(stream) => {
                switch.on_disconnected(any_time());
                switch.on_connected(any_time(), &mut out);
                (current, n_accepted) = (Some(stream), n_accepted + 1);
            }
            ServerEvent::Received(n, bytes) if n == n_accepted => {
                switch.on_control_bytes(any_time(), &bytes, &mut out).unwrap();
            }
            ServerEvent::Received(..) => {}
            ServerEvent::Stop => break,
        }
        // The connection may be closed.
        let _ = current.as_mut().map(|stream| stream.write_all(&out.control));
        out.clear();
    }
    switch
}

/// The lines of a dump without values that change from run to run.
fn flow_lines(output: &str) -> Vec<&str> {
    let flow = |line| str::split_once(line, "n_packets=0, n_bytes=0,").map(|(_, flow)| flow.trim());
    output.lines().filter_map(flow).collect()
}

#[test]
fn statistics_requests_are_answered_in_every_version() {
    let switch = ServedSwitch::start();
    for version in Versions::SUPPORTED.iter() {
        let output = switch.ofctl(version, &["show"]);
        assert!(
            output.contains("dpid:0000000000000007") && output.contains("4(port4)"),
            "{output}"
        );
        assert!(output.contains("n_tables:8, n_buffers:2"), "{output}");
        for (command, answer) in [
            ("dump-desc", "Serial Num: 0000000000000007"),
            ("dump-tables", "table 0"),
            ("dump-ports", "4 ports"),
            ("dump-ports-desc", "port4"),
            ("dump-aggregate", "flow_count=0"),
        ] {
            let output = switch.ofctl(version, &[command]);
            assert!(output.contains(answer), "{version} {command}: {output}");
            let errors = ["OFPT_ERROR", "***", "decode error", "ovs-ofctl:"];
            assert!(
                !errors.iter().any(|error| output.contains(error)),
                "{version} {command}: {output}"
            );
        }
    }
    switch.stop();
}

#[test]
fn flow_entries_are_dumped_as_they_were_added() {
    let switch = ServedSwitch::start();
    for version in Versions::SUPPORTED.iter() {
        for flow in [
            "priority=7,tcp,in_port=1,nw_dst=10.0.0.0/24,tp_dst=80,actions=mod_nw_src:10.0.0.1,output:2",
            "priority=5,arp,arp_tpa=10.0.0.1,actions=FLOOD",
            "priority=3,dl_vlan=5,actions=strip_vlan,CONTROLLER:64",
        ] {
            assert_eq!(switch.ofctl(version, &["add-flow", flow]), "", "{version} {flow}");
        }
        let output = switch.ofctl(version, &["--no-names", "--sort", "dump-flows"]);
        let set = if version < Version::V1_2 {
            "mod_nw_src:10.0.0.1"
        } else {
            "set_field:10.0.0.1->ip_src"
        };
        let strip = if version < Version::V1_1 { "strip_vlan" } else { "pop_vlan" };
        let mut output = flow_lines(&output);
        output.sort_unstable();
        assert_eq!(
            output,
            [
                format!("priority=3,dl_vlan=5 actions={strip},CONTROLLER:64"),
                "priority=5,arp,arp_tpa=10.0.0.1 actions=FLOOD".into(),
                format!(
                    "priority=7,tcp,in_port=1,nw_dst=10.0.0.0/24,tp_dst=80 actions={set},output:2"
                ),
            ],
            "{version}"
        );
        assert_eq!(
            switch.ofctl(version, &["--strict", "del-flows", "priority=5,arp,arp_tpa=10.0.0.1"]),
            ""
        );
        assert_eq!(flow_lines(&switch.ofctl(version, &["dump-flows"])).len(), 2);
        assert_eq!(switch.ofctl(version, &["del-flows"]), "");
    }
    assert_eq!(switch.stop().flow_entry_count(), 0);
}

#[test]
fn groups_and_meters_are_added_and_dumped_and_errors_reported() {
    let switch = ServedSwitch::start();
    for version in [Version::V1_3, Version::V1_4, Version::V1_5] {
        let group = "group_id=1,type=select,bucket=weight:2,actions=output:2,bucket=weight:1,actions=output:3";
        assert_eq!(switch.ofctl(version, &["add-group", group]), "");
        assert_eq!(
            switch.ofctl(
                version,
                &["add-meter", "meter=1,pktps,burst,bands=type=drop,rate=10,burst_size=2"]
            ),
            ""
        );
        assert_eq!(switch.ofctl(version, &["add-flow", "in_port=1,actions=meter:1,group:1"]), "");
        let output = switch.ofctl(version, &["dump-groups"]);
        assert!(output.contains("weight:2,actions=output:"), "{version}: {output}");
        let output = switch.ofctl(version, &["dump-group-stats"]);
        assert!(
            output.contains("group_id=1") && output.contains("ref_count=1"),
            "{version}: {output}"
        );
        let output = switch.ofctl(version, &["dump-meters"]);
        assert!(output.contains("meter=1 pktps burst bands="), "{version}: {output}");
        let output = switch.ofctl(version, &["meter-stats"]);
        assert!(output.contains("meter:1 flow_count:1"), "{version}: {output}");
        let again = switch.ofctl(version, &["add-group", group]);
        assert!(again.contains("OFPGMFC_GROUP_EXISTS"), "{version}: {again}");
        let table = switch.ofctl(version, &["dump-table-features"]);
        assert!(table.contains("table 7"), "{version}: {table}");
        assert_eq!(switch.ofctl(version, &["del-meters"]), "");
        assert_eq!(switch.ofctl(version, &["del-groups"]), "");
        let wrong = switch.ofctl(version, &["add-flow", "actions=NORMAL"]);
        assert!(wrong.contains("OFPBAC_BAD_OUT_PORT"), "{version}: {wrong}");
    }
    let switch = switch.stop();
    assert_eq!((switch.flow_entry_count(), switch.group_count(), switch.meter_count()), (0, 0, 0));
}
