"""Shared by all measurements: starts controllers on one core and the bench on the other, and compares results.

Subjects are measured alternately, several rounds in one session; reported are medians and ratios of medians. The raw
figures of every run are stored in data/ in the folder of the question.
"""

import atexit
import json
import os
import pathlib
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLUICE = os.environ.get("SLUICE_BIN", str(ROOT / "target/release/sluice"))
BENCH_CORE, CONTROLLER_CORE = "0", "1"
# Other programs on the same core should not disturb the measurement.
PRIORITY = ["nice", "-n", "-20"] if os.geteuid() == 0 else []
# With autogroup scheduling, `nice` works only within a session: raise the priority of this session while it runs.
AUTOGROUP = pathlib.Path("/proc/self/autogroup")
if PRIORITY and AUTOGROUP.exists():
    AUTOGROUP.write_text("-20")
    atexit.register(AUTOGROUP.write_text, "0")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Subject:
    """A controller that runs on its core until `stop`. The bench connects to it with `bench_options`."""

    def __init__(self, name, command, port=None, env=None, bench_options=()):
        self.name, self.port, self.bench_options = name, port or free_port(), bench_options
        command = [word.replace("PORT", str(self.port)) for word in command]
        self.log = open(os.devnull, "w")
        self.process = subprocess.Popen(
            PRIORITY + command, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})}
        )
        atexit.register(self.process.kill)
        for _ in range(200):
            time.sleep(0.05)
            if self.process.poll() is not None:
                sys.exit(f"{name} ended with {self.process.returncode}: {' '.join(command)}")
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
        sys.exit(f"{name} does not listen on {self.port}")

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def null(*options, name="null", binary=SLUICE):
    listen = ["bench", "null", "--listen", "127.0.0.1:PORT", "--pin", CONTROLLER_CORE]
    return Subject(name, [binary, *listen, *options])


def learning(*options, name="sluice", binary=SLUICE, env=None, core=CONTROLLER_CORE):
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", core, "--no-api",
           "--app", "learning"]
    return Subject(name, [binary, *run, *options], env=env)


def default_applications(*options, name="forwarding", binary=SLUICE, env=None):
    """The controller with its default applications: topology, hosts, forwarding."""
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", CONTROLLER_CORE, "--no-api"]
    return Subject(name, [binary, *run, *options], env=env)


def paths(subject, *arguments, prefix=()):
    """Runs `sluice bench paths`, by the command `prefix`; returns the figures of its report that are stored."""
    command = [SLUICE, "bench", "paths", "-p", str(subject.port), "--pin", BENCH_CORE, "--json", "-"]
    result = subprocess.run(PRIORITY + [*prefix, *command, *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"the bench failed: {result.stderr}{result.stdout}")
    report = json.loads(result.stdout)
    return {
        "paths_per_second": report["rate"]["mean"],
        "flow_mods_per_second": report["paths"]["flow_mods_per_second"],
        "p50_us": report["latency_ns"]["p50"] / 1e3,
        "never_answered": report["requests"]["never_answered"],
        "generator_cpu": report["generator"]["threads"][0]["cpu"],
        "warnings": report["warnings"],
    }


def bench(subject, *arguments):
    """Runs the bench once; returns its report."""
    command = [SLUICE, "bench", "-c", "127.0.0.1", "-p", str(subject.port), "--pin", BENCH_CORE, *subject.bench_options]
    result = subprocess.run(
        PRIORITY + command + [*arguments, "--json", "-"],
        capture_output=True,
        text=True,
    )
    at = result.stdout.find('{"schema"')
    if result.returncode != 0 or at < 0:
        sys.exit(f"the bench failed: {result.stderr}{result.stdout}")
    report, _ = json.JSONDecoder().raw_decode(result.stdout[at:])
    return report


def figures(report):
    """The figures of a report that are stored."""
    latency = report["latency_ns"] or {}
    requests = {k: v for k, v in report["requests"].items() if v}
    return {
        "per_second": report["rate"]["mean"],
        "p50_us": latency.get("p50", 0) / 1e3,
        "p99_us": latency.get("p99", 0) / 1e3,
        "fairness": report["fairness"],
        "requests": requests,
        "generator_busy": [t["cpu"] for t in report["generator"]["threads"]],
    }


def compare(question, subjects, arguments, rounds):
    """Measures the subjects alternately, stores the runs, and returns the medians by subject and figure."""
    runs = {subject.name: [] for subject in subjects}
    for _ in range(rounds):
        for subject in subjects:
            runs[subject.name].append(figures(bench(subject, *arguments)))
    medians = {
        name: {key: statistics.median(run[key] for run in subject_runs) for key in ("per_second", "p50_us", "p99_us")}
        for name, subject_runs in runs.items()
    }
    store(question, {"arguments": arguments, "medians": medians, "runs": runs})
    return medians


def store(question, measurement):
    """Writes a measurement to the file `<topic>/data/<name>.json`; `question` is `topic/name`."""
    topic, name = question.split("/")
    folder = ROOT / "lab" / topic / "data"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), **measurement}, indent=1, sort_keys=True)
    (folder / f"{name}.json").write_text(text + "\n")


def machine():
    model = next(
        (l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown"
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release().split("-")[0],
        "load": os.getloadavg()[0],
    }


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def table(*headers):
    row(*headers)
    row(*("---" for _ in headers))


def millions(figure):
    return f"{figure / 1e6:.1f}"


def rounds(default=5):
    return int(os.environ.get("ROUNDS", default))


def variant(name, *change):
    """Builds the controller with one change, given as to lab/variant.sh; returns the path of the binary."""
    binary = ROOT / "target/variants" / f"{name}.bin"
    if not (binary.exists() and os.environ.get("REUSE")):
        subprocess.run([ROOT / "lab/variant.sh", name, *change], check=True, stdout=sys.stderr)
    return str(binary)


def compare_variants(topic, variants, cases):
    """Compares the committed controller with variants of it; prints a row per case and build."""
    table("case", "build", "M/s", "relative to committed")
    for case, arguments in cases:
        subjects = [learning(name="committed")]
        subjects += [learning(name=name, binary=binary) for name, binary in variants]
        results = compare(f"{topic}/{case}", subjects, arguments, rounds())
        for name, medians in results.items():
            ratio = medians["per_second"] / results["committed"]["per_second"]
            row(case, name, millions(medians["per_second"]), f"{ratio:.2f}")
        for subject in subjects:
            subject.stop()


FULL = ["-s", "16", "-t", "-l", "4", "-m", "700"]
HOSTS = [("hosts-1000", [*FULL, "-M", "1000"]), ("hosts-100000", [*FULL, "-M", "100000"])]
