//! Finds silent hosts of an unmanaged segment that was separated into parts.
//!
//! The hosts of a segment are known at its designated port. When another of its ports turns out to lead to a part of its own, they are
//! asked there. One that answers is taken for a host that moves: it is asked at the designated port, too.

use std::collections::BTreeMap;

use sluice_openflow::DatapathId;
use sluice_sdk::Network;
use sluice_sdk::view::{HostId, PortInfo, PortRole, SwitchPort};

use super::frames::AGEING_PROBE_MAC;
use super::{Hosts, last_addrs};
use crate::port_map::remove_switch;

/// Hosts that are asked at a port per tick. Their claims to be there last for less than one, and a port may have 64.
const HOSTS_PER_TICK: usize = 32;

/// Ports at which hosts are asked at the same time.
const PORTS_PER_TICK: usize = 8;

/// How often all hosts are asked, as a probe may be lost.
const PASSES: u8 = 2;

/// The segments of the network, and the searches for their hosts at ports of this worker.
#[derive(Debug, Default)]
pub(super) struct SegmentSplits {
    /// The designated port of the segment that a port leads to, or led to before its role became pending.
    designated: BTreeMap<SwitchPort, SwitchPort>,
    searches: BTreeMap<SwitchPort, Search>,
}

/// Asks the hosts that are known at one port at another.
#[derive(Debug, Clone, Copy)]
struct Search {
    known_at: SwitchPort,
    /// The last host that was asked.
    asked: Option<HostId>,
    passes_left: u8,
}

impl SegmentSplits {
    /// Handles a port that may lead to another segment than before; `is_local` if its switch is one of this worker.
    pub(super) fn on_port(&mut self, at: SwitchPort, port: Option<&PortInfo>, is_local: bool) {
        let role = port.filter(|port| port.is_up).map(|port| port.role);
        let before = match role {
            Some(PortRole::Pending) => return,
            Some(PortRole::SharedSegment(designated)) => self.designated.insert(at, designated),
            Some(PortRole::Edge | PortRole::Link | PortRole::Bundle(_)) | None => {
                self.designated.remove(&at)
            }
        };
        self.searches.remove(&at);
        let can_have_hosts =
            matches!(role, Some(PortRole::Edge)) || role == Some(PortRole::SharedSegment(at));
        let known_at = before.filter(|&before| before != at && can_have_hosts);
        if let Some(known_at) = known_at.filter(|_| is_local) {
            self.searches.insert(at, Search { known_at, asked: None, passes_left: PASSES });
        }
    }

    /// Forgets the ports of a switch that has disconnected.
    pub(super) fn on_switch_removed(&mut self, id: DatapathId) {
        remove_switch(&mut self.designated, id);
        remove_switch(&mut self.searches, id);
    }
}

impl Hosts {
    /// Asks the next hosts of segments that were separated.
    pub(super) fn search_split_segments(&mut self, network: &mut Network) {
        let has_room = |at: &SwitchPort| !self.without_room.contains(&at.switch);
        let searches = self.segment_splits.searches.iter();
        let next: Vec<_> = searches
            .filter(|(at, _)| has_room(at))
            .map(|(&at, &search)| (at, search))
            .take(PORTS_PER_TICK)
            .collect();
        for (at, mut search) in next {
            let hosts = network.view().hosts_at_after(search.known_at, search.asked);
            let hosts: Vec<_> = hosts.take(HOSTS_PER_TICK).map(|(id, _)| id).collect();
            for &id in &hosts {
                for addr in last_addrs(id, network.view()) {
                    self.send_probe(AGEING_PROBE_MAC, (id, at), addr, network);
                }
            }
            search.asked = hosts.last().copied();
            search.passes_left -= u8::from(search.asked.is_none());
            if search.passes_left == 0 {
                self.segment_splits.searches.remove(&at);
            } else {
                self.segment_splits.searches.insert(at, search);
            }
        }
    }
}
