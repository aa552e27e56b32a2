//! Switches that connect again to another worker.

use std::time::Duration;

use sluice_engine::simulation::IterationPart;
use sluice_io::simulated::ClockError;
use sluice_openflow::{DatapathId, SwitchFeatures};
use sluice_sdk::view::{Fact, SwitchInfo};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use crate::test_engine::{ACCEPTOR, TestEngine};

/// Publishes the switches that are connected.
#[derive(Default)]
struct SwitchPublisher(Vec<(SwitchIndex, DatapathId)>);

impl App for SwitchPublisher {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.0.push((ctx.switch_index, ctx.datapath_id));
        ctx.publish(Fact::Switch(ctx.datapath_id, Some(SwitchInfo::default())));
    }

    fn on_switch_disconnected(
        &mut self,
        sw: SwitchIndex,
        now: std::time::Instant,
        network: &mut Network,
    ) {
        let at = self.0.iter().position(|&(index, _)| index == sw).unwrap();
        network.publish(now, Fact::Switch(self.0.remove(at).1, None));
    }
}

/// Three workers, of which the clock of the first is ahead.
fn engine_with_first_clock_ahead() -> TestEngine<SwitchPublisher> {
    let ahead = ClockError { offset: Duration::from_millis(20), drift_ppm: 0 };
    let clocks = [ahead, ClockError::default(), ClockError::default()];
    TestEngine::new(&clocks, |_| SwitchPublisher::default())
}

/// Runs an iteration of the first worker that is preempted before it sends anything to other threads.
fn run_others_before_the_first_worker_sends(test: &mut TestEngine<SwitchPublisher>) {
    test.engine.run_part(1, IterationPart::Events).unwrap();
    test.engine.run_part(1, IterationPart::Messages).unwrap();
    for _ in 0..5 {
        for thread in [ACCEPTOR, 2, 3] {
            test.run(thread);
        }
    }
    test.engine.run_part(1, IterationPart::Delivery).unwrap();
}

/// Checks that each worker has one switch, and that all know switch `id`.
#[track_caller]
fn assert_is_in_all_views(test: &TestEngine<SwitchPublisher>, id: u64) {
    assert_eq!(test.engine.apps().map(|app| app.0.len()).collect::<Vec<_>>(), [1, 1, 1]);
    for (worker, network) in test.engine.networks().enumerate() {
        let is_known = network.view().switch(DatapathId(id)).is_some();
        assert!(is_known, "switch {id} has vanished from the view of worker {worker}");
    }
}

/// The clock of the worker that loses the switch is ahead, so the facts about the loss are later than those of the worker
/// that gets it next, unless that has received them before.
#[test]
fn a_switch_that_reconnects_to_another_worker_stays_in_all_views() {
    let mut test = engine_with_first_clock_ahead();
    let first = test.connect(7);
    // The next connection goes to the second worker, which has the fewest switches.
    let others = [1, 2, 3].map(|id| test.connect(id));
    test.kernel.peer_reset(others[0].peer);
    test.run_all();
    assert_eq!(test.engine.apps().map(|app| app.0.len()).collect::<Vec<_>>(), [2, 0, 1]);
    let mut again = test.start_handshake(7);
    for _ in 0..4 {
        test.run(ACCEPTOR);
        again.answer(&test.kernel);
    }
    test.kernel.peer_reset(first.peer);
    run_others_before_the_first_worker_sends(&mut test);
    test.run_all();
    again.answer(&test.kernel);
    test.run_all();
    assert_is_in_all_views(&test, 7);
}

/// The worker that loses the switch gets another one in the same iteration, and announces that at once.
#[test]
fn the_acceptor_learns_of_a_loss_after_the_facts_even_if_the_worker_gets_another_switch() {
    let mut test = engine_with_first_clock_ahead();
    let first = test.connect(7);
    let others = [1, 2].map(|id| test.connect(id));
    // All workers have one switch. The first one is assigned another, which it does not have yet.
    let mut new = test.start_handshake(8);
    for _ in 0..4 {
        test.run(ACCEPTOR);
        new.answer(&test.kernel);
    }
    test.kernel.peer_reset(others[0].peer);
    test.run(2);
    let mut again = test.start_handshake(7);
    for _ in 0..4 {
        test.run(ACCEPTOR);
        again.answer(&test.kernel);
    }
    test.kernel.peer_reset(first.peer);
    run_others_before_the_first_worker_sends(&mut test);
    test.run_all();
    assert_is_in_all_views(&test, 7);
}
