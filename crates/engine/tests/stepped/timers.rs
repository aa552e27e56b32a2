//! Work that applications have deferred until a time.

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
