"""How long does it take to open a TCP connection, and how many packet-ins does it cause, when the controller is far away?"""
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import figure
import lab
import network

SWITCHES, DELAYS = (1, 4, 8), (5, 50, 100, 300, 500)
ROUNDS = lab.rounds(5)
ADDRESSES = {"known": "known", "proxy": "ARP, answered by the controller", "host": "ARP, answered by the other host"}
SERVER = """
import socket
server = socket.create_server(("10.0.0.2", 80))
while True:
    server.accept()[0].close()
"""
CONNECT = """
import json, socket, sys, time
times_ms = []
for _ in range(int(sys.argv[1])):
    start = time.monotonic()
    try:
        socket.create_connection(("10.0.0.2", 80), 20).close()
        times_ms.append(1e3 * (time.monotonic() - start))
    except OSError:
        # Address resolution fails after three seconds.
        times_ms.append(None)
    time.sleep(float(sys.argv[2]))
print(json.dumps(times_ms))
"""


def model():
    """With emulated switches, in virtual time."""
    command = ["cargo", "run", "--quiet", "--locked", "-p", "sluice-apps", "--example", "control_delay", "connect"]
    rows = subprocess.run(command, cwd=lab.ROOT, check=True, capture_output=True, text=True).stdout
    (HERE / "data/model.csv").write_text(rows)


def packet_in_counts(controller):
    """Packet-ins for flows and for addresses, from the metrics, which are updated once per second."""
    time.sleep(1.3)
    counts = controller.metrics()
    return {
        "loaded": counts["forwarding_paths_installed_total"],
        "waited": counts["forwarding_packets_during_installation_total"],
        "arp": counts["hosts_requests_answered_total"] + counts["forwarding_floods_total"],
    }


def connections(controller, hosts, delay, addresses):
    """Opens connections one after another; each starts when the previous one has been closed."""
    rounds = ROUNDS if addresses == "known" else 1
    times_ms, before = [], None
    for _ in range(1 if addresses == "known" else min(ROUNDS, 3)):
        for host, other in (hosts, hosts[::-1]):
            host.flush_neighbours()
            if addresses == "known":
                host.add_neighbour(other)
        before = before or packet_in_counts(controller)
        times_ms += hosts[0].script(CONNECT, rounds, 3 * delay / 1e3 + 0.2)
        if addresses != "known":
            # Wait until the flow entries of the address resolution have expired.
            time.sleep(2.5 + 3 * delay / 1e3)
    after = packet_in_counts(controller)
    return {"took_ms": times_ms, **{name: (after[name] - before[name]) / len(times_ms) for name in after}}


def settings(both, addresses):
    return {
        "SLUICE_FORWARDING__MATCH": "five-tuple",
        "SLUICE_TOPOLOGY__PROBE_INTERVAL_MS": "250",
        "SLUICE_FORWARDING__BOTH_DIRECTIONS": str(both).lower(),
        "SLUICE_FORWARDING__IDLE_TIMEOUT_S": "60" if addresses == "known" else "1",
        "SLUICE_HOSTS__ARP_PROXY": str(addresses != "host").lower(),
    }


def real():
    """With Open vSwitch, real hosts and a real control link."""
    control.enter_namespaces("real")
    figures = []
    for switches in SWITCHES:
        net = network.line("OpenFlow13", switches)
        hosts = net.host("s1"), net.host(f"s{switches}")
        link = control.Link("--delay", "5ms")
        server = hosts[1].start(sys.executable, "-c", SERVER)
        for both, addresses in ((True, "known"), (False, "known"), (True, "proxy"), (True, "host")):
            if addresses != "known" and switches != 4:
                continue
            link.command("delay 5ms")
            controller = control.Controller("--threads", "1", namespace=control.FAR, env=settings(both, addresses))
            net.bring_up(controller, *hosts)
            for delay in DELAYS if addresses == "known" else (5, 100, 500):
                link.command(f"delay {delay}ms")
                # Wait until the controller has measured the new round trip.
                time.sleep(3)
                case = {"switches": switches, "delay_ms": delay, "both_directions": both, "addresses": addresses}
                figures.append(case | connections(controller, hosts, delay, addresses))
                print(figures[-1], file=sys.stderr)
            controller.stop()
            net.delete_flows()
        server.terminate()
        server.wait()
        link.close()
        net.close()
    lab.store("connect/real", {"connections": figures})


def load():
    """Emulated and real results by (addresses, both directions, switches): delay, milliseconds, paths installed, packet-ins
    for flows, and for addresses."""
    results = {"emulated": {}, "real": {}}
    for row in csv.DictReader((HERE / "data/model.csv").open()):
        key = (row["addresses"], row["both_directions"] == "true", int(row["switches"]))
        point = tuple(float(row[name]) for name in ("delay_ms", "took_ms", "loaded", "asked_tcp", "asked_arp"))
        results["emulated"].setdefault(key, []).append(point)
    for row in json.loads((HERE / "data/real.json").read_text())["connections"]:
        key = (row["addresses"], row["both_directions"], row["switches"])
        flow_packet_ins = row["loaded"] + row["waited"]
        times_ms = [ms for ms in row["took_ms"] if ms]
        if times_ms:
            point = (row["delay_ms"], statistics.median(times_ms), row["loaded"], flow_packet_ins, row["arp"])
            results["real"].setdefault(key, []).append(point)
    return results


def draw(results):
    def lines(keys, column):
        drawn = []
        for label, key in keys:
            for kind in ("real", "emulated"):
                points = [(p[0], p[column]) for p in results[kind].get(key, [])]
                name = label if kind == "real" else f"{label}, emulated"
                if points:
                    drawn.append(figure.Line(
                        name, points, like=label if kind == "emulated" else None, dashed=kind == "emulated", marks=kind == "real",
                    ))
        return drawn

    delay = lambda: figure.Axis("delay of the control link, one way", "ms")
    directions = {True: "both directions installed", False: "one direction installed"}

    def by_switches(file, title, axis, column):
        panels = [
            figure.Panel(
                delay(), axis(), lines([(label, ("known", both, n)) for both, label in directions.items()], column),
                title=f"{n} switch{'es' if n > 1 else ''}",
            )
            for n in SWITCHES
        ]
        figure.write(HERE / file, title, panels, columns=3, width=380)

    by_switches("connect.svg", "Time to open a TCP connection, addresses known",
                lambda: figure.Axis("median", "ms", high=2500), 1)
    by_switches("paths.svg", "Paths installed per TCP connection, addresses known",
                lambda: figure.Axis("paths installed per connection", high=3, ticks=[0, 1, 2, 3]), 2)
    figure.write(
        HERE / "addresses.svg",
        "The first connection between two hosts, through 4 switches",
        [
            figure.Panel(
                delay(), figure.Axis("median", "ms"),
                lines([(f"addresses {words}", (name, True, 4)) for name, words in ADDRESSES.items()], 1),
            )
        ],
        width=760,
    )


def print_table(results):
    lab.table(
        "switches", "directions", "addresses", "delay", "Open vSwitch", "emulated", "paths installed", "PACKET_INs with TCP",
        "PACKET_INs with ARP",
    )  # fmt: skip
    for key in sorted(results["emulated"], key=lambda key: (key[0], key[2], not key[1])):
        if key[0] != "known" and key[1:] != (True, 4):
            continue
        for point in results["emulated"][key]:
            other = [p for p in results["real"].get(key, []) if p[0] == point[0]]
            measured = f"{other[0][1]:.0f} ms" if other else ""
            counts = [f"{other[0][n]:g} / {point[n]:g}" if other else f"{point[n]:g}" for n in (2, 3, 4)]
            directions = "both" if key[1] else "one"
            lab.row(key[2], directions, ADDRESSES[key[0]], f"{point[0]:g} ms", measured, f"{point[1]:.0f} ms", *counts)


for part in sys.argv[1:] or ["model", "real"]:
    {"model": model, "real": real, "draw": lambda: None}[part]()
results = load()
draw(results)
print_table(results)
