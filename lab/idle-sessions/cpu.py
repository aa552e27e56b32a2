"""What share of a core do idle switches take? SECONDS=n sets how long each case is measured, SESSIONS=n how many there are."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import lab

SECONDS = float(os.environ.get("SECONDS", "20"))
SESSIONS = int(os.environ.get("SESSIONS", "12288"))


def cpu_s(controller):
    """Processor time that a controller has taken, seconds."""
    fields = pathlib.Path(f"/proc/{controller.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def core_share(controller):
    """Share of a core that a controller takes, %."""
    start, at = cpu_s(controller), time.monotonic()
    time.sleep(SECONDS)
    return 100 * (cpu_s(controller) - start) / (time.monotonic() - at)


results = {}
lab.table("applications", "ports of each switch", "alone %", f"with {SESSIONS} %", "resident KiB alone", "with them")
for name, start in (("learning", lab.learning), ("topology, hosts, forwarding", lab.default_applications)):
    for ports in (0, 4):
        controller = start("--log-level", "warn")
        time.sleep(1)
        alone, resident = core_share(controller), controller.resident_kib()
        command = [sys.executable, pathlib.Path(__file__).with_name("sessions.py"), controller.port, SESSIONS, ports]
        peers = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        peers.stdout.readline()
        time.sleep(6)
        held, resident_held = core_share(controller), controller.resident_kib()
        peers.stdin.close()
        peers.wait()
        controller.stop()
        lab.row(name, ports, f"{alone:.1f}", f"{held:.1f}", resident, resident_held)
        results[f"{name}, {ports} ports"] = {"alone": alone, "held": held, "resident_kib": [resident, resident_held]}
lab.store("idle-sessions/cpu", {"seconds": SECONDS, "sessions": SESSIONS, "core_share_percent": results})
