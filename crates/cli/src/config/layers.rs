//! From the places where values stand to one value for each key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::args::Given;
use super::removed;
use super::rows::ROWS;
use super::settings::Settings;
use super::{FILE, Flags, Origin, Place, Plan, Problem, Row};

/// Bytes of a configuration file: far more than all keys with their comments, far less than a wrong file can have.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Everything that a configuration is read from; it can be read again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inputs {
    /// What was said on the command line.
    pub(crate) flags: Flags,
    /// Names and values of the environment.
    pub(crate) env: Vec<(String, String)>,
}

/// A whole configuration that was found to be in order.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    values: BTreeMap<&'static str, (Value, Origin)>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// What it comes to.
    pub(crate) plan: Plan,
}

impl Inputs {
    /// The flags and the environment of this process.
    pub(crate) fn new(flags: Flags) -> Self {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self { flags, env: env.collect() }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Every problem that was found.
    pub(crate) fn load(&self) -> Result<Loaded, Vec<Problem>> {
        let (file, text) = self.read_file()?;
        let mut layers = Layers::new();
        if let (Some(path), Some(text)) = (&file, text) {
            layers.file(&Rc::from(path.as_path()), &text);
        }
        layers.env(&self.env);
        for Given { row, flag, text } in &self.flags.given {
            layers.put(row, to_value(row, text), Origin::Flag(flag));
        }
        layers.finish(file)
    }

    fn read_file(&self) -> Result<(Option<PathBuf>, Option<String>), Vec<Problem>> {
        let path = self.flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE));
        match read_all(&path) {
            Ok(text) => Ok((Some(path), Some(text))),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.flags.config.is_none() => {
                Ok((None, None))
            }
            Err(e) => {
                let what = format!("cannot be read: {e}");
                Err(vec![Problem { at: Place::File(path.into()), what }])
            }
        }
    }
}

/// The text at `path`. A file is read as far as it may be long, whatever length the system says it has.
fn read_all(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(io::Error::other("it has more than 1 MiB, which is no configuration"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

impl Loaded {
    /// Every row with its value and where that comes from, in the order of the rows.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static Row, &Value, &Origin)> {
        ROWS.iter().filter_map(|row| {
            let (value, origin) = self.values.get(row.key)?;
            Some((row, value, origin))
        })
    }

    /// Whether nobody set `key`.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|(_, origin)| *origin == Origin::Default)
    }

    /// The rows whose value is another one in `new`.
    pub(crate) fn changed(&self, new: &Self) -> Vec<&'static Row> {
        let value = |of: &Self, row: &Row| of.values.get(row.key).map(|(value, _)| value.clone());
        ROWS.iter().filter(|row| value(self, row) != value(new, row)).collect()
    }
}

/// Values as they are laid over one another.
struct Layers {
    values: BTreeMap<&'static str, (Value, Origin)>,
    problems: Vec<Problem>,
}

impl Layers {
    fn new() -> Self {
        let defaults = ROWS.iter().map(|row| (row.key, (default(row), Origin::Default)));
        Self { values: defaults.collect(), problems: Vec::new() }
    }

    /// Takes `value` if the configuration is in order with it.
    fn put(&mut self, row: &'static Row, value: Value, origin: Origin) {
        let alone =
            ROWS.iter().map(|r| (r.key, if r.key == row.key { value.clone() } else { default(r) }));
        match Settings::deserialize(nested(alone)) {
            Ok(_) => {
                self.values.insert(row.key, (value, origin));
            }
            Err(e) => self.problem(origin, format!("`{}`: {}", row.key, plain(e.message()))),
        }
    }

    fn problem(&mut self, origin: Origin, what: String) {
        self.problems.push(Problem { at: Place::Origin(origin), what });
    }

    fn file(&mut self, path: &Rc<Path>, text: &str) {
        // Once for the places of keys and once for values.
        match (DeTable::parse(text), text.parse::<Table>()) {
            (Ok(places), Ok(values)) => {
                self.section(path, text, "", places.get_ref(), &values);
                self.problems.sort_by_key(|problem| match problem.at {
                    Place::Origin(Origin::File(_, line)) => line,
                    _ => 0,
                });
            }
            (Err(e), _) | (_, Err(e)) => {
                let line = line(text, e.span().map_or(0, |span| span.start));
                // The parser's words may take two lines.
                let what = e.message().lines().collect::<Vec<_>>().join(", ");
                self.problem(Origin::File(Rc::clone(path), line), what);
            }
        }
    }

    fn section(
        &mut self,
        path: &Rc<Path>,
        text: &str,
        prefix: &str,
        places: &DeTable<'_>,
        values: &Table,
    ) {
        for (name, place) in places {
            let origin = Origin::File(Rc::clone(path), line(text, name.span().start));
            let key = format!("{prefix}{}", name.get_ref());
            let Some(value) = values.get(name.get_ref().as_ref()) else { continue };
            if let Some(row) = Row::of(&key) {
                self.put(row, value.clone(), origin);
            } else if !is_section(&key) && !removed::is_section(&key) {
                self.problem(origin, unknown(&key));
            } else if let (DeValue::Table(places), Value::Table(values)) = (place.get_ref(), value)
            {
                self.section(path, text, &format!("{key}."), places, values);
            } else {
                self.problem(
                    origin,
                    format!("`{key}` is a section: write [{key}] and its keys below"),
                );
            }
        }
    }

    fn env(&mut self, env: &[(String, String)]) {
        for (name, text) in env {
            let origin = Origin::Env(name.clone());
            if let Some(row) = ROWS.iter().find(|row| row.env() == *name) {
                self.put(row, to_value(row, text), origin);
            } else if let Some(key) = name.strip_prefix("SLUICE_").filter(|key| key.contains("__"))
            {
                // Without the two underscores it may well be meant for something else.
                self.problem(origin, unknown(&key.replace("__", ".").to_lowercase()));
            }
        }
    }

    fn finish(mut self, file: Option<PathBuf>) -> Result<Loaded, Vec<Problem>> {
        let all = self.values.iter().map(|(&key, (value, _))| (key, value.clone()));
        match Settings::deserialize(nested(all)) {
            Ok(settings) if self.problems.is_empty() => {
                Ok(Loaded { values: self.values, file, plan: Plan::new(settings) })
            }
            Ok(_) => Err(self.problems),
            // Each value was in order by itself, so this is about the rows: a test holds them.
            Err(e) => {
                self.problem(Origin::Default, e.message().to_owned());
                Err(self.problems)
            }
        }
    }
}

/// What the row says, read.
pub(super) fn default(row: &Row) -> Value {
    // A test reads every one of them.
    read(row.default).unwrap_or(Value::Boolean(false))
}

fn read(text: &str) -> Option<Value> {
    text.parse().ok()
}

/// A value of the kind that the row has, as far as `text` can be read so; if not, it is refused later.
fn to_value(row: &Row, text: &str) -> Value {
    let text = text.trim();
    let string = || Value::String(text.to_owned());
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    match default(row) {
        Value::Array(_) => read(text).filter(Value::is_array).unwrap_or_else(|| {
            Value::Array(parts().map(|part| Value::String(part.to_owned())).collect())
        }),
        Value::Boolean(_) => match text {
            "true" | "on" | "yes" => Value::Boolean(true),
            "false" | "off" | "no" => Value::Boolean(false),
            _ => {
                let numbers = parts().map(|part| part.parse().map(Value::Integer));
                let numbers: Result<Vec<_>, _> = numbers.collect();
                numbers.ok().filter(|n| !n.is_empty()).map_or_else(
                    || read(text).filter(Value::is_array).unwrap_or_else(string),
                    Value::Array,
                )
            }
        },
        Value::Integer(_) | Value::Float(_) => {
            read(text).filter(|value| value.is_integer() || value.is_float()).unwrap_or_else(string)
        }
        _ => string(),
    }
}

/// Keys with dots as tables in tables.
fn nested<'k>(values: impl Iterator<Item = (&'k str, Value)>) -> Table {
    let mut root = Table::new();
    for (key, value) in values {
        let Some((section, name)) = key.rsplit_once('.') else {
            root.insert(key.to_owned(), value);
            continue;
        };
        let table = root.entry(section.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(table) = table {
            table.insert(name.to_owned(), value);
        }
    }
    root
}

fn is_section(key: &str) -> bool {
    ROWS.iter().any(|row| row.parts().0 == key)
}

/// Says what became of `key` if an earlier version had it, or which key may be meant: the nearest of its depth, or the same
/// in a section.
fn unknown(key: &str) -> String {
    if let Some(fate) = removed::fate(key) {
        return fate;
    }
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let same_last = ROWS.iter().find(|row| last(row.key) == last(key)).map(|row| row.key);
    let all = ROWS
        .iter()
        .flat_map(|row| [row.key, row.parts().0])
        .filter(|known| !known.is_empty() && known.contains('.') == key.contains('.'));
    let near = all.map(|known| (strsim::damerau_levenshtein(known, key), known)).min();
    let near = near.filter(|&(distance, _)| distance <= key.len() / 4).map(|(_, known)| known);
    match near.or(same_last) {
        Some(known) => format!("unknown key `{key}`; did you mean `{known}`?"),
        None => format!("unknown key `{key}`; `sluice config example` shows all keys"),
    }
}

/// The line of byte `at`, counted from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&b| b == b'\n').count()
}

/// Types of this language in words.
const WORDS: &[(&str, &str)] = &[
    ("expected a nonzero usize", "expected a whole number above 0"),
    ("expected a nonzero u32", "expected a whole number above 0"),
    ("expected a nonzero u16", "expected a whole number from 1 to 65535"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected f64", "expected a number"),
    ("expected a sequence", "expected a list"),
];

fn plain(message: &str) -> String {
    WORDS.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}
