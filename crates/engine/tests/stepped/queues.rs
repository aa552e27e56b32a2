//! Queues between workers that fill.

use std::time::Instant;

use sluice_io::simulated::{BufferSizes, ClockError};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, FlowMod, MacAddr, Message, PortNo, VlanId};
use sluice_sdk::view::{Fact, Host, HostId, PublishedFact, SwitchPort};
use sluice_sdk::{App, Ctx, Network, Verdict};

use crate::packet_in;
use crate::test_engine::{TestEngine, TestSwitch};

/// Messages that one packet-in causes.
const MESSAGES: u64 = 500;

/// Sends flow-mods with consecutive cookies to switch 2 for each packet-in, and publishes a host for each.
#[derive(Default)]
struct SendingApp {
    sent: u64,
    hosts_seen: Vec<MacAddr>,
}

impl App for SendingApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        for _ in 0..MESSAGES {
            self.sent += 1;
            let deletion = FlowMod { cookie: self.sent, ..FlowMod::delete([]) };
            ctx.send_to(DatapathId(2), Message::FlowMod(deletion));
            let id = HostId { mac: MacAddr::from_u64(self.sent), vlan: VlanId(0) };
            let at = SwitchPort::new(ctx.datapath_id, PortNo(1));
            ctx.publish(Fact::Host(id, Some(Host { at, addrs: vec![] })));
        }
        Verdict::Stop
    }

    fn on_fact(&mut self, published: &PublishedFact, _: Instant, _: &mut Network) {
        if let Fact::Host(id, Some(_)) = &published.fact {
            self.hosts_seen.push(id.mac);
        }
    }
}

fn cookies(switch: &mut TestSwitch, test: &TestEngine<SendingApp>) -> Vec<u64> {
    let messages = switch.receive(&test.kernel).into_iter();
    messages
        .filter_map(|m| if let Message::FlowMod(m) = m { Some(m.cookie) } else { None })
        .collect()
}

/// The worker of the receiver does not run while that of the sender gets packet-ins.
#[test]
fn a_full_queue_slows_the_sender_down_and_loses_neither_messages_nor_facts() {
    const PACKET_INS: u64 = 100;
    let mut test = TestEngine::new(&[ClockError::default(); 2], |_| SendingApp::default());
    let sender = test.connect(1);
    let mut receiver = test.connect(2);
    receiver.receive(&test.kernel);
    // As much as the kernel of a real system takes at once.
    test.kernel.set_buffer_sizes(receiver.peer, BufferSizes { send: 4 << 20, receive: 1 << 16 });
    for n in 1..=PACKET_INS {
        sender.send(&test.kernel, &packet_in());
        test.run(1);
        let sent = test.engine.apps().next().unwrap().sent;
        // The queue is full of messages and facts, and the outbox has those of one iteration.
        assert!(sent <= 4096 + MESSAGES, "{sent} messages after {n} packet-ins");
    }
    assert!(test.kernel.unread_bytes(sender.peer) > 0, "the sender is not read");
    let mut sent_cookies = Vec::new();
    while sent_cookies.len() < usize::try_from(PACKET_INS * MESSAGES).unwrap() {
        let before = sent_cookies.len();
        for _ in 0..20 {
            test.run(2);
            test.run(1);
            sent_cookies.extend(cookies(&mut receiver, &test));
        }
        assert!(sent_cookies.len() > before, "only {before} messages");
    }
    assert!(sent_cookies.iter().copied().eq(1..=PACKET_INS * MESSAGES), "all, and in order");
    let hosts = (1..=PACKET_INS * MESSAGES).map(MacAddr::from_u64);
    assert!(test.engine.apps().nth(1).unwrap().hosts_seen.iter().copied().eq(hosts));
    assert_eq!(test.counter("app_messages_undeliverable"), 0);
    assert_eq!(test.counter("app_messages_dropped"), 0);
}

/// Two workers whose queues are full do not wait for each other.
#[test]
fn full_queues_in_both_directions_drain() {
    let mut test = TestEngine::new(&[ClockError::default(); 2], |_| SendingApp::default());
    let switches = [test.connect(1), test.connect(2)];
    for _ in 0..50 {
        for switch in &switches {
            switch.send(&test.kernel, &packet_in());
        }
        test.run(1);
    }
    test.run_all();
    for _ in 0..200 {
        test.run_all();
    }
    assert_eq!(switches.map(|switch| test.kernel.unread_bytes(switch.peer)), [0, 0]);
    assert_eq!(test.engine.apps().map(|app| app.sent).sum::<u64>(), 100 * MESSAGES);
}
