//! Answers that the kernel gives in the place of a worker. `sluice_kernel` has the program and the protocol.
//!
//! Whenever the worker does anything with a switch, the gate of its session is closed first ([`Switches::get_mut`]), so that transaction ids
//! and the order of messages stay right. At the end of the iteration, what the application has changed is published, and the gates are opened
//! again of those switches for which nothing waits.
//!
//! [`Switches::get_mut`]: super::switches::Switches::get_mut

mod cache;
mod crowding;
mod gates;
mod lateness;
mod pauses;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_io::{ConnId, Io, ReadEvents, UnsentCap};
use sluice_kernel::{Answered, Closed, Session, WorkerAnswers};
use sluice_openflow::{MessageType, Version};
use sluice_proto::ControllerSession;
use sluice_sdk::{App, SwitchIndex};

use super::switches::ConnectedSwitch;
use super::{WorkerState, count_sent, worker_counters};
use crate::counters::ThreadCounters;
use crate::deadlines::Deadlines;
use crate::switch_counters::SwitchCounters;
use crowding::Crowding;
use lateness::Lateness;

/// When the worker looks first whether a socket has taken the answers of the program. The time doubles while it has not.
const RETRY_MIN: Duration = Duration::from_micros(50);
const RETRY_MAX: Duration = Duration::from_millis(64);

/// How long no switch is attached after one was refused.
const ATTACH_RETRY: Duration = Duration::from_secs(10);

/// The part of the program that belongs to a worker, and its switches.
#[derive(Debug)]
pub(super) struct InKernel {
    answers: WorkerAnswers,
    /// By index.
    switches: Vec<Option<KernelSwitch>>,
    /// By slot of the session.
    indices: HashMap<u16, SwitchIndex>,
    /// Switches whose gates are closed, and may be opened at the end of this iteration or of a later one.
    closed: VecDeque<ConnId>,
    /// Switches whose sockets have not taken all answers of the program, while the worker has something to send.
    behind: Deadlines<ConnId>,
    /// Since then, the kernel answers nothing any more: no gate is opened.
    failed_at: Option<Instant>,
    /// Whether too many answers wait for each other.
    crowding: Crowding,
    /// No switch is attached before.
    next_attach_at: Option<Instant>,
    /// Hosts published since the start.
    publications: u32,
    /// There may be reports that were not handled in this iteration.
    has_more_reports: bool,
    /// How often the worker may still let threads run in this iteration that are just writing a report.
    yields_left: u32,
}

/// A session that the program has with a switch, which goes along when the switch moves to another worker.
#[derive(Debug)]
pub(crate) struct KernelSession {
    session: Session,
    lateness: Lateness,
}

#[derive(Debug)]
struct KernelSwitch {
    session: Session,
    id: ConnId,
    read_events: ReadEvents,
    /// It is among the closed ones.
    is_listed: bool,
    /// Answers that its last worker has caused may be on their way. Those of this worker would take another one.
    has_arrived: bool,
    /// What has been counted.
    counted: Answered,
    /// How many answers the applications know of, if each is reported.
    reported: Option<u64>,
    /// It is among those that are behind.
    is_behind: bool,
    /// How long the worker waits before it looks the next time whether the socket has taken all answers.
    retry: Duration,
    /// Hosts are not published before.
    next_publication_at: Option<Instant>,
    lateness: Lateness,
}

impl InKernel {
    /// Answers of a worker, which are announced to `io`.
    ///
    /// # Errors
    /// Those of [`Io::wake_by`] and [`Io::wake_once_by`].
    pub(super) fn new(answers: WorkerAnswers, io: &mut impl Io) -> io::Result<Self> {
        io.wake_by(answers.as_fd())?;
        io.wake_once_by(answers.reports())?;
        let (switches, indices, closed) = (Vec::new(), HashMap::default(), VecDeque::new());
        let crowding = Crowding::new(answers.relay_queue());
        Ok(Self {
            answers,
            switches,
            indices,
            closed,
            behind: Deadlines::default(),
            failed_at: None,
            crowding,
            next_attach_at: None,
            publications: 0,
            has_more_reports: false,
            yields_left: reports::YIELDS_PER_ITERATION,
        })
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
        self.closed.push_back(id);
    }

    fn insert(
        &mut self,
        (index, id): (SwitchIndex, ConnId),
        KernelSession { session, lateness }: KernelSession,
        has_arrived: bool,
    ) {
        if self.switches.len() <= index.index() {
            self.switches.resize_with(index.index() + 1, || None);
        }
        self.indices.insert(session.slot(), index);
        if let Some(slot) = self.switches.get_mut(index.index()) {
            let counted = session.answered();
            *slot = Some(KernelSwitch {
                session,
                id,
                read_events: ReadEvents::WhileReadable,
                is_listed: false,
                has_arrived,
                counted,
                reported: None,
                is_behind: false,
                retry: RETRY_MIN,
                next_publication_at: None,
                lateness,
            });
        }
    }

    /// Whether there is work for the next iteration, which is to begin at once: gates to be opened, or reports.
    pub(super) fn has_work(&self) -> bool {
        !self.closed.is_empty() || self.has_more_reports
    }

    /// When a switch that is behind should be looked at.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.behind.next()
    }

    /// Counts what the program has answered to a switch since the last call. Returns whether that is anything.
    pub(super) fn count_answered(
        &mut self,
        index: SwitchIndex,
        version: Version,
        worker: &ThreadCounters,
        counters: &SwitchCounters,
    ) -> bool {
        let Some(switch) = self.get_mut(index) else { return false };
        let answered = switch.session.answered();
        let before = std::mem::replace(&mut switch.counted, answered);
        let packet_ins = answered.packet_ins - before.packet_ins;
        if packet_ins == 0 {
            return false;
        }
        let received_bytes = answered.received_bytes - before.received_bytes;
        let sent_bytes = answered.sent_bytes - before.sent_bytes;
        worker.message_received(version, MessageType::PACKET_IN, packet_ins);
        worker.packet_ins_in_kernel.add(packet_ins);
        worker.bytes_received.add(received_bytes);
        worker.bytes_sent.add(sent_bytes);
        counters.packet_ins_received.add(packet_ins);
        counters.packet_ins_in_kernel.add(packet_ins);
        counters.messages_received.add(packet_ins);
        counters.bytes_received.add(received_bytes);
        counters.bytes_sent.add(sent_bytes);
        true
    }

    /// Removes a switch that has disconnected.
    pub(super) fn remove(&mut self, index: SwitchIndex) -> Option<KernelSession> {
        let KernelSwitch { session, id, lateness, .. } =
            self.switches.get_mut(index.index())?.take()?;
        self.indices.remove(&session.slot());
        self.behind.remove(id);
        Some(KernelSession { session, lateness })
    }

    /// Removes a switch that moves to another worker.
    pub(super) fn release(&mut self, index: SwitchIndex) -> Option<KernelSession> {
        let mut released = self.remove(index)?;
        released.session.cancel_announcement();
        self.answers.release(&mut released.session);
        Some(released)
    }
}

impl KernelSwitch {
    /// After the switch was readable and there was nothing to read: the program has answered what it has sent, or what it has passed to the
    /// worker waits in the kernel behind answers that are not sent.
    fn on_nothing_received(&mut self, io: &mut impl Io) {
        if self.session.unread_bytes() > 0 {
            return self.set_read_events(io, ReadEvents::OnArrival);
        }
        if !self.session.is_open() {
            return self.set_read_events(io, ReadEvents::WhileReadable);
        }
        // Answers do not wake the worker from now on, but an announcement does.
        self.session.request_announcement();
        self.set_read_events(io, ReadEvents::Off);
        self.read_unread(io);
    }

    /// Reads what was passed before an announcement was requested, or whose announcement was lost.
    fn read_unread(&mut self, io: &mut impl Io) {
        if self.read_events == ReadEvents::Off && self.session.unread_bytes() > 0 {
            self.read(io);
        }
    }

    /// Reads from the switch while it is readable.
    fn read(&mut self, io: &mut impl Io) {
        if self.read_events == ReadEvents::Off {
            self.session.cancel_announcement();
        }
        self.set_read_events(io, ReadEvents::WhileReadable);
    }

    fn set_read_events(&mut self, io: &mut impl Io, events: ReadEvents) {
        if std::mem::replace(&mut self.read_events, events) != events {
            io.set_read_events(self.id, events);
        }
    }

    /// Whether the socket has taken all answers of the program.
    fn are_answers_sent(&mut self, io: &impl Io) -> bool {
        // A failed connection is reported by its next event.
        let is_sent = |socket| self.session.are_answers_sent(socket).unwrap_or(true);
        io.plain_socket(self.id).is_none_or(is_sent)
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Has the program see what a switch sends that has connected here, or takes over its session from the worker that had it before.
    pub(super) fn begin_kernel_session(
        &mut self,
        io: &mut I,
        id: ConnId,
        released: Option<KernelSession>,
    ) {
        let Some(mut released) = released else { return self.attach_to_kernel(io, id) };
        if let Some(index) = self.switches.index_of(id)
            && let Some(in_kernel) = &mut self.switches.in_kernel
        {
            in_kernel.answers.adopt(&mut released.session);
            in_kernel.insert((index, id), released, true);
            io.set_read_events(id, ReadEvents::WhileReadable);
        }
    }

    /// Has the program see what a switch sends from now on, unless it does so or cannot. Nothing is unread, since the program would get the
    /// whole of a buffer of which a part was read.
    pub(super) fn attach_to_kernel(&mut self, io: &mut I, id: ConnId) {
        let Some(index) = self.switches.index_of(id) else { return };
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        let is_attached = in_kernel.get_mut(index).is_some();
        let is_too_early = in_kernel.next_attach_at.is_some_and(|at| at > self.now);
        if is_attached || is_too_early || in_kernel.failed_at.is_some() {
            return;
        }
        // They may begin to publish later, by another configuration.
        if !self.app.can_publish_answers() {
            return;
        }
        if io.plain_socket(id).is_none() || io.unread_bytes(id) > 0 {
            return;
        }
        let Some(socket) = io.plain_socket(id) else { return };
        match in_kernel.answers.attach(&socket) {
            Ok(session) => {
                let attached = KernelSession { session, lateness: Lateness::default() };
                in_kernel.insert((index, id), attached, false);
                io.set_read_events(id, ReadEvents::WhileReadable);
                // Of the system's default, the program knows nothing.
                io.set_unsent_cap(id, UnsentCap::Off);
            }
            // The worker answers.
            Err(error) => {
                // Other errors are those of this switch, which is about to end.
                if is_full(&error) {
                    in_kernel.next_attach_at = Some(self.now + ATTACH_RETRY);
                }
                tracing::debug!(%error, "a switch gets no answers from the kernel");
            }
        }
    }

    /// Reads from the switches that have sent something for the worker, from now on. While a queue is full, nothing is read.
    #[inline]
    pub(super) fn read_announced(&mut self, io: &mut I) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if self.outgoing.is_congested() {
            return;
        }
        while let Some(slot) = in_kernel.answers.next_announced() {
            if let Some(&index) = in_kernel.indices.get(&slot)
                && let Some(switch) = in_kernel.get_mut(index)
            {
                switch.read(io);
            }
        }
    }

    /// The worker was woken by a switch that it can read nothing from.
    pub(super) fn on_nothing_received(&mut self, io: &mut I, id: ConnId) {
        if let Some(switch) = self.kernel_switch(id) {
            switch.on_nothing_received(io);
        }
    }

    /// Ends the session of a switch that has disconnected.
    pub(super) fn remove_from_kernel(&mut self, switch: &ConnectedSwitch) {
        self.count_last_answers(switch);
        drop(self.switches.in_kernel.as_mut().and_then(|it| it.remove(switch.index)));
    }

    /// The session of a switch that moves to another worker.
    pub(super) fn release_from_kernel(
        &mut self,
        switch: &ConnectedSwitch,
    ) -> Option<KernelSession> {
        self.count_last_answers(switch);
        self.switches.in_kernel.as_mut().and_then(|it| it.release(switch.index))
    }

    fn count_last_answers(&mut self, switch: &ConnectedSwitch) {
        let in_kernel = self.switches.in_kernel.as_mut();
        if let Some(of_kernel) = in_kernel.and_then(|it| it.get_mut(switch.index)) {
            of_kernel.session.close();
            self.take_reports(switch.index);
        }
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        if let Some(in_kernel) = &mut self.switches.in_kernel {
            let version = switch.session.version();
            in_kernel.count_answered(switch.index, version, counters, &switch.counters);
        }
    }

    /// Counts bytes that were read from a switch.
    #[inline]
    pub(super) fn count_received_beside_kernel(&mut self, io: &mut I, id: ConnId, bytes: usize) {
        if self.switches.in_kernel.is_some()
            && let Some(switch) = self.kernel_switch(id)
        {
            switch.session.count_received(bytes);
            switch.read(io);
        }
    }

    /// Counts bytes that were written to a switch.
    #[inline]
    pub(super) fn count_sent_beside_kernel(&mut self, id: ConnId, bytes: usize) {
        if self.switches.in_kernel.is_some()
            && bytes > 0
            && let Some(switch) = self.kernel_switch(id)
        {
            switch.session.count_written(bytes);
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
        let index = switch.index;
        let Some(in_kernel) = &mut self.switches.in_kernel else { return false };
        let Some(switch) = in_kernel.get_mut(index) else { return false };
        let is_sent = switch.are_answers_sent(io);
        let was_behind = std::mem::replace(&mut switch.is_behind, !is_sent);
        if is_sent {
            switch.retry = RETRY_MIN;
            if was_behind {
                in_kernel.behind.remove(id);
            }
        } else if !was_behind {
            let retry = switch.retry;
            switch.retry = (retry * 2).min(RETRY_MAX);
            in_kernel.behind.set(id, self.now + retry);
        }
        !is_sent
    }

    /// Sends what waits for switches whose sockets may have taken all answers of the program by now.
    pub(super) fn retry_behind(&mut self, io: &mut I) {
        while let Some(in_kernel) = &mut self.switches.in_kernel
            && let Some(id) = in_kernel.behind.pop_due(self.now)
        {
            if let Some(switch) = self.kernel_switch(id) {
                switch.is_behind = false;
            }
            self.flush_switch(io, id);
        }
    }

    /// Keeps what is in `tx` and `urgent` until the socket has taken all answers of the program.
    pub(super) fn keep_replies(&mut self, io: &mut I, id: ConnId) {
        if let Some(switch) = self.switches.get_mut(id) {
            switch.buffers.transmit.keep(&self.urgent, &self.tx);
        }
        self.tx.clear();
        self.urgent.clear();
        self.update_backlog(io, id);
    }

    /// Counts the backlog of a switch that nothing could be sent to, and has back-pressure follow from it.
    pub(super) fn update_backlog(&mut self, io: &mut I, id: ConnId) {
        let limits = self.backlog_limits();
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        if let Some(switch) = self.switches.get_mut(id) {
            switch.buffers.update_backpressure(io, id, self.now, 0, limits);
            let backlog = switch.buffers.backlog();
            count_sent(counters, &switch.counters, 0, backlog, &mut self.backlog_count);
        }
    }

    fn kernel_switch(&mut self, id: ConnId) -> Option<&mut KernelSwitch> {
        let index = self.switches.index_of(id)?;
        self.switches.in_kernel.as_mut()?.get_mut(index)
    }
}

/// Whether there is no room for a further switch.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::ArgumentListTooLong)
}
