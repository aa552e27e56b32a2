"""What does a switch cost that says nothing, and do ten thousand of them hurt the busy ones?"""
import subprocess
import time
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

ours = lab.sluice()
time.sleep(1)
alone = ours.resident_kib()
busy = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000", "-o", "20001"]
before = [lab.figures(lab.bench(ours, *busy)) for _ in range(lab.rounds())]
warm = ours.resident_kib()
# One request in a hundred seconds or so, all switches together: as idle as a bench can be.
idle = [lab.SLUICE, "bench", "-c", "127.0.0.1", "-p", str(ours.port), "-s", "10000", "-L=off", "--spin", "0"]
idle = subprocess.Popen([*idle, "--rate", "0.01", "-l", "2", "-m", "60000", "-w", "0"], stdout=ours.log, stderr=ours.log)
held, last = ours.resident_kib(), 0
while held != last:
    last = held
    time.sleep(3)
    held = ours.resident_kib()
after = [lab.figures(lab.bench(ours, *busy)) for _ in range(lab.rounds())]
idle.terminate()
idle.wait()
ours.stop()
middle = {k: lab.statistics.median(r["per_second"] for r in v) for k, v in (("alone", before), ("beside", after))}
each = (held - warm) / 10000
lab.keep("idle-sessions/sessions", {"resident_kib": {"alone": alone, "warm": warm, "held": held}, "medians": middle})
lab.table("resident before KiB", "with 10 000 more KiB", "each KiB", "busy M/s before", "busy M/s with them", "ratio")
ratio = middle["beside"] / middle["alone"]
lab.row(warm, held, f"{each:.1f}", lab.mega(middle["alone"]), lab.mega(middle["beside"]), f"{ratio:.2f}")
