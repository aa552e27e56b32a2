//! Reports of the program: of each answer by the rule [`AnswerRule::Paths`], which the applications handle as if they had answered then.
//!
//! [`AnswerRule::Paths`]: sluice_sdk::AnswerRule::Paths

use std::thread;

use sluice_io::{ConnId, Io};
use sluice_openflow::MacAddr;
use sluice_sdk::{AnsweredPacket, App, SwitchIndex};

use super::InKernel;
use crate::worker::WorkerState;

/// Reports that are handled at the beginning of an iteration, which takes a fraction of a millisecond. The others follow in the next ones.
pub(super) const REPORTS_PER_ITERATION: usize = 2048;

/// How often in an iteration a worker lets other threads run that are just writing a report, in all: ten thousand switches may disconnect at the same
/// time. Then it goes on: the applications may handle a message of the switch before they know of the last answer to it.
pub(super) const YIELDS_PER_ITERATION: u32 = 100;

impl InKernel {
    /// The next reported answer to a switch that is still there.
    fn next_answered(&mut self) -> Option<AnsweredPacket> {
        loop {
            let report = self.answers.next_report()?;
            if let Some(&switch) = self.indices.get(&report.slot)
                && let Some(of_kernel) = self.get_mut(switch)
            {
                of_kernel.reported = of_kernel.reported.map(|reported| reported + 1);
                let (src, dst) = (MacAddr(report.src), MacAddr(report.dst));
                return Some(AnsweredPacket { switch, src, dst, at: report.at });
            }
        }
    }

    /// Whether there are answers that the applications do not know of yet. The gate is closed.
    fn has_unknown_answers(&mut self, index: SwitchIndex) -> bool {
        self.get_mut(index).is_some_and(|switch| {
            let session = &switch.session;
            switch.reported.as_mut().is_some_and(|reported| {
                let answered = session.answered().packet_ins;
                // A report that came too late for the switch that had the slot before was counted for this one.
                *reported = (*reported).min(answered);
                *reported < answered
            })
        })
    }
}

impl<I: Io, A: App> WorkerState<I, A> {
    /// Has the applications take over what the program has answered: at the beginning of an iteration.
    pub(in super::super) fn update_from_kernel(&mut self) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        in_kernel.yields_left = YIELDS_PER_ITERATION;
        self.app.update_from_answers(self.now, in_kernel);
        for _ in 0..REPORTS_PER_ITERATION {
            let answered = in_kernel.next_answered();
            in_kernel.has_more_reports = answered.is_some();
            let Some(answered) = answered else { return };
            self.app.on_answered(&answered, &mut self.network);
        }
    }

    /// Closes the gate of a switch, and has the applications take over the answers to it, before they handle anything of the switch. Waits for
    /// those that are not reported yet, see [`YIELDS_PER_ITERATION`].
    #[inline]
    pub(in super::super) fn stop_kernel(&mut self, id: ConnId) {
        if self.switches.in_kernel.is_some()
            && let Some(switch) = self.switches.get_mut(id)
        {
            let index = switch.index;
            self.take_reports(index);
        }
    }

    /// Closes the gates of all switches, and has the applications take over all answers.
    pub(in super::super) fn stop_kernel_everywhere(&mut self) {
        if self.switches.in_kernel.is_some() {
            for id in self.switches.ids() {
                self.stop_kernel(id);
            }
        }
    }

    /// Has the applications take over all answers to a switch, whose gate is closed. Reports of other switches may be before its own: no more than
    /// the buffer has room for. One of them may just be written by another processor.
    pub(super) fn take_reports(&mut self, index: SwitchIndex) {
        let Some(in_kernel) = &mut self.switches.in_kernel else { return };
        while in_kernel.has_unknown_answers(index) {
            if let Some(answered) = in_kernel.next_answered() {
                self.app.on_answered(&answered, &mut self.network);
            } else if in_kernel.yields_left > 0 {
                in_kernel.yields_left -= 1;
                thread::yield_now();
            } else {
                return;
            }
        }
    }
}
