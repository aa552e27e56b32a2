//! A table while none of its lines moves: the way of the usual frame.

use prefetch_index::prefetch_index;
use sluice_wire::{EthHeader, PortNo, VlanId};

use super::census::Census;
use super::line::{Key, Line, Spot, Tick, find, home};

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
    /// and elsewhere. `None` for every other, whose source may have been learnt.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub(crate) fn route(&mut self, eth: &EthHeader, port: PortNo) -> Option<PortNo> {
        // No group is ever learnt, so none is found.
        let [src, dst] = self.spots(eth);
        let Some((line, way)) = find(self.lines, src) else {
            // Lent on: what a function is handed would be read anew for every frame.
            return self.reborrow().route_new(src, dst.key(), port);
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

    /// The same from a source that is not there, if its own line has a place for it.
    #[inline(never)]
    fn route_new(mut self, src: Spot, dst: Key, port: PortNo) -> Option<PortNo> {
        if src.key().is_group() || dst.is_group() {
            return None;
        }
        self.settle(src, port)?;
        let dst = Spot::new(dst, self.factor);
        let (line, way) = find(self.lines, dst)?;
        if !line.is_proved(way) {
            self.census.prove(line, way);
        }
        let (to, seen) = (PortNo(*line.ports.get(way)?), *line.seen.get(way)?);
        (to != port && self.now.wrapping_sub(seen) <= self.timeout).then_some(to)
    }

    /// Puts a station that is not there into its own line, if that has a place for it.
    #[inline]
    fn settle(&mut self, src: Spot, port: PortNo) -> Option<()> {
        let len = self.lines.len();
        let line = self.lines.get_mut(src.home(len))?;
        let way = if self.census.is_full() {
            // One that belongs elsewhere is counted by the lines between.
            let way = line.unproved_own()?;
            self.census.give_way();
            way
        } else if self.census.has_room(len) {
            let way = line.free()?;
            self.census.enter();
            way
        } else {
            return None;
        };
        line.put(way, src.key, port.0, self.now);
        Some(())
    }

    /// Has the lines of both stations brought nearer, without waiting for them.
    #[inline]
    pub(crate) fn fetch(&self, eth: &EthHeader) {
        for spot in self.spots(eth) {
            prefetch_index(&*self.lines, home(self.lines, spot));
        }
    }

    #[inline]
    fn spots(&self, eth: &EthHeader) -> [Spot; 2] {
        [eth.src_bits(), eth.dst_bits()]
            .map(|bits| Spot::new(Key::new(bits, VlanId(0)), self.factor))
    }
}
