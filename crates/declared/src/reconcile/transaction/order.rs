//! The order of the steps of a transaction.

use sluice_base::{HashMap, sort_by_key};

use super::Step;
use crate::entry::Kind;
use crate::form::Slot;

/// In the order of their ranks, groups behind those to which they send packets.
pub(super) fn in_order_of_use(mut steps: Vec<Step>) -> Vec<Step> {
    sort_by_key(&mut steps, Step::rank);
    let is_added_group = |step: &Step| step.to.is_some() && step.slot.kind() == Kind::Group;
    let first = steps.iter().position(is_added_group).unwrap_or(steps.len());
    let groups = steps.iter().skip(first).take_while(|step| is_added_group(step));
    let order = order_of_use(&groups.collect::<Vec<_>>());
    let mut groups: Vec<_> = steps.drain(first..first + order.len()).map(Some).collect();
    let ordered = order.iter().filter_map(|&at| groups.get_mut(at)?.take());
    let ordered: Vec<_> = ordered.collect();
    steps.splice(first..first, ordered);
    steps
}

/// The positions of groups, each behind those that it uses. The rest of a circle, which a switch refuses, comes last.
fn order_of_use(groups: &[&Step]) -> Vec<usize> {
    let positions: HashMap<_, _> =
        groups.iter().enumerate().map(|(at, step)| (&step.slot, at)).collect();
    let mut users = vec![vec![]; groups.len()];
    let mut unplaced_uses = vec![0_usize; groups.len()];
    for (at, (step, count)) in groups.iter().zip(&mut unplaced_uses).enumerate() {
        let used = step.to.iter().flat_map(|form| form.groups_used()).map(Slot::Group);
        for used in used.filter_map(|slot| positions.get(&slot)).filter(|used| **used != at) {
            if let Some(users) = users.get_mut(*used) {
                users.push(at);
                *count += 1;
            }
        }
    }
    let mut order: Vec<_> =
        (0..groups.len()).filter(|at| unplaced_uses.get(*at) == Some(&0)).collect();
    let mut next = 0;
    while let Some(&placed) = order.get(next) {
        next += 1;
        for user in users.get_mut(placed).map(std::mem::take).unwrap_or_default() {
            if let Some(count) = unplaced_uses.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    order.push(user);
                }
            }
        }
    }
    order.extend((0..groups.len()).filter(|at| unplaced_uses.get(*at) != Some(&0)));
    order
}
