//! The load generator against simulated controllers with known faults, in simulated time: what it reports is compared with what
//! they did.

mod controller;
mod virtual_io;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::Duration;

use controller::{Behaviour, SimulatedController};
use virtual_io::VirtualIo;

use crate::coordination::{SharedState, ThreadEvent};
use crate::generator::Generator;
use crate::generator_thread::GeneratorThread;
use crate::report::{Report, ThreadResults};
use crate::requests::Buffering;
use crate::{Arrivals, Load, Plan, Quantile};

const SEED: u64 = 7;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Four switches, and four loops of a second, of which three are measured.
fn plan(load: Load) -> Plan {
    Plan {
        targets: vec![([192, 0, 2, 1], 6653).into()],
        switches: 4,
        hosts: 100,
        load,
        loops: 4,
        ..Plan::default()
    }
}

fn measure(plan: &Plan, behaviour: Behaviour) -> Report {
    measure_with_pause(plan, behaviour, None)
}

/// The process of the generator is stopped at the first time, for the second.
fn measure_with_pause(
    plan: &Plan,
    behaviour: Behaviour,
    pause: Option<(Duration, Duration)>,
) -> Report {
    plan.check().unwrap();
    let plan = Arc::new(plan.clone());
    let shared = Arc::new(SharedState::new(1));
    let controller = SimulatedController::new(behaviour, SEED);
    let io = VirtualIo::new(SEED, controller, Arc::clone(&shared), pause);
    let (sender, events) = channel();
    Generator::new(&plan, 0, io, &shared, sender).unwrap().run();
    let (mut loops, mut totals) = (vec![], vec![]);
    for event in events {
        match event {
            ThreadEvent::Ready => {}
            ThreadEvent::LoopFinished(result) => loops.push(result),
            ThreadEvent::Finished(result) => totals.push(result),
            ThreadEvent::Failed(error) => panic!("{error}"),
        }
    }
    let report = Report::new(&plan, ThreadResults { loops, totals });
    assert_complete(&report);
    report
}

/// Every request is accounted for: in the counts of the run, and in the latencies of the loops.
fn assert_complete(report: &Report) {
    let counts = report.counts;
    assert_eq!(counts.sent, counts.answered + counts.late + counts.never_answered, "{counts:?}");
    let latencies = report.loops.iter().map(|figures| figures.latency.len());
    assert_eq!(latencies.sum::<u64>(), counts.sent + counts.not_sent.total(), "{counts:?}");
}

fn has_warning(report: &Report, text: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(text))
}

#[track_caller]
fn assert_near(actual: f64, expected: f64, tolerance: f64) {
    let ratio = actual / expected;
    assert!((ratio - 1.0).abs() <= tolerance, "{actual} instead of {expected}");
}

/// The latency at quantile `q` in seconds.
fn latency_s(report: &Report, q: f64) -> f64 {
    match report.latency.quantile(q) {
        Quantile::Exactly(ns) => Duration::from_nanos(ns).as_secs_f64(),
        Quantile::AtLeast(_) => f64::INFINITY,
    }
}

/// 10 000 requests per second.
fn busy() -> Behaviour {
    Behaviour { service_time: Duration::from_micros(100), ..Behaviour::default() }
}

#[test]
fn a_controller_without_faults_is_measured_as_it_is() {
    for load in [Load::Window(100), Load::WindowTotal(50), Load::Unlimited] {
        let report = measure(&plan(load), busy());
        assert_near(report.rate.mean, 10_000.0, 0.01);
        assert_eq!(report.counts.duplicate, 0);
        // Full sockets hold more than is answered in the drain.
        let is_cut_short = has_warning(&report, "still outstanding when the run ended");
        assert_eq!(is_cut_short, report.counts.never_answered > 0, "{:?}", report.warnings);
        assert_eq!(is_cut_short, load == Load::Unlimited);
    }
    // The queue of a closed loop: 400 requests of 100 µs each.
    let report = measure(&plan(Load::Window(100)), busy());
    assert_near(latency_s(&report, 0.5), 0.04, 0.02);
}

#[test]
fn a_controller_that_drops_answers_is_slower_by_as_many() {
    for one_in in [1000, 100] {
        for buffering in [Buffering::Buffered, Buffering::Unbuffered] {
            let plan = Plan { buffering, ..plan(Load::Window(100)) };
            let all = measure(&plan, busy());
            let some = measure(&plan, Behaviour { drop_one_in: Some(one_in), ..busy() });
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let share = 1.0 - 1.0 / one_in as f64;
            assert_near(some.rate.mean / all.rate.mean, share, 0.005);
            assert!(some.counts.never_answered.abs_diff(some.counts.sent / one_in) <= 4);
            assert!(has_warning(&some, "were never answered"), "{:?}", some.warnings);
            assert_eq!(some.latency.max(), Quantile::AtLeast(some.latency.unanswered_min_ns));
            assert!(some.latency.unanswered_min_ns >= 5_000_000_000);
            let is_lost = |q: f64| matches!(some.latency.quantile(q), Quantile::AtLeast(_));
            assert!(!is_lost(share - 0.001) && is_lost(share + 0.0005), "one in {one_in}");
        }
    }
}

#[test]
fn an_answer_to_the_wrong_request_leaves_one_unanswered_and_is_a_duplicate_of_another() {
    let behaviour = Behaviour { wrong_one_in: Some(100), ..busy() };
    let report = measure(&plan(Load::Window(100)), behaviour);
    let counts = report.counts;
    assert!(counts.never_answered.abs_diff(counts.sent / 100) <= 4, "{counts:?}");
    assert_near(report.rate.mean, 9_900.0, 0.01);
    // The wrong answer arrives just after or before that request's own.
    assert!(counts.duplicate + counts.unsolicited >= counts.never_answered, "{counts:?}");
}

#[test]
fn further_answers_are_duplicates_and_count_for_nothing() {
    let once = measure(&plan(Load::Window(20)), busy());
    let thrice = measure(&plan(Load::Window(20)), Behaviour { duplicates: 2, ..busy() });
    assert_eq!(thrice.counts.duplicate, 2 * thrice.counts.answered);
    assert_near(thrice.rate.mean, once.rate.mean, 0.01);
    assert!(has_warning(&thrice, "answered before"), "{:?}", thrice.warnings);
}

#[test]
fn percentiles_of_planted_delays_are_right_within_two_percent() {
    // 1 to 10 ms, and one in fifty takes 100 to 300 ms.
    let mut delays: Vec<_> = (0..9800).map(|n| Duration::from_nanos(1_000_000 + n * 918)).collect();
    delays.extend((0..200).map(|n| ms(100 + n)));
    let at = |percent: usize| delays[percent * 100].as_secs_f64();
    let behaviour = Behaviour { delays: delays.clone(), ..Behaviour::default() };
    let loads = [
        (Load::Rate(10_000.0), Arrivals::Fixed),
        (Load::Rate(10_000.0), Arrivals::Poisson),
        (Load::Rate(10_000.0), Arrivals::Burst(20)),
        (Load::Window(50), Arrivals::Fixed),
    ];
    for (load, arrivals) in loads {
        let plan = Plan { arrivals, loops: 6, hosts: 4000, ..plan(load) };
        let report = measure(&plan, behaviour.clone());
        for (q, percent) in [(0.25, 25), (0.5, 50), (0.75, 75), (0.9, 90)] {
            assert_near(latency_s(&report, q), at(percent), 0.02);
        }
        // There the distribution is flat, so that few requests make a difference.
        assert_near(latency_s(&report, 0.99), at(99), 0.05);
        assert_eq!(report.counts.never_answered, 0);
    }
}

#[test]
fn answers_during_the_drain_are_in_the_percentiles() {
    let behaviour = Behaviour { delays: vec![ms(700)], ..Behaviour::default() };
    let report = measure(&plan(Load::Rate(1000.0)), behaviour);
    assert_eq!((report.counts.sent, report.counts.answered), (4000, 4000));
    assert_eq!(report.latency.len(), 3000);
    for q in [0.0, 0.5, 1.0] {
        assert_near(latency_s(&report, q), 0.7, 0.01);
    }
    let answered: u64 = report.loops.iter().flat_map(|figures| &figures.answered).sum();
    assert!(answered.abs_diff(3300) <= 2, "{answered} came in the loops");
}

#[test]
fn a_stall_shows_in_an_open_loop_and_a_closed_loop_says_that_it_cannot_show_it() {
    let stall = Some((Duration::from_secs(10), Duration::from_secs(1)));
    let long = |load| Plan { loops: 21, ..plan(load) };
    let open = measure(&long(Load::Rate(1000.0)), Behaviour { stall, ..Behaviour::default() });
    // A tenth of the requests is due during a stall, and waits for half a second on average.
    assert!(latency_s(&open, 0.5) < 0.001);
    assert_near(latency_s(&open, 0.95), 0.5, 0.1);
    assert_near(latency_s(&open, 0.99), 0.9, 0.1);
    assert!(!has_warning(&open, "a closed loop"), "{:?}", open.warnings);
    let closed = measure(&long(Load::Window(1)), Behaviour { stall, ..busy() });
    assert!(latency_s(&closed, 0.99) < 0.001, "{:?}", closed.latency.quantile(0.99));
    assert!(has_warning(&closed, "a closed loop sends nothing"), "{:?}", closed.warnings);
    let steady = measure(&plan(Load::Window(1)), busy());
    assert!(!has_warning(&steady, "a closed loop"), "{:?}", steady.warnings);
}

/// Its tables grow, or it collects garbage, while it learns.
#[test]
fn a_controller_that_stalls_while_it_learns_is_measured_when_it_has_learned() {
    let behaviour = Behaviour {
        announcement_time: Duration::from_micros(50),
        stall: Some((Duration::from_secs(1), ms(600))),
        ..busy()
    };
    let plan = Plan { hosts: 20_000, ..plan(Load::Window(1)) };
    let report = measure(&plan, behaviour.clone());
    assert!(report.switches.iter().all(|s| s.hosts_announced == plan.hosts));
    assert_eq!(report.counts.never_answered, 0, "{:?}", report.counts);
    // No request waits for announcements.
    assert_near(latency_s(&report, 0.5), 0.0004, 0.1);
    // 80 000 hosts take 10 s, and with the stalls 25 s, of which 20.8 s are permitted.
    let slow = Behaviour { announcement_time: Duration::from_micros(125), ..behaviour };
    let report = measure(&plan, slow);
    assert!(report.switches.iter().all(|s| s.hosts_announced < plan.hosts));
    assert!(has_warning(&report, "hosts per switch in time"), "{:?}", report.warnings);
}

/// Probes are no answers to the announcements that it drops.
#[test]
fn a_controller_that_probes_links_and_drops_announcements_is_not_waited_for() {
    let probe_interval = Some(ms(100));
    let behaviour = Behaviour {
        announcement_time: Duration::from_micros(50),
        drop_one_in: Some(2),
        probe_interval,
        ..busy()
    };
    let probes = Arc::clone(&behaviour.probes);
    let report = measure(&Plan { hosts: 4000, ..plan(Load::Rate(1000.0)) }, behaviour);
    assert!(report.switches.iter().all(|s| s.hosts_announced == 4000));
    assert!(!has_warning(&report, "still processed announcements"), "{:?}", report.warnings);
    // Four loops of a second, the time for the last answers, and three quiet seconds.
    let seconds = probes.load(Relaxed) / 10;
    assert!(seconds < 20, "{seconds} s");
}

/// After two stalls of more than a second all announcements are sent, of which it processes 400 per second.
#[test]
fn a_controller_that_still_learns_when_the_measurement_begins_causes_a_warning() {
    let stall = Some((ms(2000), ms(1200)));
    let behaviour = Behaviour { announcement_time: ms(1), stall, ..busy() };
    let report = measure(&Plan { hosts: 20_000, ..plan(Load::Window(1)) }, behaviour.clone());
    assert!(has_warning(&report, "still processed announcements"), "{:?}", report.warnings);
    let report = measure(&plan(Load::Window(1)), behaviour);
    assert!(!has_warning(&report, "still processed announcements"), "{:?}", report.warnings);
}

#[test]
fn a_controller_that_reads_slowly_is_told_apart_from_a_slow_generator() {
    // 200 requests of 82 bytes are due on each connection in 20 ms, of which it reads a quarter.
    let behaviour = Behaviour { read_slowly: Some(50 * 82), ..Behaviour::default() };
    let plan = Plan { timeout: ms(500), loops: 8, ..plan(Load::Rate(40_000.0)) };
    let report = measure(&plan, behaviour);
    let not_sent = report.counts.not_sent;
    assert!(not_sent.socket_full > 0, "{not_sent:?}");
    assert_eq!((not_sent.generator_late, not_sent.disconnected), (0, 0), "{not_sent:?}");
    assert_near(report.offered.offered, 40_000.0, 0.001);
    assert_near(report.offered.sent + report.offered.not_sent, 40_000.0, 0.001);
    assert_near(report.rate.mean, 10_000.0, 0.03);
    assert!(report.schedule_lag.unwrap().held_back > 0);
    assert!(report.schedule_lag.unwrap().p99_ns < 1_000_000);
    assert!(has_warning(&report, "the controller did not read"), "{:?}", report.warnings);
    assert!(!has_warning(&report, "the generator"), "{:?}", report.warnings);
}

#[test]
fn a_controller_that_reads_but_does_not_answer_in_time_fills_the_window() {
    let plan = Plan { switches: 1, ..plan(Load::Rate(60_000.0)) };
    let report = measure(&plan, busy());
    let not_sent = report.counts.not_sent;
    assert!(not_sent.window_full > 0, "{not_sent:?}");
    assert_eq!((not_sent.socket_full, not_sent.generator_late), (0, 0), "{not_sent:?}");
    assert_near(report.rate.mean, 10_000.0, 0.01);
    assert!(has_warning(&report, "did not answer earlier ones"), "{:?}", report.warnings);
    // Those that were not sent were not answered within the timeout, either.
    assert_eq!(report.latency.max(), Quantile::AtLeast(5_000_000_000));
    assert!(report.schedule_lag.unwrap().held_back > 0);
}

#[test]
fn a_generator_that_is_late_says_so_and_does_not_accuse_the_controller() {
    let pause = Some((ms(3000), ms(1000)));
    let report = measure_with_pause(&plan(Load::Rate(5000.0)), Behaviour::default(), pause);
    let lag = report.schedule_lag.unwrap();
    assert_eq!((lag.held_back, report.counts.not_sent.total()), (0, 0));
    assert_near(Duration::from_nanos(lag.max_ns).as_secs_f64(), 1.0, 0.01);
    assert!(has_warning(&report, "the generator sent 1 %"), "{:?}", report.warnings);
    assert!(!has_warning(&report, "back-pressure"), "{:?}", report.warnings);
    assert!(report.paused.is_zero());
}

/// Timestamps wrap after 68 s.
#[test]
fn a_process_that_is_stopped_for_longer_than_timestamps_last_measures_no_short_latencies() {
    for stopped_s in [60, 68, 69, 75, 140] {
        for load in [Load::Window(10), Load::Rate(2000.0)] {
            let pause = Some((ms(3000), Duration::from_secs(stopped_s)));
            // Answers take a second, so that some are outstanding.
            let behaviour = Behaviour { delays: vec![ms(1000)], ..Behaviour::default() };
            let plan = Plan { loops: 10, ..plan(load) };
            let report = measure_with_pause(&plan, behaviour, pause);
            assert!(report.paused >= Duration::from_secs(stopped_s - 1), "{:?}", report.paused);
            assert!(has_warning(&report, "was stopped"), "{:?}", report.warnings);
            let all = report.loops.iter().map(|figures| &figures.latency.answered);
            for answered in all.filter(|answered| !answered.is_empty()) {
                assert!(answered.min() > 990_000_000, "{stopped_s} s: {} ns", answered.min());
            }
        }
    }
}

#[test]
fn a_backlog_of_more_than_a_minute_is_no_short_latency() {
    // A request takes 10 ms: 65 536 outstanding ones take eleven minutes.
    let behaviour = Behaviour { service_time: ms(10), ..Behaviour::default() };
    let plan = Plan { switches: 1, loops: 100, ..plan(Load::Unlimited) };
    let report = measure(&plan, behaviour);
    // 100 per second, of which those of the first 50 s are in time: see `IN_RING_MAX`.
    assert!(report.counts.answered.abs_diff(5000) < 100, "{:?}", report.counts);
    // Requests are forgotten after a minute.
    assert!(report.counts.late + report.counts.duplicate > 4500, "{:?}", report.counts);
    let first = report.loops[1].latency.quantile(0.5);
    assert!(matches!(first, Quantile::AtLeast(ns) if ns >= 5_000_000_000), "{first:?}");
    assert!(has_warning(&report, "answered after --timeout"), "{:?}", report.warnings);
}

#[test]
fn a_connection_that_the_controller_closes_costs_its_own_requests_only() {
    for load in [Load::Window(20), Load::WindowTotal(40), Load::Rate(8000.0)] {
        let behaviour = Behaviour { close_first_after: Some(3000), ..busy() };
        let report = measure(&plan(load), behaviour);
        assert!(has_warning(&report, "1 of 4 switches"), "{:?}", report.warnings);
        let [closed, others @ ..] = report.switches.as_slice() else { panic!("no switches") };
        assert!(closed.counts.answered <= 3000 && closed.disconnect_reason.is_some());
        for other in others {
            assert_eq!(other.counts.never_answered, 0, "{:?}", other.counts);
            assert!(other.counts.answered > 3000, "{:?}", other.counts);
        }
        if let Load::Rate(_) = load {
            assert!(report.counts.not_sent.disconnected > 0, "{:?}", report.counts.not_sent);
        }
    }
}
