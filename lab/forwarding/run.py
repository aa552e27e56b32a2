"""What does forwarding cost compared with learning: on one switch, over whole paths, for a first packet?"""
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Ports become edge ports, where hosts are learned, some time after the last handshake.
LOAD = ["-t", "-l", "4", "-m", "700", "-M", "1000", "-D", "2000"]
CASES = [
    ("1 switch, 1.0", "one-1.0", ["-s", "1", *LOAD]),
    ("1 switch, 1.3", "one-1.3", ["-s", "1", *LOAD, "--openflow", "1.3"]),
    ("16 switches, 1.0", "sixteen-1.0", ["-s", "16", *LOAD]),
    ("16 switches, 1.3", "sixteen-1.3", ["-s", "16", *LOAD, "--openflow", "1.3"]),
]
# Name, file, and arguments of `sluice bench paths`.
NETWORKS = [
    ("leaf–spine, 4 and 16", "leafspine", ["--topo", "leafspine,4,16,64", "--window", "256"]),
    ("the same, in 1.0", "leafspine-1.0", ["--topo", "leafspine,4,16,64", "--window", "256", "--openflow", "1.0"]),
    ("the same, one direction", "leafspine-one", ["--topo", "leafspine,4,16,64", "--window", "256", "--one-way"]),
]
# Switches on the path, and a topology with so many hosts that no pair repeats while its flow entries are pending.
LINES = [(1, "single,128"), (3, "linear,3,64"), (5, "linear,5,64")]
ONE_WAY = {"SLUICE_FORWARDING__BOTH_DIRECTIONS": "false"}


def throughput():
    """Compares responders with one and two flow-mods per packet-in; ratios are relative to learning, which sends one."""
    subjects = [lab.null(), lab.null("--flow-mods", "2", name="null, two flow-mods"), lab.learning(name="learning"),
                lab.default_applications(name="one direction", env=ONE_WAY), lab.default_applications()]
    lab.table("1 000 hosts each", "null M/s", "null, two flow-mods", "learning", "forwarding, one direction", "relative to learning",
              "forwarding", "relative to learning", "relative to null, two flow-mods")
    for name, file, arguments in CASES:
        results = lab.compare(f"forwarding/{file}", subjects, arguments, lab.rounds())
        null, null_two, learning, one, both = (results[s.name]["per_second"] for s in subjects)
        lab.row(name, *map(lab.millions, (null, null_two, learning, one)), f"{one / learning:.2f}", lab.millions(both),
                f"{both / learning:.2f}", f"{both / null_two:.2f}")
    for subject in subjects:
        subject.stop()


def paths():
    print()
    lab.table("one worker", "paths/s", "flow-mods/s", "never answered", "generator, CPU cores")
    for name, file, arguments in NETWORKS:
        env = ONE_WAY if "--one-way" in arguments else None
        runs = []
        for _ in range(lab.rounds()):
            subject = lab.default_applications(env=env)
            runs.append(lab.paths(subject, *arguments, "-l", "4"))
            subject.stop()
        lab.store(f"forwarding/{file}", {"arguments": arguments, "runs": runs})
        median = lambda key: statistics.median(run[key] for run in runs)
        cells = [f"{median(key):,.0f}" for key in ("paths_per_second", "flow_mods_per_second", "never_answered")]
        lab.row(name, *cells, f"{median('generator_cpu'):.2f}")


def latency():
    """One outstanding request: the first packet of a pair of hosts, not buffered by the switch."""
    one = ["-s", "1", "--window", "1", "--no-buffer", "--openflow", "1.3", "-l", "3", "-m", "700", "-M", "1000", "-D", "2000"]
    runs = {name: [] for name in ["learning", "forwarding", *(length for length, _ in LINES)]}
    bench = [lab.learning(name="learning"), lab.default_applications()]
    for _ in range(lab.rounds()):
        for subject in bench:
            runs[subject.name].append(lab.figures(lab.bench(subject, *one))["p50_us"])
        for length, topo in LINES:
            subject = lab.default_applications()
            report = lab.paths(subject, "--topo", topo, "--window", "1", "-l", "3")
            runs[length].append(report["p50_us"])
            subject.stop()
    for subject in bench:
        subject.stop()
    lab.store("forwarding/latency", {"arguments": one, "p50_us": {str(k): v for k, v in runs.items()}})
    learning = statistics.median(runs["learning"])
    names = {"learning": "learning, 1 switch", "forwarding": "forwarding, 1 switch, the same load"}
    print()
    lab.table("first packet, one outstanding request", "p50 µs", "relative to learning")
    for key, values in runs.items():
        name = names.get(key, f"forwarding, path of {key}")
        lab.row(name, f"{statistics.median(values):.0f}", f"{statistics.median(values) / learning:.2f}")


throughput()
paths()
latency()
