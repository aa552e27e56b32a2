//! What threads other than workers do: publish records, and get copies of packet-ins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sluice_io::simulated::ClockError;
use sluice_openflow::DatapathId;
use sluice_openflow::view::PacketIn;
use sluice_sdk::view::{AppRecord, PublishedFact, RecordFact};
use sluice_sdk::{App, CaptureFilter, Controller, Ctx, Network, Verdict};

use crate::packet_in;
use crate::test_engine::TestEngine;

/// A record of the operator.
#[derive(Debug, Clone, PartialEq)]
struct Note(u64);

impl AppRecord for Note {
    type Key = u8;
}

/// Records the facts that it receives.
#[derive(Default)]
struct Reader {
    notes: Vec<(u8, Option<u64>)>,
    packets: u32,
}

impl App for Reader {
    fn on_fact(&mut self, published: &PublishedFact, _: std::time::Instant, _: &mut Network) {
        if let Some((key, note)) = published.fact.record::<Note>() {
            self.notes.push((key, note.map(|note| note.0)));
        }
    }

    fn on_packet_in(&mut self, _: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
        self.packets += 1;
        Verdict::Stop
    }
}

fn engine() -> TestEngine<Reader> {
    TestEngine::new(&[ClockError::default(); 3], |_| Reader::default())
}

fn note(key: u8, value: Option<u64>) -> RecordFact {
    RecordFact::new(key, value.map(Note))
}

#[test]
fn records_of_other_threads_reach_the_applications_of_all_workers_in_order() {
    let mut test = engine();
    let handle = test.engine.handle();
    assert!(handle.publish(vec![note(1, Some(5)), note(2, Some(7)), note(1, Some(6))]));
    // Repeats what is known by then.
    assert!(handle.publish(vec![note(2, Some(7)), note(2, None)]));
    test.run_all();
    let expected = [(1, Some(5)), (2, Some(7)), (1, Some(6)), (2, None)];
    for (app, network) in test.engine.apps().zip(test.engine.networks()) {
        assert_eq!(app.notes, expected);
        assert_eq!(network.view().record::<Note>(1), Some(&Note(6)));
        assert_eq!(network.view().record::<Note>(2), None);
    }
    // A quarter of a queue is for other threads.
    let taken = (0..100_000).take_while(|&n| handle.publish(vec![note(9, Some(n))])).count();
    assert!((100..5_000).contains(&taken), "{taken}");
    test.run_all();
    let last = taken as u64 - 1;
    assert!(test.engine.networks().all(|it| it.view().record::<Note>(9) == Some(&Note(last))));
    drop(test);
    assert!(!handle.publish(vec![note(1, None)]), "the engine has stopped");
}

#[test]
fn packet_ins_are_copied_for_as_long_as_a_capture_lasts() {
    let mut test = engine();
    let switches = [1, 2, 3].map(|id| test.connect(id));
    let send = |test: &mut TestEngine<Reader>| {
        for switch in &switches {
            switch.send(&test.kernel, &packet_in());
        }
        test.run_all();
    };
    let notified = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&notified);
    let notify = Box::new(move || _ = counter.fetch_add(1, Relaxed));
    send(&mut test);
    let mut all = test.engine.handle().capture(CaptureFilter::default(), notify).unwrap();
    let filter = CaptureFilter { switch: Some(DatapathId(2)), ..CaptureFilter::default() };
    let mut one = test.engine.handle().capture(filter, Box::new(|| {})).unwrap();
    test.run_all();
    assert_eq!(all.try_next(), None, "what came before is not captured");
    send(&mut test);
    send(&mut test);
    let mut captured: Vec<_> =
        std::iter::from_fn(|| all.try_next()).map(|it| it.from.switch.0).collect();
    captured.sort_unstable();
    assert_eq!(captured, [1, 1, 2, 2, 3, 3], "of all workers");
    assert!(notified.load(Relaxed) >= 1);
    assert_eq!(std::iter::from_fn(|| one.try_next()).count(), 2);
    drop((all, one));
    send(&mut test);
    let packets: u32 = test.engine.apps().map(|app| app.packets).sum();
    assert_eq!(packets, 12, "the applications get all of them");
}
