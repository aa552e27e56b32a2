"""How does the controller do beside others, under our bench and under the original cbench?

CBENCH=path names a build of mininet/oflops' cbench; without it that part is left out and said to be.
"""
import os
import re
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
subjects = [lab.null(), lab.sluice(), *others]
lab.table("16 switches, 1 000 hosts, 1.0", "answers/s, -t", "p50 µs, one request on one switch")
full = lab.compare("beside/throughput", subjects, ["-s", "16", "-t", "-l", "4", "-m", "1000", "-M", "1000"], lab.rounds())
one = lab.compare("beside/latency", subjects, ["-s", "1", "-l", "4", "-m", "500", "-M", "100"], lab.rounds())
for name, of in full.items():
    lab.row(name, f"{of['per_second']:,.0f}", f"{one[name]['p50_us']:.0f}")

print()
cbench = os.environ.get("CBENCH")
if cbench:
    lab.table("original cbench, 16 switches, 1 000 hosts", "responses/s, -t", "responses/s, latency mode")
    kept = {}
    for subject in subjects:
        cells = []
        for mode in (["-t"], []):
            best = []
            for _ in range(lab.rounds()):
                words = [cbench, "-c", "127.0.0.1", "-p", str(subject.port), "-s", "16", "-M", "1000", "-l", "4", "-m", "1000"]
                try:
                    done = subprocess.run([*lab.FIRST, "taskset", "-c", lab.BENCH_CORE, *words, *mode], capture_output=True, text=True, timeout=60)
                except subprocess.TimeoutExpired:
                    best.append(0.0)
                    continue
                found = re.search(r"avg/stdev = [\d.]+/[\d.]+/([\d.]+)/", done.stdout)
                best.append(float(found.group(1)) if found else 0.0)
            cells.append(lab.statistics.median(best))
        kept[subject.name] = cells
        lab.row(subject.name, *(f"{cell:,.0f}" for cell in cells))
    lab.keep("beside/cbench", {"throughput, latency": kept})
else:
    print("CBENCH is not set: the original cbench was not run")
for subject in subjects:
    subject.stop()
