//! Echo requests and what became of them. RFC 792, RFC 4443 §4.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::frames::EchoKind;
use super::ip_stack::IpStack;
use super::timers::Timer;

/// Bytes that a request carries, as many as those of the usual `ping`.
const DATA: [u8; 56] = [0x5a; 56];

/// What became of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingResult {
    /// Who was asked.
    pub to: IpAddr,
    /// When.
    pub sent_at: Instant,
    /// How long the answer took, resolution of the address included; `None` if there was none in time.
    pub rtt: Option<Duration>,
}

/// Requests that wait for an answer, by identifier.
#[derive(Debug, Default)]
pub(super) struct OutstandingPings {
    outstanding: HashMap<u16, OutstandingPing>,
    next_id: u16,
}

#[derive(Debug)]
struct OutstandingPing {
    to: IpAddr,
    sent_at: Instant,
    until: Instant,
}

impl OutstandingPings {
    /// Sends a request; a ping is handed back at once if there are too many open.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: IpAddr,
        timeout: Duration,
        stack: &mut IpStack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<PingResult> {
        if self.outstanding.len() > usize::from(u16::MAX) {
            return Some(PingResult { to, sent_at: now, rtt: None });
        }
        while self.outstanding.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let (id, until) = (self.next_id, now + timeout);
        self.next_id = id.wrapping_add(1);
        self.outstanding.insert(id, OutstandingPing { to, sent_at: now, until });
        stack.timers.set(until, Timer::Ping(id));
        stack.send(now, to, out, |route| route.echo(EchoKind::Request, id, 1, &DATA));
        None
    }

    /// Hears an answer.
    pub(super) fn on_reply(&mut self, now: Instant, from: IpAddr, id: u16) -> Option<PingResult> {
        self.outstanding.get(&id).filter(|open| open.to == from)?;
        let OutstandingPing { to, sent_at, .. } = self.outstanding.remove(&id)?;
        Some(PingResult { to, sent_at, rtt: Some(now - sent_at) })
    }

    /// The ping that is lost, if the identifier is still that of the one whose time it was.
    pub(super) fn expire(&mut self, now: Instant, id: u16) -> Option<PingResult> {
        self.outstanding.get(&id).filter(|open| now >= open.until)?;
        let OutstandingPing { to, sent_at, .. } = self.outstanding.remove(&id)?;
        Some(PingResult { to, sent_at, rtt: None })
    }
}
