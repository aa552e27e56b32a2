"""What is lost of UDP while rules are on their way over a control link that is far away, and what helps?"""
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

DELAYS = (5, 50, 100, 300, 500)
RATES = (100, 200, 500, 1000, 2000, 5000)
HOGS = (0, 100, 200, 500, 1000, 2000, 4000)
KNOWS = {
    "nobody": "not tracked",
    "controller": "tracked by the controller",
    "switch": "tracked by the switch",
}
HELD = {
    "no": "not blocked",
    "rule": "blocked by a flow entry",
    "meter": "blocked by a meter",
    "ahead": "meter from the beginning",
}
SECONDS, BYTES = 3, 1000
RECEIVE = """
import json, socket, sys, time
inlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inlet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
inlet.bind(("10.0.0.2", int(sys.argv[1])))
inlet.settimeout(0.2)
end, numbers, late, highest = time.monotonic() + float(sys.argv[2]), set(), 0, -1
while time.monotonic() < end:
    try:
        number = int.from_bytes(inlet.recv(2048)[:4], "big")
    except TimeoutError:
        continue
    late += number < highest
    highest = max(highest, number)
    numbers.add(number)
print(json.dumps({"received": len(numbers), "reordered": late}))
"""
SEND = """
import json, socket, sys, time
port, rate, count, size = map(int, sys.argv[1:])
outlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
outlet.connect(("10.0.0.2", port))
start = time.monotonic()
for n in range(count):
    wait = start + n / rate - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    outlet.send(n.to_bytes(4, "big") + bytes(size - 4))
print(json.dumps({"sent": count, "took_s": time.monotonic() - start}))
"""


def model():
    """With model switches, in virtual time."""
    for table in ("udp", "hog"):
        command = ["cargo", "run", "--quiet", "--locked", "-p", "sluice-apps", "--example", "control_delay", table]
        rows = subprocess.run(command, cwd=lab.ROOT, check=True, capture_output=True, text=True).stdout
        (HERE / f"data/{table}.csv").write_text(rows)


def real():
    """With Open vSwitch, which keeps no packets: all of each frame comes up.

    Over connections that have been there for long, under the congestion control of the system, and over new ones under
    Reno's, which is the model's.
    """
    control.alone("real")
    figures = []
    net = network.line("OpenFlow13", 4)
    hosts = net.host("s1"), net.host("s4")
    link = control.Link("--delay", "5ms", "--rate", "10Mbit")
    env = {"SLUICE_FORWARDING__MATCH": "five-tuple"}
    controller = control.Controller("--threads", "1", space=control.FAR, env=env)
    net.bring_up(controller, *hosts)
    for host, other in (hosts, hosts[::-1]):
        host.know(other)
    ports = iter(range(5001, 6000))
    for connections, delays, rates in (("kept", (50, 300), RATES[1:5]), ("new", (300,), RATES[2:5])):
        if connections == "new":
            control.run("sysctl -qw net.ipv4.tcp_congestion_control=reno")
        for delay in delays:
            link.say(f"delay {delay}ms")
            # Until the controller has measured it again.
            time.sleep(20)
            for rate in rates:
                for _ in range(lab.rounds(3)):
                    if connections == "new":
                        reconnect(net, controller, hosts)
                    case = {"connections": connections, "delay_ms": delay, "rate_pps": rate}
                    figures.append(case | stream(hosts, next(ports), rate))
                    print(figures[-1], file=sys.stderr)
    lab.keep("udp-loss/real", {"streams": figures})


def reconnect(net, controller, hosts):
    """New control connections, whose windows are those of the beginning; it takes them some seconds to be of use."""
    net.disconnect()
    time.sleep(2)
    net.connect(controller)
    time.sleep(6)
    control.until(lambda: hosts[0].reaches(hosts[1]))


def stream(hosts, port, rate):
    words = [sys.executable, "-c", RECEIVE, str(port), str(SECONDS + 3)]
    receiver = hosts[1].start(*words, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    sent = hosts[0].script(SEND, port, rate, SECONDS * rate, BYTES)
    return sent | json.loads(receiver.communicate()[0])


def rows(table):
    def read(row):
        return {name: int(value) if value.isdigit() else value for name, value in row.items()}

    return [read(row) for row in csv.DictReader((HERE / f"data/{table}.csv").open())]


def share(row):
    """Of what was sent, what did not come, in percent."""
    return 100 * (1 - row["received"] / row["sent"])


def select(found, x, y, **fixed):
    """Points of the rows that have these values, in the order of x."""
    fits = [row for row in found if all(row[name] == value for name, value in fixed.items())]
    return sorted({(row[x], y(row)) for row in fits})


def lost(label="lost", high=100):
    return figure.Axis(label, "%", high=high)


def pps(label):
    return figure.Axis(label, "packets/s", log=True)


def draw():
    found, hogs = rows("udp"), rows("hog")
    usual = {"knows": "controller", "buffers": 256}
    figure.write(
        HERE / "loss.svg",
        f"UDP through 4 switches, control link of 10 Mbit/s: lost of the first {SECONDS} s",
        [
            figure.Panel(
                pps("sent"), lost(high=40),
                [figure.Line(f"{d} ms away", select(found, "rate_pps", share, delay_ms=d, **usual)) for d in DELAYS],
                title="room for 256 packets",
            ),
            *(
                figure.Panel(
                    figure.Axis("packets that can wait in a switch", log=True, ticks=[16, 64, 256, 1024, 4096]),
                    lost(high=40),
                    [
                        figure.Line(f"{d} ms away", [
                            # There is no 0 on a logarithmic axis.
                            point for point in select(found, "buffers", share, delay_ms=d, rate_pps=2000, knows=who)
                            if point[0]
                        ])
                        for d in DELAYS
                    ],
                    title=f"2000 packets/s, {KNOWS[who]}",
                )
                for who in ("controller", "switch")
            ),
        ],
        columns=3, width=400,
    )
    panels = []
    for name, label, y in (
        ("lost", "lost", share),
        ("rules", "flow-mods sent", lambda row: max(row["flow_mods"], 1)),
        ("bytes", "kB to the controller", lambda row: row["bytes_up"] / 1e3),
        ("bytes", "kB from the controller", lambda row: row["bytes_down"] / 1e3),
    ):
        axis = lost(high=40) if name == "lost" else figure.Axis(label, log=True)
        lines = [
            figure.Line(words, select(found, "rate_pps", y, delay_ms=300, buffers=256, knows=who))
            for who, words in KNOWS.items()
        ]
        panels.append(figure.Panel(pps("sent"), axis, lines, title=label))
    figure.write(HERE / "waiting.svg", "300 ms away, room for 256 packets", panels, columns=2, width=480)
    figure.write(
        HERE / "limiter.svg",
        "Conversations of 5 packets beside a host each of whose packets is a flow of its own, control link of 2 Mbit/s",
        [
            figure.Panel(
                figure.Axis("the other host sends", "packets/s", high=4200, ticks=[0, 1000, 2000, 3000, 4000]),
                lost("lost of the conversations"),
                [figure.Line(words, select(hogs, "hog_pps", share, delay_ms=d, held=held)) for held, words in HELD.items()],
                title=f"{d} ms away",
            )
            for d in (5, 100, 500)
        ],
        columns=3, width=380,
    )
    figure.write(
        HERE / "real.svg",
        "Open vSwitch, which keeps no packets, and the model without room for any",
        [
            figure.Panel(
                pps("sent"), lost(high=40),
                [
                    line
                    for d in (50, 300)
                    for line in (
                        figure.Line(f"{d} ms away", whiskers("kept", d)),
                        figure.Line(f"{d} ms away, new connections", whiskers("new", d)),
                        figure.Line(f"{d} ms away, model", select(
                            found, "rate_pps", share, delay_ms=d, buffers=0, knows="controller",
                        ), like=f"{d} ms away{', new connections' if d == 300 else ''}", dashed=True, marks=False),
                    )
                    if line.points
                ],
            )
        ],
        width=760,
    )


def streams():
    return json.loads((HERE / "data/real.json").read_text())["streams"]


def whiskers(connections, delay):
    by_rate = {}
    for row in streams():
        if (row["connections"], row["delay_ms"]) == (connections, delay):
            by_rate.setdefault(row["rate_pps"], []).append(share(row))
    return [(rate, statistics.median(got), min(got), max(got)) for rate, got in sorted(by_rate.items())]


def tell():
    found, hogs = rows("udp"), rows("hog")
    lab.table("lost, room for 256", *(f"{rate}/s" for rate in RATES))
    for d in DELAYS:
        points = select(found, "rate_pps", share, delay_ms=d, buffers=256, knows="controller")
        lab.row(f"{d} ms", *(f"{y:.1f} %" for _, y in points))
    print()
    lab.table("lost, 2000/s", *(f"room for {n}" for n in (0, 16, 64, 256, 1024, 4096)))
    for d in DELAYS:
        for who in ("controller", "switch"):
            points = select(found, "buffers", share, delay_ms=d, rate_pps=2000, knows=who)
            lab.row(f"{d} ms, {KNOWS[who]}", *(f"{y:.1f} %" for _, y in points))
    print()
    lab.table("300 ms away", "sent", "lost", "packet-ins", "flow-mods", "kB up", "kB down")
    for who, words in KNOWS.items():
        for row in found:
            if (row["knows"], row["buffers"], row["delay_ms"]) == (who, 256, 300) and row["rate_pps"] in (500, 2000):
                lab.row(words, f"{row['rate_pps']}/s", f"{share(row):.1f} %", row["asked"], row["flow_mods"],
                        round(row["bytes_up"] / 1e3), round(row["bytes_down"] / 1e3))
    print()
    lab.table("neighbour's loss, abuser at", *(f"{rate}/s" for rate in HOGS))
    for d in (5, 100, 500):
        for held, words in HELD.items():
            lab.row(f"{d} ms, {words}", *(f"{y:.1f} %" for _, y in select(hogs, "hog_pps", share, delay_ms=d, held=held)))
    print()
    lab.table("Open vSwitch", "rate", "lost", "min", "max", "emulated")
    for connections, d in (("kept", 50), ("kept", 300), ("new", 300)):
        modelled = dict(select(found, "rate_pps", share, delay_ms=d, buffers=0, knows="controller"))
        for rate, middle, least, most in whiskers(connections, d):
            lab.row(f"{d} ms, {connections} connections", f"{rate}/s", f"{middle:.1f} %", f"{least:.1f} %", f"{most:.1f} %", f"{modelled[rate]:.1f} %")


for half in sys.argv[1:] or ["model", "real"]:
    {"model": model, "real": real, "draw": lambda: None}[half]()
draw()
tell()
