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
LOAD = ["-s", "16", "-M", "1000", "-t", "-l", "4", "-m", "700"]


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start(name):
    port = lab.free_port()
    run = [lab.SLUICE, "run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", lab.CONTROLLER_CORE]
    subject = lab.Subject(name, [*run, "--app", "learning", "--api", f"127.0.0.1:{port}"])
    return subject, port


def polled(subject, port):
    """A run of the bench while clients poll; what they got, too."""
    command = ["taskset", "-c", lab.BENCH_CORE, sys.executable, str(HERE / "poll.py"), str(port), str(CLIENTS)]
    clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    started = time.monotonic()
    report = lab.bench(subject, *LOAD)
    seconds = time.monotonic() - started
    clients.terminate()
    answers = json.loads(clients.communicate()[0])
    return {**lab.figures(report), "answers": answers, "answers_per_second": sum(answers.values()) / seconds}


def throughput():
    subject, port = start("api")
    runs = {"alone": [], "polled": []}
    for _ in range(lab.rounds()):
        runs["alone"].append(lab.figures(lab.bench(subject, *LOAD)))
        runs["polled"].append(polled(subject, port))
    subject.stop()
    lab.store("api/polling", {"arguments": LOAD, "clients": CLIENTS, "runs": runs})
    rates = {name: [run["per_second"] / 1e6 for run in of] for name, of in runs.items()}
    ratios = [b / a for a, b in zip(rates["alone"], rates["polled"])]
    served = [run["answers"].get("200", 0) for run in runs["polled"]]
    lab.table("alone, M/s", f"with {CLIENTS} clients, M/s", "ratio by round", "answers with 200 per run")
    lab.row(*(median_and_range(rates[name], 2) for name in rates), median_and_range(ratios, 3), median_and_range(served, 0))


throughput()
