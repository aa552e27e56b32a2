//! What is counted and reported.

use std::time::{Duration, Instant};

use sluice_sdk::{AppMetric, Network};

/// How often the same is reported.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// A number, and when it was last worth a line of the log.
#[derive(Debug, Default)]
pub(super) struct Tally {
    count: u64,
    said: Option<Instant>,
}

impl Tally {
    pub(super) const fn count(&mut self) {
        self.count += 1;
    }

    /// Counts it, and reports it unless that was done a moment ago.
    pub(super) fn report(
        &mut self,
        now: Instant,
        network: &mut Network,
        sentence: impl FnOnce() -> String,
    ) {
        self.count += 1;
        if self.said.is_none_or(|said| now.saturating_duration_since(said) >= REPORT_EVERY) {
            self.said = Some(now);
            network.report(sentence);
        }
    }
}

macro_rules! counts {
    ($($name:ident: $metric:literal, $doc:literal;)*) => {
        /// What is counted.
        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $(#[doc = $doc] pub(super) $name: Tally,)*
        }

        impl Counts {
            pub(super) fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
                $(put(AppMetric::counter($metric, $doc, self.$name.count));)*
            }
        }
    };
}

counts! {
    moved: "hosts_moved", "Hosts that were seen at another port";
    aged: "hosts_aged", "Hosts that were forgotten because they were silent";
    probes: "hosts_probes", "Questions whether a host is there";
    answered: "hosts_answered", "ARP and neighbour requests that were answered";
    full: "hosts_refused_full", "Frames of hosts that were not learnt because too many are known";
    port_full: "hosts_refused_port_full", "Frames of hosts that were not learnt because too many are at the port";
    own: "hosts_refused_own", "Frames with the address of a port of a switch as their source";
    addrs_full: "hosts_refused_addresses", "Addresses that were not learnt because the host has too many";
    held: "hosts_held", "Frames of hosts that moved too often and are held where they were";
    contested: "hosts_contested", "Hosts and addresses that were claimed while they were elsewhere";
    refused: "hosts_refused_claims", "Frames dropped because they claim what another host may have";
    storms: "hosts_requests_dropped", "ARP and neighbour discovery frames beyond the limit of their port";
}
