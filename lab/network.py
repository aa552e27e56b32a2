"""Networks of Open vSwitch and hosts for measurements.

    control.alone()
    net = network.ring("OpenFlow13", 4)
    h1, h3 = net.host("s1"), net.host("s3")
    controller = control.Controller("--app", "topology,hosts,forwarding")
    net.bring_up(controller, h1, h3)

Needs Open vSwitch (its userspace datapath, so no module) beside what `control` does; `scripts/setup.sh` installs it.
"""

import json
import os
import pathlib
import subprocess
import tempfile

from control import Space, run, until

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class Network:
    """Bridges that keep their rules when they lose their controller, and what is plugged into them."""

    def __init__(self, version):
        self.version, self.bridges, self.cables, self.hosts = version, [], [], []
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-network-")
        self.dir = pathlib.Path(self.folder.name)
        self.db = f"unix:{self.dir}/db.sock"
        run(f"ovsdb-tool create {self.dir}/conf.db {SCHEMA}")
        self.daemons = [self.start("ovsdb-server", f"{self.dir}/conf.db", f"--remote=p{self.db}")]
        until(lambda: (self.dir / "db.sock").exists())
        self.vsctl("--no-wait init")
        self.daemons.append(self.start("ovs-vswitchd", self.db))
        self.vsctl("--retry show")

    def start(self, program, *arguments):
        command = [program, *arguments, f"--pidfile={self.dir}/{program}.pid", "--no-chdir", "-vconsole:off"]
        command += [f"--unixctl={self.dir}/{program}.ctl", f"--log-file={self.dir}/{program}.log"]
        env = {**os.environ, "OVS_RUNDIR": str(self.dir), "OVS_LOGDIR": str(self.dir)}
        return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def vsctl(self, words):
        return run(f"ovs-vsctl --timeout=20 --db={self.db} {words}")

    def bridge(self, name):
        rank = len(self.bridges) + 1
        self.vsctl(
            f"add-br {name} -- set bridge {name} datapath_type=netdev fail_mode=secure protocols={self.version} "
            f"other_config:datapath-id={rank:016x} other_config:disable-in-band=true"
        )
        self.bridges.append(name)

    def cable(self, a, b):
        """Joins two bridges: ports `a-b` and `b-a`."""
        run(f"ip link add {a}-{b} type veth peer name {b}-{a}")
        for bridge, end in ((a, f"{a}-{b}"), (b, f"{b}-{a}")):
            run(f"ip link set {end} up")
            self.vsctl(f"add-port {bridge} {end}")
        self.cables.append((a, b))

    def silent_cable(self, a, b):
        """The same, through a bridge of nobody's that carries every frame on; cutting that is heard by neither end."""
        middle = f"x{len(self.cables)}"
        self.vsctl(f"add-br {middle} -- set bridge {middle} datapath_type=netdev fail_mode=secure")
        for rank, (bridge, end) in enumerate(((a, f"{a}-{b}"), (b, f"{b}-{a}")), 1):
            run(f"ip link add {end} type veth peer name {end}x")
            for name in (end, f"{end}x"):
                run(f"ip link set {name} up")
            self.vsctl(f"add-port {bridge} {end}")
            self.vsctl(f"add-port {middle} {end}x -- set interface {end}x ofport_request={rank}")
        self.cables.append((a, b))
        self.carry(self.cables[-1])

    def middle(self, cable):
        return f"unix:{self.dir}/x{self.cables.index(cable)}.mgmt"

    def carry(self, cable):
        """Has a silent cable carry frames."""
        for way in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
            run(f"ovs-ofctl add-flow {self.middle(cable)} {way}")

    def drop(self, cable):
        """Has it lose them."""
        run(f"ovs-ofctl del-flows {self.middle(cable)}")

    def host(self, bridge):
        host = Host(self, len(self.hosts) + 1, bridge)
        self.hosts.append(host)
        return host

    def connect(self, controller):
        for bridge in self.bridges:
            self.vsctl(f"set-controller {bridge} tcp:{controller.address} -- set controller {bridge} max_backoff=1000")

    def bring_up(self, controller, a, b):
        """Connects it, until it has found all links and these hosts reach each other."""
        self.connect(controller)
        controller.wait(links=2 * len(self.cables))
        until(lambda: a.reaches(b))

    def disconnect(self):
        for bridge in self.bridges:
            self.vsctl(f"del-controller {bridge}")

    def forget(self):
        """Has all rules go: those of a controller would outlive it."""
        for bridge in self.bridges:
            run(f"ovs-ofctl -O {self.version} del-flows unix:{self.dir}/{bridge}.mgmt")

    def sent(self, port):
        """Frames that left at a port of a bridge."""
        return json.loads(run(f"ip -j -s link show dev {port}"))[0]["stats64"]["tx"]["packets"]

    def close(self):
        for host in self.hosts:
            # A namespace takes its time to go, and its cable with it.
            run(f"ip link del {host.jack}")
            run(f"ip netns del {host.name}")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        for a, b in self.cables:
            for end in (f"{a}-{b}", f"{b}-{a}"):
                run(f"ip link del {end}", check=False)
        self.folder.cleanup()


class Host(Space):
    """A host in a namespace of its own."""

    def __init__(self, net, rank, bridge):
        super().__init__(f"h{rank}", f"10.0.0.{rank}")
        self.rank, self.jack, self.mac = rank, f"jack{rank}", f"00:00:00:00:00:{rank:02x}"
        run(f"ip netns add {self.name}")
        self.prepare()
        run(f"ip link add {self.jack} type veth peer name eth0 netns {self.name}")
        run(f"ip -n {self.name} link set eth0 address {self.mac} up")
        run(f"ip -n {self.name} addr add {self.ip}/24 dev eth0")
        # Else checksums are left to hardware that is not there.
        self.run("ethtool -K eth0 tx off")
        run(f"ip link set {self.jack} up")
        net.vsctl(f"add-port {bridge} {self.jack} -- set interface {self.jack} ofport_request={100 + rank}")

    def reaches(self, other):
        return " 0% packet loss" in self.run(f"ping -n -q -c 1 -W 3 {other.ip}", check=False)

    def know(self, other):
        """Has it know the address of another for good."""
        run(f"ip -n {self.name} neigh replace {other.ip} lladdr {other.mac} dev eth0 nud permanent")

    def forget(self):
        """Has it know no addresses."""
        run(f"ip -n {self.name} neigh flush all nud all")


def line(version, count, cable=Network.cable):
    net = Network(version)
    for rank in range(1, count + 1):
        net.bridge(f"s{rank}")
    for rank in range(1, count):
        cable(net, f"s{rank}", f"s{rank + 1}")
    return net


def ring(version, count, cable=Network.cable):
    net = line(version, count, cable)
    cable(net, f"s{count}", "s1")
    return net


def leaf_spine(version, spines, leaves, cable=Network.cable):
    """Leaves `s1` to `s<leaves>`, each joined to each of the spines that follow."""
    net = Network(version)
    for rank in range(1, leaves + spines + 1):
        net.bridge(f"s{rank}")
    for spine in range(leaves + 1, leaves + spines + 1):
        for leaf in range(1, leaves + 1):
            cable(net, f"s{leaf}", f"s{spine}")
    return net
