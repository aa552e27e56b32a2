//! Whether the placeholders in a controller's file are known.

use super::{ControllerRow, HttpCount, PathRequest, PathRequestScope};
use crate::process::PLACEHOLDERS;

/// Placeholders of a request for a path, besides those of all texts.
const OF_PATHS: [&str; 8] =
    ["name", "dpid", "dpid_hex", "dpid_colons", "in_port", "out_port", "src_mac", "dst_mac"];

/// The placeholder of a request for all flow entries of a path.
const ENTRIES: &str = "entries";

/// Refuses a controller with a placeholder that nothing replaces, and names its place in the file.
///
/// In files that are written for the controller and in its code, braces have other meanings. There, only a name that is one letter away from a
/// known one is refused.
pub(super) fn check(row: &ControllerRow) -> Result<(), String> {
    let mut all = Texts { known: PLACEHOLDERS.to_vec(), errors: Vec::new() };
    all.list("version", row.version.as_deref().unwrap_or_default());
    let start = &row.start;
    all.text("start.program", &start.program);
    all.list("start.arguments", &start.arguments);
    all.list("start.requires", &start.requires);
    for (name, value) in &start.environment {
        all.text(&format!("start.environment.{name}"), value);
    }
    for (name, content) in &start.files {
        all.file(&format!("start.files.{name:?}"), content);
    }
    if let Some(command) = &start.then {
        all.text("start.then", command);
    }
    for (name, variant) in &row.variants {
        all.list(&format!("variants.{name}"), &variant.arguments);
        for (variable, value) in &variant.environment {
            all.text(&format!("variants.{name}.environment.{variable}"), value);
        }
    }
    if let Some(northbound) = &row.northbound {
        all.count("northbound.switches", &northbound.switches);
        all.count("northbound.links", &northbound.links);
        if let Some(path) = &northbound.path {
            all.path(path);
        }
    }
    all.errors.into_iter().next().map_or(Ok(()), Err)
}

/// Texts that are searched for unknown placeholders.
struct Texts {
    known: Vec<&'static str>,
    errors: Vec<String>,
}

impl Texts {
    fn text(&mut self, place: &str, text: &str) {
        let unknown = names(text).find(|name| !self.known.contains(name));
        self.errors.extend(unknown.map(|name| self.error(place, name)));
    }

    fn list(&mut self, place: &str, texts: &[String]) {
        for (number, text) in texts.iter().enumerate() {
            self.text(&format!("{place}[{number}]"), text);
        }
    }

    fn file(&mut self, place: &str, content: &str) {
        let is_misspelled = |name: &&str| {
            !self.known.contains(name) && self.known.iter().any(|known| is_near(name, known))
        };
        let unknown = names(content).find(is_misspelled);
        self.errors.extend(unknown.map(|name| self.error(place, name)));
    }

    fn count(&mut self, place: &str, request: &HttpCount) {
        self.text(&format!("{place}.url"), &request.url);
    }

    fn path(&mut self, path: &PathRequest) {
        self.known.extend(OF_PATHS);
        self.text("northbound.path.url", &path.url);
        self.text("northbound.path.entry", &path.entry);
        if path.per == PathRequestScope::Entries {
            self.known.push(ENTRIES);
        }
        self.text("northbound.path.body", &path.body);
    }

    fn error(&self, place: &str, name: &str) -> String {
        let known: Vec<_> = self.known.iter().map(|name| format!("{{{name}}}")).collect();
        format!("{place}: unknown placeholder {{{name}}} (known: {})", known.join(", "))
    }
}

/// What looks like a placeholder: a name in braces, without `$` before it, which would be a variable of the shell.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
    };
    text.match_indices('{').filter_map(move |(at, _)| {
        let (before, rest) = text.split_at_checked(at)?;
        let (name, _) = rest.strip_prefix('{')?.split_once('}')?;
        (is_name(name) && !before.ends_with('$')).then_some(name)
    })
}

/// Whether one letter was left out, added or replaced, or two neighbours exchanged.
fn is_near(name: &str, known: &str) -> bool {
    let (name, known) = (name.as_bytes(), known.as_bytes());
    let (longer, shorter) = if name.len() > known.len() { (name, known) } else { (known, name) };
    let start = longer.iter().zip(shorter).take_while(|(a, b)| a == b).count();
    let rest = |bytes: &[u8], from: usize| bytes.get(from..).unwrap_or_default().to_vec();
    if longer.len() == shorter.len() {
        let is_replaced = rest(longer, start + 1) == rest(shorter, start + 1);
        let is_exchanged = longer.get(start) == shorter.get(start + 1)
            && longer.get(start + 1) == shorter.get(start)
            && rest(longer, start + 2) == rest(shorter, start + 2);
        return is_replaced || is_exchanged;
    }
    longer.len() == shorter.len() + 1 && rest(longer, start + 1) == rest(shorter, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(changed: &str) -> ControllerRow {
        let text = format!(
            "title = \"x\"\nsource = \"x\"\napplication = \"x\"\nlanguage = \"x\"\nopenflow = [\"1.3\"]\n{changed}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn an_unknown_placeholder_is_named_with_its_place() {
        let error = |changed: &str| check(&row(changed)).unwrap_err();
        let found = error("[start]\nprogram = \"x\"\narguments = [\"--port\", \"{prot}\"]\n");
        assert_eq!(
            found,
            "start.arguments[1]: unknown placeholder {prot} (known: {port}, {api_port}, {threads}, {cores}, {directory}, \
             {home}, {sluice})"
        );
        let found = error("[start]\nprogram = \"x\"\nenvironment = { PORT = \"{Port}\" }\n");
        assert!(found.starts_with("start.environment.PORT: unknown placeholder {Port}"), "{found}");
        let found = error("[start]\nprogram = \"x\"\n[variants]\nfast = [\"{speed}\"]\n");
        assert!(found.starts_with("variants.fast[0]: unknown placeholder {speed}"), "{found}");
    }

    #[test]
    fn braces_with_another_meaning_are_accepted() {
        let text = "[start]\nprogram = \"x\"\nthen = \"echo ${HOME} {\\\"a\\\": 1}\"\n\
                    [start.files]\n\"a.java\" = \"new Class<?>[] {type} {} {port}\"\n";
        assert_eq!(check(&row(text)), Ok(()));
        let text = text.replace("{port}", "{prot}");
        let found = check(&row(&text)).unwrap_err();
        assert!(found.starts_with("start.files.\"a.java\": unknown placeholder {prot}"), "{found}");
    }

    #[test]
    fn requests_for_paths_have_more_placeholders() {
        let text = |per: &str, body: &str, entry: &str| {
            row(&format!(
                "[start]\nprogram = \"x\"\n[northbound]\nswitches = {{ url = \"http://h/{{api_port}}\" }}\n\
                 links = {{ url = \"x\" }}\n[northbound.path]\nper = \"{per}\"\nmethod = \"POST\"\nurl = \"{{dpid}}\"\n\
                 body = '{body}'\nentry = '{entry}'\n"
            ))
        };
        assert_eq!(check(&text("entries", "[{entries}]", "{src_mac}")), Ok(()));
        let found = check(&text("entry", "[{entries}]", "")).unwrap_err();
        assert!(
            found.starts_with("northbound.path.body: unknown placeholder {entries}"),
            "{found}"
        );
    }

    #[test]
    fn names_that_differ_in_one_letter_are_near() {
        for near in ["prot", "pot", "ports", "part", "porf"] {
            assert!(is_near(near, "port"), "{near}");
        }
        for far in ["type", "prto_", "p", "support"] {
            assert!(!is_near(far, "port"), "{far}");
        }
    }
}
