//! A controller with an attacker, a bystander and newcomers at different addresses.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use sluice_system_tests::{
    Controller, LONG_TIMEOUT, Stopwatch, TestEnv, binary, sum_of_samples, timed, wait_until,
};

use crate::peer::{Peer, Profile};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BYSTANDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const NEWCOMER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// Address of the metrics; each scenario has its own loopback interface.
const API: &str = "127.0.0.1:8653";

/// The address of the second listener.
const SECOND_LISTENER: &str = "127.0.0.1:6633";

/// Attacks in one scenario, each after a time without: at least, and at most until one has met the bounds of time.
const ROUNDS: RangeInclusive<usize> = 2..=6;

/// Switches of the bystander.
pub(crate) const BYSTANDERS: u64 = 4;

/// Switches that connect during each attack.
const NEWCOMERS: u64 = 4;

/// Time between two requests of a bystander's switch.
const INTERVAL: Duration = Duration::from_millis(5);

/// Requests of each bystander's switch between two looks at the controller.
const BATCH: u32 = 50;

/// Batches that are measured at least each time.
const BATCHES_MIN: u32 = 4;

/// How long a newcomer may take in the best round.
const NEWCOMER_MAX: Duration = Duration::from_secs(1);

/// How long a newcomer may take in any round.
const NEWCOMER_TIMEOUT: Duration = Duration::from_secs(5);

/// The real-time priority of the bystander. When a reply arrives, it would otherwise wait until the time slice of the attacker is
/// over, which is 4 ms with the usual timer interrupts.
const PRIORITY: &str = "10";

/// The 99th percentile of the bystander's round trips in the best round, relative to the largest without an attack.
const P99_RATIO_MAX: u32 = 2;

/// A 99th percentile that is always good enough: attacker, bystander, controller and other tests may share one core, and then wait
/// for the time slices of each other.
const P99_GOOD: Duration = Duration::from_millis(100);

/// How the controller is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// Options of `sluice run`, separated by spaces.
    pub(crate) options: &'static str,
    /// Whether there is one worker, or as many as by default.
    pub(crate) workers: Workers,
    /// A key of the configuration as an environment variable, and its value.
    pub(crate) key: Option<(&'static str, &'static str)>,
    /// The limit of open files, which the controller cannot raise.
    pub(crate) open_files: Option<u32>,
    pub(crate) link: LinkKind,
    /// Ports of each newcomer.
    pub(crate) newcomer_ports: u32,
    /// Maximum growth of the controller's resident memory, KiB.
    pub(crate) growth_max_kib: u64,
    /// A 99th percentile of the bystander's round trips that is good enough, whatever it is without an attack.
    pub(crate) p99_good: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        let (options, workers) = ("--app learning", Workers::One);
        let link = LinkKind::Loopback;
        let (newcomer_ports, growth_max_kib) = (4, 8 << 10);
        let (key, open_files, p99_good) = (None, None, P99_GOOD);
        Self { options, workers, key, open_files, link, newcomer_ports, growth_max_kib, p99_good }
    }
}

/// The number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    One,
    Default,
}

/// The network between peers and controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Loopback,
    /// With the packet length of Ethernet, so that the kernel buffers no more than for other networks.
    Ethernet,
}

/// A controller with the switches of a bystander.
pub(crate) struct Scenario<'a> {
    setup: Setup,
    controller: &'a Controller,
    bystanders: Vec<Peer>,
    /// Where the attacker connects.
    to: SocketAddr,
    /// Where newcomers connect.
    newcomers_to: SocketAddr,
}

/// Attacks a controller several times, and checks each time that the bystander's switches stay connected and are answered, that
/// newcomers get in, and that memory stays bounded. In one round at least, newcomers get in within a second, and the bystander waits
/// little longer than without an attack; other programs may disturb the others. Prints what was measured.
///
/// `attack` returns what keeps the attack going until it is dropped. `has_effect` is called between measurements, until it is
/// true.
pub(crate) fn withstands<T>(
    setup: Setup,
    attack: impl Fn(Target) -> io::Result<T> + Send,
    has_effect: impl Fn(&T) -> bool + Send,
) {
    let env = TestEnv::shared();
    if setup.link == LinkKind::Ethernet {
        env.ip("link set lo mtu 1500");
    }
    let controller = &start(&env, setup);
    env.within(move || {
        // And the threads that it starts.
        sched_setaffinity(None, &cores().0).unwrap();
        let mut scenario = Scenario::new(setup, controller);
        let before = controller.resident_kib();
        let mut rounds = Vec::new();
        while rounds.len() < *ROUNDS.start()
            || (!Round::have_met_bounds(&rounds, &setup) && rounds.len() < *ROUNDS.end())
        {
            rounds.push(scenario.attack(&attack, &has_effect));
            report(&rounds, before);
        }
        let peak_kib = rounds.iter().map(|round| round.attacked.resident_kib).max().unwrap();
        let growth = peak_kib.saturating_sub(before);
        assert!(growth <= setup.growth_max_kib, "the controller has grown by {growth} KiB");
        assert!(Round::have_met_bounds(&rounds, &setup), "no round has met the bounds of time");
    });
}

/// The cores of the peers and those of the controller, which are others if there are several: in a real network, attackers do
/// not use the processors of the controller.
fn cores() -> (CpuSet, CpuSet) {
    let all = sched_getaffinity(None).unwrap();
    let Some(first) = (0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)) else {
        return (all, all);
    };
    let (mut peers, mut others) = (CpuSet::new(), all);
    peers.set(first);
    others.unset(first);
    if others.count() == 0 { (all, all) } else { (peers, others) }
}

/// Sets the scheduling policy and priority of the calling thread.
fn schedule_this_thread(policy: [&str; 2]) {
    let thread = gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt").arg("--pid").args(policy).arg(thread).status().unwrap();
    assert!(status.success(), "chrt: {status}");
}

fn start(env: &TestEnv, setup: Setup) -> Controller {
    let (_, cores) = cores();
    let cores: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect();
    let cores: Vec<_> = cores.iter().map(ToString::to_string).collect();
    let mut command = env.command("taskset");
    command.args(["--cpu-list", &cores.join(",")]);
    if let Some(n) = setup.open_files {
        // Root could raise the limit otherwise.
        command.args(["setpriv", "--bounding-set=-sys_resource", "prlimit"]);
        command.arg(format!("--nofile={n}:{n}"));
    }
    command.arg(binary()).args(["run", "--pin", "off", "--api", API]);
    if setup.workers == Workers::One {
        command.args(["--threads", "1"]);
    }
    command.args(["--listen", SECOND_LISTENER]).args(setup.options.split_whitespace());
    command.envs(setup.key);
    Controller::with(command, env.dir())
}

impl<'a> Scenario<'a> {
    fn new(setup: Setup, controller: &'a Controller) -> Self {
        let to = controller.address().parse().unwrap();
        let newcomers_to = SECOND_LISTENER.parse().unwrap();
        let bystanders = (1..=BYSTANDERS)
            .map(|datapath_id| {
                let profile = Profile::new(datapath_id);
                Peer::connect_switch(BYSTANDER, newcomers_to, profile).unwrap()
            })
            .collect();
        Self { setup, controller, bystanders, to, newcomers_to }
    }

    /// Measures without an attack, then during one.
    fn attack<T>(
        &mut self,
        attack: impl Fn(Target) -> io::Result<T>,
        has_effect: impl Fn(&T) -> bool,
    ) -> Round {
        let mut round = Round::default();
        self.measure(&mut round.calm, || true);
        let held = attack(Target(self.to)).unwrap();
        self.measure(&mut round.attacked, || has_effect(&held));
        self.connect_newcomers(&mut round.attacked);
        self.measure(&mut round.attacked, || true);
        drop(held);
        wait_until(LONG_TIMEOUT, "the end of the attack", || {
            metric("sluice_switches_connected", "") == BYSTANDERS
        });
        round
    }

    /// Measures round trips of the bystander's switches until there are enough and the attack `has_effect`.
    fn measure(&mut self, measured: &mut Measured, has_effect: impl Fn() -> bool) {
        // The attacker's thread shall not keep this one from the processor. The attack inherits no priority from here.
        schedule_this_thread(["--fifo", PRIORITY]);
        let (mut batches, mut is_effective) = (0, false);
        wait_until(LONG_TIMEOUT, "the effect of the attack", || {
            self.measure_batch(measured);
            batches += 1;
            measured.resident_kib = measured.resident_kib.max(self.controller.resident_kib());
            is_effective = is_effective || has_effect();
            is_effective && batches >= BATCHES_MIN
        });
        schedule_this_thread(["--other", "0"]);
    }

    /// Measures round trips at an interval. Those that are late because others took long count from the time when they were due.
    fn measure_batch(&mut self, measured: &mut Measured) {
        let start = Stopwatch::start();
        for n in 0..BATCH {
            let due = n * INTERVAL;
            start.wait_until(due);
            for switch in &mut self.bystanders {
                switch.request_echo().expect("the bystander's switches stay connected");
            }
            for switch in &mut self.bystanders {
                switch.await_echo().expect("the bystander's switches stay connected");
                measured.round_trips.push(start.elapsed().saturating_sub(due));
            }
        }
    }

    /// Connects switches from an address that has none, each again until it succeeds, as switches do.
    fn connect_newcomers(&self, measured: &mut Measured) {
        let connect = |n| {
            let profile = Profile { datapath_id: 100 + n, ports: self.setup.newcomer_ports };
            let mut peer = Peer::connect(NEWCOMER, self.newcomers_to)?;
            peer.set_timeout(NEWCOMER_TIMEOUT)?;
            peer.complete_handshake(profile).map(|()| peer)
        };
        let connected: Vec<_> = (0..NEWCOMERS)
            .map(|n| {
                let mut newcomer = None;
                let ((), delay) = timed(|| {
                    wait_until(NEWCOMER_TIMEOUT, "a newcomer to be connected", || {
                        newcomer = connect(n).ok();
                        newcomer.is_some()
                    });
                });
                measured.newcomers.push(delay);
                newcomer
            })
            .collect();
        for mut newcomer in connected.into_iter().flatten() {
            newcomer.echo().expect("newcomers stay connected");
        }
    }
}

/// The controller, as the attacker sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target(SocketAddr);

impl Target {
    /// Connects and sends nothing.
    pub(crate) fn connect(self) -> io::Result<Peer> {
        Peer::connect(ATTACKER, self.0)
    }

    /// Connects with a receive buffer of `bytes`.
    pub(crate) fn connect_with(self, bytes: usize) -> io::Result<Peer> {
        Peer::connect_with(ATTACKER, self.0, Some(bytes))
    }

    /// Connects to the metrics and sends nothing.
    pub(crate) fn connect_to_metrics() -> io::Result<Peer> {
        Peer::connect(ATTACKER, API.parse().unwrap())
    }

    /// Connects the attacker's `n`-th switch.
    pub(crate) fn connect_switch(self, n: u64) -> io::Result<Peer> {
        Peer::connect_switch(ATTACKER, self.0, Profile::attacking(n))
    }
}

/// Sum of all samples of the metric `name` that have `label`; of all if that is empty.
#[track_caller]
pub(crate) fn metric(name: &str, label: &str) -> u64 {
    let text = scrape().expect("the page with the metrics is served");
    sum_of_samples(&text, name, label).unwrap_or(0)
}

/// Connections that have ended with `reason`.
#[track_caller]
pub(crate) fn closed(reason: &str) -> u64 {
    metric("sluice_connections_closed_total", &format!("reason=\"{reason}\""))
}

/// The page with the metrics.
fn scrape() -> io::Result<String> {
    let mut stream = TcpStream::connect(API)?;
    stream.set_read_timeout(Some(LONG_TIMEOUT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// What was measured in one round.
#[derive(Debug, Default)]
struct Round {
    calm: Measured,
    attacked: Measured,
}

impl Round {
    /// Whether one of the rounds has met the bound of each time.
    fn have_met_bounds(rounds: &[Self], setup: &Setup) -> bool {
        let calm = rounds.iter().map(|round| round.calm.p99()).max().unwrap_or_default();
        let p99_max = setup.p99_good.max(calm * P99_RATIO_MAX);
        rounds.iter().any(|round| round.attacked.slowest_newcomer() <= NEWCOMER_MAX)
            && rounds.iter().any(|round| round.attacked.p99() <= p99_max)
    }
}

/// What was measured with or without an attack.
#[derive(Debug, Default)]
struct Measured {
    /// Round trips of the bystander's switches.
    round_trips: Vec<Duration>,
    /// The time that each newcomer needed.
    newcomers: Vec<Duration>,
    /// The largest resident memory.
    resident_kib: u64,
}

impl Measured {
    /// The 99th percentile of round trips.
    fn p99(&self) -> Duration {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
    }

    fn slowest_newcomer(&self) -> Duration {
        self.newcomers.iter().max().copied().unwrap_or_default()
    }
}

/// Prints the last round.
fn report(rounds: &[Round], resident_before_kib: u64) {
    let Some(Round { calm, attacked }) = rounds.last() else { return };
    let (before, after) = (calm.p99().as_secs_f64() * 1e3, attacked.p99().as_secs_f64() * 1e3);
    println!(
        "round {}: p99 {before:.2} ms, attacked {after:.2} ms: ratio {:.2}; slowest newcomer {} ms; \
         resident {resident_before_kib} KiB, attacked {} KiB",
        rounds.len(),
        after / before,
        attacked.slowest_newcomer().as_millis(),
        attacked.resident_kib,
    );
}
