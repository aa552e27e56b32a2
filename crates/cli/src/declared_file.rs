//! Files with all that is declared, in TOML, YAML or JSON, as the JSON of the API.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use clap::ValueEnum;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sluice_declared::ENTRIES_MAX;

/// The largest file: the API takes no larger requests.
const BYTES_MAX: u64 = 16 << 20;

/// Values and keys of a document in YAML: an entry has 7, and a list of switches more.
const YAML_NODES_MAX: usize = 16 * ENTRIES_MAX;

/// Aliases of a document in YAML.
const YAML_ALIASES_MAX: usize = 10_000;

/// Values and keys that aliases stand for, and that anchors remember.
const YAML_EXPANSION_MAX: usize = 100_000;

/// How the API begins to say what is wrong with the form of a document.
const BODY_ERROR: &str = "Failed to deserialize the JSON body into the target type: ";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Toml,
    Yaml,
    Json,
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|it| it.to_str()) {
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            _ => Self::Toml,
        }
    }
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct DeclaredFile {
    name: String,
    text: String,
    /// What it declares.
    pub(crate) document: Value,
}

impl DeclaredFile {
    /// Reads a file; `-` is standard input, whose format has to be given.
    pub(crate) fn read(path: &Path, format: Option<Format>) -> Result<Self, String> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let failed = |error: &dyn fmt::Display| format!("{name}: {error}");
        let format = match format {
            Some(format) => format,
            None if is_stdin => {
                return Err("standard input needs --format toml, yaml or json".to_owned());
            }
            None => Format::of(path),
        };
        let text = if is_stdin {
            read_text(io::stdin().lock())
        } else {
            File::open(path).and_then(read_text)
        };
        let text = text.map_err(|error| failed(&error))?;
        let document = parse(&text, format).map_err(|error| failed(&error))?;
        Ok(Self { name, text, document })
    }

    /// An error of the API, with the line of the entry that it names.
    pub(crate) fn locate(&self, error: String) -> String {
        if let Some((_, found)) = error.split_once(BODY_ERROR) {
            // Line and column of the request say nothing about the file.
            let found = found.split_once(" at line ").map_or(found, |(what, _)| what);
            let key = found.split('`').nth(1).unwrap_or_default();
            return match self.line_with(key) {
                Some(line) => format!("{}:{line}: {found}", self.name),
                None => format!("{}: {found}", self.name),
            };
        }
        let line = error.split_once(" \"").and_then(|(_, rest)| {
            let (entry, _) = rest.split_once('"')?;
            self.line_of(entry)
        });
        match line {
            Some(line) => format!("{}:{line}: {error}", self.name),
            None => error,
        }
    }

    /// The first line with a key.
    fn line_with(&self, key: &str) -> Option<usize> {
        let is_key = |line: &str| {
            line.split(|c: char| !is_in_name(c)).any(|word| word == key) && !key.is_empty()
        };
        self.text.lines().position(is_key).map(|line| line + 1)
    }

    /// The line in which an entry gets its name.
    fn line_of(&self, entry: &str) -> Option<usize> {
        let names = |line: &str| {
            line.match_indices("name").any(|(at, word)| {
                let rest = line.get(at + word.len()..).unwrap_or_default();
                let rest = rest.trim_start_matches(['"', '\'', ' ', '=', ':', '\t']);
                let rest = rest.strip_prefix(entry);
                rest.is_some_and(|rest| !rest.starts_with(|c: char| is_in_name(c)))
            })
        };
        self.text.lines().position(names).map(|line| line + 1)
    }
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

fn read_text(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("larger than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(text)
}

fn parse(text: &str, format: Format) -> Result<Value, String> {
    let document = match format {
        Format::Toml => toml::from_str(text).map_err(|error| error.to_string()),
        Format::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
        Format::Yaml => serde_saphyr::from_str_with_options(text, yaml_options())
            .map_err(|error| error.to_string()),
    };
    match document? {
        Unique(Value::Null) => Ok(Value::Object(Map::new())),
        Unique(document) => Ok(document),
    }
}

fn yaml_options() -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    let mut budget = serde_saphyr::Budget::default();
    (budget.max_nodes, budget.max_events) = (YAML_NODES_MAX, 2 * YAML_NODES_MAX);
    (budget.max_aliases, budget.max_documents) = (YAML_ALIASES_MAX, 1);
    budget.max_recorded_anchor_events = YAML_EXPANSION_MAX;
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = YAML_EXPANSION_MAX;
    // A datapath id is a text, and so is the name `on`.
    (options.leading_zero_numbers_as_strings, options.strict_booleans) = (true, true);
    options
}

/// A value whose objects have no key twice: `serde_json` keeps the last one of them.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, a list, a text, a number or a boolean")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(Unique(value)) = from.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            let Unique(value) = from.next_value()?;
            if object.contains_key(&key) {
                return Err(de::Error::custom(format!("{key:?} is there twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOML: &str = "[names.switches]\n0000000000000001 = \"on\"\n\n[[flows]]\nname = \"block\"\nswitches = [\"on\", \"s2\"]\nflow = \"priority=200,ip,actions=drop\"\n";
    const YAML: &str = "names:\n  switches:\n    0000000000000001: on\nflows:\n- name: block\n  switches: [on, s2]\n  flow: priority=200,ip,actions=drop\n";

    #[test]
    fn all_formats_say_the_same() {
        let expected = json!({
            "names": {"switches": {"0000000000000001": "on"}},
            "flows": [
                {"name": "block", "switches": ["on", "s2"], "flow": "priority=200,ip,actions=drop"},
            ],
        });
        assert_eq!(parse(TOML, Format::Toml), Ok(expected.clone()));
        assert_eq!(parse(YAML, Format::Yaml), Ok(expected.clone()));
        assert_eq!(parse(&expected.to_string(), Format::Json), Ok(expected));
        for format in [Format::Toml, Format::Yaml] {
            assert_eq!(parse("", format), Ok(json!({})));
        }
    }

    #[test]
    fn errors_have_a_line_and_a_column() {
        for (format, text) in [
            (Format::Toml, "a = 1\nb = = 2\n"),
            (Format::Yaml, "a: 1\nb: [2\nc: 3\n"),
            (Format::Json, "{\"a\": 1,\n \"b\" 2}"),
        ] {
            let error = parse(text, format).unwrap_err();
            assert!(error.contains("line") && error.contains("column"), "{format:?}: {error}");
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error() {
        for (format, text) in [
            (Format::Toml, "a = 1\na = 2\n"),
            (Format::Yaml, "a: 1\na: 2\n"),
            (Format::Json, "{\"a\": 1, \"a\": 2}"),
        ] {
            assert!(parse(text, format).is_err(), "{format:?}");
        }
    }

    #[test]
    fn aliases_are_values_and_expand_to_a_limited_size() {
        let text = "a: &drop {actions: drop}\nb: *drop\n";
        assert_eq!(parse(text, Format::Yaml).unwrap()["b"], json!({"actions": "drop"}));
        let line = |n| {
            let list = if n == 0 { "x".to_owned() } else { format!("*a{}", n - 1) };
            format!("a{n}: &a{n} [{}]\n", vec![list; 10].join(", "))
        };
        let bomb: String = (0..9).map(line).collect();
        assert!(parse(&bomb, Format::Yaml).is_err());
        assert!(parse(&"[".repeat(100_000), Format::Yaml).is_err());
        assert!(parse(&"[".repeat(100_000), Format::Json).is_err());
        assert!(parse("a: 1\n---\na: 2\n", Format::Yaml).is_err());
    }

    #[test]
    fn a_key_that_the_api_does_not_know_gets_its_line() {
        let text = "flows:\n- name: a\n  swich: all\n";
        let file = DeclaredFile {
            name: "network".to_owned(),
            text: text.to_owned(),
            document: Value::Null,
        };
        let what = "flows[0].swich: unknown field `swich`, expected one of `name`, `switch`";
        let error = format!("{BODY_ERROR}{what} at line 1 column 40");
        assert_eq!(file.locate(error), format!("network:3: {what}"));
        let other = format!("{BODY_ERROR}invalid type");
        assert_eq!(file.locate(other), "network: invalid type");
    }

    #[test]
    fn an_error_of_the_api_gets_the_line_of_its_entry() {
        for (text, line) in [(TOML, 5), (YAML, 5)] {
            let file = DeclaredFile {
                name: "network".to_owned(),
                text: text.to_owned(),
                document: Value::Null,
            };
            let error = "flow \"block\": column 3: unknown field".to_owned();
            assert_eq!(file.locate(error.clone()), format!("network:{line}: {error}"));
            let other = "flow \"bloc\": unknown field".to_owned();
            assert_eq!(file.locate(other.clone()), other);
        }
    }
}
