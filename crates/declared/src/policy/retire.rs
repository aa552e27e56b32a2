//! Removes the transit entries of versions with which no packet is tagged any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use super::Policy;
use crate::change;
use crate::service::{Shared, lock, now};

/// How often it is tried again: if switches still tag packets, something else is being changed, or the store cannot be written.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The same after the store could not be written.
const STORE_PAUSE: Duration = Duration::from_secs(30);

/// What has become of an attempt.
enum Attempt {
    Made,
    /// Something else is being changed.
    Busy,
    /// The store cannot be written.
    Failed,
}

impl Shared {
    /// Removes what is due. Returns when something may be due next; `None` if no version was replaced.
    pub(crate) fn retire_policies(&self) -> Option<Instant> {
        let (due, mut next) = self.due_policies();
        for policy in due {
            let pause = match self.retire(&policy) {
                Attempt::Made => continue,
                Attempt::Busy => RETRY_PAUSE,
                Attempt::Failed => STORE_PAUSE,
            };
            let at = now().at + pause;
            return Some(next.map_or(at, |next| next.max(at)));
        }
        if next.is_none() && self.has_replaced_versions() {
            next = Some(now().at + RETRY_PAUSE);
        }
        next
    }

    fn has_replaced_versions(&self) -> bool {
        lock(&self.core).policies.values().any(|policy| !policy.retired.is_empty())
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
                None if core.reconciler.has_replaced(&policy).is_ok() => {
                    core.draining.insert(policy.name.clone(), now);
                    now
                }
                None => continue,
            };
            let at = since + core.reconciler.timing().drain_time;
            if at <= now {
                due.push(policy);
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        }
        (due, next)
    }

    fn retire(&self, policy: &Arc<Policy>) -> Attempt {
        // Never blocks: the threads that hold these locks wait for this one.
        let (Ok(_updating), Ok(_changing)) =
            (self.updating_policy.try_lock(), self.changing.try_lock())
        else {
            return Attempt::Busy;
        };
        let (is_current, revision) = {
            let core = lock(&self.core);
            let present = core.policies.get(&policy.name);
            (present.is_some_and(|it| Arc::ptr_eq(it, policy)), core.revision + 1)
        };
        if !is_current {
            return Attempt::Made;
        }
        let after = policy.without_retired().map(Arc::new);
        let applied = change::policy(&policy.name, Some(policy), after.as_ref(), revision);
        match self.commit(&applied) {
            Ok(()) => Attempt::Made,
            Err(error) => {
                warn!(policy = policy.name, "entries of a replaced version are kept: {error}");
                Attempt::Failed
            }
        }
    }
}
