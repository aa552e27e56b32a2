#!/usr/bin/env python3
"""Writes a network for `sluice emu`: a torus of 25 by 40 switches with diagonals, 4 000 links, ten hosts at each switch."""

import json
import sys

ROWS, COLUMNS, HOSTS = 25, 40, 10


def name(row, column):
    return f"s{row % ROWS * COLUMNS + column % COLUMNS + 1}"


def main():
    switches, hosts, links = [], [], []
    for row in range(ROWS):
        for column in range(COLUMNS):
            here = name(row, column)
            number = row * COLUMNS + column + 1
            switches.append(
                {"number": str(number), "opts": {"hostname": here, "nodeNum": number, "switchType": "default"}, "x": "0", "y": "0"}
            )
            for there in (name(row, column + 1), name(row + 1, column), name(row + 1, column + 1), name(row + 1, column - 1)):
                links.append({"src": here, "dest": there, "opts": {}})
            for index in range(HOSTS):
                host = (number - 1) * HOSTS + index + 1
                hosts.append({"number": str(host), "opts": {"hostname": f"h{host}", "nodeNum": host}, "x": "0", "y": "0"})
                links.append({"src": f"h{host}", "dest": here, "opts": {}})
    json.dump({"application": {}, "controllers": [], "hosts": hosts, "links": links, "switches": switches, "version": "2"}, sys.stdout)


if __name__ == "__main__":
    main()
