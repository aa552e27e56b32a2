"""Should a switch be answered when its burst is heard, or all switches when all bursts of a turn are?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

patch = str(pathlib.Path(__file__).resolve().parent / "end-of-turn.patch")
lab.compare_variants("answer-per-burst", [("end of the iteration", lab.variant("end-of-turn", patch))], lab.HOSTS)
