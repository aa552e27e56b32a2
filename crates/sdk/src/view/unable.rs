//! What switches could not match, as their workers say.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::DatapathId;

use super::{KEPT, Stamp};

/// The simplest form of rules that a switch could not match, by its rank; `None` once it may match all.
#[derive(Debug, Default)]
pub(super) struct Unable(BTreeMap<DatapathId, (Stamp, Option<u8>)>);

impl Unable {
    pub(super) fn rank(&self, id: DatapathId) -> Option<u8> {
        self.0.get(&id)?.1
    }

    pub(super) fn ranks(&self) -> impl Iterator<Item = u8> {
        self.0.values().filter_map(|&(_, rank)| rank)
    }

    pub(super) fn stamp(&self, id: DatapathId) -> Option<Stamp> {
        self.0.get(&id).map(|&(stamp, _)| stamp)
    }

    pub(super) fn set(&mut self, stamp: Stamp, id: DatapathId, new: Option<u8>) -> bool {
        let (old_stamp, old) = self.0.entry(id).or_insert((stamp, None));
        if stamp < *old_stamp {
            return false;
        }
        // What is said once more is later, too.
        *old_stamp = stamp;
        std::mem::replace(old, new) != new
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, (stamp, rank)| rank.is_some() || stamp.is_within(KEPT, now));
    }
}

#[cfg(test)]
mod tests {
    use sluice_base::Rng;

    use super::*;

    #[test]
    fn the_later_word_about_each_switch_holds_in_whichever_order_they_arrive() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let stamp = |ms| Stamp::new(now + std::time::Duration::from_millis(ms), 0);
        let id = |n| DatapathId(n % 3);
        let said = |n| match n % 7 {
            0 | 2 => Some(1),
            3 | 6 => Some(0),
            4 => Some(2),
            _ => None,
        };
        let last: Vec<_> = (0..3).map(|n| said(27 + n)).collect();
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let mut order: Vec<u64> = (0..30).collect();
            for n in (1..order.len()).rev() {
                order.swap(n, rng.below(u32::try_from(n + 1).unwrap()) as usize);
            }
            let mut unable = Unable::default();
            for n in order {
                unable.set(stamp(n), id(n), said(n));
            }
            let ranks: Vec<_> = (0..3).map(|n| unable.rank(id(n))).collect();
            assert_eq!(ranks, last);
        }
    }

    #[test]
    fn only_what_is_otherwise_is_news_and_what_is_over_is_forgotten() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let (mut unable, stamp, id) = (Unable::default(), Stamp::new(now, 0), DatapathId(1));
        assert!(!unable.set(stamp, id, None));
        assert!(unable.set(stamp, id, Some(1)) && !unable.set(stamp, id, Some(1)));
        assert!(unable.set(stamp, DatapathId(2), Some(0)));
        assert_eq!(unable.ranks().collect::<Vec<_>>(), [1, 0]);
        assert!(unable.set(stamp, id, None));
        unable.sweep(now + KEPT * 2);
        assert_eq!((unable.stamp(id), unable.rank(DatapathId(2))), (None, Some(0)));
    }
}
