"""Which congestion control should the sockets use on loopback?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

subjects = [lab.learning("--config", str(pathlib.Path(__file__).parent / f"{name}.toml"), name=name) for name in ("cubic", "system")]
lab.table("bench", "controller", "M/s")
for ours in ("cubic", "system"):
    arguments = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000", "--congestion", ours]
    got = lab.compare(f"congestion/bench-{ours}", subjects, arguments, lab.rounds())
    for name, figures in got.items():
        lab.row(ours, name, lab.millions(figures["per_second"]))
for subject in subjects:
    subject.stop()
