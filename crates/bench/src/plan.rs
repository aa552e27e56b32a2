//! What to measure: plain data, checked once.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_io::{TlsClient, sock};
use sluice_openflow::{Version, Versions};

use crate::Error;
use crate::host_pairs::{HostPairs, NEW_SOURCE_MIN};
use crate::paths::NetworkPlan;
use crate::requests::{Buffering, FRAME_LEN_MAX, FRAME_LEN_MIN};
use crate::schedule::Arrivals;

/// Maximum number of switches in one run. Their number is part of every MAC address.
pub const SWITCHES_MAX: u32 = 10_000;

/// Maximum number of outstanding requests of one switch: full socket buffers in both directions hold about as many of the
/// shortest messages.
pub(crate) const OUTSTANDING_MAX: u32 = 1 << 16;

/// Outstanding requests of all switches together under [`Load::Unlimited`]: full socket buffers on sixteen switches. With
/// more switches, as many as a slow controller answers within seconds rather than minutes.
const UNLIMITED_TOTAL: u32 = 1 << 20;

/// Minimum share of one switch in [`UNLIMITED_TOTAL`].
const UNLIMITED_PER_SWITCH_MIN: u32 = 64;

/// Longest loop, delay or handshake. More would overflow a time or look like a program that hangs.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time between the ends of two loops at least after which there are interim figures.
const INTERIM_INTERVAL_MIN: Duration = Duration::from_millis(500);

/// Maximum number of loops; each has a histogram of its latencies, of 100 KiB and more.
const LOOPS_MAX: u32 = 10_000;

/// Longest timeout of a request, since timestamps wrap after 68 s.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// The offered load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Closed loop: this many outstanding requests per switch; every reply triggers the next request. 1 measures the
    /// latency of an idle controller.
    Window(u32),
    /// Closed loop: this many outstanding requests over all switches together.
    WindowTotal(u32),
    /// Closed loop: as many outstanding requests as the sockets accept. Measures throughput.
    Unlimited,
    /// Open loop: this many requests per second over all switches, whether they are answered or not.
    Rate(f64),
}

/// Whether hosts announce themselves before the measurement, so that the controller knows every destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announce {
    /// Every host announces itself once, by a gratuitous ARP reply.
    AllHosts,
    /// No host does.
    NoHosts,
}

/// How often a switch tries to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectAttempts {
    /// Once: without a connection, it takes no part.
    One,
    /// Again when an attempt or the handshake fails, until [`Plan::handshake_timeout`]: the controller may be starting.
    UntilTimeout,
}

/// Which messages count as replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyCounting {
    /// Those that answer an outstanding request.
    Answers,
    /// Every `FLOW_MOD` and `PACKET_OUT`, without parsing it. There are no latencies then.
    Messages,
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Addresses of the controller; switches use them in turn.
    pub targets: Vec<SocketAddr>,
    /// Number of switches, 1 to [`SWITCHES_MAX`].
    pub switches: u32,
    /// Number of generator threads, 1 to `switches`.
    pub threads: usize,
    /// OpenFlow version of the switches, 1.0 to 1.5.
    pub version: Version,
    /// Ports per switch, 2 to 1000.
    pub ports: u16,
    /// Hosts per switch, 2 to 2²⁴.
    pub hosts: u32,
    /// The offered load.
    pub load: Load,
    /// How the requests of an open-loop load are distributed over time.
    pub arrivals: Arrivals,
    /// Whether the switches buffer packets.
    pub buffering: Buffering,
    /// Length of the Ethernet frame in a request, without FCS, in bytes.
    pub frame_len: u16,
    /// Share of requests with a source address that was never used before, 0 to 1.
    pub new_sources: f64,
    /// Number of loops, warm-up and cool-down included.
    pub loops: u32,
    /// Loops at the start that are not measured.
    pub warmup: u32,
    /// Loops at the end that are not measured.
    pub cooldown: u32,
    /// Duration of a loop.
    pub loop_time: Duration,
    /// Pause between the last handshake and the first announcement.
    pub delay: Duration,
    /// Pause between groups of switches that connect.
    pub connect_gap: Duration,
    /// Switches per such group.
    pub connect_group: u32,
    /// Whether hosts announce themselves.
    pub announce: Announce,
    /// Datapath id of the first switch.
    pub dpid_offset: u64,
    /// Seed of the order in which hosts send.
    pub seed: u64,
    /// CPU cores that the threads are pinned to, in turn; empty for no pinning.
    pub pin: Vec<usize>,
    /// How long a thread polls its sockets before it sleeps.
    pub spin: Duration,
    /// Options of the sockets.
    pub socket: sock::Options,
    /// Certificates of TLS, if the switches use it.
    pub tls: Option<TlsClient>,
    /// Which messages count as replies.
    pub counting: ReplyCounting,
    /// Time for all switches to connect and to complete the handshake.
    pub handshake_timeout: Duration,
    /// How often a switch tries to connect.
    pub connect_attempts: ConnectAttempts,
    /// The network through which paths are requested; `None` measures requests of single switches. With a network, its
    /// topology decides about switches, ports and hosts; packets are not buffered.
    pub network: Option<NetworkPlan>,
    /// Age at which a request times out that later ones have overtaken; or any, if no answer has arrived in order for as long.
    pub timeout: Duration,
    /// Whether the figures of [interim loops](Self::is_interim) have latencies when the loop ends: of the requests that were sent or due in it
    /// and answered before its end. Threads copy a histogram for that between two loops.
    pub has_interim_latencies: bool,
}

impl Default for Plan {
    /// The defaults of `cbench`.
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            switches: 16,
            threads: 1,
            version: Version::V1_0,
            ports: 4,
            hosts: 100_000,
            load: Load::Window(1),
            arrivals: Arrivals::Fixed,
            buffering: Buffering::Buffered,
            frame_len: 64,
            new_sources: 0.0,
            loops: 16,
            warmup: 1,
            cooldown: 0,
            loop_time: Duration::from_secs(1),
            delay: Duration::ZERO,
            connect_gap: Duration::ZERO,
            connect_group: 1,
            announce: Announce::AllHosts,
            dpid_offset: 1,
            seed: 0,
            pin: Vec::new(),
            spin: Duration::ZERO,
            socket: sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() },
            tls: None,
            counting: ReplyCounting::Answers,
            handshake_timeout: Duration::from_secs(30),
            connect_attempts: ConnectAttempts::One,
            network: None,
            timeout: Duration::from_secs(5),
            has_interim_latencies: false,
        }
    }
}

/// The error for a value that is out of range.
fn invalid<T>(value: impl std::fmt::Display, flag: &str, expected: &str) -> Result<T, Error> {
    Err(Error::Plan(format!("invalid value {value} for {flag}: expected {expected}")))
}

impl Plan {
    /// Checks that the plan can be carried out.
    ///
    /// # Errors
    /// The first invalid value, and what was expected.
    pub fn check(&self) -> Result<(), Error> {
        if self.targets.is_empty() {
            return Err(Error::Plan("no controller address: give one with -c".to_owned()));
        }
        if !(1..=SWITCHES_MAX).contains(&self.switches) {
            return invalid(self.switches, "-s", "1 to 10000 switches");
        }
        if self.threads == 0 || self.threads > self.switches as usize {
            let expected = format!("1 to {} (the number of switches)", self.switches);
            return invalid(self.threads, "--threads", &expected);
        }
        if !Versions::SUPPORTED.contains(self.version) {
            return invalid(self.version, "--openflow", "1.0, 1.1, 1.2, 1.3, 1.4 or 1.5");
        }
        if !(2..=1000).contains(&self.ports) {
            return invalid(self.ports, "--ports", "2 to 1000 ports");
        }
        if !(2..=NEW_SOURCE_MIN).contains(&self.hosts) {
            return invalid(self.hosts, "-M", "2 to 16777216 hosts");
        }
        if self.ports == 2 && self.hosts % 2 == 1 {
            return invalid(self.hosts, "-M", "an even number of hosts with --ports 2");
        }
        if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(&self.frame_len) {
            return invalid(self.frame_len, "--frame-len", "60 to 9216 bytes");
        }
        if !(0.0..=1.0).contains(&self.new_sources) {
            return invalid(self.new_sources, "--new-sources", "a share from 0 to 1");
        }
        if self.loops <= self.warmup.saturating_add(self.cooldown) {
            let expected = format!(
                "more loops than warm-up (-w {}) and cool-down (-C {}) together",
                self.warmup, self.cooldown
            );
            return invalid(self.loops, "-l", &expected);
        }
        if self.loops > LOOPS_MAX {
            return invalid(self.loops, "-l", "at most 10000 loops");
        }
        let times = [
            (self.loop_time, Duration::from_millis(1), "-m", "1 to 86400000 ms"),
            (self.delay, Duration::ZERO, "-D", "at most 86400000 ms"),
            (self.connect_gap, Duration::ZERO, "-i", "at most 86400000 ms"),
        ];
        for (time, min, flag, expected) in times {
            if !(min..=DAY).contains(&time) {
                return invalid(time.as_millis(), flag, expected);
            }
        }
        if self.handshake_timeout.is_zero() || self.handshake_timeout > DAY {
            let seconds = self.handshake_timeout.as_secs();
            return invalid(seconds, "--handshake-timeout", "1 to 86400 s");
        }
        if self.connect_group == 0 {
            return invalid(self.connect_group, "-I", "at least 1 switch");
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return invalid(self.timeout.as_millis(), "--timeout", "1 to 30000 ms");
        }
        self.check_load()
    }

    fn check_load(&self) -> Result<(), Error> {
        match self.load {
            Load::Window(0) => return invalid(0, "--window", "at least 1 outstanding request"),
            Load::WindowTotal(0) => {
                return invalid(0, "--window-total", "at least 1 outstanding request");
            }
            Load::Window(n) if n > OUTSTANDING_MAX => {
                let expected = format!("at most {OUTSTANDING_MAX} outstanding requests per switch");
                return invalid(n, "--window", &expected);
            }
            Load::Rate(rate) if !(rate > 0.0 && rate <= 1e9) => {
                return invalid(rate, "--rate", "more than 0 and at most 1e9 requests per second");
            }
            Load::Rate(_) if self.arrivals == Arrivals::Burst(0) => {
                return invalid("burst:0", "--arrivals", "at least 1 request per burst");
            }
            _ => {}
        }
        let (max, hosts) = (self.distinguishable(), self.hosts);
        match self.load {
            Load::Window(n) if n > max => {
                let expected = format!(
                    "at most {max} outstanding requests, since with --no-buffer {hosts} hosts do not give \
                     more distinct address pairs; lower it or raise -M"
                );
                invalid(n, "--window", &expected)
            }
            _ => Ok(()),
        }
    }

    /// Maximum number of outstanding requests of one switch.
    pub(crate) fn outstanding_max(&self) -> u32 {
        let wanted = match self.load {
            Load::Window(n) => n,
            Load::WindowTotal(n) => n.min(OUTSTANDING_MAX),
            Load::Unlimited | Load::Rate(_) => {
                (UNLIMITED_TOTAL / self.switches).clamp(UNLIMITED_PER_SWITCH_MIN, OUTSTANDING_MAX)
            }
        };
        wanted.min(self.distinguishable())
    }

    /// Slots in the ring of outstanding requests of a switch: at least twice the window. So a request is overtaken only
    /// when many later ones were answered, and an answered request is remembered until the second part of its answer has arrived.
    pub(crate) fn ring_len(&self) -> u32 {
        (2 * self.outstanding_max()).next_power_of_two()
    }

    /// Requests of one switch that are remembered after they have left the ring without an answer: with 16 switches, those of a
    /// minute in which each loses a thousand a second. All together take 12 MiB.
    pub(crate) fn overtaken_max(&self) -> usize {
        ((1 << 20) / self.switches.max(1) as usize).max(1024)
    }

    /// How many outstanding requests of one switch can be told apart. Without buffer ids, half of the distinct host pairs:
    /// a pair must not repeat while its slot is remembered.
    fn distinguishable(&self) -> u32 {
        match self.buffering {
            Buffering::Buffered => OUTSTANDING_MAX,
            Buffering::Unbuffered => {
                let pairs = HostPairs::period(self.hosts, self.ports);
                1 << (pairs.min(2 * u64::from(OUTSTANDING_MAX)).ilog2() - 1)
            }
        }
    }

    /// Time between the ends of two interim loops.
    pub fn interim_interval(&self) -> Duration {
        self.loop_time.saturating_mul(self.interim_loops())
    }

    /// Whether interim figures are of interest at the end of loop `number`: at most twice per second.
    pub fn is_interim(&self, number: u32) -> bool {
        number % self.interim_loops() == self.interim_loops() - 1
    }

    /// Loops from the end of an interim loop to that of the next one.
    fn interim_loops(&self) -> u32 {
        let loops = INTERIM_INTERVAL_MIN.as_nanos().div_ceil(self.loop_time.as_nanos().max(1));
        u32::try_from(loops).unwrap_or(u32::MAX).max(1)
    }

    /// Numbers of the loops that are measured.
    pub fn measured(&self) -> std::ops::Range<u32> {
        self.warmup..self.loops.saturating_sub(self.cooldown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_figures_are_made_at_most_twice_per_second() {
        for (loop_ms, interval_ms, numbers) in [
            (1000, 1000, vec![0, 1, 2, 3, 4, 5, 6, 7]),
            (500, 500, vec![0, 1, 2, 3, 4, 5, 6, 7]),
            (200, 600, vec![2, 5]),
            (499, 998, vec![1, 3, 5, 7]),
        ] {
            let plan = Plan { loop_time: Duration::from_millis(loop_ms), ..Plan::default() };
            assert_eq!(plan.interim_interval(), Duration::from_millis(interval_ms));
            let found: Vec<_> = (0..8).filter(|&number| plan.is_interim(number)).collect();
            assert_eq!(found, numbers, "{loop_ms} ms");
        }
    }

    fn plan() -> Plan {
        Plan { targets: vec![SocketAddr::from(([127, 0, 0, 1], 6653))], ..Plan::default() }
    }

    #[test]
    fn the_defaults_of_cbench_are_valid() {
        plan().check().unwrap();
    }

    #[test]
    fn an_invalid_value_is_rejected_with_its_option() {
        let nan = f64::NAN;
        let cases: [(Plan, &str); 21] = [
            (Plan { targets: vec![], ..plan() }, "-c"),
            (Plan { switches: 0, ..plan() }, "-s"),
            (Plan { switches: 10_001, ..plan() }, "-s"),
            (Plan { threads: 17, ..plan() }, "--threads"),
            (Plan { version: Version(7), ..plan() }, "--openflow"),
            (Plan { ports: 1, ..plan() }, "--ports"),
            (Plan { hosts: 1, ..plan() }, "-M"),
            (Plan { ports: 2, hosts: 5, ..plan() }, "-M"),
            (Plan { frame_len: 59, ..plan() }, "--frame-len"),
            (Plan { new_sources: nan, ..plan() }, "--new-sources"),
            (Plan { loops: 3, warmup: 2, cooldown: 1, ..plan() }, "-l"),
            (Plan { loop_time: Duration::ZERO, ..plan() }, "-m"),
            (Plan { loop_time: Duration::MAX, ..plan() }, "-m"),
            (Plan { delay: Duration::MAX, ..plan() }, "-D"),
            (Plan { connect_gap: Duration::MAX, ..plan() }, "-i"),
            (Plan { handshake_timeout: Duration::ZERO, ..plan() }, "--handshake-timeout"),
            (Plan { handshake_timeout: Duration::MAX, ..plan() }, "--handshake-timeout"),
            (Plan { connect_group: 0, ..plan() }, "-I"),
            (Plan { load: Load::Window(0), ..plan() }, "--window"),
            (Plan { load: Load::Rate(nan), ..plan() }, "--rate"),
            (
                Plan {
                    load: Load::Window(9),
                    buffering: Buffering::Unbuffered,
                    hosts: 4,
                    ..plan()
                },
                "-M",
            ),
        ];
        for (plan, option) in cases {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
        let error = Plan { switches: 10_001, ..plan() }.check().unwrap_err().to_string();
        assert_eq!(error, "invalid value 10001 for -s: expected 1 to 10000 switches");
    }

    #[test]
    fn ten_thousand_switches_need_little_memory() {
        let many = Plan { switches: 10_000, load: Load::Unlimited, ..plan() };
        assert!(many.ring_len() <= 256);
        let latency = Plan { switches: 10_000, ..plan() };
        assert_eq!(latency.ring_len(), 2);
        let few = Plan { switches: 1, load: Load::Unlimited, ..plan() };
        assert_eq!(few.ring_len(), 2 * OUTSTANDING_MAX);
    }

    #[test]
    fn the_pairs_of_outstanding_requests_are_distinct_without_buffers() {
        let buffering = Buffering::Unbuffered;
        let few = Plan { load: Load::Unlimited, buffering, hosts: 10, ..plan() };
        assert!(u64::from(few.ring_len()) <= HostPairs::period(10, 4));
        assert_eq!((few.outstanding_max(), few.ring_len()), (8, 16));
    }
}
