//! The bench against responders in the same process. What is asserted are counts, never times.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::time::Duration;

use sluice_bench::{
    Buffering, Error, Load, Plan, ReplyCounting, Report, RequestCounts, flood, null, run,
};
use sluice_openflow::{ErrorReason, MessageType, PortNo, Version, Versions};
use support::{controller, frame, plan, rule, rule_for, whole_frame};

/// Runs `plan`; what must hold of every run does.
fn measured(plan: &Plan) -> Report {
    let report = run(plan, &mut ()).unwrap();
    let RequestCounts { sent, answered, late, never_answered, .. } = report.counts;
    assert_eq!(sent, answered + late + never_answered, "{:?}", report.counts);
    assert_eq!(report.loops.len(), plan.loops as usize);
    let in_loops: u64 = report.loops.iter().flat_map(|figures| &figures.answered).sum();
    assert!(in_loops <= answered);
    let recorded: u64 = report.loops.iter().map(|figures| figures.latency_ns.len()).sum();
    if plan.count == ReplyCounting::Answers {
        assert_eq!(recorded, in_loops, "every answer in a loop has a latency");
    }
    report
}

/// Nothing went wrong, and something went right.
fn clean(report: &Report) {
    let RequestCounts { sent, answered, .. } = report.counts;
    assert!(answered > 0);
    let announced = u64::from(report.plan.hosts * report.plan.switches);
    let announcements = report.counts.announcements;
    assert!(announcements <= announced, "only stragglers: {announcements}");
    assert_eq!(
        report.counts,
        RequestCounts { sent, answered, announcements, ..RequestCounts::default() }
    );
    assert_eq!(report.errors.total(), 0);
    assert!(report.switches.iter().all(|s| s.ended.is_none() && s.handshake.is_some()));
}

#[test]
fn null_answers_every_request_once_under_every_load() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(1), Load::Window(300), Load::WindowTotal(6), Load::Rate(20_000.0)] {
        for version in Versions::SPOKEN.iter() {
            let report = measured(&Plan { load, version, ..plan(null.addr()) });
            clean(&report);
            assert!((0.9..1.000_001).contains(&report.fairness), "{}", report.fairness);
        }
    }
    clean(&measured(&Plan { load: Load::Unlimited, ..plan(null.addr()) }));
    null.stop().unwrap();
}

#[test]
fn threads_share_the_switches() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(4), Load::WindowTotal(3), Load::Rate(10_000.0)] {
        let report = measured(&Plan { threads: 3, switches: 7, load, ..plan(null.addr()) });
        clean(&report);
        assert_eq!((report.threads.len(), report.switches.len()), (3, 7));
        let ids: Vec<_> = report.switches.iter().map(|switch| switch.datapath_id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    }
    null.stop().unwrap();
}

#[test]
fn a_responder_that_copies_nothing_can_be_counted_by_messages() {
    let null = support::null(null::ReplyContent::Nothing);
    let report = measured(&Plan { count: ReplyCounting::Messages, ..plan(null.addr()) });
    assert!(report.counts.answered > 0);
    let report = measured(&plan(null.addr()));
    assert_eq!(report.counts.answered, 0);
    assert_eq!(report.counts.untied, report.counts.sent, "1.0: the match of null is empty");
    null.stop().unwrap();
}

#[test]
fn a_rule_and_a_frame_are_one_answer() {
    for version in Versions::SPOKEN.iter() {
        for kept in [Buffering::Buffered, Buffering::Unbuffered] {
            let addr = controller(|_, p, out| {
                rule_for(p, None, out);
                frame(p, PortNo(1), out);
            });
            let report = measured(&Plan { version, kept, ..plan(addr) });
            assert_eq!(report.counts.paired, report.counts.answered);
            let paired = report.counts.paired;
            clean(&Report { counts: RequestCounts { paired: 0, ..report.counts }, ..report });
            assert!(paired > 0);
        }
    }
}

#[test]
fn a_frame_after_a_rule_that_let_it_go_is_a_second_answer() {
    let addr = controller(|_, p, out| {
        rule(p, out);
        whole_frame(p, out);
    });
    let report = measured(&plan(addr));
    assert_eq!(report.counts.twice, report.counts.answered);
    assert_eq!((report.counts.paired, report.counts.unasked), (0, 0));
}

#[test]
fn frames_alone_are_answers_without_buffers() {
    for version in Versions::SPOKEN.iter() {
        let addr = controller(|_, p, out| frame(p, PortNo(1), out));
        let plan = Plan { version, kept: Buffering::Unbuffered, new_sources: 0.3, ..plan(addr) };
        clean(&measured(&plan));
    }
}

#[test]
fn what_is_not_answered_is_given_up() {
    let addr = controller(|n, p, out| {
        if n % 10 != 9 {
            rule(p, out);
        }
    });
    let (load, timeout) = (Load::Window(8), Duration::from_millis(150));
    let report = measured(&Plan { load, timeout, loops: 6, ..plan(addr) });
    assert!(report.counts.never_answered > 0);
    assert!(report.counts.answered > report.counts.never_answered);
    assert_eq!((report.counts.twice, report.counts.unasked), (0, 0));
}

#[test]
fn what_nobody_asked_for_is_counted_apart() {
    let addr = controller(|_, p, out| {
        rule(p, out);
        rule_for(p, p.buffer_id.map(|id| id + 1_000_000), out);
        out.error_with(7, ErrorReason::BAD_TYPE, &[1, 99, 0, 8, 0, 0, 0, 7]).unwrap();
    });
    let report = measured(&plan(addr));
    assert_eq!(report.counts.unasked, report.counts.answered);
    assert!(report.errors.total() >= report.counts.answered);
    assert_eq!(report.errors.kinds.len(), 1);
}

#[test]
fn a_place_where_nobody_listens_is_named() {
    let addr = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let error = run(&plan(addr), &mut ()).unwrap_err();
    assert!(matches!(error, Error::ConnectFailed(..)), "{error}");
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}

#[test]
fn a_peer_that_is_no_controller_is_named() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let plan = Plan { handshake_timeout: Duration::from_millis(50), ..plan(target) };
    let error = run(&plan, &mut ()).unwrap_err();
    assert!(error.to_string().contains("4 were connected"), "{error}");
}

#[test]
fn silence_is_worth_a_warning() {
    let addr = controller(|_, _, _| {});
    let report = measured(&Plan { version: Version::V1_3, load: Load::Window(1), ..plan(addr) });
    assert_eq!(report.counts.answered, 0);
    assert!(report.warnings.iter().any(|said| said.contains("nothing was answered")));
}

#[test]
fn a_flood_is_counted_connection_by_connection() {
    let null = support::null(null::ReplyContent::BufferId);
    let plan = flood::Plan {
        target: null.addr(),
        rate: 500.0,
        time: Duration::from_millis(200),
        hold: None,
        held_max: 20,
        say: flood::Payload::Hello,
        seed: 1,
        socket: sluice_io::sock::Options::default(),
    };
    let hello = flood::run(&plan).unwrap();
    assert!(hello.begun >= 50 && hello.held <= 20, "{hello:?}");
    assert_eq!(
        hello.begun,
        hello.let_go + hello.held + hello.closed + hello.refused + hello.failed
    );
    assert!(hello.heard > 0, "null greets whoever greets it");
    let rubbish =
        flood::run(&flood::Plan { say: flood::Payload::Rubbish, ..plan.clone() }).unwrap();
    assert_eq!(rubbish.begun, rubbish.let_go + rubbish.held + rubbish.closed + rubbish.failed);
    null.stop().unwrap();
    let refused = flood::run(&plan).unwrap();
    assert_eq!((refused.accepted, refused.refused), (0, refused.begun));
}

#[test]
fn a_switch_that_hangs_up_is_told_and_the_rest_goes_on() {
    let addr = controller(|n, p, out| {
        if n == 50 && p.frame[8] == 1 {
            // Too short: the first switch cannot make anything of it.
            out.raw(MessageType::SET_CONFIG, 1, &[]).unwrap();
        }
        rule(p, out);
    });
    let report = measured(&Plan { load: Load::WindowTotal(8), ..plan(addr) });
    let ended: Vec<_> = report.switches.iter().filter_map(|switch| switch.ended.clone()).collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].contains("malformed"), "{ended:?}");
    assert!(report.switches[3].counts.answered > report.switches[0].counts.answered);
    assert!(report.warnings.iter().any(|said| said.contains("1 of 4 switches")));
}

#[test]
fn a_controller_that_asks_and_takes_no_answers_is_hung_up_on() {
    let addr = controller(|n, p, out| {
        rule(p, out);
        // More than the system holds for the two of them.
        for _ in 0..if n == 9 { 600 } else { 0 } {
            out.raw(MessageType::ECHO_REQUEST, 9, &vec![0; 65_000]).unwrap();
        }
    });
    let report = measured(&Plan { loops: 20, ..plan(addr) });
    for switch in &report.switches {
        let why = switch.ended.as_deref();
        assert_eq!(why, Some("the controller asks, and takes no answers"));
    }
}
