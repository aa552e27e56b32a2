"""os-ken as a subject: DIR VERSION KIND DEED COUNT; prints nanoseconds each."""

import pathlib
import sys
import time

from os_ken.ofproto import ofproto_parser, ofproto_protocol
# The parsers put themselves into the table of the one above when they are loaded.
from os_ken.ofproto import ofproto_v1_0_parser, ofproto_v1_3_parser, ofproto_v1_5_parser  # noqa: F401

folder, version, kind, deed, count = sys.argv[1:]
data = (pathlib.Path(folder) / f"{version}_{kind}.bin").read_bytes()
dp = ofproto_protocol.ProtocolDesc(version=data[0])
head = ofproto_parser.header(data)


def read():
    return ofproto_parser.msg(dp, *head, data)


def write():
    # What it has written it keeps; without this it would do nothing the second time.
    message.buf = None
    message.serialize()


def packet_out():
    """os-ken does not read what switches read."""
    ofp, parser = dp.ofproto, dp.ofproto_parser
    told = {"buffer_id": ofp.OFP_NO_BUFFER, "actions": [parser.OFPActionOutput(2, 0xFFFF)], "data": data[-64:]}
    told |= {"match": parser.OFPMatch(in_port=3)} if version == "1.5" else {"in_port": 3}
    made = parser.OFPPacketOut(dp, **told)
    made.set_xid(1)
    return made


message = packet_out() if kind == "packet_out" else read()
if deed == "write":
    message.serialize()
    if bytes(message.buf) != data:
        sys.exit(f"{len(message.buf)} bytes were written where {len(data)} were read, or others")
once = {"read": read, "write": write}.get(deed)
if once is None:
    sys.exit(2)
start = time.perf_counter_ns()
for _ in range(int(count)):
    once()
print(f"{(time.perf_counter_ns() - start) / int(count):.2f}")
