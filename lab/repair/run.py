"""For how long is traffic interrupted when a link on its path fails?"""

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
# Seconds between the failure of a link and its repair.
DOWN_S = 1.0
VERSIONS = ["OpenFlow10", "OpenFlow13"]
# By name: the network, its number of links (both directions), and the switch of the receiving host.
SHAPES = {
    "ring of 4": (lambda version, link: network.ring(version, 4, link), 8, "s3"),
    "leaf–spine 2×4": (lambda version, link: network.leaf_spine(version, 2, 4, link), 16, "s3"),
}


class ReportedFailure:
    """A failure that a switch reports."""

    link, down_s = network.Network.link, DOWN_S

    @staticmethod
    def count(cuts):
        return cuts


class Down(ReportedFailure):
    """`ip link set down`: both switches lose the carrier and report it."""

    @staticmethod
    def cut(net, link):
        control.run(f"ip link set {link[0]}-{link[1]} down")

    @staticmethod
    def repair(net, link):
        control.run(f"ip link set {link[0]}-{link[1]} up")


class Removed(ReportedFailure):
    """`ovs-vsctl del-port`: one switch reports the removal of its port, the other one nothing."""

    @staticmethod
    def cut(net, link):
        net.vsctl(f"del-port {link[0]} {link[0]}-{link[1]}")

    @staticmethod
    def repair(net, link):
        net.vsctl(f"add-port {link[0]} {link[0]}-{link[1]}")


class SilentFailure:
    """A device between the switches drops all frames; only missing probes show it."""

    link, down_s = network.Network.silent_link, 5.0

    @staticmethod
    def count(cuts):
        # They take longer, and vary less.
        return cuts // 2

    @staticmethod
    def cut(net, link):
        net.drop(link)

    @staticmethod
    def repair(net, link):
        net.restore(link)


# By name: the failure, and the configuration of the controller.
FAILURES = {
    "link down": (Down, ""),
    "port removed": (Removed, ""),
    "silent, probed every 1 s": (SilentFailure, ""),
    "silent, probed every 250 ms": (SilentFailure, "[topology]\nprobe_interval_ms = 250\n"),
}


class Stream:
    def __init__(self, net, source, sink):
        self.file = net.dir / "stream"
        script = str(HERE / "traffic.py")
        command = [*lab.PRIORITY, sys.executable, script]
        self.ends = [sink.start(*command, "receive", str(self.file))]
        time.sleep(0.5)
        self.ends.append(source.start(*command, "send", sink.ip, str(RATE)))

    def stop(self):
        """Stops both ends; returns a row for each datagram: time received, number, time sent."""
        for end in reversed(self.ends):
            end.terminate()
            end.wait()
            time.sleep(0.3)
        return list(traffic.ROW.iter_unpack(self.file.read_bytes()))


def busiest(net, port_of):
    """The link whose port sends most frames; `port_of` names the port of a link between two switches, or returns None."""
    ports = {link: port_of(*ends) for link in net.links for ends in (link, link[::-1]) if port_of(*ends)}
    before = {link: net.sent(port) for link, port in ports.items()}
    time.sleep(0.1)
    return max(ports, key=lambda link: net.sent(ports[link]) - before[link])


def port_from(switch):
    return lambda a, b: f"{a}-{b}" if a == switch else None


def port_to(switch):
    return lambda a, b: f"{a}-{b}" if b == switch else None


def gap(rows, start, end):
    """The longest gap between received datagrams in milliseconds, and the number of datagrams sent then that were lost."""
    arrivals = [start] + [at for at, _, _ in rows if start <= at <= end] + [end]
    longest = max(after - before for before, after in zip(arrivals, arrivals[1:]))
    numbers = sorted({number for at, number, sent in rows if start <= sent <= end})
    lost = numbers[-1] - numbers[0] + 1 - len(numbers) if numbers else None
    return longest / 1e6, lost


def measure(shape, version, failure_name):
    build, n_links, far = SHAPES[shape]
    failure, config = FAILURES[failure_name]
    net = build(version, failure.link)
    source, sink = net.host("s1"), net.host(far)
    controller = control.Controller(*APPS, config=config)
    net.bring_up(controller, source, sink)
    stream = Stream(net, source, sink)
    time.sleep(1.5)
    cuts = []
    for n in range(failure.count(CUTS)):
        # Alternately the first and the last link of the path.
        link = busiest(net, port_from("s1") if n % 2 == 0 else port_to(far))
        start = time.monotonic_ns()
        failure.cut(net, link)
        time.sleep(failure.down_s)
        cuts.append((start, time.monotonic_ns()))
        failure.repair(net, link)
        time.sleep(0.3)
        controller.wait(links=n_links)
    quiet = time.monotonic_ns()
    time.sleep(2)
    end = time.monotonic_ns()
    rows = stream.stop()
    controller.stop()
    net.close()
    gaps = [gap(rows, *cut) for cut in cuts]
    return {
        "shape": shape, "version": version, "way": failure_name,
        "hole_ms": [round(ms, 2) for ms, _ in gaps],
        "lost": [lost for _, lost in gaps],
        "without_a_cut_ms": round(gap(rows, quiet, end)[0], 2),
    }


def cases():
    for failure_name in FAILURES:
        for shape in SHAPES if "silent" not in failure_name else ["ring of 4"]:
            for version in VERSIONS:
                yield shape, version, failure_name


if __name__ == "__main__":
    control.enter_namespaces()
    results = []
    lab.table("network", "failure", "version", "median", "worst", "lost: median", "worst", "gap without a failure")
    for case in cases():
        one = measure(*case)
        results.append(one)
        lab.row(
            one["shape"], one["way"], one["version"],
            f"{statistics.median(one['hole_ms']):.0f} ms", f"{max(one['hole_ms']):.0f} ms",
            f"{statistics.median(one['lost']):.0f}", max(one["lost"]), f"{one['without_a_cut_ms']:.0f} ms",
        )
    lab.store("repair/holes", {"per_second": RATE, "cases": results})
    reported = [one for one in results if "silent" not in one["way"]]
    panels = [
        figure.Panel(
            figure.Axis("failure", low=0), figure.Axis("longest gap", "ms"),
            [
                figure.Line(f"{one['way']}, {one['version']}", list(enumerate(one["hole_ms"], 1)))
                for one in reported if one["shape"] == shape
            ],
            title=shape,
        )
        for shape in SHAPES
    ]
    title = "1 000 datagrams per second while a link on their path fails"
    figure.write(HERE / "gaps.svg", title, panels, columns=2)
