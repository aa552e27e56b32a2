"""How much UDP is lost while flow entries are being installed from far away, and what helps?"""
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
TRACKING = {
    "nobody": "not tracked",
    "controller": "tracked by the controller",
    "switch": "tracked by the switch",
}
BLOCKING = {
    "no": "not blocked",
    "rule": "blocked by a flow entry",
    "meter": "blocked by a meter",
    "ahead": "meter from the beginning",
}
SECONDS, BYTES = 3, 1000
RECEIVE = """
import json, socket, sys, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
receiver.bind(("10.0.0.2", int(sys.argv[1])))
receiver.settimeout(0.2)
end, numbers, late, highest = time.monotonic() + float(sys.argv[2]), set(), 0, -1
while time.monotonic() < end:
    try:
        number = int.from_bytes(receiver.recv(2048)[:4], "big")
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
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(("10.0.0.2", port))
start = time.monotonic()
for n in range(count):
    wait = start + n / rate - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    sender.send(n.to_bytes(4, "big") + bytes(size - 4))
print(json.dumps({"sent": count, "took_s": time.monotonic() - start}))
"""


def model():
    """With emulated switches, in virtual time."""
    for table in ("udp", "hog"):
        command = ["cargo", "run", "--quiet", "--locked", "-p", "sluice-apps", "--example", "control_delay", table]
        rows = subprocess.run(command, cwd=lab.ROOT, check=True, capture_output=True, text=True).stdout
        (HERE / f"data/{table}.csv").write_text(rows)


def real():
    """With Open vSwitch, which does not buffer packets: packet-ins contain whole frames.

    Over old connections with the congestion control of the system, and over new ones with Reno, which the emulation
    uses.
    """
    control.enter_namespaces("real")
    figures = []
    net = network.line("OpenFlow13", 4)
    hosts = net.host("s1"), net.host("s4")
    link = control.Link("--delay", "5ms", "--rate", "10Mbit")
    env = {"SLUICE_FORWARDING__MATCH": "five-tuple"}
    controller = control.Controller("--threads", "1", namespace=control.FAR, env=env)
    net.bring_up(controller, *hosts)
    for host, other in (hosts, hosts[::-1]):
        host.add_neighbour(other)
    ports = iter(range(5001, 6000))
    for connections, delays, rates in (("kept", (50, 300), RATES[1:5]), ("new", (300,), RATES[2:5])):
        if connections == "new":
            control.run("sysctl -qw net.ipv4.tcp_congestion_control=reno")
        for delay in delays:
            link.command(f"delay {delay}ms")
            # Wait until the controller has measured the new round trip.
            time.sleep(20)
            for rate in rates:
                for _ in range(lab.rounds(3)):
                    if connections == "new":
                        reconnect(net, controller, hosts)
                    case = {"connections": connections, "delay_ms": delay, "rate_pps": rate}
                    figures.append(case | stream(hosts, next(ports), rate))
                    print(figures[-1], file=sys.stderr)
    lab.store("udp-loss/real", {"streams": figures})


def reconnect(net, controller, hosts):
    """Opens new control connections with initial windows, and waits until the network works."""
    net.disconnect()
    time.sleep(2)
    net.connect(controller)
    time.sleep(6)
    control.wait_until(lambda: hosts[0].reaches(hosts[1]))


def stream(hosts, port, rate):
    command = [sys.executable, "-c", RECEIVE, str(port), str(SECONDS + 3)]
    receiver = hosts[1].start(*command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    sent = hosts[0].script(SEND, port, rate, SECONDS * rate, BYTES)
    return sent | json.loads(receiver.communicate()[0])


def rows(table):
    def read(row):
        return {name: int(value) if value.isdigit() else value for name, value in row.items()}

    return [read(row) for row in csv.DictReader((HERE / f"data/{table}.csv").open())]


def loss(row):
    """Loss in percent."""
    return 100 * (1 - row["received"] / row["sent"])


def select(found, x, y, **fixed):
    """Points of the rows that have these values, ordered by x."""
    rows = [row for row in found if all(row[name] == value for name, value in fixed.items())]
    return sorted({(row[x], y(row)) for row in rows})


def loss_axis(label="lost", high=100):
    return figure.Axis(label, "%", high=high)


def pps(label):
    return figure.Axis(label, "packets/s", log=True)


def draw():
    found, hogs = rows("udp"), rows("hog")
    default = {"knows": "controller", "buffers": 256}
    figure.write(
        HERE / "loss.svg",
        f"UDP through 4 switches, control link of 10 Mbit/s: lost of the first {SECONDS} s",
        [
            figure.Panel(
                pps("sent"), loss_axis(high=40),
                [figure.Line(f"{d} ms away", select(found, "rate_pps", loss, delay_ms=d, **default)) for d in DELAYS],
                title="buffer for 256 packets",
            ),
            *(
                figure.Panel(
                    figure.Axis("packets that a switch can buffer", log=True, ticks=[16, 64, 256, 1024, 4096]),
                    loss_axis(high=40),
                    [
                        figure.Line(f"{d} ms away", [
                            # A logarithmic axis has no 0.
                            point for point in select(found, "buffers", loss, delay_ms=d, rate_pps=2000, knows=who)
                            if point[0]
                        ])
                        for d in DELAYS
                    ],
                    title=f"2000 packets/s, {TRACKING[who]}",
                )
                for who in ("controller", "switch")
            ),
        ],
        columns=3, width=400,
    )
    panels = []
    for name, label, y in (
        ("lost", "lost", loss),
        ("rules", "flow-mods sent", lambda row: max(row["flow_mods"], 1)),
        ("bytes", "kB to the controller", lambda row: row["bytes_up"] / 1e3),
        ("bytes", "kB from the controller", lambda row: row["bytes_down"] / 1e3),
    ):
        axis = loss_axis(high=40) if name == "lost" else figure.Axis(label, log=True)
        lines = [
            figure.Line(words, select(found, "rate_pps", y, delay_ms=300, buffers=256, knows=who))
            for who, words in TRACKING.items()
        ]
        panels.append(figure.Panel(pps("sent"), axis, lines, title=label))
    figure.write(HERE / "waiting.svg", "300 ms away, buffer for 256 packets", panels, columns=2, width=480)
    figure.write(
        HERE / "limiter.svg",
        "Conversations of 5 packets while another host sends each packet to a new port, control link of 2 Mbit/s",
        [
            figure.Panel(
                figure.Axis("the other host sends", "packets/s", high=4200, ticks=[0, 1000, 2000, 3000, 4000]),
                loss_axis("loss of the conversations"),
                [figure.Line(words, select(hogs, "hog_pps", loss, delay_ms=d, held=held)) for held, words in BLOCKING.items()],
                title=f"{d} ms away",
            )
            for d in (5, 100, 500)
        ],
        columns=3, width=380,
    )
    figure.write(
        HERE / "real.svg",
        "Open vSwitch, which does not buffer packets, and emulated switches without buffers",
        [
            figure.Panel(
                pps("sent"), loss_axis(high=40),
                [
                    line
                    for d in (50, 300)
                    for line in (
                        figure.Line(f"{d} ms away", whiskers("kept", d)),
                        figure.Line(f"{d} ms away, new connections", whiskers("new", d)),
                        figure.Line(f"{d} ms away, emulated", select(
                            found, "rate_pps", loss, delay_ms=d, buffers=0, knows="controller",
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
            by_rate.setdefault(row["rate_pps"], []).append(loss(row))
    return [(rate, statistics.median(got), min(got), max(got)) for rate, got in sorted(by_rate.items())]


def print_tables():
    found, hogs = rows("udp"), rows("hog")
    lab.table("lost, buffer for 256", *(f"{rate}/s" for rate in RATES))
    for d in DELAYS:
        points = select(found, "rate_pps", loss, delay_ms=d, buffers=256, knows="controller")
        lab.row(f"{d} ms", *(f"{y:.1f} %" for _, y in points))
    print()
    lab.table("lost, 2000/s", *(f"buffer for {n}" for n in (0, 16, 64, 256, 1024, 4096)))
    for d in DELAYS:
        for who in ("controller", "switch"):
            points = select(found, "buffers", loss, delay_ms=d, rate_pps=2000, knows=who)
            lab.row(f"{d} ms, {TRACKING[who]}", *(f"{y:.1f} %" for _, y in points))
    print()
    lab.table("300 ms away", "sent", "lost", "packet-ins", "flow-mods", "kB up", "kB down")
    for who, words in TRACKING.items():
        for row in found:
            if (row["knows"], row["buffers"], row["delay_ms"]) == (who, 256, 300) and row["rate_pps"] in (500, 2000):
                lab.row(words, f"{row['rate_pps']}/s", f"{loss(row):.1f} %", row["asked"], row["flow_mods"],
                        round(row["bytes_up"] / 1e3), round(row["bytes_down"] / 1e3))
    print()
    lab.table("neighbour's loss, abuser at", *(f"{rate}/s" for rate in HOGS))
    for d in (5, 100, 500):
        for held, words in BLOCKING.items():
            lab.row(f"{d} ms, {words}", *(f"{y:.1f} %" for _, y in select(hogs, "hog_pps", loss, delay_ms=d, held=held)))
    print()
    lab.table("Open vSwitch", "rate", "lost", "min", "max", "emulated")
    for connections, d in (("kept", 50), ("kept", 300), ("new", 300)):
        emulated = dict(select(found, "rate_pps", loss, delay_ms=d, buffers=0, knows="controller"))
        for rate, median, low, high in whiskers(connections, d):
            lab.row(f"{d} ms, {connections} connections", f"{rate}/s", f"{median:.1f} %", f"{low:.1f} %", f"{high:.1f} %", f"{emulated[rate]:.1f} %")


for part in sys.argv[1:] or ["model", "real"]:
    {"model": model, "real": real, "draw": lambda: None}[part]()
draw()
print_tables()
