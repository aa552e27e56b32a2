"""Compares a controller with itself, and with itself slowed by a known time, by `sluice study compare`.

Each of the two pairs is one study, whose rounds are interleaved. Every five rounds are a study of their own: the first of the pair in
one folder, the second in another under the same name, and the two are compared; and every ten rounds likewise. What is printed counts these comparisons.

The records and samples of both studies are stored; `report` compares them again.
"""

import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LAB = pathlib.Path(__file__).resolve().parent
ROOT = LAB.parent.parent
DATA = LAB / "data"
SLUICE = os.environ.get("SLUICE_BIN", str(ROOT / "target/release/sluice"))
HOME = os.environ.get("SLUICE_CONTROLLERS", str(ROOT / "target/controllers"))
RUNS = int(os.environ.get("RUNS", "20"))
ROUNDS = (5, 10)
SPIN_US = 200
PAIRS = {"same": ("same-a", "same-b"), "slowed": ("fast", "slow")}

EXPERIMENT = """
title = "Error of the study"
question = "Does a comparison show what is there, and nothing else?"
rounds = {rounds}
controllers = {controllers}

[measure]
kind = "bench"
switches = 1
hosts = 100
load = {{ window = 1 }}
seconds = 1
warm_up_s = 0.4
delay_s = 1

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
    row = (ROOT / "study/controllers/sluice.toml").read_text()
    for name in ("same-a", "same-b"):
        (controllers / f"{name}.toml").write_text(row)
    row = (ROOT / "study/controllers/os-ken.toml").read_text()
    (controllers / "fast.toml").write_text(row)
    start = "        message = event.msg\n"
    assert row.count(start) == 1, "the application of os-ken has changed"
    row = row.replace(start, SPIN.lstrip("\n") + start).replace("from collections", "import time\nfrom collections", 1)
    (controllers / "slow.toml").write_text(row)
    for name, pair in PAIRS.items():
        text = EXPERIMENT.format(rounds=RUNS * ROUNDS[0], controllers=json.dumps(pair))
        (experiments / f"{name}.toml").write_text(text)


def measure():
    """Runs the two studies and stores their records and samples."""
    with tempfile.TemporaryDirectory(prefix="study-error-") as work:
        work = pathlib.Path(work)
        definitions(work / "definitions")
        for name, pair in PAIRS.items():
            study = work / name
            command = [SLUICE, "study", "run", "--definitions", str(work / "definitions"), "--home", HOME,
                       "--controllers", ",".join(pair), "--experiments", name, "--output", str(study)]
            subprocess.run(command, check=True, stdout=sys.stderr)
            store(study, DATA / name)


def store(study, folder):
    """Copies a study, with general words in the place of this machine's folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("study.json", "samples.jsonl"):
        text = (study / file).read_text()
        for path, word in ((str(study.parent), "STUDY"), (HOME, "CONTROLLERS"), (SLUICE, "sluice")):
            text = text.replace(path, word)
        (folder / file).write_text(text)


def samples_of(name):
    return [json.loads(line) for line in (DATA / name / "samples.jsonl").open()]


def part(name, folder, controller, rounds):
    """Some rounds of one controller, as a study of its own."""
    folder.mkdir(parents=True)
    record = json.loads((DATA / name / "study.json").read_text())
    record["controllers"] = [it | {"id": "subject"} for it in record["controllers"] if it["id"] == controller]
    for it in record["experiments"]:
        it["experiment"] |= {"rounds": len(rounds), "controllers": []}
    (folder / "study.json").write_text(json.dumps(record))
    with (folder / "samples.jsonl").open("w") as out:
        for sample in samples_of(name):
            if sample["controller"] == controller and sample["round"] in rounds:
                sample |= {"controller": "subject", "round": sample["round"] - rounds.start}
                out.write(json.dumps(sample) + "\n")


def compare(name, rounds):
    """All comparisons of so many rounds each: lists of rows."""
    comparisons = []
    last = max(sample["round"] for sample in samples_of(name))
    for start in range(0, last + 1, rounds):
        with tempfile.TemporaryDirectory(prefix="study-error-") as work:
            folders = [pathlib.Path(work) / controller for controller in PAIRS[name]]
            for folder, controller in zip(folders, PAIRS[name]):
                part(name, folder, controller, range(start, start + rounds))
            command = [SLUICE, "study", "compare", "--json", *map(str, folders)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            comparisons.append(json.loads(output)["rows"])
    return comparisons


def differs(row, interval="interval"):
    return row[interval] is not None and row["ratio"] is not None and not row[interval][0] <= 1 <= row[interval][1]


def count(comparisons, differ):
    return f"{sum(map(differ, comparisons))} of {len(comparisons)}"


def summarize(name, rounds, comparisons):
    any_row = count(comparisons, lambda rows: any(map(differs, rows)))
    rate = count(comparisons, lambda rows: any(differs(row, "joint_interval") for row in rows if row["metric"] == "rate"))
    found = collections.Counter(row["metric"] for rows in comparisons for row in rows if differs(row))
    found = ", ".join(f"`{metric}` in {n}" for metric, n in sorted(found.items()))
    print(f"{rounds} rounds each: {any_row} comparisons have a row that differs{': ' if found else ''}{found}; "
          f"{rate} by the gate's interval of the rate")


def table(name, comparisons):
    print(f"\n| {name}: figure | comparisons | significantly different | ratio, median (range) | difference of the means, median (range) |")
    print("| --- | --- | --- | --- | --- |")
    for metric in sorted({row["metric"] for rows in comparisons for row in rows}):
        rows = [row for rows in comparisons for row in rows if row["metric"] == metric]
        known = [row for row in rows if row["interval"] and row["ratio"] is not None]
        if not known:
            continue
        different = sum(differs(row) for row in known)
        ratios = [row["ratio"] for row in known]
        gaps = [row["means"][1] - row["means"][0] for row in known]
        span = lambda values, form: f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
        print(f"| `{metric}` | {len(known)} | {different} | {span(ratios, '.3f')} | {span(gaps, '.4g')} |")


def correlation(samples, distance):
    """That of the rates of samples with those that were taken so many samples before."""
    rates = [it["figures"]["rate"] for it in samples]
    mean = statistics.fmean(rates)
    variance = sum((it - mean) ** 2 for it in rates)
    return sum((a - mean) * (b - mean) for a, b in zip(rates, rates[distance:])) / variance


def report():
    for name in PAIRS:
        samples = samples_of(name)
        counted = list({(it["controller"], it["round"]): it for it in samples}.values())
        disturbed = sum(it["machine"]["is_disturbed"] for it in counted)
        print(f"\n{name}: {disturbed} of {len(counted)} samples that count were disturbed, {len(samples)} were taken")
        print(f"correlation of the rate with that of the sample before, and with that before it: {correlation(counted, 1):.2f}, {correlation(counted, 2):.2f}")
        comparisons = {rounds: compare(name, rounds) for rounds in ROUNDS}
        for rounds, rows in comparisons.items():
            summarize(name, rounds, rows)
        table(name, comparisons[ROUNDS[0]])


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            measure()
        case ["report"]:
            pass
        case _:
            sys.exit("usage: run.sh [report | simulate]")
    report()
