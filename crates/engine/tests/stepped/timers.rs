//! Work that applications have deferred until a time, or have for a switch that did not cause it.

use std::time::{Duration, Instant};

use sluice_io::simulated::ClockError;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, FlowMod, Message};
use sluice_sdk::{App, Ctx, Network, Verdict};

use crate::packet_in;
use crate::test_engine::TestEngine;

/// Much shorter than the interval of ticks.
const DELAY: Duration = Duration::from_millis(20);

/// Sends a flow-mod to switch 1 some time after each packet-in.
#[derive(Default)]
struct DelayingApp {
    due: Option<Instant>,
}

impl App for DelayingApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let due = ctx.now + DELAY;
        self.due = Some(due);
        ctx.network.defer_work_until(due + DELAY);
        ctx.network.defer_work_until(due);
        Verdict::Stop
    }

    fn on_deferred_work(&mut self, now: Instant, network: &mut Network) {
        if self.due.take_if(|due| *due <= now).is_some() {
            network.send_to(DatapathId(1), Message::FlowMod(FlowMod::delete([])));
        }
    }
}

#[test]
fn deferred_work_is_done_at_its_time() {
    let mut test = TestEngine::new(&[ClockError::default()], |_| DelayingApp::default());
    let mut switch = test.connect(1);
    let flow_mods = |messages: Vec<Message>| {
        messages.iter().filter(|message| matches!(message, Message::FlowMod(_))).count()
    };
    for _ in 0..5 {
        test.run_all();
        switch.send(&test.kernel, &packet_in());
        test.run_all();
        test.pass(DELAY / 2);
        test.run_all();
        assert_eq!(flow_mods(switch.receive(&test.kernel)), 0);
        test.pass(DELAY / 2);
        test.run_all();
        assert_eq!(flow_mods(switch.receive(&test.kernel)), 1);
    }
}

/// Sends a flow-mod to switch 2 for each burst of packet-ins from switch 1.
struct OtherSwitchApp;

impl App for OtherSwitchApp {
    fn on_packet_in(&mut self, _: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        ctx.network.schedule_switch_work(DatapathId(2));
        ctx.network.schedule_switch_work(DatapathId(3));
        Verdict::Stop
    }

    fn on_switch_work(&mut self, ctx: &mut Ctx<'_>) {
        assert_eq!(ctx.datapath_id, DatapathId(2), "the others are not connected");
        ctx.switch.flow_mod(&FlowMod::delete([])).unwrap();
    }
}

#[test]
fn work_for_another_switch_is_done_in_the_same_iteration_and_once() {
    let mut test = TestEngine::new(&[ClockError::default()], |_| OtherSwitchApp);
    let [mut first, mut second] = [1, 2].map(|n| test.connect(n));
    test.run_all();
    second.receive(&test.kernel);
    for _ in 0..3 {
        first.send(&test.kernel, &packet_in());
    }
    test.run_all();
    let sent = second.receive(&test.kernel);
    let flow_mods = sent.iter().filter(|message| matches!(message, Message::FlowMod(_)));
    assert_eq!(flow_mods.count(), 1);
    assert!(first.receive(&test.kernel).is_empty());
}
