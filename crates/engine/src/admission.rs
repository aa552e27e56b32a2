//! Who has yet to prove that it is a switch, and who of them makes room when there is no more.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sluice_io::ConnId;

/// A host that holds more than all places divided by this is the first to make room.
const SHARE: usize = 2;

/// A place in the handshake queue. A later one is a greater number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueKey(u64);

/// Who comes from here counts as one: an IPv4 address, or the half of an IPv6 address that names the network, since
/// whoever has one of those addresses has them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SourceNetwork(IpAddr);

impl SourceNetwork {
    pub(crate) fn new(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// Peers before their proof, by how far they are and where they come from.
///
/// When all places are taken, one peer makes room for one more: the oldest that says nothing, or else the one whose
/// `HELLO` is the oldest and older than a grace, within which a switch answers what it is asked. A host with more than
/// its share of the places is the first to make room: to other hosts even within the grace, and to itself always.
///
/// # Cost
/// Logarithmic in the number of peers, so that a flood pays for each of its connections and nobody else does.
#[derive(Debug)]
pub(crate) struct HandshakeQueue<C = ConnId> {
    all: Arrivals<C>,
    by_host: HashMap<SourceNetwork, Arrivals<C>>,
    /// The last host that held more than its share. There is room for one.
    crowd: Option<SourceNetwork>,
    next: u64,
}

/// Peers in the order in which they came, and those that have said `HELLO` in the order in which they did.
#[derive(Debug)]
struct Arrivals<C> {
    silent: BTreeMap<QueueKey, C>,
    greeted: BTreeMap<QueueKey, (C, Instant)>,
}

impl<C> Default for HandshakeQueue<C> {
    fn default() -> Self {
        Self { all: Arrivals::default(), by_host: HashMap::new(), crowd: None, next: 0 }
    }
}

impl<C> Default for Arrivals<C> {
    fn default() -> Self {
        Self { silent: BTreeMap::new(), greeted: BTreeMap::new() }
    }
}

impl<C: Copy> HandshakeQueue<C> {
    /// Takes a peer in; `places` is how many there are.
    pub(crate) fn enter(&mut self, id: C, host: SourceNetwork, places: usize) -> QueueKey {
        let ticket = self.ticket();
        self.all.silent.insert(ticket, id);
        let row = self.by_host.entry(host).or_default();
        row.silent.insert(ticket, id);
        if row.len() > places / SHARE {
            self.crowd = Some(host);
        }
        ticket
    }

    /// Notes that a peer has said `HELLO`; returns its ticket from now on.
    pub(crate) fn greet(&mut self, old: QueueKey, host: SourceNetwork, now: Instant) -> QueueKey {
        let Some(id) = self.all.silent.remove(&old) else { return old };
        let ticket = self.ticket();
        self.all.greeted.insert(ticket, (id, now));
        if let Some(row) = self.by_host.get_mut(&host) {
            row.silent.remove(&old);
            row.greeted.insert(ticket, (id, now));
        }
        ticket
    }

    /// Forgets a peer that has proved what it is, or is gone.
    pub(crate) fn leave(&mut self, ticket: QueueKey, host: SourceNetwork) {
        self.all.forget(ticket);
        if let Some(row) = self.by_host.get_mut(&host) {
            row.forget(ticket);
            if row.len() == 0 {
                self.by_host.remove(&host);
            }
        }
    }

    /// Who makes room for a newcomer from `host`, when all `places` are taken; `None` if it is the newcomer that goes.
    pub(crate) fn who_makes_room(
        &self,
        host: SourceNetwork,
        places: usize,
        now: Instant,
        grace: Duration,
    ) -> Option<C> {
        let crowd = self.crowd.and_then(|crowd| Some((crowd, self.by_host.get(&crowd)?)));
        match crowd.filter(|(_, row)| row.len() > places / SHARE) {
            Some((crowd, row)) if crowd == host => row.oldest(now, grace),
            Some((_, row)) => row.oldest(now, Duration::ZERO),
            None => self.all.oldest(now, grace),
        }
    }

    fn ticket(&mut self) -> QueueKey {
        self.next += 1;
        QueueKey(self.next)
    }
}

impl<C: Copy> Arrivals<C> {
    fn len(&self) -> usize {
        self.silent.len() + self.greeted.len()
    }

    fn forget(&mut self, ticket: QueueKey) {
        self.silent.remove(&ticket);
        self.greeted.remove(&ticket);
    }

    fn oldest(&self, now: Instant, grace: Duration) -> Option<C> {
        let silent = self.silent.values().next().copied();
        silent.or_else(|| {
            let &(id, since) = self.greeted.values().next()?;
            (now.saturating_duration_since(since) >= grace).then_some(id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(100);
    const PLACES: usize = 4;

    fn host(last: u8) -> SourceNetwork {
        SourceNetwork::new([10, 0, 0, last].into())
    }

    #[test]
    fn the_silent_go_before_those_that_said_hello_and_these_after_a_grace() {
        let (mut handshake_queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        let tickets: Vec<_> = (0..4).map(|n| handshake_queue.enter(n, host(n), PLACES)).collect();
        let who = |handshake_queue: &HandshakeQueue<u8>, now| {
            handshake_queue.who_makes_room(host(9), PLACES, now, GRACE)
        };
        let first = handshake_queue.greet(tickets[0], host(0), now);
        assert_eq!(who(&handshake_queue, now), Some(1));
        // In another order than they came.
        for n in [3, 2, 1] {
            handshake_queue.greet(tickets[usize::from(n)], host(n), now + GRACE / 2);
        }
        assert_eq!(who(&handshake_queue, now), None);
        assert_eq!(who(&handshake_queue, now + GRACE), Some(0));
        handshake_queue.leave(first, host(0));
        assert_eq!(who(&handshake_queue, now + GRACE), None);
        assert_eq!(who(&handshake_queue, now + 2 * GRACE), Some(3));
    }

    #[test]
    fn a_host_with_more_than_its_share_makes_room_for_others_at_once() {
        let (mut handshake_queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for (id, from) in [(0, host(1)), (1, host(2)), (2, host(2)), (3, host(2))] {
            let ticket = handshake_queue.enter(id, from, PLACES);
            handshake_queue.greet(ticket, from, now);
        }
        let who = |from, now| handshake_queue.who_makes_room(from, PLACES, now, GRACE);
        assert_eq!(who(host(3), now), Some(1));
        assert_eq!(who(host(2), now), None, "what it has of its own may be a switch");
        assert_eq!(who(host(2), now + GRACE), Some(1), "not the other, though that is older");
    }

    #[test]
    fn nothing_is_kept_of_those_that_are_gone() {
        let (mut handshake_queue, now) = (HandshakeQueue::default(), sluice_io::clock::now());
        for n in 0..200 {
            let mut ticket = handshake_queue.enter(n, host(n), PLACES);
            if n % 2 == 0 {
                ticket = handshake_queue.greet(ticket, host(n), now);
            }
            handshake_queue.leave(ticket, host(n));
        }
        assert_eq!((handshake_queue.all.len(), handshake_queue.by_host.len()), (0, 0));
    }

    #[test]
    fn one_network_of_ipv6_is_one_host_and_ipv4_is_the_same_in_either_form() {
        let at = |ip: &str| SourceNetwork::new(ip.parse().unwrap());
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }
}
