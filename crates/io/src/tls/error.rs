//! Why a connection failed.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// Why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionError {
    /// The operating system reported an error.
    System(io::ErrorKind),
    /// TLS reported an error.
    Tls(TlsError),
}

impl ConnectionError {
    /// The kind that an I/O error of this cause has.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::System(kind) => kind,
            Self::Tls(TlsError::Truncated) => io::ErrorKind::UnexpectedEof,
            Self::Tls(_) => io::ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(kind) => kind.fmt(f),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl From<io::ErrorKind> for ConnectionError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::System(kind)
    }
}

/// Why a TLS connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsError {
    /// The first byte is not that of a TLS handshake: the peer uses plain TCP.
    NotTls,
    /// The peer offers no TLS version from 1.2 on.
    VersionNotSupported,
    /// The peer has sent no certificate, and one is required.
    NoCertificate,
    /// The certificate of the peer was not issued by a trusted authority.
    UnknownCa,
    /// The certificate of the peer, or one between it and the authority, has expired.
    CertificateExpired,
    /// The certificate of the peer, or one between it and the authority, is not valid yet.
    CertificateNotYetValid,
    /// The certificate of the peer cannot be used for another reason.
    CertificateInvalid,
    /// The peer has ended the connection with this alert.
    RejectedByPeer(u8),
    /// The stream has ended without a `close_notify` alert.
    Truncated,
    /// The peer has sent too many bytes before the end of the TLS handshake.
    HandshakeTooLarge,
    /// As many records were sent as the keys of the connection may encrypt, and the TLS version cannot replace them.
    KeyLimit,
    /// The peer violated the protocol, or shares no cipher suite with this side.
    Protocol,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTls => "this port expects TLS, and the peer uses plain TCP",
            Self::VersionNotSupported => {
                "the peer's TLS version is not supported (1.2 and 1.3 are)"
            }
            Self::NoCertificate => "the peer has sent no certificate",
            Self::UnknownCa => "the peer's certificate was not issued by a trusted authority",
            Self::CertificateExpired => "the peer's certificate has expired",
            Self::CertificateNotYetValid => {
                "the peer's certificate is not valid yet: compare the clocks"
            }
            Self::CertificateInvalid => {
                "the peer's certificate is malformed, or may not be used for this purpose"
            }
            Self::RejectedByPeer(alert) => {
                return write!(f, "the peer has ended the TLS connection: {}", alert_text(*alert));
            }
            Self::Truncated => "the stream has ended without a close_notify alert",
            Self::HandshakeTooLarge => {
                "too many bytes received before the end of the TLS handshake"
            }
            Self::KeyLimit => {
                "as many records were sent as the keys of TLS 1.2 may encrypt: a new connection has new keys"
            }
            Self::Protocol => "violation of the TLS protocol, or no cipher suite in common",
        })
    }
}

/// What an alert of the peer says about this side (RFC 8446, section 6.2).
fn alert_text(alert: u8) -> String {
    match AlertDescription::from(alert) {
        AlertDescription::UnknownCA => "it does not trust our certificate's authority".to_owned(),
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept our certificate".to_owned()
        }
        AlertDescription::CertificateExpired => "our certificate has expired".to_owned(),
        AlertDescription::CertificateRequired => "it requires a certificate".to_owned(),
        AlertDescription::ProtocolVersion => "it does not support our TLS version".to_owned(),
        _ => format!("alert {alert}"),
    }
}

impl From<&Error> for TlsError {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(error) => error.into(),
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                // Before 1.2 there is no such extension, and it is looked for before the version.
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => Self::VersionNotSupported,
            Error::AlertReceived(alert) => Self::RejectedByPeer((*alert).into()),
            _ => Self::Protocol,
        }
    }
}

impl From<&CertificateError> for TlsError {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Self::CertificateExpired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::CertificateNotYetValid
            }
            // An authority of the same name has another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownCa,
            _ => Self::CertificateInvalid,
        }
    }
}
