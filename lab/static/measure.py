#!/usr/bin/env python3
"""Installs static entries in 100 emulated switches, kills the controller, and measures.

usage: measure.py SLUICE [ENTRIES]        ENTRIES in all, 1000 by default, spread evenly over the switches
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

SLUICE = sys.argv[1]
ENTRIES = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
SWITCHES = 100
API = "127.0.0.1:18653"


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://{API}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def start(state):
    command = [SLUICE, "run", "--listen", "127.0.0.1:16653", "--api", API, "--state-dir", state]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(count, path, key, within=120):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            found = call("GET", path)[key]
            if (len(found) if isinstance(found, list) else found) == count:
                return
        except OSError:
            pass
        time.sleep(0.02)
    sys.exit(f"{path}: still {found} instead of {count}")


def entry(n):
    switch = n % SWITCHES + 1
    return {"switch": f"{switch:016x}", "flow": f"priority=200,in_port={n // SWITCHES + 1},actions=drop"}


def main():
    state = tempfile.mkdtemp()
    controller = start(state)
    wait_for(0, "/v1/switches", "switches")
    emu = [SLUICE, "emu", "-c", "127.0.0.1:16653", "--topo", f"ring,{SWITCHES}", "--plain", "--pings", "1"]
    emu = subprocess.Popen(emu, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(SWITCHES, "/v1/switches", "switches")
        latencies = []
        for n in range(min(ENTRIES, 1000)):
            begin = time.monotonic()
            shown = call("PUT", f"/v1/static/flows/e{n}?wait=true", entry(n))
            latencies.append(time.monotonic() - begin)
            assert shown["state"] == "installed", shown
        latencies.sort()
        rank = lambda p: latencies[int(p * (len(latencies) - 1))] * 1000
        print(f"PUT to barrier, {len(latencies)} entries one after the other: "
              f"median {rank(0.5):.1f} ms, 99th percentile {rank(0.99):.1f} ms, maximum {rank(1):.1f} ms")
        begin = time.monotonic()
        flows = [{"name": f"e{n}", **entry(n)} for n in range(ENTRIES)]
        made = call("PUT", "/v1/declared?wait=true", {"flows": flows})
        print(f"the rest of {ENTRIES} entries, {len(made['changes'])}, as one change: "
              f"{(time.monotonic() - begin) * 1000:.0f} ms")
        installed = "/v1/static/flows?state=installed&limit=0"
        wait_for(ENTRIES, installed, "total")
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        begin = time.monotonic()
        controller = start(state)
        wait_for(SWITCHES, "/v1/switches", "switches")
        connected = time.monotonic() - begin
        wait_for(ENTRIES, installed, "total")
        print(f"after kill -9: switches connected again {connected:.2f} s after the start, "
              f"all {ENTRIES} entries confirmed after {time.monotonic() - begin:.2f} s")
        lists = []
        flows = [{"name": f"e{n}", "switch": entry(0)["switch"], "flow": f"priority=200,in_port={n + 1},actions=drop"}
                 for n in range(ENTRIES)]
        call("PUT", "/v1/declared?wait=true", {"flows": flows})
        for _ in range(20):
            begin = time.monotonic()
            shown = call("GET", f"/v1/switches/{entry(0)['switch']}/flows")
            lists.append((time.monotonic() - begin) * 1000)
            assert len(shown["flows"]) >= ENTRIES, len(shown["flows"])
        print(f"GET flows of one switch with {ENTRIES} entries, 20 times: median {sorted(lists)[10]:.0f} ms, "
              f"{min(lists):.0f} to {max(lists):.0f} ms")
    finally:
        for process in (emu, controller):
            process.kill()
            process.wait()


main()
