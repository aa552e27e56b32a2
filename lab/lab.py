"""What all measurements share: starting a controller on one core, the bench on the other, and comparing fairly.

Subjects are measured in turn, again and again, in one run; what is told are medians and ratios of medians. The raw
figures of every run go to data/ in the folder of the question.
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
# Another's compiler on the same core is not what is measured.
FIRST = ["nice", "-n", "-20"] if os.geteuid() == 0 else []
# Where the kernel shares the cores between sessions, priorities count within one: ours goes first while this runs.
SESSION = pathlib.Path("/proc/self/autogroup")
if FIRST and SESSION.exists():
    SESSION.write_text("-20")
    atexit.register(SESSION.write_text, "0")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Subject:
    """A controller that runs on its core until `stop`."""

    def __init__(self, name, command, port=None, env=None):
        self.name, self.port = name, port or free_port()
        words = [word.replace("PORT", str(self.port)) for word in command]
        self.log = open(os.devnull, "w")
        self.process = subprocess.Popen(
            FIRST + words, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})}
        )
        atexit.register(self.process.kill)
        for _ in range(200):
            time.sleep(0.05)
            if self.process.poll() is not None:
                sys.exit(f"{name} ended with {self.process.returncode}: {' '.join(words)}")
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


def null(*extra, name="null", binary=SLUICE):
    listen = ["bench", "null", "--listen", "127.0.0.1:PORT", "--pin", CONTROLLER_CORE]
    return Subject(name, [binary, *listen, *extra])


def sluice(*extra, name="sluice", binary=SLUICE, env=None):
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", CONTROLLER_CORE, "--no-api",
           "--app", "learning"]
    return Subject(name, [binary, *run, *extra], env=env)


def forwarding(*extra, name="forwarding", binary=SLUICE, env=None):
    """What runs if nothing is said: topology, hosts, forwarding."""
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", CONTROLLER_CORE, "--no-api"]
    return Subject(name, [binary, *run, *extra], env=env)


def paths(subject, *arguments):
    """A network that asks for ways; the report."""
    command = [SLUICE, "bench", "paths", "-c", f"127.0.0.1:{subject.port}", "--pin", BENCH_CORE, "--json"]
    done = subprocess.run(FIRST + command + [*arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the bench failed: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def bench(subject, *arguments):
    """One run of the bench; its report."""
    command = [SLUICE, "bench", "-c", "127.0.0.1", "-p", str(subject.port), "--pin", BENCH_CORE]
    done = subprocess.run(
        FIRST + command + [*arguments, "--json", "-"],
        capture_output=True,
        text=True,
    )
    at = done.stdout.find('{"schema"')
    if done.returncode != 0 or at < 0:
        sys.exit(f"the bench failed: {done.stderr}{done.stdout}")
    report, _ = json.JSONDecoder().raw_decode(done.stdout[at:])
    return report


def figures(report):
    """What is kept of a report."""
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
    """Measures the subjects in turn; returns the median of each figure by name, and files the runs."""
    runs = {subject.name: [] for subject in subjects}
    for _ in range(rounds):
        for subject in subjects:
            runs[subject.name].append(figures(bench(subject, *arguments)))
    medians = {
        name: {key: statistics.median(r[key] for r in of) for key in ("per_second", "p50_us", "p99_us")}
        for name, of in runs.items()
    }
    keep(question, {"arguments": arguments, "medians": medians, "runs": runs})
    return medians


def keep(question, what):
    """Files a measurement: `topic/name`."""
    topic, name = question.split("/")
    folder = ROOT / "lab" / topic / "data"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), **what}, indent=1, sort_keys=True)
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


def table(*heads):
    row(*heads)
    row(*("---" for _ in heads))


def mega(figure):
    return f"{figure / 1e6:.1f}"


def rounds(default=5):
    return int(os.environ.get("ROUNDS", default))


def variant(name, *change):
    """A build with one change; `change` as lab/variant.sh takes it."""
    ready = ROOT / "target/variants" / f"{name}.bin"
    if not (ready.exists() and os.environ.get("REUSE")):
        subprocess.run([ROOT / "lab/variant.sh", name, *change], check=True, stdout=sys.stderr)
    return str(ready)


def compare_variants(topic, variants, cases):
    """Measures the committed controller and variants of it; prints a row per case and variant."""
    table("case", "build", "M/s", "of the committed")
    for case, arguments in cases:
        subjects = [sluice(name="committed")]
        subjects += [sluice(name=name, binary=binary) for name, binary in variants]
        got = compare(f"{topic}/{case}", subjects, arguments, rounds())
        for name, of in got.items():
            share = of["per_second"] / got["committed"]["per_second"]
            row(case, name, mega(of["per_second"]), f"{share:.2f}")
        for subject in subjects:
            subject.stop()


FULL = ["-s", "16", "-t", "-l", "4", "-m", "700"]
HOSTS = [("hosts-1000", [*FULL, "-M", "1000"]), ("hosts-100000", [*FULL, "-M", "100000"])]
