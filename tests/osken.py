"""Checks messages of a controller with os-ken: one message in hex per line of standard input.

os-ken is a controller library. It can parse messages that switches send, and FLOW_MOD, HELLO, ERROR and ECHO:
such a message is parsed by os-ken and encoded again. For messages of other types this script reads the fields and
os-ken encodes them. In both cases the bytes must be the same as those of Sluice.

Prints the message types, one per line. Exits with 1 and prints a line for each message that differs.
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


ENCODERS = {
    "FEATURES_REQUEST": lambda switch, _: switch.ofproto_parser.OFPFeaturesRequest(switch),
    "BARRIER_REQUEST": lambda switch, _: switch.ofproto_parser.OFPBarrierRequest(switch),
    "SET_CONFIG": set_config,
    "PACKET_OUT": packet_out,
    "ROLE_REQUEST": role_request,
    "MULTIPART_REQUEST": multipart_request,
    "STATS_REQUEST": stats_request,
}


def type_name(of, message_type):
    names = (n for n in vars(of) if n.startswith("OFPT_") and getattr(of, n) == message_type)
    return next(names, f"OFPT_{message_type}").removeprefix("OFPT_")


def encode_again(payload):
    """Returns the type of a message, and its bytes as encoded by os-ken or None if os-ken cannot decode it."""
    version, message_type, length, xid = ofproto_parser.header(payload)
    switch = ofproto_protocol.ProtocolDesc(version)
    name = type_name(switch.ofproto, message_type)
    if name in ENCODERS:
        message = ENCODERS[name](switch, payload)
        message.set_xid(xid)
    else:
        message = ofproto_parser.msg(switch, version, message_type, length, xid, payload)
        if message is None:
            return name, None
        if name == "HELLO":
            # os-ken parses the elements but does not encode them.
            return name, payload
    message.serialize()
    return name, bytes(message.buf)


def main():
    logging.basicConfig()
    types, all_match = set(), True
    for line in sys.stdin:
        payload = bytes.fromhex(line)
        name, encoded = encode_again(payload)
        types.add(name)
        if encoded != payload:
            all_match = False
            other = encoded.hex() if encoded is not None else "cannot decode it"
            print(f"{name}: Sluice sends {payload.hex()}, os-ken: {other}", file=sys.stderr)
    print(*sorted(types), sep="\n")
    sys.exit(0 if all_match else 1)


main()
