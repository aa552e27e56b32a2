"""How does the controller compare with others, with our bench and with the original cbench?

CBENCH=path is a build of cbench from mininet/oflops; without it, that part is left out with a message.
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
if cbench:
    lab.table("original cbench, 16 switches with 1 000 hosts", "responses/s, throughput mode", "responses/s, latency mode")
    results = {}
    for subject in subjects:
        cells = []
        for mode in (["-t"], []):
            rates = []
            for _ in range(lab.rounds()):
                command = [cbench, "-c", "127.0.0.1", "-p", str(subject.port), "-s", "16", "-M", "1000", "-l", "4", "-m", "1000"]
                try:
                    result = subprocess.run([*lab.PRIORITY, "taskset", "-c", lab.BENCH_CORE, *command, *mode], capture_output=True, text=True, timeout=60)
                except subprocess.TimeoutExpired:
                    rates.append(0.0)
                    continue
                found = re.search(r"avg/stdev = [\d.]+/[\d.]+/([\d.]+)/", result.stdout)
                rates.append(float(found.group(1)) if found else 0.0)
            cells.append(lab.statistics.median(rates))
        results[subject.name] = cells
        lab.row(subject.name, *(f"{cell:,.0f}" for cell in cells))
    lab.store("beside/cbench", {"throughput, latency": results})
else:
    print("CBENCH is not set: the original cbench was not run")
for subject in subjects:
    subject.stop()
