//! An OpenFlow switch (1.0 to 1.5) as a state machine: bytes and frames in, bytes and frames out.
//!
//! [`EmulatedSwitch`] is called with events and the time: the control connection opens or closes, bytes arrive on it, a
//! frame arrives at a port, time passes. What it sends is in a [`SwitchOutput`] afterwards. It has no sockets, clocks
//! or threads, and is deterministic.
//!
//! Modules: `session` handles the controller's messages, `flow_mod` and `flow_mod_cache` change the flow tables, `flow_table`, `lookup`
//! and `timeout_checks` hold them, `pipeline` runs frames through tables and actions (as the crate `sluice-pipeline` defines it), `packet_in` sends
//! them to the controller or keeps them in the `packet_buffer`; `groups`, `meters` and `ports` are what flow entries
//! refer to; `following` shows where packets would go; `multipart` and `table_features` answer statistics requests.
//!
//! Not supported, and rejected with the `ERROR` of the specification: queues, the ports `NORMAL` and `LOCAL`, provider
//! backbone bridging, bundles, flow monitors, experimenter extensions. `ENQUEUE` and `SET_QUEUE` are accepted, but all
//! queues behave like the port itself. Flow entries stay when the connection is lost, and table misses are then dropped
//! (§6.3.2, fail secure mode). The switch does not probe the controller; the owner of the connection reports its end.

mod async_filter;
mod config;
mod counters;
mod error_reasons;
mod flow_mod;
mod flow_mod_cache;
mod flow_table;
mod following;
mod groups;
mod lookup;
mod meters;
mod multipart;
mod packet_buffer;
mod packet_in;
mod pipeline;
mod ports;
mod session;
mod table_features;
mod timeout_checks;
mod validation;

use std::time::Instant;

use sluice_openflow::{Encoder, ErrorReason, FieldId, FlowMod, PortNo, Version};
use sluice_pipeline::PacketInPipeline;
use sluice_proto::SessionError;

use flow_mod_cache::FlowModCache;
use flow_table::FlowTable;
use groups::Groups;
use meters::Meters;
use packet_buffer::PacketBuffer;
use ports::EmulatedPorts;
use session::ControlSession;

pub use config::{EmulatedPortConfig, EmulatedSwitchConfig};
pub use counters::{DropCounters, SwitchCounters};
pub use flow_table::FlowEntry;
pub use following::{FlowEntryId, FollowedOutput, FollowedPacket};

/// What a switch sends, and what its controller rejected; the buffers are reused.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SwitchOutput {
    /// Bytes to the controller.
    pub control: Vec<u8>,
    /// Frames with their output ports.
    pub frames: Vec<(PortNo, Vec<u8>)>,
    /// Reasons of the `ERROR` messages that arrived from the controller.
    pub errors: Vec<ErrorReason>,
}

impl SwitchOutput {
    /// Clears all buffers.
    pub fn clear(&mut self) {
        self.control.clear();
        self.frames.clear();
        self.errors.clear();
    }
}

/// A switch with flow tables, groups, meters, ports and a packet buffer. §5.
///
/// ```text
///                on_connected            HELLO                 FEATURES_REQUEST
/// Disconnected ──────────────▶ HelloSent ─────▶ VersionAgreed ──────────────────▶ Identified
///      ▲                                                                             │
///      └─────────────────────────────── on_disconnected ─────────────────────────────┘
/// ```
///
/// Packet-ins and other asynchronous messages are sent only when identified. After an error of
/// [`on_control_bytes`](Self::on_control_bytes), send what the output holds, close the connection and call
/// [`on_disconnected`](Self::on_disconnected).
#[derive(Debug)]
pub struct EmulatedSwitch {
    config: EmulatedSwitchConfig,
    session: ControlSession,
    ports: EmulatedPorts,
    tables: Vec<FlowTable>,
    flow_mod_cache: FlowModCache,
    groups: Groups,
    meters: Meters,
    buffer: PacketBuffer,
    /// Bytes to the controller that wait to be sent.
    tx_backlog: usize,
    counters: SwitchCounters,
    /// Where the packet goes that is followed.
    followed: FollowedOutput,
    /// The memory of the last packet.
    spare_packet: Option<Box<PacketInPipeline>>,
}

impl EmulatedSwitch {
    /// A disconnected switch with empty tables and all ports up.
    pub fn new(config: EmulatedSwitchConfig) -> Self {
        let n_tables = config.n_tables.clamp(1, TABLES_MAX);
        Self {
            session: ControlSession::new(&config),
            ports: EmulatedPorts::new(&config.ports),
            tables: (0..n_tables).map(|_| FlowTable::default()).collect(),
            flow_mod_cache: FlowModCache::default(),
            groups: Groups::new(config.groups_max, config.buckets_max),
            meters: Meters::new(config.meters_max),
            buffer: PacketBuffer::new(config.n_buffers, config.buffer_timeout),
            tx_backlog: 0,
            counters: SwitchCounters::default(),
            followed: FollowedOutput::default(),
            spare_packet: None,
            config,
        }
    }

    /// Reports how many bytes, besides those in the output, wait to be sent to the controller.
    pub fn set_tx_backlog(&mut self, bytes: usize) {
        self.tx_backlog = bytes;
    }

    /// Changes [`EmulatedSwitchConfig::unsupported_fields`], as a firmware update would. Existing flow entries stay.
    pub fn set_unsupported_fields(&mut self, fields: Vec<FieldId>) {
        self.config.unsupported_fields = fields;
        self.flow_mod_cache.clear();
    }

    /// The control connection is open.
    pub fn on_connected(&mut self, now: Instant, out: &mut SwitchOutput) {
        self.ports.record_start(now);
        self.session = ControlSession::new(&self.config);
        self.flow_mod_cache.clear();
        self.session.send_hello(&mut out.control);
    }

    /// The control connection is closed. Tables, groups and meters stay; buffered packets are discarded.
    pub fn on_disconnected(&mut self, now: Instant) {
        self.ports.record_start(now);
        self.session.reset(&self.config);
        self.counters.drops.buffer_timeout += self.buffer.clear();
    }

    /// Bytes arrived from the controller: whole messages, parts of them, or both.
    ///
    /// # Errors
    /// The reason to close the connection. An invalid message is not one; it gets an `ERROR`.
    pub fn on_control_bytes(
        &mut self,
        now: Instant,
        bytes: &[u8],
        out: &mut SwitchOutput,
    ) -> Result<(), SessionError> {
        self.process_bytes(now, bytes, out)
    }

    /// A frame arrived at `in_port`.
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
        match self.parse_packet(in_port, frame) {
            Some(mut packet) => {
                self.run_pipeline(now, &mut packet, out);
                self.spare_packet = Some(packet);
            }
            None => self.counters.drops.runt += 1,
        }
    }

    /// Parses a frame, in the memory of an earlier one.
    fn parse_packet(&mut self, in_port: PortNo, frame: &[u8]) -> Option<Box<PacketInPipeline>> {
        let new = || Box::new(PacketInPipeline::unparsed(in_port, vec![]));
        let mut packet = self.spare_packet.take().unwrap_or_else(new);
        packet.replace(in_port, frame)?;
        Some(packet)
    }

    /// Time has passed: expires flow entries and buffered packets.
    pub fn tick(&mut self, now: Instant, out: &mut SwitchOutput) {
        self.expire_entries(now, out);
        self.counters.drops.buffer_timeout += self.buffer.expire(now);
    }

    /// When to call [`tick`](Self::tick); there may be nothing to do then.
    pub fn deadline(&self) -> Option<Instant> {
        let rules = self.tables.iter().filter_map(FlowTable::deadline);
        rules.chain(self.buffer.deadline()).min()
    }

    /// Applies a change of the flow tables by another program than the controller, such as `ovs-ofctl`, in the version of the
    /// session. Returns whether it is accepted.
    pub fn change_tables(
        &mut self,
        now: Instant,
        flow_mod: FlowMod,
        out: &mut SwitchOutput,
    ) -> bool {
        self.on_flow_mod(now, flow_mod, None, out).is_ok()
    }

    /// The link at `port` went up or down; notifies the controller.
    pub fn set_link_state(
        &mut self,
        now: Instant,
        port: PortNo,
        is_up: bool,
        out: &mut SwitchOutput,
    ) {
        self.ports.record_start(now);
        if self.ports.set_link(port, is_up) {
            self.send_port_status(port, out);
        }
    }

    /// An encoder for messages to the controller.
    fn encoder<'t>(&'t mut self, out: &'t mut SwitchOutput) -> Encoder<'t> {
        self.session.encoder(&mut out.control)
    }

    /// The configuration.
    pub fn config(&self) -> &EmulatedSwitchConfig {
        &self.config
    }

    /// Whether the handshake with a controller is complete.
    pub fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// The negotiated version, if any.
    pub fn version(&self) -> Option<Version> {
        self.session.negotiated_version()
    }

    /// Whether `port` is up.
    pub fn is_up(&self, port: PortNo) -> bool {
        self.ports.is_up(port)
    }

    /// The flow entries of a table, in no particular order.
    pub fn flow_entries(&self, table_id: u8) -> impl Iterator<Item = &FlowEntry> {
        self.tables.get(usize::from(table_id)).into_iter().flat_map(FlowTable::iter)
    }

    /// Number of flow entries in all tables.
    pub fn flow_entry_count(&self) -> usize {
        self.tables.iter().map(FlowTable::len).sum()
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Number of meters.
    pub fn meter_count(&self) -> usize {
        self.meters.len()
    }

    /// Number of packets buffered for the controller.
    pub fn buffered_packets(&self) -> usize {
        self.buffer.len()
    }

    /// Counters since the start.
    pub fn counters(&self) -> &SwitchCounters {
        &self.counters
    }
}

/// Most flow tables; higher numbers are reserved. §7.3.3.
const TABLES_MAX: u8 = 254;
