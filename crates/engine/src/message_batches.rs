//! Letters of one turn, by whom they are for.

use std::collections::HashMap;

use sluice_openflow::{DatapathId, Message};

/// Letters to one switch for which room is kept from turn to turn.
const KEPT_MAX: usize = 1024;

/// Letters to switches, those for each in the order in which they were written. Room is used again.
#[derive(Debug, Default)]
pub(crate) struct MessageBatches {
    numbers: HashMap<DatapathId, usize>,
    ids: Vec<DatapathId>,
    letters: Vec<Vec<Message>>,
}

impl MessageBatches {
    /// Sorts letters, in place of those that were sorted before.
    pub(crate) fn sort(&mut self, letters: Vec<(DatapathId, Message)>) {
        self.numbers.clear();
        self.ids.clear();
        self.letters.iter_mut().for_each(|bundle| bundle.shrink_to(KEPT_MAX));
        for (to, message) in letters {
            let number = *self.numbers.entry(to).or_insert_with(|| {
                self.ids.push(to);
                self.ids.len() - 1
            });
            if self.letters.len() <= number {
                self.letters.resize_with(number + 1, Vec::new);
            }
            if let Some(bundle) = self.letters.get_mut(number) {
                bundle.push(message);
            }
        }
    }

    /// The letters for each switch, those for who was written to first first.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = (DatapathId, &mut Vec<Message>)> {
        self.ids.iter().copied().zip(&mut self.letters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_keep_their_order_and_their_switches_theirs() {
        let mut bundles = MessageBatches::default();
        let letter = |n| Message::EchoRequest { data: vec![n] };
        for _ in 0..2 {
            let letters = [(7, 1), (3, 2), (7, 3), (9, 4), (3, 5)];
            bundles.sort(letters.map(|(to, n)| (DatapathId(to), letter(n))).into());
            let sorted: Vec<_> =
                bundles.each().map(|(to, letters)| (to.0, std::mem::take(letters))).collect();
            let expected = [
                (7, vec![letter(1), letter(3)]),
                (3, vec![letter(2), letter(5)]),
                (9, vec![letter(4)]),
            ];
            assert_eq!(sorted, expected);
        }
    }
}
