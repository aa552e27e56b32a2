//! How much of a large piece of work is done in one event-loop iteration, so that other switches do not wait for it.

/// What an application may still do in this event-loop iteration.
#[derive(Debug)]
pub(crate) struct IterationBudget {
    max: usize,
    left: usize,
}

impl IterationBudget {
    /// A budget of `max` units for each iteration.
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, left: max }
    }

    /// An iteration begins.
    pub(crate) fn refill(&mut self) {
        self.left = self.max;
    }

    /// Takes one unit. Returns `false` if none is left.
    pub(crate) fn take(&mut self) -> bool {
        let has_more = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_more
    }
}
