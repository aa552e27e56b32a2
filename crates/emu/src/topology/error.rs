//! Why something is no network.

use std::fmt;

/// Why a text or a file is no network: where, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyError {
    /// Where it is.
    pub at: Where,
    /// What is wrong.
    pub fault: Fault,
}

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// In the whole of it.
    Whole,
    /// In a line of the file, from 1.
    Line(u32),
    /// In an entry of a list of the file: the list and which one, from 1.
    Entry(&'static str, usize),
    /// In the argument of this name.
    Argument(&'static str),
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no shape of this name.
    UnknownShape(String),
    /// There is no such argument, or one too many.
    UnknownArgument {
        /// What was given.
        text: String,
        /// The shape, and the names of its arguments.
        of: String,
    },
    /// An argument of a shape is not there.
    NotGiven {
        /// Its name.
        name: &'static str,
        /// Of what it is the number.
        of: &'static str,
    },
    /// An attribute or a key is not there.
    Missing(&'static str),
    /// This is no value of that.
    NotA(&'static str, String),
    /// An argument of a shape is below the least that makes sense.
    TooFew {
        /// Its name.
        name: &'static str,
        /// Of what it is the number.
        of: &'static str,
        /// The least.
        min: u32,
    },
    /// It is beyond a limit.
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Two nodes have this name, or two switches this datapath id.
    Twice(String),
    /// A link names a node that is not there.
    UnknownNode(String),
    /// A host has no link to a switch, or a second one.
    HostLinks(String),
    /// A node of a kind that no controller serves.
    NoSwitch(String),
    /// The file is not what its name says, in the words of who read it.
    Malformed(String),
    /// Its name ends unlike those of all files that are known.
    UnknownFile(String),
}

impl Fault {
    pub(super) fn whole(self) -> TopologyError {
        TopologyError { at: Where::Whole, fault: self }
    }

    pub(super) fn at(self, at: Where) -> TopologyError {
        TopologyError { at, fault: self }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Where::Whole => {}
            Where::Line(line) => write!(f, "line {line}: ")?,
            Where::Entry(list, n) => write!(f, "{list}, entry {n}: ")?,
            Where::Argument(name) => write!(f, "{name}: ")?,
        }
        self.fault.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownShape(name) => {
                write!(f, "no shape is called {name:?}; there are ")?;
                super::text::names(f)
            }
            Self::UnknownArgument { text, of } => write!(f, "{text:?} is no number of {of}"),
            Self::NotGiven { name, of } => write!(f, "{name}, the number of {of}, is not given"),
            Self::Missing(what) => write!(f, "there is no {what}"),
            Self::NotA(what, text) => write!(f, "{text:?} is not {what}"),
            Self::TooFew { name, of, min } => {
                write!(f, "{name}, the number of {of}, is {min} at least")
            }
            Self::TooMany { what, max } => write!(f, "more than {max} {what}"),
            Self::Twice(name) => write!(f, "{name} is there twice"),
            Self::UnknownNode(name) => write!(f, "there is no node {name:?}"),
            Self::HostLinks(name) => {
                write!(f, "host {name} needs exactly one link, and that to a switch")
            }
            Self::NoSwitch(name) => write!(f, "{name} is a node that no controller serves"),
            Self::Malformed(why) => f.write_str(why),
            Self::UnknownFile(name) => {
                write!(f, "{name} ends neither in .mn (MiniEdit) nor in .graphml or .xml (GraphML)")
            }
        }
    }
}

impl std::error::Error for TopologyError {}
