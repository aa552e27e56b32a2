"""How does the controller compare with others, with our bench and with the original cbench?

CBENCH=path is a build of cbench from mininet/oflops; without it, that part is left out with a message. BEACON=command starts
Beacon's learning switch on the port PORT, a word of its own; without it, Beacon is left out with a message.
"""
import os
import re
import shlex
import subprocess
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

HERE = pathlib.Path(__file__).resolve().parent
OSKEN = lab.ROOT / ".cache/osken-3.1.1/bin/osken-manager"

pin = ["taskset", "-c", lab.CONTROLLER_CORE]
port = lab.free_port()
others = [
    lab.Subject("ovs-testcontroller", [*pin, "ovs-testcontroller", "ptcp:PORT", "-O", "OpenFlow10", "-vconsole:off"]),
    lab.Subject(
        "os-ken",
        [*pin, str(OSKEN), "--ofp-tcp-listen-port", "PORT", str(HERE / "osken_learning.py")],
    ),
]
beacon = os.environ.get("BEACON")
if beacon:
    others.append(lab.Subject("Beacon", [*pin, *shlex.split(beacon)]))
    # The JVM compiles what it has run often enough.
    warm_up = ["-c", "127.0.0.1", "-p", str(others[-1].port), "-s", "16", "-t", "-l", "10", "-m", "1000", "-M", "1000"]
    subprocess.run([lab.SLUICE, "bench", *warm_up], capture_output=True, check=True)
else:
    print("BEACON is not set: it was not run")
subjects = [lab.null(), lab.learning(), *others]
lab.table(
    "`sluice bench`, OpenFlow 1.0", "replies/s, 16 switches with 1 000 hosts, throughput mode",
    "median time to the reply in µs, 1 switch with 100 hosts, latency mode",
)  # fmt: skip
full = lab.compare("beside/throughput", subjects, ["-s", "16", "-t", "-l", "4", "-m", "1000", "-M", "1000"], lab.rounds())
one = lab.compare("beside/latency", subjects, ["-s", "1", "-l", "4", "-m", "500", "-M", "100"], lab.rounds())
for name, of in full.items():
    lab.row(name, f"{of['per_second']:,.0f}", f"{one[name]['p50_us']:.0f}")

print()
cbench = os.environ.get("CBENCH")


def responses_per_s(port, mode):
    """What cbench reports, 0 if that is nothing."""
    command = [cbench, "-c", "127.0.0.1", "-p", str(port), "-s", "16", "-M", "1000", "-l", "4", "-m", "1000", *mode]
    command = [*lab.PRIORITY, "taskset", "-c", lab.BENCH_CORE, *command]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return 0.0
    found = re.search(r"avg/stdev = [\d.]+/[\d.]+/([\d.]+)/", result.stdout)
    return float(found.group(1)) if found else 0.0


def cell(rates):
    return f"{lab.statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


if cbench:
    lab.table("original cbench, 16 switches with 1 000 hosts", "responses/s, throughput mode", "responses/s, latency mode")
    results = {subject.name: {"throughput": [], "latency": []} for subject in subjects}
    for _ in range(lab.rounds()):
        for subject in subjects:
            for mode, options in (("throughput", ["-t"]), ("latency", [])):
                results[subject.name][mode].append(responses_per_s(subject.port, options))
    lab.store("beside/cbench", results)
    for name, of in results.items():
        lab.row(name, cell(of["throughput"]), cell(of["latency"]))
else:
    print("CBENCH is not set: the original cbench was not run")
for subject in subjects:
    subject.stop()
