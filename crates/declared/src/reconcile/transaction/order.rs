//! The order of the steps of a transaction.

use super::Step;
use crate::entry::Kind;
use crate::form::Slot;

/// Groups behind those to which they send packets.
pub(super) fn in_order_of_use(mut steps: Vec<Step>) -> Vec<Step> {
    let mut ordered: Vec<Step> = Vec::with_capacity(steps.len());
    loop {
        let waiting: Vec<_> = steps
            .iter()
            .filter(|step| step.to.is_some() && step.slot.kind() == Kind::Group)
            .map(|step| step.slot.clone())
            .collect();
        let waits = |step: &Step| {
            let used = step.to.iter().flat_map(|form| form.groups_used());
            let mut used = used.map(Slot::Group);
            used.any(|slot| slot != step.slot && waiting.contains(&slot))
        };
        if waiting.len() < 2 {
            break;
        }
        let (later, ready): (Vec<_>, Vec<_>) = steps.into_iter().partition(waits);
        let is_circle = ready.is_empty();
        ordered.extend(ready);
        steps = later;
        if is_circle || steps.is_empty() {
            // A circle is refused by the switch.
            break;
        }
    }
    ordered.extend(steps);
    // Stable: what was added too early by the partition returns behind the groups.
    ordered.sort_by_key(Step::rank);
    ordered
}
