//! The thread that emulates the network, requests paths, and records which are installed.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_io::{Epoll, clock, cores};

use super::connections::ControlConnections;
use super::frames::announcement;
use super::measurement::PathMeasurement;
use super::{NetworkLoopCounts, NetworkPlan};
use crate::bench_switch::Lifecycle;
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::generator::{PAUSE_MAX, Silence};
use crate::outstanding::TICK_NS;
use crate::plan::Announce;
use crate::{Error, Plan};

/// Hosts that announce themselves at a time, and the time between: slow enough that no controller misses any.
const ANNOUNCE_BATCH: usize = 64;
const ANNOUNCE_GAP: Duration = Duration::from_millis(5);

/// Interval at which timeouts are checked.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// The thread that emulates the network.
///
/// An event-loop iteration has one order: send, wait, process everything received, check paths, request new ones.
#[derive(Debug)]
pub(crate) struct PathsGenerator {
    plan: Arc<Plan>,
    connections: ControlConnections,
    measurement: PathMeasurement,
    hosts_announced: Vec<u32>,
    shared: Arc<SharedState>,
    events: Sender<ThreadEvent>,
    waited: Duration,
    /// When the last iteration of the event loop waited for events.
    last_iteration: Instant,
    /// The longest time for which the process was stopped.
    paused: Duration,
    silence: Silence,
}

/// Totals at a boundary between two loops.
struct LoopSnapshot {
    time: Instant,
    cpu: Duration,
    waited: Duration,
    area: i64,
    answered: Vec<u64>,
    messages: NetworkLoopCounts,
}

impl PathsGenerator {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        network: &NetworkPlan,
        io: Epoll,
        shared: &Arc<SharedState>,
        events: Sender<ThreadEvent>,
    ) -> Self {
        let switches = network.topology.switches.len();
        Self {
            plan: Arc::clone(plan),
            connections: ControlConnections::new(io, switches),
            measurement: PathMeasurement::new(plan, network),
            hosts_announced: vec![0; switches],
            shared: Arc::clone(shared),
            events,
            waited: Duration::ZERO,
            last_iteration: clock::now(),
            paused: Duration::ZERO,
            silence: Silence::new(clock::now()),
        }
    }

    /// Connects, announces hosts, runs all loops, drains; reports each step to the coordinator.
    pub(crate) fn run(mut self) {
        if let Err(e) = self.try_run() {
            self.send_event(ThreadEvent::Failed(e));
        }
    }

    fn send_event(&self, event: ThreadEvent) {
        // The receiver is dropped only when the coordinator itself failed.
        let _ = self.events.send(event);
    }

    fn try_run(&mut self) -> Result<(), Error> {
        if let Some(&core) = self.plan.pin.first() {
            cores::pin(core).map_err(|e| Error::Pin(core, e))?;
        }
        self.connect()?;
        self.run_for(self.plan.delay)?;
        if self.plan.announce == Announce::AllHosts {
            self.announce_hosts()?;
            self.run_for(self.plan.delay)?;
        }
        self.send_event(ThreadEvent::Ready);
        let start = loop {
            if self.shared.is_stopped() {
                return Ok(());
            }
            if let Some(start) = self.shared.start() {
                break start;
            }
            self.run_iteration(None)?;
        };
        while clock::now() < start {
            self.run_iteration(Some(start))?;
        }
        self.run_loops(start)
    }

    fn connect(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let deadline = clock::now() + plan.handshake_timeout;
        while self.connections.is_waiting() && clock::now() < deadline && !self.shared.is_stopped()
        {
            self.connections.start_connecting(&plan)?;
            self.run_iteration(Some(deadline))?;
            self.publish_sessions();
        }
        self.connections.check_ready(&plan)
    }

    /// Every host announces itself.
    fn announce_hosts(&mut self) -> Result<(), Error> {
        for host in 0..self.measurement.hosts().len() {
            let Some(&(addresses, at)) = self.measurement.hosts().get(host) else { break };
            let now = clock::now();
            self.measurement.network.send_frame(now, at, &announcement(addresses));
            if let Some(announced) = self.hosts_announced.get_mut(at.switch) {
                *announced += 1;
            }
            if host % ANNOUNCE_BATCH == ANNOUNCE_BATCH - 1 {
                self.run_for(ANNOUNCE_GAP)?;
            }
        }
        Ok(())
    }

    /// Runs the event loop for a while, without requests.
    fn run_for(&mut self, time: Duration) -> Result<(), Error> {
        let until = clock::now() + time;
        while clock::now() < until && !self.shared.is_stopped() {
            self.run_iteration(Some(until))?;
        }
        Ok(())
    }

    /// Runs the loops, one directly after the other, then the drain.
    fn run_loops(&mut self, start: Instant) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        self.measurement.begin(start);
        self.silence.since = start;
        let mut before = self.snapshot();
        for number in 0..plan.loops {
            if number == plan.measured().start {
                self.silence.longest = Duration::ZERO;
            }
            self.run_loop(start + plan.loop_time * (number + 1))?;
            let after = self.snapshot();
            self.report_loop(number, &before, &after);
            before = after;
            if self.shared.is_stopped() {
                return Ok(());
            }
        }
        self.drain()?;
        let result = self.result();
        self.send_event(ThreadEvent::Finished(result));
        Ok(())
    }

    fn run_loop(&mut self, end: Instant) -> Result<(), Error> {
        let mut now = clock::now();
        let mut sweep = now;
        while now < end && !self.shared.is_stopped() {
            if now >= sweep {
                self.sweep(now);
                sweep = now + SWEEP_INTERVAL;
            }
            let next = self.measurement.request_paths();
            let before = now;
            now = self.run_iteration([Some(end.min(sweep)), next].into_iter().flatten().min())?;
            let outstanding = i64::try_from(self.measurement.outstanding()).unwrap_or(i64::MAX);
            self.silence.update(before, now, self.measurement.answered(), outstanding);
        }
        Ok(())
    }

    /// Waits until each outstanding request is answered or times out.
    fn drain(&mut self) -> Result<(), Error> {
        while self.measurement.outstanding() > 0 && !self.shared.is_stopped() {
            let now = clock::now();
            self.sweep(now);
            self.run_iteration(Some(now + SWEEP_INTERVAL))?;
        }
        Ok(())
    }

    fn sweep(&mut self, now: Instant) {
        self.measurement.expire_requests(now);
        self.measurement.network.tick(now);
        self.publish_sessions();
    }

    /// Publishes the connected switches and the errors for the live display.
    fn publish_sessions(&self) {
        let errors = self.measurement.errors.total();
        self.shared.publish_sessions(0, self.connections.ready(), errors);
    }

    /// One event-loop iteration. Returns the time at the end of the wait.
    fn run_iteration(&mut self, deadline: Option<Instant>) -> Result<Instant, Error> {
        let deadline = [deadline, self.measurement.next_answer()].into_iter().flatten().min();
        let before = (self.plan.spin > Duration::ZERO).then(clock::now);
        let now = self.connections.run_once(deadline, &mut self.measurement)?;
        self.waited +=
            before.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        let since_last = now.saturating_duration_since(self.last_iteration);
        if since_last > PAUSE_MAX {
            self.paused = self.paused.max(since_last);
            self.measurement.give_up_all(now);
        }
        self.last_iteration = now;
        self.measurement.process();
        self.shared.publish_answered(0, self.measurement.answered());
        Ok(now)
    }

    fn snapshot(&mut self) -> LoopSnapshot {
        let time = clock::now();
        let area = self.measurement.outstanding_area(time);
        let network = &self.measurement.network;
        LoopSnapshot {
            time,
            cpu: clock::thread_cpu(),
            waited: self.waited,
            area,
            answered: self.measurement.answered_by_switch(),
            messages: NetworkLoopCounts {
                flow_mods: network.total(|counters| counters.flow_mods),
                packet_outs: network.total(|counters| counters.packet_outs),
            },
        }
    }

    fn report_loop(&self, number: u32, from: &LoopSnapshot, to: &LoopSnapshot) {
        #[expect(clippy::cast_precision_loss, reason = "a mean needs few digits")]
        let outstanding_area_s = (to.area - from.area) as f64 * TICK_NS as f64 / 1e9;
        self.send_event(ThreadEvent::LoopFinished(ThreadLoopResult {
            thread: 0,
            number,
            elapsed: to.time - from.time,
            answered: to.answered.iter().zip(&from.answered).map(|(to, from)| to - from).collect(),
            cpu: to.cpu.saturating_sub(from.cpu),
            waited: to.waited.saturating_sub(from.waited),
            outstanding_area_s,
            network: Some(NetworkLoopCounts {
                flow_mods: to.messages.flow_mods - from.messages.flow_mods,
                packet_outs: to.messages.packet_outs - from.messages.packet_outs,
            }),
        }));
    }

    fn result(&mut self) -> ThreadResult {
        let (loops, unanswered_min_ns) = self.measurement.take_records();
        let socket = self.connections.effective_options();
        let between = |a: Option<Instant>, b: Option<Instant>| Some(b?.duration_since(a?));
        let switches = self.connections.iter().zip(&self.hosts_announced).enumerate();
        let switches = switches.map(|(n, (connection, &hosts_announced))| {
            let Lifecycle { connect_started, connected, ready, disconnect_reason } =
                &connection.lifecycle;
            SwitchResult {
                counts: self.measurement.switch_counts(n),
                latency: self.measurement.switch_latency(n, unanswered_min_ns),
                connect: between(*connect_started, *connected),
                handshake: between(*connected, *ready),
                hosts_announced,
                disconnect_reason: disconnect_reason.clone(),
            }
        });
        ThreadResult {
            thread: 0,
            switches: switches.collect(),
            loops,
            unanswered_min_ns,
            errors: self.measurement.errors.clone(),
            schedule_lag: None,
            drain_cut_short: false,
            paused: self.paused,
            longest_silence: self.silence.longest,
            network: Some(self.measurement.totals()),
            socket,
        }
    }
}
