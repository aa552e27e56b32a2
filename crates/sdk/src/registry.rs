//! The applications that a program has, and chains of them that are chosen by name.

use std::fmt;

use crate::allocation::{AllocationError, Allocations, built_in};
use crate::app::App;
use crate::application::{AppConfig, Application};

/// An application of the registry.
#[derive(Clone)]
pub struct Registration {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Applications that must be before it in a chain.
    pub requires: &'static [&'static str],
    make: fn(Option<&AppConfig>) -> Box<dyn ChainedApp>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.name).finish()
    }
}

/// An [`Application`] of any type.
pub(crate) trait ChainedApp: App + Send {
    /// Applies a new configuration; `None` is the default.
    fn configure_any(&mut self, config: Option<&AppConfig>);
}

impl<A: Application> ChainedApp for A {
    fn configure_any(&mut self, config: Option<&AppConfig>) {
        self.configure(&config_of::<A>(config));
    }
}

fn config_of<A: Application>(config: Option<&AppConfig>) -> A::Config {
    config.and_then(AppConfig::get::<A::Config>).cloned().unwrap_or_default()
}

impl Registration {
    fn of<A: Application>() -> Self {
        Self {
            name: A::NAME,
            description: A::DESCRIPTION,
            requires: A::REQUIRES,
            make: |config| Box::new(A::new(&config_of::<A>(config))),
        }
    }

    pub(crate) fn make(&self, config: Option<&AppConfig>) -> Box<dyn ChainedApp> {
        (self.make)(config)
    }
}

/// The applications that can be in a chain, and what all owners use in switches.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    applications: Vec<Registration>,
    allocations: Allocations,
}

impl Registry {
    /// Adds an application.
    ///
    /// # Errors
    /// Its name is invalid or taken, or something that it uses in switches is allocated to another owner.
    pub fn register<A: Application>(&mut self) -> Result<(), RegistryError> {
        let name = A::NAME;
        let mut bytes = name.bytes();
        let is_valid = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_valid {
            return Err(RegistryError::InvalidName(name));
        }
        if self.find(name).is_some() {
            return Err(RegistryError::NameTaken(name));
        }
        // Those that come with Sluice have their allocations in the central list.
        match built_in(name) {
            None => self.allocations.add(name, A::ALLOCATION)?,
            Some(allocation) if *allocation == A::ALLOCATION => {}
            Some(_) => return Err(RegistryError::NameTaken(name)),
        }
        self.applications.push(Registration::of::<A>());
        Ok(())
    }

    /// All applications, in the order in which they were registered.
    pub fn applications(&self) -> &[Registration] {
        &self.applications
    }

    /// What all owners use in switches.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// The application of this name.
    pub fn find(&self, name: &str) -> Option<&Registration> {
        self.applications.iter().find(|app| app.name == name)
    }

    /// Checks that `names` are applications, each at most once, in an order in which each has those before it that it
    /// requires.
    ///
    /// # Errors
    /// The first unknown name; or else the first that is repeated; or else the first application that lacks a required one.
    pub fn check(&self, names: &[String]) -> Result<(), ChainError> {
        if let Some(name) = names.iter().find(|name| self.find(name).is_none()) {
            let known = self.applications.iter().map(|app| app.name).collect();
            return Err(ChainError::Unknown(name.clone(), known));
        }
        let mut before: Vec<&str> = Vec::new();
        for name in names {
            if before.contains(&name.as_str()) {
                return Err(ChainError::Repeated(name.clone()));
            }
            before.push(name);
        }
        for (n, name) in names.iter().enumerate() {
            let Some(app) = self.find(name) else { continue };
            let has = |need: &&str| names.iter().take(n).any(|other| other == need);
            if !app.requires.iter().all(has) {
                return Err(ChainError::Missing(app.name, app.requires));
            }
        }
        Ok(())
    }
}

/// An application that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryError {
    /// Its name is not made of small letters, digits and hyphens.
    InvalidName(&'static str),
    /// Another application has its name.
    NameTaken(&'static str),
    /// Something that it uses in switches is not available.
    Allocation(AllocationError),
}

impl From<AllocationError> for RegistryError {
    fn from(error: AllocationError) -> Self {
        Self::Allocation(error)
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName(name) => write!(
                f,
                "invalid name \"{name}\" of an application (expected small letters, digits and hyphens, as in \
                 port-security)"
            ),
            Self::NameTaken(name) => write!(f, "there is another application \"{name}\""),
            Self::Allocation(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RegistryError {}

/// Applications that are not a valid chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// There is no application of this name; those that there are.
    Unknown(String, Vec<&'static str>),
    /// An application is in the chain twice.
    Repeated(String),
    /// The first application uses facts that the others publish, and not all of these are before it.
    Missing(&'static str, &'static [&'static str]),
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name, known) => {
                write!(f, "unknown application \"{name}\" (known: {})", known.join(", "))
            }
            Self::Repeated(name) => write!(f, "application \"{name}\" is given twice"),
            Self::Missing(name, required) => {
                let (all, chain) = (required.join(" and "), required.join(","));
                write!(f, "{name} requires {all} before it, as in {chain},{name}")
            }
        }
    }
}

impl std::error::Error for ChainError {}
