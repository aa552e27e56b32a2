//! Hosts that claim the addresses of others, and hosts that move without any sign.

use sluice_emu::net::NetworkError;
use sluice_sdk::Network;
use sluice_testkit::claims::{arp, claim, misplaced_host};

use super::*;

/// In one of so many networks hosts claim the addresses of others.
const LIES_ODDS: u32 = 4;

/// In one of so many networks hosts move silently.
const SILENT_MOVES_ODDS: u32 = 4;

/// Claims that are sent at once while faults occur, and after they have ended.
const CLAIMS: [u32; 2] = [5, 60];

/// What hosts of a network do that a controller must not believe, or cannot notice at once.
#[derive(Debug)]
pub(super) struct Lies {
    rng: Rng,
    /// Whether hosts claim the addresses of others.
    pub(super) are_planned: bool,
    /// Whether hosts move silently.
    pub(super) has_silent_moves: bool,
}

impl Lies {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(19) ^ 0x11e5);
        let (are_planned, has_silent_moves) =
            (rng.below(LIES_ODDS) == 0, rng.below(SILENT_MOVES_ODDS) == 0);
        Self { rng, are_planned, has_silent_moves }
    }

    /// Schedules moves to the last port of switches, each of which is used once.
    pub(super) fn schedule_moves(&mut self, net: &mut ChainSimulation) {
        if !self.has_silent_moves {
            return;
        }
        let (n_hosts, start) = (net.data_plane().topology().hosts.len(), net.now());
        let switches: Vec<_> = (0..net.data_plane().topology().switches.len()).collect();
        for switch in switches {
            if self.rng.below(3) > 0 {
                continue;
            }
            let Some(to) = net.data_plane().last_port(switch) else { continue };
            let host = pick(&mut self.rng, n_hosts);
            let at = start + Duration::from_millis(self.rng.below(FAULTS_MS + 12_000).into());
            net.schedule(at, NetworkChange::MoveHostSilently(host, to));
        }
    }

    /// Has hosts claim addresses of others.
    pub(super) fn send(&mut self, net: &mut ChainSimulation) -> Result<(), NetworkError> {
        if !self.are_planned {
            return Ok(());
        }
        (0..CLAIMS[0]).try_for_each(|_| self.send_one(net))
    }

    fn send_one(&mut self, net: &mut ChainSimulation) -> Result<(), NetworkError> {
        let hosts = &net.data_plane().topology().hosts;
        let [liar, victim] = [(); 2].map(|()| pick(&mut self.rng, hosts.len()));
        if let [Some(from), Some(of)] = [liar, victim].map(|host| hosts.get(host))
            && from.vlan == of.vlan
            && from.mac != of.mac
        {
            let frame = claim(&mut self.rng, from, of);
            net.send_frame(liar, frame)?;
        }
        Ok(())
    }

    /// Has all hosts announce themselves, since a host that was not reachable may have lost its address to another. If hosts have moved
    /// silently, each host sends a packet to an unknown host, from which the controller learns where it is: of those that follow within
    /// 100 ms, the controller drops all.
    pub(super) fn correct(&self, net: &mut ChainSimulation) -> Result<(), NetworkError> {
        if self.has_silent_moves {
            let hosts = net.data_plane().topology().hosts.clone();
            for (n, host) in hosts.iter().enumerate() {
                let frame = [&[2, 0, 0, 0, 0, 99], &host.mac.0[..], &[0x88, 0xb7], &[0; 46]];
                net.send_frame(n, frame.concat())?;
            }
            net.run_for(Duration::from_secs(5))?;
        }
        if self.are_planned { announce_all(net) } else { Ok(()) }
    }

    /// Checks that no claim has an effect: at any time if hosts can answer probes in time, otherwise after a while.
    pub(super) fn check(
        &mut self,
        net: &mut ChainSimulation,
        answers_in_time: bool,
        made_up_max: usize,
    ) -> Result<(), String> {
        announce_all(net).map_err(|e| e.to_string())?;
        check_hosts(net, made_up_max)?;
        if !self.are_planned {
            return Ok(());
        }
        for _ in 0..CLAIMS[1] {
            self.send_one(net).map_err(|e| e.to_string())?;
            let time = Duration::from_millis(self.rng.below(10).into());
            net.run_for(time).map_err(|e| e.to_string())?;
            if answers_in_time {
                check_hosts(net, made_up_max)?;
            }
        }
        net.run_for(Duration::from_secs(12)).map_err(|e| e.to_string())?;
        self.correct(net).map_err(|e| e.to_string())?;
        check_hosts(net, made_up_max)?;
        self.take_over_from_unreachable(net).map_err(|e| e.to_string())?;
        self.correct(net).map_err(|e| e.to_string())?;
        check_hosts(net, made_up_max)
    }

    /// Has a host claim the IP address of one whose link loses everything for a while, so that it cannot answer probes.
    fn take_over_from_unreachable(
        &mut self,
        net: &mut ChainSimulation,
    ) -> Result<(), NetworkError> {
        let hosts = net.data_plane().topology().hosts.clone();
        let [liar, victim] = [(); 2].map(|()| pick(&mut self.rng, hosts.len()));
        let [Some(from), Some(of)] = [liar, victim].map(|host| hosts.get(host)) else {
            return Ok(());
        };
        if from.vlan != of.vlan || from.mac == of.mac {
            return Ok(());
        }
        let working = LinkImpairments { delay: LINK_DELAY, ..LinkImpairments::default() };
        let silent = LinkImpairments { loss: LossRatio::from_ppm(1_000_000), ..working };
        let link = net.data_plane().host_link(victim);
        net.apply(NetworkChange::SetLinkImpairments(link, silent))?;
        net.send_frame(liar, arp(from.mac, of.ipv4, true))?;
        net.run_for(Duration::from_secs(8))?;
        net.apply(NetworkChange::SetLinkImpairments(link, working))
    }
}

/// Has all hosts announce their addresses.
fn announce_all(net: &mut ChainSimulation) -> Result<(), NetworkError> {
    for host in 0..net.data_plane().topology().hosts.len() {
        let (now, data_plane) = net.data_plane_mut();
        data_plane.announce(now, host)?;
    }
    net.run_for(Duration::from_secs(5))
}

/// Checks that all workers know exactly the hosts that exist, each at its port and as the owner of its address, and at most
/// `made_up_max` others.
fn check_hosts(net: &ChainSimulation, made_up_max: usize) -> Result<(), String> {
    let hosts = net.data_plane().topology().hosts.len();
    for view in net.controller().networks().map(Network::view) {
        if let Some(misplaced) = misplaced_host(net.data_plane(), view) {
            return Err(misplaced);
        }
        let known = view.host_count();
        if known < hosts || known > hosts + made_up_max {
            return Err(format!("{known} hosts are known, but {hosts} exist"));
        }
    }
    Ok(())
}
