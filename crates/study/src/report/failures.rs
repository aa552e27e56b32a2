//! Sentences that say the same with other numbers, such as ports, times and process ids, as one.

use std::collections::BTreeSet;

use sluice_base::ordered;

/// Sentences that differ only in their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentenceGroup<'s> {
    /// The first of them.
    example: &'s str,
    /// All that are different.
    sentences: BTreeSet<&'s str>,
    /// How many there are.
    pub(crate) count: usize,
}

impl<'s> SentenceGroup<'s> {
    /// Groups sentences, in the order of the first of each group.
    pub(crate) fn of(sentences: impl IntoIterator<Item = &'s str>) -> Vec<Self> {
        let mut groups: Vec<(String, Self)> = Vec::new();
        for sentence in sentences {
            let pattern = without_numbers(sentence);
            match groups.iter_mut().find(|(it, _)| *it == pattern) {
                Some((_, group)) => group.add(sentence),
                None => groups.push((pattern, Self::new(sentence))),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    pub(crate) fn new(sentence: &'s str) -> Self {
        Self { example: sentence, sentences: ordered([sentence]), count: 1 }
    }

    pub(crate) fn add(&mut self, sentence: &'s str) {
        self.sentences.insert(sentence);
        self.count += 1;
    }

    /// Another group of the same sentence without numbers.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sentences.extend(&other.sentences);
        self.count += other.count;
    }

    /// The first sentence, and how many others there are with other numbers.
    pub(crate) fn text(&self) -> String {
        match self.sentences.len() - 1 {
            0 => self.example.to_owned(),
            others => format!("{} (and {others} with other numbers)", self.example),
        }
    }

    /// The sentence with `#` in place of each number. All sentences of a group have the same.
    pub(crate) fn pattern(&self) -> String {
        without_numbers(self.example)
    }
}

/// What a sentence says, with `#` in place of each number.
fn without_numbers(sentence: &str) -> String {
    let mut pattern = String::new();
    for c in sentence.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && pattern.ends_with('#'));
        if !is_number {
            pattern.push(c);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_with_other_numbers_are_the_same() {
        assert_eq!(without_numbers("busy 97.5 % of 10 s"), "busy # % of # s");
        assert_eq!(without_numbers("no numbers."), "no numbers.");
        let failures = [
            "bind: port 40123 is in use by 8812",
            "time-out",
            "bind: port 39001 is in use by 71",
            "bind: port 40123 is in use by 8812",
        ];
        let groups = SentenceGroup::of(failures);
        let texts: Vec<_> = groups.iter().map(|it| (it.text(), it.count)).collect();
        let example = "bind: port 40123 is in use by 8812 (and 1 with other numbers)";
        assert_eq!(texts, [(example.to_owned(), 3), ("time-out".to_owned(), 1)]);
    }
}
