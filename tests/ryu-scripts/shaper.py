#!/usr/bin/env python3
"""Limits what a port sends and copies it to two ports: a meter and a group (OpenFlow 1.3), through ryu.app.ofctl_rest.

    shaper.py COMMAND DPID PORT COPY_TO,COPY_TO [URL]

COMMAND is start, counters or stop; DPID is that of the switch, in decimal.
"""

import json
import sys
import urllib.error
import urllib.request

METER = 5
GROUP = 50
KBPS = 2000
PRIORITY = 50000


def call(url, path, body=None):
    # str() of a dictionary is what many scripts send: Ryu evaluates the body.
    data = None if body is None else str(body).encode()
    with urllib.request.urlopen(url + path, data, timeout=10) as response:
        answer = response.read()
    return json.loads(answer) if answer else None


def start(url, dpid, port, outputs):
    call(url, "/stats/meterentry/add", {
        "dpid": dpid, "meter_id": METER, "flags": ["KBPS", "BURST", "STATS"],
        "bands": [{"type": "DROP", "rate": KBPS, "burst_size": KBPS // 10}],
    })
    call(url, "/stats/groupentry/add", {
        "dpid": dpid, "group_id": GROUP, "type": "ALL",
        "buckets": [{"actions": [{"type": "OUTPUT", "port": output}]} for output in outputs],
    })
    call(url, "/stats/flowentry/add", {
        "dpid": dpid, "priority": PRIORITY, "match": {"in_port": port, "eth_type": 0x0800},
        "actions": [{"type": "METER", "meter_id": METER}, {"type": "GROUP", "group_id": GROUP}],
    })


def counters(url, dpid):
    meter = call(url, "/stats/meter/%d/%d" % (dpid, METER))[str(dpid)][0]
    config = call(url, "/stats/meterconfig/%d/%d" % (dpid, METER))[str(dpid)][0]
    group = call(url, "/stats/group/%d/%d" % (dpid, GROUP))[str(dpid)][0]
    descriptions = call(url, "/stats/groupdesc/%d" % dpid)[str(dpid)]
    description = [it for it in descriptions if it["group_id"] == GROUP][0]
    print("meter %d: %s, %d packets in, %d dropped" % (
        METER, config["bands"][0]["rate"], meter["packet_in_count"], meter["band_stats"][0]["packet_band_count"]))
    print("group %d: %s, %d packets" % (GROUP, description["type"], group["packet_count"]))
    for bucket, counts in zip(description["buckets"], group["bucket_stats"]):
        print("  %s: %d packets" % (",".join(bucket["actions"]), counts["packet_count"]))


def stop(url, dpid, port):
    call(url, "/stats/flowentry/delete_strict", {
        "dpid": dpid, "priority": PRIORITY, "match": {"in_port": port, "eth_type": 0x0800},
    })
    call(url, "/stats/groupentry/delete", {"dpid": dpid, "group_id": GROUP})
    call(url, "/stats/meterentry/delete", {"dpid": dpid, "meter_id": METER})


def main(arguments):
    if len(arguments) < 4:
        sys.exit(__doc__)
    command, dpid, port = arguments[0], int(arguments[1]), int(arguments[2])
    outputs = [int(output) for output in arguments[3].split(",")]
    url = arguments[4] if len(arguments) > 4 else "http://127.0.0.1:8080"
    if command == "start":
        start(url, dpid, port, outputs)
    elif command == "stop":
        stop(url, dpid, port)
    else:
        counters(url, dpid)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except urllib.error.HTTPError as error:
        sys.exit("%s: %s" % (error.url, error))
