//! Hosts of which an ordinary frame says only that they are there.
//!
//! Who learns hosts need not hear of each of their frames: from most of them there is nothing to learn. So it says here
//! of whom that is so, whoever answers such a frame before it notes that the host was heard, and who learns reads that
//! when it asks itself who was silent for long.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Instant;

use sluice_wire::{DatapathId, EthHeader, EtherType, PortNo};

use crate::ctx::Sw;
use crate::view::HostId;

/// A host that is known where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Its port, of the switch at which it is.
    pub port: PortNo,
    /// When it was heard last.
    pub heard: Instant,
    /// Whether a packet of IPv4 says nothing new of its addresses.
    pub has_ipv4: bool,
    /// The same of IPv6.
    pub has_ipv6: bool,
}

impl Resident {
    /// Whether a frame of its own is ordinary, as far as can be told at a glance: it says nothing that is not known. Of
    /// `frame`, perhaps truncated, `eth` is the start.
    ///
    /// Only packets of IP are, without those that may be about addresses (neighbour discovery, DHCP), those of a family of
    /// which no address is known, and those that have a tag.
    #[inline]
    pub fn is_ordinary(&self, eth: &EthHeader, frame: &[u8]) -> bool {
        /// Where the protocol of IPv4 stands, and the ports if the header has no options.
        const PROTOCOL_AT: usize = 23;
        /// Where the next header of IPv6 stands.
        const NEXT_HEADER_AT: usize = 20;
        const UDP: u8 = 17;
        const ICMPV6: u8 = 58;
        /// Length of a header without options, and the ports of DHCP's servers and clients.
        const DHCP: [u8; 4] = [0, 67, 0, 68];
        match eth.ethertype() {
            EtherType::IPV4 => {
                let protocol = frame.get(PROTOCOL_AT);
                let is_plain = frame.get(14) == Some(&0x45);
                let ports = || frame.get(34..38) != Some(&DHCP[..]);
                self.has_ipv4 && is_plain && (protocol != Some(&UDP) || ports())
            }
            EtherType::IPV6 => self.has_ipv6 && frame.get(NEXT_HEADER_AT) != Some(&ICMPV6),
            _ => false,
        }
    }
}

/// The residents of all switches of a worker.
///
/// Who leaves its place, as the view has it, is none any more.
#[derive(Debug, Default)]
pub struct Residents {
    switches: Vec<Option<Household>>,
    numbers: HashMap<DatapathId, Sw>,
    seeds: RandomState,
}

/// The residents at one switch.
#[derive(Debug, Default)]
pub struct Household(HashMap<u64, Resident, Seeds>);

impl Residents {
    /// A switch is there, with nobody at it; if it had another number, that is nobody's.
    pub fn open(&mut self, sw: Sw, id: DatapathId) {
        if let Some(old) = self.numbers.insert(id, sw) {
            self.close(old);
        }
        let at = sw.index();
        if self.switches.len() <= at {
            self.switches.resize_with(at + 1, || None);
        }
        if let Some(place) = self.switches.get_mut(at) {
            *place = Some(Household(HashMap::with_hasher(Seeds::new(&self.seeds, sw))));
        }
        self.numbers.insert(id, sw);
    }

    /// A switch is gone.
    pub fn close(&mut self, sw: Sw) {
        if let Some(place) = self.switches.get_mut(sw.index()) {
            *place = None;
        }
        self.numbers.retain(|_, number| *number != sw);
    }

    /// The residents at a switch that is there.
    #[inline]
    pub fn at(&mut self, sw: Sw) -> Option<&mut Household> {
        self.switches.get_mut(sw.index())?.as_mut()
    }

    /// A host is at a switch from now on, or is known better. When it was heard last is the later of what was known and
    /// what is said.
    pub fn put(&mut self, switch: DatapathId, id: HostId, resident: Resident) {
        let Some(home) = self.home(switch) else { return };
        let known = home.0.entry(key(id)).or_insert(resident);
        *known = Resident { heard: known.heard.max(resident.heard), ..resident };
    }

    /// A host is at a switch no longer. When it was heard there last, if it was there.
    pub fn remove(&mut self, switch: DatapathId, id: HostId) -> Option<Instant> {
        self.home(switch)?.0.remove(&key(id)).map(|resident| resident.heard)
    }

    /// When a resident was heard last.
    pub fn heard(&self, switch: DatapathId, id: HostId) -> Option<Instant> {
        let at = self.numbers.get(&switch)?.index();
        let home = self.switches.get(at)?.as_ref()?;
        home.0.get(&key(id)).map(|resident| resident.heard)
    }

    fn home(&mut self, switch: DatapathId) -> Option<&mut Household> {
        let sw = *self.numbers.get(&switch)?;
        self.at(sw)
    }
}

impl Household {
    /// Who sent a frame without a tag; to note that it was heard.
    #[inline]
    pub fn source(&mut self, eth: &EthHeader) -> Option<&mut Resident> {
        self.0.get_mut(&eth.src_bits())
    }

    /// Who a frame without a tag is for.
    #[inline]
    pub fn destination(&self, eth: &EthHeader) -> Option<&Resident> {
        self.0.get(&eth.dst_bits())
    }
}

/// The bits of the address as a frame has them, above those of the VLAN.
fn key(id: HostId) -> u64 {
    id.mac.bits() | u64::from(id.vlan.0)
}

/// What addresses are hashed with: nobody outside knows it, so nobody can make them collide.
#[derive(Debug, Clone, Default)]
struct Seeds {
    start: u64,
    factor: u64,
}

impl Seeds {
    fn new(seeds: &RandomState, sw: Sw) -> Self {
        Self { start: seeds.hash_one((sw, 0)), factor: seeds.hash_one((sw, 1)) | 1 }
    }
}

impl BuildHasher for Seeds {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded { hash: self.start, factor: self.factor }
    }
}

/// Two products, of which the first is folded.
#[derive(Debug)]
struct Folded {
    hash: u64,
    factor: u64,
}

impl Hasher for Folded {
    #[inline]
    fn write_u64(&mut self, n: u64) {
        let product = u128::from(self.hash ^ n) * u128::from(self.factor);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = product as u64 ^ (product >> 64) as u64;
        self.hash = folded.wrapping_mul(self.factor).rotate_left(32);
    }

    fn write(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.write_u64(octet.into());
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_wire::{Ethernet, MacAddr, VlanId};

    use super::*;

    const SWITCH: DatapathId = DatapathId(7);

    fn host(n: u8) -> HostId {
        HostId { mac: MacAddr([2, 0, 0, 0, 0, n]), vlan: VlanId(0) }
    }

    fn resident(port: u32, heard: Instant) -> Resident {
        Resident { port: PortNo(port), heard, has_ipv4: true, has_ipv6: false }
    }

    fn frame(dst: u8, src: u8, rest: &[u8]) -> Vec<u8> {
        [&host(dst).mac.0[..], &host(src).mac.0, rest].concat()
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn who_is_put_is_found_by_the_addresses_of_a_frame_until_it_leaves() {
        let (mut residents, now) = (Residents::default(), now());
        residents.put(SWITCH, host(1), resident(1, now));
        assert!(residents.at(Sw(3)).is_none(), "no such switch yet");
        residents.open(Sw(3), SWITCH);
        residents.put(SWITCH, host(1), resident(1, now));
        residents.put(SWITCH, host(2), resident(2, now));
        let tagged = HostId { vlan: VlanId(5), ..host(3) };
        residents.put(SWITCH, tagged, resident(3, now));
        let frame = frame(2, 1, &[8, 0]);
        let eth = Ethernet::new(&frame).unwrap().header;
        let home = residents.at(Sw(3)).unwrap();
        assert_eq!(home.destination(eth).unwrap().port, PortNo(2));
        let later = now + Duration::from_secs(1);
        home.source(eth).unwrap().heard = later;
        assert_eq!(residents.heard(SWITCH, host(1)), Some(later));
        residents.put(SWITCH, host(1), resident(4, now));
        assert_eq!(residents.heard(SWITCH, host(1)), Some(later), "it was heard since");
        assert_eq!(residents.remove(SWITCH, host(1)), Some(later));
        assert!(residents.at(Sw(3)).unwrap().source(eth).is_none());
        residents.close(Sw(3));
        assert_eq!(residents.heard(SWITCH, host(2)), None);
    }

    #[test]
    fn what_may_be_about_addresses_is_not_ordinary() {
        let resident = resident(1, now());
        let is_ordinary = |rest: &[u8]| {
            let frame = frame(2, 1, rest);
            resident.is_ordinary(Ethernet::new(&frame).unwrap().header, &frame)
        };
        let ipv4 = |protocol, ports: [u8; 4]| {
            let start = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&start[..], &[10, 0, 0, 1, 10, 0, 0, 2], &ports].concat()
        };
        assert!(is_ordinary(&ipv4(6, [0, 67, 0, 68])));
        assert!(is_ordinary(&ipv4(17, [0, 67, 0, 69])));
        assert!(!is_ordinary(&ipv4(17, [0, 67, 0, 68])), "DHCP");
        let options = [&[8, 0, 0x46][..], &ipv4(17, [0; 4])[3..]].concat();
        assert!(!is_ordinary(&options), "its ports are elsewhere");
        assert!(!is_ordinary(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]), "no address is known");
        assert!(!is_ordinary(&[8, 6]) && !is_ordinary(&[0x88, 0xcc]));
        assert!(!is_ordinary(&[0x81, 0, 0, 5, 8, 0]), "tagged");
        assert!(!is_ordinary(&[0x55, 0x55]), "whose it is we do not know");
        let known = Resident { has_ipv6: true, ..resident };
        let sent = frame(2, 1, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 255]);
        assert!(!known.is_ordinary(Ethernet::new(&sent).unwrap().header, &sent));
        let sent = frame(2, 1, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 6, 64]);
        assert!(known.is_ordinary(Ethernet::new(&sent).unwrap().header, &sent));
    }

    /// A hash whose low and high bits both tell runs of addresses apart, whatever the seeds.
    #[test]
    fn addresses_in_a_row_spread() {
        for seed in 0..100u64 {
            let factor = sluice_base::Rng::new(seed).next_u64() | 1;
            let seeds = Seeds { start: seed, factor };
            let mut low = vec![0u32; 1024];
            for n in 0..4096u64 {
                let mac = MacAddr::from_u64(0x0200_0000_0000 + n);
                let hash = seeds.hash_one(key(HostId { mac, vlan: VlanId(0) }));
                low[usize::try_from(hash % 1024).unwrap()] += 1;
            }
            assert!(low.iter().max() < Some(&24), "seed {seed}: {:?}", low.iter().max());
        }
    }
}
