//! Hosts of which an ordinary frame says only that they are there.
//!
//! Who learns hosts need not hear of each of their frames: from most of them there is nothing to learn. So it says here
//! of whom that is so, whoever answers such a frame before it notes that the host was heard, and who learns reads that
//! when it asks itself who was silent for long.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use sluice_openflow::{DatapathId, PortNo};

use crate::ctx::SwitchIndex;
use crate::switch_hosts::SwitchHosts;
use crate::view::HostId;

/// A host that is known where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastPathHost {
    /// Its port, of the switch at which it is.
    pub port: PortNo,
    /// When it was heard last.
    pub last_seen: Instant,
    /// Whether a packet of IPv4 says nothing new of its addresses.
    pub has_ipv4: bool,
    /// The same of IPv6.
    pub has_ipv6: bool,
}

/// The residents of all switches of a worker.
///
/// Who leaves its place, as the view has it, is none any more.
#[derive(Debug, Default)]
pub struct FastPathHosts {
    switches: Vec<Option<SwitchHosts>>,
    numbers: HashMap<DatapathId, SwitchIndex>,
    seeds: RandomState,
}

impl FastPathHosts {
    /// A switch is there, with nobody at it; if it had another number, that is nobody's.
    pub fn add_switch(&mut self, sw: SwitchIndex, id: DatapathId) {
        if let Some(old) = self.numbers.insert(id, sw) {
            self.remove_switch(old);
        }
        let at = sw.index();
        if self.switches.len() <= at {
            self.switches.resize_with(at + 1, || None);
        }
        if let Some(place) = self.switches.get_mut(at) {
            let [start, factor] = [0, 1].map(|n| self.seeds.hash_one((sw, n)));
            *place = Some(SwitchHosts::new([start, factor | 1]));
        }
        self.numbers.insert(id, sw);
    }

    /// A switch is gone.
    pub fn remove_switch(&mut self, sw: SwitchIndex) {
        if let Some(place) = self.switches.get_mut(sw.index()) {
            *place = None;
        }
        self.numbers.retain(|_, number| *number != sw);
    }

    /// The residents at a switch that is there.
    #[inline]
    pub fn switch(&mut self, sw: SwitchIndex) -> Option<&mut SwitchHosts> {
        self.switches.get_mut(sw.index())?.as_mut()
    }

    /// A host is at a switch from now on, or is known better. When it was heard last is the later of what was known and
    /// what is said.
    pub fn insert(&mut self, switch: DatapathId, id: HostId, resident: FastPathHost) {
        if let Some(home) = self.home(switch) {
            home.insert(key(id), &resident);
        }
    }

    /// A host is at a switch no longer.
    pub fn remove(&mut self, switch: DatapathId, id: HostId) {
        if let Some(home) = self.home(switch) {
            home.remove(key(id));
        }
    }

    /// When a resident was heard last, if it was heard after the first of its switch was put there.
    pub fn last_seen(&self, switch: DatapathId, id: HostId) -> Option<Instant> {
        let at = self.numbers.get(&switch)?.index();
        self.switches.get(at)?.as_ref()?.last_seen(key(id))
    }

    fn home(&mut self, switch: DatapathId) -> Option<&mut SwitchHosts> {
        let sw = *self.numbers.get(&switch)?;
        self.switch(sw)
    }
}

/// The bits of the address as a frame has them, above those of the VLAN.
fn key(id: HostId) -> u64 {
    id.mac.bits() | u64::from(id.vlan.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_openflow::{Ethernet, MacAddr, VlanId};

    use super::*;

    const SWITCH: DatapathId = DatapathId(7);

    fn host(n: u8) -> HostId {
        HostId { mac: MacAddr([2, 0, 0, 0, 0, n]), vlan: VlanId(0) }
    }

    fn resident(port: u32, last_seen: Instant) -> FastPathHost {
        FastPathHost { port: PortNo(port), last_seen, has_ipv4: true, has_ipv6: false }
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
        let (mut residents, now) = (FastPathHosts::default(), now());
        residents.insert(SWITCH, host(1), resident(1, now));
        assert!(residents.switch(SwitchIndex(3)).is_none(), "no such switch yet");
        residents.add_switch(SwitchIndex(3), SWITCH);
        residents.insert(SWITCH, host(1), resident(1, now));
        residents.insert(SWITCH, host(2), resident(2, now));
        let tagged = HostId { vlan: VlanId(5), ..host(3) };
        residents.insert(SWITCH, tagged, resident(3, now));
        let frame = frame(2, 1, &[8, 0]);
        let eth = Ethernet::new(&frame).unwrap().header;
        let home = residents.switch(SwitchIndex(3)).unwrap();
        assert_eq!(home.find(eth.dst_bits()).unwrap().entry().port(), PortNo(2));
        let later = now + Duration::from_secs(1);
        let tick = home.coarse_time(later);
        home.find(eth.src_bits()).unwrap().mark_seen(tick);
        assert_eq!(residents.last_seen(SWITCH, host(1)), Some(later));
        residents.insert(SWITCH, host(1), resident(4, now));
        assert_eq!(residents.last_seen(SWITCH, host(1)), Some(later), "it was heard since");
        residents.remove(SWITCH, host(1));
        assert!(residents.switch(SwitchIndex(3)).unwrap().find(eth.src_bits()).is_none());
        residents.remove_switch(SwitchIndex(3));
        assert_eq!(residents.last_seen(SWITCH, host(2)), None);
    }
}
