"""How exactly does `sluice control-link` keep its delay and its rate, and is TCP's slow start visible?"""
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
    p50, p99, maximum = re.search(r"up: lateness: p50 (\S+), p99 (\S+), max (\S+)", report).groups()
    return {"p50_us": micros(p50), "p99_us": micros(p99), "max_us": micros(maximum)}


def tcp():
    """TCP throughput in Mbit/s at the receiver, without headers."""
    server = control.FAR.start("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    output = control.run(f"iperf3 -c {control.FAR.ip} -t {SECONDS} -J")
    server.wait()
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 1e6


def delays():
    lab.table("delay each way", "shortest round trip", "mean", "longest", "lateness p50", "p99", "max")
    for delay_ms in (0.5, 5, 50):
        link = control.RecordedLink("--delay", f"{delay_ms}ms")
        output = control.run(f"ping -n -q -i 0.01 -c 300 {control.FAR.ip}")
        report, *_ = link.close()
        trips = [float(n) for n in re.search(r"mdev = ([\d.]+)/([\d.]+)/([\d.]+)", output).groups()]
        late = lateness(report)
        lab.store(f"link/delay-{delay_ms}ms", {"trip_ms": trips, "late": late})
        cells = [f"{ms:.3f} ms" for ms in trips] + [f"{us:.0f} µs" for us in late.values()]
        lab.row(f"{delay_ms} ms", *cells)


def rates():
    lab.table("rate", "delay", "TCP", "share of the rate", "lateness p50", "p99", "max")
    for mbit in (10, 100, 1000):
        link = control.RecordedLink("--rate", f"{mbit}Mbit", "--delay", "5ms")
        tcp_mbit = tcp()
        report, series, _ = link.close()
        late = lateness(report)
        # 1448 of 1500 bytes of a packet are payload.
        share = tcp_mbit / (mbit * 1448 / 1500)
        lab.store(f"link/rate-{mbit}", {"tcp_mbit": tcp_mbit, "share": share, "late": late, "series": series})
        lab.row(f"{mbit} Mbit/s", "5 ms", f"{tcp_mbit:.1f} Mbit/s", f"{share:.3f}", *(f"{us:.0f} µs" for us in late.values()))


def slow_start():
    """Bytes that arrive in each round trip of 100 ms."""
    link = control.RecordedLink("--delay", "50ms", "--rate", "100Mbit")
    tcp()
    _, series, _ = link.close()
    # The first large burst: before it, iperf3 exchanges parameters.
    first = next(n for n, data in enumerate(series) if data > 5000)
    trips = [sum(series[n : n + 10]) for n in range(first, first + 80, 10)]
    lab.store("link/slow-start", {"bytes_per_trip": trips, "series": series})
    lab.table("round trip", "bytes that arrive")
    for n, data in enumerate(trips, 1):
        lab.row(n, data)


control.enter_namespaces()
for part in (delays, rates, slow_start):
    part()
    print()
