"""What do 3 000 connections a second that are no switches cost the switches?"""
import subprocess
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

ours = lab.sluice()
arguments = ["-s", "16", "-t", "-l", "4", "-m", "700", "-M", "1000"]
lab.table("flood", "M/s without", "M/s with", "ratio")
for send in ("nothing", "random", "hello-only", "slow-hello"):
    runs = {"without": [], "with": []}
    for _ in range(lab.rounds()):
        runs["without"].append(lab.figures(lab.bench(ours, *arguments)))
        flood = [lab.SLUICE, "bench", "flood", "-c", "127.0.0.1", "-p", str(ours.port), "--rate", "3000"]
        flood = subprocess.Popen([*flood, "--send", send, "--seconds", "6"], stdout=ours.log, stderr=ours.log)
        runs["with"].append(lab.figures(lab.bench(ours, *arguments)))
        flood.terminate()
        flood.wait()
    middle = {k: lab.statistics.median(r["per_second"] for r in v) for k, v in runs.items()}
    lab.keep(f"flood/{send}", {"arguments": arguments, "medians": middle, "runs": runs})
    ratio = middle["with"] / middle["without"]
    lab.row(send, lab.mega(middle["without"]), lab.mega(middle["with"]), f"{ratio:.2f}")
ours.stop()
