"""What do clients of the API cost the switches?"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import lab

CLIENTS = 100
# As Open vSwitch sends: OpenFlow 1.3, not buffered. Ports are classified some time after the handshake.
LOAD = ["-s", "16", "-M", "1000", "-t", "-l", "8", "-m", "1000", "--spin", "1000", "--openflow", "1.3", "--no-buffer", "--delay", "2000"]


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start(name):
    port = lab.free_port()
    run = [lab.SLUICE, "run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", lab.CONTROLLER_CORE]
    subject = lab.Subject(name, [*run, "--api", f"127.0.0.1:{port}"])
    return subject, port


def worker_times(subject):
    """Nanoseconds for which the worker has run, and has waited for its core."""
    for task in pathlib.Path(f"/proc/{subject.process.pid}/task").iterdir():
        if (task / "comm").read_text().startswith("worker-"):
            return [int(n) for n in (task / "schedstat").read_text().split()[:2]]
    raise SystemExit("no worker")


def measured(subject):
    """A run of the bench, with the share of its time for which the worker waited for its core."""
    before = worker_times(subject)
    report = lab.figures(lab.bench(subject, *LOAD))
    ran, waited = (after - before for after, before in zip(worker_times(subject), before))
    return {**report, "waited": waited / (ran + waited)}


def polled(subject, port):
    """A run of the bench while clients poll; what they got, too."""
    command = ["taskset", "-c", lab.BENCH_CORE, sys.executable, str(HERE / "poll.py"), str(port), str(CLIENTS)]
    clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    started = time.monotonic()
    report = measured(subject)
    seconds = time.monotonic() - started
    clients.terminate()
    answers = json.loads(clients.communicate()[0])
    return {**report, "answers": answers, "answers_per_second": sum(answers.values()) / seconds}


def throughput():
    subject, port = start("api")
    runs = {"alone": [], "polled": []}
    for _ in range(lab.rounds()):
        runs["alone"].append(measured(subject))
        runs["polled"].append(polled(subject, port))
    subject.stop()
    lab.store("api/polling", {"arguments": LOAD, "clients": CLIENTS, "runs": runs})
    rates = {name: [run["per_second"] / 1e6 for run in of] for name, of in runs.items()}
    ratios = [b / a for a, b in zip(rates["alone"], rates["polled"])]
    served = [run["answers"].get("200", 0) for run in runs["polled"]]
    waits = {name: [100 * run["waited"] for run in of] for name, of in runs.items()}
    lab.table("", "packet-ins, M/s", "worker waits for its core, % of its time", "answers with 200 per run")
    lab.row("alone", median_and_range(rates["alone"], 2), median_and_range(waits["alone"], 2), "")
    lab.row(f"with {CLIENTS} clients", median_and_range(rates["polled"], 2), median_and_range(waits["polled"], 2), median_and_range(served, 0))
    lab.row("ratio by round", median_and_range(ratios, 3), "", "")


throughput()
