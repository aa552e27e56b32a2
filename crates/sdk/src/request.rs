//! Requests to switches, and their answers.
//!
//! [`Network::request`](crate::Network::request) returns a [`Ticket`]; the answer comes with it to
//! [`App::on_answer`](crate::App::on_answer) of the application that asked. Threads other than workers use
//! [`Controller::request`](crate::Controller::request). Each request gets exactly one [`Answer`].

use std::fmt;
use std::time::Duration;

use sluice_openflow::{
    EncodeError, ErrorReason, Message, MultipartReply, MultipartType, ParseError, Version,
};

/// Identifies a request of an application: unique among those of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    worker: usize,
    number: u64,
}

impl Ticket {
    pub(crate) const fn new(worker: usize, number: u64) -> Self {
        Self { worker, number }
    }

    /// For engines: the worker whose application asked.
    pub const fn worker(self) -> usize {
        self.worker
    }
}

/// Messages to one switch that are answered together.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Sent in this order, with nothing in between.
    pub messages: Vec<Message>,
    /// How long the answer may take from when the worker of the switch sends the messages. At most [`TIMEOUT_MAX`] counts.
    pub timeout: Duration,
}

/// The longest time that an answer may take: a request that waits for longer keeps its place from others.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Flow entries of a switch that are listed at once, at most: with usual entries the reply fits into the 4 MiB that a session keeps. Whoever
/// lists flow entries counts them first.
pub const LISTED_ENTRIES_MAX: u32 = 16_384;

impl Request {
    /// The time that the answer may take.
    pub fn effective_timeout(&self) -> Duration {
        self.timeout.min(TIMEOUT_MAX)
    }
}

/// The answer to a request.
///
/// | request | answers of the switch |
/// | --- | --- |
/// | one message that has a reply of one message | [`Reply`](Self::Reply), [`Refused`](Self::Refused) |
/// | one multipart request | [`Multipart`](Self::Multipart), [`Refused`](Self::Refused) |
/// | any other message, or several | [`Done`](Self::Done), [`Refused`](Self::Refused) |
///
/// The others are answers of the controller. After [`TimedOut`](Self::TimedOut) and [`Disconnected`](Self::Disconnected) it is
/// unknown what the switch has done; after those that [`is_unsent`](Self::is_unsent) names, the switch has received nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The reply to an echo, features, configuration, barrier, role, asynchronous configuration, queue configuration or bundle
    /// control request.
    Reply(Message),
    /// The reply to a multipart request, of all its parts.
    Multipart(ReceivedMultipart),
    /// The switch has processed all messages, and has refused none. A barrier has confirmed it. Replies to single messages of
    /// several are not passed on.
    Done,
    /// The switch has refused a message. Of several messages, it may have accepted the others.
    Refused(Refusal),
    /// The reply is malformed.
    Malformed(ParseError),
    /// The reply was longer than the memory for the incomplete replies of a switch (4 MiB by default), and was discarded.
    TooLarge,
    /// The time has passed. A reply that comes later goes to nobody.
    TimedOut,
    /// The session has ended after the request was sent, or may have been.
    Disconnected,
    /// The switch is not connected.
    NotConnected,
    /// The version of the switch cannot express a message.
    Unsupported {
        /// Which message of the request, from 0.
        index: usize,
        /// What cannot be expressed.
        error: EncodeError,
    },
    /// So much waits to be sent to the switch that it is paused.
    Paused,
    /// Too many requests wait for an answer: of this switch, or of all switches of its worker. Or the request has more messages
    /// than may wait.
    TooMany,
}

impl Answer {
    /// Whether nothing was sent to the switch.
    pub const fn is_unsent(&self) -> bool {
        matches!(self, Self::NotConnected | Self::Unsupported { .. } | Self::Paused | Self::TooMany)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(message) => write!(f, "reply: {}", message.name()),
            Self::Multipart(reply) => {
                write!(f, "reply: multipart type {}, {} bytes", reply.kind.0, reply.body.len())
            }
            Self::Done => f.write_str("done"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Malformed(error) => write!(f, "malformed reply: {error}"),
            Self::TooLarge => f.write_str("the reply is too long"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Disconnected => f.write_str("the switch has disconnected"),
            Self::NotConnected => f.write_str("the switch is not connected"),
            Self::Unsupported { index, error } => write_of_message(f, *index, error),
            Self::Paused => f.write_str("too much waits to be sent to the switch"),
            Self::TooMany => f.write_str("too many requests wait for an answer"),
        }
    }
}

/// An `ERROR` of the switch about a message of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Which message, from 0; of several that were refused, the first. The number of messages if the switch has refused the
    /// barrier behind them, so that nothing is known about these.
    pub index: usize,
    /// Why. Displayed with its names, such as `FLOW_MOD_FAILED/TABLE_FULL`.
    pub reason: ErrorReason,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_of_message(f, self.index, &self.reason)
    }
}

/// The reason, and which message of several it concerns. Most requests have one message.
fn write_of_message(
    f: &mut fmt::Formatter<'_>,
    index: usize,
    reason: &dyn fmt::Display,
) -> fmt::Result {
    if index > 0 {
        write!(f, "message {} of the request: ", index + 1)?;
    }
    reason.fmt(f)
}

/// The reply to a multipart request, reassembled from all its parts and not parsed yet: that is left to the thread that
/// reads it, so that long replies do not keep a worker from its switches.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedMultipart {
    version: Version,
    kind: MultipartType,
    body: Vec<u8>,
}

impl ReceivedMultipart {
    /// For engines: the body of a reply of type `kind` from a switch that speaks `version`.
    pub fn new(version: Version, kind: MultipartType, body: Vec<u8>) -> Self {
        Self { version, kind, body }
    }

    /// The version of the switch.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The type of the reply.
    pub const fn kind(&self) -> MultipartType {
        self.kind
    }

    /// The body, of all parts together.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Parses the body.
    ///
    /// # Errors
    /// What is malformed, and where.
    ///
    /// # Cost
    /// Allocates the lists in it: some hundred nanoseconds for each flow entry.
    pub fn parse(&self) -> Result<MultipartReply, ParseError> {
        MultipartReply::parse_body(self.version, self.kind, &self.body)
    }
}

impl fmt::Debug for ReceivedMultipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, kind) = (self.version, self.kind);
        let bytes = self.body.len();
        write!(f, "ReceivedMultipart({version}, {kind:?}, {bytes} bytes)")
    }
}
