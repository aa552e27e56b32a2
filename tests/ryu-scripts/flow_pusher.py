#!/usr/bin/env python3
"""Keeps a small policy in all switches of a network, through ryu.app.ofctl_rest.

    flow_pusher.py COMMAND [OPENFLOW] [URL]

COMMAND is add, list, modify or delete; OPENFLOW is 1.0 or 1.3 (the default), and URL that of Ryu's REST API.
"""

import json
import sys
import urllib.error
import urllib.request

COOKIE = 0x5EC
PRIORITY = 40000

WEB_SERVER = "10.0.0.2"
BLOCKED = "10.0.0.66"
GUEST_VLAN = 20


def policy_of10(modified):
    """The policy with the names of OpenFlow 1.0."""
    return [
        {
            "match": {"dl_type": 0x0800, "nw_src": BLOCKED},
            "actions": [],
        },
        {
            "match": {"dl_type": 0x0800, "nw_proto": 6, "nw_dst": WEB_SERVER, "tp_dst": 80},
            "actions": [
                {"type": "SET_NW_TOS", "nw_tos": 0x20 if modified else 0x10},
                {"type": "OUTPUT", "port": 2},
            ],
        },
        {
            "match": {"in_port": 3, "dl_src": "00:00:00:00:00:09"},
            "actions": [{"type": "SET_VLAN_VID", "vlan_vid": GUEST_VLAN}, {"type": "OUTPUT", "port": 1}],
        },
        {
            "match": {"in_port": 1, "dl_vlan": GUEST_VLAN},
            "actions": [{"type": "STRIP_VLAN"}, {"type": "OUTPUT", "port": 3}],
        },
    ]


def policy_of13(modified):
    """The policy with the names of OpenFlow 1.3."""
    return [
        {
            "match": {"eth_type": 0x0800, "ipv4_src": BLOCKED},
            "actions": [],
        },
        {
            "match": {"eth_type": 0x0800, "ip_proto": 6, "ipv4_dst": WEB_SERVER, "tcp_dst": 80},
            "actions": [
                {"type": "SET_FIELD", "field": "ip_dscp", "value": 8 if modified else 4},
                {"type": "OUTPUT", "port": 2},
            ],
        },
        {
            "match": {"in_port": 3, "eth_src": "00:00:00:00:00:09"},
            "actions": [
                {"type": "PUSH_VLAN", "ethertype": 0x8100},
                {"type": "SET_FIELD", "field": "vlan_vid", "value": 0x1000 | GUEST_VLAN},
                {"type": "OUTPUT", "port": 1},
            ],
        },
        {
            "match": {"in_port": 1, "vlan_vid": GUEST_VLAN},
            "actions": [{"type": "POP_VLAN"}, {"type": "OUTPUT", "port": 3}],
        },
    ]


class Api:
    def __init__(self, url):
        self.url = url.rstrip("/")

    def get(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=10) as response:
            return json.load(response)

    def post(self, path, body):
        urllib.request.urlopen(self.url + path, json.dumps(body).encode(), timeout=10).close()


def entry(dpid, part):
    return dict(part, dpid=dpid, cookie=COOKIE, priority=PRIORITY, idle_timeout=0, hard_timeout=0)


def listing(api, dpid):
    """Our entries at a switch: the API selects by priority, we by cookie."""
    flows = api.get("/stats/flow/%d" % dpid, {"priority": PRIORITY})[str(dpid)]
    return [flow for flow in flows if flow["cookie"] == COOKIE]


def main(arguments):
    command = arguments[0] if arguments else "list"
    openflow = arguments[1] if len(arguments) > 1 else "1.3"
    api = Api(arguments[2] if len(arguments) > 2 else "http://127.0.0.1:8080")
    policy = policy_of10 if openflow == "1.0" else policy_of13
    for dpid in api.get("/stats/switches"):
        if command == "add":
            for part in policy(modified=False):
                api.post("/stats/flowentry/add", entry(dpid, part))
        elif command == "modify":
            for part in policy(modified=True):
                api.post("/stats/flowentry/modify_strict", entry(dpid, part))
        elif command == "delete":
            for part in policy(modified=True):
                api.post("/stats/flowentry/delete_strict", entry(dpid, part))
        flows = listing(api, dpid)
        print("switch %016x: %d flows" % (dpid, len(flows)))
        for flow in sorted(flows, key=lambda flow: json.dumps(flow["match"], sort_keys=True)):
            match = ",".join("%s=%s" % pair for pair in sorted(flow["match"].items())) or "any"
            print("  %s -> %s (%d packets)" % (match, ",".join(flow["actions"]) or "drop", flow["packet_count"]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except urllib.error.HTTPError as error:
        sys.exit("%s: %s %s" % (error.url, error, error.read().decode()))
    except urllib.error.URLError as error:
        sys.exit("cannot reach the controller: %s" % error.reason)
