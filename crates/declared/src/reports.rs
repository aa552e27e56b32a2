//! What changes have come to, for the log and for those who follow events.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use sluice_base::ordered;
use sluice_io::clock;
use sluice_openflow::DatapathId;

use crate::change::AppliedChange;
use crate::reconcile::{NetworkRefusal, Reconciler};
use crate::service::{Declared, Event, Shared, lock};

/// Changes whose switches have not answered yet. Beyond that, the oldest is reported as it is.
const OPEN_MAX: usize = 256;

/// How long after a change it is reported if some switch has not answered.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// What a change has come to, at the switches that were connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeReport {
    /// The number of the change.
    pub revision: u64,
    /// Entries that were declared, or declared differently.
    pub set: usize,
    /// Entries that were removed.
    pub removed: usize,
    /// Connected switches that it concerns.
    pub switches: usize,
    /// Those of them that do not have it, and why, as far as it is known.
    pub failures: Vec<(DatapathId, String)>,
    /// Whether it is declared: a change of the whole network that was refused is not.
    pub is_declared: bool,
    /// From the request until all switches have answered.
    pub duration: Duration,
    /// Of a change of the whole network: from when the commits were sent until all switches had confirmed them. Between two switches
    /// that have the old and the new policy there was no more time.
    pub commit: Option<Duration>,
}

/// A change that is not reported yet.
#[derive(Debug)]
struct OpenChange {
    report: ChangeReport,
    started: Instant,
}

type Subscriber = Box<dyn Fn(ChangeReport) + Send>;

/// Changes that are not reported yet, and who is notified.
#[derive(Default)]
pub(crate) struct Reports {
    open: Vec<OpenChange>,
    subscriber: Option<Subscriber>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Reports {
    /// Takes the changes that are to be reported now, and completes their reports.
    fn take_due(&mut self, reconciler: &Reconciler) -> Vec<ChangeReport> {
        let now = clock::now();
        let excess = self.open.len().saturating_sub(OPEN_MAX);
        let (mut closed, mut open) = (vec![], vec![]);
        for (no, change) in std::mem::take(&mut self.open).into_iter().enumerate() {
            let is_late = now.saturating_duration_since(change.started) >= ANSWER_MAX;
            let is_over = no < excess || is_late || reconciler.has_tried(change.report.revision);
            if is_over { closed.push(change) } else { open.push(change) }
        }
        self.open = open;
        let complete = |OpenChange { mut report, started }| {
            report.failures = reconciler.failures(report.revision);
            report.duration = now.saturating_duration_since(started);
            report
        };
        closed.into_iter().map(complete).collect()
    }

    fn send(&self, reports: impl IntoIterator<Item = ChangeReport>) {
        if let Some(subscriber) = &self.subscriber {
            reports.into_iter().for_each(subscriber);
        }
    }
}

impl AppliedChange {
    fn report(&self, switches: usize, is_declared: bool) -> ChangeReport {
        let added: BTreeSet<_> = ordered(self.added.iter().map(|entry| entry.key()));
        let removed = self.removed.iter().filter(|entry| !added.contains(entry.key())).count();
        ChangeReport {
            revision: self.revision,
            set: self.added.len(),
            removed,
            switches,
            failures: vec![],
            is_declared,
            duration: Duration::ZERO,
            commit: None,
        }
    }
}

impl Shared {
    /// Reports changes whose switches have answered.
    pub(crate) fn publish_reports(&self) {
        let mut reports = lock(&self.reports);
        if reports.open.is_empty() {
            return;
        }
        let due = reports.take_due(&lock(&self.core).reconciler);
        reports.send(due);
    }

    /// Whether a change waits for being reported.
    pub(crate) fn has_open_changes(&self) -> bool {
        !lock(&self.reports).open.is_empty()
    }
}

impl Declared {
    /// Calls `subscriber`, in any thread, with what each further change has come to. There is one subscriber.
    pub fn subscribe(&self, subscriber: Box<dyn Fn(ChangeReport) + Send>) {
        lock(&self.shared.reports).subscriber = Some(subscriber);
    }

    /// Reports a change when the switches have answered.
    pub(crate) fn follow(
        &self,
        applied: &AppliedChange,
        started: Instant,
        commit: Option<Duration>,
    ) {
        let switches = lock(&self.shared.core).reconciler.concerned(applied);
        let report = ChangeReport { commit, ..applied.report(switches, true) };
        lock(&self.shared.reports).open.push(OpenChange { report, started });
        // The switches may have answered already.
        let _ = self.shared.events.send(Event::Changed);
    }

    pub(crate) fn report_refusal(
        &self,
        applied: &AppliedChange,
        refusal: &NetworkRefusal,
        started: Instant,
    ) {
        let switches = lock(&self.shared.core).reconciler.concerned(applied);
        let mut report = applied.report(switches, false);
        report.failures = vec![(refusal.switch, refusal.part.to_string())];
        report.duration = clock::now().saturating_duration_since(started);
        lock(&self.shared.reports).send([report]);
    }
}
