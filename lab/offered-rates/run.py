"""How are response times distributed at an offered rate, with each engine?"""
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Loops of 700 ms, of which the first is the warm-up. The generator polls: one that sleeps is late by up to a millisecond.
COMMON = ["-s", "16", "-M", "1000", "-l", "3", "-m", "700"]
SPIN = ["--spin", "200"]
ENGINES = {
    "epoll, sleeping": [],
    "epoll, polling": SPIN,
    "uring": ["--engine", "uring"],
    "auto": ["--engine", "auto"],
}
# The default applications drop packet-ins from the ports of a switch for the first half second.
AFTER_DISCOVERY = ["-D", "1000"]
CASES = [
    ("learning", lab.learning, COMMON, [1_000, 10_000, 100_000, 1_000_000, 5_000_000]),
    ("topology, hosts, forwarding", lab.default_applications, COMMON + AFTER_DISCOVERY, [1_000, 10_000, 100_000]),
]


def figures(report):
    latency = report["latency_ns"] or {}
    requests = report["requests"]
    return {
        "answered_per_second": report["rate"]["mean"],
        **{f"{name}_us": latency.get(name, 0) / 1e3 for name in ("p50", "p99", "p999", "max")},
        "not_sent": requests["not_sent"],
        "never_answered": requests["never_answered"],
        "generator_late_p99_us": report["generator"]["schedule_lag_ns"]["p99"] / 1e3,
    }


def median_and_range(runs, key):
    values = [run[key] for run in runs]
    digits = 0 if statistics.median(values) >= 100 else 1
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


for applications, start, arguments, rates in CASES:
    print(f"\n### {applications}\n")
    lab.table("offered per second", "engine", "answered per second", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "generator late, p99 µs")
    for rate in rates:
        runs = {name: [] for name in ENGINES}
        for _ in range(lab.rounds()):
            for name, options in ENGINES.items():
                # Another one for each run: what was learned before would be answered by other code.
                subject = start(*options, name=name)
                runs[name].append(figures(lab.bench(subject, *arguments, "--rate", str(rate))))
                subject.stop()
        for name, of_engine in runs.items():
            keys = ("p50_us", "p99_us", "p999_us", "max_us", "generator_late_p99_us")
            answered = statistics.median(run["answered_per_second"] for run in of_engine)
            lab.row(f"{rate:,}", name, f"{answered:,.0f}", *(median_and_range(of_engine, key) for key in keys))
        topic = f"offered-rates/{start.__name__}-{rate}"
        lab.store(topic, {"arguments": arguments, "rate": rate, "runs": runs})
