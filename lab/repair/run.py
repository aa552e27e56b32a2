"""For how long is a stream interrupted when a link that it uses is cut?"""

import os
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
import traffic

CUTS = int(os.environ.get("CUTS", "20"))
RATE = 1000
APPS = ["--app", "topology,hosts,forwarding"]
# After a cut, before the link is restored.
SEEN_S = 1.0
VERSIONS = ["OpenFlow10", "OpenFlow13"]
# Name, its network, how many links it has, and the switch of the one who receives.
SHAPES = {
    "ring of 4": (lambda version, cable: network.ring(version, 4, cable), 8, "s3"),
    "leaf–spine 2×4": (lambda version, cable: network.leaf_spine(version, 2, 4, cable), 16, "s3"),
}


class Heard:
    """A cut of which a switch says something."""

    cable, seen_s = network.Network.cable, SEEN_S

    @staticmethod
    def cuts(asked):
        return asked


class Down(Heard):
    """`ip link set down`: both switches lose the carrier and say so."""

    @staticmethod
    def cut(net, cable):
        control.run(f"ip link set {cable[0]}-{cable[1]} down")

    @staticmethod
    def mend(net, cable):
        control.run(f"ip link set {cable[0]}-{cable[1]} up")


class Removed(Heard):
    """`ovs-vsctl del-port`: one switch says that its port is gone, the other notices nothing."""

    @staticmethod
    def cut(net, cable):
        net.vsctl(f"del-port {cable[0]} {cable[0]}-{cable[1]}")

    @staticmethod
    def mend(net, cable):
        net.vsctl(f"add-port {cable[0]} {cable[0]}-{cable[1]}")


class Silent:
    """Something between them drops all frames, and no switch notices: only probes do not come in."""

    cable, seen_s = network.Network.silent_cable, 5.0

    @staticmethod
    def cuts(asked):
        # They take longer, and differ less.
        return asked // 2

    @staticmethod
    def cut(net, cable):
        net.drop(cable)

    @staticmethod
    def mend(net, cable):
        net.carry(cable)


# Cuts, and how the controller is set for them.
WAYS = {
    "link down": (Down, ""),
    "port removed": (Removed, ""),
    "silent, probed every 1 s": (Silent, ""),
    "silent, probed every 250 ms": (Silent, "[topology]\nprobe_interval_ms = 250\n"),
}


class Stream:
    def __init__(self, net, source, sink):
        self.file = net.dir / "stream"
        script = str(HERE / "traffic.py")
        first = [*lab.FIRST, sys.executable, script]
        self.ends = [sink.start(*first, "receive", str(self.file))]
        time.sleep(0.5)
        self.ends.append(source.start(*first, "send", sink.ip, str(RATE)))

    def stop(self):
        """Rows of when a datagram was received, its number, and when it was sent."""
        for end in reversed(self.ends):
            end.terminate()
            end.wait()
            time.sleep(0.3)
        return list(traffic.ROW.iter_unpack(self.file.read_bytes()))


def busiest(net, port_of):
    """The cable at whose port, named by `port_of` of its two switches, most frames leave; None for one that is none."""
    ports = {cable: port_of(*ends) for cable in net.cables for ends in (cable, cable[::-1]) if port_of(*ends)}
    before = {cable: net.sent(port) for cable, port in ports.items()}
    time.sleep(0.1)
    return max(ports, key=lambda cable: net.sent(ports[cable]) - before[cable])


def leaving(switch):
    return lambda a, b: f"{a}-{b}" if a == switch else None


def coming(switch):
    return lambda a, b: f"{a}-{b}" if b == switch else None


def hole(rows, start, end):
    """The longest time in which nothing was received, milliseconds, and what was sent then and never came."""
    arrivals = [start] + [at for at, _, _ in rows if start <= at <= end] + [end]
    longest = max(after - before for before, after in zip(arrivals, arrivals[1:]))
    numbers = sorted({number for at, number, sent in rows if start <= sent <= end})
    lost = numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else None
    return longest / 1e6, lost


def measure(shape, version, way):
    build, links, far = SHAPES[shape]
    how, config = WAYS[way]
    net = build(version, how.cable)
    source, sink = net.host("s1"), net.host(far)
    controller = control.Controller(*APPS, config=config)
    net.bring_up(controller, source, sink)
    stream = Stream(net, source, sink)
    time.sleep(1.5)
    cuts = []
    for rank in range(how.cuts(CUTS)):
        # The cable where the stream begins, and the one where it ends, in turn.
        cable = busiest(net, leaving("s1") if rank % 2 == 0 else coming(far))
        start = time.monotonic_ns()
        how.cut(net, cable)
        time.sleep(how.seen_s)
        cuts.append((start, time.monotonic_ns()))
        how.mend(net, cable)
        time.sleep(0.3)
        controller.wait(links=links)
    quiet = time.monotonic_ns()
    time.sleep(2)
    end = time.monotonic_ns()
    rows = stream.stop()
    controller.stop()
    net.close()
    holes = [hole(rows, *cut) for cut in cuts]
    return {
        "shape": shape, "version": version, "way": way,
        "hole_ms": [round(ms, 2) for ms, _ in holes],
        "lost": [lost for _, lost in holes],
        "without_a_cut_ms": round(hole(rows, quiet, end)[0], 2),
    }


def cases():
    for way in WAYS:
        for shape in SHAPES if "silent" not in way else ["ring of 4"]:
            for version in VERSIONS:
                yield shape, version, way


if __name__ == "__main__":
    control.alone()
    found = []
    lab.table("network", "failure", "version", "median", "worst", "lost: median", "worst", "gap without a failure")
    for case in cases():
        one = measure(*case)
        found.append(one)
        lab.row(
            one["shape"], one["way"], one["version"],
            f"{statistics.median(one['hole_ms']):.0f} ms", f"{max(one['hole_ms']):.0f} ms",
            f"{statistics.median(one['lost']):.0f}", max(one["lost"]), f"{one['without_a_cut_ms']:.0f} ms",
        )
    lab.keep("repair/holes", {"per_second": RATE, "cases": found})
    heard = [one for one in found if "silent" not in one["way"]]
    panels = [
        figure.Panel(
            figure.Axis("failure", low=0), figure.Axis("longest hole", "ms"),
            [
                figure.Line(f"{one['way']}, {one['version']}", list(enumerate(one["hole_ms"], 1)))
                for one in heard if one["shape"] == shape
            ],
            title=shape,
        )
        for shape in SHAPES
    ]
    title = "A stream of 1 000 datagrams a second while a link that it uses is cut"
    figure.write(HERE / "holes.svg", title, panels, columns=2)
