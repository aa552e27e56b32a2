//! Groups the messages that applications send to other switches in one iteration, by switch.

use sluice_base::HashMap;
use sluice_openflow::{DatapathId, Message};

/// Messages per switch for which memory is kept between iterations.
const KEPT_MAX: usize = 1024;

/// Messages grouped by switch, in the order in which they were sent. Memory is reused.
#[derive(Debug, Default)]
pub(super) struct MessageBatches {
    /// Index of each switch in `switches` and `batches`.
    indices: HashMap<DatapathId, usize>,
    switches: Vec<DatapathId>,
    batches: Vec<Vec<Message>>,
}

impl MessageBatches {
    /// Replaces the content by `messages`, grouped.
    pub(super) fn group(&mut self, messages: Vec<(DatapathId, Message)>) {
        self.indices.clear();
        self.switches.clear();
        self.batches.iter_mut().for_each(|batch| batch.shrink_to(KEPT_MAX));
        for (to, message) in messages {
            let index = *self.indices.entry(to).or_insert_with(|| {
                self.switches.push(to);
                self.switches.len() - 1
            });
            if self.batches.len() <= index {
                self.batches.resize_with(index + 1, Vec::new);
            }
            if let Some(batch) = self.batches.get_mut(index) {
                batch.push(message);
            }
        }
    }

    /// The batch of each switch, ordered by the first message of each. The caller empties the batches.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (DatapathId, &mut Vec<Message>)> {
        self.switches.iter().copied().zip(&mut self.batches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_switches_keep_their_order() {
        let mut batches = MessageBatches::default();
        let message = |n| Message::EchoRequest { data: vec![n] };
        for _ in 0..2 {
            let messages = [(7, 1), (3, 2), (7, 3), (9, 4), (3, 5)];
            batches.group(messages.map(|(to, n)| (DatapathId(to), message(n))).into());
            let grouped: Vec<_> =
                batches.iter_mut().map(|(to, batch)| (to.0, std::mem::take(batch))).collect();
            let expected = [
                (7, vec![message(1), message(3)]),
                (3, vec![message(2), message(5)]),
                (9, vec![message(4)]),
            ];
            assert_eq!(grouped, expected);
        }
    }
}
