//! The configuration as text: all values with their origins, the example file, and the tables of the documentation.

use std::fmt::Write as _;

use super::keys::{ConfigKey, FlagValue, KEYS};
use super::{LoadedConfig, Origin};
use crate::Registry;

/// Longest line after which origins are aligned; a list may be much longer.
const ALIGNED_LEN_MAX: usize = 100;

/// Every key with its value and origin, as TOML. Experimental keys are left out if they are not set. A secret is masked, since
/// the output may be published with a question.
pub(crate) fn show(loaded: &LoadedConfig) -> String {
    let lines: Vec<_> = loaded
        .values()
        .filter(|(key, _, origin)| !key.is_experimental() || **origin != Origin::Default)
        .map(|(key, value, origin)| match value.as_str() {
            Some(secret) if key.is_secret() && !secret.is_empty() => {
                (key, format!("{} = \"(hidden)\"", key.name), origin)
            }
            _ => (key, format!("{} = {value}", key.name), origin),
        })
        .collect();
    let lens = lines.iter().map(|(_, line, _)| line.len());
    let width = lens.filter(|&len| len <= ALIGNED_LEN_MAX).max().unwrap_or(0);
    let mut out = String::new();
    let mut section = "";
    for (key, line, origin) in lines {
        start_section(key, &mut section, &mut out);
        let _ = writeln!(out, "{line:width$}  # {origin}");
    }
    for section in &loaded.sections {
        let _ = writeln!(out, "\n[app.{}]", section.name);
        for (key, value, origin) in &section.values {
            let line = format!("{key} = {value}");
            let _ = writeln!(out, "{line:width$}  # {origin}");
        }
    }
    out
}

/// The sections of applications of other crates with their defaults; nothing if there are none.
pub(crate) fn example_of_apps(registry: &Registry) -> String {
    let mut out = String::new();
    for section in registry.sections() {
        let app = registry.all().find(section.name);
        let description = app.map_or("", |app| app.description);
        let _ = writeln!(out, "\n[{}]", section.path());
        let _ = writeln!(out, "# The application {}: {description}.", section.name);
        let _ = write!(out, "{}", section.defaults());
    }
    out
}

/// A file with every key, its default and its documentation. Experimental keys are left out.
pub(crate) fn example() -> String {
    let mut out = String::from(
        "# The configuration of Sluice: every key with its default.\n\
         #\n\
         # `sluice run --config FILE` reads it; without --config, /etc/sluice.toml is read if it exists. A flag overrides the\n\
         # environment, the environment overrides the file. SIGHUP reads it again: a change takes effect at once unless\n\
         # the key needs a restart.\n",
    );
    let mut section = "";
    for key in KEYS.iter().filter(|key| !key.is_experimental()) {
        out.push('\n');
        start_section(key, &mut section, &mut out);
        for line in wrapped(&key.doc, 106) {
            let _ = writeln!(out, "# {line}");
        }
        let mut set_by: Vec<_> = flags(key).iter().map(|flag| format!("flag {flag}")).collect();
        set_by.push(format!("environment {}", key.env()));
        if key.needs_restart {
            set_by.push("needs a restart".to_owned());
        }
        let _ = writeln!(out, "# ({})", set_by.join(", "));
        let _ = writeln!(out, "{} = {}", key.name, key.default);
    }
    out
}

/// A table of `docs/config.md`: the experimental keys, or all others.
#[cfg(test)]
pub(super) fn table(is_experimental: bool) -> String {
    let mut out = String::from(
        "| key | default | flag | environment | change takes effect | meaning |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for key in KEYS.iter().filter(|key| key.is_experimental() == is_experimental) {
        let code = |flag: &String| format!("`{}`", flag.replace('|', "\\|"));
        let flags = flags(key).iter().map(code).collect::<Vec<_>>().join(", ");
        let (path, default, env, doc) = (&key.path, &key.default, key.env(), &key.doc);
        let effect = if key.needs_restart { "at a restart" } else { "at once" };
        let _ = writeln!(out, "| `{path}` | `{default}` | {flags} | `{env}` | {effect} | {doc} |");
    }
    out
}

/// Writes the header of the section of `key` if it differs from `section`.
fn start_section(key: &ConfigKey, section: &mut &'static str, out: &mut String) {
    if key.section != *section {
        if out.ends_with('\n') && !out.ends_with("\n\n") {
            out.push('\n');
        }
        let _ = writeln!(out, "[{}]", key.section);
        *section = key.section;
    }
}

fn flags(key: &ConfigKey) -> Vec<String> {
    let text = |flag: &&super::keys::Flag| match flag.value {
        FlagValue::Given(value) => format!("--{} {value}", flag.name),
        FlagValue::Fixed { .. } => format!("--{}", flag.name),
    };
    key.flags.iter().map(text).collect()
}

/// `text` in lines of at most `width` bytes; a longer word has a line of its own.
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
