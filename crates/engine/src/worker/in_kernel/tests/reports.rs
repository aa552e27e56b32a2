//! What the applications know of the answers of the program.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::close_reason::CloseReason;
use crate::worker::in_kernel::reports::REPORTS_PER_ITERATION;

#[test]
fn a_limited_number_of_reports_is_handled_in_one_iteration() {
    let mut test = Test::with_paths();
    test.answer(REPORTS_PER_ITERATION + 100);
    let mut handle = || {
        test.worker.state.update_from_kernel();
        let state = &test.worker.state;
        let has_work = state.switches.in_kernel.as_ref().is_some_and(InKernel::has_work);
        (state.app.answered.len(), has_work)
    };
    assert_eq!(handle(), (REPORTS_PER_ITERATION, true));
    assert_eq!(handle(), (REPORTS_PER_ITERATION + 100, false));
    assert_eq!(handle(), (REPORTS_PER_ITERATION + 100, false));
}

#[test]
fn before_a_message_of_a_switch_the_applications_know_all_answers_to_it() {
    let mut test = Test::with_paths();
    for count in [3, 6] {
        test.answer(3);
        assert_eq!(test.worker.app().answered.len(), count - 3);
        test.worker.state.stop_kernel(test.id);
        assert!(!test.is_open(test.id));
        let answered = &test.worker.app().answered;
        assert_eq!(answered.len(), count);
        let hosts = [1, 2].map(MacAddr::from_u64);
        assert!(answered.iter().all(|it| it.switch == SwitchIndex(0) && [it.src, it.dst] == hosts));
        assert!(answered.is_sorted_by_key(|it| it.at));
        let at = test.worker.state.now;
        assert!(test.reopens(at));
    }
}

/// Recorded later, an answer would hold up a pair of hosts for longer than the new configuration says.
#[test]
fn before_a_new_configuration_the_applications_know_all_answers() {
    let mut test = Test::with_paths();
    test.answer(3);
    let known = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&known);
    let change = Arc::new(move |app: &mut Publisher| seen.store(app.answered.len(), Relaxed));
    let cfg = test.worker.state.cfg.clone();
    test.to_worker.send(ToWorker::Configure(cfg, change));
    test.worker.process_messages();
    assert_eq!(known.load(Relaxed), 3);
}

/// Its slot, and its index, are those of another switch afterwards.
#[test]
fn when_a_switch_disconnects_or_moves_its_reports_are_handled_before() {
    let mut test = Test::with_paths();
    test.answer(2);
    let id = test.id;
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    state.disconnect(io, id, CloseReason::Shutdown);
    assert_eq!(state.app.answered.len(), 2);

    let mut test = Test::with_paths();
    test.answer(2);
    let state = &mut test.worker.state;
    let switch = state.switches.remove(test.id).unwrap();
    let released = state.release_from_kernel(&switch).unwrap();
    assert_eq!(state.app.answered.len(), 2);
    assert!(!released.session.is_open());
}
