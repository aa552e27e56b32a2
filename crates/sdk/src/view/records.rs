//! The records of applications that a view keeps: one table for each type.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use super::app_fact::{RecordChange, RecordFact, TypedRecordChange};
use super::{AppRecord, Fact, PublishedFact, REMOVED_KEPT, Stamp};

/// The tables, in the order in which their types were first published. Nothing depends on that order.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<Box<dyn RecordTable>>);

/// A [`TypedRecords`] of any type of record.
pub(super) trait RecordTable: Any + fmt::Debug + Send + Sync {
    /// Applies `change` and returns whether the value has changed; `None` if this is not the table for it.
    fn apply(&mut self, stamp: Stamp, change: &dyn RecordChange) -> Option<bool>;

    /// Whether the value is already that of `change`, and when it was published.
    fn compare(&self, change: &dyn RecordChange) -> Option<(bool, Option<Stamp>)>;

    /// Forgets values that were removed long before `now`.
    fn expire(&mut self, now: Instant);

    /// Facts that say what the table does.
    fn facts(&self) -> Vec<PublishedFact>;
}

/// The records of one type. A removed value stays as `None` for a while, so that a fact that arrives late cannot bring it
/// back.
#[derive(Debug)]
pub(super) struct TypedRecords<T: AppRecord> {
    records: BTreeMap<T::Key, (Stamp, Option<T>)>,
    /// Number of changes.
    version: u64,
}

impl<T: AppRecord> Default for TypedRecords<T> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), version: 0 }
    }
}

impl<T: AppRecord> TypedRecords<T> {
    fn get(&self, key: T::Key) -> Option<&T> {
        self.records.get(&key)?.1.as_ref()
    }
}

impl<T: AppRecord> RecordTable for TypedRecords<T> {
    fn apply(&mut self, stamp: Stamp, change: &dyn RecordChange) -> Option<bool> {
        let TypedRecordChange { key, value } =
            (change as &dyn Any).downcast_ref::<TypedRecordChange<T>>()?;
        let (old_stamp, old) = self.records.entry(*key).or_insert((stamp, None));
        if stamp < *old_stamp {
            return Some(false);
        }
        // Also if the value is the same: all workers must agree on who published it last.
        *old_stamp = stamp;
        let has_changed = old != value;
        if has_changed {
            old.clone_from(value);
            self.version += 1;
        }
        Some(has_changed)
    }

    fn compare(&self, change: &dyn RecordChange) -> Option<(bool, Option<Stamp>)> {
        let TypedRecordChange { key, value } =
            (change as &dyn Any).downcast_ref::<TypedRecordChange<T>>()?;
        let stamp = self.records.get(key).map(|&(stamp, _)| stamp);
        Some((self.get(*key) == value.as_ref(), stamp))
    }

    fn expire(&mut self, now: Instant) {
        let is_kept = |(stamp, value): &(Stamp, Option<T>)| {
            value.is_some() || stamp.is_within(REMOVED_KEPT, now)
        };
        self.records.retain(|_, record| is_kept(record));
    }

    fn facts(&self) -> Vec<PublishedFact> {
        let facts = self.records.iter().map(|(&key, (stamp, value))| {
            let fact = Fact::Record(RecordFact::new(key, value.clone()));
            PublishedFact { stamp: *stamp, fact }
        });
        facts.collect()
    }
}

impl Records {
    fn table<T: AppRecord>(&self) -> Option<&TypedRecords<T>> {
        self.0.iter().find_map(|table| {
            let table: &dyn Any = &**table;
            table.downcast_ref::<TypedRecords<T>>()
        })
    }

    pub(super) fn get<T: AppRecord>(&self, key: T::Key) -> Option<&T> {
        self.table::<T>()?.get(key)
    }

    pub(super) fn iter<T: AppRecord>(&self) -> impl Iterator<Item = (T::Key, &T)> {
        let records = self.table::<T>().into_iter().flat_map(|table| &table.records);
        records.filter_map(|(&key, (_, value))| Some((key, value.as_ref()?)))
    }

    pub(super) fn version<T: AppRecord>(&self) -> u64 {
        self.table::<T>().map_or(0, |table| table.version)
    }

    pub(super) fn apply(&mut self, stamp: Stamp, fact: &RecordFact) -> bool {
        let change = fact.change();
        let applied = self.0.iter_mut().find_map(|table| table.apply(stamp, change));
        applied.unwrap_or_else(|| {
            let mut table = change.new_table();
            let has_changed = table.apply(stamp, change).unwrap_or(false);
            self.0.push(table);
            has_changed
        })
    }

    /// Facts that say what all tables do.
    pub(super) fn facts(&self) -> Vec<PublishedFact> {
        self.0.iter().flat_map(|table| table.facts()).collect()
    }

    pub(super) fn knows(&self, fact: &RecordFact) -> bool {
        let removes = || fact.change().new_table().compare(fact.change());
        let compared = self.0.iter().find_map(|table| table.compare(fact.change()));
        compared.or_else(removes).is_some_and(|(is_same, _)| is_same)
    }

    pub(super) fn stamp_of(&self, fact: &RecordFact) -> Option<Stamp> {
        self.0.iter().find_map(|table| table.compare(fact.change()))?.1
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.0.iter_mut().for_each(|table| table.expire(now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_base::Rng;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Quota(u64);

    impl AppRecord for Quota {
        type Key = u64;
    }

    #[derive(Debug, Clone, PartialEq)]
    struct Leader(&'static str);

    impl AppRecord for Leader {
        type Key = ();
    }

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        Instant::now()
    }

    fn quota(key: u64, value: Option<u64>) -> RecordFact {
        RecordFact::new(key, value.map(Quota))
    }

    #[test]
    fn the_last_value_for_each_key_holds_in_whichever_order_facts_arrive() {
        let start = now();
        let stamp = |ms| Stamp::new(start + Duration::from_millis(ms), 0);
        let value = |n| match n % 7 {
            0 | 2 => Some(1),
            3 | 6 => Some(0),
            4 => Some(2),
            _ => None,
        };
        let last: Vec<_> = (0..3).map(|n| value(27 + n)).collect();
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let mut order: Vec<u64> = (0..30).collect();
            for n in (1..order.len()).rev() {
                order.swap(n, rng.below(u32::try_from(n + 1).unwrap()) as usize);
            }
            let mut records = Records::default();
            for n in order {
                records.apply(stamp(n), &quota(n % 3, value(n)));
            }
            let values: Vec<_> =
                (0..3).map(|key| records.get::<Quota>(key).map(|quota| quota.0)).collect();
            assert_eq!(values, last);
        }
    }

    #[test]
    fn only_another_value_is_a_change() {
        let (mut records, stamp) = (Records::default(), Stamp::new(now(), 0));
        assert!(records.knows(&quota(1, None)) && !records.knows(&quota(1, Some(5))));
        assert!(!records.apply(stamp, &quota(1, None)));
        assert!(records.apply(stamp, &quota(1, Some(5))));
        assert!(!records.apply(stamp, &quota(1, Some(5))));
        assert!(records.knows(&quota(1, Some(5))) && !records.knows(&quota(1, None)));
        assert_eq!(records.version::<Quota>(), 1);
        assert!(records.apply(stamp, &quota(1, None)));
        assert_eq!((records.version::<Quota>(), records.iter::<Quota>().count()), (2, 0));
    }

    #[test]
    fn an_older_fact_changes_nothing() {
        let (mut records, start) = (Records::default(), now());
        let stamp = |ms| Stamp::new(start + Duration::from_millis(ms), 0);
        assert!(records.apply(stamp(2), &quota(1, Some(5))));
        assert!(!records.apply(stamp(1), &quota(1, None)));
        // The same value again, published later, counts from then on.
        assert!(!records.apply(stamp(4), &quota(1, Some(5))));
        assert!(!records.apply(stamp(3), &quota(1, Some(6))));
        assert_eq!(records.stamp_of(&quota(1, None)), Some(stamp(4)));
    }

    #[test]
    fn types_have_tables_of_their_own() {
        let (mut records, stamp) = (Records::default(), Stamp::new(now(), 0));
        assert!(records.apply(stamp, &quota(2, Some(7))));
        assert!(records.apply(stamp, &RecordFact::new((), Some(Leader("a")))));
        assert!(records.apply(stamp, &quota(1, Some(5))));
        let quotas: Vec<_> = records.iter::<Quota>().map(|(key, quota)| (key, quota.0)).collect();
        assert_eq!(quotas, [(1, 5), (2, 7)], "in the order of their keys");
        assert_eq!(records.get::<Leader>(()), Some(&Leader("a")));
        assert_eq!((records.version::<Quota>(), records.version::<Leader>()), (2, 1));
    }

    #[test]
    fn removed_values_are_forgotten_after_a_while() {
        let (mut records, start) = (Records::default(), now());
        let stamp = Stamp::new(start, 0);
        records.apply(stamp, &quota(1, None));
        records.apply(stamp, &quota(2, Some(5)));
        records.expire(start + REMOVED_KEPT);
        assert_eq!(records.stamp_of(&quota(1, None)), Some(stamp));
        records.expire(start + REMOVED_KEPT * 2);
        assert_eq!(records.stamp_of(&quota(1, None)), None);
        assert_eq!(records.get::<Quota>(2), Some(&Quota(5)));
    }
}
