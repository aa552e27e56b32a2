//! Hosts whose ordinary frames may be forwarded on the fast path.
//!
//! The application that learns hosts need not see every frame: most say only that a host is still there. It adds hosts
//! that are fully known here. An application that forwards on its [fast path](crate::App::fast_path) looks hosts up, marks
//! them as seen, and the one that learns reads when a host was seen last before it expires it.

use std::time::Instant;

use sluice_base::hash::{HashMap, derive_secret};
use sluice_openflow::{DatapathId, PortNo};

use crate::ctx::SwitchIndex;
use crate::switch_hosts::SwitchHosts;
use crate::view::HostId;

/// A host that may use the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastPathHost {
    /// The port of its switch to which it is attached.
    pub port: PortNo,
    /// When it was seen last.
    pub last_seen: Instant,
    /// Whether its IPv4 address is known, so that there is nothing to learn from IPv4 packets.
    pub has_ipv4: bool,
    /// Whether its IPv6 address is known.
    pub has_ipv6: bool,
}

/// Changed hosts of a switch that are listed. If there are more, the next [`FastPathHosts::take_changes`] returns [`HostChanges::All`].
const CHANGES_MAX: usize = 4096;

/// Changed hosts of all switches of a worker that are listed, in half a MiB. The switches for which there is no room return [`HostChanges::All`].
const ALL_CHANGES_MAX: usize = 65_536;

/// Which hosts of a switch have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostChanges {
    /// These.
    Some(Vec<HostId>),
    /// Any may have.
    All,
}

impl HostChanges {
    /// Number of hosts that are listed.
    fn listed(&self) -> usize {
        match self {
            Self::Some(hosts) => hosts.len(),
            Self::All => 0,
        }
    }
}

#[derive(Debug)]
struct SwitchEntry {
    id: DatapathId,
    hosts: SwitchHosts,
    /// Since they were last taken; `None` if they are not tracked.
    changes: Option<HostChanges>,
    /// It is among the changed switches.
    is_listed: bool,
}

/// The hosts of all switches of a worker that may use the fast path.
///
/// When the [view](crate::view) says that a host has moved or was removed, it is removed here as well.
#[derive(Debug, Default)]
pub struct FastPathHosts {
    /// By [`SwitchIndex`].
    switches: Vec<Option<SwitchEntry>>,
    indices: HashMap<DatapathId, SwitchIndex>,
    /// Those whose changes are tracked.
    changed: Vec<SwitchIndex>,
    /// Listed changes of all switches.
    changes: usize,
}

impl FastPathHosts {
    /// Adds a switch without hosts. If it was known under another index, that one is removed.
    pub fn add_switch(&mut self, sw: SwitchIndex, id: DatapathId) {
        if let Some(old) = self.indices.insert(id, sw) {
            self.remove_switch(old);
        }
        let index = sw.index();
        if self.switches.len() <= index {
            self.switches.resize_with(index + 1, || None);
        }
        self.remove_switch(sw);
        if let Some(hosts) = self.switches.get_mut(index) {
            let [start, factor] = [0, 1].map(|n| derive_secret(("fast path hosts", sw, n)));
            let table = SwitchHosts::new([start, factor | 1]);
            *hosts = Some(SwitchEntry { id, hosts: table, changes: None, is_listed: false });
        }
        self.indices.insert(id, sw);
    }

    /// Takes the changes of the hosts at a switch since the last call, and tracks them from now on.
    pub fn take_changes(&mut self, sw: SwitchIndex) -> HostChanges {
        let Some(entry) = self.entry(sw) else { return HostChanges::All };
        let changes = entry.changes.replace(HostChanges::Some(Vec::new()));
        let changes = changes.unwrap_or(HostChanges::All);
        self.changes -= changes.listed();
        changes
    }

    /// Whether hosts at a switch whose changes are tracked have changed since they were last taken.
    pub fn have_changed(&self, sw: SwitchIndex) -> bool {
        let entry = self.switches.get(sw.index()).and_then(Option::as_ref);
        match entry.and_then(|entry| entry.changes.as_ref()) {
            Some(HostChanges::Some(hosts)) => !hosts.is_empty(),
            Some(HostChanges::All) => true,
            None => false,
        }
    }

    /// Lists a switch among the [changed](Self::take_changed_switches) ones: its hosts have not changed, but what applications send to
    /// packets between them has.
    pub fn mark_changed(&mut self, switch: DatapathId) {
        if let Some(&sw) = self.indices.get(&switch) {
            self.list_changed(sw);
        }
    }

    /// For engines that [answer](crate::App::publish_answers): takes the switches whose changes are tracked, and which have changed since the
    /// last call.
    pub fn take_changed_switches(&mut self) -> Vec<SwitchIndex> {
        let changed = std::mem::take(&mut self.changed);
        for &sw in &changed {
            if let Some(entry) = self.entry(sw) {
                entry.is_listed = false;
            }
        }
        changed
    }

    fn record_change(&mut self, sw: SwitchIndex, id: HostId) {
        let listed = self.changes;
        let Some(changes) = self.entry(sw).and_then(|entry| entry.changes.as_mut()) else { return };
        let others = listed - changes.listed();
        match changes {
            HostChanges::Some(hosts) if hosts.len() < CHANGES_MAX && listed < ALL_CHANGES_MAX => {
                hosts.push(id);
            }
            _ => *changes = HostChanges::All,
        }
        self.changes = others + changes.listed();
        self.list_changed(sw);
    }

    fn list_changed(&mut self, sw: SwitchIndex) {
        if let Some(entry) = self.entry(sw)
            && entry.changes.is_some()
            && !std::mem::replace(&mut entry.is_listed, true)
        {
            self.changed.push(sw);
        }
    }

    fn entry(&mut self, sw: SwitchIndex) -> Option<&mut SwitchEntry> {
        self.switches.get_mut(sw.index())?.as_mut()
    }

    /// Removes a switch and its hosts.
    pub fn remove_switch(&mut self, sw: SwitchIndex) {
        let Some(entry) = self.switches.get_mut(sw.index()).and_then(Option::take) else { return };
        self.changes -= entry.changes.as_ref().map_or(0, HostChanges::listed);
        if self.indices.get(&entry.id) == Some(&sw) {
            self.indices.remove(&entry.id);
        }
    }

    /// The hosts at a switch.
    #[inline]
    pub fn switch(&mut self, sw: SwitchIndex) -> Option<&mut SwitchHosts> {
        self.switches.get_mut(sw.index())?.as_mut().map(|entry| &mut entry.hosts)
    }

    /// Adds a host at a switch of this worker, or updates it. Of two times at which it was seen, the later one is
    /// kept.
    pub fn insert(&mut self, switch: DatapathId, id: HostId, host: FastPathHost) {
        if let Some((sw, hosts)) = self.hosts_mut(switch) {
            hosts.insert(key(id), &host);
            self.record_change(sw, id);
        }
    }

    /// Removes a host at a switch.
    pub fn remove(&mut self, switch: DatapathId, id: HostId) {
        if let Some((sw, hosts)) = self.hosts_mut(switch) {
            hosts.remove(key(id));
            self.record_change(sw, id);
        }
    }

    /// When a host was seen last; `None` if that was before the first host of its switch was added.
    pub fn last_seen(&self, switch: DatapathId, id: HostId) -> Option<Instant> {
        let index = self.indices.get(&switch)?.index();
        self.switches.get(index)?.as_ref()?.hosts.last_seen(key(id))
    }

    fn hosts_mut(&mut self, switch: DatapathId) -> Option<(SwitchIndex, &mut SwitchHosts)> {
        let sw = *self.indices.get(&switch)?;
        Some((sw, self.switch(sw)?))
    }
}

/// The bits of the address as [`EthHeader::src_bits`](sluice_openflow::EthHeader::src_bits) returns them, above those of
/// the VLAN.
fn key(id: HostId) -> u64 {
    id.mac.bits() | u64::from(id.vlan.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_openflow::{Ethernet, MacAddr, VlanId};

    use super::*;

    const SWITCH: DatapathId = DatapathId(7);

    fn id(n: u8) -> HostId {
        HostId { mac: MacAddr([2, 0, 0, 0, 0, n]), vlan: VlanId(0) }
    }

    fn host(port: u32, last_seen: Instant) -> FastPathHost {
        FastPathHost { port: PortNo(port), last_seen, has_ipv4: true, has_ipv6: false }
    }

    fn frame(dst: u8, src: u8, rest: &[u8]) -> Vec<u8> {
        [&id(dst).mac.0[..], &id(src).mac.0, rest].concat()
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    #[test]
    fn changes_are_listed_once_they_are_tracked_until_there_are_too_many() {
        let (mut hosts, now, sw) = (FastPathHosts::default(), now(), SwitchIndex(3));
        hosts.add_switch(sw, SWITCH);
        hosts.insert(SWITCH, id(1), host(1, now));
        hosts.mark_changed(SWITCH);
        assert_eq!(hosts.take_changed_switches(), []);
        assert!(!hosts.have_changed(sw));
        assert_eq!(hosts.take_changes(sw), HostChanges::All, "also those before");
        assert_eq!(hosts.take_changes(sw), HostChanges::Some(vec![]));
        hosts.insert(SWITCH, id(2), host(2, now));
        hosts.remove(SWITCH, id(1));
        hosts.remove(DatapathId(8), id(1));
        assert!(hosts.have_changed(sw));
        assert_eq!(hosts.take_changed_switches(), [sw]);
        assert_eq!(hosts.take_changed_switches(), []);
        assert_eq!(hosts.take_changes(sw), HostChanges::Some(vec![id(2), id(1)]));
        assert!(!hosts.have_changed(sw));
        (0..=CHANGES_MAX).for_each(|_| hosts.remove(SWITCH, id(1)));
        assert_eq!(hosts.take_changes(sw), HostChanges::All);
        assert_eq!(hosts.take_changed_switches(), [sw]);
        assert_eq!(hosts.take_changes(SwitchIndex(9)), HostChanges::All);
    }

    #[test]
    fn the_changes_of_all_switches_are_bounded_and_those_of_removed_ones_do_not_count() {
        let mut hosts = FastPathHosts::default();
        let switch = |sw: u32| DatapathId(sw.into());
        let last = u32::try_from(ALL_CHANGES_MAX / CHANGES_MAX).unwrap();
        for sw in 0..=last {
            hosts.add_switch(SwitchIndex(sw), switch(sw));
            hosts.take_changes(SwitchIndex(sw));
            (0..CHANGES_MAX).for_each(|_| hosts.remove(switch(sw), id(1)));
        }
        assert_eq!(hosts.changes, ALL_CHANGES_MAX);
        assert_eq!(hosts.take_changes(SwitchIndex(last)), HostChanges::All);
        hosts.remove_switch(SwitchIndex(0));
        hosts.add_switch(SwitchIndex(1), switch(100));
        assert_eq!(hosts.changes, ALL_CHANGES_MAX - 2 * CHANGES_MAX);
        hosts.remove(switch(last), id(1));
        assert_eq!(hosts.take_changes(SwitchIndex(last)), HostChanges::Some(vec![id(1)]));
        let HostChanges::Some(listed) = hosts.take_changes(SwitchIndex(2)) else { panic!("all") };
        assert_eq!(listed.len(), CHANGES_MAX);
        assert_eq!(hosts.changes, ALL_CHANGES_MAX - 3 * CHANGES_MAX);
    }

    #[test]
    fn a_switch_is_listed_once_if_something_else_about_it_has_changed() {
        let (mut hosts, now) = (FastPathHosts::default(), now());
        let [sw, other] = [3, 4].map(SwitchIndex);
        hosts.add_switch(sw, SWITCH);
        hosts.add_switch(other, DatapathId(8));
        hosts.take_changes(sw);
        hosts.mark_changed(SWITCH);
        hosts.mark_changed(SWITCH);
        hosts.insert(SWITCH, id(1), host(1, now));
        hosts.mark_changed(DatapathId(8));
        hosts.insert(DatapathId(8), id(2), host(1, now));
        assert_eq!(hosts.take_changed_switches(), [sw], "the other one is not tracked");
        hosts.mark_changed(SWITCH);
        assert_eq!(hosts.take_changed_switches(), [sw], "again");
    }

    #[test]
    fn a_host_is_found_by_the_addresses_of_a_frame_until_it_is_removed() {
        let (mut hosts, now) = (FastPathHosts::default(), now());
        hosts.insert(SWITCH, id(1), host(1, now));
        assert!(hosts.switch(SwitchIndex(3)).is_none(), "no such switch yet");
        hosts.add_switch(SwitchIndex(3), SWITCH);
        hosts.insert(SWITCH, id(1), host(1, now));
        hosts.insert(SWITCH, id(2), host(2, now));
        let tagged = HostId { vlan: VlanId(5), ..id(3) };
        hosts.insert(SWITCH, tagged, host(3, now));
        let frame = frame(2, 1, &[8, 0]);
        let eth = Ethernet::new(&frame).unwrap().header;
        let at_switch = hosts.switch(SwitchIndex(3)).unwrap();
        assert_eq!(at_switch.find(eth.dst_bits()).unwrap().entry().port(), PortNo(2));
        let later = now + Duration::from_secs(1);
        let coarse = at_switch.coarse_time(later);
        at_switch.find(eth.src_bits()).unwrap().mark_seen(coarse);
        assert_eq!(hosts.last_seen(SWITCH, id(1)), Some(later));
        hosts.insert(SWITCH, id(1), host(4, now));
        assert_eq!(hosts.last_seen(SWITCH, id(1)), Some(later), "the later time is kept");
        hosts.remove(SWITCH, id(1));
        assert!(hosts.switch(SwitchIndex(3)).unwrap().find(eth.src_bits()).is_none());
        hosts.remove_switch(SwitchIndex(3));
        assert_eq!(hosts.last_seen(SWITCH, id(2)), None);
    }
}
