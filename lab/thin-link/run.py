"""How many new flows per second does a control link carry, by rate and form of the messages?"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import figure
import lab

RATES = [float(rate) for rate in os.environ.get("RATES", "1 10 100 1000").split()]
SWITCHES = ["-s", "32", "-M", "1000"]
# Payload of a full packet: 1448 of 1500 bytes, with IPv4 and TCP with timestamps.
PAYLOAD_SHARE = 1448 / 1500
# By name: the application, options of the bench, and bytes per flow to the controller and from it.
FORMS = {
    "1.0, buffered, PACKET_OUT": ("hub", [], 82, 24),
    "1.0, buffered, FLOW_MOD": ("learning", [], 82, 80),
    "1.0, 64 bytes, not buffered": ("learning", ["--no-buffer"], 82, 80 + 24 + 64),
    "1.3, 64 bytes, not buffered": ("learning", ["--no-buffer", "--openflow", "1.3"], 106, 112 + 40 + 64),
    "1.0, 128 of 1500 bytes, buffered": ("learning", ["--frame-len", "128"], 146, 80),
    "1.0, 1500 bytes, not buffered": ("learning", ["--no-buffer", "--frame-len", "1500"], 1518, 80 + 24 + 1500),
}


def measure(rate, app, options):
    """Flows per second, and bytes per second in each direction, over the measured loops."""
    link = control.RecordedLink("--rate", f"{rate}Mbit")
    controller = control.Controller(*control.MINIMAL, "--app", app, namespace=control.FAR)
    report = tempfile.NamedTemporaryFile(suffix=".json")
    # At most a 32nd of what the link carries per second is outstanding; a longer queue gives no more information.
    window = max(16, min(4096, int(rate * 1e6 / 8 / 82 / 32)))
    load = ["-l", "5", "-m", "1000", "--window", str(window), "--debug=on", "--timeout", "30000"]
    bench = subprocess.Popen(
        [*lab.PRIORITY, lab.SLUICE, "bench", "-c", control.FAR.ip, "-p", str(control.PORT),
         *SWITCHES, *load, *options, "--json", report.name],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    ends, output = [], []
    for line in bench.stderr:
        output.append(line)
        if line.startswith("loop "):
            ends.append(time.monotonic() - link.opened)
    if bench.wait() != 0:
        sys.exit(f"the bench failed: {''.join(output)}")
    report_data = json.loads(pathlib.Path(report.name).read_text())
    controller.stop()
    _, up, down = link.close()
    # The first loop is warm-up.
    span = (ends[0], ends[-1])
    return {
        "flows_per_s": report_data["rate"]["mean"],
        "p50_ms": (report_data["latency_ns"] or {}).get("p50", 0) / 1e6,
        "up_bytes_per_s": mean(up, *span),
        "down_bytes_per_s": mean(down, *span),
        "answered": report_data["requests"]["answered"],
        "never_answered": report_data["requests"]["never_answered"],
        "window": window,
    }


def mean(data, begin_s, end_s):
    """Bytes per second between two times since the link was opened."""
    bins = data[int(begin_s / control.BIN_S) : int(end_s / control.BIN_S)]
    return sum(bins) / (len(bins) * control.BIN_S) if bins else 0.0


def flows_max(rate, up, down):
    """Flows per second that a link of `rate` Mbit/s can carry, packet headers included."""
    return rate * 1e6 / 8 * PAYLOAD_SHARE / max(up, down)


def mbit(bytes_per_s):
    rate = bytes_per_s * 8 / 1e6
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def draw(runs):
    x = figure.Axis("rate of the link, each way", "Mbit/s", log=True, ticks=[1, 10, 100, 1000])
    lines = []
    for name, (_, _, up, down) in FORMS.items():
        got = [(float(rate), run["flows_per_s"]) for rate, run in runs[name].items()]
        room = [(float(rate), flows_max(float(rate), up, down)) for rate in runs[name]]
        lines += [figure.Line(name, got), figure.Line(name, room, dashed=True, marks=False)]
    lines.append(figure.Line("dashed: capacity of the link", [], dashed=True, marks=False))
    flows = figure.Panel(x, figure.Axis("flows per second", log=True), lines)
    figure.write(HERE / "flows.svg", "Flows per second through a control link: 32 switches, 1 000 hosts each", [flows], height=420)
    panels = []
    for title, direction in (("to the controller", "up_bytes_per_s"), ("to the switches", "down_bytes_per_s")):
        got = {name: [(float(rate), run[direction] * 8 / 1e6) for rate, run in of.items()] for name, of in runs.items()}
        y = figure.Axis("on the link", "Mbit/s", log=True)
        panels.append(figure.Panel(x, y, [figure.Line(name, points) for name, points in got.items()], title=title))
    figure.write(HERE / "bytes.svg", "Traffic on the control link", panels, columns=2, width=480)


def main():
    control.enter_namespaces()
    # Rates that were measured earlier are kept.
    kept = HERE / "data/flows.json"
    before = json.loads(kept.read_text())["runs"] if kept.exists() else {}
    runs = {name: before.get(name, {}) for name in FORMS}
    for rate in RATES:
        for name, (app, options, _, _) in FORMS.items():
            runs[name][f"{rate:g}"] = measure(rate, app, options)
            print(rate, name, runs[name][f"{rate:g}"], file=sys.stderr, flush=True)
    lab.store("thin-link/flows", {"runs": runs})
    draw(runs)
    lab.table(
        "messages", "link, Mbit/s", "flows/s", "share of the capacity", "bytes up", "bytes down",
        "used up, Mbit/s", "used down, Mbit/s", "p50",
    )  # fmt: skip
    for name, (_, _, up, down) in FORMS.items():
        for rate, run in runs[name].items():
            flows = run["flows_per_s"]
            lab.row(
                name, rate, f"{flows:,.0f}", f"{flows / flows_max(float(rate), up, down):.2f}", up, down,
                mbit(run["up_bytes_per_s"]), mbit(run["down_bytes_per_s"]), f"{run['p50_ms']:.0f} ms",
            )  # fmt: skip


if sys.argv[1:] == ["--draw"]:
    draw(json.loads((HERE / "data/flows.json").read_text())["runs"])
else:
    main()
