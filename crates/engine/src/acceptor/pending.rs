//! A connection in the handshake.

use std::net::SocketAddr;
use std::time::Instant;

use sluice_io::ConnId;
use sluice_openflow::{SwitchFeatures, split_message};
use sluice_proto::{self as proto, ControllerEvent, ControllerSession};
use sluice_sdk::App;

use super::admission::QueueKey;
use super::listeners::ListenerGroup;
use super::source::SourceNetwork;
use super::waiting::WaitingKey;
use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::{ConnectionBuffers, framing_error};
use crate::counters::ThreadCounters;
use crate::log_limit::LogLimiter;
use crate::receive_buffer::Reassembly;

/// The first bytes of a TLS connection: a record with a part of the handshake, and the major version. No OpenFlow connection begins with
/// them.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];

/// The first bytes of requests of HTTP. As OpenFlow they would be versions that do not exist.
const HTTP_METHODS: [&[u8]; 5] = [b"GET /", b"HEAD /", b"POST /", b"PUT /", b"PRI * HTTP/2"];

/// Whether a connection carries TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    /// `is_bound`: the certificate has to name the datapath id.
    Tls {
        is_bound: bool,
    },
}

impl Security {
    /// Whether the certificate has to name the datapath id.
    pub(crate) fn is_bound(self) -> bool {
        matches!(self, Self::Tls { is_bound: true })
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The listeners of which one has accepted it.
    pub(crate) listeners: ListenerGroup,
    pub(crate) source: SourceNetwork,
}

/// A connection that has not completed the handshake, or waits because its datapath id is in use or no worker has time for it.
#[derive(Debug)]
pub(crate) struct PendingConnection {
    pub(crate) id: ConnId,
    pub(crate) addr: SocketAddr,
    pub(crate) security: Security,
    pub(crate) origin: Origin,
    pub(crate) queue_key: QueueKey,
    /// The handshake is complete; what is received from then on is kept for the worker.
    pub(crate) is_complete: bool,
    /// It waits until a worker has time for it.
    pub(crate) waiting: Option<WaitingSwitch>,
    /// Ports that are counted while it waits, or claims a datapath id in use.
    pub(crate) waiting_ports: usize,
    pub(crate) session: ControllerSession,
    /// Our `HELLO`, until it is sent.
    pub(crate) hello: Vec<u8>,
    /// When our `HELLO` is sent even if the peer has sent nothing.
    pub(crate) hello_at: Instant,
    pub(crate) buffers: ConnectionBuffers,
    pub(crate) received_bytes: usize,
}

/// A switch that waits until a worker has time for it.
#[derive(Debug)]
pub(crate) struct WaitingSwitch {
    pub(crate) key: WaitingKey,
    pub(crate) features: Box<SwitchFeatures>,
}

/// What is needed to process a read, borrowed from the acceptor.
pub(crate) struct HandshakeContext<'f, A> {
    pub(crate) cfg: &'f Config,
    pub(crate) app: &'f A,
    pub(crate) counters: &'f ThreadCounters,
    pub(crate) tx: &'f mut Vec<u8>,
    pub(crate) log_limit: &'f mut LogLimiter,
    pub(crate) now: Instant,
}

impl PendingConnection {
    /// When the handshake must have made progress.
    pub(crate) fn deadline(&self, cfg: &proto::Config) -> Instant {
        let deadline = self.session.deadline(cfg);
        if self.hello.is_empty() { deadline } else { deadline.min(self.hello_at) }
    }

    /// Processes a read up to the end of the handshake; returns the features of the switch then. Bytes after the handshake are
    /// kept for the worker.
    pub(crate) fn process_read<A: App>(
        &mut self,
        ctx: &mut HandshakeContext<'_, A>,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        ctx.counters.bytes_received.add(bytes.len() as u64);
        let is_first = self.received_bytes == 0;
        if is_first && self.security == Security::Plain && bytes.starts_with(&TLS_HANDSHAKE) {
            return Err(CloseReason::TlsOnTcpPort);
        }
        if is_first && HTTP_METHODS.iter().any(|method| bytes.starts_with(method)) {
            return Err(CloseReason::HttpOnOpenFlowPort);
        }
        ctx.tx.append(&mut self.hello);
        self.received_bytes += bytes.len();
        self.session.record_activity(ctx.now);
        if self.is_complete {
            self.buffers.received.keep(bytes);
            return Ok(None);
        }
        let features = self.process_bytes(ctx, bytes)?;
        if features.is_none() {
            self.check_size(ctx.cfg)?;
        }
        Ok(features)
    }

    fn check_size(&self, cfg: &Config) -> Result<(), CloseReason> {
        let is_too_large = self.received_bytes > cfg.limits.handshake_bytes_max;
        if is_too_large { Err(CloseReason::HandshakeTooLarge) } else { Ok(()) }
    }

    fn process_bytes<A: App>(
        &mut self,
        ctx: &mut HandshakeContext<'_, A>,
        bytes: &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        let reassembled = self.buffers.received.reassemble(bytes);
        let mut rest =
            match reassembled.map_err(|error| framing_error(&mut self.session, ctx.tx, error))? {
                Reassembly::NotNeeded(bytes) => bytes,
                Reassembly::Incomplete => return Ok(None),
                Reassembly::Complete(buffer, rest) => {
                    let features = self.process_messages(ctx, &mut &*buffer)?;
                    self.buffers.received.reuse(buffer);
                    if features.is_some() {
                        self.buffers.received.keep(rest);
                        return Ok(features);
                    }
                    rest
                }
            };
        let features = self.process_messages(ctx, &mut rest)?;
        self.buffers.received.keep(rest);
        Ok(features)
    }

    /// Processes complete messages of `rest` and removes them from it.
    fn process_messages<A: App>(
        &mut self,
        ctx: &mut HandshakeContext<'_, A>,
        rest: &mut &[u8],
    ) -> Result<Option<Box<SwitchFeatures>>, CloseReason> {
        while let Some((msg, after)) =
            split_message(rest).map_err(|error| framing_error(&mut self.session, ctx.tx, error))?
        {
            *rest = after;
            ctx.counters.message_received(msg.version(), msg.kind(), 1);
            let was_negotiated = self.session.is_version_negotiated();
            let result = self.session.on_message(&ctx.cfg.session, msg, ctx.tx);
            if !was_negotiated && self.session.is_version_negotiated() {
                ctx.app.initial_messages(&mut self.session.encoder(ctx.tx));
            }
            match result.map_err(CloseReason::Session)? {
                Some(ControllerEvent::SwitchConnected(features)) => return Ok(Some(features)),
                Some(ControllerEvent::Error(error)) => {
                    ctx.counters.error_received(error.reason.kind());
                    if ctx.log_limit.allow(ctx.now) {
                        let (addr, error) = (self.addr, error.reason);
                        tracing::warn!(%addr, %error, "message rejected during the handshake");
                    }
                }
                Some(ControllerEvent::Malformed(..)) => ctx.counters.malformed_messages.add(1),
                _ => {}
            }
        }
        Ok(None)
    }
}
