//! The entries of a report, each with a label: as text for the terminal, at most 80 columns wide, or as rows of a table.

use std::fmt;

/// Columns of the text.
pub(crate) const WIDTH: usize = 80;

/// Columns of the labels.
const LABEL_WIDTH: usize = 13;

/// A space at which no line is broken.
pub(crate) const NO_BREAK_SPACE: char = '\u{a0}';

/// Label of a warning.
pub(crate) const WARNING: &str = "Warning";

/// Entries in their order.
#[derive(Debug, Default)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

/// A label, and a text or the rows of a chart. An empty label continues the entry before.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) content: EntryContent,
}

#[derive(Debug)]
pub(crate) enum EntryContent {
    /// Wrapped between words.
    Text(String),
    /// Not wrapped.
    Chart(Vec<String>),
}

impl Entries {
    pub(crate) fn entry(&mut self, label: &str, value: &str) {
        let content = EntryContent::Text(value.to_owned());
        self.0.push(Entry { label: label.to_owned(), content });
    }

    pub(crate) fn chart(&mut self, label: &str, rows: Vec<String>) {
        self.0.push(Entry { label: label.to_owned(), content: EntryContent::Chart(rows) });
    }
}

impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { label, content } in &self.0 {
            let lines = match content {
                EntryContent::Text(value) => &wrapped(value),
                EntryContent::Chart(rows) => rows,
            };
            for (at, line) in lines.iter().enumerate() {
                let label = if at == 0 { label } else { "" };
                let line = format!("{label:<LABEL_WIDTH$}{line}").replace(NO_BREAK_SPACE, " ");
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }
}

/// The lines of `value` beside a label.
fn wrapped(value: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut len) = (String::new(), 0);
    for word in value.split(' ') {
        let word_len = word.chars().count();
        if len > 0 && len + 1 + word_len > WIDTH - LABEL_WIDTH {
            lines.push(std::mem::take(&mut line));
            len = 0;
        }
        if len > 0 {
            line.push(' ');
            len += 1;
        }
        line.push_str(word);
        len += word_len;
    }
    lines.push(line);
    lines
}

/// `text` with spaces at which no line is broken.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(' ', &NO_BREAK_SPACE.to_string())
}
