"""How exactly does a link keep its delay and its rate, and is slow start to be seen?"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import control
import lab

SECONDS = os.environ.get("TRANSFER_S", "5")


def micros(text):
    number, unit = re.fullmatch(r"([\d.]+)(\D+)", text).groups()
    return float(number) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]


def lateness(report):
    p50, p99, most = re.search(r"up: lateness: p50 (\S+), p99 (\S+), max (\S+)", report).groups()
    return {"p50_us": micros(p50), "p99_us": micros(p99), "max_us": micros(most)}


def tcp():
    """Mbit/s that a receiver of TCP counts, headers of IP and TCP not included."""
    server = control.FAR.start("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    said = control.run(f"iperf3 -c {control.FAR.ip} -t {SECONDS} -J")
    server.wait()
    return json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6


def delays():
    lab.table("delay each way", "shortest round trip", "mean", "longest", "late p50", "p99", "max")
    for delay_ms in (0.5, 5, 50):
        link = control.Recorded("--delay", f"{delay_ms}ms")
        said = control.run(f"ping -n -q -i 0.01 -c 300 {control.FAR.ip}")
        report, *_ = link.close()
        trips = [float(n) for n in re.search(r"mdev = ([\d.]+)/([\d.]+)/([\d.]+)", said).groups()]
        late = lateness(report)
        lab.keep(f"link/delay-{delay_ms}ms", {"trip_ms": trips, "late": late})
        cells = [f"{ms:.3f} ms" for ms in trips] + [f"{us:.0f} µs" for us in late.values()]
        lab.row(f"{delay_ms} ms", *cells)


def rates():
    lab.table("rate", "delay", "TCP", "share of the rate", "late p50", "p99", "max")
    for mbit in (10, 100, 1000):
        link = control.Recorded("--rate", f"{mbit}Mbit", "--delay", "5ms")
        got = tcp()
        report, series, _ = link.close()
        late = lateness(report)
        # Of a packet of 1500 bytes, 1448 are the stream's.
        share = got / (mbit * 1448 / 1500)
        lab.keep(f"link/rate-{mbit}", {"tcp_mbit": got, "share": share, "late": late, "series": series})
        lab.row(f"{mbit} Mbit/s", "5 ms", f"{got:.1f} Mbit/s", f"{share:.3f}", *(f"{us:.0f} µs" for us in late.values()))


def slow_start():
    """Bytes that arrive in each round trip of 100 ms, from the first on."""
    link = control.Recorded("--delay", "50ms", "--rate", "100Mbit")
    tcp()
    _, series, _ = link.close()
    # The first large burst: before it, iperf3 talks about what it will do.
    first = next(n for n, data in enumerate(series) if data > 5000)
    trips = [sum(series[n : n + 10]) for n in range(first, first + 80, 10)]
    lab.keep("link/slow-start", {"bytes_per_trip": trips, "series": series})
    lab.table("round trip", "bytes that arrive")
    for n, data in enumerate(trips, 1):
        lab.row(n, data)


control.alone()
for part in (delays, rates, slow_start):
    part()
    print()
