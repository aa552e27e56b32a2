//! Errors of topology texts and files.

use std::fmt;

/// Why a text or a file is not a valid topology: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyError {
    /// Where the error is.
    pub location: ErrorLocation,
    /// What is wrong.
    pub kind: TopologyErrorKind,
}

/// The location of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorLocation {
    /// The topology as a whole.
    Everything,
    /// A line of the file, from 1.
    Line(u32),
    /// An entry of a list in the file: the list, and the number of the entry from 1.
    Entry(&'static str, usize),
    /// The shape or argument of this name.
    Argument(&'static str),
}

/// What is wrong with a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyErrorKind {
    /// There is no shape of this name.
    UnknownShape(String),
    /// The shape has no such argument.
    UnknownArgument {
        /// The argument as given.
        text: String,
        /// The shape with the names of its arguments.
        shape: String,
    },
    /// A required argument of a shape is missing.
    MissingArgument {
        /// Its name.
        name: &'static str,
        /// What it counts.
        of: &'static str,
    },
    /// A required element, attribute or key of a file is missing.
    MissingElement(&'static str),
    /// What was expected, and the text that was found.
    InvalidValue(&'static str, String),
    /// An argument of a shape is too small.
    TooFew {
        /// Its name.
        name: &'static str,
        /// What it counts.
        of: &'static str,
        /// The smallest valid value.
        min: u32,
    },
    /// A limit is exceeded.
    TooMany {
        /// What is limited.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Two nodes have the same name or identifier.
    Duplicate(String),
    /// A link refers to a node that does not exist.
    UnknownNode(String),
    /// This host does not have exactly one link, to a switch.
    HostLinkCount(String),
    /// This node is a legacy switch or router, which does not speak OpenFlow.
    NotOpenFlow(String),
    /// The file cannot be parsed: the parser's message.
    Malformed(String),
    /// The file's name does not have a known extension.
    UnknownFileType(String),
}

impl TopologyErrorKind {
    pub(super) fn without_location(self) -> TopologyError {
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
                write!(f, "unknown shape {name:?} (known: ")?;
                super::shape_text::names(f)?;
                f.write_str(")")
            }
            Self::UnknownArgument { text, shape } => {
                write!(f, "unexpected argument {text:?} (expected {shape})")
            }
            Self::MissingArgument { name, of } => {
                write!(f, "{name} ({of}) is missing")
            }
            Self::MissingElement(what) => write!(f, "missing {what}"),
            Self::InvalidValue(what, text) => write!(f, "{text:?} is not {what}"),
            Self::TooFew { name, of, min } => {
                write!(f, "{name} ({of}) must be at least {min}")
            }
            Self::TooMany { what, max } => write!(f, "more than {max} {what}"),
            Self::Duplicate(name) => write!(f, "duplicate {name}"),
            Self::UnknownNode(name) => write!(f, "unknown node {name:?}"),
            Self::HostLinkCount(name) => {
                write!(f, "host {name} must have exactly one link, to a switch")
            }
            Self::NotOpenFlow(name) => write!(
                f,
                "{name} is not an OpenFlow switch (legacy switches and routers are not supported)"
            ),
            Self::Malformed(message) => f.write_str(message),
            Self::UnknownFileType(name) => {
                write!(f, "{name}: unknown file type (expected .mn, .graphml or .xml)")
            }
        }
    }
}

impl std::error::Error for TopologyError {}
