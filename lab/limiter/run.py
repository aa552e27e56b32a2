"""What remains for other hosts when one host fills the control link of its switch, with and without the limiter?"""

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

# New flows per second of the abusing host.
RATES = [0, 2000, 5000, 10_000]
# Requests per second of the other host.
REQUESTS_PER_S = 50
SECONDS = float(os.environ.get("SECONDS", "8"))
VERSIONS = ["OpenFlow10", "OpenFlow13"]
APPLICATIONS = {"without": "topology,hosts,forwarding", "with": "limiter,topology,hosts,forwarding"}
CONFIG = '[forwarding]\nmatch = "five-tuple"\n'


def packet_ins(metrics):
    return sum(value for name, value in metrics.items() if name.startswith("messages_received") and "PACKET_IN" in name)


def cpu_s(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(version, limiter, rate):
    net = network.line(version, 1)
    abuser, client, server = (net.host("s1") for _ in range(3))
    controller = control.Controller("--app", APPLICATIONS[limiter], config=CONFIG)
    net.connect(controller)
    for host in (abuser, client):
        control.wait_until(lambda: host.reaches(server))
    script = [*lab.PRIORITY, sys.executable, str(HERE / "traffic.py")]
    serving = server.start(*script, "serve")
    flooding = abuser.start(*script, "flood", server.ip, str(rate), stdout=-1, text=True)
    time.sleep(2)
    before, busy, start = controller.metrics(), cpu_s(controller.process), time.monotonic()
    requests = client.start(*script, "request", server.ip, str(REQUESTS_PER_S), str(SECONDS), stdout=-1, text=True)
    times_s = json.loads(requests.communicate()[0])
    span = time.monotonic() - start
    after, busy = controller.metrics(), cpu_s(controller.process) - busy
    flooding.terminate()
    sent = float(flooding.communicate()[0])
    serving.terminate()
    controller.stop()
    net.close()
    answered = [one for one in times_s if one is not None]
    return {
        "version": version, "limiter": limiter, "rate": rate, "sent_per_s": round(sent),
        "asked": len(times_s), "share": len(answered) / len(times_s),
        "median_ms": round(statistics.median(answered) * 1e3, 2) if answered else None,
        "packet_ins_per_s": round((packet_ins(after) - packet_ins(before)) / span),
        "core": round(busy / span, 3),
        "holds": after.get("limiter_blocks_total", 0),
    }


def runs(results, limiter, version):
    return [one for one in results if (one["limiter"], one["version"]) == (limiter, version)]


if __name__ == "__main__":
    control.enter_namespaces()
    results = []
    lab.table(
        "OpenFlow", "limiter", "new flows/s of the abuser", "packet-ins/s of the switch", "requests of the other host answered",
        "median time to the reply", "CPU of the controller, of one core",
    )  # fmt: skip
    for version in VERSIONS:
        for limiter in APPLICATIONS:
            for rate in RATES:
                one = measure(version, limiter, rate)
                results.append(one)
                lab.row(
                    version, limiter, one["sent_per_s"], one["packet_ins_per_s"], f"{one['share']:.0%}",
                    f"{one['median_ms']} ms", f"{one['core']:.0%}",
                )
    lab.store("limiter/shares", {"asked_per_s": REQUESTS_PER_S, "runs": results})
    panels = [
        figure.Panel(
            figure.Axis("new flows of the abusing host", "1/s"), axis,
            [
                figure.Line(f"{limiter} limiter, {version}", [(one["rate"], of(one)) for one in runs(results, limiter, version)])
                for limiter in APPLICATIONS for version in VERSIONS
            ],
        )
        for axis, of in (
            (figure.Axis("answered requests of the other host", "%", high=100), lambda one: one["share"] * 100),
            (figure.Axis("packet-ins per second"), lambda one: one["packet_ins_per_s"]),
        )
    ]
    figure.write(HERE / "shares.svg", "One host fills the control link of its switch", panels, columns=2)
