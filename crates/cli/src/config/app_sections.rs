//! The sections `[app.NAME]`: the configurations of applications of other crates, whose keys only these know.

use std::collections::BTreeMap;

use sluice_sdk::AppConfig;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::errors::rewrite_serde_message;
use super::load::{TomlFile, possible_values};
use super::{ConfigError, Origin};
use crate::Registry;
use crate::registry::{AppSection, SectionError, SectionErrorKind};

/// The section of all these sections, and the prefix of their environment variables.
pub(super) const PARENT: &str = "app";
pub(super) const ENV_PREFIX: &str = "SLUICE_APP__";

/// The values that were given for one application.
#[derive(Debug, Default)]
struct GivenSection {
    table: Table,
    /// The origin of each key and of each item of a list, by their paths in the section, such as `rules.0.prefix`; that of the section
    /// itself by the empty path.
    origins: BTreeMap<String, Origin>,
}

/// Reads the sections of file and environment.
#[derive(Debug)]
pub(super) struct AppSections<'r> {
    registry: &'r Registry,
    given: BTreeMap<&'static str, GivenSection>,
    pub(super) errors: Vec<ConfigError>,
}

/// A valid configuration of an application of another crate.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSection {
    pub(crate) name: &'static str,
    pub(crate) config: AppConfig,
    /// Each key with its value and its origin.
    pub(crate) values: Vec<(String, Value, Origin)>,
}

impl<'r> AppSections<'r> {
    pub(super) fn new(registry: &'r Registry) -> Self {
        Self { registry, given: BTreeMap::new(), errors: Vec::new() }
    }

    fn error(&mut self, origin: Origin, error: String) {
        self.errors.push(ConfigError::Key(origin, error));
    }

    /// Reads the section `app` of a file.
    pub(super) fn merge_file(
        &mut self,
        file: &TomlFile<'_>,
        positions: &DeTable<'_>,
        values: &Table,
    ) {
        for (name, position) in positions {
            let (text, origin) = (name.get_ref().as_ref(), file.origin(name.span().start));
            let section = match self.find(text) {
                Ok(section) => section,
                Err(error) => {
                    self.error(origin, error);
                    continue;
                }
            };
            let (DeValue::Table(positions), Some(Value::Table(values))) =
                (position.get_ref(), values.get(text))
            else {
                let path = section.path();
                let error = format!("`{path}` is a section: write [{path}] and its keys below");
                self.error(origin, error);
                continue;
            };
            let given = self.given.entry(section.name).or_default();
            given.table.clone_from(values);
            given.origins.insert(String::new(), origin);
            add_table_origins(file, "", positions, &mut given.origins);
        }
    }

    /// Reads an environment variable whose name begins with [`ENV_PREFIX`]; `path` is the rest.
    pub(super) fn merge_env(&mut self, name: &str, path: &str, text: &str) {
        let origin = Origin::Env(name.to_owned());
        let path = path.to_lowercase();
        let (app, key) = path.split_once("__").unwrap_or((&path, ""));
        let section = match self.find(&app.replace('_', "-")) {
            Ok(section) => section,
            Err(error) => return self.error(origin, error),
        };
        let defaults = section.defaults();
        let default = defaults.get(key).unwrap_or(&Value::Boolean(false));
        let values = possible_values(default, text.trim());
        let alone = |value: &Value| Table::from_iter([(key.to_owned(), value.clone())]);
        let valid = values.iter().find(|value| section.parse(&alone(value)).is_ok());
        let Some(value) = valid.or_else(|| values.first()).cloned() else { return };
        let given = self.given.entry(section.name).or_default();
        given.table.insert(key.to_owned(), value);
        // Items of a list in the file are replaced with the list.
        let inner = format!("{key}.");
        given.origins.retain(|path, _| !path.starts_with(&inner));
        given.origins.insert(key.to_owned(), origin);
    }

    fn find(&self, name: &str) -> Result<AppSection, String> {
        let sections = self.registry.sections();
        if let Some(section) = sections.iter().find(|section| section.name == name) {
            return Ok(*section);
        }
        if self.registry.all().find(name).is_some() {
            return Err(format!("unknown section `{PARENT}.{name}`; did you mean `{name}`?"));
        }
        let known: Vec<_> = sections.iter().map(|section| section.name).collect();
        Err(match known.join(", ") {
            none if none.is_empty() => {
                format!(
                    "unknown section `{PARENT}.{name}`: this program has no applications of other crates"
                )
            }
            known => format!("unknown application \"{name}\" in `{PARENT}` (known: {known})"),
        })
    }

    /// The configurations of all applications of other crates.
    ///
    /// # Errors
    /// All that were found, one for each section at most.
    pub(super) fn finish(mut self) -> Result<Vec<LoadedSection>, Vec<ConfigError>> {
        let mut loaded = Vec::new();
        for section in self.registry.sections() {
            let given = self.given.remove(section.name).unwrap_or_default();
            match section.parse(&given.table) {
                Ok(config) => {
                    let values = section.to_table(&config).into_iter().map(|(key, value)| {
                        let origin = given.origins.get(&key).cloned().unwrap_or(Origin::Default);
                        (key, value, origin)
                    });
                    let values = values.collect();
                    loaded.push(LoadedSection { name: section.name, config, values });
                }
                Err(error) => {
                    let error = config_error(section, &given, &error);
                    self.errors.push(error);
                }
            }
        }
        if self.errors.is_empty() { Ok(loaded) } else { Err(self.errors) }
    }
}

/// An invalid section as an error of the configuration: with the place of the value that is wrong, or of what contains it.
fn config_error(section: &AppSection, given: &GivenSection, error: &SectionError) -> ConfigError {
    let lengths = (0..=error.path.len()).rev();
    let mut origins = lengths.filter_map(|n| error.path.get(..n)).map(|path| path.join("."));
    let origin = origins.find_map(|path| given.origins.get(&path).cloned());
    let path = format!("{}{}", section.path(), key_syntax(&error.path));
    let text = match &error.kind {
        SectionErrorKind::UnknownKey => {
            let defaults = section.defaults();
            let keys: Vec<_> = defaults.keys().map(String::as_str).collect();
            match (error.path.len(), keys.join(", ")) {
                (1, keys) if !keys.is_empty() => format!("unknown key `{path}` (known: {keys})"),
                _ => format!("unknown key `{path}`"),
            }
        }
        SectionErrorKind::Invalid(message) => {
            let none = Value::String(String::new());
            let value = value_at(&given.table, &error.path).unwrap_or(&none);
            format!("`{path}`: {}", rewrite_serde_message(message, value))
        }
    };
    ConfigError::Key(origin.unwrap_or(Origin::Default), text)
}

/// A path within a section as it is written in errors: `.rules[0].prefix`.
fn key_syntax(path: &[String]) -> String {
    let segment = |name: &String| match name.parse::<usize>() {
        Ok(index) => format!("[{index}]"),
        Err(_) => format!(".{name}"),
    };
    path.iter().map(segment).collect()
}

fn value_at<'t>(table: &'t Table, path: &[String]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(first)?, |value, name| match value {
        Value::Table(table) => table.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn add_table_origins(
    file: &TomlFile<'_>,
    prefix: &str,
    table: &DeTable<'_>,
    origins: &mut BTreeMap<String, Origin>,
) {
    for (name, value) in table {
        let path = format!("{prefix}{}", name.get_ref());
        origins.insert(path.clone(), file.origin(name.span().start));
        add_value_origins(file, &path, value.get_ref(), origins);
    }
}

fn add_value_origins(
    file: &TomlFile<'_>,
    path: &str,
    value: &DeValue<'_>,
    origins: &mut BTreeMap<String, Origin>,
) {
    match value {
        DeValue::Table(table) => add_table_origins(file, &format!("{path}."), table, origins),
        DeValue::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                let path = format!("{path}.{n}");
                origins.insert(path.clone(), file.origin(item.span().start));
                add_value_origins(file, &path, item.get_ref(), origins);
            }
        }
        _ => {}
    }
}
