"""What does TLS cost: per message beside TCP with the same load, and per handshake?"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SWITCHES = ["-s", "16", "-M", "1000", "-l", "4", "-m", "500", "--spin", "1000", "--openflow", "1.3"]
LOADS = {
    ("unlimited", "not buffered"): [*SWITCHES, "-t", "--no-buffer"],
    ("100 per switch", "not buffered"): [*SWITCHES, "--window", "100", "--no-buffer"],
    ("unlimited", "buffered"): [*SWITCHES, "-t"],
    ("100 per switch", "buffered"): [*SWITCHES, "--window", "100"],
    ("unlimited", "not buffered, 1500 bytes"): [*SWITCHES, "-t", "--no-buffer", "--frame-len", "1500"],
}
HANDSHAKES = 2000
CONNECT_ONLY = ["-s", str(HANDSHAKES), "-M", "2", "-l", "1", "-w", "0", "-m", "10", "--openflow", "1.3"]


def make_certificates(folder):
    for words in (["init"], ["issue", "controller"], ["issue", "switch"]):
        subprocess.run([lab.SLUICE, "pki", *words, "--dir", folder], check=True, capture_output=True)


def learning_with_tls(folder):
    """`learning` that listens with TLS only."""
    command = [lab.SLUICE, "run", "--listen", "", "--tls-listen", "127.0.0.1:PORT", "--threads", "1"]
    command += ["--pin", lab.CONTROLLER_CORE, "--no-api", "--app", "learning", "--tls-ca", f"{folder}/ca.pem"]
    command += ["--tls-cert", f"{folder}/controller.pem", "--tls-key", f"{folder}/controller.key"]
    options = ["--tls", "--tls-ca", f"{folder}/ca.pem"]
    options += ["--tls-cert", f"{folder}/switch.pem", "--tls-key", f"{folder}/switch.key"]
    return lab.Subject("tls", command, bench_options=options)


def acceptor_cpu_ns(subject):
    """Processor time of the acceptor's thread."""
    for task in pathlib.Path(f"/proc/{subject.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "acceptor":
            return int((task / "schedstat").read_text().split()[0])
    sys.exit("there is no acceptor thread")


def handshake_us(subject):
    """Processor time of the acceptor for a connection, from the first byte to the worker."""
    before = acceptor_cpu_ns(subject)
    lab.bench(subject, *CONNECT_ONLY)
    return (acceptor_cpu_ns(subject) - before) / HANDSHAKES / 1000


def median_and_range(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


with tempfile.TemporaryDirectory() as folder:
    make_certificates(f"{folder}/pki")
    subjects = [lab.learning(name="tcp"), learning_with_tls(f"{folder}/pki")]
    lab.table("outstanding", "packet-ins", "TCP, M/s", "TLS, M/s", "ratio")
    for (outstanding, packet_ins), arguments in LOADS.items():
        name = f"{outstanding} {packet_ins}".replace(" ", "-").replace(",", "")
        lab.compare(f"tls/{name}", subjects, arguments, lab.rounds())
        runs = json.loads((lab.ROOT / f"lab/tls/data/{name}.json").read_text())["runs"]
        tcp, tls = ([run["per_second"] / 1e6 for run in runs[subject.name]] for subject in subjects)
        ratios = [a / b for a, b in zip(tls, tcp)]
        lab.row(outstanding, packet_ins, median_and_range(tcp, 2), median_and_range(tls, 2), median_and_range(ratios, 2))
    costs = {subject.name: [handshake_us(subject) for _ in range(lab.rounds())] for subject in subjects}
    lab.store("tls/handshake", {"arguments": CONNECT_ONLY, "acceptor_us": costs})
    print(f"\nProcessor time of the acceptor per connection, {HANDSHAKES} switches:")
    for name, values in costs.items():
        print(f"- {name}: {median_and_range(values, 0)} µs")
    for subject in subjects:
        subject.stop()
