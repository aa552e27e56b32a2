"""What is each optimisation worth, and does it shorten or lengthen response times?"""
import json
import os
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Loops of half a second, of which the first is the warm-up.
COMMON = ["-l", os.environ.get("LOOPS", "4"), "-m", "500", "-s", "16"]
FEW_HOSTS, MANY_HOSTS = ["-M", "1000"], ["-M", "100000"]
THROUGHPUT = {
    "full sockets": [*COMMON, *FEW_HOSTS, "-t"],
    "100 outstanding per switch": [*COMMON, *FEW_HOSTS, "--window", "100"],
    "full sockets, large tables": [*COMMON, *MANY_HOSTS, "-t"],
}
LATENCY = {"1 outstanding": [*COMMON, *FEW_HOSTS, "--window-total", "1"]}

# Workers, and the cores to which they are bound. The generator has core 0.
OWN_CORES = (os.cpu_count() or 1) >= 3
WORKERS = {"1": lab.CONTROLLER_CORE, "2": "1,2" if OWN_CORES else "0,1"}

ALL_ON = "all on"
OPTIMISATIONS = ["output_batching", "input_batching", "adaptive_reads", "prefetching", "templates", "run_to_completion", "huge_pages"]


def controller(name, workers, pin, spin, off=None):
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", workers, "--pin", pin, "--spin", spin, "--no-api"]
    env = {f"SLUICE_OPTIMISATIONS__{off.upper()}": "off"} if off else None
    return lab.Subject(name, [lab.SLUICE, *run, "--app", "learning"], env=env)


def subjects(workers):
    """The controller with everything on, and with one thing off each."""
    pin = WORKERS[workers]
    # A worker that polls on the generator's core would take it from the generator.
    polls = workers == "1" or OWN_CORES
    spin = "200" if polls else "0"
    started = [controller(ALL_ON, workers, pin, spin)]
    started += [controller(key, workers, pin, spin, off=key) for key in OPTIMISATIONS]
    started.append(controller("core binding", workers, "off", spin))
    if polls:
        started.append(controller("spinning", workers, pin, "0"))
    return started


def measure(case, workers, started, arguments):
    """Runs of each subject, by round."""
    name = f"{case} {workers}".replace(" ", "-").replace(",", "")
    lab.compare(f"ablation/{name}", started, arguments, lab.rounds())
    return json.loads((lab.ROOT / f"lab/ablation/data/{name}.json").read_text())["runs"]


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratios(runs, of, figure):
    """Ratio of a subject to everything on, in each round."""
    return [a[figure] / b[figure] for a, b in zip(runs[of], runs[ALL_ON])]


def columns(figure, scale, cases, runs, name):
    for case in cases:
        yield median_and_range([run[figure] / scale for run in runs[case][name]], 2)
        yield median_and_range(ratios(runs[case], name, figure), 2)


for workers in WORKERS:
    started = subjects(workers)
    runs = {
        case: measure(case, workers, started, arguments)
        for case, arguments in {**THROUGHPUT, **LATENCY}.items()
    }
    for subject in started:
        subject.stop()
    print()
    headers = [header for case in THROUGHPUT for header in (f"{case}: M/s", "/ all on")]
    headers += [header for case in LATENCY for header in (f"{case}: p50 µs", "/ all on")]
    lab.table(f"{workers} thread{'s' if workers != '1' else ''}, off", *headers)
    for subject in started:
        rates = columns("per_second", 1e6, THROUGHPUT, runs, subject.name)
        medians = columns("p50_us", 1, LATENCY, runs, subject.name)
        lab.row("nothing" if subject.name == ALL_ON else subject.name, *rates, *medians)
    if "spinning" not in [subject.name for subject in started]:
        print("\nWithout spinning: a worker shares the core of the generator.")
