//! Metrics and log lines.

use std::fmt;
use std::time::{Duration, Instant};

use sluice_sdk::view::{HostId, SwitchPort};
use sluice_sdk::{AppMetric, Network};

/// Time between two log lines of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A counter whose events may be logged.
#[derive(Debug, Default)]
pub(super) struct EventCounter {
    count: u64,
    last_log: Option<Instant>,
}

impl EventCounter {
    pub(super) const fn get(&self) -> u64 {
        self.count
    }

    pub(super) const fn count(&mut self) {
        self.count += 1;
    }

    /// Counts an event, and logs it unless one was logged within the last [`LOG_INTERVAL`]. Returns whether it is logged.
    pub(super) fn report(
        &mut self,
        now: Instant,
        network: &mut Network,
        line: impl FnOnce() -> String,
    ) -> bool {
        self.count += 1;
        let is_due =
            self.last_log.is_none_or(|at| now.saturating_duration_since(at) >= LOG_INTERVAL);
        if is_due {
            self.last_log = Some(now);
            network.report(line);
        }
        is_due
    }
}

/// The fields `dpid` and `port` of a log line.
pub(super) struct PortFields(pub(super) SwitchPort);

impl fmt::Display for PortFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpid={} port={}", self.0.switch, self.0.port)
    }
}

/// The fields `host` and, unless it is 0, `vlan` of a log line.
pub(super) struct HostFields(pub(super) HostId);

impl fmt::Display for HostFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host={}", self.0.mac)?;
        if self.0.vlan.0 == 0 { Ok(()) } else { write!(f, " vlan={}", self.0.vlan.0) }
    }
}

macro_rules! counters {
    ($($name:ident: $metric:literal, $help:literal;)*) => {
        /// Counters of this worker.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: EventCounter,)*
        }

        impl Counters {
            pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
                $(put(AppMetric::counter($metric, $help, self.$name.count));)*
            }
        }
    };
}

counters! {
    moves: "hosts_moved", "Times a host was seen at a different port";
    expired: "hosts_expired", "Hosts removed because they were silent for too long";
    evicted: "hosts_evicted", "Hosts that did not answer a probe, removed because their port or the host table was full";
    probes: "hosts_probes_sent", "ARP and neighbor discovery probes sent to check that a host is still there";
    answered: "hosts_requests_answered", "ARP requests and neighbor solicitations answered by the controller";
    table_full: "hosts_not_learned_table_full", "Packets of hosts that were not learned because the host table is full";
    port_full: "hosts_not_learned_port_full", "Packets of hosts that were not learned because their port has too many";
    switch_address: "hosts_not_learned_switch_address", "Packets with the MAC address of a switch port as their source";
    addrs_full: "hosts_addresses_not_learned", "IP addresses not learned because their host has too many";
    addrs_replaced: "hosts_addresses_replaced", "IP addresses replaced because their host states a new one and has too many";
    addrs_expired: "hosts_addresses_expired", "IP addresses removed because their host did not state them for too long";
    moves_ignored: "hosts_moves_ignored", "Packets of hosts that move too often and are kept at their last port";
    claims_full: "hosts_claims_not_verified", "Packets with the address of another host that was not verified as their port has too many claims";
    conflicts: "hosts_conflicts", "Claims of an address whose owner answered a probe";
    spoofed: "hosts_packets_rejected", "Packets dropped because they claim an address that another host may have";
    lacp_ignored: "hosts_lacp_frames_ignored", "LACP frames that are malformed, beyond the limit of their port, from the controller, or change their aggregation too soon";
    rate_limited: "hosts_requests_dropped", "ARP, neighbor discovery and DHCP packets dropped because their port exceeded its limit";
}
