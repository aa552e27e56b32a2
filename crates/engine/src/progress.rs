//! Whether the threads of an engine make progress.

use std::fmt;
use std::sync::Arc;

use sluice_io::{Wake as _, Waker};

use crate::counters::CounterRegistry;

/// Observes whether the threads of an engine complete iterations of their event loops. A thread that waits forever, or that never
/// returns from an application, completes none.
pub struct ProgressMonitor {
    registry: Arc<CounterRegistry>,
    acceptor: Waker,
    /// Iterations of each thread at the last call.
    seen: Vec<u64>,
}

impl ProgressMonitor {
    pub(crate) fn new(registry: Arc<CounterRegistry>, acceptor: Waker) -> Self {
        let seen = registry.iterations().collect();
        let new = Self { registry, acceptor, seen };
        new.acceptor.wake();
        new
    }

    /// The names of the threads that have completed no iteration since the last call, or since this was created. Calls need an interval
    /// of more than a second: an idle worker does one iteration every 250 ms, and the acceptor one for each call.
    pub fn stalled_threads(&mut self) -> Vec<String> {
        let now: Vec<_> = self.registry.iterations().collect();
        let pairs = now.iter().zip(&self.seen).enumerate();
        let stalled = pairs.filter(|(_, (now, seen))| now == seen).map(|(thread, _)| name(thread));
        let stalled = stalled.collect();
        self.seen = now;
        self.acceptor.wake();
        stalled
    }
}

impl fmt::Debug for ProgressMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressMonitor").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// The name of a thread by its position in the registry.
fn name(thread: usize) -> String {
    match thread.checked_sub(1) {
        None => "acceptor".to_owned(),
        Some(worker) => format!("worker-{worker}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_without_an_iteration_are_stalled() {
        let (registry, waker) = (Arc::new(CounterRegistry::new(2)), Waker::new().unwrap());
        let mut monitor = ProgressMonitor::new(registry.clone(), waker);
        let iterate = |thread: usize| {
            registry.threads[thread].end_iteration(Duration::ZERO, Duration::ZERO);
        };
        iterate(0);
        iterate(2);
        assert_eq!(monitor.stalled_threads(), ["worker-0"]);
        iterate(1);
        iterate(1);
        iterate(2);
        assert_eq!(monitor.stalled_threads(), ["acceptor"]);
        (0..3).for_each(iterate);
        assert!(monitor.stalled_threads().is_empty());
    }
}
