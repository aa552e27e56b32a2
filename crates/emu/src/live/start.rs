//! How long a network takes from its first connection until everybody reaches everybody.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::Outcome;
use crate::net::{Family, Pings};

use super::{Live, LiveError};

/// Between two pings of a pair that has had no answer.
const AGAIN: Duration = Duration::from_secs(1);

/// How long an answer may take: more than some round trips to a controller on the other side of the world.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How far a network has come, in time since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// When the controller knew every switch; `None` as long as it does not.
    pub known: Option<Duration>,
    /// When each pair that was answered had its first answer, the earliest first.
    pub reached: Vec<Duration>,
    /// Pairs that there are.
    pub pairs: usize,
}

impl Progress {
    /// Whether the controller knows every switch, and every pair was answered.
    pub fn is_whole(&self) -> bool {
        self.known.is_some() && self.reached.len() == self.pairs
    }

    /// When half of all pairs had been answered.
    pub fn half(&self) -> Option<Duration> {
        self.reached.get(self.pairs.div_ceil(2).saturating_sub(1)).copied()
    }

    /// When all of them had been.
    pub fn all(&self) -> Option<Duration> {
        self.reached.get(self.pairs.saturating_sub(1)).copied()
    }
}

/// A network that starts, in which every pair of hosts pings once a second until it has an answer, from the first moment
/// on. Each pair has its own time in the second.
#[derive(Debug)]
pub struct Start {
    live: Live,
    began: Instant,
    /// When a pair pings next, and who to whom.
    due: BTreeMap<(Instant, usize), (usize, IpAddr)>,
    progress: Progress,
}

impl Start {
    /// Pings in `live`, in every pair of hosts and both ways.
    pub fn new(live: Live) -> Self {
        let topology = live.fabric().topology();
        let pairs: Vec<_> = Pings::all_pairs(topology).collect();
        let (began, n) = (live.now(), u32::try_from(pairs.len()).unwrap_or(u32::MAX).max(1));
        let due = pairs.iter().enumerate().filter_map(|(at, &(from, to))| {
            let to = Family::V4.of(topology.hosts.get(to)?);
            let own = AGAIN.mul_f64(f64::from(u32::try_from(at).ok()?) / f64::from(n));
            Some(((began + own, at), (from, to)))
        });
        let due = due.collect();
        let progress = Progress { pairs: pairs.len(), ..Progress::default() };
        Self { live, began, due, progress }
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
            let ((at, pair), (from, to)) = entry.remove_entry();
            self.live.fabric_mut().1.ping(now, from, to, TIMEOUT)?;
            self.due.insert((at + AGAIN, pair), (from, to));
        }
        Ok(now)
    }

    /// Takes pairs that have an answer out.
    fn hear(&mut self, now: Instant) {
        for (from, outcome) in self.live.fabric_mut().1.take_outcomes() {
            let Outcome::Ping(ping) = outcome else { continue };
            if ping.took.is_none() {
                continue;
            }
            let before = self.due.len();
            self.due.retain(|_, &mut pair| pair != (from, ping.to));
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
