//! When gates are closed, and when they are opened again.

use sluice_kernel::RelayQueue;
use sluice_sdk::{CaptureFilter, CaptureSender};

use super::*;
use crate::backpressure::SLOW_TIME;
use crate::worker::in_kernel::cache::WHOLE_TABLE;
use crate::worker::in_kernel::crowding::{AHEAD_MAX, INTERVAL};
use crate::worker::in_kernel::gates::{HOSTS_PER_ITERATION, PAUSE_PER_HOST, PUBLICATIONS_AT_ONCE};
use crate::worker::in_kernel::pauses::PAUSE_MIN;

#[test]
fn after_the_publication_of_many_hosts_the_next_one_has_to_wait() {
    let mut test = Test::new();
    let mut at = test.worker.state.now;
    for few in [0, PUBLICATIONS_AT_ONCE] {
        test.worker.app_mut().more = few;
        assert!(test.reopens(at) && test.reopens(at), "at once after {few} hosts");
    }
    test.worker.app_mut().more = PUBLICATIONS_AT_ONCE + 1;
    for _ in 0..3 {
        assert!(test.reopens(at), "these hosts are published");
        let pause = PAUSE_PER_HOST * (PUBLICATIONS_AT_ONCE + 1);
        assert!(!test.reopens(at) && !test.reopens(just_before(at + pause)));
        at += pause;
    }
    test.worker.app_mut().more = 0;
    assert!(test.reopens(at) && test.reopens(at), "nothing was published the last time");
}

/// To withdraw the hosts of a switch, the whole table is read.
#[test]
fn after_all_hosts_were_withdrawn_the_next_publication_has_to_wait() {
    let mut test = Test::new();
    let at = test.worker.state.now;
    test.worker.app_mut().withdraws = true;
    assert!(test.reopens(at));
    assert_eq!(test.of_kernel().session.host_count(), 0);
    let pause = PAUSE_PER_HOST * WHOLE_TABLE;
    assert!(!test.reopens(at) && !test.reopens(just_before(at + pause)));
    assert!(test.reopens(at + pause) && test.reopens(at + pause), "there was nothing to withdraw");
}

/// With this limit, each answer is late.
#[test]
fn the_worker_answers_for_a_while_when_the_kernel_was_late() {
    let mut test = Test::with_late(Some(Duration::ZERO));
    let at = test.worker.state.now;
    let pauses = |test: &Test| test.worker.state.counters().kernel_pauses.get();
    test.answer_late();
    assert!(test.reopens(at), "one late answer is no reason");
    test.answer_late();
    assert!(!test.reopens(at));
    assert_eq!(pauses(&test), 1);
    let second = Duration::from_secs(1);
    assert!(!test.reopens(just_before(at + second)));
    assert!(test.reopens(at + second));
    assert_eq!(pauses(&test), 1);
}

/// The relay of a worker passes on the answers to all its switches, one after the other.
#[test]
fn the_worker_answers_all_switches_for_a_while_when_too_many_answers_wait_for_each_other() {
    let mut test = Test::new();
    let (other, _switch) = test.add_switch();
    let (at, ids) = (test.worker.state.now, [test.id, other]);
    let pauses = |test: &Test| test.worker.state.counters().kernel_pauses.get();
    let mut queue = RelayQueue { relayed: INTERVAL, ahead: INTERVAL * AHEAD_MAX };
    test.worker.state.check_crowding(queue);
    assert_eq!(ids.map(|id| test.is_open(id)), [true, true]);
    queue.relayed += INTERVAL;
    queue.ahead += INTERVAL * AHEAD_MAX + 1;
    test.worker.state.check_crowding(queue);
    assert_eq!(pauses(&test), 1);
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    state.now = state.next_tick_at;
    state.run_timers(io);
    state.open_gates(io);
    assert_eq!(ids.map(|id| test.is_open(id)), [false, false]);
    for now in [at, just_before(at + PAUSE_MIN)] {
        assert!(!test.reopens(now));
        assert!(!test.is_open(other));
    }
    assert!(test.worker.state.switches.get_mut(other).is_some());
    assert!(test.reopens(at + PAUSE_MIN) && test.is_open(other));
    assert_eq!(pauses(&test), 1);
}

/// How long answers wait depends on the processor that receives packet-ins, whatever worker the switch has.
#[test]
fn a_switch_that_moves_is_left_to_the_worker_for_as_long_as_before() {
    let mut test = Test::with_late(Some(Duration::ZERO));
    let at = test.worker.state.now;
    (0..2).for_each(|_| test.answer_late());
    assert!(!test.reopens(at));
    test.wait_until_sent();
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    let released = state.switches.in_kernel.as_mut().unwrap().release(SwitchIndex(0));
    state.begin_kernel_session(io, test.id, released);
    let end = at + Duration::from_secs(1);
    assert!(!test.reopens(just_before(end)));
    assert!(test.reopens(end));
}

#[test]
fn a_switch_that_was_slow_is_answered_by_the_kernel_again_a_minute_after_its_backlog() {
    let mut test = Test::new();
    let (at, limits) = (test.worker.state.now, test.worker.state.backlog_limits());
    let drained = at + Duration::from_millis(100);
    let switch = test.worker.state.switches.get_mut(test.id).unwrap();
    for (now, backlog) in [(at, 1), (drained, 1), (drained, 0)] {
        let _ = switch.buffers.backpressure.update(now, 0, backlog, limits);
    }
    assert!(!test.reopens(just_before(drained + SLOW_TIME)));
    assert!(test.reopens(drained + SLOW_TIME));
}

#[test]
fn a_switch_is_included_when_the_applications_begin_to_publish() {
    let mut test = Test::connect(None, Publisher { is_silent: true, ..Publisher::default() });
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    state.attach_to_kernel(io, test.id);
    assert!(state.kernel_switch(test.id).is_none());
    test.worker.app_mut().is_silent = false;
    test.run_until_open(test.id);
}

#[test]
fn a_change_closes_the_gate_of_its_switch_and_no_other() {
    let mut test = Test::new();
    let (other, _switch) = test.add_switch();
    let ids = [test.id, other];
    let are_open = |test: &mut Test| ids.map(|id| test.is_open(id));
    let hosts = test.worker.state.network.fast_path_hosts();
    for n in [0, 1] {
        hosts.add_switch(SwitchIndex(n), DatapathId((n + 1).into()));
        hosts.take_changes(SwitchIndex(n));
    }
    test.worker.state.close_outdated_gates();
    assert_eq!(are_open(&mut test), [true, true], "nothing has changed");
    test.worker.state.network.fast_path_hosts().mark_changed(DatapathId(2));
    test.worker.state.close_outdated_gates();
    assert_eq!(are_open(&mut test), [true, false]);
    let at = test.worker.state.now;
    assert!(test.reopens(at));
    assert_eq!(are_open(&mut test), [true, true]);
}

/// Without hosts, nothing is answered.
#[test]
fn a_switch_without_hosts_is_left_alone_until_it_has_some() {
    let mut test = Test::new();
    test.worker.app_mut().withdraws = true;
    let at = test.worker.state.now;
    assert!(test.reopens(at));
    let (id, switch) = (DatapathId(1), SwitchIndex(0));
    let hosts = test.worker.state.network.fast_path_hosts();
    hosts.add_switch(switch, id);
    hosts.take_changes(switch);
    hosts.mark_changed(id);
    test.worker.state.close_outdated_gates();
    assert!(test.is_open(test.id));
    let host = HostId { mac: MacAddr::from_u64(1), vlan: VlanId(0) };
    test.worker.state.network.fast_path_hosts().remove(id, host);
    test.worker.state.close_outdated_gates();
    assert!(!test.is_open(test.id));
}

#[test]
fn if_much_is_published_the_gates_are_opened_over_several_iterations() {
    let mut test = Test::new();
    let (other, _switch) = test.add_switch();
    test.worker.app_mut().more = HOSTS_PER_ITERATION;
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    state.close_all_gates();
    state.open_gates(io);
    let has_work = |state: &WorkerState<Epoll, Publisher>| {
        state.switches.in_kernel.as_ref().is_some_and(InKernel::has_work)
    };
    assert!(has_work(state) && state.deadline() <= state.now, "at once");
    assert_eq!([test.id, other].map(|id| test.is_open(id)), [true, false]);
    let (io, state) = (&mut test.worker.io, &mut test.worker.state);
    state.open_gates(io);
    assert!(!has_work(state));
    assert_eq!([test.id, other].map(|id| test.is_open(id)), [true, true]);
}

#[test]
fn captures_get_every_packet_in_from_the_moment_they_begin() {
    let mut test = Test::new();
    let at = test.worker.state.now;
    let (sender, capture) = CaptureSender::new(CaptureFilter::default(), Box::new(|| ()));
    test.worker.state.begin_capture(sender);
    assert!(!test.is_open(test.id));
    assert!(!test.reopens(at));
    drop(capture);
    test.worker.state.check_captures();
    assert!(test.reopens(at));
}
