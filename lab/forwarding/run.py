"""What does forwarding cost relative to learning: at one switch, over whole ways, and for one first packet?"""
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Ports are at the edge, and hosts learnt there, some moments after the last handshake.
LOAD = ["-t", "-l", "4", "-m", "700", "-M", "1000", "-D", "2000"]
CASES = [
    ("1 switch, 1.0", "one-1.0", ["-s", "1", *LOAD]),
    ("1 switch, 1.3", "one-1.3", ["-s", "1", *LOAD, "--openflow", "1.3"]),
    ("16 switches, 1.0", "sixteen-1.0", ["-s", "16", *LOAD]),
    ("16 switches, 1.3", "sixteen-1.3", ["-s", "16", *LOAD, "--openflow", "1.3"]),
]
# Switches, hosts at each switch at the edge, ways that are asked for at a time.
NETWORKS = [
    ("leaf–spine, 4 and 16", "leafspine", ["--topo", "leafspine,4,16,64", "--window", "512"]),
    ("the same, in 1.0", "leafspine-1.0", ["--topo", "leafspine,4,16,64", "--window", "512", "--openflow", "1.0"]),
    ("the same, one direction", "leafspine-one", ["--topo", "leafspine,4,16,64", "--window", "512", "--one-way"]),
]
# So many hosts that no pair comes again while its rules are taken to be on their way.
LINES = [(1, "single,128"), (3, "linear,3,64"), (5, "linear,5,64")]
ONE_WAY = {"SLUICE_FORWARDING__BOTH_DIRECTIONS": "false"}


def throughput():
    """One rule for a frame beside one rule, two beside two; and all of them relative to learning, which writes one."""
    subjects = [lab.null(), lab.null("--flow-mods", "2", name="null, two rules"), lab.sluice(name="learning"),
                lab.forwarding(name="one direction", env=ONE_WAY), lab.forwarding()]
    lab.table("1 000 hosts each", "null M/s", "null, two rules", "learning", "forwarding, one direction", "of learning",
              "forwarding", "of learning", "of null, two flow-mods")
    for name, file, arguments in CASES:
        got = lab.compare(f"forwarding/{file}", subjects, arguments, lab.rounds())
        null, null_two, learning, one, both = (got[s.name]["per_second"] for s in subjects)
        lab.row(name, *map(lab.mega, (null, null_two, learning, one)), f"{one / learning:.2f}", lab.mega(both),
                f"{both / learning:.2f}", f"{both / null_two:.2f}")
    for subject in subjects:
        subject.stop()


def ways():
    print()
    lab.table("one worker", "paths/s", "entries/s", "lost", "generator, of a core")
    for name, file, arguments in NETWORKS:
        env = ONE_WAY if "--one-way" in arguments else None
        runs = []
        for _ in range(lab.rounds()):
            subject = lab.forwarding(env=env)
            runs.append(lab.paths(subject, *arguments, "-l", "3"))
            subject.stop()
        lab.keep(f"forwarding/{file}", {"arguments": arguments, "runs": runs})
        median = lambda key: statistics.median(run[key] for run in runs)
        cells = [f"{median(key):,.0f}" for key in ("paths_per_second", "flow_entries_per_second", "lost")]
        lab.row(name, *cells, f"{median('cpu_share'):.2f}")


def latency():
    """One question open: the first packet of a pair, whose frame comes up whole."""
    one = ["-s", "1", "--window", "1", "--no-buffer", "--openflow", "1.3", "-l", "3", "-m", "700", "-M", "1000", "-D", "2000"]
    runs = {name: [] for name in ["learning", "forwarding", *(length for length, _ in LINES)]}
    bench = [lab.sluice(name="learning"), lab.forwarding()]
    for _ in range(lab.rounds()):
        for subject in bench:
            runs[subject.name].append(lab.figures(lab.bench(subject, *one))["p50_us"])
        for length, topo in LINES:
            subject = lab.forwarding()
            report = lab.paths(subject, "--topo", topo, "--window", "1", "-l", "2")
            runs[length].append(report["latency_ns"]["p50"] / 1e3)
            subject.stop()
    for subject in bench:
        subject.stop()
    lab.keep("forwarding/latency", {"arguments": one, "p50_us": {str(k): v for k, v in runs.items()}})
    learning = statistics.median(runs["learning"])
    names = {"learning": "learning, 1 switch", "forwarding": "forwarding, 1 switch, the same load"}
    print()
    lab.table("first packet, one open", "p50 µs", "relative to learning")
    for key, of in runs.items():
        name = names.get(key, f"forwarding, path of {key}")
        lab.row(name, f"{statistics.median(of):.0f}", f"{statistics.median(of) / learning:.2f}")


throughput()
ways()
latency()
