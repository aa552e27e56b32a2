//! How long a network takes from its first connection until every host reaches another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::HostEvent;
use crate::net::IpFamily;

use super::{LiveError, LiveNetwork};

/// Between two pings of a host that has had no answer.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// How long an answer may take: more than some round trips to a controller on the other side of the world.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How far a network has come, in time since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartupProgress {
    /// When the controller knew every switch; `None` as long as it does not.
    pub all_connected: Option<Duration>,
    /// When each host that was answered had its first answer, the earliest first.
    pub first_replies: Vec<Duration>,
    /// Hosts that ask: all of them, where there are two.
    pub hosts: usize,
}

impl StartupProgress {
    /// Whether the controller knows every switch, and every host was answered.
    pub fn is_complete(&self) -> bool {
        self.all_connected.is_some() && self.first_replies.len() == self.hosts
    }

    /// When half of them had been answered.
    pub fn half(&self) -> Option<Duration> {
        self.first_replies.get(self.hosts.div_ceil(2).saturating_sub(1)).copied()
    }

    /// When all of them had been.
    pub fn all(&self) -> Option<Duration> {
        self.first_replies.get(self.hosts.saturating_sub(1)).copied()
    }
}

/// A network that starts, in which every host pings the next one once a second until it has an answer, from the first
/// moment on. Each has its own time in the second, and both know each other's addresses: nobody waits for anything but
/// the network, and what is asked leaves room on the control links.
#[derive(Debug)]
pub struct StartupTest {
    network: LiveNetwork,
    began: Instant,
    /// When a host pings next, and who whom.
    due: BTreeMap<(Instant, usize), IpAddr>,
    progress: StartupProgress,
}

impl StartupTest {
    /// Pings in `live`, every host the next one and the last one the first.
    ///
    /// # Errors
    /// As [`LiveNetwork::run_once`].
    pub fn new(mut network: LiveNetwork) -> Result<Self, LiveError> {
        let (began, hosts) = (network.now(), network.data_plane().topology().hosts.clone());
        let n = if hosts.len() < 2 { 0 } else { hosts.len() };
        let every = PING_INTERVAL / u32::try_from(n).unwrap_or(u32::MAX).max(1);
        let (mut due, mut at) = (BTreeMap::new(), began);
        for (from, asks) in hosts.iter().enumerate().take(n) {
            let to = (from + 1) % n;
            let Some(asked) = hosts.get(to) else { continue };
            let [ip, own] = [asked, asks].map(|host| IpFamily::V4.address_of(host));
            network.data_plane_mut().1.add_neighbour(began, from, (ip, asked.mac))?;
            network.data_plane_mut().1.add_neighbour(began, to, (own, asks.mac))?;
            due.insert((at, from), ip);
            at += every;
        }
        let progress = StartupProgress { hosts: n, ..StartupProgress::default() };
        Ok(Self { network, began, due, progress })
    }

    /// One turn of the network, until `until` at the latest.
    ///
    /// # Errors
    /// As [`LiveNetwork::run_once`].
    pub fn run_once(&mut self, until: Instant) -> Result<Instant, LiveError> {
        let next = self.due.first_key_value().map_or(until, |(&(at, _), _)| at.min(until));
        let now = self.network.run_once(Some(next))?;
        self.collect_results(now);
        if self.progress.all_connected.is_none()
            && self.network.connected_switches()
                == self.network.data_plane().topology().switches.len()
        {
            self.progress.all_connected = Some(now - self.began);
        }
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let ((at, from), to) = entry.remove_entry();
            self.network.data_plane_mut().1.ping(now, from, to, TIMEOUT)?;
            self.due.insert((at + PING_INTERVAL, from), to);
        }
        Ok(now)
    }

    /// Takes out who has an answer.
    fn collect_results(&mut self, now: Instant) {
        for (from, outcome) in self.network.data_plane_mut().1.take_host_events() {
            let HostEvent::Ping(ping) = outcome else { continue };
            if ping.rtt.is_none() {
                continue;
            }
            let before = self.due.len();
            self.due.retain(|&(_, asks), _| asks != from);
            if self.due.len() < before {
                self.progress.first_replies.push(now - self.began);
            }
        }
    }

    /// How far it has come.
    pub fn progress(&self) -> &StartupProgress {
        &self.progress
    }

    /// The network.
    pub fn network(&self) -> &LiveNetwork {
        &self.network
    }
}
