"""What do 3 000 false connections per second cost the switches?"""
import subprocess
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

controller = lab.learning()
arguments = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000"]
lab.table("flood", "M/s without", "M/s with", "ratio")
for send in ("nothing", "random", "hello-only", "slow-hello"):
    runs = {"without": [], "with": []}
    for _ in range(lab.rounds()):
        runs["without"].append(lab.figures(lab.bench(controller, *arguments)))
        flood = [lab.SLUICE, "bench", "flood", "-c", "127.0.0.1", "-p", str(controller.port), "--rate", "3000"]
        flood = subprocess.Popen([*flood, "--send", send, "--seconds", "6"], stdout=controller.log, stderr=controller.log)
        runs["with"].append(lab.figures(lab.bench(controller, *arguments)))
        flood.terminate()
        flood.wait()
    medians = {k: lab.statistics.median(r["per_second"] for r in v) for k, v in runs.items()}
    lab.store(f"flood/{send}", {"arguments": arguments, "medians": medians, "runs": runs})
    ratio = medians["with"] / medians["without"]
    lab.row(send, lab.millions(medians["without"]), lab.millions(medians["with"]), f"{ratio:.2f}")
controller.stop()
