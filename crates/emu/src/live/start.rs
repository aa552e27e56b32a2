//! How long a network takes from its first connection until every host reaches another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::Outcome;
use crate::net::Family;

use super::{Live, LiveError};

/// Between two pings of a host that has had no answer.
const AGAIN: Duration = Duration::from_secs(1);

/// How long an answer may take: more than some round trips to a controller on the other side of the world.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How far a network has come, in time since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// When the controller knew every switch; `None` as long as it does not.
    pub known: Option<Duration>,
    /// When each host that was answered had its first answer, the earliest first.
    pub reached: Vec<Duration>,
    /// Hosts that ask: all of them, where there are two.
    pub hosts: usize,
}

impl Progress {
    /// Whether the controller knows every switch, and every host was answered.
    pub fn is_whole(&self) -> bool {
        self.known.is_some() && self.reached.len() == self.hosts
    }

    /// When half of them had been answered.
    pub fn half(&self) -> Option<Duration> {
        self.reached.get(self.hosts.div_ceil(2).saturating_sub(1)).copied()
    }

    /// When all of them had been.
    pub fn all(&self) -> Option<Duration> {
        self.reached.get(self.hosts.saturating_sub(1)).copied()
    }
}

/// A network that starts, in which every host pings the next one once a second until it has an answer, from the first
/// moment on. Each has its own time in the second, and both know each other's addresses: nobody waits for anything but
/// the network, and what is asked leaves room on the control links.
#[derive(Debug)]
pub struct Start {
    live: Live,
    began: Instant,
    /// When a host pings next, and who whom.
    due: BTreeMap<(Instant, usize), IpAddr>,
    progress: Progress,
}

impl Start {
    /// Pings in `live`, every host the next one and the last one the first.
    ///
    /// # Errors
    /// As [`Live::turn`].
    pub fn new(mut live: Live) -> Result<Self, LiveError> {
        let (began, hosts) = (live.now(), live.fabric().topology().hosts.clone());
        let n = if hosts.len() < 2 { 0 } else { hosts.len() };
        let every = AGAIN / u32::try_from(n).unwrap_or(u32::MAX).max(1);
        let (mut due, mut at) = (BTreeMap::new(), began);
        for (from, asks) in hosts.iter().enumerate().take(n) {
            let to = (from + 1) % n;
            let Some(asked) = hosts.get(to) else { continue };
            let [ip, own] = [asked, asks].map(|host| Family::V4.of(host));
            live.fabric_mut().1.introduce(began, from, (ip, asked.mac))?;
            live.fabric_mut().1.introduce(began, to, (own, asks.mac))?;
            due.insert((at, from), ip);
            at += every;
        }
        let progress = Progress { hosts: n, ..Progress::default() };
        Ok(Self { live, began, due, progress })
    }

    /// One turn of the network, until `until` at the latest.
    ///
    /// # Errors
    /// As [`Live::turn`].
    pub fn turn(&mut self, until: Instant) -> Result<Instant, LiveError> {
        let next = self.due.first_key_value().map_or(until, |(&(at, _), _)| at.min(until));
        let now = self.live.turn(Some(next))?;
        self.hear(now);
        if self.progress.known.is_none()
            && self.live.known() == self.live.fabric().topology().switches.len()
        {
            self.progress.known = Some(now - self.began);
        }
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            let ((at, from), to) = entry.remove_entry();
            self.live.fabric_mut().1.ping(now, from, to, TIMEOUT)?;
            self.due.insert((at + AGAIN, from), to);
        }
        Ok(now)
    }

    /// Takes out who has an answer.
    fn hear(&mut self, now: Instant) {
        for (from, outcome) in self.live.fabric_mut().1.take_outcomes() {
            let Outcome::Ping(ping) = outcome else { continue };
            if ping.took.is_none() {
                continue;
            }
            let before = self.due.len();
            self.due.retain(|&(_, asks), _| asks != from);
            if self.due.len() < before {
                self.progress.reached.push(now - self.began);
            }
        }
    }

    /// How far it has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The network.
    pub fn live(&self) -> &Live {
        &self.live
    }
}
