//! Why something is no network.

use std::fmt;

/// Why a text or a file is no network: where, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyError {
    /// Where it is.
    pub location: ErrorLocation,
    /// What is wrong.
    pub kind: TopologyErrorKind,
}

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorLocation {
    /// In the whole of it.
    Everything,
    /// In a line of the file, from 1.
    Line(u32),
    /// In an entry of a list of the file: the list and which one, from 1.
    Entry(&'static str, usize),
    /// In the argument of this name.
    Argument(&'static str),
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyErrorKind {
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
    MissingArgument {
        /// Its name.
        name: &'static str,
        /// Of what it is the number.
        of: &'static str,
    },
    /// An attribute or a key is not there.
    MissingElement(&'static str),
    /// This is no value of that.
    InvalidValue(&'static str, String),
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
    Duplicate(String),
    /// A link names a node that is not there.
    UnknownNode(String),
    /// A host has no link to a switch, or a second one.
    HostLinkCount(String),
    /// A node of a kind that no controller serves.
    NotOpenFlow(String),
    /// The file is not what its name says, in the words of who read it.
    Malformed(String),
    /// Its name ends unlike those of all files that are known.
    UnknownFileType(String),
}

impl TopologyErrorKind {
    pub(super) fn whole(self) -> TopologyError {
        TopologyError { location: ErrorLocation::Everything, kind: self }
    }

    pub(super) fn at(self, location: ErrorLocation) -> TopologyError {
        TopologyError { location, kind: self }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            ErrorLocation::Everything => {}
            ErrorLocation::Line(line) => write!(f, "line {line}: ")?,
            ErrorLocation::Entry(list, n) => write!(f, "{list}, entry {n}: ")?,
            ErrorLocation::Argument(name) => write!(f, "{name}: ")?,
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for TopologyErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownShape(name) => {
                write!(f, "no shape is called {name:?}; there are ")?;
                super::shape_text::names(f)
            }
            Self::UnknownArgument { text, of } => write!(f, "{text:?} is no number of {of}"),
            Self::MissingArgument { name, of } => {
                write!(f, "{name}, the number of {of}, is not given")
            }
            Self::MissingElement(what) => write!(f, "there is no {what}"),
            Self::InvalidValue(what, text) => write!(f, "{text:?} is not {what}"),
            Self::TooFew { name, of, min } => {
                write!(f, "{name}, the number of {of}, is {min} at least")
            }
            Self::TooMany { what, max } => write!(f, "more than {max} {what}"),
            Self::Duplicate(name) => write!(f, "{name} is there twice"),
            Self::UnknownNode(name) => write!(f, "there is no node {name:?}"),
            Self::HostLinkCount(name) => {
                write!(f, "host {name} needs exactly one link, and that to a switch")
            }
            Self::NotOpenFlow(name) => write!(f, "{name} is a node that no controller serves"),
            Self::Malformed(why) => f.write_str(why),
            Self::UnknownFileType(name) => {
                write!(f, "{name} ends neither in .mn (MiniEdit) nor in .graphml or .xml (GraphML)")
            }
        }
    }
}

impl std::error::Error for TopologyError {}
