//! The changes of one revision at one switch: all of them are made, or none.
//!
//! ```text
//!  without bundles   ordered ──▶ done, or undo
//!  with bundles      adding ──▶ commit ──▶ done, or diagnosis
//!  prepared          (proof ──▶) trial ──▶ adding ──▶ closing ──▶ prepared … commit
//! ```

mod bundle;
mod order;
mod trial;

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_openflow::spec::ErrorRow;
use sluice_openflow::{BundleCtrlType, ErrorReason, ErrorType, Message, Version};
use sluice_sdk::{Answer, Refusal};

use crate::entry::Kind;
use crate::form::{Form, Slot, transition};
pub(crate) use bundle::UNUSED_GROUP;
use bundle::{add_to_bundle, confirmed, control};
use order::in_order_of_use;

/// Messages of one request: a switch that processes 100 in a second answers well within the time limit.
pub(super) const CHUNK: usize = 256;

/// Changes of a bundle that is sent again to find which of them was refused: they have to fit into one request.
const DIAGNOSIS_MAX: usize = 500;

/// Distinguishes the number of the second bundle: that of a trial or a diagnosis.
const SECOND_BIT: u32 = 1 << 31;

/// A slot, what the switch has there, and what it is to have.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) slot: Slot,
    pub(super) from: Option<Arc<Form>>,
    pub(super) to: Option<Arc<Form>>,
    message: Message,
}

/// What is being sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// One message after the other; if one is refused, those before it are undone.
    Ordered,
    /// The messages into a bundle, which the switch applies as a whole. A message that is refused is not in the bundle, so the commit
    /// has to wait for all answers.
    Adding,
    /// The end of a bundle that is committed later.
    Closing,
    /// A closed bundle. Nothing is sent before [`Transaction::commit`].
    Prepared,
    /// The commit of the bundle.
    Commit,
    /// A bundle that is discarded, with the message that makes commits fail: whether the switch takes it.
    ProofOfAdding,
    /// A bundle of nothing but this message: whether its commit fails, and the switch names this message as the cause.
    ProofOfFailure,
    /// A bundle of all messages and this one: if the switch names this message as the cause, it would accept all others.
    Trial,
    /// The same bundle again as one request, after its commit was refused. The switch names the transaction id of the change that
    /// it has refused, and that of an earlier request belongs to nobody any more.
    Diagnosis,
    /// What undoes messages that were sent in order: the cause, and whether one of them was refused itself.
    Undo { cause: Failure, is_incomplete: bool },
}

/// A message, and the step to which it belongs.
type Item = (Message, Option<usize>);

/// Why a transaction has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The slot whose message was refused, if it is known.
    pub(super) slot: Option<Slot>,
    pub(super) reason: String,
}

/// How a transaction has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The switch has made all changes.
    Done,
    /// It has made none.
    Refused(Failure),
    /// It is unknown which it has made.
    Unknown(String),
    /// It has made none, and does not tell whether it would.
    NoTrials,
}

/// What to do after an answer.
#[derive(Debug)]
pub(super) enum Next {
    /// Send the [messages](Transaction::messages).
    Send,
    /// Send the same again later: the controller has too much to do.
    Later,
    /// The switch has no bundles, or not for these messages. Send the first messages, which need no answer, and the
    /// [messages](Transaction::messages).
    NoBundle(BundleScope, Vec<Message>),
    /// Nothing: the switch would accept all, and has it in a bundle.
    Wait,
    /// Nothing follows. The messages, if there are any, need no answer.
    End(Outcome, Vec<Message>),
}

/// How long a switch is sent no bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BundleScope {
    /// It has none.
    Session,
    /// It takes these messages in none.
    Once,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) revision: u64,
    pub(super) steps: Vec<Step>,
    /// The number of its bundle.
    bundle: Option<u32>,
    /// Whether the commit waits for [`commit`](Self::commit).
    is_prepared: bool,
    stage: Stage,
    /// Sent, and not answered yet.
    current: Vec<Item>,
    rest: VecDeque<Vec<Item>>,
    /// Steps whose messages were answered.
    steps_done: usize,
    /// Groups and meters that were recorded as ours for this transaction.
    pub(super) newly_owned: Vec<Slot>,
    /// Of these, the one that the switch has refused since another program has added it.
    pub(super) existing: Option<Slot>,
    /// Of these, those that may have been refused for the same reason, and are therefore not undone.
    pub(super) unsure: Vec<Slot>,
}

impl Step {
    /// `None` if nothing is to be done.
    pub(super) fn new(
        slot: Slot,
        from: Option<Arc<Form>>,
        to: Option<Arc<Form>>,
        version: Version,
    ) -> Option<Self> {
        let message = transition(from.as_ref(), to.as_ref(), version)?;
        Some(Self { slot, from, to, message })
    }

    /// What others refer to is installed before them and removed after them.
    fn rank(&self) -> u8 {
        match (self.slot.kind(), &self.to) {
            (Kind::Meter, Some(_)) => 0,
            (Kind::Group, Some(_)) => 1,
            (Kind::Flow, Some(_)) => 2,
            (Kind::Flow, None) => 3,
            (Kind::Group, None) => 4,
            (Kind::Meter, None) => 5,
        }
    }
}

impl Transaction {
    /// `bundle` is the number of a bundle if the switch has bundles.
    pub(super) fn new(revision: u64, steps: Vec<Step>, bundle: Option<u32>) -> Self {
        let steps = in_order_of_use(steps);
        // Open vSwitch takes no meters in bundles.
        let is_bundle = steps.len() > 1 && steps.iter().all(|it| it.slot.kind() != Kind::Meter);
        let mut transaction = Self {
            revision,
            steps,
            bundle: bundle.filter(|_| is_bundle),
            is_prepared: false,
            stage: Stage::Ordered,
            current: vec![],
            rest: VecDeque::new(),
            steps_done: 0,
            newly_owned: vec![],
            existing: None,
            unsure: vec![],
        };
        match transaction.bundle {
            Some(id) => transaction.start_adding(id),
            None => transaction.start_ordered(),
        }
        transaction
    }

    fn start_adding(&mut self, id: u32) {
        let items: Vec<_> = self.bundle_items(id).collect();
        self.start(Stage::Adding, &items);
    }

    /// An open bundle with all messages.
    fn bundle_items(&self, id: u32) -> impl Iterator<Item = Item> {
        let open = control(id, BundleCtrlType::OPEN_REQUEST);
        std::iter::once(open).chain(self.items().map(move |it| add_to_bundle(id, it)))
    }

    fn items(&self) -> impl Iterator<Item = Item> {
        self.steps.iter().enumerate().map(|(no, step)| (step.message.clone(), Some(no)))
    }

    fn start_ordered(&mut self) {
        let items: Vec<_> = self.items().collect();
        self.start(Stage::Ordered, &items);
    }

    fn start(&mut self, stage: Stage, items: &[Item]) {
        self.stage = stage;
        self.rest = items.chunks(CHUNK).map(<[Item]>::to_vec).collect();
        self.current = self.rest.pop_front().unwrap_or_default();
    }

    /// The messages to send now.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.current.iter().map(|(message, _)| message.clone()).collect()
    }

    /// The number of messages that wait for an answer.
    pub(super) fn message_count(&self) -> usize {
        self.current.len()
    }

    pub(super) fn on_answer(&mut self, answer: Answer, version: Version) -> Next {
        match answer {
            Answer::Done | Answer::Reply(_) => self.on_done(),
            Answer::Refused(refusal) if refusal.index >= self.current.len() => {
                Next::End(Outcome::Unknown(refusal.to_string()), vec![])
            }
            Answer::Refused(refusal) => self.on_refusal(refusal, version),
            Answer::Unsupported { index, error } => {
                let failure = Failure { slot: self.slot_of(index), reason: error.to_string() };
                self.fail(failure, 0, version)
            }
            Answer::TooMany | Answer::Paused => Next::Later,
            other => Next::End(Outcome::Unknown(other.to_string()), self.discard()),
        }
    }

    fn on_done(&mut self) -> Next {
        self.steps_done += self.current.len();
        if let Some(next) = self.rest.pop_front() {
            self.current = next;
            return Next::Send;
        }
        match (&self.stage, self.bundle) {
            (Stage::Adding, Some(id)) if self.is_prepared => {
                self.start(Stage::Closing, &confirmed(id, BundleCtrlType::CLOSE_REQUEST));
                Next::Send
            }
            (Stage::Closing, _) => {
                (self.stage, self.current) = (Stage::Prepared, vec![]);
                Next::Wait
            }
            (Stage::ProofOfAdding, _) => {
                self.start_proof_of_failure();
                Next::Send
            }
            (Stage::ProofOfFailure, _) => Next::End(Outcome::NoTrials, vec![]),
            (Stage::Adding, Some(id)) => {
                self.start(Stage::Commit, &confirmed(id, BundleCtrlType::COMMIT_REQUEST));
                Next::Send
            }
            (Stage::Undo { cause, is_incomplete: false }, _) => {
                Next::End(Outcome::Refused(cause.clone()), vec![])
            }
            (Stage::Undo { cause, is_incomplete: true }, _) => {
                Next::End(Outcome::Unknown(cause.reason.clone()), vec![])
            }
            _ => Next::End(Outcome::Done, vec![]),
        }
    }

    fn on_refusal(&mut self, refusal: Refusal, version: Version) -> Next {
        if let Stage::Undo { is_incomplete, .. } = &mut self.stage {
            // What cannot be undone is found by reading.
            *is_incomplete = true;
            return self.on_done();
        }
        if matches!(self.stage, Stage::ProofOfAdding | Stage::ProofOfFailure | Stage::Trial) {
            return self.on_trial_refusal(refusal);
        }
        if self.stage == Stage::Adding
            && !self.is_prepared
            && let Some(scope) = self.without_bundle(&refusal)
        {
            let discard = self.discard();
            self.start_ordered();
            self.steps_done = 0;
            return Next::NoBundle(scope, discard);
        }
        if self.stage == Stage::Commit && self.steps.len() <= DIAGNOSIS_MAX {
            self.diagnose();
            return Next::Send;
        }
        let slot = self.slot_of(refusal.index);
        self.note_existing(&refusal, slot.as_ref());
        let failure = Failure { slot, reason: refusal.reason.to_string() };
        // Of another master's switch it is known that it has refused all that follows.
        let is_slave = is_error(refusal.reason, &[(ErrorType::BAD_REQUEST, "IS_SLAVE")]);
        let made = if is_slave { refusal.index } else { self.current.len() };
        self.fail(failure, made, version)
    }

    fn second_bundle(&self) -> u32 {
        self.bundle.unwrap_or_default() | SECOND_BIT
    }

    fn diagnose(&mut self) {
        // Another number, since the switch may not have forgotten the first one.
        let id = self.second_bundle();
        let commit = control(id, BundleCtrlType::COMMIT_REQUEST);
        let items = self.bundle_items(id).chain([commit]).collect();
        (self.stage, self.current) = (Stage::Diagnosis, items);
    }

    /// Whether the switch has refused bundles, or this message in a bundle, rather than the change.
    fn without_bundle(&self, refusal: &Refusal) -> Option<BundleScope> {
        let reason = refusal.reason;
        let is_about_bundles = reason.kind() == ErrorType::BUNDLE_FAILED
            || [ErrorReason::BAD_TYPE, ErrorReason::BAD_EXPERIMENTER].contains(&reason);
        let is_open = self.slot_of(refusal.index).is_none();
        is_about_bundles.then_some(if is_open { BundleScope::Session } else { BundleScope::Once })
    }

    /// If another program has added a group or meter, those behind it may exist as well.
    fn note_existing(&mut self, refusal: &Refusal, slot: Option<&Slot>) {
        if self.stage != Stage::Ordered || !is_error(refusal.reason, EXISTING) {
            return;
        }
        let behind = self.current.iter().skip(refusal.index + 1).filter_map(|(_, step)| *step);
        let slots = behind.filter_map(|step| self.steps.get(step)).map(|step| &step.slot);
        self.unsure = slots.filter(|slot| self.newly_owned.contains(slot)).cloned().collect();
        self.existing = slot.cloned();
    }

    /// Undoes what may have been done by the first `current` messages of those that were sent now, and by those before.
    fn fail(&mut self, failure: Failure, current: usize, version: Version) -> Next {
        match self.stage {
            Stage::Undo { .. } => return Next::End(Outcome::Unknown(failure.reason), vec![]),
            Stage::Ordered => {}
            _ => return Next::End(Outcome::Refused(failure), self.discard()),
        }
        let made = self.steps.iter().take(self.steps_done + current).rev();
        let made = made.filter(|step| Some(&step.slot) != failure.slot.as_ref());
        let made = made.filter(|step| !self.unsure.contains(&step.slot));
        let undo: Vec<_> = made
            .filter_map(|step| transition(step.to.as_ref(), step.from.as_ref(), version))
            .map(|message| (message, None))
            .collect();
        // Reading shows which of them are ours.
        let is_incomplete = !self.unsure.is_empty();
        if undo.is_empty() {
            let outcome = if is_incomplete {
                Outcome::Unknown(failure.reason)
            } else {
                Outcome::Refused(failure)
            };
            return Next::End(outcome, vec![]);
        }
        self.start(Stage::Undo { cause: failure, is_incomplete }, &undo);
        Next::Send
    }

    /// The messages that discard the bundle, if it is open: a commit closes it in any case.
    fn discard(&self) -> Vec<Message> {
        let id = match self.stage {
            Stage::Adding | Stage::Closing | Stage::Prepared => self.bundle,
            Stage::Trial => Some(self.second_bundle()),
            _ => None,
        };
        let messages = id.map(|id| confirmed(id, BundleCtrlType::DISCARD_REQUEST));
        let messages = messages.unwrap_or_default();
        messages.into_iter().map(|(message, _)| message).collect()
    }

    fn slot_of(&self, index: usize) -> Option<Slot> {
        let (_, step) = self.current.get(index)?;
        self.steps.get((*step)?).map(|step| step.slot.clone())
    }
}

/// A switch has refused to add a group or meter since it has one with this number.
const EXISTING: &[(ErrorType, &str)] =
    &[(ErrorType::GROUP_MOD_FAILED, "GROUP_EXISTS"), (ErrorType::METER_MOD_FAILED, "METER_EXISTS")];

fn is_error(reason: ErrorReason, errors: &[(ErrorType, &str)]) -> bool {
    let rows =
        errors.iter().filter_map(|(kind, name)| ErrorRow::by_name(*kind, name, Version::V1_3));
    rows.into_iter().any(|row| row.reason == reason)
}
