//! The service: changes are made durable, then the switches are changed by a thread of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluice_io::clock;
use sluice_openflow::MacAddr;
use sluice_sdk::view::{Fact, RecordFact, SubscriptionEnd, ViewSubscription, ViewUpdate};
use sluice_sdk::{Answer, Controller};
use tracing::{info, warn};

use crate::change::{AppliedChange, Change, ChangeError, Difference, Present, check};
use crate::entry::{Entry, Key, Reserved};
use crate::quarantine::{Quarantine, QuarantineError};
use crate::reconcile::{
    NetworkRefusal, NetworkState, Notice, OutRequest, Reconciler, Timing, Token,
};
use crate::reports::Reports;
use crate::status::Now;
use crate::store::{Contents, Store, StoreError};

/// How often the sessions are compared even if nothing has reported that they have changed.
const SESSIONS_INTERVAL: Duration = Duration::from_secs(10);

/// How long after a change they are compared once more: a switch that moves to another worker is in no list for a moment.
const SESSIONS_REPEAT: Duration = Duration::from_secs(1);

/// Pause between two comparisons, so that many switches that connect at a time are compared together: each comparison looks at
/// all sessions.
const SESSIONS_PAUSE: Duration = Duration::from_millis(250);

/// A pause is at least as many times longer than the comparison before it.
const SESSIONS_PAUSE_FACTOR: u32 = 20;

/// Pause before records are published again for which the controller had too much to do.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(50);

/// How often changes are looked at that are not reported yet, if nothing happens.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Requests that wait for a change at a time.
const WAITERS_MAX: usize = 256;

/// Configuration of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory with the file of the store.
    pub state_dir: PathBuf,
    /// Priorities that static entries must not have.
    pub reserved: Reserved,
    /// Intervals.
    pub timing: Timing,
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// It is invalid.
    Change(ChangeError),
    /// The host cannot be put into quarantine, or released.
    Quarantine(QuarantineError),
    /// It cannot be stored.
    Store(StoreError),
    /// A switch has refused a change that is made at all switches or at none.
    Refused(NetworkRefusal),
    /// The service has ended.
    Stopped,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(error) => error.fmt(f),
            Self::Quarantine(error) => error.fmt(f),
            Self::Store(error) => {
                write!(f, "the store cannot be written, nothing was changed: {error}")
            }
            Self::Refused(refusal) => write!(f, "nothing was changed: {refusal}"),
            Self::Stopped => f.write_str("nothing was changed: the controller stops"),
        }
    }
}

impl std::error::Error for WriteError {}

/// Static entries, quarantined hosts and drained links: what is declared, the store, and the thread that keeps the switches as declared.
#[derive(Debug)]
pub struct Declared {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

type Callback = Box<dyn FnOnce() + Send>;

/// Who waits for changes.
#[derive(Default)]
struct Waiters {
    waiting: BTreeMap<u64, (u64, Callback)>,
    last: u64,
}

/// Somebody who [waits for a change](Declared::when_tried), until this is dropped.
#[derive(Debug)]
pub struct Waiter {
    shared: Arc<Shared>,
    no: u64,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        lock(&self.shared.waiters).waiting.remove(&self.no);
    }
}

pub(crate) struct Shared {
    /// Held while a change is made.
    pub(crate) changing: Mutex<()>,
    pub(crate) core: Mutex<Core>,
    pub(crate) store: Mutex<StoreState>,
    /// Why the store is unusable. Known without waiting for a change that is being written.
    store_error: Option<StoreError>,
    waiters: Mutex<Waiters>,
    /// Records that the workers have not received, in their order.
    pub(crate) unpublished: Mutex<Vec<RecordFact>>,
    /// Notified when a change of the whole network has come to something.
    pub(crate) progress: Mutex<Option<Sender<()>>>,
    pub(crate) reports: Mutex<Reports>,
    pub(crate) events: Sender<Event>,
    reserved: Reserved,
    /// Whether nothing was stored at the start.
    is_new_store: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) reconciler: Reconciler,
    pub(crate) quarantines: BTreeMap<MacAddr, Arc<Quarantine>>,
    /// The number of the last change.
    pub(crate) revision: u64,
}

/// If the store cannot be read, it is unknown what is declared: nothing is changed, neither in switches nor in the store.
#[derive(Debug)]
pub(crate) enum StoreState {
    Open(Store),
    Unusable(StoreError),
}

impl StoreState {
    pub(crate) fn open(&mut self) -> Result<&mut Store, WriteError> {
        match self {
            Self::Open(store) => Ok(store),
            Self::Unusable(error) => Err(WriteError::Store(error.clone())),
        }
    }
}

pub(crate) enum Event {
    Answer(Token, Answer),
    /// Facts can be received.
    View,
    /// Something was declared.
    Changed,
    Stop,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Now {
    Now { at: clock::now(), unix: clock::since_epoch() }
}

impl Declared {
    /// Reads the store and starts the thread. If the store cannot be read, the reason is logged, and changes are refused.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: &Config, controller: Arc<dyn Controller>) -> io::Result<Self> {
        let (store, contents) = match Store::open(&config.state_dir) {
            Ok((store, contents)) => {
                info!(
                    path = %store.path().display(),
                    entries = contents.entries.len(),
                    quarantined_hosts = contents.quarantines.len(),
                    drained_links = contents.drains.len(),
                    "static entries"
                );
                (StoreState::Open(store), contents)
            }
            Err(error) => {
                warn!(
                    "static entries are not changed, neither here nor in switches, since the store cannot be used: {error}"
                );
                (StoreState::Unusable(error), Contents::default())
            }
        };
        let store_error = match &store {
            StoreState::Open(_) => None,
            StoreState::Unusable(error) => Some(error.clone()),
        };
        let is_usable = store_error.is_none();
        let Contents { revision, mut entries, names, owned, quarantines, drains } = contents;
        warn_of_reserved(&entries, &config.reserved);
        let of_hosts = quarantines.values().flat_map(|it| it.entries.iter());
        entries.extend(of_hosts.map(|entry| (entry.key().clone(), Arc::clone(entry))));
        let reconciler = Reconciler::new(config.timing, entries, names, owned);
        let reconciler = reconciler.with_revision(revision);
        let drains = drains.into_iter();
        let unpublished = drains.map(|(cable, it)| RecordFact::new(cable, Some(it))).collect();
        let (events, received) = channel();
        let shared = Arc::new(Shared {
            changing: Mutex::default(),
            core: Mutex::new(Core { reconciler, quarantines, revision }),
            store: Mutex::new(store),
            store_error,
            waiters: Mutex::default(),
            unpublished: Mutex::new(unpublished),
            progress: Mutex::default(),
            reports: Mutex::default(),
            events,
            reserved: config.reserved.clone(),
            is_new_store: revision == 0,
        });
        let runner = is_usable.then(|| Runner::new(shared.clone(), controller, received));
        let thread = runner
            .map(|runner| thread::Builder::new().name("static".to_owned()).spawn(|| runner.run()))
            .transpose()?;
        Ok(Self { shared, thread })
    }

    /// Reads what is declared and its state.
    pub fn read<R>(&self, read: impl FnOnce(&Reconciler) -> R) -> R {
        read(&lock(&self.shared.core).reconciler)
    }

    /// Why nothing can be changed, if the store could not be read at the start.
    pub fn store_error(&self) -> Option<StoreError> {
        self.shared.store_error.clone()
    }

    /// What a change would change.
    ///
    /// # Errors
    /// It is invalid.
    pub fn check(&self, change: Change) -> Result<Vec<Difference>, WriteError> {
        self.checked(change).map(|(_, differences)| differences)
    }

    /// The change as it will be applied, and what it changes.
    pub(crate) fn checked(
        &self,
        change: Change,
    ) -> Result<(AppliedChange, Vec<Difference>), WriteError> {
        if let Some(error) = self.store_error() {
            return Err(WriteError::Store(error));
        }
        self.shared.check(change)
    }

    pub(crate) fn commit_to_store(&self, applied: &AppliedChange) -> Result<(), WriteError> {
        lock(&self.shared.store).open()?.commit(applied).map_err(WriteError::Store)
    }

    /// Makes a change durable, and then changes the switches. Returns the number of the change and what it changes.
    ///
    /// # Errors
    /// It is invalid, or cannot be stored; nothing was changed.
    ///
    /// # Cost
    /// Blocks until the disk has written the change.
    pub fn write(&self, change: Change) -> Result<(u64, Vec<Difference>), WriteError> {
        // Held until the change is applied: changes are made one after the other.
        let _changing = lock(&self.shared.changing);
        let started = clock::now();
        let (applied, differences) = self.checked(change)?;
        if applied.is_empty() {
            return Ok((applied.revision - 1, differences));
        }
        self.commit(&applied)?;
        self.follow(&applied, started, None);
        Ok((applied.revision, differences))
    }

    /// Makes a change that was checked durable, and passes it on to the switches. Other changes are locked out until then.
    pub(crate) fn commit(&self, applied: &AppliedChange) -> Result<(), WriteError> {
        self.commit_to_store(applied)?;
        let mut core = lock(&self.shared.core);
        core.revision = applied.revision;
        if let Some((mac, quarantine)) = &applied.quarantine {
            match quarantine {
                Some(it) => drop(core.quarantines.insert(*mac, Arc::clone(it))),
                None => drop(core.quarantines.remove(mac)),
            }
        }
        core.reconciler.apply(applied, now());
        // Fails if the thread has ended: then nothing is sent any more.
        let _ = self.shared.events.send(Event::Changed);
        Ok(())
    }

    /// Calls `callback`, in any thread, when all connected switches have accepted or refused a change. `None` if so many wait already
    /// that this one does not.
    pub fn when_tried(&self, revision: u64, callback: Box<dyn FnOnce() + Send>) -> Option<Waiter> {
        let mut waiters = lock(&self.shared.waiters);
        if waiters.waiting.len() >= WAITERS_MAX {
            return None;
        }
        waiters.last += 1;
        let no = waiters.last;
        waiters.waiting.insert(no, (revision, callback));
        drop(waiters);
        let _ = self.shared.events.send(Event::Changed);
        Some(Waiter { shared: Arc::clone(&self.shared), no })
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        let _ = self.shared.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Checks a change against what is declared now, without keeping anybody else waiting.
    fn check(&self, change: Change) -> Result<(AppliedChange, Vec<Difference>), WriteError> {
        let (entries, names, revision) = {
            let core = lock(&self.core);
            let (entries, names) = (core.reconciler.entries(), core.reconciler.names());
            (Arc::clone(entries), Arc::clone(names), core.revision)
        };
        let present = Present {
            entries: &entries,
            names: &names,
            reserved: &self.reserved,
            revision,
            now: clock::since_epoch(),
        };
        let applied = check(change, present).map_err(WriteError::Change)?;
        let differences = applied.differences(&names);
        Ok((applied, differences))
    }
}

/// The thread.
struct Runner {
    shared: Arc<Shared>,
    controller: Arc<dyn Controller>,
    received: Receiver<Event>,
    subscription: Option<ViewSubscription>,
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
}

impl Runner {
    fn new(
        shared: Arc<Shared>,
        controller: Arc<dyn Controller>,
        received: Receiver<Event>,
    ) -> Self {
        let now = now().at;
        Self {
            shared,
            controller,
            received,
            subscription: None,
            have_sessions_changed: true,
            compared_at: now,
            sessions_pause: SESSIONS_PAUSE,
            sessions_due: now,
            reconciler_due: now,
        }
    }

    fn run(mut self) {
        // Whether the reconciler has done something, so that something else may be due.
        let mut has_changed = true;
        loop {
            self.publish();
            has_changed |= self.compare_sessions();
            self.send();
            self.notify_waiters();
            self.shared.publish_reports();
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
                    Event::Changed => {
                        is_due = true;
                        // A switch that has just connected is to have the change.
                        self.sessions_pause = Duration::ZERO;
                    }
                    Event::Stop => return,
                }
            }
            if is_due {
                core.reconciler.tick(now());
                has_changed = true;
            }
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
        let others = publish.into_iter().chain(report).chain([self.sessions_due]);
        let first = others.fold(self.reconciler_due, Instant::min);
        first.saturating_duration_since(now.at)
    }

    /// Publishes records, unless the controller has too much to do.
    fn publish(&self) {
        let mut unpublished = lock(&self.shared.unpublished);
        if !unpublished.is_empty() && self.controller.publish(unpublished.clone()) {
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
        if self.subscription.is_none() {
            let events = self.shared.events.clone();
            let notify = Box::new(move || drop(events.send(Event::View)));
            self.subscription = Some(self.controller.subscribe(notify));
        }
        let sessions = self.controller.switches();
        let is_change = std::mem::take(&mut self.have_sessions_changed);
        let interval = if is_change { SESSIONS_REPEAT } else { SESSIONS_INTERVAL };
        lock(&self.shared.core).reconciler.on_sessions(&sessions, now);
        let took = self::now().at.saturating_duration_since(now.at);
        self.sessions_pause = SESSIONS_PAUSE.max(took * SESSIONS_PAUSE_FACTOR);
        (self.compared_at, self.sessions_due) =
            (now.at, now.at + interval.max(self.sessions_pause));
        true
    }

    /// Receives the facts; those about switches are of interest.
    fn have_switches_changed(&mut self) -> bool {
        let mut is_changed = false;
        while let Some(update) = self.subscription.as_ref().and_then(ViewSubscription::try_next) {
            match update {
                ViewUpdate::Facts(facts) => {
                    is_changed |= facts.iter().any(|it| matches!(it.fact, Fact::Switch(..)));
                }
                ViewUpdate::InitialStateComplete => {}
                ViewUpdate::Ended(SubscriptionEnd::Stopped) => break,
                ViewUpdate::Ended(_) => {
                    self.subscription = None;
                    return true;
                }
            }
        }
        is_changed
    }

    /// Sends what the reconciler wants to send, after the store has recorded what has to be known after a restart.
    fn send(&self) {
        let (requests, disowned, notices) = {
            let mut core = lock(&self.shared.core);
            let core = &mut core.reconciler;
            (core.take_requests(), core.take_disowned(), core.take_notices())
        };
        log(notices, self.shared.is_new_store);
        let owns: Vec<_> = requests.iter().flat_map(|it| it.owns.iter().copied()).collect();
        let recorded = if owns.is_empty() && disowned.is_empty() {
            Ok(())
        } else {
            match &mut *lock(&self.shared.store) {
                StoreState::Open(store) => store.record_owned(&owns, &disowned),
                StoreState::Unusable(error) => Err(error.clone()),
            }
        };
        if recorded.is_err() {
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
            self.controller.request(to, request, Box::new(on_answer));
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

/// The configuration may have changed since entries were declared.
fn warn_of_reserved(entries: &BTreeMap<Key, Arc<Entry>>, reserved: &Reserved) {
    let errors: Vec<_> =
        entries.values().filter_map(|entry| entry.check_reserved(reserved).err()).collect();
    if let Some(first) = errors.first() {
        let count = errors.len();
        warn!(count, "static entries use what the configuration gives to an application: {first}");
    }
}

fn log(notices: Vec<Notice>, is_new_store: bool) {
    for notice in notices {
        match notice {
            Notice::PutBack { switch, count } => {
                warn!(dpid = %switch, count, "static entries were missing or different, put back");
            }
            Notice::Removed { switch, count } if is_new_store => {
                warn!(
                    dpid = %switch,
                    count,
                    "static entries removed that are not declared: the store was empty at the start"
                );
            }
            Notice::Removed { switch, count } => {
                info!(dpid = %switch, count, "static entries removed that are not declared");
            }
            Notice::Converted { switch, entry } => {
                info!(dpid = %switch, "the switch reports {entry} differently than it was written");
            }
            Notice::Refused { switch, entry, reason } => {
                warn!(dpid = %switch, %reason, "static entry refused: {entry}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::DatapathId;
    use sluice_sdk::view::{NetworkView, ViewPublisher};
    use sluice_sdk::{OnAnswer, Request, SwitchSession};

    use super::*;
    use crate::{Declaration, Kind, Selector};

    #[derive(Default)]
    struct NoSwitches {
        publishers: Mutex<Vec<ViewPublisher>>,
    }

    impl Controller for NoSwitches {
        fn request(&self, _: DatapathId, _: Request, on_answer: OnAnswer) {
            on_answer(Answer::NotConnected);
        }

        fn subscribe(&self, notify: Box<dyn Fn() + Send + Sync>) -> ViewSubscription {
            let (mut publisher, subscription) = ViewPublisher::new(notify);
            publisher.send_initial_state(&NetworkView::default());
            lock(&self.publishers).push(publisher);
            subscription
        }

        fn switches(&self) -> Vec<SwitchSession> {
            vec![]
        }
    }

    /// A service whose store is removed at the end.
    struct Service {
        declared: Declared,
        dir: PathBuf,
    }

    impl Service {
        fn new(name: &str, store: Option<&str>) -> Self {
            let name = format!("sluice-service-{}-{name}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).unwrap();
            if let Some(store) = store {
                std::fs::write(dir.join("static.redb"), store).unwrap();
            }
            let (reserved, timing) = (Reserved::default(), Timing::default());
            let config = Config { state_dir: dir.clone(), reserved, timing };
            let declared = Declared::start(&config, Arc::new(NoSwitches::default())).unwrap();
            Self { declared, dir }
        }
    }

    impl Drop for Service {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    fn change(name: &str) -> Change {
        let declaration = Declaration {
            key: Key { kind: Kind::Flow, name: name.to_owned() },
            switches: Selector::All,
            text: "in_port=1,actions=drop".to_owned(),
        };
        Change { set: vec![declaration], ..Change::default() }
    }

    #[test]
    fn as_many_wait_for_changes_as_are_allowed_and_nothing_is_kept_of_them() {
        // A service with a damaged store notifies nobody.
        let service = Service::new("waiters", Some("damaged"));
        assert!(service.declared.store_error().is_some());
        let wait = || service.declared.when_tried(1, Box::new(|| {}));
        let waiters: Vec<_> = (0..WAITERS_MAX).map(|_| wait().unwrap()).collect();
        assert!(wait().is_none());
        drop(waiters);
        assert_eq!(lock(&service.declared.shared.waiters).waiting.len(), 0);
        assert!(wait().is_some());
    }

    #[test]
    fn who_waits_is_notified_when_the_switches_have_answered() {
        let service = Service::new("notified", None);
        let (revision, _) = service.declared.write(change("a")).unwrap();
        let (sender, called) = channel();
        let notify = move || sender.send(()).unwrap();
        let _waiter = service.declared.when_tried(revision, Box::new(notify));
        called.recv().unwrap();
    }

    #[test]
    fn reading_and_checking_do_not_wait_for_the_disk() {
        let service = Service::new("disk", None);
        service.declared.write(change("a")).unwrap();
        // Somebody is writing.
        let store = lock(&service.declared.shared.store);
        assert_eq!(service.declared.store_error(), None);
        assert_eq!(service.declared.read(|it| it.entries().len()), 1);
        service.declared.check(change("b")).unwrap_err();
        drop(store);
    }
}
