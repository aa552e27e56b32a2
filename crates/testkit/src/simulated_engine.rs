//! The engine in virtual time: its acceptor and workers, on simulated connections.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use sluice_base::Rng;
use sluice_base::metrics::{MetricValue, MetricsSource};
use sluice_emu::net::{ConnectionId, Controller, ControllerOutput};
use sluice_engine::Config;
use sluice_engine::simulation::{IterationPart, SteppedEngine};
use sluice_io::simulated::{
    BufferSizes, ClockError, DescriptorUse, PeerId, PeerState, SimulatedIo, SimulatedKernel,
    SimulatedThread,
};
use sluice_openflow::DatapathId;
use sluice_sdk::view::{Host, HostId, NetworkView, RecordFact, ViewSubscription};
use sluice_sdk::{App, Network, OnAnswer, Request};

/// Where the engine listens.
const LISTENER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 6653);

/// How often the views of workers are compared, in simulated time.
const COMPARISON_INTERVAL: Duration = Duration::from_millis(20);

/// How a [`SimulatedEngine`] runs.
#[derive(Debug, Clone)]
pub struct SimulatedEngineOptions {
    /// Decides everything that `conditions` leave open.
    pub seed: u64,
    /// Number of worker threads.
    pub workers: usize,
    /// The configuration of the engine. It listens on an address of the simulation.
    pub config: Config,
    /// What the operating system does to the threads.
    pub conditions: Conditions,
}

impl Default for SimulatedEngineOptions {
    fn default() -> Self {
        Self {
            seed: 0x5eed,
            workers: 2,
            config: Config::default(),
            conditions: Conditions::default(),
        }
    }
}

/// What the operating system does to the threads of a [`SimulatedEngine`].
#[derive(Debug, Clone)]
pub struct Conditions {
    /// After how many microseconds a thread with something to do runs.
    pub delay_us: RangeInclusive<u32>,
    /// One of so many iterations starts later, after a random time in `preemption`, as if other programs ran; 0 for none.
    pub preemption_odds: u32,
    /// How long a thread may have to wait for other programs, in microseconds.
    pub preemption_us: RangeInclusive<u32>,
    /// At each point between two parts of an iteration, one of so many iterations is interrupted, and goes on like a
    /// thread with something to do; 0 for none.
    pub interruption_odds: u32,
    /// By how much the clocks of two threads may differ at the start.
    pub clock_offset_max: Duration,
    /// By how many millionths a clock may be fast or slow.
    pub clock_drift_ppm_max: u32,
    /// Sizes of the buffers of connections in bytes.
    pub buffers: RangeInclusive<u32>,
    /// One of so many connections has buffers of at most 4 KiB, which messages do not fit into; 0 for none.
    pub small_buffer_odds: u32,
    /// The engine is not told of the end of one of so many connections, as if the switch had lost its power; 0 for none.
    pub silent_end_odds: u32,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            delay_us: 1..=300,
            preemption_odds: 1000,
            preemption_us: 5_000..=50_000,
            interruption_odds: 8,
            clock_offset_max: Duration::from_millis(1),
            clock_drift_ppm_max: 50,
            buffers: (16 << 10)..=(256 << 10),
            small_buffer_odds: 4,
            silent_end_odds: 0,
        }
    }
}

impl Conditions {
    /// Threads often wait for tens of milliseconds, clocks are bad, and all buffers are small.
    pub fn overloaded() -> Self {
        Self {
            preemption_odds: 20,
            interruption_odds: 2,
            clock_offset_max: Duration::from_millis(20),
            clock_drift_ppm_max: 500,
            small_buffer_odds: 1,
            ..Self::default()
        }
    }

    /// Threads run at once, clocks are exact, and buffers are large: for tests of how long something takes.
    pub fn ideal() -> Self {
        Self {
            delay_us: 0..=0,
            preemption_odds: 0,
            preemption_us: 0..=0,
            interruption_odds: 0,
            clock_offset_max: Duration::ZERO,
            clock_drift_ppm_max: 0,
            buffers: (256 << 10)..=(256 << 10),
            small_buffer_odds: 0,
            silent_end_odds: 0,
        }
    }
}

/// The engine as the controller of a simulated network. A seed replays a run exactly.
///
/// Each thread runs an iteration, or a part of one, when it has something to do or its deadline has passed, after a random delay.
/// Threads that are due at the same time run in random order.
#[derive(Debug)]
pub struct SimulatedEngine<A> {
    kernel: SimulatedKernel,
    engine: SteppedEngine<SimulatedIo, A>,
    threads: Vec<ScheduledThread>,
    peers: BTreeMap<ConnectionId, PeerId>,
    config: Config,
    conditions: Conditions,
    rng: Rng,
    next_tick: Option<Instant>,
    start: Instant,
    /// Of all that was received and sent, with the times.
    digest: DefaultHasher,
    /// What two workers did not agree on although nothing was in flight between them, when that was first so.
    divergence: Option<String>,
    /// When the views of workers were compared last.
    compared_at: Option<Instant>,
}

#[derive(Debug)]
struct ScheduledThread {
    thread: SimulatedThread,
    /// When its next iteration starts, or the rest of one, if it has something to do.
    starts_at: Option<Instant>,
    /// The part of its iteration that it has to go on with.
    interrupted_before: Option<IterationPart>,
    has_ended: bool,
}

impl<A: App> SimulatedEngine<A> {
    /// An engine that starts at the time `start`. `make_app` is called for the applications of each worker, given its number,
    /// and once more, with the number of workers, for the acceptor.
    ///
    /// # Panics
    /// If the engine cannot be created.
    pub fn new(
        options: &SimulatedEngineOptions,
        start: Instant,
        make_app: impl FnMut(usize) -> A,
    ) -> Self {
        let conditions = options.conditions.clone();
        let (kernel, mut rng) =
            (SimulatedKernel::new(options.seed, start), Rng::new(!options.seed));
        let mut ios: Vec<_> = (0..=options.workers)
            .map(|_| kernel.add_thread(clock_error(&conditions, &mut rng)))
            .collect();
        let schedule = |io: &SimulatedIo| ScheduledThread {
            thread: io.thread(),
            starts_at: Some(start),
            interrupted_before: None,
            has_ended: false,
        };
        let threads = ios.iter().map(schedule).collect();
        let workers = ios.split_off(1);
        let config = Config { listen: vec![LISTENER.into()], ..options.config.clone() };
        let engine = kernel.listen(LISTENER.into()).and_then(|listener| {
            let acceptor = ios.pop().ok_or(io::ErrorKind::NotFound)?;
            let listeners = vec![(LISTENER.into(), listener)];
            SteppedEngine::new(config.clone(), acceptor, workers, listeners, make_app)
        });
        let engine = engine.unwrap_or_else(|error| panic!("the engine cannot start: {error}"));
        Self {
            kernel,
            engine,
            threads,
            peers: BTreeMap::new(),
            config,
            conditions,
            rng,
            next_tick: Some(start),
            start,
            digest: DefaultHasher::new(),
            divergence: None,
            compared_at: None,
        }
    }

    /// The network view of each worker.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.engine.networks()
    }

    /// The applications of each worker.
    pub fn apps(&self) -> impl Iterator<Item = &A> {
        self.engine.apps()
    }

    /// The metrics of the engine.
    pub fn metrics(&self) -> std::sync::Arc<dyn MetricsSource> {
        self.engine.metrics()
    }

    /// A counter or gauge of the engine, summed over its labels; 0 if there is none of this name.
    pub fn metric(&self, name: &str) -> f64 {
        let mut sum = 0.0;
        self.engine.metrics().collect(&mut |sample| {
            if sample.name == name {
                sum += match sample.value {
                    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 events")]
                    MetricValue::Counter(count) => count as f64,
                    MetricValue::SecondsCounter(value) | MetricValue::Gauge(value) => value,
                    MetricValue::Histogram(_) => 0.0,
                };
            }
        });
        sum
    }

    /// A hash of all bytes that the engine received and sent, with their times. Runs of one seed have the same.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// What two workers did not agree on although nothing was in flight between them, when that was first so.
    pub fn divergence(&self) -> Option<&str> {
        self.divergence.as_deref()
    }

    /// When the views of all workers were compared last, because nothing was in flight between them.
    pub fn compared_at(&self) -> Option<Instant> {
        self.compared_at
    }

    /// Lets as many accepts, and as many adoptions of accepted connections, fail for lack of file descriptors.
    pub fn fail_for_descriptors(&self, times: u32) {
        for operation in [DescriptorUse::Accept, DescriptorUse::Adopt] {
            self.kernel.fail_for_descriptors(operation, times);
        }
    }

    /// Applies a configuration in which `change_engine` has changed that of the engine, and has all threads call `change` for
    /// their applications. See [`sluice_engine::Engine::apply`].
    pub fn apply(
        &mut self,
        change_engine: impl FnOnce(&mut Config),
        change: impl Fn(&mut A) + Send + Sync + 'static,
    ) {
        change_engine(&mut self.config);
        self.engine.apply(self.config.clone(), change);
        self.schedule(self.kernel.now());
    }

    /// Moves a switch to another worker. See [`sluice_engine::Engine::move_switch`].
    pub fn move_switch(&mut self, datapath_id: DatapathId, worker: usize) {
        self.engine.move_switch(datapath_id, worker);
        self.schedule(self.kernel.now());
    }

    /// Sends a request to a switch, as a thread that is no worker. See [`Controller::request`](sluice_sdk::Controller::request).
    pub fn request(&mut self, to: DatapathId, request: Request, on_answer: OnAnswer)
    where
        A: 'static,
    {
        sluice_sdk::Controller::request(&self.engine.handle(), to, request, on_answer);
        self.schedule(self.kernel.now());
    }

    /// Subscribes to all facts. See [`Controller::subscribe`](sluice_sdk::Controller::subscribe).
    pub fn subscribe(&mut self) -> ViewSubscription
    where
        A: 'static,
    {
        let notify = Box::new(|| {});
        let subscription = sluice_sdk::Controller::subscribe(&self.engine.handle(), notify);
        self.schedule(self.kernel.now());
        subscription
    }

    /// Publishes records, as a thread that is no worker. See [`Controller::publish`](sluice_sdk::Controller::publish).
    pub fn publish(&mut self, records: Vec<RecordFact>) -> bool
    where
        A: 'static,
    {
        let is_taken = sluice_sdk::Controller::publish(&self.engine.handle(), records);
        self.schedule(self.kernel.now());
        is_taken
    }

    /// Has all threads close their connections and end.
    pub fn stop(&mut self) {
        self.engine.stop();
        self.schedule(self.kernel.now());
    }

    /// Whether all threads have ended.
    pub fn has_stopped(&self) -> bool {
        self.threads.iter().all(|thread| thread.has_ended)
    }

    /// Runs the threads whose iteration starts by `now`, in random order.
    fn run_threads(&mut self, now: Instant, output: &mut ControllerOutput) {
        let is_due = |thread: &ScheduledThread| thread.starts_at.is_some_and(|at| at <= now);
        let threads = self.threads.iter().enumerate();
        let mut due: Vec<_> = threads.filter(|(_, it)| is_due(it)).map(|(n, _)| n).collect();
        while !due.is_empty() {
            let at = self.rng.below(u32::try_from(due.len()).unwrap_or(u32::MAX));
            let number = due.swap_remove(at as usize);
            self.run_thread(now, number);
            let conns: Vec<_> = self.peers.keys().copied().collect();
            for conn in conns {
                self.transfer(now, conn, output);
            }
        }
    }

    /// Runs an iteration of a thread, or what is left of one, up to its end or the next interruption.
    fn run_thread(&mut self, now: Instant, number: usize) {
        let Some(thread) = self.threads.get_mut(number) else { return };
        thread.starts_at = None;
        let mut part = thread.interrupted_before.take().unwrap_or(IterationPart::Events);
        loop {
            let goes_on = self.engine.run_part(number, part);
            thread.has_ended |= !goes_on.unwrap_or_else(|error| panic!("thread {number}: {error}"));
            let Some(next) = part.next() else { return };
            part = next;
            let odds = self.conditions.interruption_odds;
            if !thread.has_ended && odds > 0 && self.rng.below(odds) == 0 {
                thread.interrupted_before = Some(part);
                thread.starts_at = Some(now + scheduling_delay(&self.conditions, &mut self.rng));
                return;
            }
        }
    }

    /// Compares the views of all workers, if it is time and nothing is in flight between them.
    fn compare_views(&mut self, now: Instant) {
        let is_early = self.compared_at.is_some_and(|at| now < at + COMPARISON_INTERVAL);
        let is_interrupted = self.threads.iter().any(|it| it.interrupted_before.is_some());
        if is_early || is_interrupted || !self.engine.is_quiet() {
            return;
        }
        self.compared_at = Some(now);
        let mut views = self.engine.networks().map(Network::view);
        if let Some(first) = views.next()
            && self.divergence.is_none()
        {
            self.divergence = views.find_map(|view| difference(first, view));
        }
    }

    fn record(&mut self, now: Instant, conn: ConnectionId, bytes: &[u8]) {
        (now - self.start, conn, bytes).hash(&mut self.digest);
    }

    /// Transfers what the engine has sent on a connection to the control link, as far as there is room.
    fn transfer(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        let Some(&peer) = self.peers.get(&conn) else { return };
        if self.kernel.unsent_bytes(peer) > 0 {
            let bytes = self.kernel.peer_receive(peer, output.room(conn));
            self.record(now, conn, &bytes);
            output.bytes_to(conn).extend(bytes);
            if self.kernel.unsent_bytes(peer) > 0 {
                output.wait_for_room(conn);
            }
        }
        if self.kernel.peer_state(peer) != PeerState::Open {
            self.record(now, conn, &[]);
            self.kernel.peer_close(peer);
            self.peers.remove(&conn);
            output.close(conn);
        }
    }

    /// Schedules the threads that have something to do, and determines when to run the next one.
    fn schedule(&mut self, now: Instant) {
        let mut next_tick = None;
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if thread.has_ended {
                continue;
            }
            if thread.starts_at.is_some() {
                next_tick = [next_tick, thread.starts_at].into_iter().flatten().min();
                continue;
            }
            // A congested thread waits for other threads, not for its connections.
            let is_ready = if self.engine.is_congested(number) {
                self.kernel.is_woken(thread.thread)
            } else {
                self.kernel.is_ready(thread.thread)
            };
            let deadline = self.engine.deadline(number);
            let deadline = deadline.map(|at| self.kernel.time_of(thread.thread, at));
            let wait_end = self.kernel.wait_end(thread.thread);
            let deadline = [deadline, wait_end].into_iter().flatten().min();
            if is_ready || deadline.is_some_and(|at| at <= now) {
                let delay = scheduling_delay(&self.conditions, &mut self.rng);
                thread.starts_at = Some(now + delay);
            }
            next_tick = [next_tick, thread.starts_at.or(deadline)].into_iter().flatten().min();
        }
        self.next_tick = next_tick;
    }
}

/// The first thing that two views do not agree on.
fn difference(view: &NetworkView, other: &NetworkView) -> Option<String> {
    let describe = |one: &dyn Debug, two: &dyn Debug| Some(format!("{one:?} and {two:?}"));
    if !view.switches().eq(other.switches()) {
        let [one, two] = [view, other].map(|view| view.switches().collect::<Vec<_>>());
        return describe(&one, &two);
    }
    if !view.links().eq(other.links()) {
        let [one, two] = [view, other].map(|view| view.links().collect::<Vec<_>>());
        return describe(&one, &two);
    }
    // A fact that is older than the last one about its link must not count, in any of the views.
    let stamps: BTreeMap<_, _> = other.link_stamps().collect();
    let mut stamps = view.link_stamps().filter_map(|(to, one)| Some((to, one, *stamps.get(&to)?)));
    if let Some((to, one, two)) = stamps.find(|(_, one, two)| one != two) {
        return Some(format!("last fact about the link to {to}: {one:?} and {two:?}"));
    }
    let hosts = |view: &NetworkView, other: &NetworkView| {
        let differs = |&(id, host): &(HostId, &Host)| other.host(id) != Some(host);
        view.hosts()
            .find(differs)
            .map(|(id, host)| format!("{id:?}: {host:?} and {:?}", other.host(id)))
    };
    hosts(view, other).or_else(|| hosts(other, view))
}

fn clock_error(conditions: &Conditions, rng: &mut Rng) -> ClockError {
    let offset_us = u32::try_from(conditions.clock_offset_max.as_micros()).unwrap_or(u32::MAX);
    let offset = Duration::from_micros(rng.below(offset_us).into());
    let drift_max = conditions.clock_drift_ppm_max.min(500_000);
    let drift = i64::from(rng.below(2 * drift_max + 1)) - i64::from(drift_max);
    ClockError { offset, drift_ppm: i32::try_from(drift).unwrap_or(0) }
}

/// How long it takes until a thread that has something to do runs.
fn scheduling_delay(conditions: &Conditions, rng: &mut Rng) -> Duration {
    let odds = conditions.preemption_odds;
    let is_preempted = odds > 0 && rng.below(odds) == 0;
    let delay = if is_preempted { &conditions.preemption_us } else { &conditions.delay_us };
    Duration::from_micros(within(delay, rng).into())
}

fn buffer_sizes(conditions: &Conditions, rng: &mut Rng) -> BufferSizes {
    let odds = conditions.small_buffer_odds;
    let is_small = odds > 0 && rng.below(odds) == 0;
    let sizes = if is_small { &(256..=(4 << 10)) } else { &conditions.buffers };
    let (receive, send) = (within(sizes, rng), within(sizes, rng));
    BufferSizes { receive: receive as usize, send: send as usize }
}

fn within(range: &RangeInclusive<u32>, rng: &mut Rng) -> u32 {
    range.start() + rng.below((range.end() - range.start()).saturating_add(1))
}

/// The address of a switch.
fn peer_addr(conn: ConnectionId) -> SocketAddr {
    let switch = u32::try_from(conn.switch()).unwrap_or(u32::MAX);
    let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 1, 0, 0)).wrapping_add(switch));
    let port = 32_768 | u16::try_from(conn.nth() % 32_768).unwrap_or(0);
    SocketAddr::from((ip, port))
}

impl<A: App> Controller for SimulatedEngine<A> {
    fn on_open(&mut self, now: Instant, conn: ConnectionId, _: &mut ControllerOutput) {
        self.kernel.set_time(now);
        match self.kernel.connect(LISTENER.into(), peer_addr(conn)) {
            Ok(peer) => {
                self.kernel.set_buffer_sizes(peer, buffer_sizes(&self.conditions, &mut self.rng));
                self.peers.insert(conn, peer);
            }
            Err(error) => panic!("the engine does not listen: {error}"),
        }
        self.schedule(now);
    }

    fn on_bytes(
        &mut self,
        now: Instant,
        conn: ConnectionId,
        bytes: &[u8],
        _: &mut ControllerOutput,
    ) -> usize {
        self.kernel.set_time(now);
        let Some(&peer) = self.peers.get(&conn) else { return bytes.len() };
        let taken = self.kernel.peer_send(peer, bytes);
        self.record(now, conn, bytes.get(..taken).unwrap_or(bytes));
        self.schedule(now);
        taken
    }

    fn on_closed(&mut self, now: Instant, conn: ConnectionId, _: &mut ControllerOutput) {
        self.kernel.set_time(now);
        let odds = self.conditions.silent_end_odds;
        if let Some(peer) = self.peers.remove(&conn) {
            if odds > 0 && self.rng.below(odds) == 0 {
                // The connection stays, and nothing is sent or taken any more.
            } else if self.rng.below(2) == 0 {
                self.kernel.peer_close(peer);
            } else {
                self.kernel.peer_reset(peer);
            }
        }
        self.schedule(now);
    }

    fn on_room(&mut self, now: Instant, conn: ConnectionId, output: &mut ControllerOutput) {
        self.kernel.set_time(now);
        self.transfer(now, conn, output);
        self.schedule(now);
    }

    fn on_tick(&mut self, now: Instant, output: &mut ControllerOutput) {
        self.kernel.set_time(now);
        self.run_threads(now, output);
        self.compare_views(now);
        self.schedule(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_tick
    }
}
