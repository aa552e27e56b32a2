//! Who asks for a way to whom, and what was said of it so far.

use std::time::{Duration, Instant};

use sluice_openflow::{MacAddr, PortNo};

use super::said::Rule;
use super::wiring::{End, Wiring};
use super::{Directions, WAY_MAX};

/// Ways that are asked for, one for each source at a time.
#[derive(Debug)]
pub(super) struct Asks {
    directions: Directions,
    by_source: Vec<Ask>,
    open: usize,
    /// Hosts with others that are as far away as any.
    askers: Vec<usize>,
    /// The next source among them, and how far ahead of it its destination is.
    next: usize,
    ahead: usize,
}

/// What was said of a way.
#[derive(Debug, Clone, Copy, Default)]
struct Ask {
    dst: usize,
    since: Option<Instant>,
    there: Hops,
    back: Hops,
    is_out: bool,
}

/// Switches with a rule for one direction, and where it sends.
#[derive(Debug, Clone, Copy, Default)]
struct Hops {
    len: usize,
    at: [(u32, PortNo); WAY_MAX],
}

/// The address of a host.
pub(super) fn mac(host: usize) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | (host as u64 + 1))
}

fn host(mac: MacAddr) -> Option<usize> {
    let number = mac.to_u64().checked_sub(0x0200_0000_0001)?;
    usize::try_from(number).ok()
}

impl Asks {
    pub(super) fn new(wiring: &Wiring, directions: Directions) -> Self {
        let by_source = vec![Ask::default(); wiring.hosts().len()];
        let hosts = 0..by_source.len();
        let askers = hosts.clone().filter(|&a| hosts.clone().any(|b| wiring.is_far(a, b)));
        Self { directions, open: 0, askers: askers.collect(), by_source, next: 0, ahead: 1 }
    }

    /// Ways that are asked for and not there yet.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The next source and destination: farthest from one another, and longest not asked for, in either direction.
    pub(super) fn begin(&mut self, wiring: &Wiring, now: Instant) -> Option<(usize, usize)> {
        let askers = self.askers.len();
        // Some laps: whoever is left has asked already.
        for _ in 0..4 * askers {
            let pair = [self.next, (self.next + self.ahead) % askers];
            let [src, dst] = pair.map(|n| self.askers.get(n).copied().unwrap_or(usize::MAX));
            self.next += 1;
            if self.next == askers {
                self.next = 0;
                // Half way round, all pairs are through.
                self.ahead = if self.ahead + 1 > (askers - 1) / 2 { 1 } else { self.ahead + 1 };
            }
            let answer = self.by_source.get(dst);
            let is_asked_back = answer.is_some_and(|ask| ask.since.is_some() && ask.dst == src);
            let Some(ask) = self.by_source.get_mut(src) else { continue };
            if ask.since.is_none() && !is_asked_back && wiring.is_far(src, dst) {
                *ask = Ask { dst, since: Some(now), ..Ask::default() };
                self.open += 1;
                return Some((src, dst));
            }
        }
        None
    }

    /// A rule was written to a switch. If that was the last that was missing: since when it was.
    pub(super) fn rule(&mut self, wiring: &Wiring, switch: usize, rule: Rule) -> Option<Instant> {
        let (src, dst) = (host(rule.src)?, host(rule.dst)?);
        let switch = u32::try_from(switch).ok()?;
        let hop = (switch, rule.out_port);
        if let Some(ask) = self.asked(src, dst) {
            ask.there.add(hop);
            return self.ready(wiring, src);
        }
        self.asked(dst, src)?.back.add(hop);
        self.ready(wiring, dst)
    }

    /// A frame was sent out of a port at which its destination is. If that was the last that was missing: since when it
    /// was.
    pub(super) fn frame(&mut self, wiring: &Wiring, dst: MacAddr, src: MacAddr) -> Option<Instant> {
        let (src, dst) = (host(src)?, host(dst)?);
        self.asked(src, dst)?.is_out = true;
        self.ready(wiring, src)
    }

    /// Where a host is that a frame is for.
    pub(super) fn whereabouts(wiring: &Wiring, dst: MacAddr) -> Option<(usize, PortNo)> {
        wiring.hosts().get(host(dst)?).map(|at| (at.switch, at.port))
    }

    fn asked(&mut self, src: usize, dst: usize) -> Option<&mut Ask> {
        self.by_source.get_mut(src).filter(|ask| ask.since.is_some() && ask.dst == dst)
    }

    /// Whether all that was asked for is there: the rules lead from host to host, and the frame is out.
    fn ready(&mut self, wiring: &Wiring, src: usize) -> Option<Instant> {
        let ask = self.by_source.get_mut(src)?;
        let (len, wants_back) = (wiring.way_len(), self.directions == Directions::Both);
        if !ask.is_out || ask.there.len < len || (wants_back && ask.back.len < len) {
            return None;
        }
        let leads = ask.there.leads(wiring, src, ask.dst)
            && (!wants_back || ask.back.leads(wiring, ask.dst, src));
        if !leads {
            return None;
        }
        self.open -= 1;
        ask.since.take()
    }

    /// Gives up what was asked for long ago; returns how many there were.
    pub(super) fn give_up(&mut self, now: Instant, patience: Duration) -> u64 {
        let mut lost = 0;
        for ask in &mut self.by_source {
            let is_old = |since: Instant| now.saturating_duration_since(since) > patience;
            if ask.since.is_some_and(is_old) {
                ask.since = None;
                self.open -= 1;
                lost += 1;
            }
        }
        lost
    }
}

impl Hops {
    /// One more; of a switch that has one, it takes the place.
    fn add(&mut self, hop: (u32, PortNo)) {
        let known = self.at.iter().take(self.len).position(|known| known.0 == hop.0);
        let at = known.unwrap_or(self.len);
        if let Some(place) = self.at.get_mut(at) {
            *place = hop;
            self.len = self.len.max(at + 1);
        }
    }

    /// Whether one leads to the next, from the first host to the second.
    fn leads(&self, wiring: &Wiring, from: usize, to: usize) -> bool {
        let (Some(from), Some(&to)) = (wiring.hosts().get(from), wiring.hosts().get(to)) else {
            return false;
        };
        let mut at = from.switch;
        for _ in 0..self.len {
            let here = self.at.iter().take(self.len);
            let hop = here.clone().find(|hop| usize::try_from(hop.0) == Ok(at));
            let Some(&(_, port)) = hop else { return false };
            match wiring.end(at, port) {
                End::Switch(next) => at = next.switch,
                End::Host => return (at, port) == (to.switch, to.port),
                End::Nowhere => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;
    use crate::topology::Topology;

    #[test]
    fn a_way_is_there_when_its_rules_lead_and_its_frame_is_out() {
        let wiring = Wiring::new(&Topology::from_text("linear,3,1").unwrap());
        let now = clock::now();
        let mut asks = Asks::new(&wiring, Directions::Both);
        let (src, dst) = asks.begin(&wiring, now).unwrap();
        assert_eq!((asks.open(), wiring.is_far(src, dst)), (1, true));
        // The first and the last switch; the other way is one that was asked back.
        assert_eq!(asks.begin(&wiring, now), None);
        let rule = |src, dst, port| Rule { src: mac(src), dst: mac(dst), out_port: PortNo(port) };
        let mut hear = |switch, rule| asks.rule(&wiring, switch, rule);
        let port_to = |at: usize, next: usize| {
            (1..4).find(|&port| match wiring.end(at, PortNo(port)) {
                End::Switch(there) => there.switch == next,
                _ => false,
            })
        };
        let (first, last) = (wiring.hosts()[src].switch, wiring.hosts()[dst].switch);
        let (one, three) = (wiring.hosts()[src].port.0, wiring.hosts()[dst].port.0);
        hear(last, rule(src, dst, three));
        hear(1, rule(src, dst, port_to(1, first).unwrap()));
        hear(first, rule(src, dst, port_to(first, 1).unwrap()));
        hear(last, rule(dst, src, port_to(last, 1).unwrap()));
        hear(1, rule(dst, src, port_to(1, first).unwrap()));
        assert_eq!(hear(first, rule(dst, src, one)), None, "not out");
        assert_eq!(asks.frame(&wiring, mac(dst), mac(src)), None, "a rule leads back");
        let right = rule(src, dst, port_to(1, last).unwrap());
        assert_eq!(asks.rule(&wiring, 1, right), Some(now));
        assert_eq!((asks.open(), asks.rule(&wiring, 1, right)), (0, None));
        asks.begin(&wiring, now).unwrap();
        let patience = Duration::from_secs(1);
        assert_eq!(asks.give_up(now + patience, patience), 0);
        assert_eq!(asks.give_up(now + 2 * patience, patience), 1);
        assert_eq!(asks.open(), 0);
    }
}
