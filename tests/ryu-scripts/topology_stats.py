#!/usr/bin/env python3
"""Prints the topology that ryu.app.rest_topology has found, and the rates of all ports from ryu.app.ofctl_rest.

    topology_stats.py [URL] [SECONDS] [READINGS]

Ports are read READINGS times (3), every SECONDS (1).
"""

import json
import sys
import time
import urllib.request


def fetch(url, path):
    with urllib.request.urlopen(url + path, timeout=10) as response:
        return json.load(response)


def print_topology(url):
    names = {}
    for switch in fetch(url, "/v1.0/topology/switches"):
        for port in switch["ports"]:
            names[int(port["dpid"], 16), int(port["port_no"], 16)] = port["name"]
        print("switch %s ports=%d" % (switch["dpid"], len(switch["ports"])))
    for link in fetch(url, "/v1.0/topology/links"):
        ends = ["%s:%d" % (end["dpid"], int(end["port_no"], 16)) for end in (link["src"], link["dst"])]
        print("link %s %s" % tuple(ends))
    for host in fetch(url, "/v1.0/topology/hosts"):
        port = host["port"]
        addresses = ",".join(host["ipv4"]) or "-"
        print("host %s %s at %s:%d" % (host["mac"], addresses, port["dpid"], int(port["port_no"], 16)))
    return names


def read_ports(url):
    """Counters of all ports by switch and number, with the time of the reading."""
    counters = {}
    for dpid in fetch(url, "/stats/switches"):
        now = time.monotonic()
        for port in fetch(url, "/stats/port/%d" % dpid)[str(dpid)]:
            if isinstance(port["port_no"], int):
                counters[dpid, port["port_no"]] = (now, port)
    return counters


def main(arguments):
    url = (arguments[0] if arguments else "http://127.0.0.1:8080").rstrip("/")
    seconds = float(arguments[1]) if len(arguments) > 1 else 1
    readings = int(arguments[2]) if len(arguments) > 2 else 3
    names = print_topology(url)
    before = read_ports(url)
    for _ in range(readings):
        time.sleep(seconds)
        after = read_ports(url)
        for key, (now, port) in sorted(after.items()):
            if key not in before:
                continue
            then, old = before[key]
            rates = [8 * (port[name] - old[name]) / (now - then) for name in ("rx_bytes", "tx_bytes")]
            print(
                "port %016x:%d %s rx=%d tx=%d rx_bit/s=%.0f tx_bit/s=%.0f"
                % (key[0], key[1], names.get(key, "?"), port["rx_packets"], port["tx_packets"], rates[0], rates[1])
            )
        before = after


if __name__ == "__main__":
    main(sys.argv[1:])
