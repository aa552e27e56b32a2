"""How close do the default applications and `learning` come to the ceiling of the machine, as Open vSwitch sends and buffered?"""
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SWITCHES = ["-s", "16", "-M", "1000", "-l", "4", "-m", "500"]
SLEEPING = [*SWITCHES, "-t"]
# A generator that sleeps has to be woken by each write of a controller that is slower than it.
LOADS = {
    "unlimited": [*SLEEPING, "--spin", "1000"],
    "unlimited, generator sleeps": SLEEPING,
    "100 per switch": [*SWITCHES, "--spin", "1000", "--window", "100"],
    "1": ["-s", "1", "-M", "1000", "--window", "1", "-l", "4", "-m", "500"],
}
# Ports are classified, and hosts can be learned, some time after the handshake.
SETTLED = ["--delay", "2000"]
FILES = {"unlimited": "unlimited", "unlimited, generator sleeps": "sleeping", "100 per switch": "window-100", "1": "one"}
DEFAULT, LEARNING = "default applications", "learning"
SUBJECTS = {
    DEFAULT: lab.default_applications(),
    LEARNING: lab.learning(),
}
# The null responder returns as many bytes as the applications do: flow-mods with the same match, one for each direction
# with the default applications, and the packet unless it is buffered.
AS_DEFAULT, AS_LEARNING = ["--flow-mods", "2", "--match", "port-pair"], ["--match", "port-pair"]
CEILINGS = {
    (apps, buffered): lab.null(*options, *([] if buffered else ["--no-buffer"]), name=f"null like {apps}")
    for apps, options in [(DEFAULT, AS_DEFAULT), (LEARNING, AS_LEARNING)]
    for buffered in [True, False]
}


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def measure(apps, version, buffered, outstanding):
    arguments = [*LOADS[outstanding], "--openflow", version]
    arguments += [] if buffered else ["--no-buffer"]
    arguments += SETTLED if apps == DEFAULT else []
    ours, null = SUBJECTS[apps], CEILINGS[apps, buffered]
    file = f"{apps.split()[0]}-{version}{'' if buffered else '-no-buffer'}-{FILES[outstanding]}"
    lab.compare(f"defaults/{file}", [null, ours], arguments, lab.rounds())
    runs = json.loads((lab.ROOT / f"lab/defaults/data/{file}.json").read_text())["runs"]
    key, scale, digits, unit = ("p50_us", 1, 0, "µs") if outstanding == "1" else ("per_second", 1e-6, 1, "M/s")
    mine, theirs = ([run[key] * scale for run in runs[subject.name]] for subject in (ours, null))
    ratios = [a / b for a, b in zip(mine, theirs)]
    packet_ins = f"{version}, {'buffered' if buffered else 'not buffered'}"
    cells = [f"{median_and_range(values, digits)} {unit}" for values in (mine, theirs)]
    lab.row(apps, packet_ins, outstanding, *cells, median_and_range(ratios, 2))


lab.table("applications", "packet-ins", "outstanding", "controller", "null responder", "ratio")
for apps in SUBJECTS:
    for version in ["1.3", "1.0"]:
        for buffered in [False, True]:
            for outstanding in ["unlimited", "100 per switch"]:
                measure(apps, version, buffered, outstanding)
    measure(apps, "1.3", True, "unlimited, generator sleeps")
    measure(apps, "1.3", False, "1")
for subject in [*SUBJECTS.values(), *CEILINGS.values()]:
    subject.stop()
