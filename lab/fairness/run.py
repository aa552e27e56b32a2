"""Does a switch that floods the controller with packet-ins raise the latency of the others?"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# All switches together. The share of one of 16 is 6 250 per second.
RATE = 100_000
SHARE = RATE / 16
# The generators share a core, which is not what is measured: that of the others has the priority of all measurements, the flood that of other
# programs. A real-time priority does not help: the others need most of the core, and the kernel stops such programs for 50 ms when they
# use more than 95 % of a second.
SECONDS = 4
OTHERS = ["-s", "15", "--rate", str(RATE), "-M", "1000", "-D", "1000", "-l", str(SECONDS), "-w", "1", "--spin", "0"]
# More seconds than the others need, with their handshakes.
FLOOD = ["-s", "1", "-o", "1000", "-M", "1000", "-l", str(SECONDS + 3), "-w", "0"]
FLOODS = {
    "none": None,
    "100 times its share": [*FLOOD, "--rate", str(round(100 * SHARE)), "--arrivals", "burst:100", "--spin", "0"],
    "full sockets": [*FLOOD, "-t"],
}
SUBJECTS = {"learning": lab.learning, "topology, hosts, forwarding": lab.default_applications}


def command(port, arguments):
    return [lab.SLUICE, "bench", "-c", "127.0.0.1", "-p", str(port), "--pin", lab.BENCH_CORE, *arguments, "--json", "-"]


def report(output):
    at = output.find('{"schema"')
    if at < 0:
        sys.exit(f"the bench failed: {output}")
    return json.JSONDecoder().raw_decode(output[at:])[0]


def others(port):
    result = subprocess.run(lab.PRIORITY + command(port, OTHERS), capture_output=True, text=True)
    return report(result.stdout or result.stderr)


def start_flood(port, arguments):
    process = subprocess.Popen(command(port, arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(1)
    return process


def measure(subject, flood):
    """One run."""
    process = flood and start_flood(subject.port, flood)
    measured = others(subject.port)
    run = lab.figures(measured)
    lag = measured["generator"]["schedule_lag_ns"]
    run["not_sent"] = sum(measured["requests"]["not_sent"].values())
    run["p999_us"] = measured["latency_ns"]["p999"] / 1e3
    run["generator_late_p99_us"] = lag["p99"] / 1e3
    run["controller_cpu"] = measured["provenance"]["controllers"][0]["cpu"]["busiest_thread"]
    if process:
        output, _ = process.communicate()
        flooding = report(output)
        # The loops in which the others were measured.
        rates = [loop["rate"] for loop in flooding["loops"][3:SECONDS + 2]]
        run["flood_per_second"] = statistics.median(rates)
    return run


def median_and_range(runs, key):
    values = sorted(run[key] for run in runs)
    return f"{statistics.median(values):.0f} ({values[0]:.0f} to {values[-1]:.0f})"


lab.table("applications", "flood", "times its share", "p50, µs (range)", "p99, µs (range)", "p99 / p99 without (range)")
for name, subject in SUBJECTS.items():
    runs = {flood: [] for flood in FLOODS}
    for _ in range(lab.rounds()):
        for flood, arguments in FLOODS.items():
            controller = subject()
            runs[flood].append(measure(controller, arguments))
            controller.stop()
    lab.store(f"fairness/{name.split(',')[0]}", {"others": OTHERS, "floods": FLOODS, "runs": runs})
    for flood, flooded in runs.items():
        ratios = sorted(a["p99_us"] / b["p99_us"] for a, b in zip(flooded, runs["none"]))
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        times = statistics.median(run.get("flood_per_second", 0) for run in flooded) / SHARE
        lab.row(name, flood, f"{times:.0f}", median_and_range(flooded, "p50_us"), median_and_range(flooded, "p99_us"), ratio)
