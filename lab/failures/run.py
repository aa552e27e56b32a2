"""What do two hosts that talk to each other notice when something happens to their network?"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import lab
import loops
import network
import networks
import traffic

# Requests per second.
RATE = 1000
VERSIONS = ["OpenFlow10", "OpenFlow13"]
# For how long an event is watched, and the pause after it, in seconds.
WATCHED_S, PAUSE_S = 5.0, 6.0
# Frames per second of the host that does harm, those of its multicasts, and for how long, in seconds.
HARM_RATE, MULTICAST_RATE, HARM_S = 3000, 5000, 4
# For how long a switch is without power, in seconds.
POWER_OFF_S = 1


class Experiment:
    """A ring of four switches with the default applications, and hosts that talk to each other.

    Host `a` sends requests to host `b` at `s3`. It is behind a switch without a controller, the wall, which connects it to `s1` or
    to `s2`, so that it can move while no port goes down. Host `c`, at `s2`, does harm. Host `d` is at `s4`.
    """

    def __init__(self, version, link):
        self.net = network.ring(version, 4, link)
        self.add_wall()
        self.a, self.b, self.c, self.d = (self.net.host(switch) for switch in ("wall", "s3", "s2", "s4"))
        self.connect_a_to(1)
        self.controller = control.Controller()
        self.net.bridges.remove("wall")
        self.net.bring_up(self.controller, self.a, self.b)
        self.command = [*lab.PRIORITY, sys.executable, str(HERE / "traffic.py")]
        self.file = self.net.dir / "stream"
        self.ends = [self.b.start(*self.command, "echo")]
        time.sleep(0.5)
        self.ends.append(self.a.start(*self.command, "request", self.b.ip, str(RATE), str(self.file)))
        time.sleep(PAUSE_S)

    def add_wall(self):
        self.net.vsctl("add-br wall -- set bridge wall datapath_type=netdev fail_mode=secure")
        self.net.bridges.append("wall")
        for number, switch in ((1, "s1"), (2, "s2")):
            self.cable(("wall", f"wall{number}", number), (switch, f"{switch}wall", 50))

    def cable(self, *ends):
        """Connects two switches by a pair of ports with these names and numbers."""
        control.run(f"ip link add {ends[0][1]} type veth peer name {ends[1][1]}")
        for switch, port, number in ends:
            control.run(f"ip link set {port} up")
            self.net.vsctl(f"add-port {switch} {port} -- set interface {port} ofport_request={number}")

    def connect_a_to(self, number):
        """Plugs host `a` into the cable to the switch with this number."""
        socket = f"unix:{self.net.dir}/wall.mgmt"
        port = 100 + self.a.number
        control.run(f"ovs-ofctl del-flows {socket}")
        for flow in (f"in_port={port},actions=output:{number}", f"in_port={number},actions=output:{port}"):
            control.run(f"ovs-ofctl add-flow {socket} {flow}")

    def busiest_link(self):
        """The link out of which `s1` sends most frames."""
        ports = {link: f"s1-{other}" for link in self.net.links for other in link if "s1" in link and other != "s1"}
        before = {link: self.net.sent(port) for link, port in ports.items()}
        time.sleep(0.1)
        return max(ports, key=lambda link: self.net.sent(ports[link]) - before[link])

    def harm(self, kind, *arguments, rate=HARM_RATE):
        self.harmful = self.c.start(*self.command, "flood", kind, str(rate), str(HARM_S), *arguments)

    def restart_switch_on_path(self):
        self.net.power_cycle(next(end for end in self.busiest_link() if end != "s1"), POWER_OFF_S)

    def connect_another_network(self):
        """Switches with other datapath ids, whose hosts ping each other."""
        command = [lab.SLUICE, "emu", "--plain", "--topo", "torus,3,3", "-c", self.controller.address]
        self.other_network = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def disconnect_another_network(self):
        self.other_network.terminate()
        self.other_network.wait()

    def restart_controller(self):
        self.controller.process.kill()
        self.controller.process.wait()
        time.sleep(1)
        self.controller = control.Controller()

    def watch(self, event):
        """Lets an event happen and watches the requests; returns the longest gap in milliseconds, and how many were lost."""
        start = time.monotonic_ns()
        event(self)
        time.sleep(max(0, WATCHED_S - (time.monotonic_ns() - start) / 1e9))
        end = time.monotonic_ns()
        time.sleep(0.5)
        data = self.file.read_bytes()
        size = traffic.ROW.size
        rows = list(traffic.ROW.iter_unpack(data[: len(data) // size * size]))
        arrivals = [start] + [at for at, _, _ in rows if start <= at <= end] + [end]
        longest = max(after - before for before, after in zip(arrivals, arrivals[1:]))
        answered = sum(1 for _, _, sent in rows if start <= sent <= end)
        return longest / 1e6, max(0, round((end - start) / 1e9 * RATE) - answered)

    def close(self):
        for end in reversed(self.ends):
            end.terminate()
            end.wait()
        self.controller.stop()
        self.net.close()
        for number in (1, 2):
            control.run(f"ip link del wall{number}")


def cut_link(it):
    it.cut = it.busiest_link()
    control.run(f"ip link set {it.cut[0]}-{it.cut[1]} down")


def restore_link(it):
    control.run(f"ip link set {it.cut[0]}-{it.cut[1]} up")


def cut_link_silently(it):
    it.cut = it.busiest_link()
    it.net.drop(it.cut)


def move(it):
    it.at = 3 - getattr(it, "at", 1)
    it.connect_a_to(it.at)


def add_hub(it):
    it.net.hub("hub")
    for number, switch in ((1, "s3"), (2, "s4")):
        it.cable(("hub", f"hub{number}", number), (switch, f"{switch}hub", 60))


def remove_hub(it):
    it.net.vsctl("del-br hub -- del-port s3 s3hub -- del-port s4 s4hub")
    for number in (1, 2):
        control.run(f"ip link del hub{number}")


def nothing(it):
    pass


PLAIN, SILENT = network.Network.link, network.Network.silent_link

# By name: the links of the network, the event, and what ends it.
EVENTS = {
    "nothing": (PLAIN, nothing, nothing),
    "a link on the path goes down": (PLAIN, cut_link, restore_link),
    "a link on the path fails silently": (SILENT, cut_link_silently, lambda it: it.net.restore(it.cut)),
    "host moves to another switch, and no port goes down": (PLAIN, move, nothing),
    "all flow entries of all switches are deleted": (PLAIN, lambda it: it.net.delete_flows(), nothing),
    "controller is killed, and started again 1 s later": (PLAIN, Experiment.restart_controller, nothing),
    "a hub is connected to two switches": (PLAIN, add_hub, remove_hub),
    "another host sends with this host's MAC address": (PLAIN, lambda it: it.harm("spoofed", it.a.mac), nothing),
    "another host claims this host's IP address": (PLAIN, lambda it: it.harm("claim", it.c.mac, it.a.ip), nothing),
    "another host sends from random to random addresses": (PLAIN, lambda it: it.harm("random"), nothing),
    "another host sends multicasts": (
        PLAIN, lambda it: it.harm("multicast", it.c.mac, it.c.ip, rate=MULTICAST_RATE), nothing,
    ),
    "a switch on the path restarts with empty tables": (PLAIN, Experiment.restart_switch_on_path, nothing),
    "the switch of one of the hosts restarts with empty tables": (
        PLAIN, lambda it: it.net.power_cycle("s3", POWER_OFF_S), nothing,
    ),
    "another network of nine switches connects": (
        PLAIN, Experiment.connect_another_network, Experiment.disconnect_another_network,
    ),
}
# Measurements with a table of their own, by name.
OTHERS = {"loops": loops.measure, "networks": networks.measure}


def measure(version, link, names):
    it = Experiment(version, link)
    results = []
    for name in names:
        _, event, end = EVENTS[name]
        samples = []
        for _ in range(lab.rounds()):
            samples.append(it.watch(event))
            end(it)
            time.sleep(PAUSE_S)
        gaps, lost = zip(*samples)
        results.append({
            "event": name, "version": version,
            "gap_ms": [round(gap, 1) for gap in gaps], "lost": list(lost), "load": os.getloadavg()[0],
        })
        lab.row(
            name, version, f"{statistics.median(gaps):.0f} ms", f"{max(gaps):.0f} ms",
            f"{statistics.median(lost):.0f}", max(lost),
        )
    it.close()
    return results


def store(results):
    """Stores cases in the place of earlier ones of the same name and version."""
    file = HERE / "data" / "gaps.json"
    key = lambda case: (case["version"], case["event"])
    cases = {key(case): case for case in json.loads(file.read_text())["cases"]} if file.exists() else {}
    cases.update((key(case), case) for case in results)
    lab.store("failures/gaps", {"requests_per_second": RATE, "cases": list(cases.values())})


if __name__ == "__main__":
    control.enter_namespaces(*sys.argv[1:])
    chosen = sys.argv[1:] or [*EVENTS, *OTHERS]
    if any(name in EVENTS for name in chosen):
        lab.table("event", "version", "longest gap: median", "worst", "lost: median", "worst")
    for version in VERSIONS:
        for link in (PLAIN, SILENT):
            names = [name for name, (of, *_) in EVENTS.items() if of is link and name in chosen]
            if names:
                store(measure(version, link, names))
    for name, measure_other in OTHERS.items():
        if name in chosen:
            measure_other(VERSIONS)
