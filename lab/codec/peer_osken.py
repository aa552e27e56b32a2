"""Measures os-ken: DIR VERSION MESSAGE OPERATION COUNT; prints nanoseconds per message."""

import pathlib
import sys
import time

from os_ken.ofproto import ofproto_parser, ofproto_protocol
# Importing these modules registers the parsers of each version.
from os_ken.ofproto import ofproto_v1_0_parser, ofproto_v1_3_parser, ofproto_v1_5_parser  # noqa: F401

folder, version, kind, operation, count = sys.argv[1:]
data = (pathlib.Path(folder) / f"{version}_{kind}.bin").read_bytes()
dp = ofproto_protocol.ProtocolDesc(version=data[0])
head = ofproto_parser.header(data)


def read():
    return ofproto_parser.msg(dp, *head, data)


def write():
    # os-ken caches the encoded message; clear the cache.
    message.buf = None
    message.serialize()


def packet_out():
    """Built from fields, since os-ken cannot parse messages to switches."""
    ofp, parser = dp.ofproto, dp.ofproto_parser
    fields = {"buffer_id": ofp.OFP_NO_BUFFER, "actions": [parser.OFPActionOutput(2, 0xFFFF)], "data": data[-64:]}
    fields |= {"match": parser.OFPMatch(in_port=3)} if version == "1.5" else {"in_port": 3}
    packet_out = parser.OFPPacketOut(dp, **fields)
    packet_out.set_xid(1)
    return packet_out


message = packet_out() if kind == "packet_out" else read()
if operation == "write":
    message.serialize()
    if bytes(message.buf) != data:
        sys.exit(f"{len(message.buf)} bytes were encoded, which differ from the {len(data)} bytes parsed")
run = {"read": read, "write": write}.get(operation)
if run is None:
    sys.exit(2)
start = time.perf_counter_ns()
for _ in range(int(count)):
    run()
print(f"{(time.perf_counter_ns() - start) / int(count):.2f}")
