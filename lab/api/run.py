"""What do clients of the API cost the switches, and how long does a list of 10 000 flow entries take?"""
import json
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import lab
import network

CLIENTS = 100
LOAD = ["-s", "16", "-M", "1000", "-t", "-l", "4", "-m", "700"]
ENTRIES = 10_000
REQUESTS = 20


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start(name):
    port = lab.free_port()
    run = [lab.SLUICE, "run", "--listen", "127.0.0.1:PORT", "--threads", "1", "--pin", lab.CONTROLLER_CORE]
    subject = lab.Subject(name, [*run, "--app", "learning", "--api", f"127.0.0.1:{port}"])
    return subject, port


def polled(subject, port):
    """A run of the bench while clients poll; what they got, too."""
    command = ["taskset", "-c", lab.BENCH_CORE, sys.executable, str(HERE / "poll.py"), str(port), str(CLIENTS)]
    clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    started = time.monotonic()
    report = lab.bench(subject, *LOAD)
    seconds = time.monotonic() - started
    clients.terminate()
    answers = json.loads(clients.communicate()[0])
    return {**lab.figures(report), "answers": answers, "answers_per_second": sum(answers.values()) / seconds}


def throughput():
    subject, port = start("api")
    runs = {"alone": [], "polled": []}
    for _ in range(lab.rounds()):
        runs["alone"].append(lab.figures(lab.bench(subject, *LOAD)))
        runs["polled"].append(polled(subject, port))
    subject.stop()
    lab.store("api/polling", {"arguments": LOAD, "clients": CLIENTS, "runs": runs})
    rates = {name: [run["per_second"] / 1e6 for run in of] for name, of in runs.items()}
    ratios = [b / a for a, b in zip(rates["alone"], rates["polled"])]
    served = [run["answers"].get("200", 0) for run in runs["polled"]]
    lab.table("alone, M/s", f"with {CLIENTS} clients, M/s", "ratio by round", "answers with 200 per run")
    lab.row(*(median_and_range(rates[name], 2) for name in rates), median_and_range(ratios, 3), median_and_range(served, 0))


def flows():
    """With a bridge of Open vSwitch."""
    net = network.Network("OpenFlow13")
    net.bridge("s1")
    port, openflow = lab.free_port(), lab.free_port()
    entries = (
        f"table=5,priority=7,in_port=1,dl_src=02:00:00:00:{n >> 8:02x}:{n & 255:02x},actions=output:2\n"
        for n in range(ENTRIES)
    )
    (net.dir / "flows").write_text("".join(entries))
    control.run(f"ovs-ofctl -O OpenFlow13 add-flows unix:{net.dir}/s1.mgmt {net.dir}/flows")
    command = [lab.SLUICE, "run", "--listen", f"127.0.0.1:{openflow}", "--threads", "1", "--api", f"127.0.0.1:{port}"]
    controller = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    net.vsctl(f"set-controller s1 tcp:127.0.0.1:{openflow}")
    url = f"http://127.0.0.1:{port}/v1/switches"

    def is_connected():
        try:
            return b'"s1"' in urllib.request.urlopen(url).read()
        except OSError:
            return False

    control.wait_until(is_connected)
    times = {"json": [], "ovs-ofctl": []}
    sizes = {}
    for _ in range(REQUESTS):
        for form, of in times.items():
            started = time.monotonic()
            body = urllib.request.urlopen(f"{url}/s1/flows?table=5&format={form}").read()
            of.append((time.monotonic() - started) * 1e3)
            sizes[form] = len(body)
    controller.terminate()
    controller.wait()
    dump = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", f"unix:{net.dir}/s1.mgmt", "table=5"]
    times["ovs-ofctl dump-flows"] = []
    for _ in range(REQUESTS):
        started = time.monotonic()
        listed = subprocess.run(dump, check=True, capture_output=True).stdout
        times["ovs-ofctl dump-flows"].append((time.monotonic() - started) * 1e3)
    net.close()
    assert listed.count(b"priority=7") == ENTRIES
    lab.store("api/flows", {"entries": ENTRIES, "bytes": sizes, "ms": times})
    print()
    lab.table(f"{ENTRIES} flow entries", "ms")
    for form, of in times.items():
        lab.row(form, median_and_range(of, 0))


control.enter_namespaces()
throughput()
flows()
