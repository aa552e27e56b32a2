//! Which hosts of a table have changed, for an engine that answers in the place of the application.

use sluice_openflow::{EthHeader, MacAddr, PortNo, VlanId};

use super::Table;
use super::bucket::{HostBucket, Key, Tick, find};

/// Changed hosts of a list.
const CHANGES_MAX: usize = 4096;

/// The hosts of a table that were added, moved, removed, or seen in a later second, if somebody wants to know.
#[derive(Debug, Default)]
pub(super) enum Changes {
    /// Nobody wants to know.
    #[default]
    Ignored,
    /// These, by key, perhaps more than once.
    Some(Vec<u64>),
    /// Too many for a list.
    Many,
}

impl Changes {
    /// Whether somebody wants to know.
    #[inline]
    pub(super) fn are_wanted(&self) -> bool {
        !matches!(self, Self::Ignored)
    }

    /// Records a host.
    #[inline]
    pub(super) fn record(&mut self, key: u64) {
        if self.are_wanted() {
            self.record_wanted(key);
        }
    }

    /// Records that the host in a slot is about to be replaced by another one.
    #[cold]
    #[inline(never)]
    pub(super) fn record_replaced(&mut self, bucket: &HostBucket, slot: usize, key: u64) {
        self.record_wanted(bucket.keys.get(slot).copied().unwrap_or(0));
        self.record_wanted(key);
    }

    #[cold]
    #[inline(never)]
    fn record_wanted(&mut self, key: u64) {
        match self {
            Self::Some(keys) if keys.len() < CHANGES_MAX => keys.push(key),
            Self::Some(_) => *self = Self::Many,
            Self::Ignored | Self::Many => {}
        }
    }

    /// Records that any host may have changed.
    pub(super) fn record_all(&mut self) {
        if matches!(self, Self::Some(_)) {
            *self = Self::Many;
        }
    }
}

/// A host of untagged frames, with port and time if the table has it.
pub(crate) type ChangedHost = (MacAddr, Option<(PortNo, Tick)>);

/// The hosts that have changed.
pub(crate) enum ChangedHosts {
    /// These.
    Some(Vec<ChangedHost>),
    /// All hosts; there are no others.
    All(Vec<ChangedHost>),
}

impl Table {
    /// The hosts of untagged frames that have changed since the last call. The first call returns all, and starts the recording.
    pub(crate) fn take_changes(&mut self) -> ChangedHosts {
        match std::mem::replace(&mut self.occupancy.changes, Changes::Some(Vec::new())) {
            Changes::Some(keys) => {
                let keys = keys.into_iter().map(Key).filter(|key| key.is_untagged());
                ChangedHosts::Some(keys.map(|key| (key.mac(), self.location(key))).collect())
            }
            Changes::Ignored | Changes::Many => {
                let hosts = self.buckets.iter().flat_map(HostBucket::hosts);
                let hosts = hosts.filter(|host| Key(host.key).is_untagged());
                let located = |host: super::LearnedHost| {
                    (Key(host.key).mac(), Some((PortNo(host.port), host.seen)))
                };
                ChangedHosts::All(hosts.map(located).collect())
            }
        }
    }

    /// Has the next call return all hosts.
    pub(crate) fn publish_again(&mut self) {
        self.occupancy.changes.record_all();
    }

    fn location(&mut self, key: Key) -> Option<(PortNo, Tick)> {
        let hashed = self.hashed(key);
        let (bucket, slot) = find(&mut self.buckets, hashed)?;
        Some((PortNo(*bucket.ports.get(slot)?), *bucket.seen.get(slot)?))
    }

    /// Records that the engine has seen the host `mac` of untagged frames at `tick`, unless it was seen later.
    pub(crate) fn record_seen(&mut self, mac: MacAddr, tick: Tick, now: Tick) {
        let hashed = self.hashed(Key::untagged(mac));
        if let Some((bucket, slot)) = find(&mut self.buckets, hashed)
            && let Some(&seen) = bucket.seen.get(slot)
            && now.wrapping_sub(tick) < now.wrapping_sub(seen)
        {
            self.occupancy.refresh(bucket, slot, tick);
        }
    }
}

impl Key {
    /// The key of a host of untagged frames.
    fn untagged(mac: MacAddr) -> Self {
        Self::new(EthHeader::bits_of_mac(mac), VlanId(0))
    }

    /// Whether the host sends untagged frames, or frames with a tag for VLAN 0.
    fn is_untagged(self) -> bool {
        self == Self::untagged(self.mac())
    }

    fn mac(self) -> MacAddr {
        EthHeader::mac_of_bits(self.0)
    }
}

#[cfg(test)]
mod tests {
    use sluice_base::{HashMap, Rng};

    use super::*;

    /// A copy that follows the changes has the hosts of the table at any time, whatever happens to it.
    #[test]
    fn a_copy_that_follows_the_changes_is_equal_to_the_table() {
        for (hosts_max, hosts) in [(10_000, 3000), (300, 3000), (20_000, 60_000)] {
            let mut rng = Rng::new(7);
            let mut table = Table::new(hosts_max, 3);
            let mut copy = HashMap::default();
            let mut takes = [0, 0];
            for step in 0..60_000u32 {
                let now = Tick::try_from(step / 2000).unwrap();
                let mac = MacAddr::from_u64(0x0200_0000_0000 | u64::from(rng.below(hosts)));
                let (key, port) = (table.hashed(Key::untagged(mac)), PortNo(rng.below(4)));
                table.learn(key, port, now);
                if rng.below(3) == 0 {
                    table.confirm(key);
                }
                match rng.below(20_000) {
                    0 => table.remove_port(port),
                    1 => table.sweep(0, 2, now, 3),
                    2 => table.record_seen(mac, now, now),
                    _ => _ = table.for_burst(now, 300),
                }
                if rng.below(500) > 0 {
                    continue;
                }
                let changed = match table.take_changes() {
                    ChangedHosts::All(hosts) => {
                        copy.clear();
                        takes[0] += 1;
                        hosts
                    }
                    ChangedHosts::Some(hosts) => {
                        takes[1] += 1;
                        hosts
                    }
                };
                for (mac, location) in changed {
                    match location {
                        Some(location) => _ = copy.insert(mac, location),
                        None => _ = copy.remove(&mac),
                    }
                }
                let entries = table.buckets.iter().flat_map(HostBucket::hosts);
                let expected: HashMap<_, _> =
                    entries.map(|it| (Key(it.key).mac(), (PortNo(it.port), it.seen))).collect();
                assert_eq!(copy, expected, "step {step}");
            }
            assert!(takes[0] >= 1 && takes[1] > 50, "{takes:?}");
        }
    }

    #[test]
    fn hosts_of_vlans_are_not_published() {
        let mut table = Table::new(100, 3);
        let _ = table.take_changes();
        let mac = MacAddr::from_u64(0x0200_0000_0001);
        let tagged = table.hashed(Key::new(EthHeader::bits_of_mac(mac), VlanId(5)));
        table.learn(tagged, PortNo(1), 0);
        let ChangedHosts::Some(changed) = table.take_changes() else { panic!() };
        assert_eq!(changed, []);
    }
}
