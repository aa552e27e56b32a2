"""How fast is `sluice decode --batch`, and does its memory stay constant over a million messages?

The golden messages of all versions are sent repeatedly through a pipe; the output is discarded.
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

GOLDEN = lab.ROOT / "crates/openflow/tests/golden"
COMMAND = [lab.SLUICE, "decode", "--json", "--reencode", "--batch", "-"]


def lines():
    for file in sorted(GOLDEN.glob("*.hex")):
        head, _, _ = file.read_text().partition("\n---")
        hex = "".join("".join(line.split()) for line in head.splitlines() if not line.startswith("#"))
        yield json.dumps({"hex": hex}).encode() + b"\n"


def feed(pipe, messages, count):
    for line in itertools.islice(itertools.cycle(messages), count):
        pipe.write(line)
    pipe.close()


def run(messages, count):
    start = time.monotonic()
    process = subprocess.Popen([*lab.PRIORITY, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Thread(target=feed, args=(process.stdin, messages, count)).start()
    n_output = n_ok = 0
    for line in process.stdout:
        n_output += 1
        n_ok += b'"ok":true' in line
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - start
    assert status == 0 and n_output == count, f"exit {status}, {n_output} lines for {count} messages"
    return {"messages": count, "ok": n_ok, "seconds": took, "processor": usage.ru_utime + usage.ru_stime, "peak_kib": usage.ru_maxrss}


messages = list(lines())
lab.table("messages", "of which well-formed", "per second", "per CPU second", "peak memory, KiB")
runs = []
for count in (1_000, 10_000, 100_000, 1_000_000):
    result = run(messages, count)
    runs.append(result)
    rates = [f"{count / result[key]:,.0f}" for key in ("seconds", "processor")]
    lab.row(f"{count:,}", f"{result['ok']:,}", *rates, f"{result['peak_kib']:,}")
total_bytes = sum(len(json.loads(m)["hex"]) // 2 for m in messages)
print(f"\n{len(messages)} different messages, {total_bytes / len(messages):.0f} bytes each on average")
lab.store("codec/batch", {"command": " ".join(["sluice", *COMMAND[1:]]), "different": len(messages), "bytes": total_bytes, "runs": runs})
