//! Why a switch has no session with the controller.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use sluice_openflow::Version;
use sluice_proto::SessionError;

use super::TX_BACKLOG_MAX;

/// How long a handshake may take before it is reported. The connection stays, since a controller that starts may take longer.
const HANDSHAKE_SLOW: Duration = Duration::from_secs(5);

/// Bytes that a report of foreign bytes has at most.
const REPORTED_BYTES_MAX: usize = 8;

/// Why a connection was not opened, has ended, or has no session yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// A system error, such as a refused connection.
    System(io::ErrorKind),
    /// What the peer has sent does not begin with the header of an OpenFlow message.
    NotOpenFlow(FirstBytes),
    /// The switch has ended the session.
    Session(SessionError),
    /// The peer has closed the connection before the handshake was complete.
    ClosedInHandshake(FirstBytes),
    /// The switch has closed the connection, since the peer does not read.
    NotRead,
    /// The handshake has not been complete for five seconds.
    SlowHandshake(FirstBytes),
}

/// The start of what was received on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirstBytes {
    bytes: [u8; REPORTED_BYTES_MAX],
    /// Number of all bytes received.
    received: usize,
}

impl FirstBytes {
    fn append(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.received..).unwrap_or_default();
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.received += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.received).unwrap_or(&self.bytes)
    }

    /// Whether they cannot be the header of a message: its first byte is a version of OpenFlow.
    fn is_foreign(&self) -> bool {
        let versions = Version::V1_0.0..=Version::V1_5.0;
        self.bytes().first().is_some_and(|version| !versions.contains(version))
    }
}

/// A handshake that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handshake {
    connected_at: Instant,
    received: FirstBytes,
}

impl Handshake {
    pub(super) fn new(now: Instant) -> Self {
        Self { connected_at: now, received: FirstBytes::default() }
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.received.append(bytes);
    }

    /// The failure if the connection has ended, because of `error` if there is one.
    pub(super) fn ended(&self, error: Option<ConnectionFailure>) -> ConnectionFailure {
        // A HELLO of a later version has been understood as far as needed.
        let is_hello =
            matches!(error, Some(ConnectionFailure::Session(SessionError::NoCommonVersion(_))));
        if self.received.is_foreign() && !is_hello {
            return ConnectionFailure::NotOpenFlow(self.received);
        }
        error.unwrap_or(ConnectionFailure::ClosedInHandshake(self.received))
    }

    /// The failure if the handshake takes long.
    pub(super) fn slow(&self, now: Instant) -> Option<ConnectionFailure> {
        let is_slow = now.saturating_duration_since(self.connected_at) >= HANDSHAKE_SLOW;
        is_slow.then(|| self.ended(Some(ConnectionFailure::SlowHandshake(self.received))))
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(kind) => kind.fmt(f),
            Self::NotOpenFlow(first) => {
                let protocol = match first.bytes() {
                    [b'H', b'T', b'T', b'P', ..] => " but HTTP",
                    // An alert or a handshake record.
                    [0x15 | 0x16, 0x03, ..] => " but TLS",
                    [b'S', b'S', b'H', ..] => " but SSH",
                    _ => "",
                };
                let version = first.bytes().first().copied().unwrap_or_default();
                write!(
                    f,
                    "the peer does not send OpenFlow{protocol}: version byte {version:#04x}, first bytes \"{}\"",
                    first.bytes().escape_ascii()
                )
            }
            Self::Session(error) => error.fmt(f),
            Self::ClosedInHandshake(first) => {
                write!(f, "closed by the peer before the handshake was complete, {first}")
            }
            Self::NotRead => {
                let waiting = TX_BACKLOG_MAX >> 20;
                write!(f, "the peer does not read: {waiting} MiB of messages are waiting")
            }
            Self::SlowHandshake(first) => {
                let seconds = HANDSHAKE_SLOW.as_secs();
                write!(f, "no handshake within {seconds} s after connecting, {first}")
            }
        }
    }
}

impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.received {
            0 => f.write_str("nothing received"),
            1 => f.write_str("1 byte received"),
            received => write!(f, "{received} bytes received"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake(parts: &[&[u8]]) -> (Instant, Handshake) {
        let now = sluice_io::clock::now();
        let mut handshake = Handshake::new(now);
        for part in parts {
            handshake.receive(part);
        }
        (now, handshake)
    }

    fn ended(parts: &[&[u8]]) -> String {
        handshake(parts).1.ended(None).to_string()
    }

    #[test]
    fn bytes_that_are_not_openflow_are_shown_with_the_protocol() {
        assert_eq!(
            ended(&[b"HT", b"TP/1.1 400 Bad Request\r\n"]),
            "the peer does not send OpenFlow but HTTP: version byte 0x48, first bytes \"HTTP/1.1\""
        );
        assert_eq!(
            ended(&[b"\x15\x03\x03\x00\x02\x02\x28"]),
            "the peer does not send OpenFlow but TLS: version byte 0x15, first bytes \"\\x15\\x03\\x03\\x00\\x02\\x02(\""
        );
        assert!(ended(&[b"SSH-2.0-x"]).contains(" but SSH: version byte 0x53"));
        assert_eq!(
            ended(&[&[0xff]]),
            "the peer does not send OpenFlow: version byte 0xff, first bytes \"\\xff\""
        );
    }

    #[test]
    fn the_end_of_a_handshake_says_how_much_was_received() {
        let text = "closed by the peer before the handshake was complete";
        assert_eq!(ended(&[]), format!("{text}, nothing received"));
        assert_eq!(ended(&[&[4]]), format!("{text}, 1 byte received"));
        assert_eq!(ended(&[&[4, 0, 0], &[8, 0, 0, 0, 1]]), format!("{text}, 8 bytes received"));
        let error = ConnectionFailure::Session(SessionError::NoCommonVersion(Version(9)));
        assert_eq!(handshake(&[&[9]]).1.ended(Some(error)), error);
    }

    #[test]
    fn a_handshake_is_slow_after_five_seconds() {
        let (now, silent) = handshake(&[]);
        assert_eq!(silent.slow(now + HANDSHAKE_SLOW / 2), None);
        let failure = silent.slow(now + HANDSHAKE_SLOW).unwrap().to_string();
        assert_eq!(failure, "no handshake within 5 s after connecting, nothing received");
        let (now, ssh) = handshake(&[b"SSH-2.0-x"]);
        let failure = ssh.slow(now + HANDSHAKE_SLOW);
        assert!(matches!(failure, Some(ConnectionFailure::NotOpenFlow(_))), "{failure:?}");
    }
}
