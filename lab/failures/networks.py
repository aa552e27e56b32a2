"""Does a network come up later because another one, with the same datapath ids, was connected to the controller before?

Emulated networks are connected one after another; for comparison, each to a controller that was just started.
"""

import os
import re
import statistics
import subprocess

import control
import lab

SHAPES = ["leafspine,2,4,2", "ring,4", "tree,2,2"]


def start_up(controller, shape, version):
    """Time until every host has had a reply, in seconds."""
    number = {"OpenFlow10": "1.0", "OpenFlow13": "1.3"}[version]
    command = [lab.SLUICE, "emu", "--plain", "--start", "--topo", shape, "--protocols", number, "-c", controller.address]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"all hosts have a reply: ([0-9.]+) s", output)[1])


def measure(versions):
    lab.table("network", "version", "new controller: median", "worst", "after another network: median", "worst")
    results = []
    for version in versions:
        new, later = {shape: [] for shape in SHAPES}, {shape: [] for shape in SHAPES}
        for _ in range(lab.rounds()):
            for shape in SHAPES:
                controller = control.Controller()
                new[shape].append(start_up(controller, shape, version))
                controller.stop()
            controller = control.Controller()
            start_up(controller, SHAPES[-1], version)
            for shape in SHAPES:
                later[shape].append(start_up(controller, shape, version))
            controller.stop()
        for shape in SHAPES:
            times = new[shape], later[shape]
            results.append({
                "network": shape, "version": version, "new_s": times[0], "later_s": times[1], "load": os.getloadavg()[0],
            })
            lab.row(shape, version, *(f"{figure(of):.2f} s" for of in times for figure in (statistics.median, max)))
    lab.store("failures/networks", {"cases": results})
