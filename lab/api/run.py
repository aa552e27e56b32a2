"""What do clients of the API cost the switches?"""
import atexit
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import lab
import poll

CLIENTS = 100
WINDOW_S = 2
# As Open vSwitch sends: OpenFlow 1.3, not buffered. Ports are classified some time after the handshake.
BUSY_SWITCHES, FIRST_BUSY = 16, 1001
LOAD = ["-s", str(BUSY_SWITCHES), "-o", str(FIRST_BUSY), "-M", "1000", "-t", "-m", "1000", "--spin", "1000", "--openflow", "1.3", "--no-buffer",
        "--delay", "2000"]
# Switches with flow tables, links and hosts, which the live reads and traces are about.
TOPOLOGY, NETWORK_SWITCHES = "leafspine,2,6,4", 8
ENTRIES_PER_SWITCH = 50


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start_process(command, *prefix, **options):
    process = subprocess.Popen(lab.PRIORITY + [*prefix, *command], **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options})
    atexit.register(process.kill)
    return process


def start_clients(command, **options):
    """Starts a process on the generator's core with the priority of the thread of the API."""
    # The offset of the thread of the API to the workers.
    return start_process(command, "nice", "-n", "10", "taskset", "-c", lab.BENCH_CORE, **options)


class Burners:
    """Processes that take the generator's core as clients and the thread of the API do, while they are not stopped."""

    def __init__(self, count):
        self.processes = [start_clients([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for process in self.processes:
            process.send_signal(number)


class Controller(lab.Subject):
    def __init__(self):
        self.api, self.state = lab.free_port(), tempfile.TemporaryDirectory()
        run = [lab.SLUICE, "run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", lab.CONTROLLER_CORE]
        super().__init__("api", [*run, "--api", f"127.0.0.1:{self.api}", "--state-dir", self.state.name])

    def request(self, method, path, body=None):
        headers = {"content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def wait(self, name, count):
        for _ in range(300):
            if json.loads(self.request("GET", "/v1/controller"))[name] >= count:
                return
            time.sleep(0.1)
        sys.exit(f"not {count} {name} after 30 s")

    def task(self, name):
        """Folder of a thread in `/proc`."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return next(task for task in tasks if (task / "comm").read_text().strip() == name)

    def threads(self):
        """Nanoseconds for which the worker and the thread of the API have run, and have waited for a core."""
        return [int(n) for name in ("worker-0", "api") for n in (self.task(name) / "schedstat").read_text().split()[:2]]

    def sample(self):
        """The number of packet-ins, and the times of the threads at the same moment."""
        before = self.threads()
        metrics = self.request("GET", "/metrics")
        after = self.threads()
        packet_ins = sum(int(n) for n in re.findall(r'^sluice_messages_received_total\{.*type="PACKET_IN"\} (\d+)', metrics, re.M))
        return [packet_ins, time.monotonic(), *((a + b) / 2 for a, b in zip(before, after))]


def measured(controller, work):
    """Figures of the time in which `work` runs."""
    before = controller.sample()
    result = work()
    packet_ins, seconds, ran, waited, api_ran, _ = (b - a for a, b in zip(before, controller.sample()))
    return {
        "packet_ins": packet_ins,
        "seconds": seconds,
        "per_second": packet_ins / seconds,
        "per_second_of_run_time": packet_ins / (ran / 1e9),
        "ran": ran / 1e9 / seconds,
        "waited": waited / (ran + waited),
        "api_thread_ran": api_ran / 1e9 / seconds,
        **({"answers": result} if result else {}),
    }


def by_status(runs):
    """Number of answers of all runs by status."""
    statuses = collections.Counter()
    for run in runs:
        for counts in run["answers"].values():
            statuses.update(counts)
    return dict(statuses.most_common())


def declare_entries(controller):
    flows = [{"name": f"e{n}", "switch": f"{n % NETWORK_SWITCHES + 1:016x}", "flow": f"priority=200,tcp,tp_dst={n + 1},actions=drop"}
             for n in range(NETWORK_SWITCHES * ENTRIES_PER_SWITCH)]
    groups = [{"name": "g1", "switch": "0000000000000001", "group": "group_id=1,type=select,bucket=actions=output:1,bucket=actions=output:2"}]
    controller.request("PUT", "/v1/declared?wait=true", {"groups": groups, "flows": flows})


class Clients:
    """Clients that poll the API (`poll.py`), with live reads of these switches."""

    def __init__(self, controller, dpids):
        command = [sys.executable, str(HERE / "poll.py"), str(controller.api), str(CLIENTS), ",".join(map(str, dpids))]
        self.process = start_clients(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, text=True)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def poll(self, name, seconds=WINDOW_S):
        """Polls these requests; returns the numbers of answers by request and status."""
        self.command(f"go {name}")
        time.sleep(seconds)
        self.command("stop")
        return json.loads(self.process.stdout.readline())


class Measurement:
    def __init__(self):
        self.controller = Controller()
        self.address = f"127.0.0.1:{self.controller.port}"
        start_process([lab.SLUICE, "emu", "-c", self.address, "--topo", TOPOLOGY, "--plain", "--protocols", "1.3", "--pings", "20"],
                      "taskset", "-c", lab.BENCH_CORE)
        self.controller.wait("switches", NETWORK_SWITCHES)
        declare_entries(self.controller)
        self.controller.wait("hosts", 24)
        self.dpids = list(range(1, NETWORK_SWITCHES + 1))

    def without_load(self, rounds):
        """What the worker does for clients, when there are hardly any packet-ins."""
        clients = Clients(self.controller, self.dpids)
        # The interpreter starts.
        clients.poll("everything", 0.5)
        runs = {name: [] for name in ("alone", *poll.REQUESTS)}
        for _ in range(rounds):
            runs["alone"].append(measured(self.controller, lambda: time.sleep(1)))
            for name in poll.REQUESTS:
                # They use up what may be read at once.
                clients.poll(name, 1)
                runs[name].append(measured(self.controller, lambda: clients.poll(name, 1)))
        clients.process.kill()
        return {"runs": runs, "statuses": {name: by_status(runs[name]) for name in poll.REQUESTS}}

    def start_load(self):
        # It is killed at the end.
        self.bench = start_process([lab.SLUICE, "bench", "-c", self.address, "--pin", lab.BENCH_CORE, *LOAD, "-l", "3600"])
        self.controller.wait("hosts", BUSY_SWITCHES * 1000)
        self.dpids += range(FIRST_BUSY, FIRST_BUSY + BUSY_SWITCHES)
        self.clients = Clients(self.controller, self.dpids)
        self.clients.poll("everything", 0.5)
        self.burners = Burners(2)

    def burnt(self):
        self.burners.signal(signal.SIGCONT)
        time.sleep(WINDOW_S)
        self.burners.signal(signal.SIGSTOP)

    def share_generator_core(self):
        """Moves the thread of the API to the generator's core, with the same priority as the generator."""
        api = int(self.controller.task("api").name)
        os.sched_setaffinity(api, {int(lab.BENCH_CORE)})
        for task in pathlib.Path(f"/proc/{self.bench.pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), os.getpriority(os.PRIO_PROCESS, api))

    def windows(self, rounds, names, alone):
        """Windows in which clients poll, each between two windows without clients."""
        runs = {"alone": [measured(self.controller, alone)], **{name: [] for name in names}}
        ratios = {name: [] for name in runs}
        for _ in range(rounds):
            for name in names:
                runs[name].append(measured(self.controller, lambda: self.clients.poll(name)))
                runs["alone"].append(measured(self.controller, alone))
                around = statistics.mean(run["per_second_of_run_time"] for run in runs["alone"][-2:])
                ratios[name].append(runs[name][-1]["per_second_of_run_time"] / around)
        # How much windows without clients differ from the two around them: what this machine can show.
        rates = [run["per_second_of_run_time"] for run in runs["alone"]]
        ratios["alone"] = [2 * b / (a + c) for a, b, c in zip(rates, rates[1:], rates[2:])]
        return {"runs": runs, "ratios": ratios, "statuses": {name: by_status(runs[name]) for name in names}}

    def check(self):
        if self.bench.poll() is not None:
            sys.exit("the bench ended before the measurement")
        switches = json.loads(self.controller.request("GET", "/v1/switches"))["switches"]
        if len(switches) != len(self.dpids):
            sys.exit(f"{len(switches)} of {len(self.dpids)} switches are connected")


def show(title, part):
    print(f"\n{title}\n")
    lab.table("requests", "packet-ins, M per second of the worker's run time", "ratio to the windows before and after",
              "worker waits for a core, %", "worker runs, %", "thread of the API runs, %", "packet-ins, M/s")
    for name, runs in part["runs"].items():
        figure = lambda key, factor, digits: median_and_range([factor * run[key] for run in runs], digits)
        ratios = part["ratios"][name]
        lab.row(name, figure("per_second_of_run_time", 1e-6, 2), median_and_range(ratios, 3) if ratios else "", figure("waited", 100, 1),
                figure("ran", 100, 0), figure("api_thread_ran", 100, 1), figure("per_second", 1e-6, 2))
    print()
    statuses = part["statuses"]
    keys = sorted({status for counts in statuses.values() for status in counts})
    lab.table("requests", "answers with 200 per second", *keys)
    for name, counts in statuses.items():
        seconds = sum(run["seconds"] for run in part["runs"][name])
        lab.row(name, f"{counts.get('200', 0) / seconds:.0f}", *(counts.get(key, 0) for key in keys))


def show_without_load(part):
    print("Without load:\n")
    lab.table("requests", "answers per second", "with 200", "worker runs, %", "thread of the API runs, %", "worker, µs per answer")
    idle = statistics.median(run["ran"] for run in part["runs"]["alone"])
    for name, runs in part["runs"].items():
        figure = lambda key, factor, digits: median_and_range([factor * run[key] for run in runs], digits)
        counts = [by_status([run]) if "answers" in run else {} for run in runs]
        answers = [sum(n for status, n in by.items() if status.isdigit()) / run["seconds"] for by, run in zip(counts, runs)]
        cost = [1e6 * (run["ran"] - idle) / n for n, run in zip(answers, runs) if n]
        lab.row(name, median_and_range(answers, 0), median_and_range([by.get("200", 0) / run["seconds"] for by, run in zip(counts, runs)], 0),
                figure("ran", 100, 2), figure("api_thread_ran", 100, 1), median_and_range(cost, 1) if cost else "")


def main():
    rounds, measurement = lab.rounds(7), Measurement()
    without = measurement.without_load(rounds)
    measurement.start_load()
    full = measurement.windows(rounds, ["everything"], lambda: time.sleep(WINDOW_S))
    measurement.share_generator_core()
    shared = measurement.windows(rounds, list(poll.REQUESTS), measurement.burnt)
    measurement.check()
    lab.store("api/polling", {
        "arguments": LOAD, "topology": TOPOLOGY, "static_entries": NETWORK_SWITCHES * ENTRIES_PER_SWITCH, "clients": CLIENTS, "window_s": WINDOW_S,
        "without_load": without, "both_cores_busy": full, "api_on_the_generators_core": shared})
    show_without_load(without)
    show("Both cores busy, the thread of the API where the kernel puts it:", full)
    show("The thread of the API on the generator's core:", shared)
    measurement.controller.stop()


if __name__ == "__main__":
    main()
