//! Errors that end a session.

use core::fmt;

use sluice_openflow::{ErrorReason, MessageType, ParseError, Version};

/// Why a session must end.
///
/// Where the specification has an `ERROR` message for it, that message is in the transmit buffer when this is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionError {
    /// The byte stream cannot be split into messages, or a message of the handshake cannot be parsed.
    Malformed(ParseError),
    /// The peer supports none of our versions; holds the version of its `HELLO`.
    NoCommonVersion(Version),
    /// A message has another version than the negotiated one.
    WrongVersion(Version),
    /// A message of this type is not allowed in this state or from this peer.
    UnexpectedMessage(MessageType),
    /// The peer answered the `HELLO` or `FEATURES_REQUEST` with an `ERROR`.
    HandshakeRejected(ErrorReason),
    /// The handshake was not complete in time.
    HandshakeTimeout,
    /// The peer did not answer an `ECHO_REQUEST` in time.
    EchoTimeout,
    /// The peer sent more malformed messages than a session tolerates.
    TooManyMalformed,
    /// The list of the ports, a multipart reply of the handshake, is larger than the limit.
    MultipartReplyTooLarge,
    /// More multipart replies of this session are incomplete than its limit.
    TooManyMultipartReplies,
    /// The incomplete multipart replies of this session were discarded, because those of all sessions that share a
    /// [`ReassemblyBudget`](crate::ReassemblyBudget) are larger than its limit.
    MultipartBudgetExceeded,
    /// An incomplete multipart reply made no progress for too long.
    MultipartTimeout,
}

impl SessionError {
    /// Name of the error in metrics and log lines.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_message",
            Self::NoCommonVersion(_) => "no_common_version",
            Self::WrongVersion(_) => "wrong_version",
            Self::UnexpectedMessage(_) => "unexpected_message",
            Self::HandshakeRejected(_) => "handshake_rejected",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::EchoTimeout => "echo_timeout",
            Self::TooManyMalformed => "too_many_malformed",
            Self::MultipartReplyTooLarge => "multipart_reply_too_large",
            Self::TooManyMultipartReplies => "too_many_multipart_replies",
            Self::MultipartBudgetExceeded => "multipart_memory_limit",
            Self::MultipartTimeout => "multipart_timeout",
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed message: {error}"),
            Self::NoCommonVersion(theirs) => {
                write!(f, "no common OpenFlow version: the peer offers {theirs}")
            }
            Self::WrongVersion(version) => {
                write!(f, "message of OpenFlow {version}, which is not the negotiated version")
            }
            Self::UnexpectedMessage(kind) => write!(f, "unexpected message {kind}"),
            Self::HandshakeRejected(reason) => {
                write!(f, "the peer rejected the handshake: {reason}")
            }
            Self::HandshakeTimeout => f.write_str("the handshake was not complete in time"),
            Self::EchoTimeout => f.write_str("no answer to an echo request"),
            Self::TooManyMalformed => f.write_str("too many malformed messages"),
            Self::MultipartReplyTooLarge => f.write_str("the list of ports exceeds the limit"),
            Self::TooManyMultipartReplies => f.write_str("too many incomplete multipart replies"),
            Self::MultipartBudgetExceeded => f.write_str(
                "the incomplete multipart replies of all switches together exceed the limit",
            ),
            Self::MultipartTimeout => f.write_str("a multipart reply was not continued in time"),
        }
    }
}

impl core::error::Error for SessionError {}
