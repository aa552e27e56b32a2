//! The emulated switch under Open vSwitch's `ovs-ofctl`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use sluice_emu::switch::{EmulatedSwitch, SwitchOutput};
use sluice_openflow::{Version, Versions};

use crate::support::{Play, any_time};

/// Bytes read at once.
const READ_MAX: usize = 1 << 16;

/// A switch behind a socket. The latest connection is its controller: `ovs-ofctl` keeps connections that it no longer
/// uses.
struct Served {
    port: u16,
    events: Sender<Event>,
    thread: JoinHandle<EmulatedSwitch>,
}

enum Event {
    Came(TcpStream),
    /// Bytes of the n-th connection.
    Said(usize, Vec<u8>),
    Stop,
}

impl Served {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (events, heard) = channel();
        let (thread, sender) = (thread::spawn(move || serve(&heard)), events.clone());
        thread::spawn(move || {
            for (n, stream) in (1..).zip(listener.incoming()) {
                let (mut stream, sender) = (stream.unwrap(), sender.clone());
                // After the test, the receiver is gone.
                let Ok(()) = sender.send(Event::Came(stream.try_clone().unwrap())) else { return };
                thread::spawn(move || {
                    let mut bytes = vec![0; READ_MAX];
                    while let Ok(len @ 1..) = stream.read(&mut bytes) {
                        let _ = sender.send(Event::Said(n, bytes[..len].to_vec()));
                    }
                });
            }
        });
        Self { port, events, thread }
    }

    /// Runs `ovs-ofctl` and returns its standard output and error, without its own log.
    fn ofctl(&self, version: Version, words: &[&str]) -> String {
        let options = words.iter().take_while(|word| word.starts_with("--")).count();
        let (command, rest) = words.split_at(options + 1);
        let output = Command::new("ovs-ofctl")
            .args(["-vOFF", "-O", &format!("OpenFlow1{}", version.0 - 1)])
            .args(command)
            .arg(format!("tcp:127.0.0.1:{}", self.port))
            .args(rest)
            .output()
            .unwrap_or_else(|e| panic!("ovs-ofctl: {e}; `make setup` installs it"));
        let mut told = String::from_utf8(output.stdout).unwrap();
        told += &String::from_utf8(output.stderr).unwrap();
        told.truncate(2000);
        told
    }

    fn stop(self) -> EmulatedSwitch {
        self.events.send(Event::Stop).unwrap();
        self.thread.join().unwrap()
    }
}

/// Runs the switch until it is stopped.
fn serve(events: &Receiver<Event>) -> EmulatedSwitch {
    let (mut switch, mut out) = (EmulatedSwitch::new(Play::plan()), SwitchOutput::default());
    let (mut current, mut n_came) = (None, 0);
    for event in events {
        match event {
            Event::Came(stream) => {
                switch.on_disconnected(any_time());
                switch.on_connected(any_time(), &mut out);
                (current, n_came) = (Some(stream), n_came + 1);
            }
            Event::Said(n, bytes) if n == n_came => {
                switch.on_control_bytes(any_time(), &bytes, &mut out).unwrap();
            }
            Event::Said(..) => {}
            Event::Stop => break,
        }
        // The connection may be closed.
        let _ = current.as_mut().map(|stream| stream.write_all(&out.control));
        out.clear();
    }
    switch
}

/// The lines of a dump without values that change from run to run.
fn rules(told: &str) -> Vec<&str> {
    let rule = |line| str::split_once(line, "n_packets=0, n_bytes=0,").map(|(_, rule)| rule.trim());
    told.lines().filter_map(rule).collect()
}

#[test]
fn statistics_requests_are_answered_in_every_version() {
    let served = Served::start();
    for version in Versions::SPOKEN.iter() {
        let told = served.ofctl(version, &["show"]);
        assert!(told.contains("dpid:0000000000000007") && told.contains("4(port4)"), "{told}");
        assert!(told.contains("n_tables:8, n_buffers:2"), "{told}");
        for (command, answer) in [
            ("dump-desc", "Serial Num: 0000000000000007"),
            ("dump-tables", "table 0"),
            ("dump-ports", "4 ports"),
            ("dump-ports-desc", "port4"),
            ("dump-aggregate", "flow_count=0"),
        ] {
            let told = served.ofctl(version, &[command]);
            assert!(told.contains(answer), "{version} {command}: {told}");
            let complains = ["OFPT_ERROR", "***", "decode error", "ovs-ofctl:"];
            assert!(!complains.iter().any(|it| told.contains(it)), "{version} {command}: {told}");
        }
    }
    served.stop();
}

#[test]
fn flow_entries_are_dumped_as_they_were_added() {
    let served = Served::start();
    for version in Versions::SPOKEN.iter() {
        for flow in [
            "priority=7,tcp,in_port=1,nw_dst=10.0.0.0/24,tp_dst=80,actions=mod_nw_src:10.0.0.1,output:2",
            "priority=5,arp,arp_tpa=10.0.0.1,actions=FLOOD",
            "priority=3,dl_vlan=5,actions=strip_vlan,CONTROLLER:64",
        ] {
            assert_eq!(served.ofctl(version, &["add-flow", flow]), "", "{version} {flow}");
        }
        let told = served.ofctl(version, &["--no-names", "--sort", "dump-flows"]);
        let set = if version < Version::V1_2 {
            "mod_nw_src:10.0.0.1"
        } else {
            "set_field:10.0.0.1->ip_src"
        };
        let strip = if version < Version::V1_1 { "strip_vlan" } else { "pop_vlan" };
        let mut told = rules(&told);
        told.sort_unstable();
        assert_eq!(
            told,
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
            served.ofctl(version, &["--strict", "del-flows", "priority=5,arp,arp_tpa=10.0.0.1"]),
            ""
        );
        assert_eq!(rules(&served.ofctl(version, &["dump-flows"])).len(), 2);
        assert_eq!(served.ofctl(version, &["del-flows"]), "");
    }
    assert_eq!(served.stop().flow_entry_count(), 0);
}

#[test]
fn groups_meters_and_errors_are_understood() {
    let served = Served::start();
    for version in [Version::V1_3, Version::V1_4, Version::V1_5] {
        let group = "group_id=1,type=select,bucket=weight:2,actions=output:2,bucket=weight:1,actions=output:3";
        assert_eq!(served.ofctl(version, &["add-group", group]), "");
        assert_eq!(
            served.ofctl(
                version,
                &["add-meter", "meter=1,pktps,burst,bands=type=drop,rate=10,burst_size=2"]
            ),
            ""
        );
        assert_eq!(served.ofctl(version, &["add-flow", "in_port=1,actions=meter:1,group:1"]), "");
        let told = served.ofctl(version, &["dump-groups"]);
        assert!(told.contains("weight:2,actions=output:"), "{version}: {told}");
        let told = served.ofctl(version, &["dump-group-stats"]);
        assert!(told.contains("group_id=1") && told.contains("ref_count=1"), "{version}: {told}");
        let told = served.ofctl(version, &["dump-meters"]);
        assert!(told.contains("meter=1 pktps burst bands="), "{version}: {told}");
        let told = served.ofctl(version, &["meter-stats"]);
        assert!(told.contains("meter:1 flow_count:1"), "{version}: {told}");
        let again = served.ofctl(version, &["add-group", group]);
        assert!(again.contains("OFPGMFC_GROUP_EXISTS"), "{version}: {again}");
        let table = served.ofctl(version, &["dump-table-features"]);
        assert!(table.contains("table 7"), "{version}: {table}");
        assert_eq!(served.ofctl(version, &["del-meters"]), "");
        assert_eq!(served.ofctl(version, &["del-groups"]), "");
        let wrong = served.ofctl(version, &["add-flow", "actions=NORMAL"]);
        assert!(wrong.contains("OFPBAC_BAD_OUT_PORT"), "{version}: {wrong}");
    }
    let switch = served.stop();
    assert_eq!((switch.flow_entry_count(), switch.group_count(), switch.meter_count()), (0, 0, 0));
}
