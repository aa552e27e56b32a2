"""How long does a start take through a control link that is far away, and which part of it is ours?

BEFORE=path names a build of the controller as it was; without it one is built from before.patch. PARTS="bench network"
chooses what is measured.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import figure
import lab

DELAYS = [int(delay) for delay in os.environ.get("DELAYS", "5 50 100 300 500").split()]
PARTS = os.environ.get("PARTS", "bench network").split()
ROUNDS = lab.rounds(3)
RATE_MBIT = 100
# From when on the link is full: when it carries this share of its rate over the second that follows.
NOMINAL, NOMINAL_S = 0.9, 1.0
# Segments that may leave before the first is acknowledged, where the system is told so; it is 10 otherwise.
INITIAL_WINDOW = 100
# Of the paper's text, in seconds; at 300 ms "over 20".
PAPER = [(5, 3), (50, 5), (100, 7), (300, 20)]
# By name: whether the next switch connects when the one before stands, as cbench does it, and what TCP is told.
ORDERS = {
    "one after another": {"serial": True},
    "all at once": {},
    f"all at once, initial window {INITIAL_WINDOW}": {"window": INITIAL_WINDOW},
    "all at once, BBR": {"congestion": "bbr"},
}
# By name: the network, and what the controller is told beside its defaults.
NETWORKS = {
    "one switch, learning": ("single,28", ["--app", "learning"]),
    "32 switches, default applications": ("leafspine,4,28,1", []),
}


def open_link(delay):
    return control.Recorded("--rate", f"{RATE_MBIT}Mbit", "--delay", f"{delay}ms")


def widen(window):
    """Lets new connections begin with more segments on their way, at both ends."""
    for space in (control.NEAR, control.FAR):
        route = f"10.9.0.0/30 dev link0 initcwnd {window} initrwnd {window}"
        control.run(f"ip -n {space.name} route change {route}")


def nominal_s(up, begun_s):
    """From when on the way up is full; `None` if it never is."""
    spans, wanted = int(NOMINAL_S / control.SPAN_S), NOMINAL * RATE_MBIT * 1e6 / 8 * NOMINAL_S
    begun = int(begun_s / control.SPAN_S)
    found = (n for n in range(begun, len(up) - spans) if sum(up[n : n + spans]) >= wanted)
    first = next(found, None)
    return None if first is None else round((first - begun) * control.SPAN_S, 2)


def full(order, delay):
    """Switches of the bench connect and ask as fast as the link takes it: the paper's Fig. 3."""
    link = open_link(delay)
    how = ORDERS[order]
    congestion = how.get("congestion", "cubic")
    if "window" in how:
        widen(how["window"])
    env = {"SLUICE_SOCKET__CONGESTION": congestion}
    controller = control.Controller(*control.BARE, "--app", "learning", space=control.FAR, env=env)
    loops = 5 + 14 * delay // 1000 + delay // 50
    begun = time.monotonic() - link.opened
    played = ["-s", "32", "-M", "1000", "-t", "-w", "0", "-l", str(loops), "-m", "1000", "--congestion", congestion]
    if how.get("serial"):
        played += ["--connect-delay", str(2 * delay)]
    bench = [lab.SLUICE, "bench", "-c", control.FAR.ip, "-p", str(control.PORT), *played, "--json", "-"]
    done = subprocess.run([*lab.FIRST, *bench], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the bench failed: {done.stderr}")
    told = json.JSONDecoder().raw_decode(done.stdout[done.stdout.find('{"schema"') :])[0]
    controller.stop()
    _, up, down = link.close()
    first = int(begun / control.SPAN_S)
    return {
        "nominal_s": nominal_s(up, begun),
        "connect_ms": told["connect_ns"]["median"] / 1e6,
        "handshake_ms": told["handshake_ns"]["median"] / 1e6,
        "up": " ".join(map(str, up[first:])),
        "down": " ".join(map(str, down[first:])),
    }


def network(binary, name, delay):
    """A network of model switches of 1.3 comes up, until every host has reached the next one."""
    topology, options = NETWORKS[name]
    link = open_link(delay)
    controller = control.Controller(*control.BARE, *options, space=control.FAR, binary=binary)
    emu = [lab.SLUICE, "emu", "--controller", controller.address, "--topo", topology, "--protocols", "1.3", "--start"]
    done = subprocess.run([*lab.FIRST, *emu], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the network did not come up: {done.stdout}{done.stderr}")
    controller.stop()
    _, up, down = link.close()
    names = {"known": "all switches connected", "first": "first reply", "half": "half of the hosts have a reply",
             "all": "all hosts have a reply"}  # fmt: skip
    told = {key: seconds(line, done.stdout) for key, line in names.items()}
    return {**told, "bytes_up": sum(up), "bytes_down": sum(down)}


def seconds(pattern, text):
    """The number of seconds that a line of a report has, `None` if it has none."""
    found = re.search(pattern + r": ([\d.]+) s", text)
    return float(found.group(1)) if found else None


def bench_part():
    runs = {order: {} for order in ORDERS}
    for order in ORDERS:
        for delay in DELAYS:
            runs[order][str(delay)] = run = full(order, delay)
            print(order, delay, {k: v for k, v in run.items() if k not in ("up", "down")}, file=sys.stderr, flush=True)
    lab.keep("start/full", {"runs": runs})
    draw_full(runs)
    lab.table("delay each way", *(f"{order}: full after" for order in ORDERS))
    for delay in DELAYS:
        lab.row(f"{delay} ms", *(f"{runs[order][str(delay)]['nominal_s']} s" for order in ORDERS))
    print()


def network_part():
    builds = {"before": os.environ["BEFORE"], "after": lab.SLUICE}
    runs = {name: {build: {str(delay): [] for delay in DELAYS} for build in builds} for name in NETWORKS}
    for delay in DELAYS:
        for _ in range(ROUNDS):
            for name in NETWORKS:
                for build, binary in builds.items():
                    run = network(binary, name, delay)
                    runs[name][build][str(delay)].append(run)
                    print(name, build, delay, run, file=sys.stderr, flush=True)
    lab.keep("start/network", {"runs": runs})
    draw_network(runs)
    lab.table("network", "delay each way", "first ping answered, before", "after", "saved", "of a round trip")
    for name, of in runs.items():
        for delay in DELAYS:
            old, new = (middle(of[build][str(delay)], "first") for build in builds)
            saved = old - new
            lab.row(name, f"{delay} ms", f"{old:.2f} s", f"{new:.2f} s", f"{saved:.2f} s", f"{saved / delay * 500:.2f}")


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def draw_full(runs):
    panels = []
    for delay in DELAYS:
        lines = []
        for order in list(ORDERS)[:2]:
            for way in ("up", "down"):
                data = [int(n) for n in runs[order][str(delay)][way].split()]
                # Ten spans together: what one packet more or less does is not seen then.
                tens = [sum(data[n : n + 10]) * 8 / 0.1 / 1e6 for n in range(0, len(data) - 9, 10)]
                points = [(n / 10, mbit) for n, mbit in enumerate(tens)]
                lines.append(figure.Line(f"{order}, {way}", points, marks=False, dashed=way == "down"))
        y = figure.Axis("control traffic", "Mbit/s", high=110, ticks=[0, 25, 50, 75, 100])
        x = figure.Axis("time", "s", high=float(max(10, 40 if delay > 100 else 10)))
        panels.append(figure.Panel(x, y, lines, title=f"{delay} ms each way"))
    title = f"Control traffic while 32 switches with 1 000 hosts each start, {RATE_MBIT} Mbit/s"
    figure.write(HERE / "traffic.svg", title, panels, width=760, height=190)
    x = figure.Axis("delay each way", "ms")
    lines = [figure.Line("the paper's, Floodlight and cbench", [p for p in PAPER if p[0] <= max(DELAYS)])]
    for order in ORDERS:
        got = [(delay, runs[order][str(delay)]["nominal_s"]) for delay in DELAYS]
        lines.append(figure.Line(order, [point for point in got if point[1] is not None]))
    panel = figure.Panel(x, figure.Axis("until the link is full", "s"), lines)
    figure.write(HERE / "nominal.svg", "From the first connection to a full link", [panel], height=380)


def draw_network(runs):
    panels = []
    for name, builds in runs.items():
        lines = []
        for build, delays in builds.items():
            points = []
            for delay in DELAYS:
                of = [run["first"] for run in delays[str(delay)]]
                points.append((delay, statistics.median(of), min(of), max(of)))
            lines.append(figure.Line(build, points))
        x, y = figure.Axis("delay each way", "ms"), figure.Axis("until the first ping is answered", "s", high=8)
        panels.append(figure.Panel(x, y, lines, title=name))
    title = "A network starts, with its controller far away"
    figure.write(HERE / "network.svg", title, panels, columns=2, width=430, height=340)


def main():
    if "network" in PARTS and not os.environ.get("BEFORE"):
        # Before the world outside is gone, of which a build may need something.
        os.environ["BEFORE"] = lab.variant("start-before", str(HERE / "before.patch"))
    control.alone()
    if "bench" in PARTS:
        bench_part()
    if "network" in PARTS:
        network_part()


if sys.argv[1:] == ["--draw"]:
    draw_full(json.loads((HERE / "data/full.json").read_text())["runs"])
    draw_network(json.loads((HERE / "data/network.json").read_text())["runs"])
else:
    main()
