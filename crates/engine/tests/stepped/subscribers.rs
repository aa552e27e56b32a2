//! What threads other than workers see: the network view, and the sessions of switches.

use std::time::{Duration, Instant};

use sluice_io::simulated::ClockError;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    DatapathId, MacAddr, Message, Port, PortNo, PortReason, PortStatus, SwitchFeatures, VlanId,
};
use sluice_sdk::view::{
    Fact, Host, HostId, NetworkView, SubscriptionEnd, SwitchInfo, SwitchPort, ViewUpdate,
};
use sluice_sdk::{App, Controller, Ctx, Network, SwitchIndex, Verdict};

use crate::packet_in;
use crate::test_engine::TestEngine;

/// Publishes the switches, and another host for each packet-in.
#[derive(Default)]
struct Publisher {
    hosts: u64,
    switches: Vec<(SwitchIndex, DatapathId)>,
}

impl App for Publisher {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.switches.push((ctx.switch_index, ctx.datapath_id));
        ctx.publish(Fact::Switch(ctx.datapath_id, Some(SwitchInfo::default())));
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        let at = self.switches.iter().position(|&(index, _)| index == sw).unwrap();
        network.publish(now, Fact::Switch(self.switches.remove(at).1, None));
    }

    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        self.hosts += 1;
        let mac = MacAddr::from_u64(ctx.datapath_id.0 << 32 | self.hosts);
        let host = Host { at: SwitchPort::new(ctx.datapath_id, PortNo(1)), addrs: vec![] };
        ctx.publish(Fact::Host(HostId { mac, vlan: VlanId(0) }, Some(host)));
        Verdict::Stop
    }
}

fn engine() -> TestEngine<Publisher> {
    TestEngine::new(&[ClockError::default(); 2], |_| Publisher::default())
}

#[test]
fn a_subscriber_follows_the_view_from_when_it_subscribes() {
    let mut test = engine();
    let switches = [1, 2].map(|id| test.connect(id));
    let send = |test: &mut TestEngine<Publisher>| {
        for switch in &switches {
            switch.send(&test.kernel, &packet_in());
        }
        test.run_all();
    };
    send(&mut test);
    let subscription = test.engine.handle().subscribe(Box::new(|| {}));
    send(&mut test);
    send(&mut test);
    let (mut view, mut completed) = (NetworkView::default(), 0);
    let mut receive = |view: &mut NetworkView| {
        while let Some(update) = subscription.try_next() {
            match update {
                ViewUpdate::Facts(facts) => facts.iter().for_each(|fact| _ = view.apply(fact)),
                ViewUpdate::InitialStateComplete => completed += 1,
                ViewUpdate::Ended(why) => return Some(why),
            }
        }
        None
    };
    receive(&mut view);
    assert_eq!((view.switch_count(), view.host_count()), (2, 6));
    test.kernel.peer_reset(switches[1].peer);
    test.run_all();
    receive(&mut view);
    let of_worker = test.engine.networks().last().unwrap().view();
    assert!(view.switches().eq(of_worker.switches()));
    assert_eq!(view.switch_count(), 1);
    let subscriptions: Vec<_> =
        (0..16).map(|_| test.engine.handle().subscribe(Box::new(|| {}))).collect();
    test.run_all();
    let refused = |it: &&sluice_sdk::view::ViewSubscription| {
        std::iter::from_fn(|| it.try_next())
            .any(|update| update == ViewUpdate::Ended(SubscriptionEnd::Refused))
    };
    assert_eq!(subscriptions.iter().filter(refused).count(), 1, "sixteen are allowed");
    drop(test);
    assert_eq!((receive(&mut view), completed), (Some(SubscriptionEnd::Stopped), 1));
}

#[test]
fn sessions_are_listed_with_their_ports_and_keep_their_start_when_the_switch_moves() {
    let mut test = engine();
    let (moving, mut other) = (test.connect(1), test.connect(2));
    let list = |test: &TestEngine<Publisher>| test.engine.handle().switches();
    let before = list(&test);
    let ids = before.iter().map(|it| (it.datapath_id.0, it.worker, it.features.ports.len()));
    assert!(ids.eq([(1, 0, 4), (2, 1, 4)]), "{before:?}");
    test.pass(Duration::from_secs(3));
    test.engine.move_switch(DatapathId(1), 1);
    test.run_all();
    let port = Port { port_no: PortNo(9), ..Port::default() };
    let added = Message::PortStatus(PortStatus { reason: PortReason::ADD, port });
    moving.send(&test.kernel, &added);
    test.run_all();
    test.pass(Duration::from_millis(300));
    test.run_all();
    let after = list(&test);
    let first = after.first().unwrap();
    assert_eq!((first.worker, first.features.ports.len()), (1, 5));
    assert_eq!(first.connected_at, before.first().unwrap().connected_at);
    assert!(first.statistics.messages_received > 0, "{:?}", first.statistics);
    other.answer(&test.kernel);
    test.kernel.peer_reset(moving.peer);
    test.run_all();
    assert!(list(&test).iter().map(|it| it.datapath_id.0).eq([2]));
}
