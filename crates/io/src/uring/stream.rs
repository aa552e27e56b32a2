//! The state of a connection.

use std::net::TcpStream;

use crate::early_bytes::EarlyBytes;
use crate::read_order::Load;
use crate::tls::TlsSession;
use crate::{Connection, ConnectionError, Reading, UnsentCap};

/// The state of a connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    pub(super) tls: Option<Box<TlsSession>>,
    pub(super) reading: Reading,
    pub(super) unsent_cap: UnsentCap,
    pub(super) load: Load,
    /// The request for input that is in flight.
    pub(super) input: Option<InputRequest>,
    /// That request is being cancelled.
    pub(super) is_cancelling: bool,
    /// A request for room to send is in flight.
    pub(super) is_output_polled: bool,
    /// It is in a queue to be read.
    pub(super) is_queued: bool,
    /// Received bytes that precede those in the kernel.
    pub(super) early: EarlyBytes,
    /// How the received stream has ended, after the early bytes.
    pub(super) end: Option<EndOfStream>,
    /// A send waits to be submitted.
    pub(super) has_send: bool,
    /// Bytes of the last send that the kernel did not take.
    pub(super) unsent: Vec<u8>,
    /// The owner waits for [`Writable`](crate::IoEvent::Writable).
    pub(super) wants_writable: bool,
}

/// How a received stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndOfStream {
    /// The peer sends nothing more.
    Closed,
    Failed(ConnectionError),
}

/// A request for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputRequest {
    /// Received bytes, in buffers of the ring.
    Receive,
    /// That something can be read.
    Readable,
    /// That the connection has failed, while it is not read.
    Failure,
}

impl Stream {
    pub(super) fn new(connection: Connection) -> Self {
        connection.keep_open();
        let Connection { stream, tls, received, unsent } = connection;
        Self {
            socket: stream,
            reading: Reading::On,
            unsent_cap: UnsentCap::default(),
            load: Load::Sparse,
            input: None,
            is_cancelling: false,
            is_output_polled: false,
            is_queued: false,
            early: EarlyBytes::from(received),
            end: None,
            has_send: false,
            wants_writable: false,
            unsent,
            tls,
        }
    }

    /// The connection without a set.
    pub(super) fn into_connection(self) -> Connection {
        let Self { socket, tls, early, unsent, .. } = self;
        Connection::with_bytes(socket, tls, early.into_bytes(), unsent)
    }

    /// The request for input that should be in flight.
    pub(super) fn wanted_input(&self) -> Option<InputRequest> {
        match self.reading {
            Reading::Off => Some(InputRequest::Failure),
            // It will be read without one.
            Reading::On if self.is_queued || self.has_early() => None,
            Reading::On if self.tls.is_some() || self.load.is_bulk() => {
                Some(InputRequest::Readable)
            }
            Reading::On => Some(InputRequest::Receive),
        }
    }

    /// Whether something is to be reported that needs no request: bytes or the end.
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty() || self.end.is_some()
    }

    /// Whether received bytes can be reported from the buffer of the ring.
    pub(super) fn reports_at_once(&self) -> bool {
        self.reading == Reading::On && !self.load.is_bulk() && !self.is_queued && !self.has_early()
    }

    /// Whether room to send is of use.
    pub(super) fn wants_room(&self) -> bool {
        let tls = self.tls.as_ref();
        self.wants_writable || !self.unsent.is_empty() || tls.is_some_and(|tls| tls.wants_room())
    }

    /// Whether a request is in flight.
    pub(super) fn has_requests(&self) -> bool {
        self.input.is_some() || self.is_output_polled || self.has_send
    }
}
