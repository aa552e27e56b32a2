//! Rounds of pings between all pairs of hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::HostEvent;
use crate::net::{IpFamily, PingSummary};

use super::{LiveError, LiveNetwork};

/// Rate and timeouts of pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingPacing {
    /// Pings per second, at least 1.
    pub pings_pps: u32,
    /// How long a ping waits for its reply.
    pub timeout: Duration,
    /// Time from when all switches are connected, or from the end of a round, to the first ping of the next round.
    pub round_gap: Duration,
}

impl Default for PingPacing {
    fn default() -> Self {
        Self { pings_pps: 100, timeout: Duration::from_secs(5), round_gap: Duration::from_secs(1) }
    }
}

/// The status of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkStatus {
    /// Number of switches whose handshake is complete.
    pub connected_switches: usize,
    /// Number of complete rounds.
    pub rounds: u32,
    /// Pings sent.
    pub pings_sent: u64,
    /// Pings answered.
    pub pings_answered: u64,
    /// Pings lost.
    pub pings_lost: u64,
    /// Longest round-trip time.
    pub rtt_max: Duration,
    /// Packet-ins sent by all switches.
    pub packet_ins: u64,
    /// Flow entries in all switches.
    pub flow_entries: usize,
    /// Most copies of one frame within a second.
    pub frame_copies_max: u64,
}

/// A network in which all pairs of hosts ping.
#[derive(Debug)]
pub struct PingRounds {
    network: LiveNetwork,
    pacing: PingPacing,
    pairs: Vec<(usize, usize)>,
    /// The next pair of this round.
    next_pair: usize,
    /// When it pings; `None` while switches are not connected.
    next_ping_at: Option<Instant>,
    outstanding: BTreeMap<(usize, IpAddr), usize>,
    /// Pairs whose ping was lost, as indices of hosts.
    lost_in_this_round: Vec<(usize, usize)>,
    lost_in_last_round: Vec<(usize, usize)>,
    status: NetworkStatus,
}

impl PingRounds {
    /// Pings between all pairs of hosts of `network`, in both directions.
    pub fn new(network: LiveNetwork, pacing: PingPacing) -> Self {
        let pairs = PingSummary::all_pairs(network.data_plane().topology()).collect();
        Self {
            network,
            pacing,
            pairs,
            next_pair: 0,
            next_ping_at: None,
            outstanding: BTreeMap::new(),
            lost_in_this_round: Vec::new(),
            lost_in_last_round: Vec::new(),
            status: NetworkStatus::default(),
        }
    }

    /// One iteration of the event loop, until `until` at the latest.
    ///
    /// # Errors
    /// As [`LiveNetwork::run_once`].
    pub fn run_once(&mut self, until: Option<Instant>) -> Result<Instant, LiveError> {
        // Outstanding pings wake the event loop by themselves.
        let next = self
            .next_ping_at
            .filter(|_| self.next_pair < self.pairs.len() || self.outstanding.is_empty());
        let until = until.into_iter().chain(next).min();
        let now = self.network.run_once(until)?;
        self.collect_results();
        let all = self.network.data_plane().topology().switches.len();
        if self.next_ping_at.is_none() && self.network.connected_switches() == all {
            self.next_ping_at = Some(now + self.pacing.round_gap);
        }
        while let Some(next) = self.next_ping_at.filter(|&next| next <= now)
            && let Some(&(from, to)) = self.pairs.get(self.next_pair)
        {
            self.ping(now, from, to)?;
            self.next_pair += 1;
            self.next_ping_at = Some(next + Duration::from_secs(1) / self.pacing.pings_pps.max(1));
        }
        let is_asked = self.next_pair >= self.pairs.len();
        if is_asked
            && self.outstanding.is_empty()
            && self.next_ping_at.is_some_and(|next| next <= now)
        {
            self.end_round(now);
        }
        Ok(now)
    }

    fn ping(&mut self, now: Instant, from: usize, to: usize) -> Result<(), LiveError> {
        let (_, data_plane) = self.network.data_plane_mut();
        let host = data_plane.topology().hosts.get(to);
        let Some(ip) = host.map(|host| IpFamily::V4.address_of(host)) else { return Ok(()) };
        if self.outstanding.insert((from, ip), to).is_none() {
            self.status.pings_sent += 1;
            data_plane.ping(now, from, ip, self.pacing.timeout)?;
        }
        Ok(())
    }

    fn collect_results(&mut self) {
        for (from, outcome) in self.network.data_plane_mut().1.take_host_events() {
            let HostEvent::Ping(ping) = outcome else { continue };
            let Some(to) = self.outstanding.remove(&(from, ping.to)) else { continue };
            if let Some(took) = ping.rtt {
                self.status.pings_answered += 1;
                self.status.rtt_max = self.status.rtt_max.max(took);
            } else {
                self.status.pings_lost += 1;
                self.lost_in_this_round.push((from, to));
            }
        }
    }

    fn end_round(&mut self, now: Instant) {
        if !self.pairs.is_empty() {
            self.status.rounds += 1;
        }
        self.lost_in_last_round = std::mem::take(&mut self.lost_in_this_round);
        self.next_pair = 0;
        self.next_ping_at = Some(now + self.pacing.round_gap);
    }

    /// The current status.
    ///
    /// # Cost
    /// Linear in the number of switches.
    pub fn status(&self) -> NetworkStatus {
        let data_plane = self.network.data_plane();
        let switches =
            || (0..data_plane.topology().switches.len()).filter_map(|n| data_plane.switch(n));
        NetworkStatus {
            connected_switches: self.network.connected_switches(),
            packet_ins: switches().map(|switch| switch.counters().packet_ins).sum(),
            flow_entries: switches().map(crate::switch::EmulatedSwitch::flow_entry_count).sum(),
            frame_copies_max: data_plane.frame_copies_max(),
            ..self.status
        }
    }

    /// Number of complete rounds.
    pub fn completed_rounds(&self) -> u32 {
        self.status.rounds
    }

    /// Pairs whose ping was lost in the last complete round, as indices of hosts.
    pub fn lost_in_last_round(&self) -> &[(usize, usize)] {
        &self.lost_in_last_round
    }

    /// Pairs whose ping has been lost in this round so far, as indices of hosts.
    pub fn lost_in_this_round(&self) -> &[(usize, usize)] {
        &self.lost_in_this_round
    }

    /// Number of pings in a round.
    pub fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// The network.
    pub fn network(&self) -> &LiveNetwork {
        &self.network
    }

    /// The network, to change links.
    pub fn network_mut(&mut self) -> &mut LiveNetwork {
        &mut self.network
    }
}
