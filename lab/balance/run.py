"""What is it worth that switches move to a less busy worker? One heavy switch and 15 light ones, two workers."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SECONDS = 12
HEAVY = ["-s", "1", "-t", "-M", "1000", "-l", str(SECONDS), "-w", "0"]
# The first six seconds are the warm-up: the policy takes three.
LIGHT = ["-s", "15", "-o", "100", "-M", "100", "--rate", "15000", "-l", "10", "-w", "6", "--spin", "0"]


def controller(is_balancing):
    config = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
    config.write(f"[workers]\nbalancing = {str(is_balancing).lower()}\n")
    config.close()
    api = lab.free_port()
    command = [lab.SLUICE, "run", "--config", config.name, "--listen", "127.0.0.1:PORT", "--threads", "2", "--pin", "off",
               "--app", "learning", "--api", str(api)]
    subject = lab.Subject("balancing" if is_balancing else "not balancing", command)
    subject.api = api
    return subject


def command(port, arguments):
    return [lab.SLUICE, "bench", "-c", "127.0.0.1", "-p", str(port), *arguments, "--json", "-"]


def report(output):
    return json.JSONDecoder().raw_decode(output[output.index('{"schema"'):])[0]


def measure(is_balancing):
    subject = controller(is_balancing)
    heavy = subprocess.Popen(command(subject.port, HEAVY), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(0.5)
    light = subprocess.run(command(subject.port, LIGHT), capture_output=True, text=True)
    with urllib.request.urlopen(f"http://127.0.0.1:{subject.api}/metrics") as reply:
        metrics = reply.read().decode()
    moved = next(line for line in metrics.splitlines() if line.startswith("sluice_switches_balanced_total"))
    heavy_report = report(heavy.communicate()[0])
    subject.stop()
    measured = report(light.stdout or light.stderr)
    return {
        **{f"light_{name}_us": measured["latency_ns"][name] / 1e3 for name in ("p50", "p99", "p999")},
        "light_per_second": measured["rate"]["mean"],
        "heavy_per_second": heavy_report["rate"]["mean"],
        "moved": int(float(moved.split()[-1])),
    }


def median_and_range(runs, key, divisor=1, digits=0):
    values = [run[key] / divisor for run in runs]
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


runs = {True: [], False: []}
for _ in range(lab.rounds()):
    for is_balancing in runs:
        runs[is_balancing].append(measure(is_balancing))
lab.table("workers.balancing", "switches moved", "light: p50 µs", "light: p99 µs", "light: p99.9 µs", "heavy: M/s")
for is_balancing, of_setting in runs.items():
    lab.row(str(is_balancing).lower(), median_and_range(of_setting, "moved"),
            *(median_and_range(of_setting, f"light_{name}_us") for name in ("p50", "p99", "p999")),
            median_and_range(of_setting, "heavy_per_second", 1e6, 2))
names = {True: "balancing", False: "not balancing"}
lab.store("balance/one-heavy-15-light", {"heavy": HEAVY, "light": LIGHT, "runs": {names[it]: runs[it] for it in runs}})
