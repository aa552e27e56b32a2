//! A switch of OpenFlow 1.0 to 1.5 as a state machine: bytes and frames in, bytes and frames out.
//!
//! [`EmulatedSwitch`] is told what happens, with the time: the control connection comes and goes, bytes arrive on it,
//! a frame arrives at a port, time passes. What it has to say stands in an [`SwitchOutput`] afterwards. It owns no socket,
//! no clock and no thread, and two that are told the same say the same.
//!
//! What it does is in files by subject: `control` reads the controller's messages, `flows` changes the tables,
//! `table` and `lookup` hold them, `packet` finds the fields in frames, `pipeline` takes frames through tables and
//! actions, `upward` sends them to the controller or lets them wait in the `buffer`, `groups`, `meters` and `ports` are
//! what rules refer to, `answers` tells the controller what there is.
//!
//! Not there, and refused with the `ERROR` that the specification has for it: queues, the ports `NORMAL` and
//! `LOCAL`, the backbone headers of providers, bundles, flow monitors, experimenters' extensions. `ENQUEUE` and `SET_QUEUE` are taken, and every queue is as good as the port. Tables keep their
//! rules when the connection is lost, and what meets none of them is dropped then (§6.3.2, fail secure). It does not
//! probe its controller: who owns the connection says when it is gone.

mod async_filter;
mod config;
mod counters;
mod error_reasons;
mod fields;
mod flow_mod;
mod flow_table;
mod groups;
mod lookup;
mod meters;
mod multipart;
mod packet;
mod packet_buffer;
mod packet_in;
mod pipeline;
mod ports;
mod session;
mod table_features;
mod validation;

use std::time::Instant;

use sluice_openflow::{Encoder, FieldId, PortNo, Version};
use sluice_proto::SessionError;

use flow_table::FlowTable;
use groups::Groups;
use meters::Meters;
use packet::PacketInPipeline;
use packet_buffer::PacketBuffer;
use ports::EmulatedPorts;
use session::ControlSession;

pub use config::{EmulatedPortConfig, EmulatedSwitchConfig};
pub use counters::{DropCounters, SwitchCounters};
pub use flow_table::FlowEntry;

/// What a switch has to say, in buffers that are used again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SwitchOutput {
    /// Bytes to the controller.
    pub control: Vec<u8>,
    /// Frames, and the ports that they leave.
    pub frames: Vec<(PortNo, Vec<u8>)>,
}

impl SwitchOutput {
    /// Empties it.
    pub fn clear(&mut self) {
        self.control.clear();
        self.frames.clear();
    }
}

/// A switch with tables, groups, meters, ports and a packet buffer. §5.
///
/// ```text
///            connect          HELLO           FEATURES_REQUEST
///  Alone ───────────▶ Greeting ────▶ Agreed ──────────────────▶ Known
///    ▲                                                             │
///    └──────────────────────── disconnect ─────────────────────────┘
/// ```
///
/// Only when the controller knows who it is, it sends up frames and news. An `Err` of [`on_control_bytes`](Self::on_control_bytes)
/// is the reason to close the connection; what the outbox holds is still to be sent, then comes
/// [`on_disconnected`](Self::on_disconnected).
#[derive(Debug)]
pub struct EmulatedSwitch {
    config: EmulatedSwitchConfig,
    session: ControlSession,
    ports: EmulatedPorts,
    tables: Vec<FlowTable>,
    groups: Groups,
    meters: Meters,
    buffer: PacketBuffer,
    /// Bytes of what it said that wait to be sent.
    tx_backlog: usize,
    counters: SwitchCounters,
}

impl EmulatedSwitch {
    /// A switch with empty tables, all ports up, and nobody to talk to.
    pub fn new(config: EmulatedSwitchConfig) -> Self {
        let n_tables = config.n_tables.clamp(1, TABLES_MAX);
        Self {
            session: ControlSession::new(&config),
            ports: EmulatedPorts::new(&config.ports),
            tables: (0..n_tables).map(|_| FlowTable::default()).collect(),
            groups: Groups::new(config.groups_max, config.buckets_max),
            meters: Meters::new(config.meters_max),
            buffer: PacketBuffer::new(config.n_buffers, config.buffer_timeout),
            tx_backlog: 0,
            counters: SwitchCounters::default(),
            config,
        }
    }

    /// So many bytes of what it said, beside those in the outbox, wait to be sent.
    pub fn set_tx_backlog(&mut self, bytes: usize) {
        self.tx_backlog = bytes;
    }

    /// It does not match these fields from now on, as with other firmware: [`EmulatedSwitchConfig::unsupported_fields`]. Its rules stay.
    pub fn set_unsupported_fields(&mut self, fields: Vec<FieldId>) {
        self.config.unsupported_fields = fields;
    }

    /// The control connection is there.
    pub fn on_connected(&mut self, now: Instant, out: &mut SwitchOutput) {
        self.ports.note_start(now);
        self.session = ControlSession::new(&self.config);
        self.session.send_hello(&mut out.control);
    }

    /// The control connection is gone. Tables, groups and meters stay; packets that wait for an answer are given up.
    pub fn on_disconnected(&mut self, now: Instant) {
        self.ports.note_start(now);
        self.session.reset(&self.config);
        self.counters.drops.buffer_timeout += self.buffer.clear();
    }

    /// Bytes came from the controller: whole messages, parts of them, or both.
    ///
    /// # Errors
    /// The reason to close the connection. What is wrong in a message is no such reason: it gets an `ERROR`.
    pub fn on_control_bytes(
        &mut self,
        now: Instant,
        bytes: &[u8],
        out: &mut SwitchOutput,
    ) -> Result<(), SessionError> {
        self.process_bytes(now, bytes, out)
    }

    /// A frame came in at `in_port`.
    pub fn on_frame(
        &mut self,
        now: Instant,
        in_port: PortNo,
        frame: &[u8],
        out: &mut SwitchOutput,
    ) {
        if !self.ports.receive(in_port, frame.len()) {
            self.counters.drops.blocked_port += 1;
            return;
        }
        match PacketInPipeline::new(in_port, frame.to_vec()) {
            Some(mut packet) => self.run_pipeline(now, &mut packet, out),
            None => self.counters.drops.runt += 1,
        }
    }

    /// Time passed: rules and waiting packets whose time is over go.
    pub fn tick(&mut self, now: Instant, out: &mut SwitchOutput) {
        self.expire_entries(now, out);
        self.counters.drops.buffer_timeout += self.buffer.expire(now);
    }

    /// When [`tick`](Self::tick) may have something to do; there may be nothing to do after all.
    pub fn deadline(&self) -> Option<Instant> {
        let rules = self.tables.iter().filter_map(FlowTable::deadline);
        rules.chain(self.buffer.deadline()).min()
    }

    /// The link at `port` came up or went down; the controller is told.
    pub fn set_link_state(
        &mut self,
        now: Instant,
        port: PortNo,
        is_up: bool,
        out: &mut SwitchOutput,
    ) {
        self.ports.note_start(now);
        if self.ports.set_link(port, is_up) {
            self.send_port_status(port, out);
        }
    }

    /// A way to write to the controller.
    fn encoder<'t>(&'t mut self, out: &'t mut SwitchOutput) -> Encoder<'t> {
        self.session.encoder(&mut out.control)
    }

    /// What it is.
    pub fn config(&self) -> &EmulatedSwitchConfig {
        &self.config
    }

    /// Whether the controller knows who it is.
    pub fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// The version that both ends agreed on.
    pub fn version(&self) -> Option<Version> {
        self.session.negotiated_version()
    }

    /// Whether frames can leave by `port`.
    pub fn is_up(&self, port: PortNo) -> bool {
        self.ports.is_up(port)
    }

    /// The rules of a table, in no order that means something.
    pub fn flow_entries(&self, table_id: u8) -> impl Iterator<Item = &FlowEntry> {
        self.tables.get(usize::from(table_id)).into_iter().flat_map(FlowTable::iter)
    }

    /// Rules in all tables.
    pub fn flow_entry_count(&self) -> usize {
        self.tables.iter().map(FlowTable::len).sum()
    }

    /// Groups that there are.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Meters that there are.
    pub fn meter_count(&self) -> usize {
        self.meters.len()
    }

    /// Packets that wait for an answer of the controller.
    pub fn buffered_packets(&self) -> usize {
        self.buffer.len()
    }

    /// What happened so far.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }
}

/// Tables that there can be: the highest numbers mean something else. §7.3.3.
const TABLES_MAX: u8 = 254;
