//! Collections that are built from items.

/// A map or set of the standard library's `BTree` collections with all `items`; of several with the same key, the last one counts.
///
/// It inserts one item after the other. `collect` sorts them first, which is compiled for each type anew: 6 kB of code each, in a binary whose size counts
/// (docs/adr/0041-packages.md). For collections that are small, or built once.
pub fn ordered<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_last_item_of_a_key_counts() {
        let map: BTreeMap<_, _> = ordered([(2, 'a'), (1, 'b'), (2, 'c')]);
        assert_eq!(map, BTreeMap::from([(1, 'b'), (2, 'c')]));
    }
}
