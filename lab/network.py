"""Networks of Open vSwitch and hosts for measurements.

    control.enter_namespaces()
    net = network.ring("OpenFlow13", 4)
    h1, h3 = net.host("s1"), net.host("s3")
    controller = control.Controller("--app", "topology,hosts,forwarding")
    net.bring_up(controller, h1, h3)

Needs Open vSwitch (the userspace datapath, no kernel module) in addition to what `control` needs; `scripts/setup.sh` installs it.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

from control import Namespace, run, wait_until

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class Network:
    """Bridges that keep their flow entries without a controller (`fail_mode=secure`), with their links and hosts."""

    def __init__(self, version):
        self.version, self.bridges, self.links, self.hosts = version, [], [], []
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-network-")
        self.dir = pathlib.Path(self.folder.name)
        self.db = f"unix:{self.dir}/db.sock"
        run(f"ovsdb-tool create {self.dir}/conf.db {SCHEMA}")
        self.daemons = [self.start("ovsdb-server", f"{self.dir}/conf.db", f"--remote=p{self.db}")]
        wait_until(lambda: (self.dir / "db.sock").exists())
        self.vsctl("--no-wait init")
        self.daemons.append(self.start("ovs-vswitchd", self.db))
        self.vsctl("--retry show")

    def start(self, program, *arguments):
        command = [program, *arguments, f"--pidfile={self.dir}/{program}.pid", "--no-chdir", "-vconsole:off"]
        command += [f"--unixctl={self.dir}/{program}.ctl", f"--log-file={self.dir}/{program}.log"]
        env = {**os.environ, "OVS_RUNDIR": str(self.dir), "OVS_LOGDIR": str(self.dir)}
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def vsctl(self, command):
        return run(f"ovs-vsctl --timeout=20 --db={self.db} {command}")

    def bridge(self, name):
        self.add_bridge(name, f"{len(self.bridges) + 1:016x}")
        self.bridges.append(name)

    def add_bridge(self, name, datapath_id):
        self.vsctl(
            f"add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure protocols={self.version} "
            f"other_config:datapath-id={datapath_id} other_config:disable-in-band=true"
        )

    def power_cycle(self, name, seconds):
        """Removes a bridge, and sets its ports down, for some seconds; then it has no flow entries, and the ports of before."""
        get = lambda query: self.vsctl(query).strip().strip('"')
        ports = {port: get(f"get interface {port} ofport") for port in get(f"list-ports {name}").split()}
        datapath_id, target = get(f"get bridge {name} datapath_id"), get(f"get-controller {name}")
        for port in ports:
            run(f"ip link set {port} down")
        self.vsctl(f"del-br {name}")
        time.sleep(seconds)
        self.add_bridge(name, datapath_id)
        for port, number in ports.items():
            run(f"ip link set {port} up")
            self.vsctl(f"add-port {name} {port} -- set interface {port} ofport_request={number}")
        self.vsctl(f"set-controller {name} {target} -- set controller {name} max_backoff=1000")

    def hub(self, name):
        """Adds a hub, which no controller manages and which forwards no LLDP."""
        self.vsctl(f"add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure")
        for flow in ("priority=2,dl_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0,actions=drop", "priority=1,actions=flood"):
            run(f"ovs-ofctl add-flow unix:{self.dir}/{name}.mgmt {flow}")

    def link(self, a, b):
        """Connects two bridges by the ports `a-b` and `b-a`."""
        run(f"ip link add {a}-{b} type veth peer name {b}-{a}")
        for bridge, end in ((a, f"{a}-{b}"), (b, f"{b}-{a}")):
            run(f"ip link set {end} up")
            self.vsctl(f"add-port {bridge} {end}")
        self.links.append((a, b))

    def silent_link(self, a, b):
        """Connects two bridges through a third one without a controller, so that a failure changes no port state."""
        middle = f"x{len(self.links)}"
        self.vsctl(f"add-br {middle} -- set bridge {middle} datapath_type=netdev fail_mode=secure")
        for number, (bridge, end) in enumerate(((a, f"{a}-{b}"), (b, f"{b}-{a}")), 1):
            run(f"ip link add {end} type veth peer name {end}x")
            for name in (end, f"{end}x"):
                run(f"ip link set {name} up")
            self.vsctl(f"add-port {bridge} {end}")
            self.vsctl(f"add-port {middle} {end}x -- set interface {end}x ofport_request={number}")
        self.links.append((a, b))
        self.restore(self.links[-1])

    def middle(self, link):
        return f"unix:{self.dir}/x{self.links.index(link)}.mgmt"

    def restore(self, link):
        """Lets the middle bridge of a silent link forward frames."""
        for flow in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
            run(f"ovs-ofctl add-flow {self.middle(link)} {flow}")

    def drop(self, link):
        """Lets the middle bridge of a silent link drop all frames."""
        run(f"ovs-ofctl del-flows {self.middle(link)}")

    def host(self, bridge):
        host = Host(self, len(self.hosts) + 1, bridge)
        self.hosts.append(host)
        return host

    def connect(self, controller):
        for bridge in self.bridges:
            self.vsctl(f"set-controller {bridge} tcp:{controller.address} -- set controller {bridge} max_backoff=1000")

    def bring_up(self, controller, a, b):
        """Connects the switches to a controller; returns when it has found all links and the hosts reach each other."""
        self.connect(controller)
        controller.wait(links=2 * len(self.links))
        wait_until(lambda: a.reaches(b))

    def disconnect(self):
        for bridge in self.bridges:
            self.vsctl(f"del-controller {bridge}")

    def delete_flows(self):
        """Deletes all flow entries, which would otherwise outlive their controller."""
        for bridge in self.bridges:
            run(f"ovs-ofctl -O {self.version} del-flows unix:{self.dir}/{bridge}.mgmt")

    def sent(self, port):
        """Number of frames sent at a port of a bridge."""
        return json.loads(run(f"ip -j -s link show dev {port}"))[0]["stats64"]["tx"]["packets"]

    def close(self):
        for host in self.hosts:
            # Deleting a namespace is asynchronous; delete its link first.
            run(f"ip link del {host.port}")
            run(f"ip netns del {host.name}")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        for a, b in self.links:
            for end in (f"{a}-{b}", f"{b}-{a}"):
                run(f"ip link del {end}", check=False)
        self.folder.cleanup()


class Host(Namespace):
    """A host in a namespace of its own."""

    def __init__(self, net, number, bridge):
        super().__init__(f"h{number}", f"10.0.0.{number}")
        self.number, self.port, self.mac = number, f"port{number}", f"00:00:00:00:00:{number:02x}"
        run(f"ip netns add {self.name}")
        self.prepare()
        run(f"ip link add {self.port} type veth peer name eth0 netns {self.name}")
        run(f"ip -n {self.name} link set eth0 address {self.mac} up")
        run(f"ip -n {self.name} addr add {self.ip}/24 dev eth0")
        # Without this, checksums are left to hardware that does not exist.
        self.run("ethtool -K eth0 tx off")
        run(f"ip link set {self.port} up")
        net.vsctl(f"add-port {bridge} {self.port} -- set interface {self.port} ofport_request={100 + number}")

    def reaches(self, other):
        return " 0% packet loss" in self.run(f"ping -n -q -c 1 -W 3 {other.ip}", check=False)

    def add_neighbour(self, other):
        """Adds a permanent neighbour entry for another host."""
        run(f"ip -n {self.name} neigh replace {other.ip} lladdr {other.mac} dev eth0 nud permanent")

    def flush_neighbours(self):
        """Deletes all neighbour entries."""
        run(f"ip -n {self.name} neigh flush all nud all")


def line(version, count, link=Network.link):
    net = Network(version)
    for number in range(1, count + 1):
        net.bridge(f"s{number}")
    for number in range(1, count):
        link(net, f"s{number}", f"s{number + 1}")
    return net


def ring(version, count, link=Network.link):
    net = line(version, count, link)
    link(net, f"s{count}", "s1")
    return net


def leaf_spine(version, spines, leaves, link=Network.link):
    """Leaves `s1` to `s<leaves>`, each connected to each of the spines, which have the following numbers."""
    net = Network(version)
    for number in range(1, leaves + spines + 1):
        net.bridge(f"s{number}")
    for spine in range(leaves + 1, leaves + spines + 1):
        for leaf in range(1, leaves + 1):
            link(net, f"s{leaf}", f"s{spine}")
    return net
