"""What does an idle switch cost, and do ten thousand of them slow down busy ones?"""
import subprocess
import time
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

controller = lab.learning()
time.sleep(1)
alone = controller.resident_kib()
busy = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000", "-o", "20001"]
before = [lab.figures(lab.bench(controller, *busy)) for _ in range(lab.rounds())]
warm = controller.resident_kib()
# About one request in 100 seconds over all switches: as idle as the bench can be.
idle = [lab.SLUICE, "bench", "-c", "127.0.0.1", "-p", str(controller.port), "-s", "10000", "-L=off", "--spin", "0"]
idle = subprocess.Popen([*idle, "--rate", "0.01", "-l", "2", "-m", "60000", "-w", "0"], stdout=controller.log, stderr=controller.log)
resident, last = controller.resident_kib(), 0
while resident != last:
    last = resident
    time.sleep(3)
    resident = controller.resident_kib()
after = [lab.figures(lab.bench(controller, *busy)) for _ in range(lab.rounds())]
idle.terminate()
idle.wait()
controller.stop()
medians = {k: lab.statistics.median(r["per_second"] for r in v) for k, v in (("alone", before), ("beside", after))}
each = (resident - warm) / 10000
lab.store("idle-sessions/sessions", {"resident_kib": {"alone": alone, "warm": warm, "held": resident}, "medians": medians})
lab.table("resident before KiB", "with 10 000 more KiB", "each KiB", "busy M/s before", "busy M/s with them", "ratio")
ratio = medians["beside"] / medians["alone"]
lab.row(warm, resident, f"{each:.1f}", lab.millions(medians["alone"]), lab.millions(medians["beside"]), f"{ratio:.2f}")
