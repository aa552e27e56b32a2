//! Maps and sets of the standard library.

use std::collections::{BTreeMap, BTreeSet};

/// A map or set that is sorted by its keys.
pub trait Sorted {}

impl<K, V> Sorted for BTreeMap<K, V> {}

impl<T> Sorted for BTreeSet<T> {}

/// A map or set with all `items`. Of several with the same key, the last value counts.
///
/// It inserts one item after the other. `collect` sorts them first, by code that is compiled for each type anew: 6 kB each
/// (docs/adr/0041-packages.md). For collections that are small, or rarely built.
pub fn ordered<C: Sorted + Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_item_of_a_key_counts() {
        let map: BTreeMap<_, _> = ordered([(2, 'a'), (1, 'b'), (2, 'c')]);
        assert_eq!(map, BTreeMap::from([(1, 'b'), (2, 'c')]));
    }
}
