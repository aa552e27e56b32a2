//! Sections 5.2.1 and 5.2.3: how many sessions a controller holds, and how many flow entries.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use sluice_bench::{Announce, Buffering, Load, Plan, Report, SWITCHES_MAX, SwitchFigures};
use sluice_emu::topology::Topology;
use sluice_io::{clock, limits};

use super::expiry::{self, expired_entries};
use super::frames::FrameEnds;
use super::northbound::NorthboundClient;
use super::path;
use super::path_requests::{PathInstaller, PathOrder};
use super::trial::Trial;
use crate::definition::PathRequestScope;
use crate::measure::Measured;
use crate::network::TestNetwork;
use crate::report::format::counted;

/// File descriptors besides those of the sessions.
const FILES_SPARE: u64 = 256;

/// Time for all sessions to be established.
const SESSIONS_TIMEOUT: Duration = Duration::from_secs(120);

/// Messages per second of all sessions together, so that a session that was dropped or is not served is noticed.
const SESSIONS_LOAD: u32 = 1000;

/// Messages of each session during the trial, at least.
const SESSION_MESSAGES: u32 = 2;

/// Datapath id of the first switch, which no other test uses.
const FIRST_DATAPATH_ID: u64 = 0x8456_0100_0000;

/// Interval at which another pair of addresses begins to exchange frames.
const PAIRS_INTERVAL: Duration = Duration::from_millis(1);

/// Pairs between the first frame of a pair in one direction and that in the other.
const ANSWER_LAG: u32 = 50;

/// Most pairs of addresses.
const PAIRS_MAX: u32 = 50_000;

/// Interval between readings of the number of flow entries.
const READING_INTERVAL: Duration = Duration::from_secs(2);

/// Equal readings after which the table is full.
const EQUAL_READINGS: u32 = 3;

/// Readings are equal if they differ by at most this part: old entries expire while new ones are installed.
const EQUAL_PART: usize = 100;

/// Most flow entries that are requested over the northbound interface.
const REQUESTS_MAX: usize = 50_000;

/// Threads that request flow entries, each over a connection of its own.
const REQUESTERS: usize = 4;

/// Section 5.2.1: control sessions capacity.
pub(super) fn control_sessions(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let wanted = u64::from(SWITCHES_MAX) + FILES_SPARE;
    let files = limits::raise_open_files(wanted).saturating_sub(FILES_SPARE);
    let switches = u32::try_from(files).unwrap_or(u32::MAX).min(SWITCHES_MAX);
    let plan = Plan {
        targets: vec![trial.subject.target],
        switches,
        version: trial.subject.version,
        ports: 2,
        hosts: 2,
        load: Load::Rate(SESSIONS_LOAD.into()),
        buffering: Buffering::Unbuffered,
        announce: Announce::NoHosts,
        dpid_offset: FIRST_DATAPATH_ID,
        handshake_timeout: SESSIONS_TIMEOUT,
        loops: 1,
        warmup: 0,
        loop_time: trial.time().max(Duration::from_secs(
            u64::from(SESSION_MESSAGES * switches).div_ceil(SESSIONS_LOAD.into()),
        )),
        pin: trial.subject.generator_cores.to_vec(),
        ..Plan::default()
    };
    let report = trial.bench(&plan)?;
    let mut measured = session_figures(&report, trial.subject.row.ready.probe)?;
    if switches < SWITCHES_MAX {
        measured.warnings.push(format!(
            "at most {switches} sessions, by the limit of open files: see `ulimit -n`"
        ));
    }
    Ok(measured)
}

/// Counts the sessions. If the controller answers packet-ins at all (`answers`), a session of which none was answered is not one that it holds.
fn session_figures(report: &Report, answers: bool) -> Result<Measured, String> {
    let is_kept = |it: &&SwitchFigures| it.disconnect_reason.is_none();
    let is_served = |it: &&SwitchFigures| !answers || it.counts.answered + it.counts.late > 0;
    let established = || report.switches.iter().filter(|it| it.handshake.is_some());
    let kept = established().filter(is_kept).count();
    let served = established().filter(is_kept).filter(is_served).count();
    let dropped = established().count() - kept;
    let mut measured = Measured::default();
    if served == 0 {
        return Err(format!(
            "no session was served: {kept} were established and not dropped, and none of their packet-ins was answered"
        ));
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of sessions")]
    {
        measured.set("sessions", served as f64);
        measured.set("dropped", dropped as f64);
    }
    if u32::try_from(served) == Ok(report.plan.switches) {
        measured.lower_bounds.push("sessions".to_owned());
    }
    if served < kept {
        measured.warnings.push(counted(
            kept - served,
            "session was established and does not count, since none of its packet-ins was answered",
            "sessions were established and do not count, since none of their packet-ins was answered",
        ));
    }
    if !answers {
        measured.warnings.push(
            "the controller does not answer packet-ins of a single switch: its sessions count without a check that they are served"
                .to_owned(),
        );
    }
    Ok(measured)
}

/// Section 5.2.3: forwarding table capacity.
pub(super) fn forwarding_table(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let client = trial.subject.row.northbound.as_ref().map(|_| trial.northbound()).transpose()?;
    let mut measured = Measured::default();
    reactive_entries(trial, &mut measured)?;
    if let Some(client) = client
        .filter(|client| client.path().is_ok_and(|request| request.per != PathRequestScope::Path))
    {
        // The figure of the other mode is there whatever becomes of this one.
        if let Err(why) = proactive_entries(trial, &client, &mut measured) {
            trial.check_interrupted()?;
            measured.warnings.push(format!("not measured in proactive mode: {why}"));
        }
    } else {
        measured.warnings.push(
            "the controller's file has no [northbound.path] for single flow entries: measured in reactive mode only"
                .to_owned(),
        );
    }
    Ok(measured)
}

/// Exchanges frames between ever more addresses, until the number of flow entries stays the same.
fn reactive_entries(trial: &mut Trial<'_, '_>, measured: &mut Measured) -> Result<(), String> {
    let (from, to) = trial.end_hosts()?;
    let bytes = trial.frame_bytes();
    let mut network = trial.connect_discovered()?;
    let before = network.flow_entries();
    network.clear();
    let (start, mut next_due) = (clock::now(), clock::now());
    let deadline = start + trial.time();
    let mut readings = Readings::new(start);
    let mut number = 0;
    network.run_checked(deadline, |network| {
        while next_due <= clock::now() && number < PAIRS_MAX + 2 * ANSWER_LAG {
            // The addresses at both ends are known to the controller when each has sent a frame.
            let ends = FrameEnds::unique;
            let send = |network: &mut TestNetwork<'_>, host, ends: FrameEnds| {
                network.send(host, ends.frame(number.into(), bytes)).map(drop)
            };
            if number < PAIRS_MAX {
                send(network, from, ends(number))?;
            }
            if let Some(answered) = number.checked_sub(ANSWER_LAG).filter(|n| *n < PAIRS_MAX) {
                send(network, to, ends(answered).reversed())?;
            }
            if let Some(again) = number.checked_sub(2 * ANSWER_LAG) {
                send(network, from, ends(again))?;
            }
            number += 1;
            next_due += PAIRS_INTERVAL;
        }
        Ok(readings.add(clock::now(), network.flow_entries().saturating_sub(before)))
    })?;
    trial.subject.controller.observe();
    let count = EntryCount::since(&network, before);
    // There were no more addresses, or no more time: the number would have grown.
    let is_growing = number >= PAIRS_MAX || !readings.is_constant();
    record_reactive(count, is_growing, measured)
}

fn record_reactive(
    count: EntryCount,
    is_growing: bool,
    measured: &mut Measured,
) -> Result<(), String> {
    if count.added == 0 {
        return Err(match count.expired {
            0 => "the controller installed no flow entries".to_owned(),
            expired => format!("all {expired} flow entries had expired when they were counted"),
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of flow entries")]
    measured.set("reactive_entries", count.added as f64);
    if is_growing || count.expired > 0 {
        measured.lower_bounds.push("reactive_entries".to_owned());
    }
    measured.warnings.extend(expiry::warning(count.expired));
    Ok(())
}

/// Flow entries of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryCount {
    /// Those that the switches have more than before.
    added: usize,
    /// Those that the switches have had.
    expired: usize,
}

impl EntryCount {
    /// At this moment, since the messages of the network were cleared, when the switches had `before` flow entries.
    fn since(network: &TestNetwork<'_>, before: usize) -> Self {
        let added = network.flow_entries().saturating_sub(before);
        Self { added, expired: expired_entries(&network.messages, clock::now(), added) }
    }
}

/// Readings at an interval, until three are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Readings {
    next: Instant,
    last: usize,
    equal: u32,
}

impl Readings {
    fn new(start: Instant) -> Self {
        Self { next: start + READING_INTERVAL, last: 0, equal: 0 }
    }

    /// Adds a reading if it is due. Returns whether the number is constant.
    fn add(&mut self, now: Instant, entries: usize) -> bool {
        if now >= self.next {
            self.next = now + READING_INTERVAL;
            let is_equal = entries.abs_diff(self.last) <= entries / EQUAL_PART;
            self.equal = if is_equal { self.equal + 1 } else { 1 };
            self.last = entries;
        }
        self.is_constant()
    }

    fn is_constant(&self) -> bool {
        self.equal >= EQUAL_READINGS && self.last > 0
    }
}

/// What the threads that request flow entries need.
struct Requests<'r> {
    topology: &'r Topology,
    next: AtomicUsize,
    is_over: AtomicBool,
}

/// What became of the requests for flow entries.
#[derive(Debug, Default)]
struct Responses {
    accepted: usize,
    refused: usize,
    /// Why the first of those was refused.
    why: Option<String>,
}

impl Responses {
    fn of(results: impl IntoIterator<Item = Result<(), String>>) -> Self {
        let mut responses = Self::default();
        for result in results {
            match result {
                Ok(()) => responses.accepted += 1,
                Err(error) => {
                    responses.refused += 1;
                    responses.why.get_or_insert(error);
                }
            }
        }
        responses
    }

    /// Records the capacity, by the flow entries that the switches have got because of the requests.
    fn record(self, count: EntryCount, measured: &mut Measured) -> Result<(), String> {
        let Self { accepted, refused, why } = self;
        let EntryCount { added, expired } = count;
        if accepted == 0 {
            let why = why.unwrap_or_else(|| "no response in time".to_owned());
            return Err(format!("no request for a flow entry was accepted: {why}"));
        }
        if added == 0 && expired > 0 {
            return Err(format!("all {expired} flow entries had expired when they were counted"));
        }
        if added == 0 {
            return Err(format!(
                "the northbound interface accepted {accepted} requests for flow entries, but the switches have none of these entries"
            ));
        }
        // More entries than requests are not those of the requests.
        let entries = added.min(accepted + refused);
        #[expect(clippy::cast_precision_loss, reason = "a number of flow entries")]
        measured.set("proactive_entries", entries as f64);
        if entries < accepted {
            measured.warnings.push(format!(
                "the northbound interface accepted {accepted} requests for flow entries, but the switches have only {entries} of these entries"
            ));
        }
        measured.warnings.extend(expiry::warning(expired));
        if expired > 0 || why.is_none() && entries >= accepted {
            measured.lower_bounds.push("proactive_entries".to_owned());
        }
        let refusal = why.map(|why| format!("the request that was refused: {why}"));
        measured.warnings.extend(refusal);
        Ok(())
    }
}

/// Requests flow entries for ever more addresses, until one is refused, and counts those that the switches get.
fn proactive_entries(
    trial: &mut Trial<'_, '_>,
    client: &NorthboundClient,
    measured: &mut Measured,
) -> Result<(), String> {
    let topology = trial.topology.clone();
    let mut network = trial.connect()?;
    network.wait_for_connections()?;
    // The flow entries that a controller installs in every switch do not count.
    network.wait_for_silence()?;
    let before = network.flow_entries();
    network.clear();
    let requests = Requests {
        topology: &topology,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    let (sender, results) = channel();
    let deadline = clock::now() + trial.time();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..REQUESTERS {
            let installer = PathInstaller::new(client, &topology)?;
            let (sender, requests) = (sender.clone(), &requests);
            threads.push(scope.spawn(move || request_entries(&installer, requests, &sender)));
        }
        drop(sender);
        let is_done = |_: &mut TestNetwork<'_>| requests.is_over.load(Ordering::Relaxed);
        let ran = network.run(deadline, is_done);
        requests.is_over.store(true, Ordering::Relaxed);
        ran?;
        network.run_until_finished(&threads)
    })?;
    // A controller may accept a request before it sends the flow entry.
    network.wait_for_silence()?;
    Responses::of(results).record(EntryCount::since(&network, before), measured)
}

/// Requests one flow entry after the other, for the first switch.
fn request_entries(
    installer: &PathInstaller<'_>,
    requests: &Requests<'_>,
    results: &Sender<Result<(), String>>,
) {
    let last = requests.topology.hosts.len().saturating_sub(1);
    let hops = path::shortest(requests.topology, 0, last).unwrap_or_default();
    let first = hops.get(..1).unwrap_or_default();
    while !requests.is_over.load(Ordering::Relaxed) {
        let number = requests.next.fetch_add(1, Ordering::Relaxed);
        let ends = FrameEnds::unique(u32::try_from(number).unwrap_or(u32::MAX));
        let order = PathOrder { number, src: ends.src.mac, dst: ends.dst.mac, hops: first };
        let result = installer.install(order).map(drop);
        if result.is_err() || number + 1 >= REQUESTS_MAX {
            requests.is_over.store(true, Ordering::Relaxed);
        }
        if results.send(result).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{report_without_requests, switch_figures};

    #[test]
    fn three_equal_readings_end_the_measurement() {
        let start = clock::now();
        let mut readings = Readings::new(start);
        let at = |n: u32| start + READING_INTERVAL * n;
        assert!(!readings.add(start, 7));
        assert!(!readings.add(at(1), 100));
        assert!(!readings.add(at(2), 200));
        assert!(!readings.add(at(3), 202));
        // Not due.
        assert!(!readings.add(at(3), 202));
        assert!(readings.add(at(4), 201));
    }

    #[test]
    fn nothing_installed_is_no_capacity() {
        let start = clock::now();
        let mut readings = Readings::new(start);
        assert!((1..10).all(|n| !readings.add(start + READING_INTERVAL * n, 0)));
    }

    #[test]
    fn sessions_without_answers_do_not_count() {
        let mut report = report_without_requests(Load::Rate(1000.0));
        let with = |handshake: bool, answered: u64, late: u64, is_dropped: bool| {
            let mut switch = switch_figures(
                handshake.then_some(Duration::ZERO),
                is_dropped.then_some("the controller closed the connection"),
                0.0,
            );
            (switch.counts.answered, switch.counts.late) = (answered, late);
            switch
        };
        report.switches = vec![
            with(true, 2, 0, false),
            with(true, 0, 1, false),
            with(true, 0, 0, false),
            with(true, 1, 0, true),
            with(false, 0, 0, false),
        ];
        report.plan.switches = 5;
        let numbers = |measured: &Measured| {
            ["sessions", "dropped"].map(|name| measured.figures.get(name).copied())
        };
        let measured = session_figures(&report, true).unwrap();
        assert_eq!(numbers(&measured), [Some(2.0), Some(1.0)]);
        assert_eq!(
            measured.warnings,
            [
                "1 session was established and does not count, since none of its packet-ins was answered"
            ]
        );
        assert_eq!(measured.lower_bounds, [""; 0]);
        // Of a controller that answers no packet-in of a single switch, it cannot be told.
        let measured = session_figures(&report, false).unwrap();
        assert_eq!(numbers(&measured), [Some(3.0), Some(1.0)]);
        assert!(measured.warnings.concat().contains("without a check that they are served"));
        report.switches.truncate(2);
        report.plan.switches = 2;
        assert_eq!(session_figures(&report, true).unwrap().lower_bounds, ["sessions"]);
        // Handshakes, and nothing else.
        report.switches = vec![with(true, 0, 0, false), with(true, 0, 0, false)];
        let error = session_figures(&report, true).unwrap_err();
        assert!(error.starts_with("no session was served: 2 were established"), "{error}");
    }

    /// What is recorded of a number of accepted requests, of which the next one was `refused`, and of a number of flow entries.
    fn proactive(accepted: usize, refused: Option<&str>, added: usize) -> Result<Measured, String> {
        let refused = refused.map(|why| Err(why.to_owned()));
        let results = std::iter::repeat_n(Ok(()), accepted).chain(refused);
        let mut measured = Measured::default();
        let count = EntryCount { added, expired: 0 };
        Responses::of(results).record(count, &mut measured).map(|()| measured)
    }

    #[test]
    fn a_number_of_flow_entries_of_which_others_have_expired_is_a_lower_bound() {
        let reactive = |expired, is_growing| {
            let (mut measured, count) = (Measured::default(), EntryCount { added: 500, expired });
            record_reactive(count, is_growing, &mut measured).map(|()| measured)
        };
        let full = reactive(0, false).unwrap();
        assert_eq!((full.lower_bounds.len(), full.warnings.len()), (0, 0));
        assert_eq!(reactive(0, true).unwrap().lower_bounds, ["reactive_entries"]);
        let expiring = reactive(9000, false).unwrap();
        assert_eq!(expiring.figures.get("reactive_entries"), Some(&500.0));
        assert_eq!(expiring.lower_bounds, ["reactive_entries"]);
        assert!(expiring.warnings.concat().starts_with("9000 flow entries expired"));

        let proactive = |added, refused: &[&str]| {
            let refused = refused.iter().map(|why| Err((*why).to_owned()));
            let results = std::iter::repeat_n(Ok(()), 700).chain(refused);
            let (mut measured, count) = (Measured::default(), EntryCount { added, expired: 200 });
            Responses::of(results).record(count, &mut measured).map(|()| measured)
        };
        for refused in [&["the table is full"][..], &[]] {
            let expiring = proactive(500, refused).unwrap();
            assert_eq!(expiring.lower_bounds, ["proactive_entries"]);
            assert!(expiring.warnings.concat().contains("200 flow entries expired"));
        }
        let error = proactive(0, &[]).unwrap_err();
        assert_eq!(error, "all 200 flow entries had expired when they were counted");
    }

    #[test]
    fn requests_without_flow_entries_are_no_capacity() {
        let error = proactive(50_002, None, 0).unwrap_err();
        assert!(error.contains("accepted 50002 requests"), "{error}");
        let error = proactive(0, Some("404"), 7).unwrap_err();
        assert_eq!(error, "no request for a flow entry was accepted: 404");
        let error = proactive(0, None, 0).unwrap_err();
        assert_eq!(error, "no request for a flow entry was accepted: no response in time");
    }

    #[test]
    fn the_capacity_is_the_flow_entries_of_the_switches() {
        let entries = |measured: &Measured| measured.figures.get("proactive_entries").copied();
        // No request was refused: the switches could have more.
        let all = proactive(10, None, 10).unwrap();
        assert_eq!((entries(&all), all.lower_bounds.len()), (Some(10.0), 1));
        assert_eq!(all.warnings, [""; 0]);
        let fewer = proactive(10, None, 7).unwrap();
        assert_eq!((entries(&fewer), fewer.lower_bounds.len()), (Some(7.0), 0));
        let warning = fewer.warnings.concat();
        assert!(warning.contains("10 requests") && warning.contains("only 7"), "{warning}");
        let refused = proactive(10, Some("the table is full"), 10).unwrap();
        assert_eq!((entries(&refused), refused.lower_bounds.len()), (Some(10.0), 0));
        assert_eq!(refused.warnings, ["the request that was refused: the table is full"]);
        // Entries that nobody has requested.
        assert_eq!(entries(&proactive(10, None, 12).unwrap()), Some(10.0));
    }
}
