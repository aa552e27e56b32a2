"""A controller, here or at the far end of a `sluice link`, in namespaces that vanish with the process.

    control.alone()                         # first of all: this script again, in namespaces of its own
    link = control.Link("--delay", "5ms", "--rate", "10Mbit")
    controller = control.Controller("--threads", "1", space=control.FAR)
    link.say("delay 50ms")
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

MARK = "SLUICE_LAB_ALONE"
PORT, API = 6653, "127.0.0.1:8653"
# How it runs where nothing but its answers is asked for.
BARE = ["--threads", "1", "--pin", "off", "--no-api", "--log-level", "warn"]
# Bytes on a link are counted in spans of this length.
SPAN_S = 0.01
LIBC = ctypes.CDLL(None)


class Space:
    """A network namespace, and where it is found by those who connect to it."""

    def __init__(self, name, ip):
        self.name, self.ip = name, ip

    def prepare(self):
        run(f"ip -n {self.name} link set lo up")
        # Its own chatter would become packet-ins.
        for which in ("all", "default"):
            self.run(f"sysctl -qw net.ipv6.conf.{which}.disable_ipv6=1")

    def run(self, words, *more, check=True):
        return run(f"nsenter --net=/run/netns/{self.name} {words}", *more, check=check)

    def start(self, *words, **more):
        """What goes on in it; the process becomes that of the words."""
        return subprocess.Popen(["nsenter", f"--net=/run/netns/{self.name}", *words], **more)

    def script(self, text, *arguments):
        """What lines of Python print in it, as JSON."""
        return json.loads(self.run(f"{sys.executable} -c", text, *map(str, arguments)))

    @contextlib.contextmanager
    def entered(self):
        """Has this thread in it meanwhile."""
        self.enter()
        try:
            yield
        finally:
            NEAR.enter()

    def enter(self):
        with open(f"/run/netns/{self.name}") as file:
            if LIBC.setns(file.fileno(), 0) != 0:
                sys.exit(f"the namespace {self.name} cannot be entered")


# Where this runs, and the other end of the link.
NEAR, FAR = Space("near", "127.0.0.1"), Space("far", "10.9.0.2")


def alone(*arguments):
    """Goes on only as the first process of namespaces of its own, with which everything started here ends.

    Whoever is not is replaced by this script with these arguments, in such namespaces.
    """
    if os.environ.get(MARK) != "1":
        if os.geteuid() != 0:
            sys.exit("namespaces are made by root only: run this as root, in a container if you like")
        own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvpe(own[0], [*own, sys.executable, sys.argv[0], *arguments], {**os.environ, MARK: "1"})
    # The first process is not ended by a signal unless it asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    run("mount --make-rprivate /")
    os.makedirs("/run/netns", exist_ok=True)
    run("mount -t tmpfs tmpfs /run/netns")
    run(f"ip netns attach {NEAR.name} {os.getpid()}")
    run(f"ip netns add {FAR.name}")
    for space in (NEAR, FAR):
        space.prepare()


def run(words, *more, check=True):
    """What a command says; `words` are separated by spaces, each of `more` is whole."""
    done = subprocess.run([*words.split(), *more], capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{words}: {done.stderr}{done.stdout}")
    return done.stdout


def until(happened, seconds=60):
    late = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > late:
            sys.exit(f"waited {seconds} s in vain")
        time.sleep(0.02)


class Link:
    """`sluice link` from here to `FAR`, from when it is ready until `close`."""

    def __init__(self, *options):
        command = [lab.SLUICE, "link", "--from", NEAR.name, "--to", FAR.name, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.hear("ready")

    def say(self, line):
        """Changes it."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.hear(f"ok: {line}")

    def hear(self, words):
        for line in self.process.stdout:
            if line.startswith(words):
                return
        sys.exit(f"{' '.join(self.process.args)} ended before it said {words}")

    def close(self):
        """Its report."""
        self.process.terminate()
        report = self.process.stdout.read()
        self.process.wait()
        return report


class Recorded(Link):
    """A link whose bytes are counted."""

    def __init__(self, *options):
        self.series = tempfile.NamedTemporaryFile(suffix=".csv")
        super().__init__("--series", self.series.name, *options)
        # Its series begins now.
        self.opened = time.monotonic()

    def close(self):
        """Its report, and bytes that were delivered up and down in each span."""
        report = super().close()
        rows = [line.split(",") for line in pathlib.Path(self.series.name).read_text().splitlines()[1:]]
        return report, [int(row[2]) for row in rows], [int(row[4]) for row in rows]


class Controller:
    """`sluice run`, from when it listens until `stop`, at the highest priority. It has metrics unless `--no-api` is said."""

    def __init__(self, *arguments, space=NEAR, config="", env=None, binary=lab.SLUICE):
        self.space, self.address = space, f"{space.ip}:{PORT}"
        command = [*lab.FIRST, binary, "run", "--listen", self.address]
        if "--no-api" not in arguments:
            command += ["--api", API]
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-lab-controller-")
        self.log = pathlib.Path(self.folder.name) / "log"
        if config:
            file = pathlib.Path(self.folder.name) / "sluice.toml"
            file.write_text(config)
            command += ["--config", str(file)]
        with open(self.log, "w") as log:
            said = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
            self.process = space.start(*command, *arguments, env={**os.environ, **(env or {})}, **said)
        # Its first screen is there when it listens.
        if not self.process.stdout.readline():
            self.ended()

    def ended(self):
        sys.exit(f"the controller ended: {self.log.read_text()}")

    def metrics(self):
        """Numbers by name; those of all workers together."""
        if self.process.poll() is not None:
            self.ended()
        try:
            with self.space.entered():
                text = urllib.request.urlopen(f"http://{API}/metrics", timeout=2).read().decode()
        except OSError:
            return {}
        found = {}
        for line in text.splitlines():
            if line.startswith("sluice_"):
                name, value = line.removeprefix("sluice_").rsplit(" ", 1)
                found[name] = float(value)
        return found

    def wait(self, **wanted):
        """Waits until topology finds so many, as in `links=8`; numbers are shown once a second."""
        until(lambda: all(self.metrics().get(f"topology_{name}") == n for name, n in wanted.items()))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
