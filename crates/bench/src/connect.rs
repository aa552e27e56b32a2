//! Preparation of a measurement: connections, handshakes, host announcements.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_io::{ConnId, Epoll, Io, clock, sock};

use crate::Error;
use crate::generator::Generator;
use crate::plan::{Announce, Plan};

/// Connections that one thread opens at a time. With more, a controller with a short accept backlog loses some.
pub(crate) const CONNECTING_MAX: usize = 64;

/// Unanswered announcements of one switch.
const UNANSWERED_ANNOUNCEMENTS_MAX: u64 = 1024;

/// If no announcement is answered for this long, more are sent anyway.
const ANNOUNCE_QUIET: Duration = Duration::from_millis(250);

/// How long announcements are sent. Hosts that are not announced by then are not used.
const ANNOUNCE_MAX: Duration = Duration::from_secs(20);

/// Connections that a generator opens.
pub(crate) trait GeneratorIo: Io {
    /// Reads the clock, as [`now`](Io::now) does, also while an event is borrowed.
    type Clock: Fn() -> Instant;

    /// The clock.
    fn clock(&self) -> Self::Clock;

    /// Starts to open a connection; [`Connected`](sluice_io::IoEvent::Connected) or [`Closed`](sluice_io::IoEvent::Closed) follows.
    ///
    /// # Errors
    /// Those of the operating system; `NotFound` if it does not have the congestion control.
    fn connect(&mut self, target: SocketAddr, socket: &sock::Options) -> io::Result<ConnId>;

    /// The options of a connection as the kernel has them; `None` if there is no such connection, or no kernel.
    fn effective_options(&mut self, id: ConnId) -> Option<sock::EffectiveOptions> {
        let _ = id;
        None
    }
}

impl GeneratorIo for Epoll {
    type Clock = fn() -> Instant;

    fn clock(&self) -> Self::Clock {
        clock::now
    }

    fn connect(&mut self, target: SocketAddr, socket: &sock::Options) -> io::Result<ConnId> {
        self.adopt_connecting(sock::start_connect(target, socket)?)
    }

    fn effective_options(&mut self, id: ConnId) -> Option<sock::EffectiveOptions> {
        Self::effective_options(self, id)
    }
}

impl<I: GeneratorIo> Generator<I> {
    /// Connects all switches of this thread and completes their handshakes.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let started_at = self.io.now();
        let due = |index: u32| started_at + plan.connect_gap * (index / plan.connect_group);
        let deadline = due(plan.switches - 1) + plan.handshake_timeout;
        let mut next = 0;
        loop {
            let now = self.io.now();
            while let Some(index) = self.switches.get(next).map(|switch| switch.index) {
                let recent = self.switches.get(..next).unwrap_or_default().iter().rev();
                let connecting =
                    recent.take(CONNECTING_MAX * 2).map(|s| &s.lifecycle).filter(|lifecycle| {
                        lifecycle.connected.is_none() && lifecycle.disconnect_reason.is_none()
                    });
                if now < due(index) || connecting.count() >= CONNECTING_MAX {
                    break;
                }
                self.start_connect(&plan, next)?;
                next += 1;
            }
            let is_waiting = self.switches.iter().any(|switch| {
                switch.lifecycle.ready.is_none() && switch.lifecycle.disconnect_reason.is_none()
            });
            if !is_waiting || now >= deadline || self.shared.is_stopped() {
                break;
            }
            let wake = self.switches.get(next).map(|s| due(s.index)).filter(|&due| due > now);
            self.run_iteration(wake.into_iter().chain([deadline]).min(), None)?;
            self.publish_sessions();
        }
        self.check_connected()?;
        self.publish_sessions();
        let until = self.io.now() + plan.delay;
        while self.io.now() < until {
            self.run_iteration(Some(until), None)?;
        }
        Ok(())
    }

    fn start_connect(&mut self, plan: &Plan, at: usize) -> Result<(), Error> {
        let Some(switch) = self.switches.get_mut(at) else { return Ok(()) };
        let target = plan.targets.get(switch.index as usize % plan.targets.len().max(1));
        let Some(&target) = target else { return Ok(()) };
        switch.lifecycle.connect_started = Some(self.io.now());
        let id = self.io.connect(target, &plan.socket).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::Congestion(plan.socket.congestion.clone().unwrap_or_default(), e)
            }
            _ => Error::ConnectFailed(target, e),
        })?;
        switch.conn = Some(id);
        if self.by_slot.len() <= id.slot() {
            self.by_slot.resize(id.slot() + 1, usize::MAX);
        }
        if let Some(slot) = self.by_slot.get_mut(id.slot()) {
            *slot = at;
        }
        Ok(())
    }

    /// Fails unless at least one switch completed the handshake.
    fn check_connected(&self) -> Result<(), Error> {
        if self.switches.iter().any(|s| s.conn.is_some() && s.lifecycle.ready.is_some()) {
            return Ok(());
        }
        let connected = self.switches.iter().filter(|s| s.lifecycle.connected.is_some()).count();
        let mut reasons = self.switches.iter().rev().map(|s| &s.lifecycle.disconnect_reason);
        let reason = reasons.find_map(Clone::clone);
        if connected == 0 {
            let target = self.plan.targets.first().copied();
            let target = target.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
            let reason = reason.unwrap_or_else(|| "no answer".into());
            return Err(Error::ConnectFailed(target, io::Error::other(reason)));
        }
        Err(Error::HandshakeFailed {
            switches: u32::try_from(self.switches.len()).unwrap_or(u32::MAX),
            connected: u32::try_from(connected).unwrap_or(u32::MAX),
            after_s: self.plan.handshake_timeout.as_secs(),
            reason,
        })
    }

    /// Lets every host announce itself, and waits until the controller has processed the announcements.
    ///
    /// The replies of the controller set the pace. If it does not reply, more announcements are sent after a while, and
    /// all of them after the second time.
    pub(crate) fn announce_hosts(&mut self) -> Result<(), Error> {
        if self.plan.announce == Announce::NoHosts {
            return Ok(());
        }
        let started_at = self.io.now();
        let (mut replies, mut last_reply, mut quiet_periods) = (self.replies(), started_at, 0u64);
        loop {
            let now = self.io.now();
            let is_over = now - started_at > ANNOUNCE_MAX;
            let periods = if quiet_periods >= 2 { u64::MAX } else { quiet_periods };
            let all_sent = is_over || self.send_announcements(periods);
            if self.shared.is_stopped()
                || now - started_at > 2 * ANNOUNCE_MAX
                || (all_sent && now - last_reply > ANNOUNCE_QUIET)
                || (all_sent && self.all_answered())
            {
                return Ok(());
            }
            let now = self.run_iteration(Some(last_reply + ANNOUNCE_QUIET), None)?;
            if self.replies() != replies {
                (replies, last_reply) = (self.replies(), now);
            } else if now - last_reply >= ANNOUNCE_QUIET && !all_sent {
                (quiet_periods, last_reply) = (quiet_periods + 1, now);
            }
        }
    }

    /// Sends the announcements that are allowed after so many periods without a reply; `true` if all are sent.
    fn send_announcements(&mut self, quiet_periods: u64) -> bool {
        let hosts = self.plan.hosts;
        let allowed = UNANSWERED_ANNOUNCEMENTS_MAX.saturating_mul(quiet_periods.saturating_add(1));
        let mut all_sent = true;
        for switch in &mut self.switches {
            while switch.conn.is_some() && switch.hosts_announced < hosts {
                let unanswered =
                    u64::from(switch.hosts_announced).saturating_sub(switch.counts.replies());
                let n = u32::try_from(allowed.saturating_sub(unanswered)).unwrap_or(u32::MAX);
                if n == 0 || !switch.flush(&mut self.io) {
                    break;
                }
                if !switch.announce_hosts(&mut self.io, &mut self.templates, n, hosts) {
                    break;
                }
            }
            let is_done = switch.hosts_announced >= hosts && !switch.has_unsent();
            all_sent &= is_done || switch.conn.is_none();
        }
        all_sent
    }

    fn replies(&self) -> u64 {
        self.switches.iter().map(|switch| switch.counts.replies()).sum()
    }

    fn all_answered(&self) -> bool {
        let mut connected = self.switches.iter().filter(|switch| switch.conn.is_some());
        connected.all(|switch| switch.counts.replies() >= switch.hosts_announced.into())
    }
}
