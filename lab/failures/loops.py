"""For how long do frames circulate when a loop is closed outside of the switches?

Two hubs, `west` and `east`, are attached to opposite switches of a ring of four. A host at `west` sends broadcasts, which the switches
forward by flow entries. Then a cable connects the hubs, or the second port of a switch to `west`.
"""

import os
import pathlib
import statistics
import threading
import time

import control
import lab
import network

# Broadcasts per second, and the interval in which frames are counted, in seconds.
RATE, INTERVAL_S = 200, 0.01
BEFORE_S, AFTER_S = 1.0, 4.0
# Frames in an interval are not those of the stream if there are more than this many times as many as before, or a few more.
FACTOR, MORE = 2, 20

# By name: the ends of the cable, a device and a port number each.
CABLES = {"two hubs are connected": ("west", "east"), "a hub gets a second cable, to another switch": ("west", "s4")}

SENDER = """
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
number = 0
while True:
    out.sendto(number.to_bytes(8, "big"), ("10.0.0.255", 5006))
    time.sleep(1 / float(sys.argv[1]))
    number += 1
"""


def received(ports):
    """Frames that all of these ports have received; the bridges are at the other ends."""
    counters = {}
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, values = line.split(":")
        counters[name.strip()] = int(values.split()[1])
    return sum(counters.get(port, 0) for port in ports)


def sample(ports, seconds):
    """Frames received in each interval."""
    start, before, frames = time.monotonic(), received(ports), []
    for n in range(1, round(seconds / INTERVAL_S) + 1):
        time.sleep(max(0, start + n * INTERVAL_S - time.monotonic()))
        after = received(ports)
        frames.append(after - before)
        before = after
    return frames


def connect(net, a, b):
    control.run("ip link add loop-a type veth peer name loop-b")
    for port in ("loop-a", "loop-b"):
        control.run(f"ip link set {port} up")
    net.vsctl(f"add-port {a} loop-a -- add-port {b} loop-b")


def disconnect(net, a, b):
    net.vsctl(f"del-port {a} loop-a -- del-port {b} loop-b")
    control.run("ip link del loop-a")


def close_loop(net, ends, ports):
    """Returns for how many milliseconds frames circulate, and how many more than usual are counted."""
    usual = sample(ports, BEFORE_S)
    limit = FACTOR * max(usual) + MORE
    closing = threading.Thread(target=connect, args=(net, *ends))
    closing.start()
    frames = sample(ports, AFTER_S)
    closing.join()
    many = [n for n, count in enumerate(frames) if count > limit]
    circulated = sum(frames) - statistics.mean(usual) * len(frames)
    return (many[-1] - many[0] + 1) * INTERVAL_S * 1000 if many else 0, max(0, round(circulated))


def measure_version(version):
    net = network.ring(version, 4)
    for hub, switch in (("west", "s1"), ("east", "s3")):
        net.hub(hub)
        control.run(f"ip link add {hub}-{switch} type veth peer name {switch}-{hub}")
        for bridge, port in ((hub, f"{hub}-{switch}"), (switch, f"{switch}-{hub}")):
            control.run(f"ip link set {port} up")
            net.vsctl(f"add-port {bridge} {port}")
    west, east, other = (net.host(bridge) for bridge in ("west", "east", "s2"))
    controller = control.Controller()
    net.bring_up(controller, west, east)
    sender = west.start("python3", "-c", SENDER, str(RATE))
    ports = ["west-s1", "s1-west", "east-s3", "s3-east", *(f"{end}-{to}" for a, b in net.links for end, to in ((a, b), (b, a)))]
    results = []
    for name, ends in CABLES.items():
        samples = []
        for _ in range(lab.rounds()):
            is_streamed = lambda: controller.metrics().get("forwarding_group_streams") == 1
            control.wait_until(lambda: is_streamed() and controller.metrics().get("topology_ports_shared_segment") == 0)
            samples.append(close_loop(net, ends, ports))
            # A host that is silent is not known at another port when the hubs are separated.
            control.wait_until(lambda: east.reaches(other) and west.reaches(other))
            disconnect(net, *ends)
        times, frames = zip(*samples)
        results.append({
            "event": name, "version": version, "circulating_ms": [round(ms) for ms in times], "frames": list(frames),
            "load": os.getloadavg()[0],
        })
        lab.row(name, version, f"{statistics.median(times):.0f} ms", f"{max(times):.0f} ms", f"{statistics.median(frames):.0f}", max(frames))
    sender.terminate()
    sender.wait()
    controller.stop()
    net.close()
    for hub, switch in (("west", "s1"), ("east", "s3")):
        control.run(f"ip link del {hub}-{switch}")
    return results


def measure(versions):
    lab.table("event", "version", "frames circulate for: median", "worst", "frames: median", "worst")
    results = [case for version in versions for case in measure_version(version)]
    lab.store("failures/loops", {"broadcasts_per_second": RATE, "interval_ms": INTERVAL_S * 1000, "cases": results})
