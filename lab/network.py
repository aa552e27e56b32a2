"""Networks of Open vSwitch and hosts for measurements, in namespaces that vanish with the process.

    network.alone()                         # first of all: this script again, in namespaces of its own
    net = network.ring("OpenFlow13", 4)
    h1, h3 = net.host("s1"), net.host("s3")
    controller = network.Controller("--app", "topology,hosts,forwarding")
    net.connect(controller)
    controller.wait(links=8)

Needs root, Open vSwitch (its userspace datapath, so no module), and iproute2; `scripts/setup.sh` installs them.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
MARK = "SLUICE_LAB_ALONE"
HERE = pathlib.Path(__file__).resolve().parent


def alone():
    """Goes on only as the first process of namespaces of its own, with which everything started here ends."""
    if os.environ.get(MARK) != "1":
        if os.geteuid() != 0:
            sys.exit("networks are built by root only: run this as root, in a container if you like")
        own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvpe(own[0], [*own, sys.executable, *sys.argv], {**os.environ, MARK: "1"})
    run("mount --make-rprivate /")
    os.makedirs("/run/netns", exist_ok=True)
    run("mount -t tmpfs tmpfs /run/netns")
    run("ip link set lo up")
    silence_ipv6("")


def run(words, check=True):
    """What a command says; words are separated by spaces."""
    done = subprocess.run(words.split(), capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{words}: {done.stderr}{done.stdout}")
    return done.stdout


def silence_ipv6(prefix):
    """Its own chatter would become packet-ins."""
    for which in ("all", "default"):
        run(f"{prefix} sysctl -qw net.ipv6.conf.{which}.disable_ipv6=1")


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
        return run(f"ovs-vsctl --timeout=10 --db={self.db} {words}")

    def flows(self, bridge):
        """Its rules, as `ovs-ofctl` lists them."""
        return run(f"ovs-ofctl -O {self.version} --no-stats dump-flows unix:{self.dir}/{bridge}.mgmt")

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
            self.vsctl(
                f"set-controller {bridge} tcp:127.0.0.1:{controller.port} "
                f"-- set controller {bridge} max_backoff=1000"
            )

    def sent(self, port):
        """Frames that left at a port of a bridge."""
        return counters(f"ip -j -s link show dev {port}")["tx"]["packets"]

    def close(self):
        for host in self.hosts:
            run(f"ip netns del {host.name}")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        for a, b in self.cables:
            for end in (f"{a}-{b}", f"{b}-{a}"):
                run(f"ip link del {end}", check=False)
        self.folder.cleanup()


class Host:
    """A station in a namespace of its own."""

    def __init__(self, net, rank, bridge):
        self.name, self.rank, self.jack, self.bridge = f"h{rank}", rank, f"jack{rank}", bridge
        self.mac, self.ip = f"00:00:00:00:00:{rank:02x}", f"10.0.0.{rank}"
        run(f"ip netns add {self.name}")
        silence_ipv6(f"ip netns exec {self.name}")
        run(f"ip link add {self.jack} type veth peer name eth0 netns {self.name}")
        run(f"ip -n {self.name} link set lo up")
        run(f"ip -n {self.name} link set eth0 address {self.mac} up")
        run(f"ip -n {self.name} addr add {self.ip}/24 dev eth0")
        # Else checksums are left to hardware that is not there.
        run(f"ip netns exec {self.name} ethtool -K eth0 tx off")
        run(f"ip link set {self.jack} up")
        net.vsctl(f"add-port {bridge} {self.jack} -- set interface {self.jack} ofport_request={100 + rank}")

    def run(self, words, check=False):
        return run(f"ip netns exec {self.name} {words}", check)

    def start(self, *words, **more):
        return subprocess.Popen(["ip", "netns", "exec", self.name, *words], **more)

    def reaches(self, other):
        return " 0% packet loss" in self.run(f"ping -n -q -c 1 -W 1 {other.ip}")

    def received(self):
        """Frames that came to it."""
        return counters(f"ip -n {self.name} -j -s link show dev eth0")["rx"]["packets"]


class Controller:
    """A `sluice run` with metrics, at the highest priority."""

    def __init__(self, *arguments, config="", binary=None):
        import lab

        self.port, api = lab.free_port(), lab.free_port()
        self.api = f"http://127.0.0.1:{api}/metrics"
        command = [binary or lab.SLUICE, "run", "--listen", f"127.0.0.1:{self.port}", "--api", f"127.0.0.1:{api}"]
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-controller-")
        self.log = pathlib.Path(self.folder.name) / "log"
        if config:
            file = pathlib.Path(self.folder.name) / "sluice.toml"
            file.write_text(config)
            command += ["--config", str(file)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(lab.FIRST + command + [*arguments], stdout=log, stderr=log)
        until(self.metrics)

    def metrics(self):
        """Numbers by name; those of all workers together."""
        if self.process.poll() is not None:
            sys.exit(f"the controller ended: {self.log.read_text()}")
        try:
            text = urllib.request.urlopen(self.api, timeout=2).read().decode()
        except OSError:
            return {}
        found = {}
        for line in text.splitlines():
            if line.startswith("sluice_"):
                name, value = line.removeprefix("sluice_").rsplit(" ", 1)
                found[name] = float(value)
        return found

    def wait(self, **wanted):
        """Waits until topology finds so many, as in `links=8`; numbers are shown once a second."""
        until(lambda: all(self.metrics().get(f"topology_{name}") == n for name, n in wanted.items()))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def counters(words):
    return json.loads(run(words))[0]["stats64"]


def until(happened, seconds=30):
    late = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > late:
            sys.exit(f"waited {seconds} s in vain")
        time.sleep(0.02)


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
