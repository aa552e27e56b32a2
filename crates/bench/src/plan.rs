//! What is to be measured: plain data, checked once.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_io::sock;
use sluice_openflow::{Version, Versions};

use crate::Error;
use crate::host_pairs::{FRESH, HostPairs};
use crate::requests::{Buffering, FRAME_LEN_MAX, FRAME_LEN_MIN};

/// Most switches of one run: their numbers are 16 bits of every address.
pub const SWITCHES_MAX: u32 = 10_000;

/// Most requests that one switch may have open: what full sockets on both ways hold of the shortest messages.
pub(crate) const OPEN_MAX: u32 = 1 << 16;

/// Open requests of all switches together when as many are sent as fit: full sockets on sixteen switches. With more
/// switches, what a slow controller works off in seconds, not minutes.
///
/// Full sockets are slower than a large window, since bytes leave the cache while they wait; `--window 4096` measures
/// the other thing.
const FIT_TOTAL: u32 = 1 << 20;

/// Least of those on one switch.
const FIT_MIN: u32 = 64;

/// Longest time-out; the stamps of the ledger come round after 68 s.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// How many requests are open, or how many are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// So many open on each switch: a reply lets the next request go. One is the latency test.
    Window(u32),
    /// So many open on all switches together.
    WindowTotal(u32),
    /// As many as the sockets take, 4096 on each switch at most: the throughput test.
    Unlimited,
    /// So many a second over all switches, whether answered or not.
    Rate(f64),
}

/// Whether hosts announce themselves before the measurement, so that every destination is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announce {
    /// Every host does, once, by a gratuitous ARP reply.
    Hosts,
    /// None does.
    Nothing,
}

/// How replies are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyCounting {
    /// Only what answers an open request.
    Answers,
    /// Every `FLOW_MOD` and `PACKET_OUT`, without a look inside: what a responder that looks at nothing can be
    /// measured by. There is no latency then.
    Messages,
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the controller listens; switches take the addresses in turn.
    pub targets: Vec<SocketAddr>,
    /// Switches played, 1 to [`SWITCHES_MAX`].
    pub switches: u32,
    /// Threads that play them.
    pub threads: usize,
    /// What they speak: 1.0 to 1.5.
    pub version: Version,
    /// Ports of each, at least 2.
    pub ports: u16,
    /// Hosts behind each, at least 2.
    pub hosts: u32,
    /// How many requests are open, or sent.
    pub load: Load,
    /// Whether frames stay in the switch.
    pub kept: Buffering,
    /// Bytes of a frame, without checksum.
    pub frame_len: u16,
    /// Share of requests whose source nobody has seen, 0 to 1.
    pub new_sources: f64,
    /// Loops, warm-up and cool-down included.
    pub loops: u32,
    /// Loops at the start that do not count.
    pub warmup: u32,
    /// Loops at the end that do not count.
    pub cooldown: u32,
    /// Length of a loop.
    pub loop_time: Duration,
    /// Between the last handshake and the first announcement.
    pub delay: Duration,
    /// Between groups of switches that connect.
    pub connect_gap: Duration,
    /// Switches of such a group.
    pub connect_group: u32,
    /// Whether hosts announce themselves.
    pub announce: Announce,
    /// Datapath id of the first switch.
    pub dpid_offset: u64,
    /// What the order of hosts starts from.
    pub seed: u64,
    /// Cores for the threads, in turn; none leaves it to the system.
    pub pin: Vec<usize>,
    /// How long a thread asks again and again before it blocks.
    pub spin: Duration,
    /// What is set on the sockets.
    pub socket: sock::Options,
    /// How replies are counted.
    pub count: ReplyCounting,
    /// Time for all switches to connect and be greeted.
    pub handshake_timeout: Duration,
    /// Age at which a request is given up if nothing before it was answered for as long.
    pub timeout: Duration,
}

impl Default for Plan {
    /// What `cbench` does when it is told nothing.
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            switches: 16,
            threads: 1,
            version: Version::V1_0,
            ports: 4,
            hosts: 100_000,
            load: Load::Window(1),
            kept: Buffering::Buffered,
            frame_len: 64,
            new_sources: 0.0,
            loops: 16,
            warmup: 1,
            cooldown: 0,
            loop_time: Duration::from_secs(1),
            delay: Duration::ZERO,
            connect_gap: Duration::ZERO,
            connect_group: 1,
            announce: Announce::Hosts,
            dpid_offset: 1,
            seed: 0,
            pin: Vec::new(),
            spin: Duration::ZERO,
            socket: sock::Options { congestion: Some("cubic".into()), ..sock::Options::default() },
            count: ReplyCounting::Answers,
            handshake_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
        }
    }
}

impl Plan {
    /// Whether it can be carried out.
    ///
    /// # Errors
    /// The first thing that is wrong, and what to do about it.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::Plan(what.to_owned()));
        if self.targets.is_empty() {
            return refuse("no address to connect to: give one with -c");
        }
        if !(1..=SWITCHES_MAX).contains(&self.switches) {
            return refuse("1 to 10000 switches can be played: give another number with -s");
        }
        if self.threads == 0 || self.threads > self.switches as usize {
            return refuse(
                "every thread needs a switch: give --threads between 1 and the number of switches",
            );
        }
        if !Versions::SPOKEN.contains(self.version) {
            return refuse("the bench speaks 1.0 to 1.5: give one of them with --openflow");
        }
        if !(2..=1000).contains(&self.ports) {
            return refuse("a switch has 2 to 1000 ports here: give another number with --ports");
        }
        if !(2..=FRESH).contains(&self.hosts) {
            return refuse("a switch has 2 to 16777216 hosts: give another number with -M");
        }
        if self.ports == 2 && self.hosts % 2 == 1 {
            return refuse(
                "with two ports the number of hosts must be even: give another with -M or --ports",
            );
        }
        if !(FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(&self.frame_len) {
            return refuse("a frame has 60 to 9216 bytes: give another length with --frame-len");
        }
        if !(0.0..=1.0).contains(&self.new_sources) {
            return refuse("a share is between 0 and 1: give another with --new-sources");
        }
        if self.loops <= self.warmup.saturating_add(self.cooldown) {
            return refuse(
                "no loop is left to count: give more with -l, or fewer of them to -w and -C",
            );
        }
        if self.loop_time < Duration::from_millis(1) {
            return refuse("a loop lasts at least a millisecond: give more with -m");
        }
        if self.connect_group == 0 {
            return refuse("a group has at least one switch: give another number with -I");
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return refuse("a time-out lasts at most 30 s: give another with --timeout");
        }
        self.check_load()
    }

    fn check_load(&self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Plan(what));
        match self.load {
            Load::Window(0) | Load::WindowTotal(0) => {
                return refuse("a window of none sends nothing: give another with --window".into());
            }
            Load::Window(n) if n > OPEN_MAX => {
                return refuse(format!(
                    "{OPEN_MAX} requests can be open on a switch: lower --window"
                ));
            }
            Load::Rate(rate) if !(rate > 0.0 && rate <= 1e9) => {
                return refuse("a rate is above 0 and at most 1e9 a second: change --rate".into());
            }
            _ => {}
        }
        let (most, hosts) = (self.told_apart(), self.hosts);
        match self.load {
            Load::Window(n) if n > most => refuse(format!(
                "without buffers {hosts} hosts tell {most} open requests apart: lower --window or raise -M"
            )),
            _ => Ok(()),
        }
    }

    /// Most requests that one switch may have open.
    pub(crate) fn open_max(&self) -> u32 {
        let wanted = match self.load {
            Load::Window(n) => n,
            Load::WindowTotal(n) => n.min(OPEN_MAX),
            Load::Unlimited | Load::Rate(_) => (FIT_TOTAL / self.switches).clamp(FIT_MIN, OPEN_MAX),
        };
        wanted.min(self.told_apart())
    }

    /// Slots of a switch's ledger: at least twice the window. So one late answer does not hold up the rest, and a
    /// request that was answered is remembered until the other half of its answer has come.
    pub(crate) fn ledger_len(&self) -> u32 {
        (2 * self.open_max()).next_power_of_two()
    }

    /// How many open requests of one switch can be told apart: without buffers, half of the pairs of hosts, since a pair
    /// must not come again while its slot is remembered.
    fn told_apart(&self) -> u32 {
        match self.kept {
            Buffering::Buffered => OPEN_MAX,
            Buffering::Unbuffered => {
                let pairs = HostPairs::period(self.hosts, self.ports).min(2 * u64::from(OPEN_MAX));
                1 << (pairs.ilog2() - 1)
            }
        }
    }

    /// Loops that count.
    pub fn measured(&self) -> std::ops::Range<u32> {
        self.warmup..self.loops.saturating_sub(self.cooldown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan { targets: vec![SocketAddr::from(([127, 0, 0, 1], 6653))], ..Plan::default() }
    }

    #[test]
    fn what_cbench_does_can_be_done() {
        plan().check().unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_option_to_change() {
        let nan = f64::NAN;
        let cases: [(Plan, &str); 16] = [
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
            (Plan { connect_group: 0, ..plan() }, "-I"),
            (Plan { load: Load::Window(0), ..plan() }, "--window"),
            (Plan { load: Load::Rate(nan), ..plan() }, "--rate"),
            (Plan { load: Load::Window(9), kept: Buffering::Unbuffered, hosts: 4, ..plan() }, "-M"),
        ];
        for (plan, option) in cases {
            let said = plan.check().unwrap_err().to_string();
            assert!(said.contains(option), "{said}");
        }
    }

    #[test]
    fn ten_thousand_switches_need_little_memory() {
        let many = Plan { switches: 10_000, load: Load::Unlimited, ..plan() };
        assert!(many.ledger_len() <= 256);
        let latency = Plan { switches: 10_000, ..plan() };
        assert_eq!(latency.ledger_len(), 2);
        let few = Plan { switches: 1, load: Load::Unlimited, ..plan() };
        assert_eq!(few.ledger_len(), 2 * OPEN_MAX);
    }

    #[test]
    fn open_pairs_are_unique_without_buffers() {
        let few = Plan { load: Load::Unlimited, kept: Buffering::Unbuffered, hosts: 10, ..plan() };
        assert!(u64::from(few.ledger_len()) <= HostPairs::period(10, 4));
        assert_eq!((few.open_max(), few.ledger_len()), (8, 16));
    }
}
