//! Preparing a transaction: the switch says whether it would accept the changes, and keeps them in a bundle, without an effect.
//!
//! That a switch takes messages into a bundle does not say that the commit succeeds: Open vSwitch, for example, finds only then
//! that a table is full. So a trial commits a bundle whose last message cannot be applied. The switch then applies nothing, and names
//! the message that is the cause. Whether it does so is found with this message alone, once in a session.

use sluice_openflow::{BundleCtrlType, Message};
use sluice_sdk::Refusal;

use super::bundle::{add_to_bundle, confirmed, control, unappliable};
use super::{CHUNK, DIAGNOSIS_MAX, Failure, Item, Next, Outcome, Stage, Step, Transaction};

/// Why a change was refused of which the switch names no message.
const ONE_OF_MANY: &str = "one of its messages";

impl Transaction {
    /// A transaction that waits for [`commit`](Self::commit) when the switch has accepted it. `has_trials` is whether it is known that
    /// the switch tells whether it would accept something.
    pub(in super::super) fn prepare(
        revision: u64,
        steps: Vec<Step>,
        bundle: u32,
        has_trials: bool,
    ) -> Self {
        let mut transaction = Self::new(revision, steps, None);
        (transaction.bundle, transaction.is_prepared) = (Some(bundle), true);
        if has_trials {
            transaction.start_trial();
        } else {
            let id = transaction.second_bundle();
            let end = control(id, BundleCtrlType::DISCARD_REQUEST);
            transaction.start(Stage::ProofOfAdding, &proof(id, end));
        }
        transaction
    }

    /// Whether it is known by now that the switch has trials.
    pub(in super::super) fn has_proof(&self) -> bool {
        let is_unproven = matches!(self.stage, Stage::ProofOfAdding | Stage::ProofOfFailure);
        self.is_prepared && !is_unproven
    }

    /// Starts the commit of a transaction that was prepared.
    pub(in super::super) fn commit(&mut self) {
        if let (Stage::Prepared, Some(id)) = (&self.stage, self.bundle) {
            self.start(Stage::Commit, &confirmed(id, BundleCtrlType::COMMIT_REQUEST));
        }
    }

    /// The messages that end a transaction that has no effect yet; `None` if it has, or may have.
    pub(in super::super) fn abandon(&self) -> Option<Vec<Message>> {
        let is_committing = matches!(self.stage, Stage::Commit | Stage::Diagnosis);
        (self.is_prepared && !is_committing).then(|| self.discard())
    }

    pub(super) fn start_proof_of_failure(&mut self) {
        let id = self.second_bundle();
        let end = control(id, BundleCtrlType::COMMIT_REQUEST);
        self.start(Stage::ProofOfFailure, &proof(id, end));
    }

    fn start_trial(&mut self) {
        let id = self.second_bundle();
        let items: Vec<_> = self.bundle_items(id).collect();
        let size = if items.len() <= DIAGNOSIS_MAX { DIAGNOSIS_MAX } else { CHUNK };
        self.stage = Stage::Trial;
        self.rest = items.chunks(size).map(<[Item]>::to_vec).collect();
        // In one request, so that the switch names the message that is the cause if it is one of these.
        let end = [add_to_bundle(id, unappliable()), control(id, BundleCtrlType::COMMIT_REQUEST)];
        if let Some(last) = self.rest.back_mut() {
            last.extend(end);
        }
        self.current = self.rest.pop_front().unwrap_or_default();
    }

    pub(super) fn on_trial_refusal(&mut self, refusal: Refusal) -> Next {
        // Behind the message that the switch cannot apply, the bundle has only its commit.
        let unappliable = self.current.len().saturating_sub(2);
        let is_end = self.stage != Stage::ProofOfAdding && self.rest.is_empty();
        match (&self.stage, self.bundle) {
            (Stage::Trial, Some(id)) if is_end && refusal.index == unappliable => {
                self.start_adding(id);
                Next::Send
            }
            (Stage::Trial, _) => {
                let slot = self.slot_of(refusal.index);
                let reason = match &slot {
                    Some(_) => refusal.reason.to_string(),
                    None => format!("{ONE_OF_MANY}: {}", refusal.reason),
                };
                Next::End(Outcome::Refused(Failure { slot, reason }), self.discard())
            }
            (Stage::ProofOfFailure, _) if is_end && refusal.index == unappliable => {
                self.start_trial();
                Next::Send
            }
            _ => Next::End(Outcome::NoTrials, vec![]),
        }
    }
}

/// A bundle with nothing but the message that makes its commit fail.
fn proof(id: u32, end: Item) -> Vec<Item> {
    vec![control(id, BundleCtrlType::OPEN_REQUEST), add_to_bundle(id, unappliable()), end]
}
