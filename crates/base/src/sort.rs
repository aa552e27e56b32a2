//! Sorting by code that is compiled once.

use std::cmp::Ordering;
use std::mem;

/// Sorts `items` as `compare` says. Equal ones keep their order.
///
/// It sorts the places of the items, and moves each item once. The sort of the standard library is compiled for each type and order
/// anew: 3 to 6 kB each (docs/adr/0041-packages.md). For what is short, or rarely sorted.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(items.len(), &|a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    arrange(order, &mut |a, b| items.swap(a, b));
}

/// As [`sort_by`], by the keys of the items.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// The places of `count` items, in the order of the items.
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Moves items: the one at place `order[n]` to place `n`.
fn arrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        // Places that exchange their items form a ring. What has been moved is where it belongs.
        let mut place = start;
        while let Some(from) = order.get_mut(place) {
            let from = mem::replace(from, place);
            if from == start {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn items_are_sorted_as_by_the_standard_library() {
        let mut rng = Rng::new(1);
        for count in 0..100_u64 {
            let mut items: Vec<_> = (0..count).map(|at| (rng.below(20), at)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by_key(&mut items, |(key, _)| *key);
            assert_eq!(items, expected);
            sort_by(&mut items, |a, b| b.cmp(a));
            assert!(items.is_sorted_by(|a, b| a > b), "{items:?}");
        }
    }
}
