"""Does `sluice bench` agree with an independent program, and with cbench, on rates and latencies?

CBENCH=path is a build of cbench from mininet/oflops; without it, that part is left out with a message.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SECONDS = "2"
CASES = (
    # Name, switches, outstanding requests per switch.
    ("one request at a time", "1", "1"),
    ("one request on each of 16 switches", "16", "1"),
    ("16 requests on each of 16 switches", "16", "16"),
    ("100 requests on each of 16 switches", "16", "100"),
)


def ruler(binary, subject, switches, window):
    """Answers per second, and median latency in microseconds, by the independent program."""
    command = ["taskset", "-c", lab.BENCH_CORE, binary, "127.0.0.1", str(subject.port), switches, window, SECONDS]
    output = subprocess.run(lab.PRIORITY + command, capture_output=True, text=True, check=True).stdout
    rate, median = output.split()
    return float(rate), float(median)


def bench(subject, switches, window):
    """The same by `sluice bench`."""
    options = ["-s", switches, "--window", window, "-M", "1000", "-w", "1", "-l", str(1 + int(SECONDS))]
    report = lab.bench(subject, *options)
    return report["rate"]["mean"], report["latency_ns"]["p50"] / 1e3


def cbench(binary, subject):
    """Responses per second of 16 switches with one outstanding request each, as cbench reports them."""
    options = ["-c", "127.0.0.1", "-p", str(subject.port), "-s", "16", "-M", "1000", "-w", "1", "-l", "4", "-m", "1000"]
    command = [*lab.PRIORITY, "taskset", "-c", lab.BENCH_CORE, binary, *options]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"avg/stdev = [\d.]+/[\d.]+/([\d.]+)/", output)
    return float(found.group(1)) if found else 0.0


def compare_with_cbench(binary):
    print()
    lab.table("controller", "16 switches with one request each", "cbench", "`sluice bench`", "ratio of the medians")
    cases = (
        ("null", "one flow-mod per request", lambda: lab.null()),
        ("null", "two flow-mods per request", lambda: lab.null("--flow-mods", "2")),
        ("sluice, learning", "one flow-mod per request", lab.learning),
    )
    for name, what, make in cases:
        subject = make()
        runs = {"cbench": [], "bench": []}
        for _ in range(lab.rounds()):
            runs["cbench"].append(cbench(binary, subject))
            runs["bench"].append(bench(subject, "16", "1")[0])
        subject.stop()
        lab.store(f"ruler/cbench-{what.split()[0]}-{subject.name}", {"runs": runs})
        ratio = statistics.median(runs["bench"]) / statistics.median(runs["cbench"])
        lab.row(name, what, *(cell(runs[key], "{:,.0f}".format) for key in ("cbench", "bench")), f"{ratio:.3f}")


def cell(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def main():
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/ruler"
        source = pathlib.Path(__file__).with_name("ruler.c")
        subprocess.run(["cc", "-O2", "-o", binary, source], check=True)
        lab.table("controller", "load", "", "ruler", "`sluice bench`", "ratio of the medians")
        for make in (lab.null, lab.learning):
            for name, switches, window in CASES:
                subject = make()
                runs = {"ruler": [], "bench": []}
                for _ in range(lab.rounds()):
                    runs["ruler"].append(ruler(binary, subject, switches, window))
                    runs["bench"].append(bench(subject, switches, window))
                subject.stop()
                lab.store(f"ruler/{subject.name}-{switches}-{window}", {"runs": runs})
                for what, at, form in (("answers/s", 0, "{:,.0f}".format), ("median, µs", 1, "{:.1f}".format)):
                    ours, theirs = ([run[at] for run in runs[key]] for key in ("bench", "ruler"))
                    ratio = statistics.median(ours) / statistics.median(theirs)
                    lab.row(subject.name, name, what, cell(theirs, form), cell(ours, form), f"{ratio:.3f}")
    if path := os.environ.get("CBENCH"):
        compare_with_cbench(path)
    else:
        print("CBENCH is not set: it was not run")


main()
