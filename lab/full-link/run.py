"""Are links lost while replies fill a thin control link?"""
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import control
import lab
import network

# Rate to the switches in Mbit/s; to the controller it is 100.
RATES = [0.5, 1, 4, 16]
# So many flows that their flow-mods, two for each of three switches, exceed the rate of the link.
FLOWS_PER_MBIT, SECONDS = 600, 25
SETTINGS = {"SLUICE_FORWARDING__MATCH": "five-tuple"}
SHOWN = {"links lost": "topology_links_lost_total", "packet-ins discarded": "packet_ins_shed_total",
         "bytes waiting": "backlog_bytes"}


def measure(binary, rate):
    """Three switches in a line, with a host at each end; one opens flows to the other."""
    net = network.line("OpenFlow13", 3)
    hosts = net.host("s1"), net.host("s3")
    link = control.Link("--rate", f"100Mbit,{rate}Mbit", "--delay", "5ms", "--queue", "64KiB")
    controller = control.Controller("--threads", "1", namespace=control.FAR, env=SETTINGS, binary=binary)
    net.bring_up(controller, *hosts)
    for host, other in (hosts, hosts[::-1]):
        host.add_neighbour(other)
    time.sleep(3)
    arguments = map(str, (HERE / "flows.py", hosts[1].ip, rate * FLOWS_PER_MBIT, SECONDS))
    flows = hosts[0].start(sys.executable, *arguments)
    samples = []
    while flows.poll() is None:
        samples.append(controller.metrics())
        time.sleep(0.5)
    samples.append(controller.metrics())
    controller.stop()
    link.close()
    net.close()
    # A metric of an application that is not loaded is missing.
    shown = {name: [metrics.get(key, 0) for metrics in samples if metrics] for name, key in SHOWN.items()}
    return {name: max(values) for name, values in shown.items()}


def main():
    control.enter_namespaces(*sys.argv[1:])
    binaries = {"before": os.environ["BEFORE"]} if "BEFORE" in os.environ else {}
    binaries["now"] = lab.SLUICE
    runs = []
    for rate in RATES:
        for _ in range(lab.rounds()):
            for name, binary in binaries.items():
                runs.append({"rate_mbit": rate, "controller": name, **measure(binary, rate)})
                print(runs[-1], file=sys.stderr)
    lab.store("full-link/runs", {"flows_per_mbit": FLOWS_PER_MBIT, "seconds": SECONDS, "runs": runs})
    lab.table("to the switches", "controller", *SHOWN)
    for rate in RATES:
        for name in binaries:
            selected = [run for run in runs if (run["rate_mbit"], run["controller"]) == (rate, name)]
            medians = (statistics.median(run[key] for run in selected) for key in SHOWN)
            lab.row(f"{rate} Mbit/s", name, *(f"{n:,.0f}" for n in medians))


main()
