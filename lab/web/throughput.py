"""How many packet-ins does the controller handle while ten pages are open?"""
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "api")]
import lab
import run as api

PAGES = 10


class Pages:
    """Chromium on both cores. It has the priority of controller and generator as a group: pages that hardly run would ask for nothing."""

    def __init__(self, controller):
        command = ["node", str(HERE / "pages.mjs"), f"http://127.0.0.1:{controller.api}", str(PAGES)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        api.atexit.register(lambda: os.killpg(self.process.pid, signal.SIGKILL))
        if lab.AUTOGROUP.exists() and lab.PRIORITY:
            pathlib.Path(f"/proc/{self.process.pid}/autogroup").write_text("-20")
        if self.process.stdout.readline().strip() != "open":
            sys.exit("the pages were not opened")

    def tasks(self):
        """The browser's processes: they may have process groups of their own."""
        children, found = [self.process.pid], []
        while children:
            pid = children.pop()
            found.append(pid)
            listing = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
            children += map(int, listing.split())
        return found

    def signal(self, number):
        for pid in self.tasks():
            os.kill(pid, number)


def main():
    rounds, measurement = lab.rounds(5), api.Measurement()
    # Next to the load, which takes both cores, a browser does not open ten pages within half a minute.
    pages = Pages(measurement.controller)
    pages.signal(signal.SIGSTOP)
    measurement.start_load()
    measurement.clients.process.kill()
    runs = {"alone": [], "pages": []}

    def window(name):
        pages.signal(signal.SIGCONT if name == "pages" else signal.SIGSTOP)
        time.sleep(1)
        runs[name].append(api.measured(measurement.controller, lambda: time.sleep(api.WINDOW_S)))

    window("alone")
    for _ in range(rounds):
        window("pages")
        window("alone")
    pages.signal(signal.SIGCONT)
    rates = {name: [run["per_second_of_run_time"] for run in runs[name]] for name in runs}
    ratios = [2 * open_ / (before + after) for before, open_, after in zip(rates["alone"], rates["pages"], rates["alone"][1:])]
    itself = [2 * b / (a + c) for a, b, c in zip(rates["alone"], rates["alone"][1:], rates["alone"][2:])]
    lab.table("", "ratio", "packet-ins, M per second of run time", "packet-ins, M/s", "thread of the API runs, %", "worker waits, %")
    for name, all_ in (("ten pages", ratios), ("alone", itself)):
        of = runs["pages" if name == "ten pages" else "alone"]
        figure = lambda key, factor, digits: api.median_and_range([factor * run[key] for run in of], digits)
        lab.row(name, api.median_and_range(all_, 3), figure("per_second_of_run_time", 1e-6, 2), figure("per_second", 1e-6, 2),
                figure("api_thread_ran", 100, 1), figure("waited", 100, 1))
    print(f"\nmedian of the ratios {statistics.median(ratios):.3f}, of windows alone {statistics.median(itself):.3f}")
    lab.store("web/throughput", {"pages": PAGES, "arguments": api.LOAD, "runs": runs, "ratios": {"pages": ratios, "alone": itself}})


if __name__ == "__main__":
    main()
