"""Reply to each switch after its burst, or to all switches at the end of the event-loop iteration?"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

patch = str(pathlib.Path(__file__).resolve().parent / "end-of-iteration.patch")
lab.compare_variants("answer-per-burst", [("end of the iteration", lab.variant("end-of-iteration", patch))], lab.HOSTS)
