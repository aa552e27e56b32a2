//! A whole measurement: threads started, loops collected, figures drawn.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use sluice_io::{Epoll, WaitStrategy, clock, limits};

use crate::coordination::{SharedState, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::generator::Generator;
use crate::report::{LoopFigures, Report, ThreadResults};
use crate::{Error, Plan};

/// Between two looks at how far the threads are.
const LOOK: Duration = Duration::from_millis(100);

/// From the last switch being ready to the first request.
const LEAD: Duration = Duration::from_millis(20);

/// Descriptors needed beside one per switch.
const FILES_SPARE: u64 = 64;

/// Where a measurement is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunProgress {
    /// Switches connect, shake hands and announce their hosts.
    Greeting {
        /// How many the controller knows by now.
        known: u64,
    },
    /// Requests are sent.
    Requesting {
        /// Loops that are over.
        loops: u32,
        /// Requests answered since the first.
        answered: u64,
    },
}

/// Somebody who watches a measurement.
pub trait RunObserver {
    /// Told ten times a second.
    fn on_stage(&mut self, stage: RunProgress) {
        let _ = stage;
    }

    /// Told when a loop is over, those that do not count included.
    fn on_loop(&mut self, figures: &LoopFigures) {
        let _ = figures;
    }
}

/// Nobody.
impl RunObserver for () {}

/// Carries out `plan`.
///
/// # Errors
/// Where it could not be carried out; what went wrong with single switches is in the report.
pub fn run(plan: &Plan, watch: &mut dyn RunObserver) -> Result<Report, Error> {
    plan.check()?;
    let needed = u64::from(plan.switches) + 3 * plan.threads as u64 + FILES_SPARE;
    let allowed = limits::raise_open_files(needed);
    if allowed < needed {
        return Err(Error::OpenFiles { needed, allowed });
    }
    let plan = Arc::new(plan.clone());
    let control = Arc::new(SharedState::new(plan.threads));
    let (news, heard) = channel();
    let (mut wakers, mut threads) = (Vec::new(), Vec::new());
    for index in 0..plan.threads {
        let io = Epoll::new(WaitStrategy { spin: plan.spin })?;
        wakers.push(io.waker());
        let generator = Generator::new(&plan, index, io, &control, news.clone())?;
        let name = format!("play-{index}");
        threads.push(thread::Builder::new().name(name).spawn(move || generator.run())?);
    }
    drop(news);
    let mut gathered = Collector::new(&plan, watch);
    let result = loop {
        match heard.recv_timeout(LOOK) {
            Ok(ThreadEvent::Failed(e)) => break Err(e),
            Ok(news) => gathered.on_news(news),
            Err(RecvTimeoutError::Timeout) => {
                let finished = threads.iter().filter(|thread| thread.is_finished()).count();
                if finished > gathered.ends.len() {
                    break Err(Error::Thread);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Err(Error::Thread),
        }
        if gathered.ready == plan.threads && control.start().is_none() {
            control.begin(clock::now() + LEAD);
            wakers.iter().for_each(sluice_io::Waker::wake);
        }
        if gathered.ends.len() == plan.threads {
            break Ok(());
        }
        gathered.look(&control);
    };
    control.stop();
    wakers.iter().for_each(sluice_io::Waker::wake);
    let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    result?;
    if panicked > 0 {
        return Err(Error::Thread);
    }
    let Collector { tallies, ends, .. } = gathered;
    Ok(Report::new(&plan, ThreadResults { tallies, ends }))
}

/// What the threads told so far.
struct Collector<'w> {
    plan: Arc<Plan>,
    watch: &'w mut dyn RunObserver,
    ready: usize,
    tallies: Vec<ThreadLoopResult>,
    ends: Vec<ThreadResult>,
    loops: u32,
}

impl<'w> Collector<'w> {
    fn new(plan: &Arc<Plan>, watch: &'w mut dyn RunObserver) -> Self {
        let plan = Arc::clone(plan);
        Self { plan, watch, ready: 0, tallies: Vec::new(), ends: Vec::new(), loops: 0 }
    }

    fn on_news(&mut self, news: ThreadEvent) {
        match news {
            ThreadEvent::Ready => self.ready += 1,
            ThreadEvent::Loop(tally) => {
                let number = tally.number;
                self.tallies.push(tally);
                let same: Vec<_> = self.tallies.iter().filter(|t| t.number == number).collect();
                if same.len() == self.plan.threads {
                    self.loops = number + 1;
                    self.watch.on_loop(&LoopFigures::new(&self.plan, &same));
                }
            }
            ThreadEvent::Done(end) => self.ends.push(end),
            ThreadEvent::Failed(_) => {}
        }
    }

    fn look(&mut self, control: &SharedState) {
        let (known, answered) = control.seen();
        self.watch.on_stage(if control.start().is_some() {
            RunProgress::Requesting { loops: self.loops, answered }
        } else {
            RunProgress::Greeting { known }
        });
    }
}
