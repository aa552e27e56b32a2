"""Open vSwitch in a namespace, its controller in another one, a `sluice link` between them, and two hosts. Needs root.

    with ovs.Line(4) as line:
        line.link("--delay", "5ms", "--rate", "10Mbit")
        line.start({"SLUICE_FORWARDING__MATCH": "five_tuple"})
        line.say("delay 50ms")
        line.inside("h1", "ping", "-c", "1", "10.0.0.2")
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import lab

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
ADDRESS, PORT, API = "10.9.0.2", 6653, 8653
# Prints what the controller counts: it is in another namespace.
METRICS = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{API}/metrics').read().decode())"


def wait_until(what, happened, seconds=30):
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            sys.exit(f"after {seconds} s, still waiting for {what}")
        time.sleep(0.05)


class Line:
    """Switches s1 to sN in a row, host h1 (10.0.0.1) at the first, h2 (10.0.0.2) at the last."""

    def __init__(self, count):
        self.count, self.prefix = count, f"lab{os.getpid()}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=self.prefix))
        self.daemons, self.spaces = [], []
        self.controller = None

    def __enter__(self):
        for name in ("sw", "ctl", "h1", "h2"):
            space = f"{self.prefix}-{name}"
            self.run("ip", "netns", "add", space)
            self.spaces.append(space)
            self.run("ip", "-n", space, "link", "set", "lo", "up")
            off = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]
            self.inside(name, "sysctl", "-qw", *off)
        self.switch_on()
        return self

    def __exit__(self, *_):
        self.stop()
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space])
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout

    def within(self, name):
        """What a command begins with that runs in a namespace; not `ip netns exec`, which hides those made later."""
        return ["nsenter", f"--net=/run/netns/{self.prefix}-{name}"]

    def inside(self, name, *words):
        return self.run(*self.within(name), *words)

    def daemon(self, name, *words, **how):
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **how}
        process = subprocess.Popen([*self.within(name), *map(str, words)], **how)
        self.daemons.append(process)
        return process

    def vsctl(self, *words):
        return self.run("ovs-vsctl", "--timeout=20", f"--db=unix:{self.dir}/db.sock", *map(str, words))

    def switch_on(self):
        env = {**os.environ, **{f"OVS_{what}DIR": str(self.dir) for what in ("RUN", "LOG", "DB")}}
        self.run("ovsdb-tool", "create", f"{self.dir}/conf.db", SCHEMA)
        quiet = ["--no-chdir", "-vconsole:off", "--log-file", "--pidfile"]
        self.daemon("sw", "ovsdb-server", f"{self.dir}/conf.db", f"--remote=punix:{self.dir}/db.sock", *quiet, env=env)
        wait_until("ovsdb-server", (self.dir / "db.sock").exists)
        self.vsctl("--no-wait", "init")
        self.daemon("sw", "ovs-vswitchd", f"unix:{self.dir}/db.sock", *quiet, env=env)
        for n in range(1, self.count + 1):
            self.vsctl(
                "add-br", f"s{n}", "--", "set", "bridge", f"s{n}", "datapath_type=netdev", "fail_mode=secure",
                "protocols=OpenFlow13", f"other_config:datapath-id={n:016x}", "other_config:disable-in-band=true",
            )
        for n in range(1, self.count):
            near, far = f"s{n}-s{n + 1}", f"s{n + 1}-s{n}"
            self.inside("sw", "ip", "link", "add", near, "type", "veth", "peer", "name", far)
            for port, bridge in ((near, f"s{n}"), (far, f"s{n + 1}")):
                self.inside("sw", "ip", "link", "set", port, "up")
                self.vsctl("add-port", bridge, port)
        for n, bridge in ((1, "s1"), (2, f"s{self.count}")):
            self.inside("sw", "ip", "link", "add", f"jack{n}", "type", "veth", "peer", "name", "eth0",
                        "netns", f"{self.prefix}-h{n}")
            self.inside("sw", "ip", "link", "set", f"jack{n}", "up")
            self.inside(f"h{n}", "ip", "link", "set", "eth0", "address", f"00:00:00:00:00:0{n}", "up")
            self.inside(f"h{n}", "ip", "addr", "add", f"10.0.0.{n}/24", "dev", "eth0")
            # Else checksums are left to hardware that is not there.
            self.inside(f"h{n}", "ethtool", "-K", "eth0", "tx", "off")
            self.vsctl("add-port", bridge, f"jack{n}")

    def link(self, *options):
        """The control link; `say` changes it."""
        names = [f"{self.prefix}-{name}" for name in ("sw", "ctl")]
        command = ["link", "--from", names[0], "--to", names[1], *options]
        process = subprocess.Popen(
            [lab.SLUICE, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.daemons.append(process)
        self.line = process
        self.hear("ready")

    def hear(self, words):
        for line in self.line.stdout:
            if line.startswith(words):
                return
        sys.exit(f"sluice link ended before it said {words}")

    def say(self, line):
        self.line.stdin.write(line + "\n")
        self.line.stdin.flush()
        self.hear(f"ok: {line}")

    def start(self, env, *options):
        """The controller, until all links are found and the hosts reach each other."""
        self.stop()
        command = [lab.SLUICE, "run", "--listen", f"{ADDRESS}:{PORT}", "--threads", "1", "--api", f"127.0.0.1:{API}"]
        self.controller = self.daemon("ctl", *command, *options, env={**os.environ, **env})
        for n in range(1, self.count + 1):
            self.vsctl("set-controller", f"s{n}", f"tcp:{ADDRESS}:{PORT}",
                       "--", "set", "controller", f"s{n}", "max_backoff=1000")
        links = 2 * (self.count - 1)
        wait_until("all links", lambda: self.metrics().get("topology_links") == links and self.reach(), 60)

    def reconnect(self, seconds):
        """New control connections, whose windows are those of the beginning; they may take so long to be of use."""
        bridges = [f"s{n}" for n in range(1, self.count + 1)]
        for bridge in bridges:
            self.vsctl("del-controller", bridge)
        time.sleep(2)
        for bridge in bridges:
            self.vsctl("set-controller", bridge, f"tcp:{ADDRESS}:{PORT}",
                       "--", "set", "controller", bridge, "max_backoff=1000")
        time.sleep(seconds)
        wait_until("the hosts to reach", self.reach)

    def stop(self):
        if self.controller:
            self.controller.terminate()
            self.controller.wait()
            self.daemons.remove(self.controller)
            self.controller = None
            # Their rules would outlive it.
            for n in range(1, self.count + 1):
                self.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", f"unix:{self.dir}/s{n}.mgmt")

    def reach(self):
        words = [*self.within("h1"), "ping", "-n", "-q", "-c", "1", "-W", "3", "10.0.0.2"]
        return subprocess.run(words, capture_output=True).returncode == 0

    def metrics(self):
        done = subprocess.run([*self.within("ctl"), sys.executable, "-c", METRICS], capture_output=True, text=True)
        lines = (line.split() for line in done.stdout.splitlines() if line.startswith("sluice_") and "{" not in line)
        return {name.removeprefix("sluice_"): float(value) for name, value in lines}

    def script(self, name, text, *words):
        """Runs lines of Python in a namespace; what they print, as JSON."""
        return json.loads(self.inside(name, sys.executable, "-c", text, *map(str, words)))

    def neighbours(self, known):
        """Has both hosts know each other's addresses for good, or not at all."""
        for n, other in ((1, 2), (2, 1)):
            self.inside(f"h{n}", "ip", "neigh", "flush", "all", "nud", "all")
            if known:
                self.inside(f"h{n}", "ip", "neigh", "replace", f"10.0.0.{other}", "lladdr",
                            f"00:00:00:00:00:0{other}", "dev", "eth0", "nud", "permanent")
