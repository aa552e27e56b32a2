//! The load generator against controllers in the same process. Counts are asserted, never times.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use sluice_bench::{
    Buffering, ConnectAttempts, Error, Load, Plan, ReplyCounting, Report, RequestCounts,
    RunObserver, RunProgress, flood, null, run,
};
use sluice_openflow::{ErrorReason, FlowMod, MessageType, PortNo, Version, Versions};
use support::{
    base_entry, controller, controller_with_pause, flow_mod, flow_mod_for, packet_out, plan,
    unbuffered_packet_out,
};

/// Runs `plan`, and asserts what must hold for every run.
fn measure(plan: &Plan) -> Report {
    let report = run(plan, &mut ()).unwrap();
    let RequestCounts { sent, answered, late, never_answered, .. } = report.counts;
    assert_eq!(sent, answered + late + never_answered, "{:?}", report.counts);
    assert_eq!(report.loops.len(), plan.loops as usize);
    let in_loops: u64 = report.loops.iter().flat_map(|figures| &figures.answered).sum();
    assert!(in_loops <= answered);
    let latencies = report.loops.iter().map(|figures| &figures.latency);
    let (with, without) = latencies
        .fold((0, 0), |(with, without), it| (with + it.answered.len(), without + it.unanswered));
    if plan.counting == ReplyCounting::Answers {
        assert_eq!(with, answered, "every answer has a latency");
        let not_sent = report.counts.not_sent.total();
        assert_eq!(without, late + never_answered + not_sent, "{:?}", report.counts);
    }
    report
}

/// Asserts that requests were answered and nothing failed.
fn assert_clean(report: &Report) {
    let RequestCounts { sent, answered, .. } = report.counts;
    assert!(answered > 0);
    let announced = u64::from(report.plan.hosts * report.plan.switches);
    let broadcasts = report.counts.broadcasts;
    assert!(broadcasts <= announced, "only late floods of announcements: {broadcasts}");
    let expected = RequestCounts { sent, answered, broadcasts, ..RequestCounts::default() };
    assert_eq!(report.counts, expected);
    assert_eq!(report.errors.total(), 0);
    assert!(report.switches.iter().all(|s| s.disconnect_reason.is_none() && s.handshake.is_some()));
}

/// Starts a null responder at an address as soon as switches try to connect.
struct Starting(std::net::SocketAddr, Option<null::NullResponder>);

impl RunObserver for Starting {
    fn on_progress(&mut self, progress: RunProgress) {
        if progress == (RunProgress::Connecting { ready_switches: 0 }) && self.1.is_none() {
            self.1 = Some(null::NullResponder::start(&null::Config::new(self.0)).unwrap());
        }
    }
}

#[test]
fn switches_connect_to_a_controller_that_is_starting() {
    let unused = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let connect_attempts = ConnectAttempts::UntilTimeout;
    let plan = Plan { connect_attempts, switches: 100, threads: 2, ..plan(unused) };
    let mut controller = Starting(unused, None);
    let report = run(&plan, &mut controller).unwrap();
    assert_clean(&report);
    assert_eq!(report.switches.len(), 100);
    controller.1.unwrap().stop().unwrap();
    let once = Plan { connect_attempts: ConnectAttempts::One, ..plan };
    assert!(matches!(run(&once, &mut ()), Err(Error::ConnectFailed(addr, _)) if addr == unused));
}

#[test]
fn the_null_responder_answers_every_request_once_under_every_load() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(1), Load::Window(300), Load::WindowTotal(6), Load::Rate(20_000.0)] {
        for version in Versions::SUPPORTED.iter() {
            let report = measure(&Plan { load, version, ..plan(null.addr()) });
            assert_clean(&report);
            assert!((0.9..1.000_001).contains(&report.fairness), "{}", report.fairness);
        }
    }
    assert_clean(&measure(&Plan { load: Load::Unlimited, ..plan(null.addr()) }));
    null.stop().unwrap();
}

/// The generator looks for requests that timed out ten times a second.
#[test]
fn a_request_does_not_time_out_just_after_it_was_sent() {
    let null = support::null(null::ReplyContent::BufferId);
    let loop_time = Duration::from_secs(2);
    let plan = Plan {
        load: Load::Window(1),
        switches: 1,
        threads: 1,
        warmup: 0,
        loops: 1,
        loop_time,
        ..plan(null.addr())
    };
    let report = measure(&plan);
    assert_clean(&report);
    let warning = report.warnings.iter().find(|line| line.contains("Little"));
    assert_eq!(warning, None);
    null.stop().unwrap();
}

#[test]
fn threads_share_the_switches() {
    let null = support::null(null::ReplyContent::BufferId);
    for load in [Load::Window(4), Load::WindowTotal(3), Load::Rate(10_000.0)] {
        let report = measure(&Plan { threads: 3, switches: 7, load, ..plan(null.addr()) });
        assert_clean(&report);
        assert_eq!((report.threads.len(), report.switches.len()), (3, 7));
        let ids: Vec<_> = report.switches.iter().map(|switch| switch.datapath_id.0).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7]);
    }
    null.stop().unwrap();
}

#[test]
fn replies_without_a_buffer_id_can_be_counted_as_messages() {
    let null = support::null(null::ReplyContent::Constant);
    let counting = ReplyCounting::Messages;
    let report = measure(&Plan { counting, ..plan(null.addr()) });
    assert!(report.counts.answered > 0);
    let report = measure(&plan(null.addr()));
    assert_eq!(report.counts.answered, 0);
    assert_eq!(
        report.counts.unmatched, report.counts.sent,
        "in 1.0, the match of the null responder is empty"
    );
    null.stop().unwrap();
}

#[test]
fn the_null_responder_answers_packets_that_are_not_buffered() {
    let null = support::null(null::ReplyContent::Packet);
    for version in Versions::SUPPORTED.iter() {
        for load in [Load::Window(16), Load::Unlimited] {
            let buffering = Buffering::Unbuffered;
            let report = measure(&Plan { version, buffering, load, ..plan(null.addr()) });
            let RequestCounts { answered, two_part, .. } = report.counts;
            assert!(answered > 0 && two_part == answered, "{version}: {:?}", report.counts);
            let counts = RequestCounts { two_part: 0, ..report.counts };
            assert_clean(&Report { counts, ..report });
        }
    }
    null.stop().unwrap();
}

#[test]
fn a_flow_entry_and_a_packet_out_are_one_answer() {
    for version in Versions::SUPPORTED.iter() {
        for buffering in [Buffering::Buffered, Buffering::Unbuffered] {
            let addr = controller(|_, p, out| {
                flow_mod_for(p, None, out);
                packet_out(p, PortNo(1), out);
            });
            let report = measure(&Plan { version, buffering, ..plan(addr) });
            assert_eq!(report.counts.two_part, report.counts.answered);
            let two_part = report.counts.two_part;
            let counts = RequestCounts { two_part: 0, ..report.counts };
            assert_clean(&Report { counts, ..report });
            assert!(two_part > 0);
        }
    }
}

#[test]
fn the_packet_out_of_the_last_answer_is_waited_for() {
    let addr = controller_with_pause(Duration::from_millis(1), |_, p, out| {
        flow_mod_for(p, None, out);
        packet_out(p, PortNo(1), out);
    });
    let load = Load::Window(1);
    let report = measure(&Plan { buffering: Buffering::Unbuffered, load, ..plan(addr) });
    let RequestCounts { answered, two_part, .. } = report.counts;
    assert!(answered > 0 && two_part == answered, "{:?}", report.counts);
}

#[test]
fn a_packet_out_after_a_flow_mod_that_released_the_packet_is_a_duplicate() {
    let addr = controller(|_, p, out| {
        flow_mod(p, out);
        unbuffered_packet_out(p, out);
    });
    let report = measure(&plan(addr));
    assert_eq!(report.counts.duplicate, report.counts.answered);
    assert_eq!((report.counts.two_part, report.counts.unsolicited), (0, 0));
}

#[test]
fn packet_outs_alone_are_answers_without_buffers() {
    let buffering = Buffering::Unbuffered;
    for version in Versions::SUPPORTED.iter() {
        let addr = controller(|_, p, out| packet_out(p, PortNo(1), out));
        assert_clean(&measure(&Plan { version, buffering, new_sources: 0.3, ..plan(addr) }));
    }
}

#[test]
fn requests_without_a_reply_time_out() {
    let addr = controller(|n, p, out| {
        if n % 10 != 9 {
            flow_mod(p, out);
        }
    });
    let (load, timeout) = (Load::Window(8), Duration::from_millis(150));
    let report = measure(&Plan { load, timeout, loops: 6, ..plan(addr) });
    assert!(report.counts.never_answered > 0);
    assert!(report.counts.answered > report.counts.never_answered);
    assert_eq!((report.counts.duplicate, report.counts.unsolicited), (0, 0));
}

/// Without it, a switch would stop at the latest when twice its window has been sent since.
#[test]
fn one_lost_answer_in_a_hundred_does_not_stall_a_switch() {
    let addr = controller(|n, p, out| {
        if n % 100 != 99 {
            packet_out(p, PortNo(1), out);
        }
    });
    for buffering in [Buffering::Buffered, Buffering::Unbuffered] {
        for load in [Load::Window(100), Load::WindowTotal(400)] {
            let report = measure(&Plan { buffering, load, ..plan(addr) });
            assert_one_in_a_hundred_unanswered(&report);
            assert_eq!((report.counts.late, report.counts.duplicate), (0, 0));
        }
    }
}

#[test]
fn an_answer_with_the_id_of_another_request_in_a_hundred_does_not_stall_a_switch() {
    let addr = controller(|n, p, out| {
        let wrong_by = u32::from(n % 100 == 99);
        flow_mod_for(p, p.buffer_id.map(|id| id - wrong_by), out);
    });
    let report = measure(&Plan { load: Load::Window(100), ..plan(addr) });
    assert_one_in_a_hundred_unanswered(&report);
    assert_eq!(report.counts.duplicate, report.counts.never_answered);
}

#[track_caller]
fn assert_one_in_a_hundred_unanswered(report: &Report) {
    let RequestCounts { sent, never_answered, .. } = report.counts;
    // The last requests of a switch may include one more.
    let expected = sent / 100;
    let tolerance = u64::from(report.plan.switches);
    assert!(never_answered.abs_diff(expected) <= tolerance, "{:?}", report.counts);
    for switch in &report.switches {
        assert!(switch.counts.sent > 1000, "{:?}", switch.counts);
    }
    let warning = report.warnings.iter().find(|line| line.contains("never answered"));
    assert!(warning.is_some(), "{:?}", report.warnings);
}

#[test]
fn unsolicited_replies_and_errors_are_counted_separately() {
    let addr = controller(|_, p, out| {
        flow_mod(p, out);
        flow_mod_for(p, p.buffer_id.map(|id| id + 1_000_000), out);
        out.error_with(7, ErrorReason::BAD_TYPE, &[1, 99, 0, 8, 0, 0, 0, 7]).unwrap();
    });
    let report = measure(&plan(addr));
    assert_eq!(report.counts.unsolicited, report.counts.answered);
    assert!(report.errors.total() >= report.counts.answered);
    assert_eq!(report.errors.by_reason.len(), 1);
}

#[test]
fn flow_entries_of_the_set_up_answer_no_request_when_they_are_written_again() {
    let addr = controller(|_, p, out| {
        flow_mod(p, out);
        base_entry(out);
        out.flow_mod(&FlowMod { priority: 2, ..FlowMod::default() }).unwrap();
    });
    let RequestCounts { answered, other, unmatched, .. } = measure(&plan(addr)).counts;
    assert!(answered > 0);
    assert_eq!((other, unmatched), (answered, answered));
}

#[test]
fn a_refused_connection_is_an_error_with_the_address_and_what_to_do() {
    let addr = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let error = run(&plan(addr), &mut ()).unwrap_err();
    assert!(matches!(error, Error::ConnectFailed(..)), "{error}");
    let error = error.to_string();
    assert!(error.starts_with(&format!("cannot connect to a controller at {addr}: ")), "{error}");
    assert!(error.contains("`sluice run`") && error.contains("-p"), "{error}");
}

#[test]
fn a_peer_that_is_no_controller_is_an_error() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let plan = Plan { handshake_timeout: Duration::from_millis(50), ..plan(target) };
    let error = run(&plan, &mut ()).unwrap_err();
    assert!(error.to_string().contains("(4 of 4 switches connected)"), "{error}");
}

#[test]
fn a_controller_that_ends_before_the_first_request_is_an_error() {
    // It closes each connection at the first announcement.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || support::serve_until_packet_in(stream));
        }
    });
    let error = run(&plan(target), &mut ()).unwrap_err();
    assert!(matches!(error, Error::Disconnected(_)), "{error}");
}

#[test]
fn a_run_without_replies_has_a_warning() {
    let addr = controller(|_, _, _| {});
    let report = measure(&Plan { version: Version::V1_3, load: Load::Window(1), ..plan(addr) });
    assert_eq!(report.counts.answered, 0);
    let mut warnings = report.warnings.iter();
    assert!(warnings.any(|warning| warning.contains("no request was answered")));
}

#[test]
fn the_throughput_report_says_that_its_latency_is_queueing_delay() {
    let null = support::null(null::ReplyContent::BufferId);
    let loop_time = Duration::from_millis(300);
    let full = Plan { load: Load::Unlimited, warmup: 0, loop_time, ..plan(null.addr()) };
    let report = measure(&full);
    let text = sluice_bench::text_report::of(&report);
    assert!(text.contains("Note: this is the queueing delay of"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let report = measure(&Plan { load: Load::Window(1), ..plan(null.addr()) });
    assert!(!sluice_bench::text_report::of(&report).contains("queueing"));
    null.stop().unwrap();
}

#[test]
fn every_connection_of_a_flood_is_counted_once() {
    let null = support::null(null::ReplyContent::BufferId);
    let plan = flood::Plan {
        target: null.addr(),
        rate: 500.0,
        time: Duration::from_millis(200),
        is_over: Arc::default(),
        hold: None,
        open_max: 20,
        payload: flood::Payload::Hello,
        seed: 1,
        socket: sluice_io::sock::Options::default(),
    };
    let counted = |r: &flood::Report| {
        r.closed_by_us + r.open_at_end + r.closed_by_controller + r.refused + r.failed
    };
    let hello = flood::run(&plan).unwrap();
    assert!(hello.attempted >= 50 && hello.open_at_end <= 20, "{hello:?}");
    assert_eq!(hello.attempted, counted(&hello));
    assert!(hello.bytes_received > 0, "the null responder answers HELLO");
    let random = flood::Plan { payload: flood::Payload::Random, ..plan.clone() };
    let random = flood::run(&random).unwrap();
    assert_eq!(random.attempted, counted(&random));
    assert_eq!(random.refused, 0);
    let leaving = flood::Plan { payload: flood::Payload::Handshake, ..plan.clone() };
    let leaving = flood::run(&leaving).unwrap();
    assert_eq!(leaving.attempted, counted(&leaving));
    assert!(leaving.closed_by_us > 0 && leaving.closed_by_controller == 0, "{leaving:?}");
    null.stop().unwrap();
    let refused = flood::run(&plan).unwrap();
    assert_eq!((refused.established, refused.refused), (0, refused.attempted));
    let endless = flood::Plan { time: Duration::MAX, ..plan };
    let error = flood::run(&endless).unwrap_err();
    assert!(error.to_string().contains("--seconds: expected at most 86400 s"), "{error}");
}

#[test]
fn a_switch_that_disconnects_is_reported_and_the_others_continue() {
    let addr = controller(|n, p, out| {
        if n == 50 && p.frame[8] == 1 {
            // Too short, so the first switch closes its connection.
            out.raw_message(MessageType::SET_CONFIG, 1, &[]).unwrap();
        }
        flow_mod(p, out);
    });
    let report = measure(&Plan { load: Load::WindowTotal(8), ..plan(addr) });
    let switches = report.switches.iter();
    let reasons: Vec<_> = switches.filter_map(|switch| switch.disconnect_reason.clone()).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("malformed"), "{reasons:?}");
    assert!(report.switches[3].counts.answered > report.switches[0].counts.answered);
    assert!(report.warnings.iter().any(|warning| warning.starts_with("1 of 4 switches ")));
}

#[test]
fn a_switch_disconnects_if_the_controller_does_not_read_its_replies() {
    let addr = controller(|n, p, out| {
        flow_mod(p, out);
        // More than the socket buffers of both ends hold.
        for _ in 0..if n == 9 { 600 } else { 0 } {
            out.raw_message(MessageType::ECHO_REQUEST, 9, &vec![0; 65_000]).unwrap();
        }
    });
    let report = measure(&Plan { loops: 20, ..plan(addr) });
    for switch in &report.switches {
        let reason = switch.disconnect_reason.as_deref();
        assert_eq!(reason, Some("the controller does not read replies"));
    }
}
