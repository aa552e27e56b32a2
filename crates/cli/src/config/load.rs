//! Reads flags, environment and file, and merges them to one value for each key.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use confique::{Config as _, Layer as _};
use serde::Deserialize as _;
use sluice_base::sort_by_key;
use sluice_engine::WorkerEngine;
use sluice_io::input_file::{self, FileKinds};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::app_sections::{AppSections, ENV_PREFIX, LoadedSection, PARENT};
use super::errors::{rewrite_serde_message, unknown_key};
use super::flags::GivenFlag;
use super::keys::{ConfigKey, KEYS};
use super::settings::Settings;
use super::{
    ConfigError, DEFAULT_FILE, Flags, Origin, Position, RunConfig, api, paths, removed, tls,
};
use crate::Registry;

/// Largest configuration file: far more than all keys with comments need. A larger file is probably the wrong one.
const FILE_BYTES_MAX: usize = 1 << 20;

/// How long reading the file may take. Only a pipe or a device takes as long.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The sources of a configuration: file, environment and flags. They can be loaded again.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigSources {
    pub(crate) flags: Flags,
    /// Names and values of the environment variables.
    pub(crate) env: Vec<(String, String)>,
    /// The applications that can be configured.
    pub(crate) registry: Registry,
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub(crate) struct LoadedConfig {
    values: ValuesByPath,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// The same values as the configurations of engine, applications and log.
    pub(crate) config: RunConfig,
    /// The configurations of applications of other crates.
    pub(crate) sections: Vec<LoadedSection>,
}

/// Value and origin of the keys that are set, by path.
type ValuesByPath = BTreeMap<&'static str, (Value, Origin)>;

impl ConfigSources {
    /// The given flags and the environment of this process.
    pub(crate) fn new(flags: Flags, registry: Registry) -> Self {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self { flags, env: env.collect(), registry }
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// All errors that were found.
    pub(crate) fn load(&self) -> Result<LoadedConfig, Vec<ConfigError>> {
        let (file, text) = self.read_file()?;
        self.merge(file, &text)
    }

    /// Reads and checks the configuration that replaces `previous`.
    ///
    /// # Errors
    /// All errors that were found. The file that was read for `previous` must still exist, or its keys would silently
    /// return to their defaults. It must be a regular file: a pipe is empty by now, and a terminal blocks this thread.
    pub(crate) fn load_again(
        &self,
        previous: &LoadedConfig,
    ) -> Result<LoadedConfig, Vec<ConfigError>> {
        let path = previous.file.as_deref().unwrap_or_else(|| Path::new(DEFAULT_FILE));
        match read_text(path, FileKinds::Regular) {
            Ok(text) => self.merge(Some(path.into()), &text),
            Err(e) if e.kind() == io::ErrorKind::NotFound && previous.file.is_none() => {
                self.merge(None, "")
            }
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
                let error = format!("{e}, so it cannot be read again");
                Err(vec![ConfigError::File(path.into(), error)])
            }
            Err(e) => Err(vec![ConfigError::File(path.into(), format!("cannot be read: {e}"))]),
        }
    }

    fn merge(&self, file: Option<PathBuf>, text: &str) -> Result<LoadedConfig, Vec<ConfigError>> {
        let mut merger = ConfigMerger::new(&self.registry);
        if let Some(path) = &file {
            merger.merge_file(&Rc::from(path.as_path()), text);
        }
        merger.merge_env(&self.env);
        for GivenFlag { key, name, text } in &self.flags.given {
            merger.set_text(key, text, Origin::Flag(name));
        }
        merger.finish(file)
    }

    /// The file to read and its text. The default file may be missing.
    fn read_file(&self) -> Result<(Option<PathBuf>, String), Vec<ConfigError>> {
        let path = self.flags.config.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FILE));
        match read_text(&path, FileKinds::Any) {
            Ok(text) => Ok((Some(path), text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.flags.config.is_none() => {
                Ok((None, String::new()))
            }
            Err(e) => Err(vec![ConfigError::File(path.into(), format!("cannot be read: {e}"))]),
        }
    }
}

/// The text of the file at `path`, which may be a pipe or a device without length or end.
fn read_text(path: &Path, kinds: FileKinds) -> io::Result<String> {
    let bytes = input_file::read(path, kinds, FILE_BYTES_MAX + 1, READ_TIMEOUT)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not valid UTF-8"))
}

impl LoadedConfig {
    /// Every key with its value and origin, in the order of the keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static ConfigKey, &Value, &Origin)> {
        KEYS.iter().map(|key| match self.values.get(key.path.as_str()) {
            Some((value, origin)) => (key, value, origin),
            None => (key, &key.default, &Origin::Default),
        })
    }

    /// Whether neither flag, environment nor file sets the key at `path`.
    pub(crate) fn is_default(&self, path: &str) -> bool {
        !self.values.contains_key(path)
    }

    /// The sections of applications of other crates that differ in `new`.
    pub(crate) fn changed_sections(&self, new: &Self) -> Vec<String> {
        let both = self.sections.iter().zip(&new.sections);
        both.filter(|(old, new)| old.config != new.config)
            .map(|(old, _)| format!("app.{}", old.name))
            .collect()
    }

    /// The keys whose value differs in `new`.
    pub(crate) fn changed_keys(&self, new: &Self) -> Vec<&'static ConfigKey> {
        let both = self.values().zip(new.values());
        both.filter(|((_, old, _), (_, new, _))| old != new).map(|((key, ..), _)| key).collect()
    }
}

/// The settings of one source or of several merged ones.
type Layer = <Settings as confique::Config>::Layer;

/// Merges sources; a later one overrides an earlier one.
struct ConfigMerger<'r> {
    registry: &'r Registry,
    apps: AppSections<'r>,
    layer: Layer,
    values: ValuesByPath,
    errors: Vec<ConfigError>,
}

impl<'r> ConfigMerger<'r> {
    fn new(registry: &'r Registry) -> Self {
        let (layer, apps) = (Layer::empty(), AppSections::new(registry));
        Self { registry, apps, layer, values: ValuesByPath::new(), errors: Vec::new() }
    }

    /// Sets `key` to the first of `values` that is valid; if none is, the first one is reported.
    fn set(
        &mut self,
        key: &'static ConfigKey,
        values: impl IntoIterator<Item = Value>,
        origin: Origin,
    ) {
        let mut error = None;
        for value in values {
            match Layer::deserialize(as_document(key, value.clone())) {
                Ok(layer) => {
                    if let Err(e) = self.check_apps(key, &value) {
                        error = error.or(Some(e));
                        continue;
                    }
                    let below = mem::replace(&mut self.layer, Layer::empty());
                    self.layer = layer.with_fallback(below);
                    self.values.insert(&key.path, (value, origin));
                    return;
                }
                Err(e) => {
                    error = error.or_else(|| Some(rewrite_serde_message(e.message(), &value)));
                }
            }
        }
        let error = error.unwrap_or_default();
        self.error(origin, format!("`{}`: {error}", key.path));
    }

    /// Checks the names of applications, if `key` is their list.
    fn check_apps(&self, key: &ConfigKey, value: &Value) -> Result<(), String> {
        let Value::Array(items) = value else { return Ok(()) };
        if key.path != "apps" {
            return Ok(());
        }
        let names: Vec<_> = items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        self.registry.all().check(&names).map_err(|error| error.to_string())
    }

    /// Sets `key` to the value that the text of a flag or an environment variable stands for.
    fn set_text(&mut self, key: &'static ConfigKey, text: &str, origin: Origin) {
        self.set(key, possible_values(&key.default, text.trim()), origin);
    }

    fn error(&mut self, origin: Origin, error: String) {
        self.errors.push(ConfigError::Key(origin, error));
    }

    fn merge_file(&mut self, path: &Rc<Path>, text: &str) {
        // Parsed twice: for the positions of keys, and for the values.
        match (DeTable::parse(text), text.parse::<Table>()) {
            (Ok(positions), Ok(values)) => {
                let file = TomlFile { path, text };
                self.merge_table(&file, "", positions.get_ref(), &values);
                self.errors.append(&mut self.apps.errors);
                sort_by_key(&mut self.errors, |error| match error {
                    ConfigError::Key(Origin::File { at, .. }, _) => Some(*at),
                    _ => None,
                });
            }
            (Err(e), _) | (_, Err(e)) => {
                let file = TomlFile { path, text };
                let origin = file.origin(e.span().map_or(0, |span| span.start));
                // The parser's message may have several lines.
                self.error(origin, e.message().lines().collect::<Vec<_>>().join(", "));
            }
        }
    }

    /// Sets the keys of a table; `prefix` is its section with a dot.
    fn merge_table(
        &mut self,
        file: &TomlFile<'_>,
        prefix: &str,
        positions: &DeTable<'_>,
        values: &Table,
    ) {
        for (name, position) in positions {
            let origin = file.origin(name.span().start);
            let path = format!("{prefix}{}", name.get_ref());
            let Some(value) = values.get(name.get_ref().as_ref()) else { continue };
            if let Some(key) = ConfigKey::find(&path) {
                self.set(key, [paths::resolve(key, value, file.folder())], origin);
                continue;
            }
            if path == PARENT
                && let (DeValue::Table(positions), Value::Table(values)) =
                    (position.get_ref(), value)
            {
                self.apps.merge_file(file, positions, values);
                continue;
            }
            let is_section = KEYS.iter().any(|key| key.section == path);
            match (position.get_ref(), value) {
                _ if !is_section && !removed::is_section(&path) => {
                    self.error(origin, unknown_key(&path));
                }
                (DeValue::Table(positions), Value::Table(values)) => {
                    self.merge_table(file, &format!("{path}."), positions, values);
                }
                _ => {
                    let error = format!("`{path}` is a section: write [{path}] and its keys below");
                    self.error(origin, error);
                }
            }
        }
    }

    fn merge_env(&mut self, env: &[(String, String)]) {
        for (name, text) in env {
            let origin = Origin::Env(name.clone());
            if let Some(key) = KEYS.iter().find(|key| key.env() == *name) {
                self.set_text(key, text, origin);
            } else if let Some(path) = name.strip_prefix(ENV_PREFIX) {
                self.apps.merge_env(name, path, text);
            } else if let Some(path) =
                name.strip_prefix("SLUICE_").filter(|path| path.contains("__"))
            {
                // Without two underscores the variable may belong to another program.
                self.error(origin, unknown_key(&path.replace("__", ".").to_lowercase()));
            }
        }
    }

    fn finish(mut self, file: Option<PathBuf>) -> Result<LoadedConfig, Vec<ConfigError>> {
        let sections = self.apps.finish().unwrap_or_else(|mut errors| {
            self.errors.append(&mut errors);
            Vec::new()
        });
        match Settings::from_layer(self.layer.with_fallback(Layer::default_values())) {
            Ok(settings) if self.errors.is_empty() => match with_files(settings) {
                Ok(config) => {
                    check_priorities(self.registry, &config, &self.values)?;
                    Ok(LoadedConfig { values: self.values, file, config, sections })
                }
                Err((path, error)) => {
                    let origin = self.values.get(path).map(|(_, origin)| origin.clone());
                    let error = format!("`{path}`: {error}");
                    Err(vec![ConfigError::Key(origin.unwrap_or(Origin::Default), error)])
                }
            },
            Ok(_) => Err(self.errors),
            // A key without a default: a test ensures that there is none.
            Err(e) => {
                self.errors.push(ConfigError::Key(Origin::Default, e.to_string()));
                Err(self.errors)
            }
        }
    }
}

/// The configuration, with the files that the settings name.
fn with_files(settings: Settings) -> Result<RunConfig, (&'static str, String)> {
    check_optimisations(&settings)?;
    let (tls, api) = (tls::listeners(&settings)?, api::config(&settings.api)?);
    Ok(RunConfig::new(settings, tls, api))
}

/// Checks that no optimisation is switched off that is a part of the engine.
fn check_optimisations(settings: &Settings) -> Result<(), (&'static str, String)> {
    let on = &settings.optimisations;
    let run_to_completion = ("optimisations.run_to_completion", on.run_to_completion);
    let (engine, parts): (_, &[_]) = match settings.workers.engine.0 {
        WorkerEngine::Epoll => return Ok(()),
        WorkerEngine::Uring => {
            let output = ("optimisations.output_batching", on.output_batching);
            ("uring", &[output, ("optimisations.adaptive_reads", on.adaptive_reads)])
        }
        WorkerEngine::Kernel => ("kernel", &[run_to_completion]),
        WorkerEngine::Auto => ("auto", &[run_to_completion]),
    };
    let off = parts.iter().find(|(_, is_on)| !is_on);
    off.map_or(Ok(()), |(key, _)| {
        Err((*key, format!("cannot be off with `workers.engine` = \"{engine}\"")))
    })
}

/// The priorities of flow entries that applications in the chain are configured to use, and the key that configures them.
pub(crate) fn configured_priorities(
    config: &RunConfig,
) -> impl Iterator<Item = (&'static str, &'static str, RangeInclusive<u16>)> {
    let (forwarding, learning) = (config.apps.forwarding.priority, config.apps.learning.priority);
    let configured = [
        // A simpler match has a priority that is higher by one or two.
        ("forwarding", "forwarding.priority", forwarding..=forwarding.saturating_add(2)),
        ("learning", "learning.priority", learning..=learning),
    ];
    configured.into_iter().filter(|(owner, ..)| config.app_names.iter().any(|name| name == owner))
}

/// Checks that the configured priorities of flow entries are not those of an application of another crate in the chain.
fn check_priorities(
    registry: &Registry,
    config: &RunConfig,
    values: &ValuesByPath,
) -> Result<(), Vec<ConfigError>> {
    let is_external = |name: &str| registry.sections().iter().any(|section| section.name == name);
    let runs = |name: &str| config.app_names.iter().any(|other| other == name);
    let mut errors = Vec::new();
    for (owner, key, priorities) in configured_priorities(config) {
        let is_considered = |name: &str| is_external(name) && runs(name);
        let allocations = registry.all().allocations();
        if let Err(error) = allocations.check_configured(owner, &priorities, is_considered) {
            let origin = values.get(key).map_or(Origin::Default, |(_, origin)| origin.clone());
            errors.push(ConfigError::Key(origin, format!("`{key}`: {error}")));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A document that sets `key` only.
fn as_document(key: &ConfigKey, value: Value) -> Table {
    let table = Table::from_iter([(key.name.to_owned(), value)]);
    if key.section.is_empty() {
        table
    } else {
        Table::from_iter([(key.section.to_owned(), Value::Table(table))])
    }
}

/// The values that `text` may stand for, the most likely first: a word, a TOML value, `on` or `off`, or a list separated
/// by commas.
pub(super) fn possible_values(default: &Value, text: &str) -> Vec<Value> {
    let word = || Value::String(text.to_owned());
    let parse = |text: &str| text.parse::<Value>().ok();
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let switch = match text {
        "on" | "yes" => Some(Value::Boolean(true)),
        "off" | "no" => Some(Value::Boolean(false)),
        _ => None,
    };
    match default {
        Value::Array(_) => {
            let words = Value::Array(parts().map(|part| Value::String(part.to_owned())).collect());
            parse(text).filter(Value::is_array).into_iter().chain([words]).collect()
        }
        Value::String(_) => [word()].into_iter().chain(parse(text)).collect(),
        _ => {
            let list = parts().map(parse).collect::<Option<Vec<_>>>().map(Value::Array);
            let values = switch.into_iter().chain(parse(text)).chain([word()]);
            values.chain(list).collect()
        }
    }
}

/// The path and text of a file, to find positions.
#[derive(Debug)]
pub(super) struct TomlFile<'a> {
    path: &'a Rc<Path>,
    text: &'a str,
}

impl TomlFile<'_> {
    /// The folder at which relative paths in the file start: the current one for a pipe, which is in none.
    fn folder(&self) -> &Path {
        let folder = self.path.parent().filter(|_| self.path.is_file());
        folder.unwrap_or_else(|| Path::new(""))
    }

    /// The position of byte `at`.
    pub(super) fn origin(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        Origin::File { path: Rc::clone(self.path), at: Position { line, column } }
    }
}
