"""What becomes of broadcasts in a ring of four, from before there is a controller?"""

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

# Broadcasts a second, of each host.
RATE = 25
# Seconds with hosts that speak before there is a controller.
BEFORE_S = 1.0
EVERY_S = 0.1
# Applications, and for how many seconds: where it storms, the ring is cut before anything else suffers.
ROWS = {"topology,hosts,forwarding": 10, "learning": 4, "hub": 4}
VERSIONS = ["OpenFlow10", "OpenFlow13"]


class Crowd:
    """A host at each switch; all speak to all, and listen."""

    def __init__(self, net):
        self.net = net
        self.hosts = [net.host(bridge) for bridge in net.bridges]
        script = [*lab.FIRST, sys.executable, str(HERE / "crowd.py")]
        self.files = [net.dir / f"{host.name}.json" for host in self.hosts]
        self.ears = [host.start(*script, "listen", str(file)) for host, file in zip(self.hosts, self.files)]
        time.sleep(0.5)
        said = {"stdout": -1, "text": True}
        self.mouths = [host.start(*script, "shout", str(host.rank), str(RATE), **said) for host in self.hosts]

    def stop(self):
        """How many broadcasts there were, and the copies of each that a host heard."""
        for mouth in self.mouths:
            mouth.terminate()
        sent = [int(mouth.communicate()[0]) for mouth in self.mouths]
        time.sleep(0.5)
        for ear in self.ears:
            ear.terminate()
            ear.wait()
        copies = []
        for host, file in zip(self.hosts, self.files):
            # Its own come back to a host by way of its own system.
            copies += [count for rank, _, count in json.loads(file.read_text()) if rank != host.rank]
        return sum(sent), copies


def look(net):
    """Frames so far: on the links of the ring, and to hosts."""
    links = json.loads(control.run("ip -j -s link"))
    frames = {link["ifname"]: link["stats64"] for link in links}
    on_links = sum(frames[f"{a}-{b}"][way]["packets"] for a, b in net.cables for way in ("rx", "tx"))
    return on_links, sum(frames[host.jack]["tx"]["packets"] for host in net.hosts)


def measure(row, version):
    net = network.ring(version, 4)
    crowd = Crowd(net)
    start, series, controller = time.monotonic(), [], None
    while (now := time.monotonic() - start) < BEFORE_S + ROWS[row]:
        series.append((round(now, 3), *look(net)))
        if controller is None and now >= BEFORE_S:
            controller = control.Controller("--app", row)
            net.connect(controller)
            begun = round(time.monotonic() - start, 3)
        time.sleep(EVERY_S)
    storm = look(net)
    control.run(f"ip link set {net.cables[0][0]}-{net.cables[0][1]} down")
    sent, copies = crowd.stop()
    floods = controller.metrics().get("forwarding_floods_total")
    controller.stop()
    net.close()
    seconds = series[-1][0] - begun
    spoken = RATE * len(crowd.hosts) * seconds
    at = next(sample for sample in series if sample[0] >= begun)
    return {
        "row": row, "version": version, "begun_s": begun, "series": series,
        "sent": sent, "floods": floods,
        "per_broadcast": {
            "on_links": (storm[0] - at[1]) / spoken,
            "to_a_host": (storm[1] - at[2]) / spoken / (len(crowd.hosts) - 1),
        },
        "copies_max": max(copies, default=0),
        "copies_mean": statistics.mean(copies or [0]),
    }


def rates(series):
    """Frames a second on the links, from sample to sample; none is drawn as one."""
    pairs = zip(series, series[1:])
    return [(after[0], max(1, (after[1] - before[1]) / (after[0] - before[0]))) for before, after in pairs]


if __name__ == "__main__":
    control.alone()
    found = []
    heads = ["frames on links", "to each host", "copies at most", "frames/s on links at the end"]
    lab.table("applications", "version", *heads)
    for version in VERSIONS:
        for row in ROWS:
            one = measure(row, version)
            found.append(one)
            (t0, a0, _), (t1, a1, _) = one["series"][-6], one["series"][-1]
            lab.row(
                row, version, f"{one['per_broadcast']['on_links']:.2f}", f"{one['per_broadcast']['to_a_host']:.2f}",
                one["copies_max"], f"{(a1 - a0) / (t1 - t0):.0f}",
            )
    lab.keep("storms/ring", {"per_second": RATE * 4, "runs": found})
    panels = [
        figure.Panel(
            figure.Axis("time", "s"), figure.Axis("frames a second on the links", log=True, low=1),
            [figure.Line(one["row"], rates(one["series"]), marks=False) for one in found if one["version"] == version],
            title=version,
        )
        for version in VERSIONS
    ]
    title = f"{RATE * 4} broadcasts a second in a ring of four; the controller starts after {BEFORE_S:.0f} s"
    figure.write(HERE / "ring.svg", title, panels, columns=2)
