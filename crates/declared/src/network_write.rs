//! Changes that are made at all connected switches or at none, from the thread that asks for them.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sluice_io::clock;

use crate::change::{AppliedChange, Change, Difference};
use crate::reconcile::{NetworkRefusal, NetworkState, PREPARE_MAX};
use crate::service::{Declared, Event, WriteError, lock, now};

/// How much longer than the reconciler the thread waits, so that a change ends even if the reconciler's thread has ended.
const MARGIN: Duration = Duration::from_secs(1);

/// How long the thread waits for commits. A switch that has not answered by then is read, and made as declared.
const COMMIT_MAX: Duration = Duration::from_secs(10);

impl Declared {
    /// Makes a change at all connected switches that it concerns, or at none: if one refuses its part, the others keep what they have,
    /// and what is declared stays the same. Switches that are not connected are made as declared when they connect.
    ///
    /// # Errors
    /// It is invalid, was refused, or cannot be stored; nothing was changed, unless the error is [`WriteError::StaysDeclared`].
    ///
    /// # Cost
    /// Blocks until the switches have answered: up to 20 s.
    pub fn write_everywhere(&self, change: Change) -> Result<(u64, Vec<Difference>), WriteError> {
        // Held until the end: changes are made one after the other.
        let _changing = lock(&self.shared.changing);
        let started = clock::now();
        let (applied, differences) = self.checked(change)?;
        if applied.is_empty() {
            return Ok((applied.revision - 1, differences));
        }
        let commit = self.apply_everywhere(&applied, started)?;
        self.follow(&applied, started, commit);
        Ok((applied.revision, differences))
    }

    /// Makes a change that was checked at all connected switches that it concerns, or at none. Other changes are locked out until then.
    /// Returns how long the commits have taken, if all have succeeded.
    pub(crate) fn apply_everywhere(
        &self,
        applied: &AppliedChange,
        started: Instant,
    ) -> Result<Option<Duration>, WriteError> {
        let names = {
            let mut core = self.shared.core_with_sessions();
            // Never the number of another change, even if this one is refused.
            core.revision = applied.revision;
            core.reconciler.start_network_change(applied, now());
            core.reconciler.names().clone()
        };
        let result = self.make_everywhere(applied);
        lock(&self.shared.core).reconciler.end_network_change(now());
        let _ = self.shared.events.send(Event::Changed);
        let error = match result {
            Ok(commit) => return Ok(commit),
            Err((WriteError::Refused(refusal), true)) => {
                let names = applied.names.is_some().then(|| (*names).clone());
                self.undo(applied.reversed(names), refusal)
            }
            Err((error, _)) => error,
        };
        if let WriteError::Refused(refusal) | WriteError::StaysDeclared(refusal, _) = &error {
            self.report_refusal(applied, refusal, started);
        }
        Err(error)
    }

    /// Returns how long the commits have taken, if all have succeeded. The error says whether the change was declared already.
    fn make_everywhere(
        &self,
        applied: &AppliedChange,
    ) -> Result<Option<Duration>, (WriteError, bool)> {
        match self.wait_for_switches(PREPARE_MAX + MARGIN) {
            Some(NetworkState::Ready) => {}
            Some(NetworkState::Refused(refusal)) => {
                return Err((WriteError::Refused(refusal), false));
            }
            _ => return Err((WriteError::Stopped, false)),
        }
        self.shared.commit_to_store(applied).map_err(|error| (error, false))?;
        {
            let mut core = lock(&self.shared.core);
            core.adopt(applied);
            core.reconciler.commit_network_change(applied, now());
        }
        match self.wait_for_switches(COMMIT_MAX) {
            Some(NetworkState::Refused(refusal)) => Err((WriteError::Refused(refusal), true)),
            // Without a switch that commits, it is over at once.
            Some(NetworkState::Made(commit)) => Ok(Some(commit).filter(|it| !it.is_zero())),
            _ => Ok(None),
        }
    }

    /// Waits until the switches have answered.
    fn wait_for_switches(&self, time: Duration) -> Option<NetworkState> {
        let (sender, progress) = channel();
        *lock(&self.shared.progress) = Some(sender);
        let _ = self.shared.events.send(Event::Changed);
        let end = clock::now() + time;
        loop {
            let state = lock(&self.shared.core).reconciler.network_state();
            let left = end.saturating_duration_since(clock::now());
            if state != Some(NetworkState::InProgress) || left.is_zero() {
                return state;
            }
            if progress.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                return state;
            }
        }
    }

    /// Declares what was declared before a change that a switch has refused although it had accepted it. Returns the error for the client.
    fn undo(&self, mut reversed: AppliedChange, refusal: NetworkRefusal) -> WriteError {
        {
            let mut core = lock(&self.shared.core);
            core.revision += 1;
            reversed.revision = core.revision;
        }
        match self.shared.commit_to_store(&reversed) {
            Ok(()) => {
                let mut core = lock(&self.shared.core);
                core.adopt(&reversed);
                core.reconciler.apply(&reversed, now());
                drop(core);
                let _ = self.shared.events.send(Event::Changed);
                WriteError::Refused(refusal)
            }
            Err(WriteError::Store(error)) => {
                // The switch that has refused it is asked again.
                tracing::warn!(%refusal, "a refused change stays declared, since the store cannot be written: {error}");
                WriteError::StaysDeclared(refusal, error)
            }
            Err(error) => error,
        }
    }
}
