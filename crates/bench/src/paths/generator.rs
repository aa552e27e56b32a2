//! The thread that emulates the network, requests paths, and records which are installed.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_io::{Epoll, clock};

use super::connections::ControlConnections;
use super::frames::announcement;
use super::measurement::PathMeasurement;
use super::{NetworkLoopCounts, NetworkPlan};
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadResult};
use crate::generator_thread::{GeneratorThread, LoopSnapshot, SWEEP_INTERVAL, ThreadState};
use crate::plan::Announce;
use crate::{Error, Plan};

/// Hosts that announce themselves at a time, and the time between: slow enough that no controller misses any.
const ANNOUNCE_BATCH: usize = 64;
const ANNOUNCE_GAP: Duration = Duration::from_millis(5);

/// The thread that emulates the network.
///
/// An event-loop iteration has one order: send, wait, process everything received, check paths, request new ones.
#[derive(Debug)]
pub(crate) struct PathsGenerator {
    thread: ThreadState,
    connections: ControlConnections,
    measurement: PathMeasurement,
    hosts_announced: Vec<u32>,
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
            thread: ThreadState::new(plan, 0, shared, events, clock::now()),
            connections: ControlConnections::new(io, switches),
            measurement: PathMeasurement::new(plan, network),
            hosts_announced: vec![0; switches],
        }
    }

    fn connect(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.thread.plan);
        let deadline = clock::now() + plan.handshake_timeout;
        while self.connections.is_waiting(&plan)
            && clock::now() < deadline
            && !self.thread.shared.is_stopped()
        {
            let retry = self.connections.start_connecting(&plan, clock::now())?;
            self.iterate([Some(deadline), retry].into_iter().flatten().min())?;
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
                self.run_until(clock::now() + ANNOUNCE_GAP)?;
            }
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
        self.thread.shared.publish_sessions(0, self.connections.ready(), errors);
    }
}

impl GeneratorThread for PathsGenerator {
    fn state(&mut self) -> &mut ThreadState {
        &mut self.thread
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn prepare(&mut self) -> Result<(), Error> {
        self.connect()?;
        let delay = self.thread.plan.delay;
        self.run_until(clock::now() + delay)?;
        if self.thread.plan.announce == Announce::AllHosts {
            self.announce_hosts()?;
            self.run_until(clock::now() + delay)?;
        }
        self.connections.check_ready(&self.thread.plan)
    }

    fn iterate(&mut self, deadline: Option<Instant>) -> Result<Instant, Error> {
        let deadline = [deadline, self.measurement.next_answer()].into_iter().flatten().min();
        let before = (self.thread.plan.spin > Duration::ZERO).then(clock::now);
        let now = self.connections.run_once(deadline, &mut self.measurement)?;
        if self.thread.end_wait(before, now).is_some() {
            self.measurement.give_up_all(now);
        }
        self.measurement.process();
        self.thread.shared.publish_answered(0, self.measurement.answered());
        Ok(now)
    }

    fn begin(&mut self, start: Instant) {
        self.measurement.begin(start);
    }

    fn run_loop(&mut self, end: Instant) -> Result<(), Error> {
        let mut now = clock::now();
        let mut sweep = now;
        while now < end && !self.thread.shared.is_stopped() {
            if now >= sweep {
                self.sweep(now);
                sweep = now + SWEEP_INTERVAL;
            }
            let next = self.measurement.request_paths();
            let before = now;
            now = self.iterate([Some(end.min(sweep)), next].into_iter().flatten().min())?;
            let outstanding = i64::try_from(self.measurement.outstanding()).unwrap_or(i64::MAX);
            self.thread.silence.update(before, now, self.measurement.answered(), outstanding);
        }
        Ok(())
    }

    /// Waits until each outstanding request is answered or times out.
    fn drain(&mut self) -> Result<bool, Error> {
        while self.measurement.outstanding() > 0 && !self.thread.shared.is_stopped() {
            let now = clock::now();
            self.sweep(now);
            self.iterate(Some(now + SWEEP_INTERVAL))?;
        }
        Ok(false)
    }

    fn answered(&self) -> u64 {
        self.measurement.answered()
    }

    fn snapshot(&mut self) -> LoopSnapshot {
        let time = clock::now();
        let area = self.measurement.outstanding_area(time);
        let answered = self.measurement.answered_by_switch();
        let network = &self.measurement.network;
        let network = NetworkLoopCounts {
            flow_mods: network.total(|counters| counters.flow_mods),
            packet_outs: network.total(|counters| counters.packet_outs),
        };
        let snapshot = LoopSnapshot::new(&self.thread, time, area, answered);
        LoopSnapshot { network: Some(network), ..snapshot }
    }

    fn latencies(&self, number: u32) -> Option<Histogram<u64>> {
        self.measurement.latencies(number)
    }

    fn result(&mut self) -> ThreadResult {
        let (loops, unanswered_min_ns) = self.measurement.take_records();
        let socket = self.connections.effective_options();
        let lifecycles = self.connections.lifecycles();
        let switches = lifecycles.zip(&self.hosts_announced).enumerate();
        let switches = switches.map(|(n, (lifecycle, &hosts_announced))| SwitchResult {
            counts: self.measurement.switch_counts(n),
            latency: self.measurement.switch_latency(n, unanswered_min_ns),
            connect: lifecycle.connect_time(),
            handshake: lifecycle.handshake_time(),
            hosts_announced,
            disconnect_reason: lifecycle.disconnect_reason.clone(),
        });
        ThreadResult {
            switches: switches.collect(),
            loops,
            unanswered_min_ns,
            errors: self.measurement.errors.clone(),
            network: Some(self.measurement.totals()),
            socket,
            ..ThreadResult::default()
        }
    }
}
