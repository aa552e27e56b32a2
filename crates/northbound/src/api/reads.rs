//! Limits how many replies of switches are read at a time.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_base::HashMap;
use sluice_openflow::DatapathId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Replies of all switches that are read at a time; each may have some megabytes. Further requests wait.
const READS_MAX: usize = 16;

/// Replies of one switch that are read at a time: all its incomplete replies together may have 4 MiB.
const READS_PER_SWITCH_MAX: usize = 2;

/// Which replies are being read.
#[derive(Debug)]
pub(super) struct Reads {
    all: Arc<Semaphore>,
    /// The switches from which something is being read.
    switches: Mutex<HashMap<DatapathId, Weak<Semaphore>>>,
}

/// A reply may be read until this is dropped.
#[derive(Debug)]
pub(super) struct ReadPermit {
    _of_switch: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Default for Reads {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(READS_MAX)), switches: Mutex::default() }
    }
}

impl Reads {
    /// Waits until another reply of a switch may be read.
    pub(super) async fn acquire(&self, from: DatapathId) -> ReadPermit {
        // The switch first: a request that waits for a slow one keeps no place from others. Neither is ever closed.
        let of_switch = self.of_switch(from).acquire_owned().await.ok();
        let of_all = self.all.clone().acquire_owned().await.ok();
        ReadPermit { _of_switch: of_switch, _of_all: of_all }
    }

    fn of_switch(&self, id: DatapathId) -> Arc<Semaphore> {
        let mut switches = self.switches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = switches.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        switches.retain(|_, semaphore| semaphore.strong_count() > 0);
        let new = Arc::new(Semaphore::new(READS_PER_SWITCH_MAX));
        switches.insert(id, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// The permit, if there is no need to wait for it.
    fn try_acquire(reads: &Reads, id: u64) -> Option<ReadPermit> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(reads.acquire(DatapathId(id))).poll(&mut context) {
            std::task::Poll::Ready(permit) => Some(permit),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn of_one_switch_two_replies_are_read_and_of_all_sixteen() {
        let reads = Reads::default();
        let mut held: Vec<_> = (0..2).map(|_| try_acquire(&reads, 1).unwrap()).collect();
        assert!(try_acquire(&reads, 1).is_none());
        held.extend((2..16).map(|id| try_acquire(&reads, id).unwrap()));
        assert!(try_acquire(&reads, 16).is_none());
        held.remove(0);
        assert!(try_acquire(&reads, 1).is_some());
        drop(held);
        assert!(try_acquire(&reads, 99).is_some());
        assert_eq!(reads.switches.lock().unwrap().len(), 1, "switches without reads are forgotten");
    }
}
