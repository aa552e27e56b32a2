"""A learning switch for os-ken, which has none: one flow entry for each known destination."""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_0


class Learning(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_0.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, ev):
        msg, dp = ev.msg, ev.msg.datapath
        ofp, parser = dp.ofproto, dp.ofproto_parser
        eth = packet.Packet(msg.data).get_protocol(ethernet.ethernet)
        known = self.ports.setdefault(dp.id, {})
        known[eth.src] = msg.in_port
        out = known.get(eth.dst, ofp.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out)]
        if out == ofp.OFPP_FLOOD:
            dp.send_msg(
                parser.OFPPacketOut(
                    datapath=dp, buffer_id=msg.buffer_id, in_port=msg.in_port, actions=actions, data=None
                )
            )
            return
        match = parser.OFPMatch(in_port=msg.in_port, dl_src=eth.src, dl_dst=eth.dst)
        dp.send_msg(
            parser.OFPFlowMod(
                datapath=dp, match=match, cookie=0, command=ofp.OFPFC_ADD, idle_timeout=60, hard_timeout=0,
                priority=100, buffer_id=msg.buffer_id, actions=actions,
            )
        )
