//! The thread that keeps the switches as declared: it drives the reconciler, and does its input and output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluice_io::clock;
use sluice_openflow::DatapathId;
use sluice_sdk::view::{Fact, ResubscriptionPause, SubscriptionEnd, ViewSubscription, ViewUpdate};
use tracing::{info, warn};

use crate::reconcile::{NetworkState, Notice, OutRequest};
use crate::service::{Event, Shared, StoreState, lock, now};

/// How often the sessions are compared even if nothing has reported that they have changed.
const SESSIONS_INTERVAL: Duration = Duration::from_secs(10);

/// How long after a change they are compared once more: a switch that moves to another worker is in no list for a moment. Also how often
/// they are compared while there is no subscription that would report changes.
const SESSIONS_REPEAT: Duration = Duration::from_secs(1);

/// Pause between two comparisons, so that many switches that connect at a time are compared together: each comparison looks at
/// all sessions.
const SESSIONS_PAUSE: Duration = Duration::from_millis(250);

/// A pause is at least as many times longer than the comparison before it, so that many switches that connect all the time do not keep
/// the API from what is declared.
const SESSIONS_PAUSE_FACTOR: u32 = 20;

/// The longest pause: until its end, entries of a switch that has disconnected are shown as installed, and one that has connected gets none.
const SESSIONS_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause before records are published again for which the controller had too much to do.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(50);

/// How often changes are looked at that are not reported yet, if nothing happens.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after the store could not be written, before it is tried again to record what is no longer in switches.
const RECORD_PAUSE: Duration = Duration::from_secs(1);

/// What the thread has.
pub(crate) struct Runner {
    shared: Arc<Shared>,
    received: Receiver<Event>,
    /// With the time when it began.
    subscription: Option<(Instant, ViewSubscription)>,
    resubscription_pause: ResubscriptionPause,
    /// When the next subscription may begin.
    subscription_due: Instant,
    /// Whether sessions may have changed since they were compared.
    have_sessions_changed: bool,
    /// When the sessions were compared last.
    compared_at: Instant,
    /// The pause until they may be compared again.
    sessions_pause: Duration,
    /// When they are compared next.
    sessions_due: Instant,
    /// When the reconciler has something to do, unless something happens before.
    reconciler_due: Instant,
    /// When it is tried again to record what is no longer in switches.
    record_due: Instant,
    /// When entries of a replaced version of a policy may be removed.
    retire_due: Option<Instant>,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Shared>, received: Receiver<Event>) -> Self {
        let now = now().at;
        Self {
            shared,
            received,
            subscription: None,
            resubscription_pause: ResubscriptionPause::default(),
            subscription_due: now,
            have_sessions_changed: true,
            compared_at: now,
            sessions_pause: SESSIONS_PAUSE,
            sessions_due: now,
            reconciler_due: now,
            record_due: now,
            retire_due: None,
        }
    }

    /// Keeps the switches as declared until the service ends.
    pub(crate) fn run(mut self) {
        // Whether the reconciler has done something, so that something else may be due.
        let mut has_changed = true;
        loop {
            self.publish();
            has_changed |= self.compare_sessions();
            self.send();
            self.notify_waiters();
            self.shared.publish_reports();
            self.retire_policies(has_changed);
            if std::mem::take(&mut has_changed) {
                self.find_deadline();
            }
            let wait = self.wait();
            let first = match self.received.recv_timeout(wait) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut core = lock(&self.shared.core);
            let mut is_due = now().at >= self.reconciler_due;
            for event in first.into_iter().chain(self.received.try_iter()) {
                match event {
                    Event::Answer(token, answer) => {
                        core.reconciler.on_answer(token, answer, now());
                        is_due = true;
                    }
                    // The sessions are compared before the reconciler has something to do.
                    Event::View => {}
                    Event::Changed => is_due = true,
                    Event::Stop => return,
                }
            }
            if is_due {
                core.reconciler.tick(now());
                has_changed = true;
            }
        }
    }

    /// Removes entries of replaced versions of policies. `has_changed` is whether a policy may have been replaced.
    fn retire_policies(&mut self, has_changed: bool) {
        if self.retire_due.map_or(has_changed, |due| due <= now().at) {
            self.retire_due = self.shared.retire_policies();
        }
    }

    /// Finds out when the reconciler has something to do, which takes time for each switch.
    fn find_deadline(&mut self) {
        let now = now();
        let deadline = lock(&self.shared.core).reconciler.deadline(now);
        self.reconciler_due = deadline.unwrap_or(now.at + SESSIONS_INTERVAL);
    }

    /// How long nothing is due.
    fn wait(&self) -> Duration {
        let now = now();
        let is_unpublished = !lock(&self.shared.unpublished).is_empty();
        let publish = is_unpublished.then(|| now.at + PUBLISH_INTERVAL);
        let report = self.shared.has_open_changes().then(|| now.at + REPORT_INTERVAL);
        let others =
            publish.into_iter().chain(report).chain(self.retire_due).chain([self.sessions_due]);
        let first = others.fold(self.reconciler_due, Instant::min);
        first.saturating_duration_since(now.at)
    }

    /// Publishes records, unless the controller has too much to do.
    fn publish(&self) {
        let mut unpublished = lock(&self.shared.unpublished);
        if !unpublished.is_empty() && self.shared.controller.publish(unpublished.clone()) {
            unpublished.clear();
        }
    }

    /// Passes on which switches are connected, if that may have changed. Returns whether it has done so.
    fn compare_sessions(&mut self) -> bool {
        let now = now();
        if self.have_switches_changed() {
            self.have_sessions_changed = true;
        }
        if self.have_sessions_changed {
            self.sessions_due = self.sessions_due.min(self.compared_at + self.sessions_pause);
        }
        if now.at < self.sessions_due {
            return false;
        }
        if self.subscription.is_none() && now.at >= self.subscription_due {
            let events = self.shared.events.clone();
            let notify = Box::new(move || drop(events.send(Event::View)));
            self.subscription = Some((now.at, self.shared.controller.subscribe(notify)));
        }
        let is_repeated =
            std::mem::take(&mut self.have_sessions_changed) || self.subscription.is_none();
        let interval = if is_repeated { SESSIONS_REPEAT } else { SESSIONS_INTERVAL };
        drop(self.shared.core_with_sessions());
        let took = clock::now().saturating_duration_since(now.at);
        self.sessions_pause =
            (took * SESSIONS_PAUSE_FACTOR).clamp(SESSIONS_PAUSE, SESSIONS_PAUSE_MAX);
        (self.compared_at, self.sessions_due) =
            (now.at, now.at + interval.max(self.sessions_pause));
        true
    }

    /// Receives the facts; those about switches are of interest.
    fn have_switches_changed(&mut self) -> bool {
        let mut is_changed = false;
        while let Some((began, subscription)) = &self.subscription
            && let Some(update) = subscription.try_next()
        {
            match update {
                ViewUpdate::Facts(facts) => {
                    is_changed |= facts.iter().any(|it| matches!(it.fact, Fact::Switch(..)));
                }
                ViewUpdate::InitialStateComplete => {}
                ViewUpdate::Ended(SubscriptionEnd::Stopped) => break,
                ViewUpdate::Ended(end) => {
                    let now = now().at;
                    let lasted = now.saturating_duration_since(*began);
                    self.subscription_due = now + self.resubscription_pause.after(end, lasted);
                    self.subscription = None;
                    return true;
                }
            }
        }
        is_changed
    }

    /// Sends what the reconciler wants to send, after the store has recorded what has to be known after a restart.
    fn send(&mut self) {
        let (requests, notices) = {
            let mut core = lock(&self.shared.core);
            let notices = core.reconciler.take_notices().into_iter().map(|notice| {
                let name = core.reconciler.switch_name(notice.switch()).map(str::to_owned);
                (notice, name)
            });
            let notices: Vec<_> = notices.collect();
            (core.reconciler.take_requests(), notices)
        };
        log(notices, self.shared.is_new_store);
        let owns: Vec<_> = requests.iter().flat_map(|it| it.owns.iter().copied()).collect();
        let is_record_due = !owns.is_empty() || clock::now() >= self.record_due;
        let disowned =
            if is_record_due { lock(&self.shared.core).reconciler.take_disowned() } else { vec![] };
        let recorded = if owns.is_empty() && disowned.is_empty() {
            Ok(())
        } else {
            match &mut *lock(&self.shared.store) {
                StoreState::Open(store) => store.record_owned(&owns, &disowned),
                StoreState::Unusable(error) => Err(error.clone()),
            }
        };
        if recorded.is_err() {
            self.record_due = clock::now() + RECORD_PAUSE;
            lock(&self.shared.core).reconciler.restore_disowned(disowned);
        }
        for OutRequest { token, to, request, owns } in requests {
            if let (Err(error), false) = (&recorded, owns.is_empty()) {
                let reason = format!("the store cannot be written: {error}");
                lock(&self.shared.core).reconciler.on_store_failure(token, &owns, &reason, now());
                continue;
            }
            let events = self.shared.events.clone();
            // Fails if the thread has ended.
            let on_answer = move |answer| drop(events.send(Event::Answer(token, answer)));
            self.shared.controller.request(to, request, Box::new(on_answer));
        }
    }

    fn notify_waiters(&self) {
        if let Some(progress) = &*lock(&self.shared.progress)
            && lock(&self.shared.core).reconciler.network_state() != Some(NetworkState::InProgress)
        {
            // Fails if nobody waits any more.
            let _ = progress.send(());
        }
        let mut waiters = lock(&self.shared.waiters);
        if waiters.waiting.is_empty() {
            return;
        }
        let core = lock(&self.shared.core);
        let (ready, waiting): (BTreeMap<_, _>, _) = std::mem::take(&mut waiters.waiting)
            .into_iter()
            .partition(|(_, (revision, _))| core.reconciler.has_tried(*revision));
        waiters.waiting = waiting;
        drop((core, waiters));
        for (_, (_, callback)) in ready {
            callback();
        }
    }
}

impl Notice {
    /// The switch that it is about.
    fn switch(&self) -> DatapathId {
        match self {
            Self::PutBack { switch, .. }
            | Self::Removed { switch, .. }
            | Self::Converted { switch, .. }
            | Self::Refused { switch, .. } => *switch,
        }
    }
}

/// Logs notices, each with the name of its switch.
fn log(notices: Vec<(Notice, Option<String>)>, is_new_store: bool) {
    for (notice, name) in notices {
        let (dpid, name) = (notice.switch(), name.as_deref());
        match notice {
            Notice::PutBack { count, .. } => {
                warn!(%dpid, name, count, "static entries were missing or different, put back");
            }
            Notice::Removed { count, .. } if is_new_store => {
                warn!(
                    %dpid,
                    name,
                    count,
                    "static entries removed that are not declared: the store was empty at the start"
                );
            }
            Notice::Removed { count, .. } => {
                info!(%dpid, name, count, "static entries removed that are not declared");
            }
            Notice::Converted { entry, .. } => {
                info!(%dpid, name, "the switch reports {entry} differently than it was written");
            }
            Notice::Refused { entry, reason, .. } => {
                warn!(%dpid, name, %reason, "static entry refused: {entry}");
            }
        }
    }
}
