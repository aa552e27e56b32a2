"""Which engine of the workers is faster: epoll, io_uring, or answers from inside the kernel?"""
import json
import os
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Loops of half a second, of which the first is the warm-up.
COMMON = ["-l", os.environ.get("LOOPS", "4"), "-m", "500", "-M", "1000"]
THROUGHPUT = {
    "full sockets": [*COMMON, "-s", "16", "-t"],
    "100 outstanding per switch": [*COMMON, "-s", "16", "--window", "100"],
    "16 outstanding per switch": [*COMMON, "-s", "16", "--window", "16"],
}
SPIN = ["--spin", "200"]
LATENCY = {
    "1 outstanding, sleeping": (["-s", "1", "--window", "1"], []),
    "16 outstanding on 16 switches, sleeping": (["-s", "16", "--window", "1"], []),
    "16 outstanding on one switch, sleeping": (["-s", "1", "--window", "16"], []),
    "1 outstanding, both ends poll": (["-s", "1", "--window", "1"], SPIN),
    "16 outstanding on 16 switches, both ends poll": (["-s", "16", "--window", "1"], SPIN),
}


ENGINES = ["epoll", "uring", "kernel", "auto"]


# Controller and generator share a core.
SHARED = {
    "1 outstanding": [*COMMON, "-s", "1", "--window", "1"],
    "16 outstanding on 16 switches": [*COMMON, "-s", "16", "--window", "1"],
    "full sockets, 16 switches": [*COMMON, "-s", "16", "-t"],
}


def subjects(*options):
    return [lab.null(*options), *(lab.learning("--engine", name, *options, name=name) for name in ENGINES)]


# The default applications, which drop packet-ins from the ports of a switch for the first half second. Packet-ins between two hosts
# whose flow entries are in flight are the worker's: with few hosts, that would be all.
DEFAULT_APPLICATIONS = {
    "1 outstanding": ["-s", "1", "--window", "1"],
    "16 outstanding on 16 switches": ["-s", "16", "--window", "1"],
    "full sockets, 16 switches": ["-s", "16", "-t"],
}


def measure(case, started, arguments):
    """Runs of each subject, by round."""
    name = case.replace(" ", "-").replace(",", "")
    lab.compare(f"engines/{name}", started, arguments, lab.rounds())
    return json.loads((lab.ROOT / f"lab/engines/data/{name}.json").read_text())["runs"]


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratios(runs, of, to, figure):
    """Ratio of two subjects in each round."""
    return [a[figure] / b[figure] for a, b in zip(runs[of], runs[to])]


def throughput():
    lab.table("16 switches", *(f"{name} M/s" for name in ["null", *ENGINES]),
              *(f"{name} / epoll" for name in ENGINES[1:]), "epoll / null")
    started = subjects()
    for case, arguments in THROUGHPUT.items():
        runs = measure(case, started, arguments)
        rates = [median_and_range([run["per_second"] / 1e6 for run in runs[it.name]], 2) for it in started]
        pairs = [*((name, "epoll") for name in ENGINES[1:]), ("epoll", "null")]
        lab.row(case, *rates, *(median_and_range(ratios(runs, a, b, "per_second"), 2) for a, b in pairs))
    for subject in started:
        subject.stop()


def latency():
    lab.table("outstanding requests", *(f"{name} p50 µs" for name in ["null", *ENGINES]),
              *(f"{name} / epoll" for name in ENGINES[1:]), *(f"{name} p99 µs" for name in ENGINES))
    for case, (arguments, spin) in LATENCY.items():
        started = subjects(*spin)
        runs = measure(case, started, [*COMMON, *arguments, *spin])
        medians = [median_and_range([run["p50_us"] for run in runs[it.name]], 1) for it in started]
        to_epoll = [median_and_range(ratios(runs, name, "epoll", "p50_us"), 2) for name in ENGINES[1:]]
        tails = [median_and_range([run["p99_us"] for run in runs[it.name]], 1) for it in started[1:]]
        lab.row(case, *medians, *to_epoll, *tails)
        for subject in started:
            subject.stop()


def one_core():
    lab.table("one core for both", *(f"{name} p50 µs" for name in ENGINES), *(f"{name} M/s" for name in ENGINES),
              *(f"{name} / epoll in M/s" for name in ENGINES[1:]))
    started = [lab.learning("--engine", name, name=name, core=lab.BENCH_CORE) for name in ENGINES]
    for case, arguments in SHARED.items():
        runs = measure(f"one core {case}", started, arguments)
        medians = [median_and_range([run["p50_us"] for run in runs[name]], 1) for name in ENGINES]
        rates = [median_and_range([run["per_second"] / 1e6 for run in runs[name]], 2) for name in ENGINES]
        to_epoll = [median_and_range(ratios(runs, name, "epoll", "per_second"), 2) for name in ENGINES[1:]]
        lab.row(case, *medians, *rates, *to_epoll)
    for subject in started:
        subject.stop()


def default_applications():
    lab.table("default applications", *(f"{name} p50 µs" for name in ENGINES), *(f"{name} p99 µs" for name in ENGINES),
              *(f"{name} M/s" for name in ENGINES), *(f"{name} / epoll in M/s" for name in ENGINES[1:]))
    for case, arguments in DEFAULT_APPLICATIONS.items():
        started = [lab.default_applications("--engine", name, name=name) for name in ENGINES]
        runs = measure(f"default applications {case}", started, [*COMMON, "-D", "1000", *arguments])
        columns = [("p50_us", 1, 1), ("p99_us", 1, 1), ("per_second", 1e6, 3)]
        cells = [
            median_and_range([run[figure] / unit for run in runs[name]], digits)
            for figure, unit, digits in columns
            for name in ENGINES
        ]
        lab.row(case, *cells, *(median_and_range(ratios(runs, name, "epoll", "per_second"), 2) for name in ENGINES[1:]))
        for subject in started:
            subject.stop()


SECTIONS = {it.__name__: it for it in (throughput, latency, one_core, default_applications)}
for section in sys.argv[1:] or SECTIONS:
    SECTIONS[section]()
    print()
