"""A controller, on this side or at the far end of a `sluice control-link`, in namespaces that end with the process.

    control.enter_namespaces()              # first of all: runs this script again in new namespaces
    link = control.Link("--delay", "5ms", "--rate", "10Mbit")
    controller = control.Controller("--threads", "1", namespace=control.FAR)
    link.command("delay 50ms")
    controller.wait(links=6)

Needs root and iproute2.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import lab

IN_NAMESPACES = "SLUICE_LAB_IN_NAMESPACES"
PORT, API = 6653, "127.0.0.1:8653"
# Options of a controller that is not observed.
MINIMAL = ["--threads", "1", "--pin", "off", "--no-api", "--log-level", "warn"]
# Bytes on a link are counted in intervals of this length.
BIN_S = 0.01
LIBC = ctypes.CDLL(None)


class Namespace:
    """A network namespace, and the IP address at which it is reached."""

    def __init__(self, name, ip):
        self.name, self.ip = name, ip

    def prepare(self):
        run(f"ip -n {self.name} link set lo up")
        # Router solicitations and the like would become packet-ins.
        for interfaces in ("all", "default"):
            self.run(f"sysctl -qw net.ipv6.conf.{interfaces}.disable_ipv6=1")

    def run(self, command, *arguments, check=True):
        """Runs a command in the namespace; returns its output."""
        return run(f"nsenter --net=/run/netns/{self.name} {command}", *arguments, check=check)

    def start(self, *command, **options):
        """Starts a process in the namespace; returns it."""
        return subprocess.Popen(["nsenter", f"--net=/run/netns/{self.name}", *command], **options)

    def script(self, source, *arguments):
        """Runs Python source in the namespace; returns what it prints, parsed as JSON."""
        return json.loads(self.run(f"{sys.executable} -c", source, *map(str, arguments)))

    @contextlib.contextmanager
    def entered(self):
        """Context manager: this thread is in the namespace."""
        self.enter()
        try:
            yield
        finally:
            NEAR.enter()

    def enter(self):
        with open(f"/run/netns/{self.name}") as file:
            if LIBC.setns(file.fileno(), 0) != 0:
                sys.exit(f"the namespace {self.name} cannot be entered")


# The namespace of this script, and that at the other end of the link.
NEAR, FAR = Namespace("near", "127.0.0.1"), Namespace("far", "10.9.0.2")


def enter_namespaces(*arguments):
    """Replaces this process by the same script with `arguments`, as the first process of new namespaces.

    Returns in the new process. When that ends, everything that it started ends with it.
    """
    if os.environ.get(IN_NAMESPACES) != "1":
        if os.geteuid() != 0:
            sys.exit("creating network namespaces requires root: run this as root, or in a container")
        unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvpe(unshare[0], [*unshare, sys.executable, sys.argv[0], *arguments], {**os.environ, IN_NAMESPACES: "1"})
    # The first process of a PID namespace ignores signals without a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    run("mount --make-rprivate /")
    os.makedirs("/run/netns", exist_ok=True)
    run("mount -t tmpfs tmpfs /run/netns")
    run(f"ip netns attach {NEAR.name} {os.getpid()}")
    run(f"ip netns add {FAR.name}")
    for namespace in (NEAR, FAR):
        namespace.prepare()


def run(command, *arguments, check=True):
    """Runs a command and returns its output. `command` is split at spaces; `arguments` are not."""
    result = subprocess.run([*command.split(), *arguments], capture_output=True, text=True)
    if check and result.returncode != 0:
        sys.exit(f"{command}: {result.stderr}{result.stdout}")
    return result.stdout


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"timed out after {seconds} s")
        time.sleep(0.02)


class Link:
    """A `sluice control-link` from `NEAR` to `FAR`, which runs until `close`."""

    def __init__(self, *options):
        command = [lab.SLUICE, "control-link", "--from", NEAR.name, "--to", FAR.name, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.wait_for_line("ready")

    def command(self, line):
        """Sends a command, such as `delay 50ms`, and waits until it is executed."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.wait_for_line(f"ok: {line}")

    def wait_for_line(self, start):
        for line in self.process.stdout:
            if line.startswith(start):
                return
        sys.exit(f"{' '.join(self.process.args)} ended before it printed {start!r}")

    def close(self):
        """Stops the link; returns its report."""
        self.process.terminate()
        report = self.process.stdout.read()
        self.process.wait()
        return report


class RecordedLink(Link):
    """A link that records the bytes of each interval."""

    def __init__(self, *options):
        self.series = tempfile.NamedTemporaryFile(suffix=".csv")
        super().__init__("--series", self.series.name, *options)
        # The time series starts now.
        self.opened = time.monotonic()

    def close(self):
        """Stops the link; returns its report, and the bytes delivered up and down in each interval."""
        report = super().close()
        rows = [line.split(",") for line in pathlib.Path(self.series.name).read_text().splitlines()[1:]]
        return report, [int(row[2]) for row in rows], [int(row[4]) for row in rows]


class Controller:
    """A `sluice run` at the highest priority, which runs until `stop`; with metrics unless `--no-api` is given."""

    def __init__(self, *arguments, namespace=NEAR, config="", env=None, binary=lab.SLUICE):
        self.namespace, self.address = namespace, f"{namespace.ip}:{PORT}"
        command = [*lab.PRIORITY, binary, "run", "--listen", self.address]
        if "--no-api" not in arguments:
            command += ["--api", API]
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-controller-")
        self.log = pathlib.Path(self.folder.name) / "log"
        if config:
            file = pathlib.Path(self.folder.name) / "sluice.toml"
            file.write_text(config)
            command += ["--config", str(file)]
        with open(self.log, "w") as log:
            streams = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
            self.process = namespace.start(*command, *arguments, env={**os.environ, **(env or {})}, **streams)
        # It prints its first line when it listens.
        if not self.process.stdout.readline():
            self.exit_with_log()

    def exit_with_log(self):
        sys.exit(f"the controller ended: {self.log.read_text()}")

    def metrics(self):
        """The metrics by name, without the prefix `sluice_`."""
        if self.process.poll() is not None:
            self.exit_with_log()
        try:
            with self.namespace.entered():
                text = urllib.request.urlopen(f"http://{API}/metrics", timeout=2).read().decode()
        except OSError:
            return {}
        metrics = {}
        for line in text.splitlines():
            if line.startswith("sluice_"):
                name, value = line.removeprefix("sluice_").rsplit(" ", 1)
                metrics[name] = float(value)
        return metrics

    def wait(self, **wanted):
        """Waits until gauges of topology have these values, as in `links=8`; they are updated once per second."""
        wait_until(lambda: all(self.metrics().get(f"topology_{name}") == n for name, n in wanted.items()))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
