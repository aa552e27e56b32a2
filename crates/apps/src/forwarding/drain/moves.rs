//! Moves flows to other paths, make before break: the flow entries of a new path are written from its end to its start, those of a
//! switch when the switches behind it have confirmed theirs.
//!
//! So a packet meets either the old entries or new ones that lead on to its destination, and the switch where both paths part is
//! changed last. Old entries are deleted afterwards. A flow of which a switch refuses an entry stays where it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sluice_openflow::{DatapathId, FlowDesc, FlowMod, Message};
use sluice_sdk::{Answer, Network, Ticket};

/// Flows that are moved at a time: one message each to a switch, which may have 1 024 of all requests.
const BATCH: usize = 256;

/// How long a switch may take to confirm flow entries.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A flow that is to be moved.
#[derive(Debug)]
pub(super) struct PlannedMove {
    /// The entry that sends its packets into the cable.
    pub(super) old: FlowDesc,
    /// The entries of the new path, in the order in which they are written.
    pub(super) steps: Vec<(DatapathId, FlowMod)>,
}

/// Flows that are being moved.
#[derive(Debug)]
pub(super) struct Moves {
    planned: VecDeque<PlannedMove>,
    batch: Vec<PlannedMove>,
    /// The number of steps of the batch that were sent.
    sent: usize,
    waiting: BTreeMap<Ticket, DatapathId>,
    /// The old entries of flows that were moved.
    moved: Vec<FlowDesc>,
}

impl Moves {
    pub(super) fn new(planned: Vec<PlannedMove>) -> Self {
        let planned = planned.into();
        Self { planned, batch: Vec::new(), sent: 0, waiting: BTreeMap::new(), moved: Vec::new() }
    }

    /// Sends the next step of a batch, if the last one is confirmed. Returns the old entries of the flows that were moved if this was
    /// the last.
    pub(super) fn advance(&mut self, network: &mut Network) -> Option<Vec<FlowDesc>> {
        while self.waiting.is_empty() {
            if self.batch.is_empty() {
                let count = self.planned.len().min(BATCH);
                self.batch.extend(self.planned.drain(..count));
                self.sent = 0;
                if self.batch.is_empty() {
                    return Some(std::mem::take(&mut self.moved));
                }
            }
            let mut messages = BTreeMap::<_, Vec<_>>::new();
            for (to, entry) in self.batch.iter().filter_map(|flow| flow.steps.get(self.sent)) {
                messages.entry(*to).or_default().push(Message::FlowMod(entry.clone()));
            }
            if messages.is_empty() {
                self.moved.extend(self.batch.drain(..).map(|flow| flow.old));
                continue;
            }
            self.sent += 1;
            for (to, messages) in messages {
                self.waiting.insert(network.request_all(to, messages, TIMEOUT), to);
            }
        }
        None
    }

    /// Handles an answer. If the entries are not confirmed, the flows to which they belong are not moved.
    pub(super) fn on_answer(&mut self, ticket: Ticket, answer: &Answer) -> bool {
        let Some(from) = self.waiting.remove(&ticket) else { return false };
        if *answer != Answer::Done {
            let step = self.sent.saturating_sub(1);
            self.batch.retain(|flow| flow.steps.get(step).is_none_or(|(to, _)| *to != from));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Action, Instruction, PortNo};

    use super::*;

    fn flow(n: u64, path: &[u64]) -> PlannedMove {
        let entry = |port| FlowMod {
            cookie: n,
            instructions: vec![Instruction::apply([Action::output(PortNo(port))])],
            ..FlowMod::default()
        };
        let steps = path.iter().map(|&switch| (DatapathId(switch), entry(1))).collect();
        PlannedMove { old: FlowDesc { cookie: n, ..FlowDesc::default() }, steps }
    }

    /// Sends steps until all flows were moved, and answers as `answer` says. Returns the requests of each step and the moved flows.
    fn run(
        flows: Vec<PlannedMove>,
        answer: impl Fn(u64, usize) -> Answer,
    ) -> (Vec<Vec<(u64, usize)>>, Vec<u64>) {
        let (mut network, mut moves, mut steps) = (Network::new(0), Moves::new(flows), vec![]);
        loop {
            if let Some(moved) = moves.advance(&mut network) {
                return (steps, moved.iter().map(|entry| entry.cookie).collect());
            }
            let sent = network.take_requests();
            assert!(!sent.is_empty());
            steps.push(sent.iter().map(|it| (it.to.0, it.request.messages.len())).collect());
            for request in sent {
                let answer = answer(request.to.0, steps.len());
                assert!(moves.advance(&mut network).is_none(), "it waits for all");
                assert!(moves.on_answer(request.ticket, &answer));
                assert!(!moves.on_answer(request.ticket, &answer));
            }
        }
    }

    #[test]
    fn each_switch_is_changed_when_those_behind_it_have_confirmed() {
        let flows = vec![flow(1, &[4, 3, 1]), flow(2, &[4, 2, 1]), flow(3, &[1])];
        let (steps, moved) = run(flows, |_, _| Answer::Done);
        assert_eq!(steps, [vec![(1, 1), (4, 2)], vec![(2, 1), (3, 1)], vec![(1, 2)]]);
        assert_eq!(moved, [1, 2, 3]);
    }

    #[test]
    fn a_flow_is_not_moved_if_a_switch_does_not_confirm_its_entry() {
        let flows = vec![flow(1, &[4, 3, 1]), flow(2, &[4, 2, 1])];
        let is_late = |switch, _| if switch == 3 { Answer::TimedOut } else { Answer::Done };
        let (steps, moved) = run(flows, is_late);
        assert_eq!(steps, [vec![(4, 2)], vec![(2, 1), (3, 1)], vec![(1, 1)]]);
        assert_eq!(moved, [2]);
    }

    #[test]
    fn many_flows_are_moved_in_batches() {
        let flows = (0..600).map(|n| flow(n, &[2, 1])).collect();
        let (steps, moved) = run(flows, |_, _| Answer::Done);
        let counts: Vec<_> = steps.iter().map(|step| step[0].1).collect();
        assert_eq!(counts, [256, 256, 256, 256, 88, 88]);
        assert_eq!(moved.len(), 600);
    }
}
