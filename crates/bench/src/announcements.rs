//! The announcements of hosts, by which the controller learns where they are.

use std::time::Duration;

use sluice_io::Io;

use crate::Error;
use crate::bench_switch::BenchSwitch;
use crate::connect::GeneratorIo;
use crate::generator::Generator;
use crate::plan::Announce;
use crate::requests::RequestTemplates;

/// Unanswered announcements of one switch.
const UNANSWERED_ANNOUNCEMENTS_MAX: u64 = 1024;

/// If no announcement is answered for this long, more are sent anyway.
const ANNOUNCE_QUIET: Duration = Duration::from_millis(250);

/// The same for a controller that has answered one: it may be late, as it has to enlarge tables or to collect garbage.
const ANNOUNCE_LATE: Duration = Duration::from_secs(1);

/// How long announcements are sent. Hosts that are not announced by then are not used.
const ANNOUNCE_MAX: Duration = Duration::from_secs(20);

/// How much longer for each host of all switches, also those of other threads.
const ANNOUNCE_MAX_PER_HOST: Duration = Duration::from_micros(10);

/// Progress of the announcements of all switches of a thread.
///
/// # Cost
/// Constant for each switch that has received something, however many switches there are.
#[derive(Debug)]
struct Announcements {
    /// Hosts per switch.
    hosts: u32,
    switches: Vec<SwitchAnnouncements>,
    /// Messages received that are replies.
    replies: u64,
    /// Number of switches that have announcements to send.
    unsent: usize,
    /// Number of switches with fewer replies than announcements.
    unanswered: usize,
}

/// What is known of one switch.
#[derive(Debug, Clone, Copy, Default)]
struct SwitchAnnouncements {
    replies: u64,
    is_unsent: bool,
    is_unanswered: bool,
}

impl Announcements {
    fn new(hosts: u32, switches: usize) -> Self {
        let switches = vec![SwitchAnnouncements::default(); switches];
        Self { hosts, switches, replies: 0, unsent: 0, unanswered: 0 }
    }

    /// Sends the announcements of switch `at` of which at most `unanswered_max` are not answered then.
    fn send(
        &mut self,
        at: usize,
        switch: &mut BenchSwitch,
        io: &mut impl Io,
        templates: &mut RequestTemplates,
        unanswered_max: u64,
    ) {
        let hosts = self.hosts;
        let replies = switch.counts.replies();
        while switch.conn.is_some() && switch.hosts_announced < hosts {
            let unanswered = u64::from(switch.hosts_announced).saturating_sub(replies);
            let n = u32::try_from(unanswered_max.saturating_sub(unanswered)).unwrap_or(u32::MAX);
            if n == 0 || !switch.flush(io) || !switch.announce_hosts(io, templates, n, hosts) {
                break;
            }
        }
        switch.flush(io);
        let is_connected = switch.conn.is_some();
        self.update(
            at,
            SwitchAnnouncements {
                replies,
                is_unsent: is_connected && (switch.hosts_announced < hosts || switch.has_unsent()),
                is_unanswered: is_connected && replies < switch.hosts_announced.into(),
            },
        );
    }

    fn update(&mut self, at: usize, new: SwitchAnnouncements) {
        let Some(known) = self.switches.get_mut(at) else { return };
        let old = std::mem::replace(known, new);
        self.replies += new.replies - old.replies;
        self.unsent = self.unsent + usize::from(new.is_unsent) - usize::from(old.is_unsent);
        self.unanswered =
            self.unanswered + usize::from(new.is_unanswered) - usize::from(old.is_unanswered);
    }
}

impl<I: GeneratorIo> Generator<I> {
    /// Lets every host announce itself, and waits until the controller has processed the announcements.
    ///
    /// The replies of the controller set the pace. If it does not reply, more announcements are sent after a while, and
    /// all of them after the second time.
    pub(crate) fn announce_hosts(&mut self) -> Result<(), Error> {
        if self.thread.plan.announce == Announce::NoHosts {
            return Ok(());
        }
        let mut announcements = Announcements::new(self.thread.plan.hosts, self.switches.len());
        let started_at = self.io.now();
        let plan = &self.thread.plan;
        let hosts = plan.hosts.saturating_mul(plan.switches);
        let sending_max = ANNOUNCE_MAX + ANNOUNCE_MAX_PER_HOST * hosts;
        let (mut replies, mut last_reply, mut quiet_periods) = (0, started_at, 0u64);
        (0..self.switches.len()).for_each(|at| self.pending.add(at));
        loop {
            let now = self.io.now();
            let is_over = now - started_at > sending_max;
            let quiet = if replies == 0 { ANNOUNCE_QUIET } else { ANNOUNCE_LATE };
            self.send_announcements(&mut announcements, quiet_periods, is_over);
            let all_sent = is_over || announcements.unsent == 0;
            if announcements.replies != replies {
                (replies, last_reply) = (announcements.replies, now);
            } else if now - last_reply >= quiet && !all_sent {
                (quiet_periods, last_reply) = (quiet_periods + 1, now);
                (0..self.switches.len()).for_each(|at| self.pending.add(at));
                continue;
            }
            if self.thread.shared.is_stopped()
                || now - started_at > 2 * sending_max
                || (all_sent && now - last_reply > quiet)
                || (all_sent && announcements.unanswered == 0)
            {
                return Ok(());
            }
            self.wait_and_receive(Some(last_reply + quiet), None)?;
        }
    }

    /// Sends the announcements of the pending switches that are allowed after so many periods without a reply.
    fn send_announcements(
        &mut self,
        announcements: &mut Announcements,
        quiet_periods: u64,
        is_over: bool,
    ) {
        let unanswered_max = match quiet_periods {
            _ if is_over => 0,
            0 | 1 => UNANSWERED_ANNOUNCEMENTS_MAX * (quiet_periods + 1),
            _ => u64::MAX,
        };
        while let Some(at) = self.pending.pop() {
            let Some(switch) = self.switches.get_mut(at) else { continue };
            let (io, templates) = (&mut self.io, &mut self.templates);
            announcements.send(at, switch, io, templates, unanswered_max);
        }
    }
}
