//! The service: changes are made durable, then the switches are changed by a thread of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use sluice_io::clock;
use sluice_openflow::MacAddr;
use sluice_sdk::view::RecordFact;
use sluice_sdk::{Answer, Controller};
use tracing::{info, warn};

use crate::change::{AppliedChange, Change, ChangeError, Difference, PolicyChange, Present, check};
use crate::entry::{Entry, Key, Reserved};
use crate::policy::{Policy, PolicyError};
use crate::quarantine::{Quarantine, QuarantineError};
use crate::reconcile::{NetworkRefusal, Reconciler, Timing, Token};
use crate::reports::Reports;
use crate::runner::Runner;
use crate::status::Now;
use crate::store::{Contents, LastWrite, Store, StoreError};

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
    /// VLAN ids that tag packets with the version of a policy.
    pub policy_tags: RangeInclusive<u16>,
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// It is invalid.
    Change(ChangeError),
    /// The host cannot be put into quarantine, or released.
    Quarantine(QuarantineError),
    /// The policy cannot be put into effect, or removed.
    Policy(PolicyError),
    /// It cannot be stored.
    Store(StoreError),
    /// A switch has refused a change that is made at all switches or at none.
    Refused(NetworkRefusal),
    /// A switch has refused such a change after others had made it, and it stays declared, since the store cannot be written.
    StaysDeclared(NetworkRefusal, StoreError),
    /// The service has ended.
    Stopped,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(error) => error.fmt(f),
            Self::Quarantine(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::Store(error) if error.is_outcome_unknown => write!(
                f,
                "the store cannot be written: {error}; the change is not in effect, but after a restart it may be, \
                 unless something else is written before"
            ),
            Self::Store(error) => {
                write!(f, "the store cannot be written, nothing was changed: {error}")
            }
            Self::Refused(refusal) => write!(f, "nothing was changed: {refusal}"),
            Self::StaysDeclared(refusal, error) => write!(
                f,
                "{refusal}; the change stays declared, since the store cannot be written: {error}"
            ),
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
pub(crate) struct Waiters {
    pub(crate) waiting: BTreeMap<u64, (u64, Callback)>,
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
    /// Held while a policy is replaced, which takes several changes; locked before `changing`.
    pub(crate) updating_policy: Mutex<()>,
    pub(crate) core: Mutex<Core>,
    pub(crate) store: Mutex<StoreState>,
    /// Why the store is unusable. Known without waiting for a change that is being written.
    store_error: Option<StoreError>,
    /// Of a store that can be used.
    last_write: LastWrite,
    pub(crate) waiters: Mutex<Waiters>,
    /// Records that the workers have not received, in their order.
    pub(crate) unpublished: Mutex<Vec<RecordFact>>,
    /// Notified when a change of the whole network has come to something.
    pub(crate) progress: Mutex<Option<Sender<()>>>,
    pub(crate) reports: Mutex<Reports>,
    pub(crate) events: Sender<Event>,
    pub(crate) controller: Arc<dyn Controller>,
    pub(crate) reserved: Reserved,
    pub(crate) policy_tags: RangeInclusive<u16>,
    /// Whether nothing was stored at the start.
    pub(crate) is_new_store: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) reconciler: Reconciler,
    pub(crate) quarantines: BTreeMap<MacAddr, Arc<Quarantine>>,
    pub(crate) policies: BTreeMap<String, Arc<Policy>>,
    /// From when no switch tags packets with another version of a policy than the current one.
    pub(crate) draining: BTreeMap<String, Instant>,
    /// The VLAN id of the version that was prepared last.
    pub(crate) last_tag: Option<u16>,
    /// The number of the last change.
    pub(crate) revision: u64,
}

impl Core {
    /// Takes over what a change makes of quarantined hosts and policies.
    pub(crate) fn adopt(&mut self, applied: &AppliedChange) {
        if let Some((mac, quarantine)) = &applied.quarantine {
            match quarantine {
                Some(it) => drop(self.quarantines.insert(*mac, Arc::clone(it))),
                None => drop(self.quarantines.remove(mac)),
            }
        }
        if let Some(PolicyChange { name, after, .. }) = &applied.policy {
            self.draining.remove(name);
            let prepared = after.as_ref().and_then(|policy| policy.prepared.as_ref());
            self.last_tag = prepared.map(|version| version.tag).or(self.last_tag);
            match after {
                Some(policy) => drop(self.policies.insert(name.clone(), Arc::clone(policy))),
                None => drop(self.policies.remove(name)),
            }
        }
    }
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
                    policies = contents.policies.len(),
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
        let (last_write, store_error) = match &store {
            StoreState::Open(store) => (store.last_write(), None),
            StoreState::Unusable(error) => (LastWrite::default(), Some(error.clone())),
        };
        let is_usable = store_error.is_none();
        let Contents { revision, mut entries, names, owned, quarantines, policies, drains } =
            contents;
        let of_hosts = quarantines.values().flat_map(|it| it.entries.iter().cloned());
        let of_policies = policies.values().flat_map(|it| it.entries().cloned());
        entries.extend(of_policies.map(|entry| (entry.key().clone(), entry)));
        warn_of_reserved(&entries, &config.reserved);
        entries.extend(of_hosts.map(|entry| (entry.key().clone(), entry)));
        let reconciler = Reconciler::new(config.timing, entries, names, owned);
        let reconciler = reconciler.with_revision(revision);
        let drains = drains.into_iter();
        let unpublished = drains.map(|(cable, it)| RecordFact::new(cable, Some(it))).collect();
        let (events, received) = channel();
        let shared = Arc::new(Shared {
            changing: Mutex::default(),
            updating_policy: Mutex::default(),
            core: Mutex::new(Core {
                reconciler,
                quarantines,
                policies,
                draining: BTreeMap::new(),
                last_tag: None,
                revision,
            }),
            store: Mutex::new(store),
            store_error,
            last_write,
            waiters: Mutex::default(),
            unpublished: Mutex::new(unpublished),
            progress: Mutex::default(),
            reports: Mutex::default(),
            events,
            controller,
            reserved: config.reserved.clone(),
            policy_tags: config.policy_tags.clone(),
            is_new_store: revision == 0,
        });
        let runner = is_usable.then(|| Runner::new(shared.clone(), received));
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

    /// Why the last write to the store has failed, if it has: of a change, or of the groups and meters that switches are about to get.
    pub fn write_error(&self) -> Option<StoreError> {
        self.shared.last_write.error()
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
        self.shared.commit(&applied)?;
        self.follow(&applied, started, None);
        Ok((applied.revision, differences))
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
    /// Locks what is declared, after the list of sessions was brought up to date: a client that has seen that a switch is connected can
    /// change it. The sessions are listed under the lock, so that no older list follows.
    pub(crate) fn core_with_sessions(&self) -> MutexGuard<'_, Core> {
        let mut core = lock(&self.core);
        let sessions = self.controller.switches();
        core.reconciler.on_sessions(&sessions, now());
        core
    }

    pub(crate) fn commit_to_store(&self, applied: &AppliedChange) -> Result<(), WriteError> {
        lock(&self.store).open()?.commit(applied).map_err(WriteError::Store)
    }

    /// Makes a change that was checked durable, and passes it on to the switches. Other changes are locked out until then.
    pub(crate) fn commit(&self, applied: &AppliedChange) -> Result<(), WriteError> {
        self.commit_to_store(applied)?;
        self.pass_on(applied);
        Ok(())
    }

    /// Passes a change on to the switches.
    pub(crate) fn pass_on(&self, applied: &AppliedChange) {
        let mut core = self.core_with_sessions();
        core.revision = applied.revision;
        core.adopt(applied);
        core.reconciler.apply(applied, now());
        // Fails if the thread has ended: then nothing is sent any more.
        let _ = self.events.send(Event::Changed);
    }

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

/// The configuration may have changed since entries were declared.
fn warn_of_reserved(entries: &BTreeMap<Key, Arc<Entry>>, reserved: &Reserved) {
    let errors: Vec<_> =
        entries.values().filter_map(|entry| entry.check_reserved(reserved).err()).collect();
    if let Some(first) = errors.first() {
        let count = errors.len();
        warn!(count, "static entries use what the configuration gives to an application: {first}");
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::DatapathId;
    use sluice_sdk::view::{NetworkView, ViewPublisher, ViewSubscription};
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
            let policy_tags = crate::DEFAULT_TAGS;
            let config = Config { state_dir: dir.clone(), reserved, timing, policy_tags };
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
