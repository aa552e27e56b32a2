//! Every host pings every other one, round after round.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::Outcome;
use crate::net::{Family, Pings};

use super::{Live, LiveError};

/// How pings follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Pings per second, at least 1.
    pub pings_pps: u32,
    /// How long an answer may take.
    pub timeout: Duration,
    /// From when the controller knows every switch, or from the end of a round, to the first ping of the next.
    pub rest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pings_pps: 100, timeout: Duration::from_secs(5), rest: Duration::from_secs(1) }
    }
}

/// What a network looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Glance {
    /// Switches that the controller knows.
    pub known: usize,
    /// Rounds of pings that have ended.
    pub rounds: u32,
    /// Pings that were answered.
    pub answered: u64,
    /// Pings that were not.
    pub lost: u64,
    /// The longest that an answer took in this round, or the last.
    pub slowest: Duration,
    /// Frames that switches sent up.
    pub packet_ins: u64,
    /// Rules that switches have.
    pub rules: usize,
    /// The most copies of one frame within a second.
    pub copies: u64,
}

/// A network in which all pairs ping.
#[derive(Debug)]
pub struct Rounds {
    live: Live,
    pace: Pace,
    pairs: Vec<(usize, usize)>,
    /// The next pair of this round.
    at: usize,
    /// When it pings; `None` while switches are missing.
    next: Option<Instant>,
    open: BTreeMap<(usize, IpAddr), usize>,
    /// Who did not reach whom in this round, and in the last that ended.
    losing: Vec<(usize, usize)>,
    lost: Vec<(usize, usize)>,
    glance: Glance,
}

impl Rounds {
    /// Pings in `live`, in every pair of hosts and both ways.
    pub fn new(live: Live, pace: Pace) -> Self {
        let pairs = Pings::all_pairs(live.fabric().topology()).collect();
        Self {
            live,
            pace,
            pairs,
            at: 0,
            next: None,
            open: BTreeMap::new(),
            losing: Vec::new(),
            lost: Vec::new(),
            glance: Glance::default(),
        }
    }

    /// One turn of the network, until `until` at the latest.
    ///
    /// # Errors
    /// As [`Live::turn`].
    pub fn turn(&mut self, until: Option<Instant>) -> Result<Instant, LiveError> {
        // The last answers, or the end of their time, wake the network by themselves.
        let next = self.next.filter(|_| self.at < self.pairs.len() || self.open.is_empty());
        let until = until.into_iter().chain(next).min();
        let now = self.live.turn(until)?;
        self.hear();
        let all = self.live.fabric().topology().switches.len();
        if self.next.is_none() && self.live.known() == all {
            self.next = Some(now + self.pace.rest);
        }
        while let Some(next) = self.next.filter(|&next| next <= now)
            && let Some(&(from, to)) = self.pairs.get(self.at)
        {
            self.ping(now, from, to)?;
            self.at += 1;
            self.next = Some(next + Duration::from_secs(1) / self.pace.pings_pps.max(1));
        }
        let is_asked = self.at >= self.pairs.len();
        if is_asked && self.open.is_empty() && self.next.is_some_and(|next| next <= now) {
            self.end_round(now);
        }
        Ok(now)
    }

    fn ping(&mut self, now: Instant, from: usize, to: usize) -> Result<(), LiveError> {
        let (_, fabric) = self.live.fabric_mut();
        let host = fabric.topology().hosts.get(to);
        let Some(ip) = host.map(|host| Family::V4.of(host)) else { return Ok(()) };
        if self.open.insert((from, ip), to).is_none() {
            fabric.ping(now, from, ip, self.pace.timeout)?;
        }
        Ok(())
    }

    fn hear(&mut self) {
        for (from, outcome) in self.live.fabric_mut().1.take_outcomes() {
            let Outcome::Ping(ping) = outcome else { continue };
            let Some(to) = self.open.remove(&(from, ping.to)) else { continue };
            if let Some(took) = ping.took {
                self.glance.answered += 1;
                self.glance.slowest = self.glance.slowest.max(took);
            } else {
                self.glance.lost += 1;
                self.losing.push((from, to));
            }
        }
    }

    fn end_round(&mut self, now: Instant) {
        if !self.pairs.is_empty() {
            self.glance.rounds += 1;
        }
        self.lost = std::mem::take(&mut self.losing);
        self.at = 0;
        self.next = Some(now + self.pace.rest);
    }

    /// What it looks like.
    ///
    /// # Cost
    /// A look at every switch.
    pub fn glance(&self) -> Glance {
        let fabric = self.live.fabric();
        let switches = || (0..fabric.topology().switches.len()).filter_map(|n| fabric.switch(n));
        Glance {
            known: self.live.known(),
            packet_ins: switches().map(|switch| switch.counts().packet_ins).sum(),
            rules: switches().map(crate::switch::ModelSwitch::n_entries).sum(),
            copies: fabric.copies(),
            ..self.glance
        }
    }

    /// Rounds that have ended.
    pub fn ended(&self) -> u32 {
        self.glance.rounds
    }

    /// Who did not reach whom in the last round that ended: indices of hosts.
    pub fn lost(&self) -> &[(usize, usize)] {
        &self.lost
    }

    /// Who has not reached whom in this round so far.
    pub fn losing(&self) -> &[(usize, usize)] {
        &self.losing
    }

    /// How many pings a round has.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// The network.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The network, to cut its links.
    pub fn live_mut(&mut self) -> &mut Live {
        &mut self.live
    }
}
