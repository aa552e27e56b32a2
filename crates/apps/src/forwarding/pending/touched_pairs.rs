//! Pairs of hosts whose packet-ins the application has handled since an engine that answers in its place was last told of them, by the switch
//! that sent the packet-ins.

use std::time::Instant;

use sluice_openflow::{EthHeader, MacAddr};
use sluice_sdk::SwitchIndex;

/// Pairs that are listed for a switch. If there are more, the engine answers nothing to this switch until no installation is pending.
const PAIRS_MAX: usize = 4096;

/// Pairs that are listed for all switches of a worker, in 1 MiB. The switches for which there is no room have too many pairs.
const ALL_PAIRS_MAX: usize = 65_536;

/// The pairs, of the switches to which an engine answers.
#[derive(Debug, Default)]
pub(super) struct TouchedPairs {
    /// By [`SwitchIndex`].
    switches: Vec<Option<Box<SwitchPairs>>>,
    /// Pairs of all switches.
    count: usize,
}

#[derive(Debug, Default)]
struct SwitchPairs {
    /// Bits of both addresses.
    pairs: Vec<[u64; 2]>,
    /// There was no room for a pair.
    is_full: bool,
    /// The engine does not know all pending installations until then.
    unknown_until: Option<Instant>,
}

/// The list of one switch.
#[derive(Debug)]
pub(super) struct PairList<'a> {
    of_switch: &'a mut SwitchPairs,
    count: &'a mut usize,
}

/// The pairs of a switch that an engine has to be told of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// These.
    Some(Vec<[MacAddr; 2]>),
    /// Any may have been handled.
    Any,
    /// Any may have been handled before, and their installations are pending until then.
    AnyUntil(Instant),
}

impl TouchedPairs {
    /// The list of a switch, if an engine answers to it.
    #[inline]
    pub(super) fn list(&mut self, switch: SwitchIndex) -> Option<PairList<'_>> {
        let of_switch = self.switches.get_mut(switch.index())?.as_deref_mut()?;
        Some(PairList { of_switch, count: &mut self.count })
    }

    /// Takes what is listed for a switch, and lists its pairs from now on.
    pub(super) fn take(&mut self, switch: SwitchIndex, now: Instant) -> Touched {
        if self.switches.len() <= switch.index() {
            self.switches.resize_with(switch.index() + 1, || None);
        }
        let Some(slot) = self.switches.get_mut(switch.index()) else { return Touched::Any };
        let was_listed = slot.is_some();
        let list = slot.get_or_insert_default();
        if let Some(until) = list.unknown_until.filter(|&until| until > now) {
            return Touched::AnyUntil(until);
        }
        list.unknown_until = None;
        let pairs = std::mem::take(&mut list.pairs);
        self.count -= pairs.len();
        if std::mem::take(&mut list.is_full) || !was_listed {
            return Touched::Any;
        }
        Touched::Some(pairs.into_iter().map(|pair| pair.map(EthHeader::mac_of_bits)).collect())
    }

    /// An engine does not know all pending installations of a switch until `until`.
    pub(super) fn set_unknown_until(&mut self, switch: SwitchIndex, until: Instant) {
        if let Some(list) = self.list(switch) {
            list.of_switch.unknown_until = Some(until);
        }
    }

    /// Forgets a switch that has disconnected.
    pub(super) fn remove(&mut self, switch: SwitchIndex) {
        if let Some(list) = self.switches.get_mut(switch.index()).and_then(Option::take) {
            self.count -= list.pairs.len();
        }
    }
}

impl PairList<'_> {
    /// Lists a pair, which has the addresses as [`EthHeader::dst_bits`] returns them. A list without room for it is of no use: it is emptied,
    /// so that it takes no room of other switches.
    #[inline]
    pub(super) fn add(&mut self, pair: [u64; 2]) {
        if self.of_switch.is_full {
            return;
        }
        if self.of_switch.pairs.len() < PAIRS_MAX && *self.count < ALL_PAIRS_MAX {
            self.of_switch.pairs.push(pair);
            *self.count += 1;
        } else {
            *self.count -= self.of_switch.pairs.len();
            self.of_switch.pairs = Vec::new();
            self.of_switch.is_full = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SWITCH: SwitchIndex = SwitchIndex(2);
    const OTHER: SwitchIndex = SwitchIndex(5);

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn pair() -> [MacAddr; 2] {
        [1, 2].map(|n| MacAddr::from_u64(0x0200_0000_0000 | n))
    }

    fn add(touched: &mut TouchedPairs, switch: SwitchIndex, times: usize) {
        if let Some(mut list) = touched.list(switch) {
            (0..times).for_each(|_| list.add(pair().map(MacAddr::bits)));
        }
    }

    #[test]
    fn pairs_are_listed_from_the_first_request_on_until_there_are_too_many() {
        let (mut touched, now) = (TouchedPairs::default(), now());
        add(&mut touched, SWITCH, 1);
        assert_eq!(touched.take(SWITCH, now), Touched::Any, "none were listed before");
        assert_eq!(touched.take(SWITCH, now), Touched::Some(vec![]));
        add(&mut touched, SWITCH, 1);
        assert_eq!(touched.take(SWITCH, now), Touched::Some(vec![pair()]));
        add(&mut touched, SWITCH, PAIRS_MAX + 1);
        assert_eq!(touched.take(SWITCH, now), Touched::Any);
        let until = now + Duration::from_millis(50);
        touched.set_unknown_until(SWITCH, until);
        add(&mut touched, SWITCH, 1);
        assert_eq!(touched.take(SWITCH, now), Touched::AnyUntil(until));
        assert_eq!(touched.take(SWITCH, until), Touched::Some(vec![pair()]));
    }

    #[test]
    fn a_switch_with_too_many_pairs_is_the_only_one_that_has_too_many() {
        let (mut touched, now) = (TouchedPairs::default(), now());
        for switch in [SWITCH, OTHER] {
            touched.take(switch, now);
        }
        add(&mut touched, SWITCH, 2 * PAIRS_MAX);
        add(&mut touched, OTHER, 1);
        assert_eq!(touched.take(OTHER, now), Touched::Some(vec![pair()]));
        assert_eq!(touched.take(SWITCH, now), Touched::Any);
    }

    #[test]
    fn lists_that_were_too_long_take_no_room_of_others() {
        let (mut touched, now) = (TouchedPairs::default(), now());
        let switches = 1 + u32::try_from(ALL_PAIRS_MAX / PAIRS_MAX).unwrap();
        for switch in (0..=switches).map(SwitchIndex) {
            touched.take(switch, now);
        }
        for switch in (0..switches).map(SwitchIndex) {
            add(&mut touched, switch, 2 * PAIRS_MAX);
        }
        assert_eq!(touched.count, 0);
        add(&mut touched, SwitchIndex(switches), 1);
        assert_eq!(touched.take(SwitchIndex(switches), now), Touched::Some(vec![pair()]));
        assert_eq!(touched.take(SwitchIndex(0), now), Touched::Any);
    }

    #[test]
    fn the_pairs_of_all_switches_are_bounded_and_those_of_removed_ones_do_not_count() {
        let (mut touched, now) = (TouchedPairs::default(), now());
        let switches = 1 + u32::try_from(ALL_PAIRS_MAX / PAIRS_MAX).unwrap();
        for switch in (0..switches).map(SwitchIndex) {
            touched.take(switch, now);
            add(&mut touched, switch, PAIRS_MAX);
        }
        assert_eq!(touched.count, ALL_PAIRS_MAX);
        assert_eq!(touched.take(SwitchIndex(switches - 1), now), Touched::Any);
        touched.remove(SwitchIndex(0));
        add(&mut touched, SwitchIndex(switches - 1), 1);
        assert_eq!(touched.take(SwitchIndex(switches - 1), now), Touched::Some(vec![pair()]));
        assert_eq!(touched.count, ALL_PAIRS_MAX - PAIRS_MAX);
        assert_eq!(touched.take(SwitchIndex(0), now), Touched::Any, "another switch");
    }
}
