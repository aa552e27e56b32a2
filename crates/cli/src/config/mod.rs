//! The configuration: one table of keys, four places a value may come from, one plan.
//!
//! A flag beats the environment beats the file beats the default. Every key is a [`Row`] of [`rows`]; flags, names in
//! the environment, the example, the documentation and what `config show` prints are read off the rows.

mod args;
mod layers;
mod plan;
mod removed;
mod rows;
mod settings;
mod show;
mod values;

use std::fmt;
use std::path::Path;
use std::rc::Rc;

pub(crate) use args::Flags;
pub(crate) use layers::{Inputs, Loaded};
pub(crate) use plan::{Log, Plan};
pub(crate) use rows::{Effect, Row};
pub(crate) use show::{example, show};
pub(crate) use values::Format;

/// The file that is read if it is there and no other is named.
pub(crate) const FILE: &str = "/etc/sluice.toml";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// A file, and the line in it, counted from 1.
    File(Rc<Path>, usize),
    /// The environment, by this name.
    Env(String),
    /// The flag of this name.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// Something in the configuration that cannot be: where, and what is wrong, key included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where to look.
    pub(crate) at: Place,
    /// One sentence without full stop.
    pub(crate) what: String,
}

/// Where a problem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where a value comes from.
    Origin(Origin),
    /// A whole file.
    File(Rc<Path>),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Place::Origin(origin) => write!(f, "{origin}: {}", self.what),
            Place::File(path) => write!(f, "{}: {}", path.display(), self.what),
        }
    }
}

#[cfg(test)]
mod tests;
