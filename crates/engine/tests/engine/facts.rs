//! What applications tell one another about the network.

use std::time::Instant;

use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, Ethernet, Version, VlanId};
use sluice_sdk::view::{Fact, Host, HostId, PublishedFact, SwitchPort};
use sluice_sdk::{App, Ctx, Network, Verdict};

use crate::lab::{Lab, wait_until};
use crate::peer::{Peer, broadcast, echo_reply, echo_request};

/// Tells where a frame came from, and writes to both switches what it hears of that.
struct Witness;

impl App for Witness {
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let mac = Ethernet::new(p.frame).unwrap().src;
        let host = Host { at: SwitchPort::new(ctx.datapath_id, p.in_port), addrs: vec![] };
        let id = HostId { mac, vlan: VlanId(0) };
        ctx.publish(Fact::Host(id, Some(host.clone())));
        assert_eq!(ctx.view().host(id), Some(&host), "known here at once");
        assert!(!ctx.publish(Fact::Host(id, Some(host))), "known already");
        Verdict::Stop
    }

    fn on_fact(&mut self, told: &PublishedFact, _: Instant, network: &mut Network) {
        let Fact::Host(id, Some(host)) = &told.fact else { panic!("{told:?}") };
        assert_eq!(network.view().host(*id), Some(host));
        let words = format!("{} is at {}", id.mac, host.at);
        for switch in 1..=2 {
            network.send_to(DatapathId(switch), echo_request(words.as_bytes()));
        }
    }
}

#[test]
fn a_fact_is_heard_once_by_every_worker() {
    for threads in [1, 2] {
        let lab = Lab::with(|cfg| cfg.workers.threads = threads, || Witness);
        let mut first = Peer::switch(lab.addr, Version::V1_3, 1);
        wait_until("the first", || lab.count("switches_connected", "") == 1);
        let mut second = Peer::switch(lab.addr, Version::V1_3, 2);
        wait_until("the second", || lab.count("switches_connected", "") == 2);
        first.say(&broadcast(None));
        for peer in [&mut first, &mut second] {
            for _ in 0..threads {
                let Some(sluice_openflow::Message::EchoRequest { data }) = peer.hear() else {
                    panic!("no word")
                };
                let words = String::from_utf8(data).unwrap();
                assert_eq!(words, "02:00:00:00:00:01 is at 0000000000000001 port 1");
            }
        }
        // Told again, it is no news.
        first.say(&broadcast(None));
        for _ in 0..2 {
            first.say(&echo_request(b"done?"));
            assert_eq!(first.hear(), Some(echo_reply(b"done?")));
        }
    }
}
