//! Carries out a measurement: starts the threads, collects their results, computes the report.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use sluice_io::{Epoll, Io, WaitStrategy, Wake, clock, limits};

use crate::coordination::{
    SharedState, ThreadEvent, ThreadLoopResult, ThreadResult, TotalProgress,
};
use crate::generator::Generator;
use crate::generator_thread::GeneratorThread;
use crate::paths::PathsGenerator;
use crate::provenance::{ProvenanceRecorder, thread_name};
use crate::report::{LoopFigures, Report, ThreadResults};
use crate::{Error, Plan};

/// Interval at which the progress of the threads is read.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Time between the last thread becoming ready and the first request.
const START_DELAY: Duration = Duration::from_millis(20);

/// File descriptors needed in addition to one per switch.
const FILES_SPARE: u64 = 64;

/// Progress of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunProgress {
    /// Switches connect, complete their handshakes and announce their hosts.
    Connecting {
        /// Switches that have completed the handshake.
        ready_switches: u64,
    },
    /// Requests are sent.
    Measuring {
        /// Loops that ended.
        loops: u32,
        /// Time left until the end of the last loop; zero during the drain.
        remaining: Duration,
        /// Requests answered since the first.
        answered: u64,
        /// Switches that are connected.
        ready_switches: u64,
        /// `ERROR` messages received.
        errors: u64,
    },
}

/// Receives the progress of a measurement.
pub trait RunObserver {
    /// Called ten times per second.
    fn on_progress(&mut self, progress: RunProgress) {
        let _ = progress;
    }

    /// Called at the end of each loop, those of warm-up and cool-down included.
    fn on_loop(&mut self, figures: &LoopFigures) {
        let _ = figures;
    }
}

/// Ignores everything.
impl RunObserver for () {}

/// Carries out `plan`.
///
/// # Errors
/// Why it could not be carried out. Failures of single switches are part of the report instead.
pub fn run(plan: &Plan, observer: &mut dyn RunObserver) -> Result<Report, Error> {
    plan.check()?;
    let needed = u64::from(plan.switches) + 3 * plan.threads as u64 + FILES_SPARE;
    let allowed = limits::raise_open_files(needed);
    if allowed < needed {
        return Err(Error::OpenFiles { needed, allowed });
    }
    let mut provenance = ProvenanceRecorder::new(plan);
    let plan = Arc::new(plan.clone());
    let shared = Arc::new(SharedState::new(plan.threads));
    let (sender, events) = channel();
    let (mut wakers, mut threads) = (Vec::new(), Vec::new());
    for index in 0..plan.threads {
        let io = Epoll::new(WaitStrategy { spin: plan.spin })?;
        wakers.push(io.waker());
        let thread = thread::Builder::new().name(thread_name(index));
        threads.push(if let Some(network) = &plan.network {
            let generator = PathsGenerator::new(&plan, network, io, &shared, sender.clone());
            thread.spawn(move || generator.run())?
        } else {
            let generator = Generator::new(&plan, index, io, &shared, sender.clone())?;
            thread.spawn(move || generator.run())?
        });
    }
    drop(sender);
    let mut collector = Collector::new(&plan, observer);
    let result = loop {
        let due = provenance.next_due().map(|due| due.saturating_duration_since(clock::now()));
        match events.recv_timeout(due.unwrap_or(PROGRESS_INTERVAL).min(PROGRESS_INTERVAL)) {
            Ok(ThreadEvent::Failed(e)) => break Err(e),
            Ok(event) => collector.on_event(event),
            Err(RecvTimeoutError::Timeout) => {
                let finished = threads.iter().filter(|thread| thread.is_finished()).count();
                // Whatever they have sent has arrived by now.
                match collector.on_events(events.try_iter()) {
                    Ok(()) if finished > collector.totals.len() => break Err(Error::Thread),
                    Ok(()) => {}
                    Err(error) => break Err(error),
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Err(Error::Thread),
        }
        if collector.ready == plan.threads && shared.start().is_none() {
            provenance.find_controllers(&plan);
            let start = clock::now() + START_DELAY;
            shared.set_start(start);
            provenance.set_start(&plan, start);
            wakers.iter().for_each(Wake::wake);
        }
        if collector.totals.len() == plan.threads {
            break Ok(());
        }
        provenance.poll(clock::now());
        collector.report_progress(&shared);
    };
    shared.stop();
    wakers.iter().for_each(Wake::wake);
    let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    result?;
    if panicked > 0 {
        return Err(Error::Thread);
    }
    let Collector { loops, totals, .. } = collector;
    let socket = totals.iter().find_map(|result| result.socket.clone());
    let report = Report::new(&plan, ThreadResults { loops, totals });
    Ok(report.with_provenance(provenance.finish(socket)))
}

/// Collects the results of the threads.
struct Collector<'w> {
    plan: Arc<Plan>,
    observer: &'w mut dyn RunObserver,
    ready: usize,
    loops: Vec<ThreadLoopResult>,
    totals: Vec<ThreadResult>,
    loops_finished: u32,
}

impl<'w> Collector<'w> {
    fn new(plan: &Arc<Plan>, observer: &'w mut dyn RunObserver) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, observer, ready: 0, loops: vec![], totals: vec![], loops_finished: 0 }
    }

    /// Handles what has arrived.
    ///
    /// # Errors
    /// That of a thread.
    fn on_events(&mut self, events: impl Iterator<Item = ThreadEvent>) -> Result<(), Error> {
        for event in events {
            match event {
                ThreadEvent::Failed(error) => return Err(error),
                event => self.on_event(event),
            }
        }
        Ok(())
    }

    fn on_event(&mut self, event: ThreadEvent) {
        match event {
            ThreadEvent::Ready => self.ready += 1,
            ThreadEvent::LoopFinished(result) => {
                let number = result.number;
                self.loops.push(result);
                let same: Vec<_> = self.loops.iter().filter(|r| r.number == number).collect();
                if same.len() == self.plan.threads {
                    self.loops_finished = number + 1;
                    self.observer.on_loop(&LoopFigures::new(&self.plan, &same));
                }
            }
            ThreadEvent::Finished(result) => self.totals.push(result),
            ThreadEvent::Failed(_) => {}
        }
    }

    fn report_progress(&mut self, shared: &SharedState) {
        let TotalProgress { answered, ready_switches, errors } = shared.progress();
        self.observer.on_progress(match shared.start() {
            None => RunProgress::Connecting { ready_switches },
            Some(start) => {
                let end = start + self.plan.loop_time * self.plan.loops;
                let remaining = end.saturating_duration_since(clock::now());
                let loops = self.loops_finished;
                RunProgress::Measuring { loops, remaining, answered, ready_switches, errors }
            }
        });
    }
}
