"""Does the number of busy switches matter?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

subjects = [lab.null(), lab.learning()]
lab.table("switches", "null M/s", "sluice M/s", "ratio", "sluice, relative to 16 switches")
at_16 = None
for switches in (16, 1, 64, 256, 1024):
    arguments = ["-s", str(switches), "-t", "-l", "4", "-m", "700", "-M", "1000"]
    got = lab.compare(f"switches/{switches}", subjects, arguments, lab.rounds())
    null, ours = got["null"]["per_second"], got["sluice"]["per_second"]
    at_16 = at_16 or ours
    lab.row(switches, lab.millions(null), lab.millions(ours), f"{ours / null:.2f}", f"{ours / at_16:.2f}")
for subject in subjects:
    subject.stop()
