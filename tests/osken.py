"""Checks messages of a controller with os-ken: one message in hex per line of standard input.

os-ken is a controller library. It has parsers for what switches send, and FLOW_MOD, HELLO, ERROR and
ECHO are among that: such a message is parsed and encoded again. For the other types it gets the values
and encodes the message. Either way its bytes must equal ours.

Prints the message types, one per line; exits with 1 and a line per message that differs.
"""

import logging
import struct
import sys

from os_ken.ofproto import ofproto_parser, ofproto_protocol

NO_BUFFER = 0xFFFFFFFF


def actions_of(parser, payload):
    actions, at = [], 0
    while at < len(payload):
        actions.append(parser.OFPAction.parser(payload, at))
        at += actions[-1].len
    return actions


def packet_out(switch, payload):
    layout = "!IIH6x" if switch.ofproto.OFP_VERSION > 1 else "!IHH"
    buffer_id, in_port, actions_len = struct.unpack_from(layout, payload, 8)
    start = 8 + struct.calcsize(layout)
    frame = payload[start + actions_len :]
    actions = actions_of(switch.ofproto_parser, payload[start : start + actions_len])
    data = frame if buffer_id == NO_BUFFER else None
    return switch.ofproto_parser.OFPPacketOut(switch, buffer_id, in_port, actions, data)


def set_config(switch, payload):
    return switch.ofproto_parser.OFPSetConfig(switch, *struct.unpack_from("!HH", payload, 8))


def role_request(switch, payload):
    return switch.ofproto_parser.OFPRoleRequest(switch, *struct.unpack_from("!I4xQ", payload, 8))


def multipart_request(switch, payload):
    parser, of = switch.ofproto_parser, switch.ofproto
    kind, flags = struct.unpack_from("!HH", payload, 8)
    if kind == of.OFPMP_PORT_DESC:
        return parser.OFPPortDescStatsRequest(switch, flags)
    if kind == of.OFPMP_DESC:
        return parser.OFPDescStatsRequest(switch, flags)
    requests = {of.OFPMP_FLOW: parser.OFPFlowStatsRequest, of.OFPMP_AGGREGATE: parser.OFPAggregateStatsRequest}
    if kind in requests:
        table_id, port, group, cookie, mask = struct.unpack_from("!B3xII4xQQ", payload, 16)
        match = parser.OFPMatch.parser(payload, 48)
        return requests[kind](switch, flags, table_id, port, group, cookie, mask, match)
    raise NotImplementedError(f"multipart type {kind}")


def stats_request(switch, payload):
    parser, of = switch.ofproto_parser, switch.ofproto
    kind, flags = struct.unpack_from("!HH", payload, 8)
    requests = {of.OFPST_FLOW: parser.OFPFlowStatsRequest, of.OFPST_AGGREGATE: parser.OFPAggregateStatsRequest}
    if kind in requests:
        match = parser.OFPMatch.parse(payload, 12)
        table_id, port = struct.unpack_from("!BxH", payload, 12 + of.OFP_MATCH_SIZE)
        return requests[kind](switch, flags, match, table_id, port)
    if kind == of.OFPST_DESC:
        return parser.OFPDescStatsRequest(switch, flags)
    raise NotImplementedError(f"statistics type {kind}")


WRITERS = {
    "FEATURES_REQUEST": lambda switch, _: switch.ofproto_parser.OFPFeaturesRequest(switch),
    "BARRIER_REQUEST": lambda switch, _: switch.ofproto_parser.OFPBarrierRequest(switch),
    "SET_CONFIG": set_config,
    "PACKET_OUT": packet_out,
    "ROLE_REQUEST": role_request,
    "MULTIPART_REQUEST": multipart_request,
    "STATS_REQUEST": stats_request,
}


def kind_name(of, kind):
    names = (n for n in vars(of) if n.startswith("OFPT_") and getattr(of, n) == kind)
    return next(names, f"OFPT_{kind}").removeprefix("OFPT_")


def encode_again(payload):
    """The type of a message and its bytes as os-ken encodes them; None if it cannot decode it."""
    version, kind, length, xid = ofproto_parser.header(payload)
    switch = ofproto_protocol.ProtocolDesc(version)
    name = kind_name(switch.ofproto, kind)
    if name in WRITERS:
        message = WRITERS[name](switch, payload)
        message.set_xid(xid)
    else:
        message = ofproto_parser.msg(switch, version, kind, length, xid, payload)
        if message is None:
            return name, None
        if name == "HELLO":
            # os-ken parses the elements and never encodes any.
            return name, payload
    message.serialize()
    return name, bytes(message.buf)


def main():
    logging.basicConfig()
    kinds, good = set(), True
    for line in sys.stdin:
        payload = bytes.fromhex(line)
        name, theirs = encode_again(payload)
        kinds.add(name)
        if theirs != payload:
            good = False
            reading = theirs.hex() if theirs is not None else "it cannot decode it"
            print(f"{name}: we send {payload.hex()}, os-ken {reading}", file=sys.stderr)
    print(*sorted(kinds), sep="\n")
    sys.exit(0 if good else 1)


main()
