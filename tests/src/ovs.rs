//! A network of Open vSwitch bridges and hosts in network namespaces.

use std::cell::Cell;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::controller::Controller;
use crate::flow::ListedFlow;
use crate::host::{Host, frames_both_directions};
use crate::pki::Pki;
use crate::process::{Daemon, output_of};
use crate::test_env::TestEnv;
use crate::{OpenFlow, SHORT_TIMEOUT, wait_until};

/// Debian's path of the database schema.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Port number of the first host; hosts' port numbers are requested so that tests know them.
const FIRST_HOST_PORT: u16 = 101;

/// The largest packet of a network with jumbo frames, bytes.
const JUMBO_MTU: u16 = 9000;

/// Open vSwitch with the userspace datapath, running in a [`TestEnv`].
#[derive(Debug)]
pub struct OvsNetwork {
    version: OpenFlow,
    bridges: Vec<String>,
    next_port: Cell<u16>,
    hosts: Cell<u8>,
    vswitchd: Daemon,
    _ovsdb: Daemon,
    env: TestEnv,
}

/// A bridge without power, and what is needed to add it again.
#[derive(Debug)]
pub struct PoweredOff {
    bridge: String,
    datapath_id: String,
    /// Names of the interfaces, and their port numbers.
    ports: Vec<(String, String)>,
}

impl OvsNetwork {
    /// Starts Open vSwitch without bridges.
    pub fn new(env: TestEnv, version: OpenFlow) -> Self {
        let (db, socket) = (env.file("conf.db"), env.file("db.sock"));
        output_of(Command::new("ovsdb-tool").arg("create").arg(&db).arg(SCHEMA));
        let ovsdb = Daemon::new(
            daemon(&env, "ovsdb-server").arg(&db).arg(format!("--remote=p{}", unix(&socket))),
        );
        wait_until(SHORT_TIMEOUT, "ovsdb-server", || UnixStream::connect(&socket).is_ok());
        output_of(vsctl(&env).args(["--no-wait", "init"]));
        let vswitchd = start_vswitchd(&env);
        let (next_port, hosts) = (Cell::new(FIRST_HOST_PORT), Cell::new(0));
        Self { version, bridges: Vec::new(), next_port, hosts, vswitchd, _ovsdb: ovsdb, env }
    }

    /// Sets a link down; `a` and `b` in the order in which [`link`](Self::link) got them.
    pub fn cut_link(&self, a: &str, b: &str) {
        self.ip(&format!("link set {a}-{b} down"));
    }

    /// Puts it back.
    pub fn restore_link(&self, a: &str, b: &str) {
        self.ip(&format!("link set {a}-{b} up"));
    }

    /// Removes the port of `a` on the link to `b`; `b` sees no change of its port.
    pub fn remove_link_port(&self, a: &str, b: &str) {
        self.vsctl(&format!("del-port {a} {a}-{b}"));
    }

    /// Puts it back.
    pub fn add_link_port(&self, a: &str, b: &str) {
        self.vsctl(&format!("add-port {a} {a}-{b}"));
    }

    /// Packets that the link between two bridges has carried, both directions together.
    #[track_caller]
    pub fn packets_on_link(&self, a: &str, b: &str) -> u64 {
        frames_both_directions(&self.env.ip(&format!("-s link show {a}-{b}")))
    }

    /// Adds a bridge with `fail_mode=secure`, which keeps its flow entries without a controller.
    pub fn bridge(&mut self, name: &str, datapath_id: u64) {
        self.add_bridge(name, &format!("{datapath_id:016x}"));
        self.bridges.push(name.to_owned());
    }

    /// Limits the flow table of `bridge`; further entries are refused.
    pub fn limit_flow_entries(&self, bridge: &str, flow_limit: u16) {
        self.vsctl(&format!(
            "-- --id=@table create Flow_Table flow_limit={flow_limit} overflow_policy=refuse \
             -- set bridge {bridge} flow_tables:0=@table"
        ));
    }

    /// Removes that limit.
    pub fn unlimit_flow_entries(&self, bridge: &str) {
        self.vsctl(&format!("clear bridge {bridge} flow_tables"));
    }

    /// Lets all ports and cables of the bridges, those of hosts included, carry packets of up to 9 000 bytes.
    #[track_caller]
    pub fn enable_jumbo_frames(&self, hosts: &[Host]) {
        for interface in self.bridges.iter().flat_map(|bridge| self.interfaces(bridge)) {
            self.ip(&format!("link set {interface} mtu {JUMBO_MTU}"));
        }
        for host in hosts {
            host.set_mtu(JUMBO_MTU);
        }
    }

    /// Links two bridges by a veth pair.
    pub fn link(&self, a: &str, b: &str) {
        let (from, to) = (format!("{a}-{b}"), format!("{b}-{a}"));
        self.ip(&format!("link add {from} type veth peer name {to}"));
        self.ip(&format!("link set {from} up"));
        self.ip(&format!("link set {to} up"));
        self.vsctl(&format!("add-port {a} {from} -- add-port {b} {to}"));
    }

    /// Links two bridges by patch ports, through which `ofproto/trace` follows packets.
    pub fn patch(&self, a: &str, b: &str) {
        for (bridge, port, peer) in [
            (a, format!("{a}-{b}"), format!("{b}-{a}")),
            (b, format!("{b}-{a}"), format!("{a}-{b}")),
        ] {
            self.vsctl(&format!(
                "add-port {bridge} {port} -- set interface {port} type=patch options:peer={peer}"
            ));
        }
    }

    /// Adds a host at a new port of `bridge`.
    pub fn host(&self, bridge: &str) -> Host {
        self.hosts.set(self.hosts.get() + 1);
        self.add_host(self.hosts.get(), bridge)
    }

    /// Adds another host with the addresses of `host`, at a new port of `bridge`.
    pub fn duplicate_host(&self, host: &Host, bridge: &str) -> Host {
        self.add_host(host.number, bridge)
    }

    /// Adds the place of a host at a new port of `bridge`. Nothing sends there until it
    /// [has addresses](Host::take_addresses_of).
    pub fn vacant_place(&self, bridge: &str) -> Host {
        let place = self.host(bridge);
        place.become_silent();
        place
    }

    /// Moves `host` from bridge `from` to a new port of bridge `to`.
    pub fn move_host(&self, host: &mut Host, from: &str, to: &str) {
        self.vsctl(&format!("del-port {from} {}", host.interface));
        self.attach(host, to);
    }

    /// Sets the port of `host` down.
    pub fn disable_port(&self, host: &Host) {
        self.ip(&format!("link set {} down", host.interface));
    }

    /// Sets it up again.
    pub fn enable_port(&self, host: &Host) {
        self.ip(&format!("link set {} up", host.interface));
    }

    /// Sets `controller` as the controller of every bridge and waits until all sessions are established.
    #[track_caller]
    pub fn connect(&self, controller: &Controller) {
        let before = controller.sessions();
        for bridge in &self.bridges {
            self.set_controller(bridge, controller);
        }
        controller.wait_for_sessions(before + self.bridges.len());
    }

    /// Sets the controller of `bridge`; it retries once a second.
    pub fn set_controller(&self, bridge: &str, controller: &Controller) {
        self.set_controller_at(bridge, controller.address());
    }

    /// Sets the controller of `bridge` by an address, for example `10.9.0.2:6653`; it retries once a second.
    pub fn set_controller_at(&self, bridge: &str, address: &str) {
        self.vsctl(&format!(
            "set-controller {bridge} tcp:{address} -- set controller {bridge} max_backoff=1000"
        ));
    }

    /// Sets the address of the TLS listener of a controller for `bridge`; it retries once a second.
    pub fn set_tls_controller(&self, bridge: &str, address: &str) {
        self.vsctl(&format!(
            "set-controller {bridge} ssl:{address} -- set controller {bridge} max_backoff=1000"
        ));
    }

    /// Gives all bridges the certificate `name` of an authority.
    pub fn set_certificate(&self, pki: &Pki, name: &str) {
        let [key, certificate, ca] =
            [format!("{name}.key"), format!("{name}.pem"), "ca.pem".to_owned()]
                .map(|file| pki.file(&file).display().to_string());
        self.vsctl(&format!("set-ssl {key} {certificate} {ca}"));
    }

    /// Sets a controller address that refuses connections; `bridge` keeps its flow entries.
    pub fn set_unreachable_controller(&self, bridge: &str) {
        self.vsctl(&format!("set-controller {bridge} tcp:127.0.0.1:1"));
    }

    /// Removes the controller of `bridge`.
    pub fn clear_controller(&self, bridge: &str) {
        self.vsctl(&format!("del-controller {bridge}"));
    }

    /// Lets `bridge` act as a plain learning switch (`fail_mode=standalone`).
    pub fn make_standalone(&self, bridge: &str) {
        self.vsctl(&format!("set bridge {bridge} fail_mode=standalone"));
    }

    /// How many times `bridge` has connected to a controller.
    pub fn connections(&self, bridge: &str) -> usize {
        self.events(bridge, &[": connected"])
    }

    /// How many times `bridge` has lost its controller: closed, reset or timed out.
    pub fn disconnections(&self, bridge: &str) -> usize {
        self.events(bridge, &["closed by peer", "connection dropped", "disconnecting"])
    }

    /// Sets the loopback interface down, so that control connections break without FIN or RST.
    pub fn cut_control_network(&self) {
        self.ip("link set lo down");
    }

    /// Sets the loopback interface up again.
    pub fn restore_control_network(&self) {
        self.ip("link set lo up");
    }

    /// Removes `bridge`, as if its power had failed: its flow entries are lost, and its ports and those at the other ends of their
    /// cables go down.
    #[track_caller]
    pub fn power_off(&self, bridge: &str) -> PoweredOff {
        let interfaces = self.interfaces(bridge);
        let number_of = |name: &String| {
            let number = output_of(vsctl(&self.env).args(["get", "interface", name, "ofport"]));
            number.trim().to_owned()
        };
        let datapath_id =
            output_of(vsctl(&self.env).args(["get", "bridge", bridge, "datapath_id"]));
        let ports = interfaces.iter().map(|name| (name.clone(), number_of(name))).collect();
        for name in &interfaces {
            self.ip(&format!("link set {name} down"));
        }
        self.vsctl(&format!("del-br {bridge}"));
        let datapath_id = datapath_id.trim().trim_matches('"').to_owned();
        PoweredOff { bridge: bridge.to_owned(), datapath_id, ports }
    }

    /// Adds a bridge that was [powered off](Self::power_off) again, with the same ports and without flow entries.
    #[track_caller]
    pub fn power_on(&self, switch: PoweredOff, controller: &Controller) {
        let PoweredOff { bridge, datapath_id, ports } = switch;
        self.add_bridge(&bridge, &datapath_id);
        for (name, number) in ports {
            self.ip(&format!("link set {name} up"));
            self.vsctl(&format!(
                "add-port {bridge} {name} -- set interface {name} ofport_request={number}"
            ));
        }
        self.set_controller(&bridge, controller);
    }

    /// Kills `ovs-vswitchd` and starts it again, with empty flow tables.
    #[track_caller]
    pub fn restart_switches(&mut self) {
        self.vswitchd.kill();
        self.vswitchd = start_vswitchd(&self.env);
    }

    /// The flow entries of `bridge`.
    #[track_caller]
    pub fn flows(&self, bridge: &str) -> Vec<ListedFlow> {
        let mut ofctl = self.env.command("ovs-ofctl");
        ofctl.args(["-O", self.version.name(), "--no-names", "--no-stats", "dump-flows"]);
        // Over the management socket: independent of the controller connection.
        let socket = self.env.file(&format!("{bridge}.mgmt"));
        ListedFlow::list(&output_of(ofctl.arg(unix(&socket))))
    }

    /// Runs `ovs-ofctl command bridge arguments`, as an operator would.
    #[track_caller]
    pub fn ofctl(&self, command: &str, bridge: &str, arguments: &[&str]) {
        self.ofctl_output(command, bridge, arguments);
    }

    /// As [`ofctl`](Self::ofctl); what it prints.
    #[track_caller]
    pub fn ofctl_output(&self, command: &str, bridge: &str, arguments: &[&str]) -> String {
        let mut ofctl = self.env.command("ovs-ofctl");
        let socket = self.env.file(&format!("{bridge}.mgmt"));
        ofctl.args(["-O", self.version.name(), command, &unix(&socket)]).args(arguments);
        output_of(&mut ofctl)
    }

    /// The flow entries of `bridge` whose destination is `host`.
    #[track_caller]
    pub fn flows_to(&self, bridge: &str, host: &Host) -> Vec<ListedFlow> {
        let mut flows = self.flows(bridge);
        flows.retain(|flow| flow.value("dl_dst") == Some(&host.mac()));
        flows
    }

    /// The number of flow entries of `bridge` that only send to `port`.
    #[track_caller]
    pub fn entries_to_port(&self, bridge: &str, port: u16) -> usize {
        let output = format!("output:{port}");
        self.flows(bridge).iter().filter(|entry| entry.actions() == output).count()
    }

    /// The port of `a` on the link to `b`, which may be bridges or hubs.
    ///
    /// # Panics
    /// When there is no such link.
    #[track_caller]
    pub fn link_port(&self, a: &str, b: &str) -> u16 {
        let name = format!("{a}-{b}");
        let number = output_of(vsctl(&self.env).args(["get", "interface", &name, "ofport"]));
        number.trim().parse().unwrap_or_else(|e| panic!("port number of {name}: {number:?}: {e}"))
    }

    /// Waits until `bridge` has flow entries to `host`, all of them to its port.
    ///
    /// # Panics
    /// When that is not so within [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn assert_forwards_to(&self, bridge: &str, host: &Host) {
        let (what, output) = (format!("{bridge} to forward to {host:?}"), host.output());
        wait_until(SHORT_TIMEOUT, &what, || {
            let flows = self.flows_to(bridge, host);
            !flows.is_empty() && flows.iter().all(|flow| flow.actions() == output)
        });
    }

    /// Waits until `topology` has sent `count` more probes, one a second through each port by default.
    ///
    /// By then timers have run again, and the metrics of applications, which are collected once a second, are new.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for_probes(&self, count: u64) {
        let sent = || self.env.metric("topology_probes_sent_total").unwrap_or_default();
        let wanted = sent() + count;
        wait_until(SHORT_TIMEOUT, &format!("{count} more probes"), || sent() >= wanted);
    }

    /// Names of the bridges that a controller manages.
    pub(crate) fn bridges(&self) -> &[String] {
        &self.bridges
    }

    /// The environment that it runs in.
    pub fn env(&self) -> &TestEnv {
        &self.env
    }

    /// Counts log lines; the database shows connections up to 5 s late.
    fn events(&self, bridge: &str, words: &[&str]) -> usize {
        let log = fs::read_to_string(self.env.file("ovs-vswitchd.log")).unwrap_or_default();
        let bridge = format!("|{bridge}<->tcp:");
        let lines = log.lines().filter(|line| line.contains(&bridge));
        lines.filter(|line| words.iter().any(|word| line.contains(word))).count()
    }

    /// The interfaces of `bridge`, those of hosts included.
    #[track_caller]
    fn interfaces(&self, bridge: &str) -> Vec<String> {
        let list = output_of(vsctl(&self.env).args(["list-ports", bridge]));
        list.split_whitespace().map(str::to_owned).collect()
    }

    #[track_caller]
    fn add_bridge(&self, name: &str, datapath_id: &str) {
        self.vsctl(&format!(
            "add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure \
             protocols={} other_config:datapath-id={datapath_id} \
             other_config:disable-in-band=true",
            self.version.name()
        ));
    }

    fn add_host(&self, number: u8, bridge: &str) -> Host {
        let interface = format!("interface{}", self.next_port.get());
        let mut host = Host::new(number, &self.env, &interface);
        self.ip(&format!("link set {interface} up"));
        self.attach(&mut host, bridge);
        host
    }

    fn attach(&self, host: &mut Host, bridge: &str) {
        host.port = self.next_port.get();
        self.next_port.set(host.port + 1);
        let (interface, port) = (&host.interface, host.port);
        self.vsctl(&format!(
            "add-port {bridge} {interface} -- set interface {interface} ofport_request={port}"
        ));
    }

    #[track_caller]
    pub(crate) fn ip(&self, words: &str) {
        self.env.ip(words);
    }

    #[track_caller]
    pub(crate) fn vsctl(&self, words: &str) {
        output_of(vsctl(&self.env).args(words.split_whitespace()));
    }
}

/// A daemon of Open vSwitch with its files in the folder of `env`.
fn daemon(env: &TestEnv, program: &str) -> Command {
    let mut command = env.command(program);
    command.env("OVS_RUNDIR", env.dir()).env("OVS_LOGDIR", env.dir());
    command.arg("--pidfile").arg(format!("--unixctl={}", env.file(program).display()));
    command.args(["--log-file", "--no-chdir", "-vconsole:off"]).stderr(Stdio::null());
    command
}

fn start_vswitchd(env: &TestEnv) -> Daemon {
    let vswitchd = Daemon::new(daemon(env, "ovs-vswitchd").arg(unix(&env.file("db.sock"))));
    output_of(vsctl(env).args(["--retry", "show"]));
    vswitchd
}

fn vsctl(env: &TestEnv) -> Command {
    let mut command = env.command("ovs-vsctl");
    command.args(["--timeout=10", &format!("--db={}", unix(&env.file("db.sock")))]);
    command
}

fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}
