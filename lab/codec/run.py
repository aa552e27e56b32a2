"""What does it cost to parse and to encode a message, compared with other libraries?

Callgrind counts instructions over a short and a long run of a case; the difference excludes the start of the program.
Nanoseconds are measured by the programs themselves, medians of alternating runs. All get the same bytes.
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
import peers

CASES = [
    ("packet_in", "view"),
    ("packet_in", "read"),
    ("flow_mod", "write"),
    ("flow_mod", "stamp"),
    ("flow_mod", "read"),
    ("packet_out", "write"),
    ("packet_out", "stamp"),
    ("flow_removed", "view"),
    ("flow_removed", "read"),
    ("flow_stats", "view"),
    ("flow_stats", "read"),
]
VERSIONS = ["1.0", "1.3", "1.5"]
# Target duration of a timed run.
RUN_NS = 100e6


def sluice():
    command = ["cargo", "build", "--locked", "--release", "-p", "sluice-fastpath", "--example", "message_cost"]
    subprocess.run(command, cwd=lab.ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", lab.ROOT / "target"))
    return [target / "release/examples/message_cost"], "this"


def subjects():
    """Name, command and countability of all subjects that can be built; and the version of each."""
    found, versions = [("sluice", sluice()[0], True)], {"sluice": "this"}
    for name, build, counted in peers.PEERS:
        try:
            command, versions[name] = build()
            found.append((name, command, counted))
        except peers.Missing as why:
            versions[name] = f"left out: {why}"
        print(f"{name}: {versions[name]}", file=sys.stderr, flush=True)
    return found, versions


def run_once(command):
    """The nanoseconds per message that a run prints; None if the subject does not support the case."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = result.stdout.strip().splitlines()
    return float(lines[-1]) if result.returncode == 0 and lines else None


def instructions(command, case, n):
    with tempfile.NamedTemporaryFile() as report:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={report.name}"]
        totals = []
        for count in (n, 3 * n):
            if run_once([*tool, *command, *case, str(count)]) is None:
                return None
            text = pathlib.Path(report.name).read_text()
            totals.append(int(re.search(r"^totals: (\d+)", text, re.M).group(1)))
    return round((totals[1] - totals[0]) / (2 * n))


def nanoseconds(supported, case):
    """Medians by name, of alternating runs."""
    counts = {name: max(10, int(RUN_NS / first)) for name, _, first in supported}
    runs = {name: [] for name in counts}
    for _ in range(lab.rounds()):
        for name, command, _ in supported:
            pin = ["taskset", "-c", lab.CONTROLLER_CORE]
            runs[name].append(run_once([*lab.PRIORITY, *pin, *command, *case, str(counts[name])]))
    return {name: statistics.median(of) for name, of in runs.items()}, runs


def measure(found, messages):
    kept = {}
    for kind, deed in CASES:
        for version in VERSIONS:
            case = [messages, version, kind, deed]
            first = [(name, command, run_once([*command, *case, "20"])) for name, command, _ in found]
            supported = [subject for subject in first if subject[2]]
            medians, runs = nanoseconds(supported, case)
            counted = {name: command for name, command, can in found if can and name in medians}
            counts = {name: instructions(of, case, 100 if kind == "flow_stats" else 1000) for name, of in counted.items()}
            kept[f"{kind} {deed} {version}"] = {
                name: {"instructions": counts.get(name), "ns": medians[name], "runs": runs[name]} for name in medians
            }
            for name in medians:
                lab.row(kind, deed, version, name, counts.get(name) or "", f"{medians[name]:,.0f}")
    return kept


found, versions = subjects()
with tempfile.TemporaryDirectory() as messages:
    subprocess.run([*map(str, found[0][1]), "messages", messages], check=True)
    lab.table("kind", "deed", "version", "subject", "instructions", "ns")
    cases = measure(found, messages)
lab.store("codec/cost", {"cases": cases, "subjects": versions})
print()
for name, version in versions.items():
    print(f"{name}: {version}")
