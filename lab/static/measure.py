"""How long do static entries take from the request to the switches, and are all of them there after a failure?

Ends with exit code 1 if an entry that was acknowledged is missing in the store or in a switch.
"""
import atexit
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SWITCHES = 100
DPIDS = [f"{number:016x}" for number in range(1, SWITCHES + 1)]
SIZES = (1000, 10_000)
SINGLE = 1000
# Longer than the 10 s after which the controller reads the static entries of a switch again.
WITH_DAMAGED_STORE_S = 12
# Between two requests that wait for a state.
PAUSE_S = 0.05
checks = []


def entry(n):
    return {"switch": DPIDS[n % SWITCHES], "flow": f"priority=200,in_port={n // SWITCHES + 1},actions=drop"}


def change(count):
    return {"flows": [{"name": f"e{n}", **entry(n)} for n in range(count)]}


def check(is_true, message):
    if not is_true:
        sys.exit(f"FAILED: {message}")


class Processes:
    """A controller with its store, and emulated switches."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-static-")
        self.store = pathlib.Path(self.folder.name) / "static.redb"
        self.port, self.api = lab.free_port(), lab.free_port()
        self.controller = self.emu = None
        self.start_controller()
        self.start_switches()
        self.wait_connected()

    def start(self, *command, log=None):
        process = subprocess.Popen([*lab.PRIORITY, lab.SLUICE, *command], stdout=subprocess.DEVNULL, stderr=log or subprocess.DEVNULL)
        atexit.register(process.kill)
        return process

    def start_controller(self):
        self.log = open(pathlib.Path(self.folder.name) / "log", "w+")
        self.controller = self.start("run", "--listen", f"127.0.0.1:{self.port}", "--api", f"127.0.0.1:{self.api}", "--state-dir", self.folder.name,
                                     log=self.log)

    def start_switches(self):
        self.emu = self.start("emu", "-c", f"127.0.0.1:{self.port}", "--topo", f"ring,{SWITCHES}", "--plain", "--pings", "1")

    def kill_controller(self):
        self.controller.kill()
        self.controller.wait()

    def stop_controller(self):
        self.controller.send_signal(signal.SIGTERM)
        check(self.controller.wait(20) == 0, f"the controller ended with {self.controller.returncode}")

    def kill_switches(self):
        self.emu.kill()
        self.emu.wait()

    def close(self):
        for process in (self.emu, self.controller):
            process.kill()
            process.wait()
        self.folder.cleanup()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}{path}", data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def wait(self, path, key, count, within=60):
        """Waits until the number (or the length of the list) `key` of an answer is `count`."""
        end, found = time.monotonic() + within, None
        while time.monotonic() < end:
            try:
                found = self.call("GET", path)[key]
                found = len(found) if isinstance(found, list) else found
                if found == count:
                    return
            except OSError:
                pass
            time.sleep(PAUSE_S)
        sys.exit(f"FAILED: {key} of {path} is {found} instead of {count} after {within} s")

    def wait_connected(self):
        self.wait("/v1/controller", "switches", SWITCHES)

    def wait_installed(self, count):
        self.wait("/v1/static/flows?state=installed&limit=0", "total", count)

    def of_switches(self):
        """The static entries that the switches have, read from each of them now, as (dpid, port)."""
        flows = ((dpid, flow) for dpid in DPIDS for flow in self.call("GET", f"/v1/switches/{dpid}/flows")["flows"])
        return [(dpid, flow["matching"]["in_port"]) for dpid, flow in flows if flow["owner"] == "static"]

    def verify(self, when, count, is_declared_readable=True, acknowledged=()):
        """Ends the measurement unless the entries 0 to `count` and those of the numbers `acknowledged` are declared, and in the switches."""
        expected = {*range(count), *acknowledged}
        if is_declared_readable:
            declared = {flow["name"]: flow["flow"] for flow in self.call("GET", "/v1/declared")["flows"]}
            missing = [n for n in expected if declared.get(f"e{n}") != entry(n)["flow"]]
            check(not missing, f"{when}: {len(missing)} acknowledged entries are not declared, such as e{(missing or [0])[0]}")
        found = set(self.of_switches())
        missing = [n for n in expected if (DPIDS[n % SWITCHES], n // SWITCHES + 1) not in found]
        check(not missing, f"{when}: {len(missing)} acknowledged entries are not in their switches, such as e{(missing or [0])[0]}")
        checks.append({"when": when, "acknowledged": len(expected), "in_switches": len(found)})
        return len(found)


def one_change(count):
    """Seconds until a change of `count` entries is answered, and until all are installed, from an empty store."""
    processes = Processes()
    body = change(count)
    begin = time.monotonic()
    made = processes.call("PUT", "/v1/declared?wait=true", body)
    answered = time.monotonic() - begin
    processes.wait_installed(count)
    installed = time.monotonic() - begin
    check(len(made["changes"]) == count, f"{len(made['changes'])} changes instead of {count}")
    processes.verify(f"{count} entries as one change", count)
    processes.close()
    return {"answered": answered, "installed": installed, "state": made["state"]}


def single():
    """Milliseconds of requests of one entry each that wait for the barrier, one after the other, and seconds for all of them."""
    processes = Processes()
    latencies, begin = [], time.monotonic()
    for n in range(SINGLE):
        started = time.monotonic()
        shown = processes.call("PUT", f"/v1/static/flows/e{n}?wait=true", entry(n))
        latencies.append((time.monotonic() - started) * 1000)
        check(shown["state"] == "installed", f"e{n}: {shown}")
    total = time.monotonic() - begin
    processes.verify(f"{SINGLE} entries one after the other", SINGLE)
    processes.close()
    latencies.sort()
    rank = lambda p: latencies[int(p * (len(latencies) - 1))]
    return {"p50_ms": rank(0.5), "p99_ms": rank(0.99), "max_ms": rank(1), "total_s": total}


def recovery(processes, count, when, action):
    """Seconds from the end of `action` until all switches are connected, and until all entries are installed."""
    action()
    begin = time.monotonic()
    processes.wait_connected()
    connected = time.monotonic() - begin
    processes.wait_installed(count)
    installed = time.monotonic() - begin
    processes.verify(when, count)
    return {"connected": connected, "installed": installed}


def kill_while_writing(processes, first, count):
    """Kills the controller while entries are declared one after the other; returns the numbers of those that were acknowledged."""
    acknowledged = []

    def put_all():
        for n in range(first, count):
            try:
                processes.call("PUT", f"/v1/static/flows/e{n}", entry(n))
            except (OSError, ValueError):
                return
            acknowledged.append(n)

    thread = threading.Thread(target=put_all)
    thread.start()
    time.sleep(random.uniform(0.2, 1))
    processes.kill_controller()
    thread.join()
    return acknowledged


def damaged(processes, count, name, damage):
    """Starts the controller with a damaged copy of its store; checks that it says so, and that no switch is changed."""
    good = processes.store.with_suffix(".good")
    processes.stop_controller()
    shutil.copyfile(processes.store, good)
    damage(processes.store)
    processes.start_controller()
    processes.wait_connected()
    time.sleep(WITH_DAMAGED_STORE_S)
    try:
        processes.call("GET", "/v1/static/flows?limit=0")
        sys.exit(f"FAILED: {name}: static entries are listed in spite of the damaged store")
    except urllib.error.HTTPError as error:
        status, body = error.code, json.load(error)["error"]
    check((status, body["code"]) == (503, "store_unavailable"), f"{name}: {status} {body}")
    try:
        processes.call("PUT", "/v1/declared", {"flows": []})
        sys.exit(f"FAILED: {name}: a change is accepted in spite of the damaged store")
    except urllib.error.HTTPError as error:
        check(error.code == 503, f"{name}: {error.code}")
    processes.log.seek(0)
    lines = [line.strip() for line in processes.log if "static.redb" in line]
    check(lines, f"{name}: the log does not name the store")
    kept = processes.verify(f"{WITH_DAMAGED_STORE_S} s with a damaged store: {name}", count, is_declared_readable=False)
    processes.stop_controller()
    shutil.move(good, processes.store)
    return {"damage": name, "message": body["message"].replace(processes.folder.name, "STATE_DIR"), "entries_in_switches": kept,
            "good_file": recovery(processes, count, f"the good store again: {name}", processes.start_controller)}


def overwrite(start, end):
    """Overwrites a part of a file, given as shares of its length, with random bytes."""
    def damage(path):
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.seek(int(start * size))
            file.write(random.randbytes(int((end - start) * size)))
    return damage


def overwrite_header(path):
    with open(path, "r+b") as file:
        file.write(random.randbytes(4096))


def faults(rounds, count):
    processes = Processes()
    runs = {name: [] for name in ("controller", "switches", "both", "while writing")}
    stale = runs["states_stale_s"] = []
    processes.call("PUT", "/v1/declared?wait=true", change(count))
    processes.wait_installed(count)
    processes.verify("before the faults", count)

    def restart_controller():
        processes.kill_controller()
        processes.start_controller()

    def restart_switches():
        processes.kill_switches()
        processes.wait("/v1/controller", "switches", 0)
        # The state of the entries follows later. Without this wait, the next one could end with states of before the restart.
        begin = time.monotonic()
        processes.wait_installed(0)
        stale.append(time.monotonic() - begin)
        processes.start_switches()

    def restart_both():
        processes.kill_controller()
        processes.kill_switches()
        processes.start_controller()
        processes.start_switches()

    for round_ in range(rounds):
        for name, action in (("controller", restart_controller), ("switches", restart_switches), ("both", restart_both)):
            runs[name].append(recovery(processes, count, f"{name} restarted, round {round_ + 1}", action))
        first = count - SINGLE
        processes.call("PUT", "/v1/declared?wait=true", change(first))
        acknowledged = kill_while_writing(processes, first, count)
        processes.start_controller()
        processes.wait_connected()
        declared = len(processes.call("GET", "/v1/declared")["flows"])
        processes.wait_installed(declared)
        processes.verify(f"killed while writing, round {round_ + 1}", first, acknowledged=acknowledged)
        runs["while writing"].append({"acknowledged": len(acknowledged), "declared": declared - first})
        processes.call("PUT", "/v1/declared?wait=true", change(count))
        processes.wait_installed(count)
    runs["damaged"] = [damaged(processes, count, name, damage) for name, damage in (
        ("the first 4 096 bytes overwritten", overwrite_header),
        ("the middle half overwritten", overwrite(0.25, 0.75)),
        ("the second half cut off", lambda path: os.truncate(path, path.stat().st_size // 2)))]
    return processes, runs


def lists(processes, count):
    """Milliseconds of a list of all entries of 100 switches, one switch after the other, and of one switch with as many."""
    def timed(work):
        begin = time.monotonic()
        found = work()
        check(found >= count, f"{found} entries listed instead of {count}")
        return (time.monotonic() - begin) * 1000

    all_switches = [timed(lambda: len(processes.of_switches())) for _ in range(5)]
    flows = [{"name": f"e{n}", "switch": DPIDS[0], "flow": f"priority=200,in_port={n + 1},actions=drop"} for n in range(count)]
    processes.call("PUT", "/v1/declared?wait=true", {"flows": flows})
    processes.wait_installed(count)
    one = [timed(lambda: len(processes.call("GET", f"/v1/switches/{DPIDS[0]}/flows")["flows"])) for _ in range(20)]
    return {"all_switches_ms": all_switches, "one_switch_ms": one}


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    rounds = lab.rounds(3)
    if lab.PRIORITY:
        # Everything that it starts has this priority, too: other programs should not disturb the measurement.
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    singles = [single() for _ in range(rounds)]
    changes = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            changes[size].append(one_change(size))
    processes, runs = faults(rounds, max(SIZES))
    listed = lists(processes, max(SIZES))
    processes.close()
    lab.store("static/static", {"switches": SWITCHES, "single": singles, "one_change": changes, "faults": runs, "lists": listed, "checks": checks})

    def row(name, runs, digits=2):
        lab.row(name, *(median_and_range([run[key] for run in runs], digits) for key in runs[0] if key != "state"))

    lab.table(f"{SINGLE} entries, one PUT each", "median, ms", "99th percentile, ms", "maximum, ms", "all, s")
    row("request to barrier", singles, 1)
    print()
    lab.table("entries as one change", "answer, s", "all installed, s")
    for size, of in changes.items():
        row(size, of)
    print()
    lab.table(f"{max(SIZES)} entries, restarted", "switches connected, s", "all installed, s")
    for name in ("controller", "switches", "both"):
        row(name, runs[name])
    print(f"\nEntries of switches that have all disconnected are shown as installed for {median_and_range(runs['states_stale_s'], 2)} s.\n")
    lab.table("killed while entries are written, round", "acknowledged", "of these declared and installed after the restart", "declared")
    for number, run in enumerate(runs["while writing"], 1):
        lab.row(number, run["acknowledged"], run["acknowledged"], run["declared"])
    print()
    lab.table("damage", "entries in switches", "answer", "good store again: all installed, s")
    for run in runs["damaged"]:
        lab.row(run["damage"], run["entries_in_switches"], f"503 {run['message']}", f"{run['good_file']['installed']:.2f}")
    print()
    lab.table(f"list of {max(SIZES)} entries", "ms")
    lab.row(f"of {SWITCHES} switches, one after the other", median_and_range(listed["all_switches_ms"], 0))
    lab.row("of one switch", median_and_range(listed["one_switch_ms"], 0))
    print(f"\nAll acknowledged entries were found in the switches, {len(checks)} times of {len(checks)}.")


if __name__ == "__main__":
    main()
