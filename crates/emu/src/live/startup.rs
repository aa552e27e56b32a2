//! Measures how long a network takes until every host can reach another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::HostEvent;
use crate::net::IpFamily;

use super::{LiveError, LiveNetwork};

/// Time between two pings of a host without a reply.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// How long a reply may take: several round trips to a controller on the other side of the world.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Progress of the startup, as times since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartupProgress {
    /// When all switches were connected; `None` before.
    pub all_connected: Option<Duration>,
    /// When each host received its first reply, earliest first.
    pub first_replies: Vec<Duration>,
    /// Number of hosts that ping: all of them, or none if there are fewer than two.
    pub hosts: usize,
}

impl StartupProgress {
    /// Whether all switches are connected and every host has a reply.
    pub fn is_complete(&self) -> bool {
        self.all_connected.is_some() && self.first_replies.len() == self.hosts
    }

    /// When half of the hosts had a reply.
    pub fn half(&self) -> Option<Duration> {
        self.first_replies.get(self.hosts.div_ceil(2).saturating_sub(1)).copied()
    }

    /// When all hosts had a reply.
    pub fn all(&self) -> Option<Duration> {
        self.first_replies.get(self.hosts.saturating_sub(1)).copied()
    }
}

/// A network that starts up. From the first moment, every host pings the next one once a second until it has a reply.
/// The pings are spread over the second, and hosts know each other's addresses, so nothing but the network causes a
/// delay.
#[derive(Debug)]
pub struct StartupTest {
    network: LiveNetwork,
    started_at: Instant,
    /// When each host pings next, and which address.
    due: BTreeMap<(Instant, usize), IpAddr>,
    progress: StartupProgress,
}

impl StartupTest {
    /// Lets every host of `network` ping the next one, and the last one the first.
    ///
    /// # Errors
    /// As [`LiveNetwork::run_once`].
    pub fn new(mut network: LiveNetwork) -> Result<Self, LiveError> {
        let (started_at, hosts) = (network.now(), network.data_plane().topology().hosts.clone());
        let n = if hosts.len() < 2 { 0 } else { hosts.len() };
        let every = PING_INTERVAL / u32::try_from(n).unwrap_or(u32::MAX).max(1);
        let (mut due, mut at) = (BTreeMap::new(), started_at);
        for (from, source) in hosts.iter().enumerate().take(n) {
            let to = (from + 1) % n;
            let Some(target) = hosts.get(to) else { continue };
            let [ip, own] = [target, source].map(|host| IpFamily::V4.address_of(host));
            network.data_plane_mut().1.add_neighbour(started_at, from, (ip, target.mac))?;
            network.data_plane_mut().1.add_neighbour(started_at, to, (own, source.mac))?;
            due.insert((at, from), ip);
            at += every;
        }
        let progress = StartupProgress { hosts: n, ..StartupProgress::default() };
        Ok(Self { network, started_at, due, progress })
    }

    /// One iteration of the event loop, until `until` at the latest.
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
            self.progress.all_connected = Some(now - self.started_at);
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

    /// Removes hosts that have a reply.
    fn collect_results(&mut self, now: Instant) {
        for (from, outcome) in self.network.data_plane_mut().1.take_host_events() {
            let HostEvent::Ping(ping) = outcome else { continue };
            if ping.rtt.is_none() {
                continue;
            }
            let before = self.due.len();
            self.due.retain(|&(_, source), _| source != from);
            if self.due.len() < before {
                self.progress.first_replies.push(now - self.started_at);
            }
        }
    }

    /// The progress so far.
    pub fn progress(&self) -> &StartupProgress {
        &self.progress
    }

    /// The network.
    pub fn network(&self) -> &LiveNetwork {
        &self.network
    }
}
