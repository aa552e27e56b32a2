//! Facts that applications publish to those of other workers.

use std::time::Instant;

use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, Ethernet, Version, VlanId};
use sluice_sdk::view::{Fact, Host, HostId, PublishedFact, SwitchPort};
use sluice_sdk::{App, Ctx, Network, Notification, Verdict};

use crate::test_engine::{TestEngine, wait_until};
use crate::test_peer::{TestPeer, broadcast, echo_reply, echo_request};

/// Publishes the source of each packet-in as a host, and sends the fact to both switches when it receives it.
struct HostPublisher;

impl App for HostPublisher {
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let mac = Ethernet::new(p.frame).unwrap().src;
        let host = Host { at: SwitchPort::new(ctx.datapath_id, p.in_port), addrs: vec![] };
        let id = HostId { mac, vlan: VlanId(0) };
        ctx.publish(Fact::Host(id, Some(host.clone())));
        assert_eq!(ctx.view().host(id), Some(&host), "applied at once to the own view");
        assert!(!ctx.publish(Fact::Host(id, Some(host))), "unchanged");
        Verdict::Stop
    }

    fn on_fact(&mut self, published: &PublishedFact, _: Instant, network: &mut Network) {
        // The engine publishes that the switches have connected.
        let Fact::Host(id, Some(host)) = &published.fact else {
            return assert!(published.fact.event::<Notification>().is_some(), "{published:?}");
        };
        assert_eq!(network.view().host(*id), Some(host));
        let text = format!("{} is at {}", id.mac, host.at);
        for switch in 1..=2 {
            network.send_to(DatapathId(switch), echo_request(text.as_bytes()));
        }
    }
}

#[test]
fn every_worker_receives_a_fact_once() {
    for threads in [1, 2] {
        let test = TestEngine::with_app(|cfg| cfg.workers.threads = threads, || HostPublisher);
        let mut first = TestPeer::connect_switch(test.addr, Version::V1_3, 1);
        wait_until("the first switch", || test.metric("switches_connected", "") == 1);
        let mut second = TestPeer::connect_switch(test.addr, Version::V1_3, 2);
        wait_until("the second switch", || test.metric("switches_connected", "") == 2);
        first.send(&broadcast(None));
        for peer in [&mut first, &mut second] {
            for _ in 0..threads {
                let Some(sluice_openflow::Message::EchoRequest { data }) = peer.receive() else {
                    panic!("no echo request")
                };
                let received = String::from_utf8(data).unwrap();
                assert_eq!(received, "02:00:00:00:00:01 is at 0000000000000001 port 1");
            }
        }
        // The same fact again is not delivered.
        first.send(&broadcast(None));
        for _ in 0..2 {
            first.send(&echo_request(b"done?"));
            assert_eq!(first.receive(), Some(echo_reply(b"done?")));
        }
    }
}
