//! A host that sends frames with made-up source addresses.

use sluice_emu::net::NetworkError;
use sluice_sdk::Network;

use super::*;

/// In one of so many networks.
const FLOODS_ODDS: u32 = 5;

/// Frames that are sent at once.
const FRAMES: u32 = 300;

/// Hosts that are known at one port at most, by default: `hosts.per_port_max`.
const HOSTS_PER_PORT_MAX: usize = 1024;

/// The frames of the host, if there is one.
#[derive(Debug)]
pub(super) struct MadeUpHosts {
    rng: Rng,
    pub(super) are_planned: bool,
    sent: u32,
}

impl MadeUpHosts {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(31) ^ 0xf100d);
        let are_planned = rng.below(FLOODS_ODDS) == 0;
        Self { rng, are_planned, sent: 0 }
    }

    /// Sends frames, each from another source, to an address that nobody has.
    pub(super) fn send(&mut self, net: &mut ChainSimulation) -> Result<(), NetworkError> {
        let host = pick(&mut self.rng, net.data_plane().topology().hosts.len());
        for _ in 0..if self.are_planned { FRAMES } else { 0 } {
            self.sent += 1;
            let [.., a, b] = self.sent.to_be_bytes();
            let frame = [&[2, 0, 0, 0, 0, 99], &[2, 0xee, 0, 0, a, b][..], &[0x88, 0xb7], &[0; 46]];
            net.send_frame(host, frame.concat())?;
        }
        Ok(())
    }

    /// How many hosts may be known besides those that exist.
    pub(super) fn known_max(&self) -> usize {
        let sent = usize::try_from(self.sent).unwrap();
        // Frames are sent from five ports at most.
        sent.min(5 * HOSTS_PER_PORT_MAX)
    }

    /// Checks that what is known of made-up hosts is bounded, including those that were removed.
    pub(super) fn check(&self, net: &ChainSimulation) -> Result<(), String> {
        let hosts = net.data_plane().topology().hosts.len();
        for view in net.controller().networks().map(Network::view) {
            let entries = view.host_entry_count();
            // Hosts that move and return leave no more than these.
            if self.are_planned && entries > hosts + self.known_max() {
                return Err(format!("{entries} entries for {hosts} hosts"));
            }
        }
        Ok(())
    }
}
