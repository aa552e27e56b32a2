//! The configuration: its keys, the sources of their values, and the configurations of engine, applications and log.
//!
//! [`settings`] has one struct per section: name, type, default and documentation of each key. Everything else is derived
//! from it: flags, names of environment variables, the example file, the tables of `docs/config.md` and `config show`.
//! A flag overrides the environment, the environment overrides the file, and the file overrides the default.

mod address;
mod api;
mod app_sections;
mod errors;
mod flags;
mod keys;
mod load;
mod paths;
mod removed;
mod run_config;
mod settings;
mod text;
mod tls;
mod values;

use std::fmt;
use std::path::Path;
use std::rc::Rc;

pub(crate) use flags::Flags;
pub(crate) use keys::ConfigKey;
pub(crate) use load::{ConfigSources, LoadedConfig, configured_priorities};
pub(crate) use run_config::{LogConfig, RunConfig};
pub(crate) use text::{example, example_of_apps, show};
pub(crate) use values::LogFormat;

/// The file that is read if it exists and `--config` names no other.
pub(crate) const DEFAULT_FILE: &str = "/etc/sluice.toml";

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File {
        path: Rc<Path>,
        at: Position,
    },
    /// The environment variable of this name.
    Env(String),
    /// The flag of this name.
    Flag(&'static str),
}

/// A position in a file; line and column are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    line: usize,
    column: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File { path, at } => write!(f, "{}:{}:{}", path.display(), at.line, at.column),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// An error in the configuration: where it is and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// A key or its value.
    Key(Origin, String),
    /// A file that cannot be read.
    File(Rc<Path>, String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(origin, error) => write!(f, "{origin}: {error}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

#[cfg(test)]
mod app_section_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
