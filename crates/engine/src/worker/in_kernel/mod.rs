//! Answers that the kernel gives in the place of a worker. `sluice_kernel` has the program and the protocol.
//!
//! Whenever the worker does anything with a switch, the gate of its session is closed first ([`Switches::get_mut`]), so that transaction ids
//! and the order of messages stay right. At the end of the iteration, what the application has changed is published, and the gates are opened
//! again of those switches for which nothing waits.
//!
//! [`Switches::get_mut`]: super::switches::Switches::get_mut

mod lateness;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sluice_base::HashMap;
use sluice_io::{ConnId, Io, ReadEvents, UnsentCap};
use sluice_kernel::{AnswerForm, AnswerRule, Answered, Closed, Session, WorkerAnswers};
use sluice_openflow::{MacAddr, MessageType, PortNo, Version};
use sluice_proto::ControllerSession;
use sluice_sdk::{AnswerCache, AnsweredPacket, App, HostEntry, SwitchIndex};

use super::switches::ConnectedSwitch;
use super::{WorkerState, count_sent, worker_counters};
use crate::close_reason::CloseReason;
use crate::counters::ThreadCounters;
use crate::deadlines::Deadlines;
use crate::switch_counters::SwitchCounters;
use lateness::Lateness;

/// When the worker looks first whether a socket has taken the answers of the program. The time doubles while it has not.
const RETRY_MIN: Duration = Duration::from_micros(50);
const RETRY_MAX: Duration = Duration::from_millis(64);

/// Time for the answers that are behind the relay when it fails. Switches that do not get theirs have lost them, or do not read.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Hosts of a switch that may be published at any time.
const PUBLICATIONS_AT_ONCE: u32 = 1024;

/// Time after the publication of more hosts before the next one of the same switch, for each host. Publishing takes some 50 ns per host, so
/// that it is a small part of the worker's time.
const PAUSE_PER_HOST: Duration = Duration::from_micros(1);

/// Reading the whole table takes as long as the publication of so many hosts.
const WHOLE_TABLE: u32 = 16_384;

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
    /// Switches whose gates are closed, and may be opened at the end of the iteration.
    closed: Vec<ConnId>,
    /// Switches whose sockets have not taken all answers of the program, while the worker has something to send.
    behind: Deadlines<ConnId>,
    /// Since then, the kernel answers nothing any more: no gate is opened.
    failed_at: Option<Instant>,
    /// No switch is attached before.
    next_attach_at: Option<Instant>,
    /// Hosts published since the start.
    publications: u32,
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
    /// How many answers the application knows of, if each is reported.
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
    /// Those of [`Io::wake_by`].
    pub(super) fn new(answers: WorkerAnswers, io: &mut impl Io) -> io::Result<Self> {
        io.wake_by(answers.as_fd())?;
        let (switches, indices, closed) = (Vec::new(), HashMap::default(), Vec::new());
        Ok(Self {
            answers,
            switches,
            indices,
            closed,
            behind: Deadlines::default(),
            failed_at: None,
            next_attach_at: None,
            publications: 0,
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
        self.closed.push(id);
    }

    fn insert(&mut self, (index, id): (SwitchIndex, ConnId), session: Session, has_arrived: bool) {
        if self.switches.len() <= index.index() {
            self.switches.resize_with(index.index() + 1, || None);
        }
        self.indices.insert(session.slot(), index);
        if let Some(slot) = self.switches.get_mut(index.index()) {
            let (counted, lateness) = (session.answered(), Lateness::since(session.waits()));
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

    /// Whether there are answers that the application does not know of yet. The gate is closed.
    fn has_unknown_answers(&mut self, index: SwitchIndex) -> bool {
        self.get_mut(index).is_some_and(|switch| {
            let answered = || switch.session.answered().packet_ins;
            switch.reported.is_some_and(|reported| reported != answered())
        })
    }

    /// Removes a switch that has disconnected.
    pub(super) fn remove(&mut self, index: SwitchIndex) -> Option<Session> {
        let switch = self.switches.get_mut(index.index())?.take()?;
        self.indices.remove(&switch.session.slot());
        self.behind.remove(switch.id);
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
        let sluice_sdk::AnswerForm { version, flow_mod, packet_out, rule } = *form;
        let Some(switch) = self.get_mut(switch) else { return };
        let rule = match rule {
            sluice_sdk::AnswerRule::Hosts { timeout } => AnswerRule::Hosts { timeout },
            sluice_sdk::AnswerRule::Paths { hold_time } => AnswerRule::Paths { hold_time },
        };
        let is_reported = matches!(rule, AnswerRule::Paths { .. });
        let known = switch.reported.unwrap_or_else(|| switch.session.answered().packet_ins);
        switch.reported = is_reported.then_some(known);
        let version = version.0;
        switch.session.set_form(&AnswerForm { version, flow_mod, packet_out, rule });
    }

    fn publish(&mut self, switch: SwitchIndex, host: MacAddr, port: PortNo, tick: u16) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.publications = self.publications.wrapping_add(1);
            // Without room, the worker answers.
            self.answers.publish(&mut switch.session, host.0, port.0, tick);
        }
    }

    fn publish_path_host(&mut self, switch: SwitchIndex, host: MacAddr, entry: HostEntry) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.publications = self.publications.wrapping_add(1);
            let session = &mut switch.session;
            self.answers.publish_path_host(session, host.0, entry.bits());
        }
    }

    fn withdraw(&mut self, switch: SwitchIndex, host: MacAddr) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            self.answers.withdraw(&mut switch.session, host.0);
        }
    }

    fn withdraw_all(&mut self, switch: SwitchIndex) {
        if let Some(Some(switch)) = self.switches.get_mut(switch.index()) {
            if switch.session.host_count() > 0 {
                self.publications = self.publications.wrapping_add(WHOLE_TABLE);
            }
            self.answers.withdraw_all(&mut switch.session);
        }
    }

    fn hold(&mut self, hosts: [MacAddr; 2], until: Instant) {
        self.answers.hold(hosts.map(|host| host.0), until);
    }

    fn next_answered(&mut self) -> Option<AnsweredPacket> {
        loop {
            let report = self.answers.next_report()?;
            // Those of switches that are gone concern nobody.
            let Some(&index) = self.indices.get(&report.slot) else { continue };
            let Some(switch) = self.get_mut(index) else { continue };
            switch.reported = switch.reported.map(|reported| reported + 1);
            let (src, dst) = (MacAddr(report.src), MacAddr(report.dst));
            return Some(AnsweredPacket { switch: index, src, dst, at: report.at });
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
        if io.plain_socket(id).is_none() || io.unread_bytes(id) > 0 {
            return;
        }
        let Some(socket) = io.plain_socket(id) else { return };
        match in_kernel.answers.attach(&socket) {
            Ok(session) => {
                in_kernel.insert((index, id), session, false);
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
    pub(super) fn release_from_kernel(&mut self, switch: &ConnectedSwitch) -> Option<Session> {
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

    /// Has the application take over from the program what that has answered.
    pub(super) fn update_from_kernel(&mut self) {
        if let Some(in_kernel) = &mut self.switches.in_kernel {
            self.app.update_from_answers(self.now, &mut self.network, in_kernel);
        }
    }

    /// Closes the gate of a switch, and has the application take over all answers to it, before it handles anything of the switch.
    #[inline]
    pub(super) fn stop_kernel(&mut self, id: ConnId) {
        if self.switches.in_kernel.is_some()
            && let Some(switch) = self.switches.get_mut(id)
        {
            let index = switch.index;
            self.take_reports(index);
        }
    }

    /// Has the application take over all answers to a switch, whose gate is closed. Reports of other switches may be before its own, and
    /// be written just now by other processors.
    fn take_reports(&mut self, index: SwitchIndex) {
        while self.switches.in_kernel.as_mut().is_some_and(|it| it.has_unknown_answers(index)) {
            self.update_from_kernel();
            if self.switches.in_kernel.as_mut().is_some_and(|it| it.has_unknown_answers(index)) {
                std::thread::yield_now();
            }
        }
    }

    /// Closes the gates of the switches about which the program may have something outdated.
    pub(super) fn close_outdated_gates(&mut self) {
        let Some(in_kernel) = &self.switches.in_kernel else { return };
        let changed = self.network.fast_path_hosts().take_changed_switches();
        if self.network.take_new_facts() {
            return self.close_all_gates();
        }
        let id_of = |index: SwitchIndex| Some(in_kernel.switches.get(index.index())?.as_ref()?.id);
        let changed: Vec<ConnId> = changed.into_iter().filter_map(id_of).collect();
        for id in changed {
            let _ = self.switches.get_mut(id);
        }
    }

    /// Finds out whether the kernel still answers. Four times a second.
    pub(super) fn check_kernel(&mut self) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if in_kernel.failed_at.is_some() || !in_kernel.answers.has_failed() {
            return;
        }
        in_kernel.failed_at = Some(self.now);
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
            closed.append(&mut in_kernel.closed);
            in_kernel.closed = closed;
        }
    }

    /// Opens the gate of a switch if nothing waits for it. Returns `false` if its stream has a gap.
    fn open_gate(&mut self, io: &mut I, id: ConnId) -> bool {
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some((switch, in_kernel)) = self.switches.get_with_kernel(id) else { return true };
        let (index, failed_at, now) = (switch.index, in_kernel.failed_at, self.now);
        let Some(of_kernel) = in_kernel.get_mut(index) else { return true };
        of_kernel.is_listed = false;
        if of_kernel.session.has_failed() {
            return false;
        }
        of_kernel.read_unread(io);
        if failed_at.is_some() || of_kernel.has_arrived {
            if !of_kernel.are_answers_sent(io) {
                return failed_at.is_none_or(|at| now - at < LAST_ANSWERS);
            }
            of_kernel.has_arrived = false;
        }
        if let Some(pause) = of_kernel.lateness.update(of_kernel.session.waits(), now) {
            counters.kernel_pauses.add(1);
            let dpid = switch.datapath_id;
            if self.log_limit.allow(now) {
                tracing::info!(%dpid, ?pause, "answers of the kernel wait for a processor; the worker answers for a while");
            }
        }
        // Captures get every packet-in.
        let may_open = failed_at.is_none()
            && of_kernel.lateness.may_answer(now)
            && self.captures.is_empty()
            && switch.is_idle()
            // With the cap, the socket may take nothing although it has room.
            && switch.buffers.backpressure.unsent_cap() == UnsentCap::Off
            && of_kernel.session.unread_bytes() == 0
            && of_kernel.next_publication_at.is_none_or(|at| at <= now);
        let version = switch.session.version();
        if in_kernel.count_answered(index, version, counters, &switch.counters) {
            switch.session.record_activity(now);
        }
        if !may_open {
            return true;
        }
        let before = in_kernel.publications;
        let may_answer = self.app.publish_answers(index, now, &mut self.network, in_kernel);
        let published = in_kernel.publications.wrapping_sub(before);
        if let Some(of_kernel) = in_kernel.get_mut(index) {
            let pause = (published > PUBLICATIONS_AT_ONCE).then(|| PAUSE_PER_HOST * published);
            of_kernel.next_publication_at = pause.map(|pause| now + pause);
            if may_answer {
                of_kernel.session.open(switch.session.next_xid());
            }
        }
        true
    }
}

/// Whether there is no room for a further switch.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::ArgumentListTooLong)
}
