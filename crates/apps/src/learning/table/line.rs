//! What a table is made of: lines of four hosts, each the size of a cache line, and how a host is found in them.

use sluice_base::folded_multiply;
use sluice_openflow::VlanId;

/// Hosts per line.
pub(super) const WAYS: usize = 4;

/// The last of the places of a line, whose numbers go round.
const WAY_LAST: u32 = 3;

/// Lines looked at before a host is put in the place of another. Bounds what a crafted set of addresses costs.
pub(super) const PROBES_MAX: usize = 32;

/// Seconds since the application began, counted round.
pub(crate) type Tick = u16;

/// A host: the bits of its address, a mark that it is one, its VLAN. Never zero, which marks an empty place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(pub(super) u64);

impl Key {
    /// The host with `bits` for an address, above 16 zeros, in `vlan`.
    #[inline]
    pub(crate) fn new(bits: u64, vlan: VlanId) -> Self {
        Self(bits | 0x1000 | u64::from(vlan.0))
    }

    /// Whether it is no host, but a group of them.
    #[inline]
    pub(super) const fn is_group(self) -> bool {
        // The first byte of an address is the lowest of its bits.
        self.0 & 0x1_0000 != 0
    }
}

/// A host and its hash, which tells the line it belongs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    pub(super) key: u64,
    pub(super) hash: u64,
}

impl Spot {
    #[inline]
    pub(super) fn new(key: Key, factor: u64) -> Self {
        // One product alone, or both its halves together, sends runs of addresses to runs of lines for some factors.
        Self::with_hash(key, folded_multiply(key.0, factor).wrapping_mul(factor))
    }

    /// The same, of which the hash is known.
    #[inline]
    pub(super) const fn with_hash(key: Key, hash: u64) -> Self {
        Self { key: key.0, hash }
    }

    #[inline]
    pub(super) const fn key(self) -> Key {
        Key(self.key)
    }

    /// The line that it belongs in, of `lines`, a power of two.
    #[inline]
    pub(super) fn home(self, lines: usize) -> usize {
        (self.hash >> 32) as usize & (lines - 1)
    }
}

/// What a line knows about a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct LearnedHost {
    pub(super) key: u64,
    pub(super) port: u32,
    pub(super) seen: Tick,
    pub(super) is_proved: bool,
}

/// One cache line: four hosts.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line {
    pub(super) keys: [u64; WAYS],
    pub(super) ports: [u32; WAYS],
    pub(super) seen: [Tick; WAYS],
    /// Hosts that belong here or before and are kept further on: all of them within reach.
    pub(super) spilled: u8,
    /// A bit for each place: a host is in it.
    taken: u8,
    /// A bit for each place: the host in it was sent to by a new one, or heard in another second than it came.
    proved: u8,
    /// A bit for each place: the host in it belongs in a line before.
    guests: u8,
    /// The place that goes first of those that go.
    turn: u32,
}

const _: () = assert!(size_of::<Line>() == 64 && WAYS == WAY_LAST as usize + 1);
const _: () = assert!(PROBES_MAX * WAYS <= u8::MAX as usize);

pub(super) const EMPTY: Line = Line {
    keys: [0; WAYS],
    ports: [0; WAYS],
    seen: [0; WAYS],
    spilled: 0,
    taken: 0,
    proved: 0,
    guests: 0,
    turn: 0,
};

impl Line {
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&k| k == key)
    }

    /// Puts a host that is new and belongs here in a place, whoever had it.
    #[inline]
    pub(super) fn put(&mut self, way: usize, key: u64, port: u32, seen: Tick) {
        self.taken |= 1 << way;
        self.proved &= !(1 << way);
        self.guests &= !(1 << way);
        self.succeed(way, key, port, seen);
    }

    /// Puts a host that is new and belongs here in the place of one that did, and was not proved either.
    #[inline]
    pub(super) fn succeed(&mut self, way: usize, key: u64, port: u32, seen: Tick) {
        set(&mut self.keys, way, key);
        set(&mut self.ports, way, port);
        set(&mut self.seen, way, seen);
    }

    /// Empties a place.
    pub(super) fn clear(&mut self, way: usize) {
        self.put(way, 0, 0, 0);
        self.taken &= !(1 << way);
    }

    /// Notes that the host in a place was heard again or sent to.
    #[inline]
    pub(super) const fn prove(&mut self, way: usize) {
        self.proved |= 1 << way;
    }

    /// Whether the host in a place was heard again or sent to.
    #[inline]
    pub(super) const fn is_proved(&self, way: usize) -> bool {
        self.proved & (1 << way) != 0
    }

    /// Notes that the host in a place belongs in a line before.
    pub(super) const fn lodge(&mut self, way: usize) {
        self.guests |= 1 << way;
    }

    /// A place that nobody has.
    #[inline]
    pub(super) const fn free(&self) -> Option<usize> {
        let way = (!self.taken).trailing_zeros() as usize;
        if way < WAYS { Some(way) } else { None }
    }

    /// A host that is not proved, the one that came first.
    pub(super) fn unproved(&mut self) -> Option<usize> {
        self.first(self.taken & !self.proved)
    }

    /// The same of those that belong here.
    #[inline]
    pub(super) fn unproved_own(&mut self) -> Option<usize> {
        self.first(self.taken & !self.proved & !self.guests)
    }

    /// The place in `all` whose turn it is to go. What comes takes the places in turn, so they go in turn.
    #[inline]
    fn first(&mut self, all: u8) -> Option<usize> {
        if all == 0 {
            return None;
        }
        // All places twice in a row.
        let twice = (u32::from(all) | u32::from(all) << WAYS) >> self.turn;
        let way = (twice.trailing_zeros() + self.turn) & WAY_LAST;
        self.turn = (way + 1) & WAY_LAST;
        Some(way as usize)
    }

    /// The host not seen for longest.
    pub(super) fn oldest(&self, now: Tick) -> Option<usize> {
        let taken = (0..WAYS).filter(|way| self.taken & (1 << way) != 0);
        taken.max_by_key(|&way| self.seen.get(way).map_or(0, |&seen| now.wrapping_sub(seen)))
    }

    /// The hosts in it.
    pub(super) fn hosts(&self) -> impl Iterator<Item = LearnedHost> {
        let places = self.keys.into_iter().zip(self.ports).zip(self.seen).enumerate();
        let hosts = places.map(|(way, ((key, port), seen))| LearnedHost {
            key,
            port,
            seen,
            is_proved: self.is_proved(way),
        });
        hosts.filter(|host| host.key != 0)
    }
}

/// A host: its line, and which place in it.
#[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
#[inline(always)]
pub(super) fn find(lines: &mut [Line], spot: Spot) -> Option<(&mut Line, usize)> {
    let at = home(lines, spot);
    let keys = &lines.get(at)?.keys;
    // Every place is as likely as another, and a branch for each would be guessed wrong as often as not.
    let [_, one, two, three] = keys.map(|key| usize::from(key == spot.key));
    let way = one | (two * 2) | (three * 3);
    if *keys.get(way)? == spot.key {
        return Some((lines.get_mut(at)?, way));
    }
    if lines.get(at)?.spilled == 0 {
        return None;
    }
    let (at, way) = find_elsewhere(lines, spot)?;
    Some((lines.get_mut(at)?, way % WAYS))
}

/// The same for a host that is not in the line it belongs in.
#[cold]
fn find_elsewhere(lines: &[Line], spot: Spot) -> Option<(usize, usize)> {
    let mut at = home(lines, spot);
    for _ in 1..PROBES_MAX {
        if lines.get(at)?.spilled == 0 {
            return None;
        }
        at = next(lines, at);
        if let Some(way) = lines.get(at)?.find(spot.key) {
            return Some((at, way));
        }
    }
    None
}

/// The line that a host belongs in.
#[inline]
pub(super) fn home(lines: &[Line], spot: Spot) -> usize {
    spot.home(lines.len())
}

#[inline]
pub(super) fn next(lines: &[Line], line: usize) -> usize {
    (line + 1) & (lines.len() - 1)
}

#[inline]
fn set<T>(ways: &mut [T; WAYS], way: usize, value: T) {
    if let Some(place) = ways.get_mut(way) {
        *place = value;
    }
}

/// Counts the hosts and those that are proved, and looks whether all of them are found and counted where they are.
#[cfg(test)]
pub(super) fn audit(lines: &[Line], factor: u64) -> (usize, usize) {
    let mut spilled = vec![0; lines.len()];
    let mut counted = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        for way in 0..WAYS {
            let (bit, key) = (1 << way, line.keys[way]);
            assert_eq!(line.taken & bit != 0, key != 0);
            if key == 0 {
                assert_eq!((line.proved | line.guests) & bit, 0);
                continue;
            }
            counted.0 += 1;
            counted.1 += usize::from(line.is_proved(way));
            let spot = Spot::new(Key(key), factor);
            let mut passed = home(lines, spot);
            assert!(passed == at || find_elsewhere(lines, spot) == Some((at, way)));
            assert_eq!(line.guests & bit != 0, passed != at);
            while passed != at {
                spilled[passed] += 1;
                passed = next(lines, passed);
            }
        }
    }
    assert!(lines.iter().map(|line| line.spilled).eq(spilled));
    counted
}
