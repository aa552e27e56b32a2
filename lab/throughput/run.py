"""How close does the controller come to the ceiling of the machine?"""
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

FULL = ["-s", "16", "-t", "-l", "4", "-m", "700"]
CASES = [
    ("1 000 hosts", "hosts-1000", [*FULL, "-M", "1000"]),
    ("100 000 hosts", "hosts-100000", [*FULL, "-M", "100000"]),
    ("1 000 hosts, every request a new address", "new-1000", [*FULL, "-M", "1000", "--new-sources", "1"]),
    ("1 000 hosts, window of 4 096", "window-1000", [*FULL[:2], "--window", "4096", *FULL[3:], "-M", "1000"]),
    ("100 000 hosts, window of 4 096", "window-100000", [*FULL[:2], "--window", "4096", *FULL[3:], "-M", "100000"]),
    ("1 000 hosts, 1.3", "hosts-1000-1.3", [*FULL, "-M", "1000", "--openflow", "1.3"]),
]

subjects = [lab.null(), lab.learning()]
lab.table("16 switches, hosts per switch", "null responder, M/s", "sluice, M/s", "ratio")
for name, file, arguments in CASES:
    results = lab.compare(f"throughput/{file}", subjects, arguments, lab.rounds())
    null, ours = results["null"]["per_second"], results["sluice"]["per_second"]
    lab.row(name, lab.millions(null), lab.millions(ours), f"{ours / null:.2f}")

# Both cases alternately on one controller, so that disturbances affect both.
known, new = (next(arguments for _, file, arguments in CASES if file == f"{kind}-1000") for kind in ("hosts", "new"))
runs = {"known": [], "new": []}
for _ in range(lab.rounds()):
    for kind, arguments in (("known", known), ("new", new)):
        runs[kind].append(lab.figures(lab.bench(subjects[1], *arguments))["per_second"])
lab.store("throughput/new-of-known", {"known": known, "new": new, "runs": runs})
share = statistics.median(runs["new"]) / statistics.median(runs["known"])
print(f"\nRate with new source addresses, relative to known ones: {share:.2f}")

for subject in subjects:
    subject.stop()
