"""A control link between two network namespaces, for measurements: `sluice link` with a controller at its far end and
switches at its near one. Needs root.
"""

import atexit
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import lab

NEAR, FAR = f"lab-near-{os.getpid()}", f"lab-far-{os.getpid()}"
NEAR_ADDRESS, FAR_ADDRESS = "10.9.0.1", "10.9.0.2"
PORT = 6653
# Octets are counted in spans of this length.
SPAN_S = 0.01


@contextlib.contextmanager
def namespaces():
    """Two of them, which are gone in the end."""
    if os.geteuid() != 0:
        sys.exit("this measurement needs root: it joins network namespaces")
    for ns in (NEAR, FAR):
        subprocess.run(["ip", "netns", "add", ns], check=True)
        atexit.register(subprocess.run, ["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "-n", ns, "link", "set", "lo", "up"], check=True)
    try:
        yield
    finally:
        for ns in (NEAR, FAR):
            subprocess.run(["ip", "netns", "del", ns], check=True)


def inside(ns, *words):
    """Words of a command that runs in a namespace."""
    return ["ip", "netns", "exec", ns, *lab.FIRST, *words]


class Link:
    """`sluice link` between the namespaces, from when it is ready until `close`."""

    def __init__(self, *options):
        self.series = tempfile.NamedTemporaryFile(suffix=".csv")
        command = [lab.SLUICE, "link", "--from", NEAR, "--to", FAR, "--series", self.series.name, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        atexit.register(self.process.kill)
        for line in self.process.stdout:
            if line == "ready\n":
                # Its series begins now.
                self.opened = time.monotonic()
                return
        sys.exit(f"{' '.join(command)} ended")

    def close(self):
        """Its report, and octets that were delivered up and down in each 10 ms."""
        self.process.terminate()
        report = self.process.stdout.read()
        self.process.wait()
        atexit.unregister(self.process.kill)
        rows = [line.split(",") for line in pathlib.Path(self.series.name).read_text().splitlines()[1:]]
        return report, [int(row[2]) for row in rows], [int(row[4]) for row in rows]


class Controller:
    """`sluice run` at the far end, until `stop`."""

    def __init__(self, *options, binary=lab.SLUICE, env=None):
        listen = ["--listen", f"{FAR_ADDRESS}:{PORT}", "--threads", "1", "--pin", "off", "--no-api"]
        self.process = subprocess.Popen(
            inside(FAR, binary, "run", *listen, "--log-level", "warn", *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(env or {})},
        )
        atexit.register(self.process.kill)
        # Its first screen is there when it listens.
        if not self.process.stdout.readline():
            sys.exit(f"{binary} run ended")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        atexit.unregister(self.process.kill)


def mean(octets, begin_s, end_s):
    """Octets a second between two times since the link was opened."""
    spans = octets[int(begin_s / SPAN_S) : int(end_s / SPAN_S)]
    return sum(spans) / (len(spans) * SPAN_S) if spans else 0.0


def seconds(pattern, text):
    """The number of seconds that a line of a report has, `None` if it has none."""
    found = re.search(pattern + r": ([\d.]+) s", text)
    return float(found.group(1)) if found else None
