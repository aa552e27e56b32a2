"""How long does a start take when the controller is far away, and which part of it is caused by the controller?

BEFORE=path is a build of the controller before the change; without it, one is built with before.patch. PARTS="bench network"
selects what is measured.
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
# The link counts as full from the moment at which it carries this share of its rate for a second.
NOMINAL, NOMINAL_S = 0.9, 1.0
# Initial congestion window in segments, in the runs that change it; the default is 10.
INITIAL_WINDOW = 100
# Delay in ms and seconds until the link is full, from the text of the paper; at 300 ms "over 20".
PAPER = [(5, 3), (50, 5), (100, 7), (300, 20)]
# By name: whether switches connect one after another, as in cbench, and TCP settings.
ORDERS = {
    "one after another": {"serial": True},
    "all at once": {},
    f"all at once, initial window {INITIAL_WINDOW}": {"window": INITIAL_WINDOW},
    "all at once, BBR": {"congestion": "bbr"},
}
# By name: the topology, and options of the controller.
NETWORKS = {
    "one switch, learning": ("single,28", ["--app", "learning"]),
    "32 switches, default applications": ("leafspine,4,28,1", []),
}


def open_link(delay):
    return control.RecordedLink("--rate", f"{RATE_MBIT}Mbit", "--delay", f"{delay}ms")


def widen(window):
    """Sets the initial congestion window of new connections at both ends."""
    for space in (control.NEAR, control.FAR):
        route = f"10.9.0.0/30 dev link0 initcwnd {window} initrwnd {window}"
        control.run(f"ip -n {space.name} route change {route}")


def nominal_s(up, started_s):
    """Seconds until the direction to the controller is full; `None` if it never is."""
    spans, wanted = int(NOMINAL_S / control.BIN_S), NOMINAL * RATE_MBIT * 1e6 / 8 * NOMINAL_S
    started_at = int(started_s / control.BIN_S)
    found = (n for n in range(started_at, len(up) - spans) if sum(up[n : n + spans]) >= wanted)
    first = next(found, None)
    return None if first is None else round((first - started_at) * control.BIN_S, 2)


def full(order, delay):
    """Switches of the bench connect and send requests as fast as the link allows, as in Fig. 3 of the paper."""
    link = open_link(delay)
    settings = ORDERS[order]
    congestion = settings.get("congestion", "cubic")
    if "window" in settings:
        widen(settings["window"])
    env = {"SLUICE_SOCKET__CONGESTION": congestion}
    controller = control.Controller(*control.MINIMAL, "--app", "learning", namespace=control.FAR, env=env)
    loops = 5 + 14 * delay // 1000 + delay // 50
    started_at = time.monotonic() - link.opened
    load = ["-s", "32", "-M", "1000", "-t", "-w", "0", "-l", str(loops), "-m", "1000", "--congestion", congestion]
    if settings.get("serial"):
        load += ["--connect-delay", str(2 * delay)]
    bench = [lab.SLUICE, "bench", "-c", control.FAR.ip, "-p", str(control.PORT), *load, "--json", "-"]
    result = subprocess.run([*lab.PRIORITY, *bench], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"the bench failed: {result.stderr}")
    report = json.JSONDecoder().raw_decode(result.stdout[result.stdout.find('{"schema"') :])[0]
    controller.stop()
    _, up, down = link.close()
    first = int(started_at / control.BIN_S)
    return {
        "nominal_s": nominal_s(up, started_at),
        "connect_ms": report["connect_ns"]["median"] / 1e6,
        "handshake_ms": report["handshake_ns"]["median"] / 1e6,
        "up": " ".join(map(str, up[first:])),
        "down": " ".join(map(str, down[first:])),
    }


def network(binary, name, delay):
    """Starts a network of emulated switches (1.3) and waits until every host has reached the next one."""
    topology, options = NETWORKS[name]
    link = open_link(delay)
    controller = control.Controller(*control.MINIMAL, *options, namespace=control.FAR, binary=binary)
    emu = [lab.SLUICE, "emu", "--controller", controller.address, "--topo", topology, "--protocols", "1.3", "--start"]
    result = subprocess.run([*lab.PRIORITY, *emu], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"the network did not start: {result.stdout}{result.stderr}")
    controller.stop()
    _, up, down = link.close()
    names = {"known": "all switches connected", "first": "first reply", "half": "half of the hosts have a reply",
             "all": "all hosts have a reply"}  # fmt: skip
    report = {key: seconds(line, result.stdout) for key, line in names.items()}
    return {**report, "bytes_up": sum(up), "bytes_down": sum(down)}


def seconds(pattern, text):
    """The seconds in the line of a report that matches `pattern`; `None` if there is no such line."""
    found = re.search(pattern + r": ([\d.]+) s", text)
    return float(found.group(1)) if found else None


def bench_part():
    runs = {order: {} for order in ORDERS}
    for order in ORDERS:
        for delay in DELAYS:
            runs[order][str(delay)] = run = full(order, delay)
            print(order, delay, {k: v for k, v in run.items() if k not in ("up", "down")}, file=sys.stderr, flush=True)
    lab.store("start/full", {"runs": runs})
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
    lab.store("start/network", {"runs": runs})
    draw_network(runs)
    lab.table("network", "delay each way", "first ping answered, before", "after", "saved", "in round trips")
    for name, of in runs.items():
        for delay in DELAYS:
            old, new = (median_of(of[build][str(delay)], "first") for build in builds)
            saved = old - new
            lab.row(name, f"{delay} ms", f"{old:.2f} s", f"{new:.2f} s", f"{saved:.2f} s", f"{saved / delay * 500:.2f}")


def median_of(runs, key):
    return statistics.median(run[key] for run in runs)


def draw_full(runs):
    panels = []
    for delay in DELAYS:
        lines = []
        for order in list(ORDERS)[:2]:
            for direction in ("up", "down"):
                data = [int(n) for n in runs[order][str(delay)][direction].split()]
                # Sum ten intervals, so that single packets do not show.
                tens = [sum(data[n : n + 10]) * 8 / 0.1 / 1e6 for n in range(0, len(data) - 9, 10)]
                points = [(n / 10, mbit) for n, mbit in enumerate(tens)]
                lines.append(figure.Line(f"{order}, {direction}", points, marks=False, dashed=direction == "down"))
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
        # Before entering the namespaces, since the build may need the network.
        os.environ["BEFORE"] = lab.variant("start-before", str(HERE / "before.patch"))
    control.enter_namespaces()
    if "bench" in PARTS:
        bench_part()
    if "network" in PARTS:
        network_part()


if sys.argv[1:] == ["--draw"]:
    draw_full(json.loads((HERE / "data/full.json").read_text())["runs"])
    draw_network(json.loads((HERE / "data/network.json").read_text())["runs"])
else:
    main()
