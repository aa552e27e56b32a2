//! A host that sends frames with made-up source addresses.

use sluice_emu::net::NetworkError;
use sluice_sdk::Network;

use super::*;

/// In one of so many networks.
const FLOODS_ODDS: u32 = 5;

/// Frames that are sent at once.
const FRAMES: u32 = 300;

/// Hosts that are known at one port at most.
const HOSTS_PER_PORT_MAX: u32 = 64;

/// Longer than hosts that were removed are remembered.
const FORGETTING_TIME: Duration = Duration::from_secs(75);

/// The frames of the host, if there is one.
#[derive(Debug)]
pub(super) struct MadeUpHosts {
    rng: Rng,
    pub(super) are_planned: bool,
    sent: u32,
    /// Hosts that a worker knew while the frames were sent, at most.
    known: usize,
}

impl MadeUpHosts {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(31) ^ 0xf100d);
        let are_planned = rng.below(FLOODS_ODDS) == 0;
        Self { rng, are_planned, sent: 0, known: 0 }
    }

    /// Sends frames, each from another source, to an address that nobody has. Notes how many hosts are known after earlier ones.
    pub(super) fn send(&mut self, net: &mut ChainSimulation) -> Result<(), NetworkError> {
        let known = net.controller().networks().map(|network| network.view().host_count()).max();
        self.known = self.known.max(known.unwrap_or_default());
        let host = pick(&mut self.rng, net.data_plane().topology().hosts.len());
        for _ in 0..if self.are_planned { FRAMES } else { 0 } {
            self.sent += 1;
            let [.., a, b] = self.sent.to_be_bytes();
            let frame = [&[2, 0, 0, 0, 0, 99], &[2, 0xee, 0, 0, a, b][..], &[0x88, 0xb7], &[0; 46]];
            net.send_frame(host, frame.concat())?;
        }
        Ok(())
    }

    /// Makes the limit of hosts at a port small.
    pub(super) fn configure(&self, config: &mut Config) {
        if self.are_planned {
            config.hosts.per_port_max = HOSTS_PER_PORT_MAX;
        }
    }

    /// How many hosts may be known besides those that exist: one host sends in each of five rounds.
    pub(super) fn known_max(&self) -> usize {
        if self.are_planned { 5 * HOSTS_PER_PORT_MAX as usize } else { 0 }
    }

    /// Checks that what is known of made-up hosts is bounded, after those that were removed have been forgotten.
    pub(super) fn check(&self, net: &mut ChainSimulation) -> Result<(), String> {
        if !self.are_planned {
            return Ok(());
        }
        let hosts = net.data_plane().topology().hosts.len();
        if self.known > hosts + self.known_max() {
            return Err(format!("{} known of {hosts} hosts", self.known));
        }
        net.run_for(FORGETTING_TIME).map_err(|e| e.to_string())?;
        for view in net.controller().networks().map(Network::view) {
            let entries = view.host_entry_count();
            if entries > hosts + self.known_max() {
                return Err(format!("{entries} entries for {hosts} hosts"));
            }
        }
        Ok(())
    }
}
