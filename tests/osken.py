"""What os-ken thinks of the messages of a controller: one line in hex each, on standard input.

os-ken is a controller too. It has parsers for what switches send it, and FLOW_MOD, HELLO, ERROR
and ECHO are among that: such a message is parsed and written again. For the other kinds it is
given the values and writes the message itself. Either way its bytes must be ours.

Prints the kinds it has judged, one per line; ends with 1 and a sentence per message that differs.
"""

import logging
import struct
import sys

from os_ken.ofproto import ofproto_parser, ofproto_protocol

NO_BUFFER = 0xFFFFFFFF


def actions_of(parser, bytes):
    actions, at = [], 0
    while at < len(bytes):
        actions.append(parser.OFPAction.parser(bytes, at))
        at += actions[-1].len
    return actions


def packet_out(switch, bytes):
    layout = "!IIH6x" if switch.ofproto.OFP_VERSION > 1 else "!IHH"
    buffer_id, in_port, actions_len = struct.unpack_from(layout, bytes, 8)
    start = 8 + struct.calcsize(layout)
    frame = bytes[start + actions_len :]
    actions = actions_of(switch.ofproto_parser, bytes[start : start + actions_len])
    data = frame if buffer_id == NO_BUFFER else None
    return switch.ofproto_parser.OFPPacketOut(switch, buffer_id, in_port, actions, data)


def set_config(switch, bytes):
    return switch.ofproto_parser.OFPSetConfig(switch, *struct.unpack_from("!HH", bytes, 8))


def role_request(switch, bytes):
    return switch.ofproto_parser.OFPRoleRequest(switch, *struct.unpack_from("!I4xQ", bytes, 8))


def multipart_request(switch, bytes):
    parser, of = switch.ofproto_parser, switch.ofproto
    kind, flags = struct.unpack_from("!HH", bytes, 8)
    if kind == of.OFPMP_PORT_DESC:
        return parser.OFPPortDescStatsRequest(switch, flags)
    if kind == of.OFPMP_DESC:
        return parser.OFPDescStatsRequest(switch, flags)
    raise NotImplementedError(f"multipart kind {kind}")


WRITERS = {
    "FEATURES_REQUEST": lambda switch, _: switch.ofproto_parser.OFPFeaturesRequest(switch),
    "BARRIER_REQUEST": lambda switch, _: switch.ofproto_parser.OFPBarrierRequest(switch),
    "SET_CONFIG": set_config,
    "PACKET_OUT": packet_out,
    "ROLE_REQUEST": role_request,
    "MULTIPART_REQUEST": multipart_request,
}


def kind_name(of, kind):
    names = (n for n in vars(of) if n.startswith("OFPT_") and getattr(of, n) == kind)
    return next(names, f"OFPT_{kind}").removeprefix("OFPT_")


def judge(bytes):
    """The kind of a message and whether os-ken's bytes are the same."""
    version, kind, length, xid = ofproto_parser.header(bytes)
    switch = ofproto_protocol.ProtocolDesc(version)
    name = kind_name(switch.ofproto, kind)
    if name in WRITERS:
        message = WRITERS[name](switch, bytes)
        message.set_xid(xid)
    else:
        message = ofproto_parser.msg(switch, version, kind, length, xid, bytes)
        if message is None:
            return name, None
        if name == "HELLO":
            # It reads the elements and never writes any.
            return name, bytes
    message.serialize()
    return name, bytes(message.buf)


def main():
    logging.basicConfig()
    kinds, good = set(), True
    for line in sys.stdin:
        bytes = bytes.fromhex(line)
        name, theirs = judge(bytes)
        kinds.add(name)
        if theirs != bytes:
            good = False
            reading = theirs.hex() if theirs is not None else "nothing it can read"
            print(f"{name}: we say {bytes.hex()}, os-ken {reading}", file=sys.stderr)
    print(*sorted(kinds), sep="\n")
    sys.exit(0 if good else 1)


main()
