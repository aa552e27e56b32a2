//! Address resolution of a host: its addresses and its neighbour cache.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use etherparse::{ArpEthIpv4Packet, ArpOperation};
use sluice_base::HashMap;
use sluice_openflow::MacAddr;

use super::frames::{self, ADVERTISEMENT, FrameAddresses, IpPair, SOLICITATION};
use super::timers::{Timer, TimerQueue};
use super::{HostConfig, HostCounters};

/// Most neighbours of a host. When full, expired entries are removed; if there are none, all entries.
const NEIGHBOURS_MAX: usize = 1 << 16;

/// Most packets that wait for the resolution of one neighbour; the oldest ones are dropped.
const WAITING_MAX: usize = 64;

/// Solicitations before waiting packets are dropped. RFC 4861 §10, `MAX_MULTICAST_SOLICIT`.
const SOLICITATIONS_MAX: u32 = 3;

/// Time between solicitations. RFC 4861 §10, `RETRANS_TIMER`.
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(1);

/// How long a neighbour entry is valid.
const NEIGHBOUR_LIFETIME: Duration = Duration::from_secs(60);

/// Flags of a neighbour advertisement. RFC 4861 §4.4.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Addresses, neighbour cache, timers and counters of a host.
#[derive(Debug)]
pub(super) struct IpStack {
    pub(super) config: HostConfig,
    pub(super) timers: TimerQueue,
    pub(super) counters: HostCounters,
    neighbours: HashMap<IpAddr, NeighbourState>,
}

#[derive(Debug)]
enum NeighbourState {
    Known { mac: MacAddr, confirmed_at: Instant },
    Resolving { attempts: u32, waiting: Vec<Vec<u8>> },
}

impl IpStack {
    pub(super) fn new(config: HostConfig) -> Self {
        Self {
            config,
            timers: TimerQueue::default(),
            counters: HostCounters::default(),
            neighbours: HashMap::default(),
        }
    }

    /// The IP addresses of a packet to `to`.
    pub(super) fn ip_pair(&self, to: IpAddr) -> IpPair {
        match to {
            IpAddr::V4(to) => IpPair::V4(self.config.ipv4, to),
            IpAddr::V6(to) => IpPair::V6(self.config.ipv6, to),
        }
    }

    /// Sends the packet that `build` makes, or queues it until the neighbour is resolved.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: IpAddr,
        out: &mut Vec<Vec<u8>>,
        build: impl FnOnce(FrameAddresses) -> Vec<u8>,
    ) {
        let (from, ends) = (self.config.mac, self.ip_pair(to));
        let known = frames::group(to).or_else(|| self.lookup(now, to));
        let frame = build(FrameAddresses { from, to: known.unwrap_or_default(), ends });
        match known {
            Some(_) => out.push(frame),
            None => self.queue_until_resolved(now, to, frame, out),
        }
    }

    /// Announces this host's addresses. RFC 5227 §2.3, RFC 4861 §7.2.6.
    pub(super) fn announce(&mut self, out: &mut Vec<Vec<u8>>) {
        let HostConfig { mac, ipv4, ipv6, .. } = self.config;
        out.push(frames::arp_request(mac, ipv4, ipv4));
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let to = frames::group(all.into()).unwrap_or_default();
        let route = FrameAddresses { from: mac, to, ends: IpPair::V6(ipv6, all) };
        out.push(route.neighbour(ADVERTISEMENT, OVERRIDE, ipv6));
    }

    /// Adds a neighbour without address resolution.
    pub(super) fn add_neighbour(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        out: &mut Vec<Vec<u8>>,
    ) {
        self.learn(now, ip, mac, LearnMode::CreateOrUpdate, out);
    }

    pub(super) fn on_arp(&mut self, now: Instant, arp: &ArpEthIpv4Packet, out: &mut Vec<Vec<u8>>) {
        let (sender, mac) = (arp.sender_ipv4_addr(), MacAddr(arp.sender_mac));
        let is_for_us = arp.target_ipv4_addr() == self.config.ipv4;
        if sender == self.config.ipv4 {
            self.counters.address_conflicts += u64::from(mac != self.config.mac);
            return;
        }
        if sender != Ipv4Addr::UNSPECIFIED {
            self.learn(
                now,
                sender.into(),
                mac,
                if is_for_us { LearnMode::CreateOrUpdate } else { LearnMode::UpdateOnly },
                out,
            );
        }
        if is_for_us && arp.operation == ArpOperation::REQUEST {
            let reply = ArpEthIpv4Packet {
                operation: ArpOperation::REPLY,
                sender_mac: self.config.mac.0,
                sender_ipv4: self.config.ipv4.octets(),
                target_mac: arp.sender_mac,
                target_ipv4: arp.sender_ipv4,
            };
            out.push(frames::arp(mac, &reply));
        }
    }

    /// Handles neighbour discovery; `body` is the message without its first eight bytes.
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
        // Emulated hosts send one option; only the first one is read.
        let option_mac = match options {
            [1 | 2, 1, mac @ ..] => mac.first_chunk().map(|&mac| MacAddr(mac)),
            _ => None,
        };
        match kind {
            SOLICITATION if target == self.config.ipv6 => {
                let mac = option_mac.unwrap_or(from.1);
                self.learn(now, from.0.into(), mac, LearnMode::CreateOrUpdate, out);
                let ends = IpPair::V6(self.config.ipv6, from.0);
                let route = FrameAddresses { from: self.config.mac, to: mac, ends };
                out.push(route.neighbour(ADVERTISEMENT, SOLICITED | OVERRIDE, target));
            }
            ADVERTISEMENT if target == self.config.ipv6 => {
                self.counters.address_conflicts += u64::from(from.1 != self.config.mac);
            }
            ADVERTISEMENT => {
                self.learn(
                    now,
                    target.into(),
                    option_mac.unwrap_or(from.1),
                    LearnMode::UpdateOnly,
                    out,
                );
            }
            _ => {}
        }
    }

    /// Solicits a neighbour again, or drops the packets that wait for it.
    pub(super) fn retry_or_give_up(&mut self, now: Instant, ip: IpAddr, out: &mut Vec<Vec<u8>>) {
        let Some(NeighbourState::Resolving { attempts, .. }) = self.neighbours.get_mut(&ip) else {
            return;
        };
        if *attempts < SOLICITATIONS_MAX {
            *attempts += 1;
            self.solicit(now, ip, out);
        } else if let Some(NeighbourState::Resolving { waiting, .. }) = self.neighbours.remove(&ip)
        {
            self.counters.unreachable += waiting.len() as u64;
        }
    }

    fn lookup(&self, now: Instant, ip: IpAddr) -> Option<MacAddr> {
        match self.neighbours.get(&ip)? {
            NeighbourState::Known { mac, confirmed_at }
                if now < *confirmed_at + NEIGHBOUR_LIFETIME =>
            {
                Some(*mac)
            }
            _ => None,
        }
    }

    fn learn(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        learn: LearnMode,
        out: &mut Vec<Vec<u8>>,
    ) {
        let known = NeighbourState::Known { mac, confirmed_at: now };
        match self.neighbours.get_mut(&ip) {
            Some(neighbour) => {
                if let NeighbourState::Resolving { waiting, .. } =
                    std::mem::replace(neighbour, known)
                {
                    for mut frame in waiting {
                        if let Some(to) = frame.first_chunk_mut() {
                            *to = mac.0;
                        }
                        out.push(frame);
                    }
                }
            }
            None if learn == LearnMode::CreateOrUpdate => {
                self.make_room(now);
                self.neighbours.insert(ip, known);
            }
            None => {}
        }
    }

    fn queue_until_resolved(
        &mut self,
        now: Instant,
        ip: IpAddr,
        frame: Vec<u8>,
        out: &mut Vec<Vec<u8>>,
    ) {
        if let Some(NeighbourState::Resolving { waiting, .. }) = self.neighbours.get_mut(&ip) {
            if waiting.len() >= WAITING_MAX {
                waiting.remove(0);
                self.counters.unreachable += 1;
            }
            waiting.push(frame);
            return;
        }
        self.make_room(now);
        self.neighbours.insert(ip, NeighbourState::Resolving { attempts: 1, waiting: vec![frame] });
        self.solicit(now, ip, out);
    }

    fn solicit(&mut self, now: Instant, ip: IpAddr, out: &mut Vec<Vec<u8>>) {
        self.timers.set(now + SOLICITATION_INTERVAL, Timer::NeighbourState(ip));
        let HostConfig { mac, ipv4, ipv6, .. } = self.config;
        match ip {
            IpAddr::V4(ip) => out.push(frames::arp_request(mac, ipv4, ip)),
            IpAddr::V6(ip) => {
                let all = frames::solicited(ip);
                let to = frames::group(all.into()).unwrap_or_default();
                let route = FrameAddresses { from: mac, to, ends: IpPair::V6(ipv6, all) };
                out.push(route.neighbour(SOLICITATION, 0, ip));
            }
        }
    }

    /// Makes room in a full cache.
    fn make_room(&mut self, now: Instant) {
        if self.neighbours.len() < NEIGHBOURS_MAX {
            return;
        }
        self.neighbours.retain(|_, neighbour| match neighbour {
            NeighbourState::Known { confirmed_at, .. } => now < *confirmed_at + NEIGHBOUR_LIFETIME,
            NeighbourState::Resolving { .. } => true,
        });
        if self.neighbours.len() >= NEIGHBOURS_MAX {
            self.neighbours.clear();
        }
    }
}

/// Whether unsolicited information creates an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LearnMode {
    CreateOrUpdate,
    UpdateOnly,
}
