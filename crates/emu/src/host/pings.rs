//! Echo requests and what became of them. RFC 792, RFC 4443 §4.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::frames::Echo;
use super::stack::Stack;
use super::timers::Timer;

/// Bytes that a request carries, as many as those of the usual `ping`.
const DATA: [u8; 56] = [0x5a; 56];

/// What became of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// Who was asked.
    pub to: IpAddr,
    /// When.
    pub sent: Instant,
    /// How long the answer took, resolution of the address included; `None` if there was none in time.
    pub took: Option<Duration>,
}

/// Requests that wait for an answer, by identifier.
#[derive(Debug, Default)]
pub(super) struct Pings {
    open: HashMap<u16, Open>,
    next_id: u16,
}

#[derive(Debug)]
struct Open {
    to: IpAddr,
    sent: Instant,
    until: Instant,
}

impl Pings {
    /// Sends a request; a ping is handed back at once if there are too many open.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: IpAddr,
        timeout: Duration,
        stack: &mut Stack,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Ping> {
        if self.open.len() > usize::from(u16::MAX) {
            return Some(Ping { to, sent: now, took: None });
        }
        while self.open.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let (id, until) = (self.next_id, now + timeout);
        self.next_id = id.wrapping_add(1);
        self.open.insert(id, Open { to, sent: now, until });
        stack.timers.set(until, Timer::Ping(id));
        stack.send(now, to, out, |route| route.echo(Echo::Request, id, 1, &DATA));
        None
    }

    /// Hears an answer.
    pub(super) fn on_reply(&mut self, now: Instant, from: IpAddr, id: u16) -> Option<Ping> {
        self.open.get(&id).filter(|open| open.to == from)?;
        let Open { to, sent, .. } = self.open.remove(&id)?;
        Some(Ping { to, sent, took: Some(now - sent) })
    }

    /// The ping that is lost, if the identifier is still that of the one whose time it was.
    pub(super) fn on_time(&mut self, now: Instant, id: u16) -> Option<Ping> {
        self.open.get(&id).filter(|open| now >= open.until)?;
        let Open { to, sent, .. } = self.open.remove(&id)?;
        Some(Ping { to, sent, took: None })
    }
}
