"""What happens to broadcasts in a ring of four switches, from before the controller starts?"""

import json
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import figure
import lab
import network

# Broadcasts per second of each host.
RATE = 25
# Seconds in which hosts send before the controller starts.
BEFORE_S = 1.0
EVERY_S = 0.1
# Applications, and for how many seconds they run: with a broadcast storm, the ring is cut early.
APPLICATIONS = {"topology,hosts,forwarding": 10, "learning": 4, "hub": 4}
VERSIONS = ["OpenFlow10", "OpenFlow13"]


class BroadcastingHosts:
    """A host at each switch, which sends broadcasts and receives those of the others."""

    def __init__(self, net):
        self.net = net
        self.hosts = [net.host(bridge) for bridge in net.bridges]
        script = [*lab.PRIORITY, sys.executable, str(HERE / "broadcasts.py")]
        self.files = [net.dir / f"{host.name}.json" for host in self.hosts]
        self.receivers = [host.start(*script, "receive", str(file)) for host, file in zip(self.hosts, self.files)]
        time.sleep(0.5)
        options = {"stdout": -1, "text": True}
        self.senders = [host.start(*script, "send", str(host.number), str(RATE), **options) for host in self.hosts]

    def stop(self):
        """Stops sending and receiving; returns the number of broadcasts, and for each the copies that a host received."""
        for sender in self.senders:
            sender.terminate()
        sent = [int(sender.communicate()[0]) for sender in self.senders]
        time.sleep(0.5)
        for receiver in self.receivers:
            receiver.terminate()
            receiver.wait()
        copies = []
        for host, file in zip(self.hosts, self.files):
            # A host also receives its own broadcasts from its own system.
            copies += [count for sender, _, count in json.loads(file.read_text()) if sender != host.number]
        return sum(sent), copies


def frame_counts(net):
    """Frames so far: on the links of the ring, and to the hosts."""
    links = json.loads(control.run("ip -j -s link"))
    frames = {link["ifname"]: link["stats64"] for link in links}
    on_links = sum(frames[f"{a}-{b}"][direction]["packets"] for a, b in net.links for direction in ("rx", "tx"))
    return on_links, sum(frames[host.port]["tx"]["packets"] for host in net.hosts)


def measure(apps, version):
    net = network.ring(version, 4)
    hosts = BroadcastingHosts(net)
    start, series, controller = time.monotonic(), [], None
    while (now := time.monotonic() - start) < BEFORE_S + APPLICATIONS[apps]:
        series.append((round(now, 3), *frame_counts(net)))
        if controller is None and now >= BEFORE_S:
            controller = control.Controller("--app", apps)
            net.connect(controller)
            started_at = round(time.monotonic() - start, 3)
        time.sleep(EVERY_S)
    last = frame_counts(net)
    control.run(f"ip link set {net.links[0][0]}-{net.links[0][1]} down")
    sent, copies = hosts.stop()
    floods = controller.metrics().get("forwarding_floods_total")
    controller.stop()
    net.close()
    seconds = series[-1][0] - started_at
    n_broadcasts = RATE * len(hosts.hosts) * seconds
    first = next(sample for sample in series if sample[0] >= started_at)
    return {
        "row": apps, "version": version, "begun_s": started_at, "series": series,
        "sent": sent, "floods": floods,
        "per_broadcast": {
            "on_links": (last[0] - first[1]) / n_broadcasts,
            "to_a_host": (last[1] - first[2]) / n_broadcasts / (len(hosts.hosts) - 1),
        },
        "copies_max": max(copies, default=0),
        "copies_mean": statistics.mean(copies or [0]),
    }


def rates(series):
    """Frames per second on the links between samples; 0 is drawn as 1."""
    pairs = zip(series, series[1:])
    return [(after[0], max(1, (after[1] - before[1]) / (after[0] - before[0]))) for before, after in pairs]


if __name__ == "__main__":
    control.enter_namespaces()
    results = []
    headers = ["frames on links", "to each host", "copies at most", "frames/s on links at the end"]
    lab.table("applications", "version", *headers)
    for version in VERSIONS:
        for apps in APPLICATIONS:
            one = measure(apps, version)
            results.append(one)
            (t0, a0, _), (t1, a1, _) = one["series"][-6], one["series"][-1]
            lab.row(
                apps, version, f"{one['per_broadcast']['on_links']:.2f}", f"{one['per_broadcast']['to_a_host']:.2f}",
                one["copies_max"], f"{(a1 - a0) / (t1 - t0):.0f}",
            )
    lab.store("storms/ring", {"per_second": RATE * 4, "runs": results})
    panels = [
        figure.Panel(
            figure.Axis("time", "s"), figure.Axis("frames per second on the links", log=True, low=1),
            [figure.Line(one["row"], rates(one["series"]), marks=False) for one in results if one["version"] == version],
            title=version,
        )
        for version in VERSIONS
    ]
    title = f"{RATE * 4} broadcasts per second in a ring of four; the controller starts after {BEFORE_S:.0f} s"
    figure.write(HERE / "ring.svg", title, panels, columns=2)
