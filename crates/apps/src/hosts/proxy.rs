//! Answers ARP requests and neighbor solicitations on behalf of known hosts.

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, Ethernet, PacketOutRef, PortNo};
use sluice_sdk::view::SwitchPort;
use sluice_sdk::{Ctx, Verdict};

use super::address_info::AddressInfo;
use super::frames::{self, FrameHeader};
use super::{Hosts, discard, is_reachable};

impl Hosts {
    /// Answers a broadcast or multicast request for a known host at another port; passes on everything else.
    pub(super) fn answer_request(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        info: AddressInfo,
        ctx: &mut Ctx<'_>,
    ) -> Verdict {
        let AddressInfo::Request { sender: Some(sender), target } = info else {
            return Verdict::Continue;
        };
        if !self.cfg.arp_proxy || sender == target || !eth.dst.is_group() {
            return Verdict::Continue;
        }
        let at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let owner = ctx.view().host_by_addr(target, eth.vlan);
        let Some((id, host)) = owner.filter(|(_, host)| host.at != at) else {
            return Verdict::Continue;
        };
        if !is_reachable(ctx.view(), host.at) {
            return Verdict::Continue;
        }
        let tag = if eth.tagged { p.frame.get(12..16).unwrap_or_default() } else { &[] };
        let header = FrameHeader { src: id.mac, dst: eth.src, tag };
        let Some(frame) = frames::encode_reply(header, target, sender) else {
            return Verdict::Continue;
        };
        let actions = [Action::output(p.in_port)];
        let in_port = PortNo::CONTROLLER;
        let reply = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &frame };
        // Cannot fail: the switch named the port in its own version.
        let _ = ctx.switch.packet_out(&reply);
        self.counters.answered.count();
        discard(p, ctx)
    }
}
