"""What does it cost to probe the links of a thousand switches, and how soon are they found?"""
import os
import pathlib
import select
import socket
import statistics
import struct
import sys
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SPINES, LEAVES = 16, 984
# Seconds over which the CPU time of the controller is measured.
SPAN = int(os.environ.get("SECONDS", "20"))
HELLO, ECHO, ECHO_REPLY, FEATURES, FEATURES_REPLY, PACKET_OUT = 0, 2, 3, 5, 6, 13
MULTIPART, MULTIPART_REPLY, BARRIER, BARRIER_REPLY = 18, 19, 20, 21
# PACKET_IN without buffer id, reason ACTION, match with the ingress port.
PACKET_IN = struct.Struct("!BBHIIHBBQHHIIIxx")


class Switch:
    """A switch that completes the handshake and sends every received frame to the controller."""

    def __init__(self, number, ports, address):
        self.number, self.ports, self.rest = number, ports, b""
        self.links = {}
        self.to_send = bytearray()
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.send(HELLO, 1)
        self.flush()

    def send(self, kind, xid, body=b""):
        self.to_send += struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body

    def send_packet_in(self, port, frame):
        length = PACKET_IN.size + len(frame)
        self.to_send += PACKET_IN.pack(
            4, 10, length, 0, 0xFFFFFFFF, len(frame), 1, 0, 0, 1, 12, 0x80000004, port, 0
        )
        self.to_send += frame

    def flush(self):
        while self.to_send:
            try:
                del self.to_send[: self.socket.send(self.to_send)]
            except BlockingIOError:
                return

    def port_descriptions(self):
        for port in range(1, self.ports + 1):
            address = struct.pack("!HHH", 0x0200, self.number, port)
            name = f"eth{port}".encode().ljust(16, b"\0")
            yield struct.pack("!I4x6s2x16s8I", port, address, name, *[0] * 8)

    def receive(self):
        """Processes received bytes; returns the switches that have something to send."""
        try:
            data = self.rest + self.socket.recv(1 << 18)
        except BlockingIOError:
            return set()
        at, affected = 0, set()
        while len(data) - at >= 8:
            _, kind, length, xid = struct.unpack_from("!BBHI", data, at)
            if len(data) - at < length:
                break
            if kind == PACKET_OUT:
                (actions,) = struct.unpack_from("!H", data, at + 16)
                (port,) = struct.unpack_from("!I", data, at + 28)
                if end := self.links.get(port):
                    end[0].send_packet_in(end[1], data[at + 24 + actions : at + length])
                    affected.add(end[0])
            elif kind == FEATURES:
                self.send(FEATURES_REPLY, xid, struct.pack("!QIBBxxII", self.number, 0, 1, 0, 0, 0))
            elif kind == MULTIPART:
                self.send(MULTIPART_REPLY, xid, struct.pack("!HH4x", 13, 0) + b"".join(self.port_descriptions()))
            elif kind == BARRIER:
                self.send(BARRIER_REPLY, xid)
            elif kind == ECHO:
                self.send(ECHO_REPLY, xid, data[at + 8 : at + length])
            at += length
        self.rest = data[at:]
        affected.add(self)
        return affected


class Network:
    """A network in which each leaf is connected to each spine."""

    def __init__(self, address):
        self.spines = [Switch(1 + n, LEAVES, address) for n in range(SPINES)]
        self.leaves = [Switch(1001 + n, SPINES, address) for n in range(LEAVES)]
        for s, spine in enumerate(self.spines):
            for l, leaf in enumerate(self.leaves):
                spine.links[l + 1] = (leaf, s + 1)
                leaf.links[s + 1] = (spine, l + 1)
        self.poll = select.epoll()
        self.by_fd = {}
        for switch in self.spines + self.leaves:
            self.by_fd[switch.socket.fileno()] = switch
            self.poll.register(switch.socket, select.EPOLLIN)

    def run(self, seconds, until=lambda: False):
        """Forwards frames between the switches for some seconds, or until a condition holds."""
        end = time.monotonic() + seconds
        checked_at = time.monotonic()
        while (now := time.monotonic()) < end:
            for fd, _ in self.poll.poll(0.05):
                for switch in self.by_fd[fd].receive():
                    switch.flush()
            for switch in self.by_fd.values():
                if switch.to_send:
                    switch.flush()
            if now - checked_at > 0.2:
                checked_at = now
                if until():
                    return


def cpu_s(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def metrics(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    lines = (line.split() for line in text.splitlines() if line.startswith("sluice_topology_"))
    return {name.removeprefix("sluice_topology_"): float(value) for name, value in lines}


def measure(interval_ms, rate):
    api = lab.free_port()
    run = ["run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", lab.CONTROLLER_CORE]
    run += ["--api", f"127.0.0.1:{api}", "--app", "topology"]
    env = {
        "SLUICE_TOPOLOGY__PROBE_INTERVAL_MS": str(interval_ms),
        "SLUICE_TOPOLOGY__PROBES_PER_S_MAX": str(rate),
        # All switches connect before the first one completes its handshake.
        "SLUICE_EXPERIMENTAL__HANDSHAKE_TIMEOUT_MS": "120000",
    }
    os.sched_setaffinity(0, range(os.cpu_count()))
    controller = lab.Subject("sluice", [lab.SLUICE, *run], env=env)
    # The controller has a core of its own; this process uses the other.
    os.sched_setaffinity(0, {int(lab.BENCH_CORE)})
    network = Network(("127.0.0.1", controller.port))
    n_links, started_at = 2 * SPINES * LEAVES, time.monotonic()
    network.run(60, until=lambda: metrics(api)["links"] == n_links)
    found_s = time.monotonic() - started_at
    network.run(5)
    before, sent = cpu_s(controller.process), metrics(api)["probes_sent"]
    start = time.monotonic()
    network.run(SPAN)
    span = time.monotonic() - start
    after = metrics(api)
    figures = {
        "found_s": round(found_s, 2),
        "links": after["links"],
        "links_lost": after["links_lost"],
        "probes_per_second": round((after["probes_sent"] - sent) / span),
        "core": (cpu_s(controller.process) - before) / span,
    }
    controller.stop()
    return figures


rounds = int(os.environ.get("ROUNDS", "3"))
# Interval and rate limit: without a rate limit, the defaults, and practically no probes.
settings = {"1 s": (1000, 1_000_000), "2 s": (2000, 1_000_000), "default": (1000, 3000), "never": (3_600_000, 3000)}
runs = {name: [] for name in settings}
for _ in range(rounds):
    for name, setting in settings.items():
        runs[name].append(measure(*setting))
        print(name, runs[name][-1], file=sys.stderr)
lab.store("discovery/probing", {"switches": SPINES + LEAVES, "runs": runs})
lab.table("interval", "all links found s", "links", "lost", "probes/s", "CPU core")
for name, figures in runs.items():
    medians = {key: statistics.median(f[key] for f in figures) for key in figures[0]}
    lab.row(
        name, medians["found_s"], int(medians["links"]), int(medians["links_lost"]),
        int(medians["probes_per_second"]), f"{medians['core']:.2%}",
    )
