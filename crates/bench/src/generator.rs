//! One thread that plays its share of the switches.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use sluice_io::{Epoll, Io, IoEvent, clock, cores};

use crate::Error;
use crate::coordination::{SharedState, SwitchResult, ThreadEvent, ThreadLoopResult, ThreadResult};
use crate::counts::ErrorCounts;
use crate::emulated_switch::{EmulatedSwitch, ReceiveContext};
use crate::latency::LatencyRecorder;
use crate::offered_load::{OfferedLoad, stamp};
use crate::outstanding::{TICK_NS, Timestamp};
use crate::plan::Plan;
use crate::requests::RequestTemplates;

/// Between two looks for requests that are too old.
const SWEEP: Duration = Duration::from_millis(100);

/// How long the answers to the last requests may take to come in once nothing is sent any more.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long none of them may come.
const DRAIN_QUIET: Duration = Duration::from_secs(1);

/// One thread that plays its share of the switches: every `threads`-th, from `index` on.
///
/// A turn has one order: wait, hear everything, say everything.
pub(crate) struct Generator {
    pub(crate) plan: Arc<Plan>,
    pub(crate) index: usize,
    pub(crate) io: Epoll,
    pub(crate) players: Vec<EmulatedSwitch>,
    pub(crate) requests: RequestTemplates,
    pub(crate) control: Arc<SharedState>,
    /// Players by the slot of their connection.
    pub(crate) by_slot: Vec<usize>,
    /// Players that heard something or have room again, each once.
    pub(crate) touched: PendingSwitches,
    news: Sender<ThreadEvent>,
    latencies: LatencyRecorder,
    errors: ErrorCounts,
    epoch: Instant,
    level: OutstandingIntegral,
    waited: Duration,
    pub(crate) known: u64,
    answered: u64,
}

/// Players that have something to say, each once.
#[derive(Debug)]
pub(crate) struct PendingSwitches {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

/// How many requests are open, and the sum of that over time.
#[derive(Debug, Clone, Copy, Default)]
struct OutstandingIntegral {
    open: i64,
    since: Timestamp,
    /// Request ticks.
    area: i64,
}

/// Where a thread was at the edge of a loop.
struct LoopSnapshot {
    time: Instant,
    cpu: Duration,
    waited: Duration,
    area: i64,
    answered: Vec<u64>,
}

impl Generator {
    pub(crate) fn new(
        plan: &Arc<Plan>,
        index: usize,
        io: Epoll,
        control: &Arc<SharedState>,
        news: Sender<ThreadEvent>,
    ) -> Result<Self, Error> {
        let numbers = (0..plan.switches).skip(index).step_by(plan.threads);
        let players: Vec<_> = numbers.map(|number| EmulatedSwitch::new(plan, number)).collect();
        let requests = RequestTemplates::new(plan.version, plan.frame_len)
            .map_err(|e| Error::Plan(format!("the bench cannot say this: {e}")))?;
        Ok(Self {
            plan: Arc::clone(plan),
            index,
            io,
            touched: PendingSwitches::new(players.len()),
            players,
            requests,
            control: Arc::clone(control),
            by_slot: Vec::new(),
            news,
            latencies: LatencyRecorder::new(),
            errors: ErrorCounts::default(),
            epoch: clock::now(),
            level: OutstandingIntegral::default(),
            waited: Duration::ZERO,
            known: 0,
            answered: 0,
        })
    }

    /// Connects, announces, requests, drains; tells the coordinator what it must know.
    pub(crate) fn run(mut self) {
        if let Err(e) = self.live() {
            self.tell(ThreadEvent::Failed(e));
        }
    }

    fn tell(&self, news: ThreadEvent) {
        // The coordinator is gone only when it failed itself.
        let _ = self.news.send(news);
    }

    fn live(&mut self) -> Result<(), Error> {
        if let Some(&core) = self.plan.pin.get(self.index % self.plan.pin.len().max(1)) {
            cores::pin(core).map_err(|e| Error::Core(core, e))?;
        }
        self.connect()?;
        self.announce()?;
        self.begin();
        self.tell(ThreadEvent::Ready);
        let start = loop {
            if self.control.is_stopped() {
                return Ok(());
            }
            if let Some(start) = self.control.start() {
                break start;
            }
            self.turn(None, None)?;
        };
        while clock::now() < start {
            self.turn(Some(start), None)?;
        }
        self.request(start)
    }

    /// Makes ready for requests, and counts anew.
    fn begin(&mut self) {
        let patience = u32::try_from(self.plan.timeout.as_nanos() / u128::from(TICK_NS));
        for player in &mut self.players {
            player.begin(&self.plan, patience.unwrap_or(u32::MAX / 2));
        }
        self.errors = ErrorCounts::default();
        self.answered = 0;
    }

    /// The loops, one after the other without a pause, then the drain.
    fn request(&mut self, start: Instant) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let mut offer = OfferedLoad::new(&plan, start, self.epoch, self.index, self.players.len());
        let mut mark = self.mark();
        let mut quantiles = Vec::new();
        for number in 0..plan.loops {
            if number == plan.measured().start {
                self.players.iter_mut().for_each(|player| player.coarse.clear());
                offer.forget_behind();
            }
            self.one_loop(start + plan.loop_time * (number + 1), &mut offer)?;
            let here = self.mark();
            self.tell_loop(number, &mark, &here);
            mark = here;
            if number + 1 == plan.measured().end {
                let of =
                    |p: &EmulatedSwitch| [0.5, 0.99, 1.0].map(|share| p.coarse.quantile_ns(share));
                quantiles = self.players.iter().map(of).collect();
            }
            if self.control.is_stopped() {
                return Ok(());
            }
        }
        let still_answering = self.drain()?;
        let ends = self.players.iter().zip(quantiles);
        self.tell(ThreadEvent::Done(ThreadResult {
            thread: self.index,
            players: ends.map(|(player, quantiles)| SwitchResult::of(player, quantiles)).collect(),
            errors: self.errors.clone(),
            behind: offer.behind(),
            still_answering,
        }));
        Ok(())
    }

    fn one_loop(&mut self, end: Instant, offer: &mut OfferedLoad) -> Result<(), Error> {
        let mut now = clock::now();
        let mut sweep = now;
        while now < end && !self.control.is_stopped() {
            if now >= sweep {
                (0..self.players.len()).for_each(|at| self.touched.add(at));
                self.say(Some(offer));
                sweep = now + SWEEP;
            }
            now = self.turn(Some(end.min(sweep)), Some(offer))?;
        }
        Ok(())
    }

    fn mark(&self) -> LoopSnapshot {
        LoopSnapshot {
            time: clock::now(),
            cpu: clock::thread_cpu(),
            waited: self.waited,
            area: self.level.area,
            answered: self.players.iter().map(|player| player.counts.answered).collect(),
        }
    }

    fn tell_loop(&mut self, number: u32, from: &LoopSnapshot, to: &LoopSnapshot) {
        #[expect(clippy::cast_precision_loss, reason = "a mean of some digits is enough")]
        let area_s = (to.area - from.area) as f64 * TICK_NS as f64 / 1e9;
        let latencies = self.latencies.take();
        self.tell(ThreadEvent::Loop(ThreadLoopResult {
            thread: self.index,
            number,
            elapsed: to.time - from.time,
            answered: to.answered.iter().zip(&from.answered).map(|(to, from)| to - from).collect(),
            latencies,
            cpu: to.cpu.saturating_sub(from.cpu),
            waited: to.waited.saturating_sub(from.waited),
            area_s,
        }));
    }

    /// Waits for the answers to what is open; whether they were still coming when that took too long.
    fn drain(&mut self) -> Result<bool, Error> {
        let begun = clock::now();
        let quiet_max = DRAIN_QUIET.min(self.plan.timeout);
        let (mut now, mut last, mut open) = (begun, begun, self.level.open);
        while open > 0 && now - last < quiet_max && !self.control.is_stopped() {
            if now - begun >= DRAIN_MAX {
                return Ok(true);
            }
            now = self.turn(Some((last + quiet_max).min(begun + DRAIN_MAX)), None)?;
            if self.level.open != open {
                (open, last) = (self.level.open, now);
            }
        }
        Ok(false)
    }

    /// One turn: wait, hear everything, say everything. Returns the time when the wait was over.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        deadline: Option<Instant>,
        offer: Option<&mut OfferedLoad>,
    ) -> Result<Instant, Error> {
        let due = offer.as_ref().and_then(|offer| offer.next_due());
        let deadline = deadline.into_iter().chain(due).min();
        let before = (self.plan.spin > Duration::ZERO).then(clock::now);
        let now = self.io.wait(deadline)?;
        self.waited += before.map_or(Duration::ZERO, |before| now - before);
        self.hear();
        self.say(offer);
        self.control.show(self.index, self.known, self.answered);
        Ok(now)
    }

    fn hear(&mut self) {
        while let Some(event) = self.io.next_event() {
            let (IoEvent::Data(id, _)
            | IoEvent::Writable(id)
            | IoEvent::Connected(id)
            | IoEvent::Closed(id, _)) = event
            else {
                continue;
            };
            let Some(&at) = self.by_slot.get(id.slot()) else { continue };
            let Some(player) = self.players.get_mut(at) else { continue };
            if player.conn != Some(id) {
                continue;
            }
            self.touched.add(at);
            match event {
                IoEvent::Data(_, bytes) => {
                    let now = clock::now();
                    let stamp = stamp(self.epoch, now);
                    let (latencies, errors) = (&mut self.latencies, &mut self.errors);
                    let mut ears = ReceiveContext { now, stamp, latencies, errors };
                    let (open, known, answered) =
                        (player.open(), player.life.known.is_some(), player.counts.answered);
                    let heard = player.hear(bytes, &mut ears);
                    self.known += u64::from(!known && player.life.known.is_some());
                    self.answered += player.counts.answered - answered;
                    self.level.change(stamp, i64::from(player.open()) - i64::from(open));
                    if let Err(why) = heard {
                        player.life.ended = Some(why.to_string());
                        player.conn = None;
                        self.level.change(stamp, -i64::from(player.open()));
                        self.io.close(id);
                    }
                }
                IoEvent::Connected(_) => player.life.connected = Some(clock::now()),
                IoEvent::Closed(_, why) => {
                    player.conn = None;
                    let stamp = stamp(self.epoch, clock::now());
                    self.level.change(stamp, -i64::from(player.open()));
                    let why =
                        why.map_or_else(|| "the controller closed it".into(), |e| e.to_string());
                    player.life.ended = Some(why);
                }
                _ => {}
            }
        }
    }

    fn say(&mut self, mut offer: Option<&mut OfferedLoad>) {
        if let Some(offer) = &mut offer {
            offer.prepare(self.level.open, |at| self.touched.add(at));
        }
        while let Some(at) = self.touched.pop() {
            let Some(player) = self.players.get_mut(at) else { continue };
            if player.conn.is_none() || !player.flush(&mut self.io) {
                continue;
            }
            if let Some(offer) = &mut offer {
                let before = player.open();
                let sent = offer.send(at, player, &mut self.io, &mut self.requests);
                if let Some((stamp, overdue)) = sent {
                    self.level.area += overdue;
                    self.level.change(stamp, i64::from(player.open()) - i64::from(before));
                }
            }
        }
    }
}

impl PendingSwitches {
    fn new(players: usize) -> Self {
        Self { list: Vec::with_capacity(players), is_in: vec![false; players] }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: usize) {
        if let Some(is_in) = self.is_in.get_mut(at)
            && !std::mem::replace(is_in, true)
        {
            self.list.push(at);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        let at = self.list.pop()?;
        if let Some(is_in) = self.is_in.get_mut(at) {
            *is_in = false;
        }
        Some(at)
    }
}

impl OutstandingIntegral {
    #[inline]
    fn change(&mut self, now: Timestamp, by: i64) {
        self.area += self.open * i64::from(now.wrapping_sub(self.since));
        self.open += by;
        self.since = now;
    }
}
