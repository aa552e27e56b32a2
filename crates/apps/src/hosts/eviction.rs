//! Removes unconfirmed hosts from full ports and from a full table, so that new hosts can be learned.
//!
//! A host is confirmed when it has answered a probe. Before a host with an address is evicted, it is probed, so that no host
//! that answers is ever evicted. Whoever makes up hosts evicts only those, and must answer for each that is to stay.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_sdk::Network;
use sluice_sdk::view::{AppRecord, HostId, SwitchPort};

use super::counters::PortFields;
use super::host_table::CandidateState;
use super::{Hosts, control_delay};

/// How long a candidate may take to answer a probe, in addition to the time that the probe needs to its switch and back.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// Candidates that are examined for one new host.
const CANDIDATES_MAX: usize = 8;

/// Hosts that are evicted from the fullest port in one tick, four times a second.
const EVICTIONS_PER_TICK_MAX: usize = 128;

/// The share of the table that is kept free for new hosts, as long as there are unconfirmed hosts.
const FREE_SHARE: usize = 64;

/// Time between two log lines about a port.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The port with the most unconfirmed hosts of a worker, published while the table is nearly full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FullestPort {
    unconfirmed: usize,
    at: SwitchPort,
}

impl AppRecord for FullestPort {
    /// The worker.
    type Key = usize;
}

/// The ports from which hosts were evicted.
#[derive(Debug, Default)]
pub(super) struct EvictionLog(BTreeMap<SwitchPort, LoggedEvictions>);

#[derive(Debug)]
struct LoggedEvictions {
    /// When the last line was logged.
    since: Instant,
    /// Evictions since then.
    count: u64,
}

impl EvictionLog {
    /// Counts an eviction from a port, and logs the first one.
    fn count(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        self.0.entry(at).and_modify(|port| port.count += 1).or_insert_with(|| {
            let port = PortFields(at);
            network.report(|| {
                format!(
                    "hosts that did not answer a probe are evicted: their port or the host table is full \
                     {port}"
                )
            });
            LoggedEvictions { since: now, count: 1 }
        });
    }

    /// Logs how many hosts were evicted from each port since its last line. Returns the ports without evictions since then.
    fn tick(&mut self, now: Instant, network: &mut Network) -> Vec<SwitchPort> {
        let mut ended = Vec::new();
        self.0.retain(|&at, port| {
            if now.saturating_duration_since(port.since) < LOG_INTERVAL {
                return true;
            }
            let count = std::mem::take(&mut port.count);
            port.since = now;
            if count > 0 {
                let port = PortFields(at);
                network.report(|| format!("hosts evicted in a minute: count={count} {port}"));
            }
            if count == 0 {
                ended.push(at);
            }
            count > 0
        });
        ended
    }
}

impl Hosts {
    /// Whether the new host `id` may be learned at a port. If the port has `hosts.per_port_max` hosts, an unconfirmed one is
    /// evicted.
    pub(super) fn make_room(
        &mut self,
        id: HostId,
        at: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) -> bool {
        let max = self.cfg.per_port_max as usize;
        if max == 0 || self.table.count_at(at) < max {
            return true;
        }
        let may_evict = self.table.port_mut(at).is_some_and(|port| port.may_evict_for(id, now))
            && self.may_remember_eviction(network);
        if may_evict && self.evict_one(at, now, network) {
            if let Some(port) = self.table.port_mut(at) {
                port.on_evicted_for(id);
            }
            // There may have been more than a new limit allows.
            if self.table.count_at(at) < max {
                return true;
            }
        }
        if let Some(port) = self.table.port_mut(at) {
            port.on_refused(id);
        }
        self.report_port_full(id, at, now, network);
        false
    }

    /// Whether the network view has room for removed hosts. When it has none, no host can be learned anywhere.
    fn may_remember_eviction(&self, network: &Network) -> bool {
        let max = self.cfg.hosts_max as usize;
        network.view().host_entry_count() < max.saturating_add(max / 2)
    }

    /// Evicts an unconfirmed host from a port, or probes those that have to be probed before.
    fn evict_one(&mut self, at: SwitchPort, now: Instant, network: &mut Network) -> bool {
        let answer_time = ANSWER_TIMEOUT + 2 * control_delay::of(at.switch, network.view());
        let takes_probes = !self.without_room.contains(&at.switch);
        let (mut after, mut seen_again, mut evicted) = (None, None, None);
        for _ in 0..CANDIDATES_MAX {
            let Some((order, id)) = self.table.candidate_after(at, after) else { break };
            after = Some(order);
            match self.table.candidate_state(id, now, answer_time, network.fast_path_hosts()) {
                CandidateState::ProbePending => {}
                CandidateState::NotProbed => {
                    if takes_probes && self.probe_host(id, network) {
                        self.table.queue_again(id, true, now);
                    }
                }
                CandidateState::SeenAgain => {
                    seen_again.get_or_insert(id);
                    self.table.queue_again(id, false, now);
                }
                CandidateState::Silent => {
                    evicted = Some(id);
                    break;
                }
            }
        }
        let Some(id) = evicted.or(seen_again) else { return false };
        self.counters.evicted.count();
        self.eviction_log.count(at, now, network);
        self.remove_host(id, now, network);
        true
    }

    /// The worker of the published port may be another one soon.
    pub(super) fn withdraw_fullest_port(now: Instant, network: &mut Network) {
        let worker = network.worker();
        network.publish_record::<FullestPort>(now, worker, None);
    }

    /// While the table is nearly full, evicts hosts from the port with the most unconfirmed hosts of all workers.
    pub(super) fn relieve_table(&mut self, now: Instant, network: &mut Network) {
        for at in self.eviction_log.tick(now, network) {
            self.table.forget_evictions(at);
        }
        let max = self.cfg.hosts_max as usize;
        let target = (max - max / FREE_SHARE).saturating_sub(1);
        if network.view().host_count() <= target {
            return Self::withdraw_fullest_port(now, network);
        }
        let own =
            self.table.fullest_port().map(|(unconfirmed, at)| FullestPort { unconfirmed, at });
        network.publish_record(now, network.worker(), own);
        let fullest = network.view().records::<FullestPort>().map(|(_, port)| *port).max();
        let Some(own) = own.filter(|_| own == fullest) else { return };
        for _ in 0..EVICTIONS_PER_TICK_MAX {
            if network.view().host_count() <= target || !self.may_remember_eviction(network) {
                break;
            }
            self.evict_one(own.at, now, network);
        }
    }
}
