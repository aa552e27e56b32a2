//! Before the measurement: connections, handshakes, announcements.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use sluice_io::{clock, sock};

use crate::Error;
use crate::generator::Generator;
use crate::plan::{Announce, Plan};

/// Connections of one thread that are being opened at a time: with more, a controller with a short backlog loses some.
const CONNECTING_MAX: usize = 64;

/// Announcements of one switch that may be unanswered.
const ANNOUNCED_MAX: u64 = 1024;

/// How long no announcement may be answered before more are sent all the same.
const ANNOUNCE_QUIET: Duration = Duration::from_millis(250);

/// How long announcements are sent; a slower controller is measured with the hosts that it knows by then.
const ANNOUNCE_MAX: Duration = Duration::from_secs(20);

impl Generator {
    /// Connects all switches and sees them through the handshake.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let begun = clock::now();
        let due = |number: u32| begun + plan.connect_gap * (number / plan.connect_group);
        let last = due(plan.switches - 1);
        let deadline = last + plan.handshake_timeout;
        let mut next = 0;
        loop {
            let now = clock::now();
            while let Some(number) = self.players.get(next).map(|player| player.number) {
                let opening = self.players.get(..next).unwrap_or_default().iter().rev();
                let opening = opening.take(CONNECTING_MAX * 2);
                let opening =
                    opening.filter(|p| p.life.connected.is_none() && p.life.ended.is_none());
                if now < due(number) || opening.count() >= CONNECTING_MAX {
                    break;
                }
                self.start_connect(&plan, next)?;
                next += 1;
            }
            let waiting =
                self.players.iter().any(|p| p.life.known.is_none() && p.life.ended.is_none());
            if !waiting || now >= deadline || self.control.is_stopped() {
                break;
            }
            let wake = self.players.get(next).map(|p| due(p.number)).filter(|&due| due > now);
            self.turn(wake.into_iter().chain([deadline]).min(), None)?;
        }
        self.judge()?;
        let until = clock::now() + plan.delay;
        while clock::now() < until {
            self.turn(Some(until), None)?;
        }
        Ok(())
    }

    fn start_connect(&mut self, plan: &Plan, at: usize) -> Result<(), Error> {
        let Some(player) = self.players.get_mut(at) else { return Ok(()) };
        let target = plan.targets.get(player.number as usize % plan.targets.len().max(1));
        let Some(&target) = target else { return Ok(()) };
        player.life.started = Some(clock::now());
        let stream = sock::start_connect(target, &plan.socket).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::Congestion(plan.socket.congestion.clone().unwrap_or_default(), e)
            }
            _ => Error::ConnectFailed(target, e),
        })?;
        let id = self.io.adopt_connecting(stream)?;
        player.conn = Some(id);
        if self.by_slot.len() <= id.slot() {
            self.by_slot.resize(id.slot() + 1, usize::MAX);
        }
        if let Some(slot) = self.by_slot.get_mut(id.slot()) {
            *slot = at;
        }
        Ok(())
    }

    /// Whether at least one switch came through.
    fn judge(&self) -> Result<(), Error> {
        if self.players.iter().any(|player| player.conn.is_some() && player.life.known.is_some()) {
            return Ok(());
        }
        let connected = self.players.iter().filter(|p| p.life.connected.is_some()).count();
        let reason = self.players.iter().rev().find_map(|player| player.life.ended.clone());
        if connected == 0 {
            let target = self.plan.targets.first().copied();
            let target = target.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
            let reason = reason.unwrap_or_else(|| "no answer".into());
            return Err(Error::ConnectFailed(target, std::io::Error::other(reason)));
        }
        Err(Error::HandshakeFailed {
            switches: u32::try_from(self.players.len()).unwrap_or(u32::MAX),
            connected: u32::try_from(connected).unwrap_or(u32::MAX),
            after_s: self.plan.handshake_timeout.as_secs(),
            reason,
        })
    }

    /// Lets every host announce itself, and waits until the controller has seen them.
    ///
    /// A controller that answers sets the pace; one that does not answer is sent more after a while, and everything once
    /// that has happened twice.
    pub(crate) fn announce(&mut self) -> Result<(), Error> {
        if self.plan.announce == Announce::Nothing {
            return Ok(());
        }
        let begun = clock::now();
        let (mut heard, mut moved, mut quiet) = (self.heard(), begun, 0u64);
        loop {
            let now = clock::now();
            let enough = now - begun > ANNOUNCE_MAX;
            let finished = enough || self.announce_some(if quiet >= 2 { u64::MAX } else { quiet });
            if self.control.is_stopped()
                || now - begun > 2 * ANNOUNCE_MAX
                || (finished && now - moved > ANNOUNCE_QUIET)
                || (finished && self.all_answered())
            {
                return Ok(());
            }
            let now = self.turn(Some(moved + ANNOUNCE_QUIET), None)?;
            if self.heard() != heard {
                (heard, moved) = (self.heard(), now);
            } else if now - moved >= ANNOUNCE_QUIET && !finished {
                (quiet, moved) = (quiet + 1, now);
            }
        }
    }

    /// Sends what may be sent, after `quiet` times of quiet; whether all was sent.
    fn announce_some(&mut self, quiet: u64) -> bool {
        let hosts = self.plan.hosts;
        let allowed = ANNOUNCED_MAX.saturating_mul(quiet.saturating_add(1));
        let mut finished = true;
        for player in &mut self.players {
            while player.conn.is_some() && player.announced < hosts {
                let open = u64::from(player.announced).saturating_sub(player.counts.heard());
                let n = u32::try_from(allowed.saturating_sub(open)).unwrap_or(u32::MAX);
                if n == 0 || !player.flush(&mut self.io) {
                    break;
                }
                if !player.announce(&mut self.io, &mut self.requests, n, hosts) {
                    break;
                }
            }
            let done = player.announced >= hosts && !player.is_stuck();
            finished &= done || player.conn.is_none();
        }
        finished
    }

    fn heard(&self) -> u64 {
        self.players.iter().map(|player| player.counts.heard()).sum()
    }

    fn all_answered(&self) -> bool {
        let mut players = self.players.iter().filter(|player| player.conn.is_some());
        players.all(|player| player.counts.heard() >= player.announced.into())
    }
}
