//! Removes the transit entries of versions with which no packet is tagged any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::{DRAIN_TIME, Policy};
use crate::change;
use crate::service::{Shared, lock, now};

/// Pause before it is tried again, if something else is being changed or the store cannot be written.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// Removes what is due. Returns when something may be due next.
    pub(crate) fn retire_policies(&self) -> Option<Instant> {
        let (due, mut next) = self.due_policies();
        for policy in due {
            if !self.retire(&policy) {
                let at = now().at + RETRY_PAUSE;
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    /// The policies with versions that are to be removed now, and when others may be due.
    fn due_policies(&self) -> (Vec<Arc<Policy>>, Option<Instant>) {
        let mut core = lock(&self.core);
        let now = now().at;
        let (mut due, mut next) = (vec![], None);
        let retiring = core.policies.values().filter(|policy| !policy.retired.is_empty());
        for policy in retiring.cloned().collect::<Vec<_>>() {
            let since = match core.draining.get(&policy.name) {
                Some(since) => *since,
                None if core.reconciler.has_replaced(&policy) => {
                    core.draining.insert(policy.name.clone(), now);
                    now
                }
                // Looked at again when a switch has answered.
                None => continue,
            };
            let at = since + DRAIN_TIME;
            if at <= now {
                due.push(policy);
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        }
        (due, next)
    }

    /// Returns whether this policy has nothing to remove any more.
    fn retire(&self, policy: &Arc<Policy>) -> bool {
        // Who replaces a policy, or makes another change, waits for this thread, so it does not wait for them.
        let (Ok(_updating), Ok(_changing)) =
            (self.updating_policy.try_lock(), self.changing.try_lock())
        else {
            return false;
        };
        let (is_current, revision) = {
            let core = lock(&self.core);
            let now = core.policies.get(&policy.name);
            (now.is_some_and(|it| Arc::ptr_eq(it, policy)), core.revision + 1)
        };
        if !is_current {
            return true;
        }
        let after = policy
            .current
            .as_ref()
            .map(|current| Arc::new(policy.with_versions(Some(Arc::clone(current)), None, vec![])));
        let applied = change::policy(&policy.name, Some(policy), after.as_ref(), revision);
        let result = self.commit(&applied);
        if let Err(error) = &result {
            warn!(policy = policy.name, "entries of a replaced version are kept for now: {error}");
        }
        result.is_ok()
    }
}
