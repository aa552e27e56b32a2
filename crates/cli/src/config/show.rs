//! The configuration as text: all of it with its origins, the example, the table of the documentation.

use std::fmt::Write as _;

use super::layers::default;
use super::rows::ROWS;
use super::{Effect, Loaded, Origin, Row};

/// Every key with its value and where that comes from: TOML that could be read again. Experimental keys are shown if
/// they are set.
pub(crate) fn show(loaded: &Loaded) -> String {
    let lines: Vec<_> = loaded
        .values()
        .filter(|(row, _, origin)| !row.is_experimental() || **origin != Origin::Default)
        .map(|(row, value, origin)| (row, format!("{} = {value}", row.parts().1), origin))
        .collect();
    let width = lines.iter().map(|(_, line, _)| line.len()).max().unwrap_or(0);
    let mut out = String::new();
    let mut section = "";
    for (row, line, origin) in lines {
        head(row, &mut section, &mut out);
        let _ = writeln!(out, "{line:width$}  # {origin}");
    }
    out
}

/// Every key with its default and what it is: a file to begin with.
pub(crate) fn example() -> String {
    let mut out = String::from(
        "# The configuration of Sluice: every key with its default.\n\
         #\n\
         # `sluice run --config FILE` reads it; without --config, /etc/sluice.toml if it is there. A flag beats the\n\
         # environment beats the file beats the default. SIGHUP reads it again; what says \"restart\" waits for one.\n",
    );
    let mut section = "";
    for row in ROWS.iter().filter(|row| !row.is_experimental()) {
        out.push('\n');
        head(row, &mut section, &mut out);
        for line in wrapped(row.doc, 106) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = writeln!(out, "# {}", ways(row));
        let _ = writeln!(out, "{} = {}", row.parts().1, default(row));
    }
    out
}

/// A table of `docs/config.md`: the experimental keys, or all others.
#[cfg(test)]
pub(super) fn table(is_experimental: bool) -> String {
    let mut out = String::from(
        "| key | default | flag | environment | change | what it is |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in ROWS.iter().filter(|row| row.is_experimental() == is_experimental) {
        let flags: Vec<_> =
            flags(row).iter().map(|flag| format!("`{}`", flag.replace('|', "\\|"))).collect();
        let flag = flags.join(", ");
        let (key, default, env) = (row.key, default(row), row.env());
        let (effect, doc) = (effect(row), row.doc);
        let _ = writeln!(out, "| `{key}` | `{default}` | {flag} | `{env}` | {effect} | {doc} |");
    }
    out
}

/// Begins the section of `row` if it is another one than the last.
fn head(row: &Row, section: &mut &'static str, out: &mut String) {
    let new = row.parts().0;
    if new != *section {
        if out.ends_with('\n') && !out.ends_with("\n\n") {
            out.push('\n');
        }
        let _ = writeln!(out, "[{new}]");
        *section = new;
    }
}

fn ways(row: &Row) -> String {
    let mut flag = flags(row).join(", ");
    if !flag.is_empty() {
        flag = format!("flag {flag}, ");
    }
    format!("({flag}environment {}; a change takes effect {})", row.env(), effect(row))
}

fn effect(row: &Row) -> &'static str {
    match row.effect {
        Effect::Live => "at once",
        Effect::Restart => "at a restart",
    }
}

fn flags(row: &Row) -> Vec<String> {
    let takes = row.flag.map(|flag| format!("--{} {}", flag.name, flag.value));
    let sets = row.switch.map(|switch| format!("--{}", switch.name));
    takes.into_iter().chain(sets).collect()
}

/// `text` in lines of at most `width` bytes, if its words are no longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
