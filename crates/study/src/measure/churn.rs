//! A network that changes while the bench measures other switches.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluice_emu::live::{LiveNetwork, PingPacing, PingRounds};
use sluice_emu::net::{LinkState, NetworkOptions};
use sluice_emu::topology::Topology;
use sluice_io::clock;
use sluice_openflow::Version;

use crate::network::{RECONNECT_DELAY, switch_config};

/// The network: without loops, so that learning switches can be measured.
pub(super) const TOPOLOGY: &str = "tree,2,2";

/// Added to the datapath ids of the bench, so that they are not those of the network.
pub(super) const DPID_OFFSET: u64 = 1 << 16;

/// Longest time between two looks at whether to stop.
const STEP: Duration = Duration::from_millis(10);

/// How long a link stays down: less than the time between two changes of the same link.
const LINK_DOWN: Duration = Duration::from_millis(50);

/// Most changes per second: with more, links would be down most of the time.
pub(crate) const CHANGES_PER_S_MAX: u64 = 40;

/// What a network has done beside a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChurnCounts {
    /// Changes while at least one switch was connected.
    pub(super) changes: usize,
    /// Most switches that were connected at the same time.
    pub(super) connected_most: usize,
    /// Its switches.
    pub(super) switches: usize,
}

/// A network whose hosts ping each other, while links go down and switches lose their connections.
struct ChangingNetwork {
    pings: PingRounds,
    /// Attempts to change something so far.
    attempts: usize,
    /// Changes so far.
    changes: usize,
    /// Most switches that were connected at the same time.
    connected_most: usize,
    /// Links that are down, and until when, earliest first.
    down: VecDeque<(Instant, usize)>,
}

impl ChangingNetwork {
    fn connect(target: SocketAddr, version: Version) -> Result<Self, String> {
        let topology = Topology::from_text(TOPOLOGY).map_err(|error| error.to_string())?;
        let options = NetworkOptions {
            switch: switch_config(version),
            reconnect_delay: RECONNECT_DELAY,
            ..NetworkOptions::default()
        };
        let network = LiveNetwork::connect(target, topology, &options)
            .map_err(|error| format!("the network of the churn could not be started: {error}"))?;
        let pacing = PingPacing { timeout: Duration::from_secs(1), ..PingPacing::default() };
        Ok(Self {
            pings: PingRounds::new(network, pacing),
            attempts: 0,
            changes: 0,
            connected_most: 0,
            down: VecDeque::new(),
        })
    }

    fn run_until(&mut self, until: Instant) -> Result<(), String> {
        let failed = |error| format!("the network of the churn failed: {error}");
        while self.pings.run_once(Some(until)).map_err(failed)? < until {}
        Ok(())
    }

    /// Closes the connection of a switch, or cuts a link, in turn. A change that the controller cannot see, since no switch is connected, does not
    /// count.
    fn change(&mut self, now: Instant) -> Result<(), String> {
        let network = self.pings.network_mut();
        let topology = network.data_plane().topology();
        let (switches, links) = (topology.switches.len(), topology.links.len());
        let connected = network.connected_switches();
        self.connected_most = self.connected_most.max(connected);
        let turn = self.attempts / 2;
        let closes_connection = self.attempts.is_multiple_of(2) || links == 0;
        self.attempts += 1;
        self.changes += usize::from(connected > 0);
        if closes_connection {
            network.close_control_connection(turn % switches.max(1));
        } else {
            let link = turn % links;
            self.down.push_back((now + LINK_DOWN, link));
            self.set_link(link, LinkState::Down)?;
        }
        Ok(())
    }

    fn restore(&mut self, now: Instant) -> Result<(), String> {
        while let Some(&(until, link)) = self.down.front()
            && until <= now
        {
            self.down.pop_front();
            self.set_link(link, LinkState::Up)?;
        }
        Ok(())
    }

    fn set_link(&mut self, link: usize, state: LinkState) -> Result<(), String> {
        let (now, data_plane) = self.pings.network_mut().data_plane_mut();
        data_plane.set_link_state(now, link, state).map_err(|error| error.to_string())
    }
}

/// Changes a network `per_second` times per second until `is_over`.
pub(super) fn run(
    target: SocketAddr,
    version: Version,
    per_second: u32,
    is_over: &AtomicBool,
) -> Result<ChurnCounts, String> {
    let mut network = ChangingNetwork::connect(target, version)?;
    let interval = Duration::from_secs(1) / per_second.max(1);
    let mut next = clock::now() + interval;
    while !is_over.load(Ordering::Relaxed) {
        let now = clock::now();
        network.restore(now)?;
        if next <= now {
            network.change(now)?;
            // What was missed is not made up for at once.
            next = (next + interval).max(now);
        }
        network.run_until(next.min(now + STEP))?;
    }
    Ok(ChurnCounts {
        changes: network.changes,
        connected_most: network.connected_most,
        switches: network.pings.network_mut().data_plane().topology().switches.len(),
    })
}
