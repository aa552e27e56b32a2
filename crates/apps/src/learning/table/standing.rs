//! A table while none of its lines moves: the way of the usual frame.

use prefetch_index::prefetch_index;
use sluice_openflow::{EthHeader, PortNo, VlanId};

use super::census::Census;
use super::line::{Key, Line, Spot, Tick, find, home};

/// The hashes of the hosts of a frame: of its source and of its destination.
pub(crate) type Hashes = [u64; 2];

/// A table while none of its lines moves, so that what says where they are stays in registers.
#[derive(Debug)]
pub(crate) struct Standing<'a> {
    pub(super) lines: &'a mut [Line],
    pub(super) factor: u64,
    pub(super) now: Tick,
    pub(super) timeout: Tick,
    pub(super) census: &'a mut Census,
}

impl Standing<'_> {
    /// Where a conversation goes, from a source that is new or where it was, at `port`, to a destination that is known
    /// and elsewhere. `None` for every other, whose source may have been learnt. `FLOODED` does the same, and is quick for
    /// new sources and not for others.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn route<const FLOODED: bool>(
        &mut self,
        [src_hash, dst_hash]: Hashes,
        eth: &EthHeader,
        port: PortNo,
    ) -> Option<PortNo> {
        // No group is ever learnt, so none is found.
        let [src, dst] = keys(eth);
        let (src, dst) = (Spot::with_hash(src, src_hash), Spot::with_hash(dst, dst_hash));
        let Some((line, way)) = find(self.lines, src) else {
            if FLOODED {
                return self.route_new(src, dst, port);
            }
            // Lent on: what a function is handed would be read anew for every frame.
            return self.reborrow().route_new_apart(src, dst.key(), port);
        };
        if *line.ports.get(way)? != port.0 {
            return None;
        }
        // A line that does not change stays clean in the caches.
        if *line.seen.get(way)? != self.now {
            self.census.hear_again(line, way, self.now);
        }
        let (line, way) = find(self.lines, dst)?;
        let (to, seen) = (PortNo(*line.ports.get(way)?), *line.seen.get(way)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    #[inline]
    fn reborrow(&mut self) -> Standing<'_> {
        let Self { factor, now, timeout, .. } = *self;
        Standing { lines: self.lines, factor, now, timeout, census: self.census }
    }

    /// The same from a source that is not there, out of the way of those that are.
    #[inline(never)]
    fn route_new_apart(mut self, src: Spot, dst: Key, port: PortNo) -> Option<PortNo> {
        let dst = Spot::new(dst, self.factor);
        self.route_new(src, dst, port)
    }

    /// The same from a source that is not there, if its own line has a place for it.
    #[expect(clippy::inline_always, reason = "lab/throughput: a call costs a seventh")]
    #[inline(always)]
    fn route_new(&mut self, src: Spot, dst: Spot, port: PortNo) -> Option<PortNo> {
        if src.key().is_group() || dst.key().is_group() {
            return None;
        }
        settle(self.lines, self.census, src, port.0, self.now)?;
        let (line, way) = find(self.lines, dst)?;
        if !line.is_proved(way) {
            self.census.prove(line, way);
        }
        let (to, seen) = (PortNo(*line.ports.get(way)?), *line.seen.get(way)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    /// What [`route`](Self::route) is to know about a frame.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn look(&self, eth: &EthHeader) -> Hashes {
        self.spots(eth).map(|spot| spot.hash)
    }

    /// The same, and has the lines of both hosts brought nearer, without waiting for them.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn fetch(&self, eth: &EthHeader) -> Hashes {
        self.spots(eth).map(|spot| {
            prefetch_index(&*self.lines, home(self.lines, spot));
            spot.hash
        })
    }

    #[inline]
    fn spots(&self, eth: &EthHeader) -> [Spot; 2] {
        keys(eth).map(|key| Spot::new(key, self.factor))
    }
}

/// The hosts of a frame without a tag: its source and its destination.
#[inline]
fn keys(eth: &EthHeader) -> [Key; 2] {
    [eth.src_bits(), eth.dst_bits()].map(|bits| Key::new(bits, VlanId(0)))
}

/// Puts a host that is not there into its own line, if that has a place for it.
#[inline]
pub(super) fn settle(
    lines: &mut [Line],
    census: &mut Census,
    spot: Spot,
    port: u32,
    now: Tick,
) -> Option<()> {
    let len = lines.len();
    let line = lines.get_mut(spot.home(len))?;
    let free = if census.is_full() { None } else { line.free() };
    if let Some(way) = free {
        if !census.has_room(len) {
            return None;
        }
        census.enter();
        line.put(way, spot.key, port, now);
    } else if census.is_full() || census.is_flooded() {
        // One that belongs elsewhere is counted by the lines between. In a flood nobody is sent there for whom another
        // can go: a search ends at a line that nobody went past.
        let way = line.unproved_own()?;
        census.give_way();
        line.succeed(way, spot.key, port, now);
    } else {
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sluice_base::Rng;
    use sluice_openflow::{Ethernet, MacAddr};

    use super::super::tests::{TIMEOUT, check};
    use super::super::{Learnt, Table};
    use super::*;

    fn header(dst: u64, src: u64) -> EthHeader {
        let bytes = [dst, src].map(|n| MacAddr::from_u64(n).0).concat();
        *Ethernet::new(&[&bytes[..], &[8, 0]].concat()).unwrap().header
    }

    fn spot(table: &Table, n: u64) -> Spot {
        table.spot(Key::new(header(0, n).src_bits(), VlanId(0)))
    }

    fn route(table: &mut Table, dst: u64, src: u64, port: u32, now: Tick) -> Option<u32> {
        let mut table = table.standing(now, TIMEOUT);
        let eth = header(dst, src);
        let hashes = table.look(&eth);
        if src.is_multiple_of(4) {
            table.route::<true>(hashes, &eth, PortNo(port)).map(|port| port.0)
        } else {
            table.route::<false>(hashes, &eth, PortNo(port)).map(|port| port.0)
        }
    }

    #[test]
    fn what_stands_is_routed_and_all_else_is_left() {
        let mut table = Table::new(1000, 7);
        for n in 1..=500u32 {
            let spot = spot(&table, n.into());
            table.learn(spot, PortNo(n % 4), 100);
        }
        let mut route = |dst, src, port, now| route(&mut table, dst, src, port, now);
        for n in 1..500u32 {
            assert_eq!(route(n.into(), u64::from(n) + 1, (n + 1) % 4, 100), Some(n % 4), "{n}");
        }
        assert_eq!(route(1, 2, 3, 100), None, "moved");
        assert_eq!(route(5, 1, 1, 100), None, "at one port");
        assert_eq!(route(501, 1, 1, 100), None, "unknown destination");
        assert_eq!(route(2, 1, 1, 401), None, "aged");
        assert_eq!(route(1, 2, 2, 401), Some(1), "seen again a moment ago");
    }

    #[test]
    fn who_is_new_is_learnt_and_routed_but_no_group_is() {
        const GROUP: u64 = 1 << 40;
        let mut table = Table::new(1000, 7);
        let there = spot(&table, 1);
        table.learn(there, PortNo(1), 0);
        assert_eq!(route(&mut table, 1, 2, 2, 0), Some(1));
        assert_eq!(route(&mut table, 2, 1, 1, 0), Some(2), "and its answer");
        assert_eq!(route(&mut table, 4, 3, 3, 0), None);
        assert_eq!(route(&mut table, 3, 1, 1, 0), Some(3), "learnt all the same");
        assert_eq!(route(&mut table, 1, GROUP | 9, 2, 0), None);
        assert_eq!(route(&mut table, GROUP | 9, 5, 2, 0), None);
        assert_eq!(table.len(), 3);
        check(&table);
    }

    /// The quick way first and, where that has no answer, the other, as the bridge does it: hosts come, move, crowd
    /// and push one another out, and what is found is where it was seen last.
    #[test]
    fn both_ways_together_agree_with_a_map_under_random_use() {
        for (max, hosts) in [(10_000, 3000), (10_000, 100), (300, 3000), (40, 50)] {
            let mut rng = Rng::new(42);
            let (mut table, mut map) = (Table::new(max, rng.next_u64()), HashMap::new());
            let (mut quick, mut moved) = (0, 0);
            for step in 0..100_000u32 {
                let now = Tick::try_from(step / 5000).unwrap();
                let [src, dst] = [0; 2].map(|_| u64::from(rng.below(hosts)) * 2);
                let was = map.get(&src).copied();
                let port = was.filter(|_| rng.below(10) > 0).unwrap_or_else(|| rng.below(8));
                map.insert(src, port);
                let mut to = route(&mut table, dst, src, port, now);
                quick += u32::from(to.is_some());
                if to.is_none() {
                    let [src, dst] = [src, dst].map(|n| spot(&table, n));
                    let learnt = table.learn(src, PortNo(port), now);
                    if let Learnt::Moved(from) = learnt {
                        assert_eq!(Some(from.0), was, "step {step}");
                        moved += 1;
                    }
                    to = table.get(dst, now, TIMEOUT).map(|port| port.0);
                } else {
                    assert_ne!(to, Some(port), "step {step}");
                }
                let all_fit = max > usize::try_from(hosts).unwrap();
                let there = map.get(&dst).copied();
                assert!(to == there || (to.is_none() && !all_fit), "step {step}: {to:?} {there:?}");
                assert!(table.len() <= max && (!all_fit || table.len() == map.len()));
                if rng.below(5000) == 0 {
                    table.forget_port(PortNo(port));
                    map.retain(|_, &mut at| at != port);
                    check(&table);
                }
            }
            check(&table);
            assert!(quick > 1000 && moved > 500, "{max} {hosts}: {quick} {moved}");
        }
    }
}
