//! A switch of OpenFlow 1.0 to 1.5 as a state machine: bytes and frames in, bytes and frames out.
//!
//! [`ModelSwitch`] is told what happens, with the time: the control connection comes and goes, bytes arrive on it,
//! a frame arrives at a port, time passes. What it has to say stands in an [`Outbox`] afterwards. It owns no socket,
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

mod abilities;
mod answers;
mod buffer;
mod check;
mod control;
mod counts;
mod fields;
mod flows;
mod groups;
mod lookup;
mod meters;
mod news;
mod packet;
mod pipeline;
mod plan;
mod ports;
mod reasons;
mod table;
mod upward;

use std::time::Instant;

use sluice_openflow::{Encoder, FieldId, PortNo, Version};
use sluice_proto::SessionError;

use buffer::Buffer;
use control::Session;
use groups::Groups;
use meters::Meters;
use packet::Packet;
use ports::Ports;
use table::Table;

pub use counts::{Counts, Drops};
pub use plan::{Plan, PortPlan};
pub use table::Entry;

/// What a switch has to say, in buffers that are used again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Bytes to the controller.
    pub control: Vec<u8>,
    /// Frames, and the ports that they leave.
    pub frames: Vec<(PortNo, Vec<u8>)>,
}

impl Outbox {
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
/// Only when the controller knows who it is, it sends up frames and news. An `Err` of [`on_control`](Self::on_control)
/// is the reason to close the connection; what the outbox holds is still to be sent, then comes
/// [`disconnect`](Self::disconnect).
#[derive(Debug)]
pub struct ModelSwitch {
    plan: Plan,
    session: Session,
    ports: Ports,
    tables: Vec<Table>,
    groups: Groups,
    meters: Meters,
    buffer: Buffer,
    /// Bytes of what it said that wait to be sent.
    untaken: usize,
    counts: Counts,
}

impl ModelSwitch {
    /// A switch with empty tables, all ports up, and nobody to talk to.
    pub fn new(plan: Plan) -> Self {
        let n_tables = plan.tables.clamp(1, TABLES_MAX);
        Self {
            session: Session::new(&plan),
            ports: Ports::new(&plan.ports),
            tables: (0..n_tables).map(|_| Table::default()).collect(),
            groups: Groups::new(plan.groups_max, plan.buckets_max),
            meters: Meters::new(plan.meters_max),
            buffer: Buffer::new(plan.buffers, plan.buffer_timeout),
            untaken: 0,
            counts: Counts::default(),
            plan,
        }
    }

    /// So many bytes of what it said, beside those in the outbox, wait to be sent.
    pub fn set_untaken(&mut self, bytes: usize) {
        self.untaken = bytes;
    }

    /// It does not match these fields from now on, as with other firmware: [`Plan::refused_fields`]. Its rules stay.
    pub fn set_refused_fields(&mut self, fields: Vec<FieldId>) {
        self.plan.refused_fields = fields;
    }

    /// The control connection is there.
    pub fn connect(&mut self, now: Instant, out: &mut Outbox) {
        self.ports.start(now);
        self.session = Session::new(&self.plan);
        self.session.open(&mut out.control);
    }

    /// The control connection is gone. Tables, groups and meters stay; packets that wait for an answer are given up.
    pub fn disconnect(&mut self, now: Instant) {
        self.ports.start(now);
        self.session.close(&self.plan);
        self.counts.drops.gave_up += self.buffer.clear();
    }

    /// Bytes came from the controller: whole messages, parts of them, or both.
    ///
    /// # Errors
    /// The reason to close the connection. What is wrong in a message is no such reason: it gets an `ERROR`.
    pub fn on_control(
        &mut self,
        now: Instant,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> Result<(), SessionError> {
        self.hear(now, bytes, out)
    }

    /// A frame came in at `in_port`.
    pub fn on_frame(&mut self, now: Instant, in_port: PortNo, frame: &[u8], out: &mut Outbox) {
        if !self.ports.receive(in_port, frame.len()) {
            self.counts.drops.port += 1;
            return;
        }
        match Packet::new(in_port, frame.to_vec()) {
            Some(mut packet) => self.through_tables(now, &mut packet, out),
            None => self.counts.drops.runt += 1,
        }
    }

    /// Time passed: rules and waiting packets whose time is over go.
    pub fn on_time(&mut self, now: Instant, out: &mut Outbox) {
        self.expire_rules(now, out);
        self.counts.drops.gave_up += self.buffer.expire(now);
    }

    /// When [`on_time`](Self::on_time) may have something to do; there may be nothing to do after all.
    pub fn deadline(&self) -> Option<Instant> {
        let rules = self.tables.iter().filter_map(Table::deadline);
        rules.chain(self.buffer.deadline()).min()
    }

    /// The link at `port` came up or went down; the controller is told.
    pub fn set_port(&mut self, now: Instant, port: PortNo, is_up: bool, out: &mut Outbox) {
        self.ports.start(now);
        if self.ports.set_link(port, is_up) {
            self.tell_port(port, out);
        }
    }

    /// A way to write to the controller.
    fn out<'t>(&'t mut self, out: &'t mut Outbox) -> Encoder<'t> {
        self.session.out(&mut out.control)
    }

    /// What it is.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the controller knows who it is.
    pub fn is_known(&self) -> bool {
        self.session.is_known()
    }

    /// The version that both ends agreed on.
    pub fn version(&self) -> Option<Version> {
        self.session.agreed()
    }

    /// Whether frames can leave by `port`.
    pub fn is_up(&self, port: PortNo) -> bool {
        self.ports.is_up(port)
    }

    /// The rules of a table, in no order that means something.
    pub fn entries(&self, table_id: u8) -> impl Iterator<Item = &Entry> {
        self.tables.get(usize::from(table_id)).into_iter().flat_map(Table::iter)
    }

    /// Rules in all tables.
    pub fn n_entries(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Groups that there are.
    pub fn n_groups(&self) -> usize {
        self.groups.len()
    }

    /// Meters that there are.
    pub fn n_meters(&self) -> usize {
        self.meters.len()
    }

    /// Packets that wait for an answer of the controller.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Tables that there can be: the highest numbers mean something else. §7.3.3.
const TABLES_MAX: u8 = 254;
