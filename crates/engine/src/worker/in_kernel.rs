//! Answers that the kernel gives in the place of a worker. `sluice_kernel` has the program and the protocol.
//!
//! Whenever the worker does anything with a switch, the gate of its session is closed first ([`Switches::get_mut`]), so that transaction ids
//! and the order of messages stay right. At the end of the iteration, what the application has changed is published, and the gates are opened
//! again of those switches for which nothing waits.
//!
//! [`Switches::get_mut`]: super::switches::Switches::get_mut

use sluice_base::HashMap;
use std::io;
use std::os::fd::AsFd;

use sluice_io::{Announced, ConnId, Io};
use sluice_kernel::{AnswerForm, Answered, Closed, Session, WorkerAnswers};
use sluice_openflow::{MacAddr, MessageType, PortNo};
use sluice_proto::ControllerSession;
use sluice_sdk::{AnswerCache, App, SwitchIndex};

use super::{WorkerState, count_sent, worker_counters};
use crate::close_reason::CloseReason;

/// The part of the program that belongs to a worker, and its switches.
#[derive(Debug)]
pub(super) struct InKernel {
    answers: WorkerAnswers,
    /// By index.
    switches: Vec<Option<KernelSwitch>>,
    /// By slot of the session.
    indices: HashMap<u16, SwitchIndex>,
    /// Switches whose gates are closed, and may be opened at the end of the iteration.
    closed: Vec<ConnId>,
    /// The kernel answers nothing any more: no gate is opened.
    has_failed: bool,
}

#[derive(Debug)]
struct KernelSwitch {
    session: Session,
    id: ConnId,
    /// Who finds out that something has to be read.
    announced: Announced,
    /// It is among the closed ones.
    is_listed: bool,
    /// Answers that its last worker has caused may be on their way. Those of this worker would take another one.
    has_arrived: bool,
    /// What has been counted.
    counted: Answered,
}

impl InKernel {
    /// Answers of a worker, which are announced to `io`.
    ///
    /// # Errors
    /// Those of [`Io::wake_by`].
    pub(super) fn new(answers: WorkerAnswers, io: &mut impl Io) -> io::Result<Self> {
        io.wake_by(answers.as_fd())?;
        let (switches, indices, closed) = (Vec::new(), HashMap::default(), Vec::new());
        Ok(Self { answers, switches, indices, closed, has_failed: false })
    }

    fn get_mut(&mut self, index: SwitchIndex) -> Option<&mut KernelSwitch> {
        self.switches.get_mut(index.index())?.as_mut()
    }

    /// Closes the gate of a switch, since the worker is about to do something with it.
    #[inline]
    pub(super) fn close(&mut self, index: SwitchIndex, id: ConnId, proto: &mut ControllerSession) {
        let Some(switch) = self.get_mut(index).filter(|switch| !switch.is_listed) else { return };
        switch.is_listed = true;
        if let Closed::WasOpen(next_xid) = switch.session.close() {
            proto.set_next_xid(next_xid);
        }
        self.closed.push(id);
    }

    fn insert(&mut self, (index, id): (SwitchIndex, ConnId), session: Session, has_arrived: bool) {
        if self.switches.len() <= index.index() {
            self.switches.resize_with(index.index() + 1, || None);
        }
        self.indices.insert(session.slot(), index);
        if let Some(slot) = self.switches.get_mut(index.index()) {
            let counted = session.answered();
            let (announced, is_listed) = (Announced::BySocket, false);
            *slot = Some(KernelSwitch { session, id, announced, is_listed, has_arrived, counted });
        }
    }

    /// Removes a switch that has disconnected.
    pub(super) fn remove(&mut self, index: SwitchIndex) -> Option<Session> {
        let switch = self.switches.get_mut(index.index())?.take()?;
        self.indices.remove(&switch.session.slot());
        Some(switch.session)
    }

    /// Removes a switch that moves to another worker.
    pub(super) fn release(&mut self, index: SwitchIndex) -> Option<Session> {
        let mut session = self.remove(index)?;
        session.cancel_announcement();
        self.answers.release(&mut session);
        Some(session)
    }
}

impl KernelSwitch {
    /// The switch is read when the program announces that it has passed something on. Otherwise the worker would be woken with each
    /// answer.
    fn wait_for_announcement(&mut self, io: &mut impl Io) {
        if self.announced == Announced::ByOwner || !self.session.is_open() {
            return;
        }
        self.announced = Announced::ByOwner;
        self.session.request_announcement();
        io.set_announced(self.id, Announced::ByOwner);
        if self.session.unread_bytes() > 0 {
            self.wait_for_socket(io);
        }
    }

    fn wait_for_socket(&mut self, io: &mut impl Io) {
        if self.announced == Announced::ByOwner {
            self.announced = Announced::BySocket;
            self.session.cancel_announcement();
            io.set_announced(self.id, Announced::BySocket);
        }
    }
}

impl AnswerCache for InKernel {
    fn set_tick(&mut self, tick: u16) {
        self.answers.set_tick(tick);
    }

    fn for_each_seen(&self, tick: u16, each: &mut dyn FnMut(SwitchIndex, MacAddr, u16)) {
        self.answers.for_each_seen(tick, |slot, mac, seen| {
            if let Some(&index) = self.indices.get(&slot) {
                each(index, MacAddr(mac), seen);
            }
        });
    }

    fn set_form(&mut self, switch: SwitchIndex, form: &sluice_sdk::AnswerForm<'_>) {
        let sluice_sdk::AnswerForm { version, flow_mod, packet_out, timeout } = *form;
        if let Some(switch) = self.get_mut(switch) {
            let version = version.0;
            switch.session.set_form(&AnswerForm { version, flow_mod, packet_out, timeout });
        }
    }

    fn publish(&mut self, switch: SwitchIndex, host: MacAddr, port: PortNo, tick: u16) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            // Without room, the worker answers.
            self.answers.publish(&mut switch.session, host.0, port.0, tick);
        }
    }

    fn withdraw(&mut self, switch: SwitchIndex, host: MacAddr) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.answers.withdraw(&switch.session, host.0);
        }
    }

    fn withdraw_all(&mut self, switch: SwitchIndex) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.answers.withdraw_all(&mut switch.session);
        }
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Has the program see what a switch sends that has connected here, or takes over its session from the worker that had it before.
    pub(super) fn begin_kernel_session(
        &mut self,
        io: &mut I,
        id: ConnId,
        released: Option<Session>,
    ) {
        let Some(mut session) = released else { return self.attach_to_kernel(io, id) };
        if let Some(index) = self.switches.index_of(id)
            && let Some(in_kernel) = &mut self.switches.in_kernel
        {
            in_kernel.answers.adopt(&mut session);
            in_kernel.insert((index, id), session, true);
            io.set_announced(id, Announced::BySocket);
        }
    }

    /// Has the program see what a switch sends from now on, unless it does so or cannot. Nothing is unread, since the program would get the
    /// whole of a buffer of which a part was read.
    pub(super) fn attach_to_kernel(&mut self, io: &mut I, id: ConnId) {
        let Some(index) = self.switches.index_of(id) else { return };
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        let is_attached = in_kernel.get_mut(index).is_some();
        if is_attached || in_kernel.has_failed || io.unread_bytes(id) > 0 {
            return;
        }
        let Some(socket) = io.plain_socket(id) else { return };
        match in_kernel.answers.attach(&socket) {
            Ok(session) => {
                in_kernel.insert((index, id), session, false);
                io.set_announced(id, Announced::BySocket);
            }
            // The worker answers.
            Err(error) => tracing::debug!(%error, "a switch gets no answers from the kernel"),
        }
    }

    /// Reads from the switches that have sent something for the worker, from now on.
    #[inline]
    pub(super) fn read_announced(&mut self, io: &mut I) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        while let Some(slot) = in_kernel.answers.next_announced() {
            if let Some(&index) = in_kernel.indices.get(&slot)
                && let Some(switch) = in_kernel.get_mut(index)
            {
                switch.wait_for_socket(io);
            }
        }
    }

    /// The kernel has answered what a switch has sent, and the worker was woken for nothing. It sleeps until the program announces something.
    pub(super) fn sleep_until_announced(&mut self, io: &mut I, id: ConnId) {
        if let Some(index) = self.switches.index_of(id)
            && let Some(in_kernel) = &mut self.switches.in_kernel
            && let Some(switch) = in_kernel.get_mut(index)
        {
            switch.wait_for_announcement(io);
        }
    }

    /// Counts bytes that were read from a switch.
    #[inline]
    pub(super) fn count_received_beside_kernel(&mut self, id: ConnId, bytes: usize) {
        if self.switches.in_kernel.is_some()
            && let Some(session) = self.kernel_session(id)
        {
            session.count_received(bytes);
        }
    }

    /// Counts bytes that were written to a switch.
    #[inline]
    pub(super) fn count_sent_beside_kernel(&mut self, id: ConnId, bytes: usize) {
        if self.switches.in_kernel.is_some()
            && bytes > 0
            && let Some(session) = self.kernel_session(id)
        {
            session.count_written(bytes);
        }
    }

    /// Whether the socket of a switch has not taken all answers of the kernel yet, so that the worker must not write. The switch becomes
    /// writable later then.
    #[inline]
    pub(super) fn waits_for_kernel(&mut self, io: &mut I, id: ConnId) -> bool {
        self.switches.in_kernel.is_some() && self.is_kernel_behind(io, id)
    }

    fn is_kernel_behind(&mut self, io: &mut I, id: ConnId) -> bool {
        // Closes the gate, so that it does not answer more.
        let Some(switch) = self.switches.get_mut(id) else { return false };
        let has_nothing = switch.buffers.transmit.is_empty();
        if has_nothing && self.tx.is_empty() && self.urgent.is_empty() {
            return false;
        }
        let Some(session) = self.kernel_session(id) else { return false };
        // A failed connection is reported by its next event.
        let is_sent = |socket| session.are_answers_sent(socket).unwrap_or(true);
        let is_behind = !io.plain_socket(id).is_none_or(is_sent);
        if is_behind {
            io.request_writable(id);
        }
        is_behind
    }

    /// Keeps what is in `tx` and `urgent` until the switch is writable.
    pub(super) fn keep_replies(&mut self, id: ConnId) {
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        if let Some(switch) = self.switches.get_mut(id) {
            switch.buffers.transmit.keep(&self.urgent, &self.tx);
            let backlog = switch.buffers.backlog();
            count_sent(counters, &switch.counters, 0, backlog, &mut self.backlog_count);
        }
        self.tx.clear();
        self.urgent.clear();
    }

    fn kernel_session(&mut self, id: ConnId) -> Option<&mut Session> {
        let index = self.switches.index_of(id)?;
        let switch = self.switches.in_kernel.as_mut()?.get_mut(index)?;
        Some(&mut switch.session)
    }

    /// Takes over from the program when hosts were seen.
    pub(super) fn update_from_kernel(&mut self) {
        if let Some(in_kernel) = &mut self.switches.in_kernel {
            self.app.update_from_answers(self.now, in_kernel);
        }
    }

    /// Finds out whether the kernel still answers. Four times a second.
    pub(super) fn check_kernel(&mut self) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if in_kernel.has_failed || !in_kernel.answers.has_failed() {
            return;
        }
        in_kernel.has_failed = true;
        tracing::warn!(
            "the kernel had no memory for an answer: the worker answers everything from now on"
        );
        self.close_all_gates();
    }

    /// Closes the gates of all switches, which are opened again at the end of an iteration.
    pub(super) fn close_all_gates(&mut self) {
        if self.switches.in_kernel.is_some() {
            for id in self.switches.ids() {
                let _ = self.switches.get_mut(id);
            }
        }
    }

    /// Publishes what has changed, and opens the gates of the switches that were closed and for which nothing waits. The last thing of an
    /// iteration.
    pub(super) fn open_gates(&mut self, io: &mut I) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if in_kernel.closed.is_empty() {
            return;
        }
        let mut closed = std::mem::take(&mut in_kernel.closed);
        for id in closed.drain(..) {
            if !self.open_gate(io, id) {
                self.disconnect(io, id, CloseReason::AnswerLost);
            }
        }
        if let Some(in_kernel) = &mut self.switches.in_kernel {
            in_kernel.closed = closed;
        }
    }

    /// Opens the gate of a switch if nothing waits for it. Returns `false` if its stream has a gap.
    fn open_gate(&mut self, io: &mut I, id: ConnId) -> bool {
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some((switch, in_kernel)) = self.switches.get_with_kernel(id) else { return true };
        let (index, has_failed) = (switch.index, in_kernel.has_failed);
        let Some(of_kernel) = in_kernel.get_mut(index) else { return true };
        of_kernel.is_listed = false;
        if of_kernel.session.has_failed() {
            return false;
        }
        if has_failed || of_kernel.has_arrived {
            let is_sent = |socket| of_kernel.session.are_answers_sent(socket).unwrap_or(true);
            if !io.plain_socket(id).is_none_or(is_sent) {
                return !has_failed;
            }
            of_kernel.has_arrived = false;
        }
        let answered = of_kernel.session.answered();
        let before = std::mem::replace(&mut of_kernel.counted, answered);
        let packet_ins = answered.packet_ins - before.packet_ins;
        if packet_ins > 0 {
            switch.session.record_activity(self.now);
            let version = switch.session.version();
            counters.message_received(version, MessageType::PACKET_IN, packet_ins);
            counters.packet_ins_in_kernel.add(packet_ins);
            counters.bytes_received.add(answered.received_bytes - before.received_bytes);
            counters.bytes_sent.add(answered.sent_bytes - before.sent_bytes);
            switch.counters.packet_ins_received.add(packet_ins);
            switch.counters.messages_received.add(packet_ins);
            switch.counters.bytes_received.add(answered.received_bytes - before.received_bytes);
            switch.counters.bytes_sent.add(answered.sent_bytes - before.sent_bytes);
        }
        self.app.publish_answers(index, in_kernel);
        // Captures get every packet-in.
        if !has_failed
            && self.captures.is_empty()
            && switch.is_idle()
            && let Some(of_kernel) = in_kernel.get_mut(index)
        {
            of_kernel.session.open(switch.session.next_xid());
        }
        // Should an announcement have been lost.
        if let Some(of_kernel) = in_kernel.get_mut(index)
            && of_kernel.session.unread_bytes() > 0
        {
            of_kernel.wait_for_socket(io);
        }
        true
    }
}
