//! The layout of all tables: aligned columns that fit 80 characters, if names have a usual length.

use std::io::{IsTerminal as _, stdout};

use ratatui::crossterm::terminal;
use serde_json::Value;
use sluice_io::clock;

use super::printable;
use crate::show_events::utc;
use crate::top::with_unit;

/// Characters of a line: those of a small terminal.
const WIDTH: usize = 80;

/// Characters that a shortened text keeps at least.
const SHORTENED_MIN: usize = 8;

/// Between two columns.
const GAP: &str = "  ";

/// Before a text below its row.
const INDENT: &str = "    ";

/// A value that is missing.
const MISSING: &str = "-";

/// A column: its title, the place of its value in an item, and how it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    at: &'static str,
    form: Form,
    fit: Fit,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Value,
    /// A port: `s1:2`.
    Port,
    /// Seconds since 1970.
    Time,
    /// A rate, with a unit.
    Rate,
    /// An object, of which each key has a line.
    Keys,
}

/// What is done with a column if a line would be too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Whole,
    /// It is left out.
    Optional,
    /// Each item of its list has a line.
    Items,
    /// Its texts are shortened, on a terminal.
    Text,
    /// Its texts are below their rows, on a terminal.
    Below,
}

impl Column {
    /// A value that is never shortened.
    pub(crate) const fn new(title: &'static str, at: &'static str) -> Self {
        Self { title, at, form: Form::Value, fit: Fit::Whole }
    }

    /// A text that people have written, or a switch has chosen: it has any length.
    pub(crate) const fn text(title: &'static str, at: &'static str) -> Self {
        Self { fit: Fit::Text, ..Self::new(title, at) }
    }

    /// A text that is below its row if it is long.
    pub(crate) const fn below(title: &'static str, at: &'static str) -> Self {
        Self { fit: Fit::Below, ..Self::new(title, at) }
    }

    /// A port with its switch: `s1:2`, or with the datapath id if the switch has no name.
    pub(super) const fn port(title: &'static str, at: &'static str) -> Self {
        Self { form: Form::Port, ..Self::text(title, at) }
    }

    /// Where in an item the port is, if the column has ports.
    pub(super) fn port_at(&self) -> Option<&'static str> {
        (self.form == Form::Port).then_some(self.at)
    }

    /// A time, in UTC.
    pub(crate) const fn time(title: &'static str, at: &'static str) -> Self {
        Self { form: Form::Time, ..Self::new(title, at) }
    }

    /// A rate, with a unit.
    pub(super) const fn rate(title: &'static str, at: &'static str) -> Self {
        Self { form: Form::Rate, ..Self::new(title, at) }
    }

    /// An object, of which each key has a line.
    pub(super) const fn keys(title: &'static str, at: &'static str) -> Self {
        Self { form: Form::Keys, ..Self::new(title, at) }
    }

    /// The column is left out if the table is too wide.
    pub(super) const fn optional(self) -> Self {
        Self { fit: Fit::Optional, ..self }
    }

    /// The items of a list, which have a line each if the table is too wide.
    pub(super) const fn items(title: &'static str, at: &'static str) -> Self {
        Self { fit: Fit::Items, ..Self::new(title, at) }
    }
}

/// Where a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Output {
    width: usize,
    /// On a terminal, texts are shortened. Programs that read a pipe get them as they are, in the line of their row.
    is_terminal: bool,
}

impl Output {
    fn of_stdout() -> Self {
        let is_terminal = stdout().is_terminal();
        let columns = terminal::size().ok().filter(|_| is_terminal).map(|(columns, _)| columns);
        Self { width: columns.map_or(WIDTH, |it| WIDTH.max(it.into())), is_terminal }
    }
}

/// Rows with aligned columns below their titles.
pub(crate) fn table(items: &[Value], columns: &[Column]) -> String {
    layout(items, columns, Output::of_stdout(), clock::since_epoch().as_secs_f64())
}

/// A table for an output at a time.
fn layout(items: &[Value], columns: &[Column], output: Output, now: f64) -> String {
    let mut columns: Vec<_> =
        columns.iter().map(|column| Cells::new(items, *column, now)).collect();
    if width(&columns) > output.width {
        columns.retain(|cells| cells.column.fit != Fit::Optional);
    }
    if width(&columns) > output.width {
        columns.iter_mut().filter(|cells| cells.column.fit == Fit::Items).for_each(Cells::split);
    }
    let mut below = vec![];
    if output.is_terminal && width(&columns) > output.width {
        below = columns.extract_if(.., |cells| cells.column.fit == Fit::Below).collect();
        shorten(&mut columns, output.width);
    }
    fold_keys(&mut columns, output.width);
    let mut text = line(columns.iter().map(|cells| (cells.column.title, cells.width())));
    for row in 0..items.len() {
        let height = columns.iter().map(|cells| cells.lines(row).len()).max().unwrap_or(0);
        for at in 0..height {
            let cell = |cells: &'_ Cells| cells.lines(row).get(at).cloned().unwrap_or_default();
            let cells: Vec<_> = columns.iter().map(|it| (cell(it), it.width())).collect();
            text += &line(cells.iter().map(|(cell, width)| (cell.as_str(), *width)));
        }
        let texts = below.iter().flat_map(|cells| cells.lines(row));
        texts.for_each(|it| text.extend([INDENT, it, "\n"]));
    }
    text
}

/// The cells of a column, each of one line or several.
struct Cells {
    column: Column,
    rows: Vec<Vec<String>>,
}

impl Cells {
    fn new(items: &[Value], column: Column, now: f64) -> Self {
        let rows = items.iter().map(|item| lines(item.pointer(column.at), column.form, now));
        Self { column, rows: rows.collect() }
    }

    fn lines(&self, row: usize) -> &[String] {
        self.rows.get(row).map(Vec::as_slice).unwrap_or_default()
    }

    fn width(&self) -> usize {
        let lines = self.rows.iter().flatten().map(|line| line.chars().count());
        lines.chain([self.column.title.len()]).max().unwrap_or(0)
    }

    /// Gives each item of a list a line.
    fn split(&mut self) {
        for row in &mut self.rows {
            *row = row.iter().flat_map(|line| line.split(", ")).map(str::to_owned).collect();
        }
    }

    /// Shortens texts to `width` characters.
    fn shorten(&mut self, width: usize) {
        for line in self.rows.iter_mut().flatten().filter(|it| it.chars().count() > width) {
            *line = line.chars().take(width - 1).chain(['…']).collect();
        }
    }
}

fn width(columns: &[Cells]) -> usize {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let is_folded = |cells: &&Cells| cells.column.form != Form::Keys;
    columns.iter().filter(is_folded).map(Cells::width).sum::<usize>() + gaps
}

/// Shortens the longest texts until the table has `limit` columns, if that is possible.
fn shorten(columns: &mut [Cells], limit: usize) {
    loop {
        let excess = width(columns).saturating_sub(limit);
        let texts = columns.iter_mut().filter(|cells| cells.column.fit == Fit::Text);
        let Some(longest) = texts.max_by_key(|cells| cells.width()) else { return };
        let least = SHORTENED_MIN.max(longest.column.title.len());
        let (now, second) = (longest.width(), longest.width() - longest.width() / 4);
        if excess == 0 || now <= least {
            return;
        }
        longest.shorten((now - excess.min(now)).max(second.min(now - 1)).max(least));
    }
}

/// Breaks the lines of objects where the table ends.
fn fold_keys(columns: &mut [Cells], limit: usize) {
    let others = width(columns);
    for cells in columns.iter_mut().filter(|cells| cells.column.form == Form::Keys) {
        for row in &mut cells.rows {
            *row = row.iter().flat_map(|line| folded(line, limit.saturating_sub(others))).collect();
        }
    }
}

/// The lines of a text with at most `width` characters, broken at spaces where there are some.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let room = width.saturating_sub(lines.last().map_or(0, |line| line.chars().count()));
        let is_new = lines.last().is_some_and(String::is_empty);
        if word.trim_end().chars().count() > room && !is_new {
            lines.push("  ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// A line of cells with their widths.
fn line<'c>(cells: impl Iterator<Item = (&'c str, usize)>) -> String {
    let cells: Vec<_> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
    cells.join(GAP).trim_end().to_owned() + "\n"
}

/// The lines of a cell.
fn lines(value: Option<&Value>, form: Form, now: f64) -> Vec<String> {
    let missing = || MISSING.to_owned();
    let number = value.and_then(Value::as_f64);
    match (form, value) {
        (Form::Port, Some(port)) if !port.is_null() => {
            let text = |key: &str| port.get(key).and_then(Value::as_str).map(printable);
            let switch = text("switch").or_else(|| text("dpid")).unwrap_or_else(missing);
            vec![format!("{switch}:{}", cell(port.get("port")))]
        }
        (Form::Time, _) => vec![number.map_or_else(missing, |at| time(at, now))],
        (Form::Rate, _) => vec![number.map_or_else(missing, with_unit)],
        (Form::Keys, Some(Value::Object(keys))) if !keys.is_empty() => {
            keys.iter().map(|(key, value)| format!("{key}={}", cell(Some(value)))).collect()
        }
        _ => vec![cell(value)],
    }
}

/// `12:03:07Z` today, `2026-03-01` before.
fn time(unix_s: f64, now: f64) -> String {
    let [text, now] = [unix_s, now].map(utc);
    let (Some((date, time)), Some((today, _))) = (text.split_once('T'), now.split_once('T')) else {
        return text;
    };
    let seconds = time.split('.').next().unwrap_or(time);
    if date == today { format!("{seconds}Z") } else { date.to_owned() }
}

/// A value for people.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => MISSING.to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(Value::Bool(is)) => if *is { "yes" } else { "no" }.to_owned(),
        Some(Value::Array(items)) if items.is_empty() => MISSING.to_owned(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| cell(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(items)) if items.is_empty() => MISSING.to_owned(),
        Some(Value::Object(items)) => {
            let items = items.iter().map(|(key, item)| format!("{key}={}", cell(Some(item))));
            items.collect::<Vec<_>>().join(" ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PIPE: Output = Output { width: 40, is_terminal: false };
    const TERMINAL: Output = Output { width: 40, is_terminal: true };

    #[test]
    fn columns_are_aligned_and_missing_values_are_dashes() {
        let items =
            [json!({"a": "long text", "b": [1, "x"]}), json!({"a": null, "b": [], "c": true})];
        let columns = [("A", "/a"), ("B", "/b"), ("C", "/c")].map(|(a, b)| Column::new(a, b));
        assert_eq!(
            table(&items, &columns),
            "A          B     C\nlong text  1, x  -\n-          -     yes\n"
        );
    }

    #[test]
    fn ports_have_the_name_of_their_switch_or_its_datapath_id() {
        let at = |switch: Option<&str>| json!({"dpid": "02", "switch": switch, "port": 7});
        let items = [at(Some("s2")), at(None), Value::Null];
        assert_eq!(table(&items, &[Column::port("AT", "")]), "AT\ns2:7\n02:7\n-\n");
    }

    #[test]
    fn times_are_short() {
        let noon = 1_772_366_587.4;
        assert_eq!(time(noon, noon + 3.0), "12:03:07Z");
        assert_eq!(time(noon, noon + 86_400.0), "2026-03-01");
    }

    #[test]
    fn a_wide_table_loses_optional_columns_and_lists_have_several_lines() {
        let item =
            json!({"mac": "00:00:00:00:00:01", "port": "eth1", "ip": ["10.0.0.1", "fe80::1"]});
        let columns = [
            Column::new("MAC", "/mac"),
            Column::new("PORT", "/port").optional(),
            Column::items("ADDRESSES", "/ip"),
        ];
        assert_eq!(
            layout(std::slice::from_ref(&item), &columns, Output { width: 38, ..PIPE }, 0.0),
            "MAC                ADDRESSES\n\
             00:00:00:00:00:01  10.0.0.1, fe80::1\n"
        );
        assert_eq!(
            layout(&[item], &columns, Output { width: 30, ..PIPE }, 0.0),
            "MAC                ADDRESSES\n\
             00:00:00:00:00:01  10.0.0.1\n\
             \x20                  fe80::1\n"
        );
    }

    #[test]
    fn texts_are_shortened_on_a_terminal_and_whole_in_a_pipe() {
        let item = json!({"name": "n".repeat(64), "state": "installed", "reason": "r".repeat(30),
                          "flow": "priority=200,actions=drop"});
        let columns = [
            Column::text("NAME", "/name"),
            Column::new("STATE", "/state"),
            Column::text("REASON", "/reason"),
            Column::below("ENTRY", "/flow"),
        ];
        let shown = layout(std::slice::from_ref(&item), &columns, TERMINAL, 0.0);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{shown}");
        assert_eq!(lines[1].matches('…').count(), 2, "{shown}");
        assert_eq!(lines[2], "    priority=200,actions=drop", "{shown}");
        let piped = layout(std::slice::from_ref(&item), &columns, PIPE, 0.0);
        assert_eq!(piped.lines().count(), 2, "{piped}");
        for key in ["name", "reason", "flow"] {
            assert!(piped.contains(item[key].as_str().unwrap()), "{piped}");
        }
    }

    #[test]
    fn the_keys_of_an_object_have_lines_that_fit() {
        let item =
            json!({"name": "hosts", "settings": {"a": 1, "list": ["one text", "another text"]}});
        let columns = [Column::new("NAME", "/name"), Column::keys("SETTINGS", "/settings")];
        assert_eq!(
            layout(&[item], &columns, Output { width: 26, ..PIPE }, 0.0),
            "NAME   SETTINGS\nhosts  a=1\n       list=one text,\n         another text\n"
        );
    }

    #[test]
    fn names_of_switches_do_not_control_the_terminal() {
        assert_eq!(
            table(&[json!("\u{1b}[2J\n\u{9b}x")], &[Column::new("A", "")]),
            "A\n\u{fffd}[2J \u{fffd}x\n"
        );
    }
}
