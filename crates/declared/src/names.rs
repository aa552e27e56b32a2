//! Names of switches and hosts that an operator has given.

use std::collections::BTreeMap;
use std::fmt;

use sluice_openflow::{DatapathId, MacAddr};
use sluice_sdk::SwitchSession;

use crate::entry::{Selector, check_name};

/// Names that may be given, of switches and hosts together.
const NAMES_MAX: usize = 65_536;

/// Whose name it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameOf {
    /// A switch.
    Switch(DatapathId),
    /// A host, by its Ethernet address.
    Host(MacAddr),
}

impl fmt::Display for NameOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(id) => write!(f, "switch {id}"),
            Self::Host(mac) => write!(f, "host {mac}"),
        }
    }
}

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError(pub String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}

/// The names that were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(BTreeMap<NameOf, String>);

impl Names {
    /// The names in a list.
    ///
    /// # Errors
    /// A name is invalid, or two have the same name.
    pub fn new(names: impl IntoIterator<Item = (NameOf, String)>) -> Result<Self, NameError> {
        let mut all = Self::default();
        for (of, name) in names {
            check_name(&name).map_err(|error| NameError(format!("{of}: {error}")))?;
            if let Some(other) = all.0.insert(of, name.clone()) {
                return Err(NameError(format!("{of} has two names: {other:?} and {name:?}")));
            }
        }
        if all.0.len() > NAMES_MAX {
            return Err(NameError(format!("{} names (at most {NAMES_MAX})", all.0.len())));
        }
        let mut seen = BTreeMap::new();
        for (of, name) in &all.0 {
            if let Some(other) = seen.insert(name, of) {
                return Err(NameError(format!("{other} and {of} have the same name {name:?}")));
            }
        }
        Ok(all)
    }

    /// The name of a switch.
    pub fn switch(&self, id: DatapathId) -> Option<&str> {
        self.0.get(&NameOf::Switch(id)).map(String::as_str)
    }

    /// The name of a host.
    pub fn host(&self, mac: MacAddr) -> Option<&str> {
        self.0.get(&NameOf::Host(mac)).map(String::as_str)
    }

    /// The host with a name.
    pub fn host_named(&self, name: &str) -> Option<MacAddr> {
        self.iter().find_map(|(of, known)| match of {
            NameOf::Host(mac) if known == name => Some(mac),
            _ => None,
        })
    }

    /// All names.
    pub fn iter(&self) -> impl Iterator<Item = (NameOf, &str)> {
        self.0.iter().map(|(of, name)| (*of, name.as_str()))
    }
}

/// By what a switch can be selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwitchNames {
    pub(crate) id: DatapathId,
    /// Its own name.
    pub(crate) own: Option<String>,
    /// The name that an operator has given it.
    pub(crate) given: Option<String>,
}

impl SwitchNames {
    pub(crate) fn new(session: &SwitchSession, names: &Names) -> Self {
        let id = session.datapath_id;
        Self { id, own: session.name(), given: names.switch(id).map(str::to_owned) }
    }

    pub(crate) fn are_selected_by(&self, selector: &Selector) -> bool {
        match selector {
            Selector::All => true,
            Selector::Switches(list) => list.iter().any(|name| self.is(name)),
        }
    }

    /// Whether `text` is one of the names, or the datapath id.
    pub(crate) fn is(&self, text: &str) -> bool {
        let has = |name: &Option<String>| name.as_deref() == Some(text);
        has(&self.given) || has(&self.own) || text.parse() == Ok(self.id)
    }
}
