//! A network of Open vSwitch bridges and hosts.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::controller::Controller;
use crate::flow::Flow;
use crate::host::{Host, both_ways};
use crate::room::Room;
use crate::shell::{Daemon, output_of};
use crate::{OpenFlow, SOON, wait_until};

/// Where Debian keeps the layout of the database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// The first number of a port with a host, so that these numbers are known and look it.
const FIRST_PLUG: u16 = 101;

/// Open vSwitch with its userspace datapath, alone in a [`Room`].
#[derive(Debug)]
pub struct Lab {
    version: OpenFlow,
    bridges: Vec<String>,
    plugs: Cell<u16>,
    hosts: Cell<u8>,
    vswitchd: Daemon,
    _ovsdb: Daemon,
    room: Room,
}

impl Lab {
    /// Open vSwitch without a bridge.
    pub fn new(version: OpenFlow) -> Self {
        let room = Room::new();
        let (db, socket) = (room.file("conf.db"), room.file("db.sock"));
        output_of(Command::new("ovsdb-tool").arg("create").arg(&db).arg(SCHEMA));
        let ovsdb = Daemon::new(
            daemon(&room, "ovsdb-server").arg(&db).arg(format!("--remote=p{}", unix(&socket))),
        );
        wait_until(SOON, "ovsdb-server", || socket.exists());
        output_of(vsctl(&room).args(["--no-wait", "init"]));
        let vswitchd = start_vswitchd(&room);
        let (plugs, hosts) = (Cell::new(FIRST_PLUG), Cell::new(0));
        Self { version, bridges: Vec::new(), plugs, hosts, vswitchd, _ovsdb: ovsdb, room }
    }

    /// Bridges `s1` to `s<count>` with datapath ids 1 to `count`, in a line.
    pub fn line(version: OpenFlow, count: u16) -> Self {
        let mut lab = Self::new(version);
        for rank in 1..=count {
            lab.bridge(&format!("s{rank}"), u64::from(rank));
        }
        for rank in 1..count {
            lab.link(&format!("s{rank}"), &format!("s{}", rank + 1));
        }
        lab
    }

    /// Bridges `s1` to `s<count>` in a ring.
    pub fn ring(version: OpenFlow, count: u16) -> Self {
        let lab = Self::line(version, count);
        lab.link(&format!("s{count}"), "s1");
        lab
    }

    /// Bridges `s1` to `s<count>`, each joined to each.
    pub fn mesh(version: OpenFlow, count: u16) -> Self {
        let mut lab = Self::new(version);
        for rank in 1..=count {
            lab.bridge(&format!("s{rank}"), u64::from(rank));
            (1..rank).for_each(|other| lab.link(&format!("s{other}"), &format!("s{rank}")));
        }
        lab
    }

    /// Leaves `s1` to `s<leaves>`, each joined to each of the spines that follow.
    pub fn leaf_spine(version: OpenFlow, spines: u16, leaves: u16) -> Self {
        let mut lab = Self::new(version);
        for rank in 1..=leaves + spines {
            lab.bridge(&format!("s{rank}"), u64::from(rank));
        }
        for spine in leaves + 1..=leaves + spines {
            (1..=leaves).for_each(|leaf| lab.link(&format!("s{leaf}"), &format!("s{spine}")));
        }
        lab
    }

    /// A root `s1`, and `s2`, `s3` below it with two leaves each, up to `s7`.
    pub fn tree(version: OpenFlow) -> Self {
        let mut lab = Self::new(version);
        for rank in 1..=7u16 {
            lab.bridge(&format!("s{rank}"), u64::from(rank));
            if rank > 1 {
                lab.link(&format!("s{}", rank / 2), &format!("s{rank}"));
            }
        }
        lab
    }

    /// Pulls the cable between two bridges that [`link`](Self::link) joined, in this order.
    pub fn cut(&self, a: &str, b: &str) {
        self.ip(&format!("link set {a}-{b} down"));
    }

    /// Puts it back.
    pub fn mend(&self, a: &str, b: &str) {
        self.ip(&format!("link set {a}-{b} up"));
    }

    /// Takes the port of the cable between two bridges from the first; the other one notices nothing.
    pub fn unplug(&self, a: &str, b: &str) {
        self.vsctl(&format!("del-port {a} {a}-{b}"));
    }

    /// Puts it back.
    pub fn plug_in(&self, a: &str, b: &str) {
        self.vsctl(&format!("add-port {a} {a}-{b}"));
    }

    /// Frames that went through the cable between two bridges, both ways.
    #[track_caller]
    pub fn carried(&self, a: &str, b: &str) -> u64 {
        both_ways(&self.room.ip(&format!("-s link show {a}-{b}")))
    }

    /// Adds a bridge that keeps its rules when it loses its controller.
    pub fn bridge(&mut self, name: &str, datapath_id: u64) {
        self.vsctl(&format!(
            "add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure \
             protocols={} other_config:datapath-id={datapath_id:016x} \
             other_config:disable-in-band=true",
            self.version.name()
        ));
        self.bridges.push(name.to_owned());
    }

    /// Lets the table of `bridge` hold so many rules; more are refused.
    pub fn limit_rules(&self, bridge: &str, flow_limit: u16) {
        self.vsctl(&format!(
            "-- --id=@table create Flow_Table flow_limit={flow_limit} overflow_policy=refuse \
             -- set bridge {bridge} flow_tables:0=@table"
        ));
    }

    /// Lets it hold any number again.
    pub fn unlimit_rules(&self, bridge: &str) {
        self.vsctl(&format!("clear bridge {bridge} flow_tables"));
    }

    /// Joins two bridges by a cable.
    pub fn link(&self, a: &str, b: &str) {
        let (from, to) = (format!("{a}-{b}"), format!("{b}-{a}"));
        self.ip(&format!("link add {from} type veth peer name {to}"));
        self.ip(&format!("link set {from} up"));
        self.ip(&format!("link set {to} up"));
        self.vsctl(&format!("add-port {a} {from} -- add-port {b} {to}"));
    }

    /// A new host at a new port of `bridge`.
    pub fn host(&self, bridge: &str) -> Host {
        self.hosts.set(self.hosts.get() + 1);
        self.settle(self.hosts.get(), bridge)
    }

    /// Another machine with the addresses of `host`, at a new port of `bridge`.
    pub fn twin(&self, host: &Host, bridge: &str) -> Host {
        self.settle(host.rank, bridge)
    }

    /// Pulls the cable of `host` out of bridge `from` and puts it into a new port of `to`.
    pub fn replug(&self, host: &mut Host, from: &str, to: &str) {
        self.vsctl(&format!("del-port {from} {}", host.jack));
        self.plug(host, to);
    }

    /// Points every bridge at `controller` and waits until their sessions are up.
    #[track_caller]
    pub fn connect(&self, controller: &Controller) {
        let before = controller.sessions();
        for bridge in &self.bridges {
            self.point(bridge, controller);
        }
        controller.wait_for_sessions(before + self.bridges.len());
    }

    /// Points `bridge` at `controller`, to be asked for again each second.
    pub fn point(&self, bridge: &str, controller: &Controller) {
        let target = format!("tcp:{}", controller.address());
        self.vsctl(&format!(
            "set-controller {bridge} {target} -- set controller {bridge} max_backoff=1000"
        ));
    }

    /// Points `bridge` at an address where nobody is; it keeps its rules, as one that lost its controller.
    pub fn point_astray(&self, bridge: &str) {
        self.vsctl(&format!("set-controller {bridge} tcp:127.0.0.1:1"));
    }

    /// Takes its controller from `bridge`.
    pub fn unpoint(&self, bridge: &str) {
        self.vsctl(&format!("del-controller {bridge}"));
    }

    /// Lets `bridge` forward by itself, as a bridge does that nobody controls.
    pub fn be_a_bridge(&self, bridge: &str) {
        self.vsctl(&format!("set bridge {bridge} fail_mode=standalone"));
    }

    /// How often `bridge` has connected to a controller.
    pub fn connections(&self, bridge: &str) -> usize {
        self.events(bridge, &[": connected"])
    }

    /// How often it has lost one: closed or reset by the controller, or given up as dead.
    pub fn disconnections(&self, bridge: &str) -> usize {
        self.events(bridge, &["closed by peer", "connection dropped", "disconnecting"])
    }

    /// Cuts the wires between switches and controllers: silence, and no goodbye.
    pub fn cut_control(&self) {
        self.ip("link set lo down");
    }

    /// Mends them.
    pub fn mend_control(&self) {
        self.ip("link set lo up");
    }

    /// Ends the switches as a power cut would, and starts them again with empty tables.
    #[track_caller]
    pub fn power_cycle(&mut self) {
        self.vswitchd.kill();
        self.vswitchd = start_vswitchd(&self.room);
    }

    /// The rules of `bridge`.
    #[track_caller]
    pub fn flows(&self, bridge: &str) -> Vec<Flow> {
        let mut ofctl = self.room.command("ovs-ofctl");
        ofctl.args(["-O", self.version.name(), "--no-names", "--no-stats", "dump-flows"]);
        // Its management socket, so that the switch's own listing is beyond our reach.
        let socket = self.room.file(&format!("{bridge}.mgmt"));
        Flow::list(&output_of(ofctl.arg(unix(&socket))))
    }

    /// The rules of `bridge` whose destination is `host`.
    #[track_caller]
    pub fn flows_to(&self, bridge: &str, host: &Host) -> Vec<Flow> {
        let mut flows = self.flows(bridge);
        flows.retain(|flow| flow.value("dl_dst") == Some(&host.mac()));
        flows
    }

    /// Waits until `bridge` has rules that lead to the port of `host`, and none that leads to
    /// another.
    ///
    /// # Panics
    /// When that is not soon so.
    #[track_caller]
    pub fn must_lead_to(&self, bridge: &str, host: &Host) {
        let (what, output) = (format!("{bridge} to lead to {host:?}"), host.output());
        wait_until(SOON, &what, || {
            let flows = self.flows_to(bridge, host);
            !flows.is_empty() && flows.iter().all(|flow| flow.actions() == output)
        });
    }

    /// The room it is in.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// From the log: the database learns of connections up to 5 s late.
    fn events(&self, bridge: &str, words: &[&str]) -> usize {
        let log = fs::read_to_string(self.room.file("ovs-vswitchd.log")).unwrap_or_default();
        let bridge = format!("|{bridge}<->tcp:");
        let lines = log.lines().filter(|line| line.contains(&bridge));
        lines.filter(|line| words.iter().any(|word| line.contains(word))).count()
    }

    fn settle(&self, rank: u8, bridge: &str) -> Host {
        let jack = format!("jack{}", self.plugs.get());
        let room = self.room.name();
        let mut host = Host::new(&format!("{room}-{jack}"), rank, room, &jack);
        self.ip(&format!("link set {jack} up"));
        self.plug(&mut host, bridge);
        host
    }

    fn plug(&self, host: &mut Host, bridge: &str) {
        host.port = self.plugs.get();
        self.plugs.set(host.port + 1);
        let (jack, port) = (&host.jack, host.port);
        self.vsctl(&format!(
            "add-port {bridge} {jack} -- set interface {jack} ofport_request={port}"
        ));
    }

    #[track_caller]
    fn ip(&self, words: &str) {
        self.room.ip(words);
    }

    #[track_caller]
    fn vsctl(&self, words: &str) {
        output_of(vsctl(&self.room).args(words.split_whitespace()));
    }
}

/// A daemon of Open vSwitch that keeps its files in the folder of `room`.
fn daemon(room: &Room, program: &str) -> Command {
    let mut command = room.command(program);
    command.env("OVS_RUNDIR", room.dir()).env("OVS_LOGDIR", room.dir());
    command.arg("--pidfile").arg(format!("--unixctl={}", room.file(program).display()));
    command.args(["--log-file", "--no-chdir", "-vconsole:off"]).stderr(Stdio::null());
    command
}

fn start_vswitchd(room: &Room) -> Daemon {
    let vswitchd = Daemon::new(daemon(room, "ovs-vswitchd").arg(unix(&room.file("db.sock"))));
    output_of(vsctl(room).args(["--retry", "show"]));
    vswitchd
}

fn vsctl(room: &Room) -> Command {
    let mut command = room.command("ovs-vsctl");
    command.args(["--timeout=10", &format!("--db={}", unix(&room.file("db.sock")))]);
    command
}

fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}
