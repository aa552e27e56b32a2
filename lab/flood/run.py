"""What do false connections cost the switches: their throughput, their latency, and with the filter of SYNs in the kernel?"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Connections per second; the last rate is more than any machine opens, which means as many as it can.
CASES = [(payload, "3000") for payload in ("nothing", "random", "hello-only", "slow-hello", "tls-hello", "handshake")]
CASES += [(payload, "1000000") for payload in ("nothing", "tls-hello", "handshake")]
THROUGHPUT = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000"]
LATENCY = ["-s", "16", "--rate", "100000", "-l", "4", "-m", "700", "-M", "1000"]


class Controller(lab.Subject):
    """The controller with its default applications and one worker; threads other than the worker run where the system puts them."""

    def __init__(self, name, has_filter):
        self.api = lab.free_port()
        config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        config.write(f"limits.syn_filter = {str(has_filter).lower()}\n")
        config.flush()
        super().__init__(name, [lab.SLUICE, "run", "--config", config.name, "--listen", "[::]:PORT", "--threads", "1", "--pin",
                                lab.CONTROLLER_CORE, "--api", f"127.0.0.1:{self.api}"])

    def metric(self, name, label=""):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/metrics") as page:
            lines = page.read().decode().splitlines()
        values = [line.rsplit(" ", 1)[1] for line in lines if re.match(name + r"[ {]", line) and label in line]
        return sum(map(float, values))

    def counts(self):
        """Seconds that the worker was busy and that sessions took of it, connections accepted, and SYNs dropped."""
        return {
            "worker_busy_s": self.metric("sluice_worker_busy_seconds_total"),
            "accepted": self.metric("sluice_connections_accepted_total"),
            "dropped": self.metric("sluice_syns_dropped_total"),
            "worker_sessions_s": self.metric("sluice_worker_sessions_seconds_total"),
        }


def measure(controller, arguments, payload, rate):
    """One run of the bench, with a flood unless `payload` is `None`."""
    flood = None
    if payload:
        # From another address than the switches, which are at 127.0.0.1: the filter is one of addresses.
        command = [lab.SLUICE, "bench", "flood", "-c", "::1", "-p", str(controller.port), "--rate", rate, "--send", payload]
        flood = subprocess.Popen([*command, "--max-open", "5000", "--seconds", "30"], stdout=controller.log, stderr=controller.log)
        time.sleep(0.5)
    before, start = controller.counts(), time.monotonic()
    figures = lab.figures(lab.bench(controller, *arguments))
    elapsed, after = time.monotonic() - start, controller.counts()
    if flood:
        flood.terminate()
        flood.wait()
    counts = {key: (after[key] - before[key]) / elapsed for key in before}
    answered = figures["requests"].get("answered", 0)
    return {**figures, "per_second_of": counts, "worker_us_per_answer": counts["worker_busy_s"] * elapsed / max(answered, 1) * 1e6}


def main():
    controllers = {"without": Controller("without the filter", False), "with": Controller("with the filter", True)}
    lab.table("flood", "connections", "filter", "accepted per second", "dropped per second", "M/s", "M/s relative to none",
              "worker, us per answer", "p99 at 100 000/s, us", "p99 relative to none")
    wanted = sys.argv[1:]
    for payload, rate in [case for case in CASES if not wanted or case[0] in wanted]:
        runs = {key: {"throughput": [], "latency": []} for key in ("none", *controllers)}
        for _ in range(lab.rounds(3)):
            for kind, arguments in (("throughput", THROUGHPUT), ("latency", LATENCY)):
                runs["none"][kind].append(measure(controllers["without"], arguments, None, None))
                for key, controller in controllers.items():
                    runs[key][kind].append(measure(controller, arguments, payload, rate))
        lab.store(f"flood/{payload}-{rate}", {"throughput": THROUGHPUT, "latency": LATENCY, "runs": runs})
        median = lambda key, kind, pick: lab.statistics.median(pick(run) for run in runs[key][kind])
        throughput = {key: median(key, "throughput", lambda run: run["per_second"]) for key in runs}
        p99 = {key: median(key, "latency", lambda run: run["p99_us"]) for key in runs}
        for key in runs:
            count = lambda name: f"{median(key, 'throughput', lambda run: run['per_second_of'][name]):.0f}"
            lab.row(*(("none", "", "") if key == "none" else (payload, rate, key)), count("accepted"),
                    count("dropped"), lab.millions(throughput[key]), f"{throughput[key] / throughput['none']:.2f}",
                    f"{median(key, 'throughput', lambda run: run['worker_us_per_answer']):.3f}", f"{p99[key]:.0f}",
                    f"{p99[key] / p99['none']:.2f}")
    for controller in controllers.values():
        controller.stop()


main()
