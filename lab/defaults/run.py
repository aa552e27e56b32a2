"""How fast is the controller as most people run it, and in the cases that favour it?"""
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

UNLIMITED = ["-s", "16", "-M", "1000", "-t", "-l", "4", "-m", "700"]
ONE = ["-s", "1", "-M", "1000", "--window", "1", "-l", "4", "-m", "700"]
# As Open vSwitch sends packet-ins.
OVS = ["--openflow", "1.3", "--no-buffer"]
# Ports are classified, and hosts can be learned, some time after the handshake.
SETTLED = ["--delay", "3000"]
DEFAULT, LEARNING = "default applications", "learning"
CASES = [
    (DEFAULT, "1.3, not buffered", "unlimited", "default-1.3-unlimited", [*UNLIMITED, *OVS, *SETTLED]),
    (DEFAULT, "1.3, not buffered", "1", "default-1.3-one", [*ONE, *OVS, *SETTLED]),
    (DEFAULT, "1.0, buffered", "unlimited", "default-1.0-unlimited", [*UNLIMITED, *SETTLED]),
    (LEARNING, "1.3, not buffered", "unlimited", "learning-1.3-unlimited", [*UNLIMITED, *OVS]),
    (LEARNING, "1.3, not buffered", "1", "learning-1.3-one", [*ONE, *OVS]),
    (LEARNING, "1.0, buffered", "unlimited", "learning-1.0-unlimited", UNLIMITED),
]


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


controllers = {DEFAULT: lab.default_applications(), LEARNING: lab.learning()}
# The default applications answer with a flow entry for each direction.
ceilings = {DEFAULT: lab.null("--flow-mods", "2", name="null of two"), LEARNING: lab.null()}
lab.table("applications", "packet-ins", "outstanding", "controller", "null responder", "ratio")
for apps, packet_ins, outstanding, file, arguments in CASES:
    # The null responder does not look at packets, so its answers match no request of a packet that is not buffered.
    subjects = [controllers[apps]] if "--no-buffer" in arguments else [ceilings[apps], controllers[apps]]
    lab.compare(f"defaults/{file}", subjects, arguments, lab.rounds())
    runs = json.loads((lab.ROOT / f"lab/defaults/data/{file}.json").read_text())["runs"]
    key, scale, digits, unit = ("p50_us", 1, 0, "µs") if outstanding == "1" else ("per_second", 1e-6, 1, "M/s")
    values = {subject: [run[key] * scale for run in runs[subject.name]] for subject in subjects}
    cells = {subject: f"{median_and_range(values[subject], digits)} {unit}" for subject in subjects}
    ours, null = controllers[apps], ceilings[apps]
    ratio = median_and_range([a / b for a, b in zip(values[ours], values[null])], 2) if null in values else "–"
    lab.row(apps, packet_ins, outstanding, cells[ours], cells.get(null, "–"), ratio)
for subject in [*controllers.values(), *ceilings.values()]:
    subject.stop()
