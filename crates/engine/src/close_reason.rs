//! Why a connection was closed.

use std::fmt;
use std::io;

use sluice_io::{ConnectionError, TlsError};
use sluice_openflow::DatapathId;
use sluice_proto::SessionError;

/// Why a connection was closed, for the log and the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed the connection.
    ClosedByPeer,
    /// The operating system reported an error.
    ConnectionError(io::ErrorKind),
    /// TLS reported an error.
    Tls(TlsError),
    /// The peer uses TLS on a port for plain TCP.
    TlsOnTcpPort,
    /// The peer sends a request of HTTP.
    HttpOnOpenFlowPort,
    /// The certificate of the switch does not have this datapath id as a name.
    CertificateMismatch(DatapathId),
    /// The peer violated the protocol or a timeout of its session passed.
    Session(SessionError),
    /// The switch accepted no data for too long while data was queued for it.
    SendTimeout,
    /// The kernel has lost an answer that it had begun to write.
    AnswerLost,
    /// Too many connections were in their handshake.
    TooManyHandshakes,
    /// Too many switches were connected.
    TooManySwitches,
    /// All switches together had too many ports.
    TooManyPorts,
    /// The peer sent too many bytes before it completed the handshake.
    HandshakeTooLarge,
    /// Another connection has this datapath id and is alive.
    DuplicateDatapathId(DatapathId),
    /// A new connection has this datapath id, and this one did not answer a probe.
    ReplacedByNewConnection(DatapathId),
    /// Only a switch whose certificate names this datapath id may have it.
    DatapathIdReserved(DatapathId),
    /// An auxiliary connection, which the controller does not use (§6.3.5).
    AuxiliaryConnection(DatapathId),
    /// The controller is shutting down.
    Shutdown,
}

impl CloseReason {
    /// All values of the label `reason` of the metric `connections_closed`.
    pub(crate) const LABELS: [&'static str; 40] = [
        "closed_by_peer",
        "connection_reset",
        "connection_error",
        "tls_expected",
        "tls_version_not_supported",
        "tls_no_certificate",
        "tls_unknown_ca",
        "tls_certificate_expired",
        "tls_certificate_not_yet_valid",
        "tls_certificate_invalid",
        "tls_rejected_by_peer",
        "tls_truncated",
        "tls_key_limit",
        "tls_protocol_error",
        "tls_on_tcp_port",
        "http_on_openflow_port",
        "certificate_mismatch",
        "send_timeout",
        "answer_lost",
        "too_many_handshakes",
        "too_many_switches",
        "too_many_ports",
        "handshake_too_large",
        "duplicate_datapath_id",
        "replaced_by_new_connection",
        "datapath_id_reserved",
        "auxiliary_connection",
        "shutdown",
        "malformed_message",
        "no_common_version",
        "wrong_version",
        "unexpected_message",
        "handshake_rejected",
        "handshake_timeout",
        "echo_timeout",
        "too_many_malformed",
        "too_many_multipart_replies",
        "multipart_reply_too_large",
        "multipart_memory_limit",
        "multipart_timeout",
    ];

    /// Value of the label `reason` in metrics and log lines.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClosedByPeer => "closed_by_peer",
            Self::ConnectionError(io::ErrorKind::ConnectionReset) => "connection_reset",
            Self::ConnectionError(_) => "connection_error",
            Self::Tls(error) => tls_label(error),
            Self::TlsOnTcpPort => "tls_on_tcp_port",
            Self::HttpOnOpenFlowPort => "http_on_openflow_port",
            Self::CertificateMismatch(_) => "certificate_mismatch",
            Self::Session(error) => error.label(),
            Self::SendTimeout => "send_timeout",
            Self::AnswerLost => "answer_lost",
            Self::TooManyHandshakes => "too_many_handshakes",
            Self::TooManySwitches => "too_many_switches",
            Self::TooManyPorts => "too_many_ports",
            Self::HandshakeTooLarge => "handshake_too_large",
            Self::DuplicateDatapathId(_) => "duplicate_datapath_id",
            Self::ReplacedByNewConnection(_) => "replaced_by_new_connection",
            Self::DatapathIdReserved(_) => "datapath_id_reserved",
            Self::AuxiliaryConnection(_) => "auxiliary_connection",
            Self::Shutdown => "shutdown",
        }
    }

    /// Whether connections end like this in normal operation, so that the log needs no warning.
    pub(crate) const fn is_normal(self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        matches!(
            self,
            Self::ClosedByPeer
                | Self::ConnectionError(ConnectionReset | BrokenPipe)
                | Self::Shutdown
        )
    }
}

/// How a connection ended that was not closed by this side.
impl From<Option<ConnectionError>> for CloseReason {
    fn from(error: Option<ConnectionError>) -> Self {
        match error {
            None => Self::ClosedByPeer,
            Some(ConnectionError::System(kind)) => Self::ConnectionError(kind),
            Some(ConnectionError::Tls(error)) => Self::Tls(error),
        }
    }
}

/// The name that the certificate of a switch must have if it is bound to the datapath id.
pub(crate) fn certificate_name(id: DatapathId) -> String {
    format!("dpid-{:016x}", id.0)
}

const fn tls_label(error: TlsError) -> &'static str {
    match error {
        TlsError::NotTls => "tls_expected",
        TlsError::VersionNotSupported => "tls_version_not_supported",
        TlsError::NoCertificate => "tls_no_certificate",
        TlsError::UnknownCa => "tls_unknown_ca",
        TlsError::CertificateExpired => "tls_certificate_expired",
        TlsError::CertificateNotYetValid => "tls_certificate_not_yet_valid",
        TlsError::CertificateInvalid => "tls_certificate_invalid",
        TlsError::RejectedByPeer(_) => "tls_rejected_by_peer",
        TlsError::Truncated => "tls_truncated",
        TlsError::HandshakeTooLarge => "handshake_too_large",
        TlsError::KeyLimit => "tls_key_limit",
        TlsError::Protocol => "tls_protocol_error",
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedByPeer => f.write_str("closed by the peer"),
            Self::ConnectionError(kind) => kind.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::TlsOnTcpPort => f.write_str("this port expects plain TCP, and the peer uses TLS"),
            Self::HttpOnOpenFlowPort => f.write_str(
                "this port expects OpenFlow, and the peer uses HTTP: the API and the web page have another port",
            ),
            Self::CertificateMismatch(id) => write!(
                f,
                "the switch's certificate does not have the name {}",
                certificate_name(*id)
            ),
            Self::Session(error) => error.fmt(f),
            Self::SendTimeout => f.write_str("the switch does not read what is sent to it"),
            Self::AnswerLost => f.write_str("the kernel had no memory for an answer"),
            Self::TooManyHandshakes => f.write_str("too many connections in their handshake"),
            Self::TooManySwitches => f.write_str("too many switches are connected"),
            Self::TooManyPorts => f.write_str("all switches together have too many ports"),
            Self::HandshakeTooLarge => {
                f.write_str("too much data received before the handshake was complete")
            }
            Self::DuplicateDatapathId(id) => {
                write!(f, "datapath id {id} belongs to another connection, which is alive")
            }
            Self::ReplacedByNewConnection(id) => {
                write!(f, "no answer to a probe after datapath id {id} connected again")
            }
            Self::DatapathIdReserved(id) => {
                write!(f, "datapath id {id} is reserved for a switch whose certificate names it")
            }
            Self::AuxiliaryConnection(id) => {
                write!(f, "auxiliary connection of datapath id {id}, which is not supported")
            }
            Self::Shutdown => f.write_str("the controller is shutting down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{ErrorReason, MessageType, ParseError, ParseErrorKind, Version};

    use super::*;

    #[test]
    fn the_label_of_every_reason_is_listed_once() {
        let id = DatapathId(7);
        let session = [
            SessionError::Malformed(ParseError::new("length", 2, ParseErrorKind::Length)),
            SessionError::NoCommonVersion(Version::V1_1),
            SessionError::WrongVersion(Version::V1_1),
            SessionError::UnexpectedMessage(MessageType::FLOW_MOD),
            SessionError::HandshakeRejected(ErrorReason::BAD_TYPE),
            SessionError::HandshakeTimeout,
            SessionError::EchoTimeout,
            SessionError::TooManyMalformed,
            SessionError::MultipartReplyTooLarge,
            SessionError::TooManyMultipartReplies,
            SessionError::MultipartBudgetExceeded,
            SessionError::MultipartTimeout,
        ];
        let tls = [
            TlsError::NotTls,
            TlsError::VersionNotSupported,
            TlsError::NoCertificate,
            TlsError::UnknownCa,
            TlsError::CertificateExpired,
            TlsError::CertificateNotYetValid,
            TlsError::CertificateInvalid,
            TlsError::RejectedByPeer(48),
            TlsError::Truncated,
            TlsError::KeyLimit,
            TlsError::Protocol,
        ];
        let mut labels: Vec<_> = [
            CloseReason::TlsOnTcpPort,
            CloseReason::HttpOnOpenFlowPort,
            CloseReason::CertificateMismatch(id),
            CloseReason::ClosedByPeer,
            CloseReason::ConnectionError(io::ErrorKind::ConnectionReset),
            CloseReason::ConnectionError(io::ErrorKind::TimedOut),
            CloseReason::SendTimeout,
            CloseReason::AnswerLost,
            CloseReason::TooManyHandshakes,
            CloseReason::TooManySwitches,
            CloseReason::TooManyPorts,
            CloseReason::HandshakeTooLarge,
            CloseReason::DuplicateDatapathId(id),
            CloseReason::ReplacedByNewConnection(id),
            CloseReason::DatapathIdReserved(id),
            CloseReason::AuxiliaryConnection(id),
            CloseReason::Shutdown,
        ]
        .into_iter()
        .chain(session.map(CloseReason::Session))
        .chain(tls.map(CloseReason::Tls))
        .map(CloseReason::label)
        .collect();
        let mut listed = CloseReason::LABELS.to_vec();
        labels.sort_unstable();
        listed.sort_unstable();
        assert_eq!(labels, listed);
    }
}
