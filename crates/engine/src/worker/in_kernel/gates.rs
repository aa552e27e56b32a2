//! When the gates of switches are closed and opened.

use std::time::Duration;

use sluice_io::{ConnId, Io, UnsentCap};
use sluice_kernel::RelayQueue;
use sluice_sdk::App;

use crate::close_reason::CloseReason;
use crate::worker::{WorkerState, worker_counters};

/// Time for the answers that are behind the relay when it fails. Switches that do not get theirs have lost them, or do not read.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Hosts of a switch that may be published at any time.
pub(super) const PUBLICATIONS_AT_ONCE: u32 = 1024;

/// Time after the publication of more hosts before the next one of the same switch, for each host. Publishing takes some 50 ns per host, so
/// that it is a small part of the worker's time.
pub(super) const PAUSE_PER_HOST: Duration = Duration::from_micros(1);

/// Hosts that are published in one iteration, and those of one switch more: half a millisecond. Each gate counts as [`GATE_WEIGHT`] hosts more. The
/// other gates stay closed until the next iterations, so that reads wait no longer, however many gates a change has closed.
pub(super) const HOSTS_PER_ITERATION: u32 = 8192;

/// What the opening of a gate costs, in hosts.
const GATE_WEIGHT: u32 = 16;

impl<I: Io, A: App> WorkerState<I, A> {
    /// Finds out whether the kernel still answers, and whether the worker would be quicker. Four times a second.
    pub(in super::super) fn check_kernel(&mut self) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if in_kernel.failed_at.is_some() {
            return;
        }
        if !in_kernel.answers.has_failed() {
            let queue = in_kernel.answers.relay_queue();
            return self.check_crowding(queue);
        }
        in_kernel.failed_at = Some(self.now);
        tracing::warn!(
            "the kernel had no memory for an answer: the worker answers everything from now on"
        );
        self.close_all_gates();
    }

    /// Has the worker answer everything for a while if too many answers of the kernel have waited for each other. The ticks of the switches close their
    /// gates, over the next quarter of a second, and they are not opened again.
    pub(super) fn check_crowding(&mut self, queue: RelayQueue) {
        let worker = self.outgoing.worker();
        let counters = worker_counters(&self.registry, worker);
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        if let Some(pause) =
            in_kernel.crowding.update(queue, counters.packet_ins_of_worker(), self.now)
        {
            counters.kernel_pauses.add(1);
            if self.log_limit.allow(self.now) {
                tracing::info!(
                    worker,
                    ?pause,
                    "answers of the kernel wait for each other; the worker answers all its switches for a while"
                );
            }
        }
    }

    /// Closes the gates of all switches, which are opened again at the end of an iteration.
    pub(in super::super) fn close_all_gates(&mut self) {
        if self.switches.in_kernel.is_some() {
            for id in self.switches.ids() {
                let _ = self.switches.get_mut(id);
            }
        }
    }

    /// Closes the gates of the switches about which the program has something outdated: their ports, their hosts, or what an application sends to
    /// packets between them.
    pub(in super::super) fn close_outdated_gates(&mut self) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        let hosts = self.network.fast_path_hosts();
        let mut outdated = Vec::new();
        for index in hosts.take_changed_switches() {
            if let Some(switch) = in_kernel.get_mut(index)
                // Without hosts, the program answers nothing.
                && (switch.session.host_count() > 0 || hosts.have_changed(index))
            {
                outdated.push(switch.id);
            }
        }
        for id in outdated {
            let _ = self.switches.get_mut(id);
        }
    }

    /// Publishes what has changed, and opens the gates of the switches that were closed and for which nothing waits: as many as there is time for.
    /// The last thing of an iteration.
    pub(in super::super) fn open_gates(&mut self, io: &mut I) {
        let mut work = 0;
        while work < HOSTS_PER_ITERATION
            && let Some(in_kernel) = &mut self.switches.in_kernel
            && let Some(id) = in_kernel.closed.pop_front()
        {
            let before = in_kernel.publications;
            if !self.open_gate(io, id) {
                self.disconnect(io, id, CloseReason::AnswerLost);
            }
            let in_kernel = self.switches.in_kernel.as_ref();
            let published = in_kernel.map_or(0, |it| it.publications.wrapping_sub(before));
            work += GATE_WEIGHT + published;
        }
    }

    /// Opens the gate of a switch if nothing waits for it. Returns `false` if its stream has a gap.
    fn open_gate(&mut self, io: &mut I, id: ConnId) -> bool {
        let counters = worker_counters(&self.registry, self.outgoing.worker());
        let Some((switch, in_kernel)) = self.switches.get_with_kernel(id) else { return true };
        let (index, failed_at, now) = (switch.index, in_kernel.failed_at, self.now);
        let is_crowded = !in_kernel.crowding.may_answer(now);
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
        // Answers that wait for each other are late without waiting for a processor.
        let pause = of_kernel.lateness.update(of_kernel.session.waits(), is_crowded, now);
        if let Some(pause) = pause {
            counters.kernel_pauses.add(1);
            let dpid = switch.datapath_id;
            if self.log_limit.allow(now) {
                tracing::info!(%dpid, ?pause, "answers of the kernel wait for a processor; the worker answers for a while");
            }
        }
        switch.buffers.expire_slowness(io, id, now);
        // Captures get every packet-in.
        let may_open = failed_at.is_none()
            && !is_crowded
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
