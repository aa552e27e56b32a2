"""How long does a switch wait for a reply while 800 others send packet-ins at full rate?"""
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

# Every ready connection is read once, up to 128 KiB, in the order of epoll.
IN_TURN = "s/SPARSE_READ_BYTES_MAX: usize = 2/SPARSE_READ_BYTES_MAX: usize = 128/;s/_ => Self::Bulk { small_reads: 0 }/_ => Self::Sparse/"
binaries = {
    "in turn": lab.variant("in-turn", "crates/io/src/read_order.rs", IN_TURN),
    "sparse first": lab.SLUICE,
}
scenarios = ["packet_ins_at_full_rate", "replies_that_are_not_read"]
LINE = re.compile(r"p99 ([\d.]+) ms, attacked ([\d.]+) ms.*slowest newcomer (\d+) ms; resident (\d+) KiB, attacked (\d+) KiB")
test = ["cargo", "test", "--quiet", "--locked", "-p", "sluice-system-tests", "--test", "limits", "--", "--nocapture"]

subprocess.run([*test[:-2], "--no-run"], cwd=lab.ROOT, check=True)
lab.table("attack", "order", "p99 before ms", "p99 during ms (range)", "slowest newcomer ms", "resident MiB")
for scenario in scenarios:
    runs = {name: [] for name in binaries}
    for _ in range(lab.rounds()):
        for name, binary in binaries.items():
            # The test fails if a bound is exceeded, and prints the figures nevertheless.
            result = subprocess.run([*test, scenario], cwd=lab.ROOT, env={**os.environ, "SLUICE_BIN": binary}, capture_output=True, text=True)
            found = LINE.search(result.stdout)
            if not found:
                sys.exit(result.stdout + result.stderr)
            before, during, newcomer, _, resident = map(float, found.groups())
            runs[name].append({"before_ms": before, "during_ms": during, "newcomer_ms": newcomer, "resident_kib": resident})
    lab.store(f"bystander/{scenario}", {"runs": runs})
    for name, of_name in runs.items():
        values = {key: sorted(run[key] for run in of_name) for key in of_name[0]}
        during = values["during_ms"]
        lab.row(
            scenario, name,
            f"{statistics.median(values['before_ms']):.2f}",
            f"{statistics.median(during):.1f} ({during[0]:.1f} to {during[-1]:.1f})",
            f"{max(values['newcomer_ms']):.0f}",
            f"{max(values['resident_kib']) / 1024:.0f}",
        )
