"""Is the controller with several workers at least as fast as with one, when most paths concern several workers?"""
import os
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Workers, and the cores to which they are bound. With one worker, the other core is the generator's.
WORKERS = [("1", lab.CONTROLLER_CORE), ("2", "0,1"), ("4", "0,1")]
# Following the flow tables would take the generator, which shares core 0 with a worker, longer than the controller takes to install a path.
NETWORK = ["--topo", "leafspine,4,16,64", "--arrival-only"]
# Messages that arrive do not make the generator interrupt that worker.
BATCH = ["chrt", "--batch", "0"]
CASES = [
    ("paths per second", "throughput", [*NETWORK, "--window", "256", "-l", "4"]),
    ("one outstanding request", "latency", [*NETWORK, "--window", "1", "-l", "4"]),
]
# Other builds to compare with, as NAME=PATH,NAME=PATH.
OTHERS = [entry.split("=", 1) for entry in os.environ.get("OTHERS", "").split(",") if entry]


def controller(binary, workers, pin):
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", workers, "--pin", pin, "--no-api"]
    return lab.Subject(f"{workers} workers", [binary, *run])


def measure(file, arguments, key):
    """Measures all numbers of workers of all builds alternately; returns the figures by build and number."""
    builds = [("committed", lab.SLUICE), *OTHERS]
    runs = {name: {workers: [] for workers, _ in WORKERS} for name, _ in builds}
    for _ in range(lab.rounds()):
        for name, binary in builds:
            for workers, pin in WORKERS:
                subject = controller(binary, workers, pin)
                runs[name][workers].append(lab.paths(subject, *arguments, prefix=BATCH))
                subject.stop()
    lab.store(f"workers/{file}", {"arguments": arguments, "runs": runs})
    return {name: {n: [key(run) for run in reports] for n, reports in of.items()} for name, of in runs.items()}


def main():
    for title, file, arguments in CASES:
        is_latency = file == "latency"
        key = (lambda run: run["p50_us"]) if is_latency else (lambda run: run["paths_per_second"])
        unit = "median, µs" if is_latency else "paths/s"
        print()
        lab.table(title, "workers", unit, "range", "relative to 1 worker", "relative to 2 workers")
        for build, figures in measure(file, arguments, key).items():
            median = {n: statistics.median(values) for n, values in figures.items()}
            for n, values in figures.items():
                span = f"{min(values):,.0f} to {max(values):,.0f}"
                lab.row(build, n, f"{median[n]:,.0f}", span, f"{median[n] / median['1']:.2f}", f"{median[n] / median['2']:.2f}")


main()
