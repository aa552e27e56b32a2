//! Pings: echo requests and their replies. RFC 792, RFC 4443 §4.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_base::HashMap;

use super::frames::EchoKind;
use super::ip_stack::IpStack;
use super::timers::Timer;

/// Data of an echo request, as long as that of `ping`.
const DATA: [u8; 56] = [0x5a; 56];

/// The result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingResult {
    /// The address that was pinged.
    pub to: IpAddr,
    /// When the request was sent.
    pub sent_at: Instant,
    /// Round-trip time including address resolution; `None` if there was no reply in time.
    pub rtt: Option<Duration>,
}

/// Echo requests that wait for a reply, by identifier.
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
    /// Sends a request; returns a failed ping if too many are outstanding.
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

    /// Handles a reply.
    pub(super) fn on_reply(&mut self, now: Instant, from: IpAddr, id: u16) -> Option<PingResult> {
        self.outstanding.get(&id).filter(|open| open.to == from)?;
        let OutstandingPing { to, sent_at, .. } = self.outstanding.remove(&id)?;
        Some(PingResult { to, sent_at, rtt: Some(now - sent_at) })
    }

    /// Handles a timeout; `None` if the identifier belongs to a newer ping.
    pub(super) fn expire(&mut self, now: Instant, id: u16) -> Option<PingResult> {
        self.outstanding.get(&id).filter(|open| now >= open.until)?;
        let OutstandingPing { to, sent_at, .. } = self.outstanding.remove(&id)?;
        Some(PingResult { to, sent_at, rtt: None })
    }
}
