//! Outstanding path requests, and which of their flow entries are installed.

use std::time::{Duration, Instant};

use sluice_openflow::{MacAddr, PortNo};

use super::flow_entry::PathFlowEntry;
use super::wiring::{PortPeer, Wiring};
use super::{Directions, PATH_LEN_MAX};

/// Outstanding path requests, at most one per source.
#[derive(Debug)]
pub(super) struct PathRequests {
    directions: Directions,
    by_source: Vec<PathRequest>,
    n_outstanding: usize,
    /// Hosts for which another host is at the greatest distance.
    sources: Vec<usize>,
    /// The next source, and the offset of its destination.
    next: usize,
    offset: usize,
}

/// The progress of one path request.
#[derive(Debug, Clone, Copy, Default)]
struct PathRequest {
    dst: usize,
    since: Option<Instant>,
    forward: PathHops,
    reverse: PathHops,
    is_delivered: bool,
}

/// Switches with a flow entry for one direction, and its output port.
#[derive(Debug, Clone, Copy, Default)]
struct PathHops {
    len: usize,
    at: [(u32, PortNo); PATH_LEN_MAX],
}

/// The MAC address of a host.
pub(super) fn host_mac(host: usize) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | (host as u64 + 1))
}

fn host_index(mac: MacAddr) -> Option<usize> {
    let number = mac.to_u64().checked_sub(0x0200_0000_0001)?;
    usize::try_from(number).ok()
}

impl PathRequests {
    pub(super) fn new(wiring: &Wiring, directions: Directions) -> Self {
        let by_source = vec![PathRequest::default(); wiring.hosts().len()];
        let hosts = 0..by_source.len();
        let sources = hosts.clone().filter(|&a| hosts.clone().any(|b| wiring.is_far(a, b)));
        Self {
            directions,
            n_outstanding: 0,
            sources: sources.collect(),
            by_source,
            next: 0,
            offset: 1,
        }
    }

    /// Number of outstanding requests.
    pub(super) fn outstanding(&self) -> usize {
        self.n_outstanding
    }

    /// The next source and destination: at the greatest distance, and without an outstanding request in either
    /// direction.
    pub(super) fn start_next(&mut self, wiring: &Wiring, now: Instant) -> Option<(usize, usize)> {
        let sources = self.sources.len();
        // After a few rounds, all remaining hosts have outstanding requests.
        for _ in 0..4 * sources {
            let pair = [self.next, (self.next + self.offset) % sources];
            let [src, dst] = pair.map(|n| self.sources.get(n).copied().unwrap_or(usize::MAX));
            self.next += 1;
            if self.next == sources {
                self.next = 0;
                // After half of the offsets, all pairs have been used.
                self.offset = if self.offset + 1 > (sources - 1) / 2 { 1 } else { self.offset + 1 };
            }
            let reverse = self.by_source.get(dst);
            let reverse_is_outstanding =
                reverse.is_some_and(|request| request.since.is_some() && request.dst == src);
            let Some(request) = self.by_source.get_mut(src) else { continue };
            if request.since.is_none() && !reverse_is_outstanding && wiring.is_far(src, dst) {
                *request = PathRequest { dst, since: Some(now), ..PathRequest::default() };
                self.n_outstanding += 1;
                return Some((src, dst));
            }
        }
        None
    }

    /// Records a flow entry; if it completes a path, returns when that was requested.
    pub(super) fn on_flow_entry(
        &mut self,
        wiring: &Wiring,
        switch: usize,
        entry: PathFlowEntry,
    ) -> Option<Instant> {
        let (src, dst) = (host_index(entry.src)?, host_index(entry.dst)?);
        let switch = u32::try_from(switch).ok()?;
        let hop = (switch, entry.out_port);
        if let Some(request) = self.outstanding_request(src, dst) {
            request.forward.add(hop);
            return self.take_if_complete(wiring, src);
        }
        self.outstanding_request(dst, src)?.reverse.add(hop);
        self.take_if_complete(wiring, dst)
    }

    /// Records a packet-out to the port of its destination; if it completes a path, returns when that was requested.
    pub(super) fn on_packet_out(
        &mut self,
        wiring: &Wiring,
        dst: MacAddr,
        src: MacAddr,
    ) -> Option<Instant> {
        let (src, dst) = (host_index(src)?, host_index(dst)?);
        self.outstanding_request(src, dst)?.is_delivered = true;
        self.take_if_complete(wiring, src)
    }

    /// The switch and port of the host with a MAC address.
    pub(super) fn host_port(wiring: &Wiring, dst: MacAddr) -> Option<(usize, PortNo)> {
        wiring.hosts().get(host_index(dst)?).map(|at| (at.switch, at.port))
    }

    fn outstanding_request(&mut self, src: usize, dst: usize) -> Option<&mut PathRequest> {
        self.by_source.get_mut(src).filter(|request| request.since.is_some() && request.dst == dst)
    }

    /// If the path is complete, removes the request and returns when it was made.
    fn take_if_complete(&mut self, wiring: &Wiring, src: usize) -> Option<Instant> {
        let request = self.by_source.get_mut(src)?;
        let (len, needs_reverse) = (wiring.path_len(), self.directions == Directions::Both);
        if !request.is_delivered
            || request.forward.len < len
            || (needs_reverse && request.reverse.len < len)
        {
            return None;
        }
        let is_connected = request.forward.lead_to(wiring, src, request.dst)
            && (!needs_reverse || request.reverse.lead_to(wiring, request.dst, src));
        if !is_connected {
            return None;
        }
        self.n_outstanding -= 1;
        request.since.take()
    }

    /// Removes requests older than the timeout; returns how many.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) -> u64 {
        let mut expired = 0;
        for request in &mut self.by_source {
            let is_old = |since: Instant| now.saturating_duration_since(since) > timeout;
            if request.since.is_some_and(is_old) {
                request.since = None;
                self.n_outstanding -= 1;
                expired += 1;
            }
        }
        expired
    }
}

impl PathHops {
    /// Adds a hop, replacing an earlier one of the same switch.
    fn add(&mut self, hop: (u32, PortNo)) {
        let known = self.at.iter().take(self.len).position(|known| known.0 == hop.0);
        let at = known.unwrap_or(self.len);
        if let Some(slot) = self.at.get_mut(at) {
            *slot = hop;
            self.len = self.len.max(at + 1);
        }
    }

    /// Whether the hops lead from the first host to the second.
    fn lead_to(&self, wiring: &Wiring, from: usize, to: usize) -> bool {
        let (Some(from), Some(&to)) = (wiring.hosts().get(from), wiring.hosts().get(to)) else {
            return false;
        };
        let mut at = from.switch;
        for _ in 0..self.len {
            let here = self.at.iter().take(self.len);
            let hop = here.clone().find(|hop| usize::try_from(hop.0) == Ok(at));
            let Some(&(_, port)) = hop else { return false };
            match wiring.peer(at, port) {
                PortPeer::Switch(next) => at = next.switch,
                PortPeer::Host => return (at, port) == (to.switch, to.port),
                PortPeer::Unconnected => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;
    use crate::topology::Topology;

    #[test]
    fn a_path_is_complete_when_its_flow_entries_lead_to_the_host_and_its_packet_is_delivered() {
        let wiring = Wiring::new(&Topology::from_text("linear,3,1").unwrap());
        let now = clock::now();
        let mut requests = PathRequests::new(&wiring, Directions::Both);
        let (src, dst) = requests.start_next(&wiring, now).unwrap();
        assert_eq!((requests.outstanding(), wiring.is_far(src, dst)), (1, true));
        // The hosts of the first and the last switch; the other pair is the reverse of this one.
        assert_eq!(requests.start_next(&wiring, now), None);
        let entry = |src, dst, port| PathFlowEntry {
            src: host_mac(src),
            dst: host_mac(dst),
            out_port: PortNo(port),
        };
        let mut add = |switch, entry| requests.on_flow_entry(&wiring, switch, entry);
        let port_to = |at: usize, next: usize| {
            (1..4).find(|&port| match wiring.peer(at, PortNo(port)) {
                PortPeer::Switch(there) => there.switch == next,
                _ => false,
            })
        };
        let (first, last) = (wiring.hosts()[src].switch, wiring.hosts()[dst].switch);
        let (one, three) = (wiring.hosts()[src].port.0, wiring.hosts()[dst].port.0);
        add(last, entry(src, dst, three));
        add(1, entry(src, dst, port_to(1, first).unwrap()));
        add(first, entry(src, dst, port_to(first, 1).unwrap()));
        add(last, entry(dst, src, port_to(last, 1).unwrap()));
        add(1, entry(dst, src, port_to(1, first).unwrap()));
        assert_eq!(add(first, entry(dst, src, one)), None, "the packet has not been delivered");
        assert_eq!(
            requests.on_packet_out(&wiring, host_mac(dst), host_mac(src)),
            None,
            "one flow entry leads back"
        );
        let correct = entry(src, dst, port_to(1, last).unwrap());
        assert_eq!(requests.on_flow_entry(&wiring, 1, correct), Some(now));
        assert_eq!(
            (requests.outstanding(), requests.on_flow_entry(&wiring, 1, correct)),
            (0, None)
        );
        requests.start_next(&wiring, now).unwrap();
        let timeout = Duration::from_secs(1);
        assert_eq!(requests.expire(now + timeout, timeout), 0);
        assert_eq!(requests.expire(now + 2 * timeout, timeout), 1);
        assert_eq!(requests.outstanding(), 0);
    }
}
