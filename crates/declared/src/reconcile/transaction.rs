//! The changes of one revision at one switch: all of them are made, or none.

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_base::HashMap;
use sluice_openflow::spec::ErrorRow;
use sluice_openflow::{
    BundleAddMessage, BundleControl, BundleCtrlType, BundleFlags, EmbeddedMessage, ErrorReason,
    ErrorType, Message, Version,
};
use sluice_sdk::{Answer, Refusal};

use crate::entry::Kind;
use crate::form::{Form, Slot, transition};

/// Messages of one request: a switch that processes 100 in a second answers well within the time limit.
pub(super) const CHUNK: usize = 256;

/// Changes of a bundle that is sent again to find which of them was refused: they have to fit into one request.
const DIAGNOSIS_MAX: usize = 500;

/// Distinguishes the number of the second bundle.
const DIAGNOSIS_BIT: u32 = 1 << 31;

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
    /// The commit of the bundle.
    Commit,
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
            stage: Stage::Ordered,
            current: vec![],
            rest: VecDeque::new(),
            steps_done: 0,
            newly_owned: vec![],
            existing: None,
            unsure: vec![],
        };
        match transaction.bundle {
            Some(id) => {
                let items = std::iter::once((control(id, BundleCtrlType::OPEN_REQUEST), None));
                let items = items.chain(transaction.items().map(|it| add_to_bundle(id, it)));
                let items: Vec<_> = items.collect();
                transaction.start(Stage::Adding, &items);
            }
            None => transaction.start_ordered(),
        }
        transaction
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
            other => Next::End(Outcome::Unknown(other.to_string()), vec![]),
        }
    }

    fn on_done(&mut self) -> Next {
        self.steps_done += self.current.len();
        if let Some(next) = self.rest.pop_front() {
            self.current = next;
            return Next::Send;
        }
        match (&self.stage, self.bundle) {
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
        if self.stage == Stage::Adding
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

    fn diagnose(&mut self) {
        // Another number, since the switch may not have forgotten the first one.
        let id = self.bundle.unwrap_or_default() | DIAGNOSIS_BIT;
        let open = (control(id, BundleCtrlType::OPEN_REQUEST), None);
        let commit = (control(id, BundleCtrlType::COMMIT_REQUEST), None);
        let added = self.items().map(|item| add_to_bundle(id, item));
        let items = std::iter::once(open).chain(added).chain([commit]).collect();
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
        let messages = match (&self.stage, self.bundle) {
            (Stage::Adding, Some(id)) => confirmed(id, BundleCtrlType::DISCARD_REQUEST),
            _ => vec![],
        };
        messages.into_iter().map(|(message, _)| message).collect()
    }

    fn slot_of(&self, index: usize) -> Option<Slot> {
        let (_, step) = self.current.get(index)?;
        self.steps.get((*step)?).map(|step| step.slot.clone())
    }
}

/// In the order of their ranks, groups behind those to which they send packets.
fn in_order_of_use(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(Step::rank);
    let is_added_group = |step: &Step| step.to.is_some() && step.slot.kind() == Kind::Group;
    let first = steps.iter().position(is_added_group).unwrap_or(steps.len());
    let groups = steps.iter().skip(first).take_while(|step| is_added_group(step));
    let order = order_of_use(&groups.collect::<Vec<_>>());
    let mut groups: Vec<_> = steps.drain(first..first + order.len()).map(Some).collect();
    let ordered = order.iter().filter_map(|&at| groups.get_mut(at)?.take());
    let ordered: Vec<_> = ordered.collect();
    steps.splice(first..first, ordered);
    steps
}

/// The positions of groups, each behind those that it uses. The rest of a circle, which a switch refuses, comes last.
fn order_of_use(groups: &[&Step]) -> Vec<usize> {
    let positions: HashMap<_, _> =
        groups.iter().enumerate().map(|(at, step)| (&step.slot, at)).collect();
    let mut users = vec![vec![]; groups.len()];
    let mut unplaced_uses = vec![0_usize; groups.len()];
    for (at, (step, count)) in groups.iter().zip(&mut unplaced_uses).enumerate() {
        let used = step.to.iter().flat_map(|form| form.groups_used()).map(Slot::Group);
        for used in used.filter_map(|slot| positions.get(&slot)).filter(|used| **used != at) {
            if let Some(users) = users.get_mut(*used) {
                users.push(at);
                *count += 1;
            }
        }
    }
    let mut order: Vec<_> =
        (0..groups.len()).filter(|at| unplaced_uses.get(*at) == Some(&0)).collect();
    let mut next = 0;
    while let Some(&placed) = order.get(next) {
        next += 1;
        for user in users.get_mut(placed).map(std::mem::take).unwrap_or_default() {
            if let Some(count) = unplaced_uses.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    order.push(user);
                }
            }
        }
    }
    order.extend((0..groups.len()).filter(|at| unplaced_uses.get(*at) != Some(&0)));
    order
}

/// A switch has refused to add a group or meter since it has one with this number.
const EXISTING: &[(ErrorType, &str)] =
    &[(ErrorType::GROUP_MOD_FAILED, "GROUP_EXISTS"), (ErrorType::METER_MOD_FAILED, "METER_EXISTS")];

fn is_error(reason: ErrorReason, errors: &[(ErrorType, &str)]) -> bool {
    let rows =
        errors.iter().filter_map(|(kind, name)| ErrorRow::by_name(*kind, name, Version::V1_3));
    rows.into_iter().any(|row| row.reason == reason)
}

const ALL_OR_NOTHING: BundleFlags = BundleFlags(BundleFlags::ATOMIC.0 | BundleFlags::ORDERED.0);

fn control(bundle_id: u32, ctrl_type: BundleCtrlType) -> Message {
    Message::BundleControl(BundleControl {
        bundle_id,
        ctrl_type,
        flags: ALL_OR_NOTHING,
        properties: vec![],
    })
}

/// With a barrier, since the reply to the bundle request is an experimenter message in 1.3.
fn confirmed(bundle_id: u32, ctrl_type: BundleCtrlType) -> Vec<Item> {
    vec![(control(bundle_id, ctrl_type), None), (Message::BarrierRequest, None)]
}

fn add_to_bundle(bundle_id: u32, (message, step): Item) -> Item {
    let added = Message::BundleAddMessage(BundleAddMessage {
        bundle_id,
        flags: ALL_OR_NOTHING,
        message: EmbeddedMessage { xid: 0, message: Box::new(message) },
        properties: vec![],
    });
    (added, step)
}
