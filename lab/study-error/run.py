"""Compares a controller with itself, and with itself slowed by a known time, by `sluice study compare`.

Each of the two pairs is one study, whose rounds are interleaved. Every five rounds are a study of their own: the first of the pair in
one folder, the second in another under the same name, and the two are compared. What is printed and stored counts these comparisons.

`report` prints the tables of the stored comparisons, `recompute` replaces their intervals by those of intervals.py, and `simulate` prints
the error and the power of these intervals.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import intervals

LAB = pathlib.Path(__file__).resolve().parent
ROOT = LAB.parent.parent
SLUICE = os.environ.get("SLUICE_BIN", str(ROOT / "target/release/sluice"))
HOME = os.environ.get("SLUICE_CONTROLLERS", str(ROOT / "target/controllers"))
RUNS = int(os.environ.get("RUNS", "20"))
ROUNDS = 5
SPIN_US = 200
PAIRS = {"same": ("same-a", "same-b"), "slowed": ("fast", "slow")}

EXPERIMENT = """
title = "Error of the study"
question = "Does a comparison show what is there, and nothing else?"
rounds = {rounds}
controllers = {controllers}

[measure]
kind = "bench"
switches = {switches}
hosts = 100
load = {load}
seconds = 1
warm_up_s = 0.4
delay_s = 0.2

[[figures]]
id = "rate"
kind = "bars"
title = "Throughput"
caption = "Packet-ins answered per second."
metric = "rate"
label = "answers per second"
unit = "1/s"
"""

# Every packet-in costs as much time more.
SPIN = f"""
        until = time.perf_counter() + {SPIN_US}e-6
        while time.perf_counter() < until:
            pass
"""


def definitions(folder):
    """Each controller twice, by another name; os-ken once with a loop that takes time."""
    controllers, experiments = folder / "controllers", folder / "experiments"
    controllers.mkdir(parents=True)
    experiments.mkdir()
    row = (ROOT / "study/controllers/sluice-learning.toml").read_text()
    for name in ("same-a", "same-b"):
        (controllers / f"{name}.toml").write_text(row)
    row = (ROOT / "study/controllers/os-ken.toml").read_text()
    (controllers / "fast.toml").write_text(row)
    start = "        message = event.msg\n"
    assert row.count(start) == 1, "the application of os-ken has changed"
    row = row.replace(start, SPIN.lstrip("\n") + start).replace("from collections", "import time\nfrom collections", 1)
    (controllers / "slow.toml").write_text(row)
    for name, first, second, switches, load in (
        ("same", "same-a", "same-b", 16, '"unlimited"'),
        ("slowed", "fast", "slow", 1, "{ window = 1 }"),
    ):
        text = EXPERIMENT.format(rounds=RUNS * ROUNDS, controllers=json.dumps([first, second]), switches=switches, load=load)
        (experiments / f"{name}.toml").write_text(text)


def part(study, folder, controller, run):
    """The rounds of one comparison of one controller, as a study of its own."""
    folder.mkdir(parents=True)
    record = json.loads((study / "study.json").read_text())
    record["controllers"] = [it | {"id": "subject"} for it in record["controllers"] if it["id"] == controller]
    for it in record["experiments"]:
        it["experiment"] |= {"rounds": ROUNDS, "controllers": []}
    (folder / "study.json").write_text(json.dumps(record))
    with (folder / "samples.jsonl").open("w") as out:
        for line in (study / "samples.jsonl").open():
            sample = json.loads(line)
            if sample["controller"] == controller and sample["round"] // ROUNDS == run:
                sample |= {"controller": "subject", "round": sample["round"] % ROUNDS}
                out.write(json.dumps(sample) + "\n")


def compare(work, study, first, second):
    """All comparisons: lists of rows."""
    runs = []
    for run in range(RUNS):
        folders = [work / f"{study.name}-{run}-{name}" for name in (first, second)]
        for folder, controller in zip(folders, (first, second)):
            part(study, folder, controller, run)
        command = [SLUICE, "study", "compare", "--json", *map(str, folders)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"])
    return runs


def main():
    work = pathlib.Path(tempfile.mkdtemp(prefix="study-error-"))
    definitions(work / "definitions")
    result = {"runs": RUNS, "rounds": ROUNDS, "spin_us": SPIN_US}
    for name, (first, second) in PAIRS.items():
        study = work / name
        command = [SLUICE, "study", "run", "--definitions", str(work / "definitions"), "--home", HOME,
                   "--controllers", f"{first},{second}", "--experiments", name, "--output", str(study)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        samples = [json.loads(line) for line in (study / "samples.jsonl").open()]
        runs = compare(work, study, first, second)
        result[name] = {
            "samples": [{key: it[key] for key in ("controller", "round", "figures", "machine")} for it in samples],
            "rows": runs,
        }
    (LAB / "data/comparisons.json").write_text(json.dumps(result, indent=1) + "\n")
    shutil.rmtree(work)
    report(result)


def counted(result, name):
    """The last sample of each controller and round."""
    return {(it["controller"], it["round"]): it for it in result[name]["samples"]}


def recompute(result):
    for name, pair in PAIRS.items():
        last = counted(result, name)
        for run, rows in enumerate(result[name]["rows"]):
            rounds = range(run * ROUNDS, (run + 1) * ROUNDS)
            intervals.recompute(rows, [[last[controller, it]["figures"] for it in rounds] for controller in pair])


def differs(row, interval="interval"):
    return row[interval] is not None and row["ratio"] is not None and not row[interval][0] <= 1 <= row[interval][1]


def summarize(result, name):
    last = counted(result, name).values()
    disturbed = sum(it["machine"]["is_disturbed"] for it in last)
    comparisons = result[name]["rows"]
    any_row = sum(any(differs(row) for row in rows) for rows in comparisons)
    rate = sum(any(differs(row, "joint_interval") for row in rows if row["metric"] == "rate") for rows in comparisons)
    print(f"\n{name}: {any_row} of {len(comparisons)} comparisons have a row that differs, {rate} by the gate's interval of the rate; "
          f"{disturbed} of {len(last)} samples that count were disturbed, {len(result[name]['samples'])} were taken")


def longer(result, name, rounds):
    """The same samples in fewer comparisons of more rounds, by intervals.py."""
    last, pair = counted(result, name), PAIRS[name]
    number = RUNS * ROUNDS // rounds
    found, any_row = {}, 0
    for run in range(number):
        sides = [[last[it, at]["figures"] for at in range(run * rounds, (run + 1) * rounds)] for it in pair]
        differ = intervals.differing(sides)
        any_row += bool(differ)
        for metric in differ:
            found[metric] = found.get(metric, 0) + 1
    rows = ", ".join(f"`{metric}` in {n}" for metric, n in sorted(found.items()))
    print(f"{name}, {rounds} rounds each: {any_row} of {number} comparisons have a row that differs{': ' if rows else ''}{rows}")


def report(result):
    for name in PAIRS:
        summarize(result, name)
        longer(result, name, 2 * ROUNDS)
        print(f"\n| {name}: figure | comparisons | significantly different | ratio, median (range) | difference of the means, median (range) |")
        print("| --- | --- | --- | --- | --- |")
        metrics = sorted({row["metric"] for rows in result[name]["rows"] for row in rows})
        for metric in metrics:
            rows = [row for rows in result[name]["rows"] for row in rows if row["metric"] == metric]
            known = [row for row in rows if row["interval"] and row["ratio"] is not None]
            if not known:
                continue
            different = sum(differs(row) for row in known)
            ratios = [row["ratio"] for row in known]
            gaps = [row["means"][1] - row["means"][0] for row in known]
            span = lambda values, form: f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
            print(f"| `{metric}` | {len(known)} | {different} | {span(ratios, '.3f')} | {span(gaps, '.4g')} |")


if __name__ == "__main__":
    data = LAB / "data/comparisons.json"
    match sys.argv[1:]:
        case []:
            main()
        case ["report"]:
            report(json.loads(data.read_text()))
        case ["recompute"]:
            stored = json.loads(data.read_text())
            recompute(stored)
            data.write_text(json.dumps(stored, indent=1) + "\n")
            report(stored)
        case ["simulate"]:
            intervals.simulate([it["figures"] for it in counted(json.loads(data.read_text()), "same").values()])
        case _:
            sys.exit("usage: run.sh [report | recompute | simulate]")
