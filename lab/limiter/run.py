"""What is left of a switch's control link to other hosts when one of them fills it, with and without the limiter?"""

import json
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

# Of the hog, conversations a second.
RATES = [0, 2000, 5000, 10_000]
# Of the other host.
ASKED_PER_S = 50
SECONDS = float(os.environ.get("SECONDS", "8"))
VERSIONS = ["OpenFlow10", "OpenFlow13"]
ROWS = {"without": "topology,hosts,forwarding", "with": "limiter,topology,hosts,forwarding"}
CONFIG = '[forwarding]\nmatch = "five-tuple"\n'


def packet_ins(metrics):
    return sum(value for name, value in metrics.items() if name.startswith("messages_received") and "PACKET_IN" in name)


def processor_s(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(version, row, rate):
    net = network.line(version, 1)
    ill, good, server = (net.host("s1") for _ in range(3))
    controller = control.Controller("--app", ROWS[row], config=CONFIG)
    net.connect(controller)
    for host in (ill, good):
        control.until(lambda: host.reaches(server))
    script = [*lab.FIRST, sys.executable, str(HERE / "talk.py")]
    serving = server.start(*script, "serve")
    hogging = ill.start(*script, "hog", server.ip, str(rate), stdout=-1, text=True)
    time.sleep(2)
    before, busy, start = controller.metrics(), processor_s(controller.process), time.monotonic()
    asking = good.start(*script, "ask", server.ip, str(ASKED_PER_S), str(SECONDS), stdout=-1, text=True)
    took = json.loads(asking.communicate()[0])
    span = time.monotonic() - start
    after, busy = controller.metrics(), processor_s(controller.process) - busy
    hogging.terminate()
    sent = float(hogging.communicate()[0])
    serving.terminate()
    controller.stop()
    net.close()
    answered = [one for one in took if one is not None]
    return {
        "version": version, "limiter": row, "rate": rate, "sent_per_s": round(sent),
        "asked": len(took), "share": len(answered) / len(took),
        "median_ms": round(statistics.median(answered) * 1e3, 2) if answered else None,
        "packet_ins_per_s": round((packet_ins(after) - packet_ins(before)) / span),
        "core": round(busy / span, 3),
        "holds": after.get("limiter_blocks_total", 0),
    }


def runs(found, row, version):
    return [one for one in found if (one["limiter"], one["version"]) == (row, version)]


if __name__ == "__main__":
    control.alone()
    found = []
    lab.table("version", "limiter", "abuser sends/s", "PACKET_IN/s", "others answered", "median latency", "of a core")
    for version in VERSIONS:
        for row in ROWS:
            for rate in RATES:
                one = measure(version, row, rate)
                found.append(one)
                lab.row(
                    version, row, one["sent_per_s"], one["packet_ins_per_s"], f"{one['share']:.0%}",
                    f"{one['median_ms']} ms", f"{one['core']:.0%}",
                )
    lab.keep("limiter/shares", {"asked_per_s": ASKED_PER_S, "runs": found})
    panels = [
        figure.Panel(
            figure.Axis("new conversations of the hog", "1/s"), axis,
            [
                figure.Line(f"{row} limiter, {version}", [(one["rate"], of(one)) for one in runs(found, row, version)])
                for row in ROWS for version in VERSIONS
            ],
        )
        for axis, of in (
            (figure.Axis("share of others that is answered", "%", high=100), lambda one: one["share"] * 100),
            (figure.Axis("PACKET_IN a second"), lambda one: one["packet_ins_per_s"]),
        )
    ]
    figure.write(HERE / "shares.svg", "One host fills the control link of its switch", panels, columns=2)
