//! The part of a host that others stand on: its addresses, and which neighbour has which.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use etherparse::{ArpEthIpv4Packet, ArpOperation};
use sluice_openflow::MacAddr;

use super::frames::{self, ADVERTISEMENT, Ends, Route, SOLICITATION};
use super::timers::{Timer, Timers};
use super::{HostCounters, Identity};

/// Neighbours of one host. Those that are too old make room, and if there are none, all.
const NEIGHBOURS_MAX: usize = 1 << 16;

/// Packets that wait for one neighbour; the first ones go.
const WAITING_MAX: usize = 64;

/// How often a neighbour is asked for before what waits for it is dropped. RFC 4861 §10, `MAX_MULTICAST_SOLICIT`.
const ASKED_MAX: u32 = 3;

/// Time between two of these. RFC 4861 §10, `RETRANS_TIMER`.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a neighbour is believed to be who it was.
const NEIGHBOUR_AGE: Duration = Duration::from_secs(60);

/// An advertisement that answers, and one that replaces what was believed. RFC 4861 §4.4.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Addresses, neighbours, timers and counts of a host.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) who: Identity,
    pub(super) timers: Timers,
    pub(super) counters: HostCounters,
    neighbours: HashMap<IpAddr, Neighbour>,
}

#[derive(Debug)]
enum Neighbour {
    Known { mac: MacAddr, heard: Instant },
    Asked { times: u32, waiting: Vec<Vec<u8>> },
}

impl Stack {
    pub(super) fn new(who: Identity) -> Self {
        Self {
            who,
            timers: Timers::default(),
            counters: HostCounters::default(),
            neighbours: HashMap::new(),
        }
    }

    /// Both ends of a packet to `to`.
    pub(super) fn ends(&self, to: IpAddr) -> Ends {
        match to {
            IpAddr::V4(to) => Ends::V4(self.who.ipv4, to),
            IpAddr::V6(to) => Ends::V6(self.who.ipv6, to),
        }
    }

    /// Sends the packet that `build` makes, or keeps it until the neighbour is known.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: IpAddr,
        out: &mut Vec<Vec<u8>>,
        build: impl FnOnce(Route) -> Vec<u8>,
    ) {
        let (from, ends) = (self.who.mac, self.ends(to));
        let known = frames::group(to).or_else(|| self.known(now, to));
        let frame = build(Route { from, to: known.unwrap_or_default(), ends });
        match known {
            Some(_) => out.push(frame),
            None => self.keep(now, to, frame, out),
        }
    }

    /// Tells everybody where this host is. RFC 5227 §2.3, RFC 4861 §7.2.6.
    pub(super) fn announce(&mut self, out: &mut Vec<Vec<u8>>) {
        let Identity { mac, ipv4, ipv6, .. } = self.who;
        out.push(frames::arp_request(mac, ipv4, ipv4));
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let to = frames::group(all.into()).unwrap_or_default();
        let route = Route { from: mac, to, ends: Ends::V6(ipv6, all) };
        out.push(route.neighbour(ADVERTISEMENT, OVERRIDE, ipv6));
    }

    /// Learns of a neighbour by other ways than the network.
    pub(super) fn introduce(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        out: &mut Vec<Vec<u8>>,
    ) {
        self.learn(now, ip, mac, Learn::New, out);
    }

    pub(super) fn on_arp(&mut self, now: Instant, arp: &ArpEthIpv4Packet, out: &mut Vec<Vec<u8>>) {
        let (sender, mac) = (arp.sender_ipv4_addr(), MacAddr(arp.sender_mac));
        let is_for_us = arp.target_ipv4_addr() == self.who.ipv4;
        if sender == self.who.ipv4 {
            self.counters.conflicts += u64::from(mac != self.who.mac);
            return;
        }
        if sender != Ipv4Addr::UNSPECIFIED {
            self.learn(
                now,
                sender.into(),
                mac,
                if is_for_us { Learn::New } else { Learn::Known },
                out,
            );
        }
        if is_for_us && arp.operation == ArpOperation::REQUEST {
            let reply = ArpEthIpv4Packet {
                operation: ArpOperation::REPLY,
                sender_mac: self.who.mac.0,
                sender_ipv4: self.who.ipv4.octets(),
                target_mac: arp.sender_mac,
                target_ipv4: arp.sender_ipv4,
            };
            out.push(frames::arp(mac, &reply));
        }
    }

    /// Hears neighbour discovery: what follows the first eight bytes is `body`, the target and perhaps options.
    pub(super) fn on_neighbour(
        &mut self,
        now: Instant,
        kind: u8,
        from: (Ipv6Addr, MacAddr),
        body: &[u8],
        out: &mut Vec<Vec<u8>>,
    ) {
        let Some((target, options)) = body.split_first_chunk::<16>() else { return };
        let target = Ipv6Addr::from(*target);
        // A host sends one option, and hears what others send first.
        let told = match options {
            [1 | 2, 1, mac @ ..] => mac.first_chunk().map(|&mac| MacAddr(mac)),
            _ => None,
        };
        match kind {
            SOLICITATION if target == self.who.ipv6 => {
                let mac = told.unwrap_or(from.1);
                self.learn(now, from.0.into(), mac, Learn::New, out);
                let ends = Ends::V6(self.who.ipv6, from.0);
                let route = Route { from: self.who.mac, to: mac, ends };
                out.push(route.neighbour(ADVERTISEMENT, SOLICITED | OVERRIDE, target));
            }
            ADVERTISEMENT if target == self.who.ipv6 => {
                self.counters.conflicts += u64::from(from.1 != self.who.mac);
            }
            ADVERTISEMENT => {
                self.learn(now, target.into(), told.unwrap_or(from.1), Learn::Known, out);
            }
            _ => {}
        }
    }

    /// Asks again for a neighbour that has not answered, or gives it up.
    pub(super) fn on_time(&mut self, now: Instant, ip: IpAddr, out: &mut Vec<Vec<u8>>) {
        let Some(Neighbour::Asked { times, .. }) = self.neighbours.get_mut(&ip) else { return };
        if *times < ASKED_MAX {
            *times += 1;
            self.ask(now, ip, out);
        } else if let Some(Neighbour::Asked { waiting, .. }) = self.neighbours.remove(&ip) {
            self.counters.unreachable += waiting.len() as u64;
        }
    }

    fn known(&self, now: Instant, ip: IpAddr) -> Option<MacAddr> {
        match self.neighbours.get(&ip)? {
            Neighbour::Known { mac, heard } if now < *heard + NEIGHBOUR_AGE => Some(*mac),
            _ => None,
        }
    }

    fn learn(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        learn: Learn,
        out: &mut Vec<Vec<u8>>,
    ) {
        let known = Neighbour::Known { mac, heard: now };
        match self.neighbours.get_mut(&ip) {
            Some(neighbour) => {
                if let Neighbour::Asked { waiting, .. } = std::mem::replace(neighbour, known) {
                    for mut frame in waiting {
                        if let Some(to) = frame.first_chunk_mut() {
                            *to = mac.0;
                        }
                        out.push(frame);
                    }
                }
            }
            None if learn == Learn::New => {
                self.make_room(now);
                self.neighbours.insert(ip, known);
            }
            None => {}
        }
    }

    fn keep(&mut self, now: Instant, ip: IpAddr, frame: Vec<u8>, out: &mut Vec<Vec<u8>>) {
        if let Some(Neighbour::Asked { waiting, .. }) = self.neighbours.get_mut(&ip) {
            if waiting.len() >= WAITING_MAX {
                waiting.remove(0);
                self.counters.unreachable += 1;
            }
            waiting.push(frame);
            return;
        }
        self.make_room(now);
        self.neighbours.insert(ip, Neighbour::Asked { times: 1, waiting: vec![frame] });
        self.ask(now, ip, out);
    }

    fn ask(&mut self, now: Instant, ip: IpAddr, out: &mut Vec<Vec<u8>>) {
        self.timers.set(now + ASK_INTERVAL, Timer::Neighbour(ip));
        let Identity { mac, ipv4, ipv6, .. } = self.who;
        match ip {
            IpAddr::V4(ip) => out.push(frames::arp_request(mac, ipv4, ip)),
            IpAddr::V6(ip) => {
                let all = frames::solicited(ip);
                let to = frames::group(all.into()).unwrap_or_default();
                let route = Route { from: mac, to, ends: Ends::V6(ipv6, all) };
                out.push(route.neighbour(SOLICITATION, 0, ip));
            }
        }
    }

    /// Forgets those that are too old when there are too many, and all that are known if that is not enough.
    fn make_room(&mut self, now: Instant) {
        if self.neighbours.len() < NEIGHBOURS_MAX {
            return;
        }
        self.neighbours.retain(|_, neighbour| match neighbour {
            Neighbour::Known { heard, .. } => now < *heard + NEIGHBOUR_AGE,
            Neighbour::Asked { .. } => true,
        });
        if self.neighbours.len() >= NEIGHBOURS_MAX {
            self.neighbours.clear();
        }
    }
}

/// Whether a neighbour that nobody asked for is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learn {
    New,
    Known,
}
