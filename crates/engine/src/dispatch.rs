//! A burst of one switch: its messages go to the applications, their answers to its transmit buffer.

use std::net::SocketAddr;
use std::time::Instant;

use sluice_io::ConnId;
use sluice_openflow::view::PacketIns;
use sluice_openflow::{DatapathId, ErrorReason, MessageType, split_message};
use sluice_proto::{ControllerEvent, ControllerSession, SessionError};
use sluice_sdk::{App, Ctx, Network, SwitchIndex};

use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::connection::{ConnectionBuffers, Reassembly};
use crate::counters::ThreadCounters;
use crate::error_log;
use crate::mailbox::SessionId;

/// Messages of one switch that are logged; all are counted.
const LOGGED_MAX: u32 = 10;

/// One switch of a worker.
#[derive(Debug)]
pub(crate) struct ConnectedSwitch {
    pub(crate) id: ConnId,
    pub(crate) serial: SessionId,
    pub(crate) addr: SocketAddr,
    pub(crate) datapath_id: DatapathId,
    pub(crate) sw: SwitchIndex,
    pub(crate) session: ControllerSession,
    pub(crate) wires: ConnectionBuffers,
    /// The front wants to know when it speaks.
    pub(crate) is_probed: bool,
    logged: u32,
}

impl ConnectedSwitch {
    pub(crate) fn new(
        id: ConnId,
        sw: SwitchIndex,
        from: crate::connection::EstablishedConnection<()>,
    ) -> Self {
        Self {
            id,
            serial: from.serial,
            addr: from.addr,
            datapath_id: from.datapath_id,
            sw,
            session: from.session,
            wires: from.wires,
            is_probed: false,
            logged: 0,
        }
    }
}

/// Who serves, and where what is said goes.
pub(crate) struct Dispatcher<'w, A> {
    pub(crate) app: &'w mut A,
    pub(crate) cfg: &'w Config,
    pub(crate) sheet: &'w ThreadCounters,
    pub(crate) network: &'w mut Network,
    pub(crate) tx: &'w mut Vec<u8>,
    /// What goes before all that waits.
    pub(crate) ahead: &'w mut Vec<u8>,
    pub(crate) now: Instant,
}

impl<A: App> Dispatcher<'_, A> {
    /// Serves one read of `peer`. What it answers is in `tx`, even if it fails.
    pub(crate) fn burst(
        &mut self,
        peer: &mut ConnectedSwitch,
        bytes: &[u8],
    ) -> Result<(), CloseReason> {
        peer.session.record_activity(self.now);
        peer.wires.lag.read(bytes.len());
        let reassembled = peer.wires.mend(bytes);
        let rest = match reassembled.map_err(|error| self.unframed(peer, error))? {
            Reassembly::Untorn(bytes) => bytes,
            Reassembly::Torn => return Ok(()),
            Reassembly::Whole(buffer, rest) => {
                self.messages(peer, &buffer)?;
                peer.wires.give_back(buffer);
                rest
            }
        };
        let torn = self.messages(peer, rest)?;
        peer.wires.torn.extend_from_slice(torn);
        Ok(())
    }

    /// Serves all whole messages of `bytes`; returns what is left. A worker's sessions are all up.
    fn messages<'a>(
        &mut self,
        peer: &mut ConnectedSwitch,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], CloseReason> {
        let mut rest = bytes;
        loop {
            rest = self.packet_ins(peer, rest);
            let next = split_message(rest).map_err(|error| self.unframed(peer, error))?;
            let Some((msg, after)) = next else { return Ok(rest) };
            rest = after;
            self.sheet.message_received(msg.version(), msg.kind(), 1);
            // Whether we live is answered before all that waits.
            let is_echo = msg.kind() == MessageType::ECHO_REQUEST;
            let tx = if is_echo { &mut *self.ahead } else { &mut *self.tx };
            let told = peer.session.on_message(&self.cfg.session, msg, tx);
            if let Some(event) = told.map_err(CloseReason::Session)? {
                self.other(peer, event);
            }
        }
    }

    /// Lets the applications answer the frames that `bytes` begins with; returns what follows.
    #[inline]
    fn packet_ins<'a>(&mut self, peer: &mut ConnectedSwitch, bytes: &'a [u8]) -> &'a [u8] {
        let version = peer.session.version();
        let mut frames = PacketIns::new(version, bytes);
        let here = peer.session.encoder(self.tx);
        let mut ctx = Ctx::new(self.now, peer.sw, peer.datapath_id, here, self.ahead, self.network);
        if peer.wires.lag.is_late() {
            let left_out = shed_packet_ins(self.app, &mut frames, &mut ctx);
            self.sheet.packet_ins_shed.add(left_out);
        } else {
            self.app.on_packet_ins(&mut frames, &mut ctx);
        }
        // What the applications left is not for them.
        frames.by_ref().for_each(drop);
        self.sheet.message_received(version, MessageType::PACKET_IN, frames.taken());
        frames.rest()
    }

    /// All that is not a frame.
    #[cold]
    fn other(&mut self, peer: &mut ConnectedSwitch, event: ControllerEvent<'_>) {
        let version = peer.session.version();
        let (sw, id) = (peer.sw, peer.datapath_id);
        match &event {
            ControllerEvent::Malformed(kind, error) => {
                self.sheet.malformed_messages.add(1);
                log_rarely(&mut peer.logged, || {
                    tracing::warn!(dpid = %id, %kind, %version, "malformed message: {error}");
                });
                return;
            }
            ControllerEvent::Error(error) => {
                self.sheet.error_received(error.reason.kind());
                log_rarely(&mut peer.logged, || error_log::log(id, error));
            }
            ControllerEvent::PortStatus(status) => {
                let (port, name) = (status.port.port_no, status.port.name());
                let up = status.port.is_up();
                tracing::debug!(dpid = %id, %port, name, up, reason = status.reason.0, "port status");
            }
            ControllerEvent::RoleReply(role) => {
                log_rarely(&mut peer.logged, || {
                    tracing::info!(dpid = %id, role = role.role.0, "role granted");
                });
            }
            _ => {}
        }
        let here = peer.session.encoder(self.tx);
        let mut ctx = Ctx::new(self.now, sw, id, here, self.ahead, self.network);
        match event {
            ControllerEvent::PacketIn(p) => _ = self.app.on_packet_in(&p, &mut ctx),
            ControllerEvent::FlowRemoved(removed) => self.app.on_flow_removed(&removed, &mut ctx),
            ControllerEvent::PortStatus(status) => self.app.on_port_status(&status, &mut ctx),
            ControllerEvent::Error(error) => self.app.on_error(&error, &mut ctx),
            ControllerEvent::BarrierReply(xid) => self.app.on_barrier_reply(xid, &mut ctx),
            ControllerEvent::MultipartReply(xid, kind, body) => {
                self.app.on_multipart_reply(xid, kind, &body, &mut ctx);
            }
            ControllerEvent::SwitchConnected(_)
            | ControllerEvent::RoleReply(_)
            | ControllerEvent::Malformed(..)
            | ControllerEvent::Other(_) => {}
        }
    }

    /// Says that the stream can no longer be cut into messages.
    #[cold]
    fn unframed(
        &mut self,
        peer: &mut ConnectedSwitch,
        error: sluice_openflow::ParseError,
    ) -> CloseReason {
        unframed(&mut peer.session, self.tx, error)
    }
}

/// Answers only frames that show links; returns how many others there were.
#[cold]
fn shed_packet_ins<A: App>(app: &mut A, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) -> u64 {
    let mut left_out = 0;
    for p in frames {
        if sluice_sdk::is_link_probe(p.frame) {
            app.on_packet_in(&p, ctx);
        } else {
            left_out += 1;
        }
    }
    left_out
}

/// Says to a peer that its stream can no longer be cut into messages.
pub(crate) fn unframed(
    session: &mut ControllerSession,
    tx: &mut Vec<u8>,
    error: sluice_openflow::ParseError,
) -> CloseReason {
    // A short sentence fits.
    let _ = session.encoder(tx).error_with(0, ErrorReason::BAD_LEN, error.what.as_bytes());
    CloseReason::Session(SessionError::Malformed(error))
}

fn log_rarely(logged: &mut u32, log: impl FnOnce()) {
    if *logged < LOGGED_MAX {
        *logged += 1;
        log();
    }
}
