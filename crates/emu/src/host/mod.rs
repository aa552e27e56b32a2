//! Hosts that resolve addresses, ping, send UDP streams and open TCP connections.
//!
//! A host is a state machine: frames and the time in, frames out.

mod frames;
mod ip_stack;
mod pings;
mod tcp;
mod timers;
mod udp_streams;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};
use sluice_openflow::{Ethernet, MacAddr};

pub use pings::PingResult;
pub use tcp::TcpResult;
pub use udp_streams::{STREAM_DATA_MAX, STREAM_DATA_MIN, StreamStats, UdpStream};

use frames::{EchoKind, HOPS_ON_LINK};
use ip_stack::IpStack;
use pings::OutstandingPings;
use tcp::TcpConnections;
use timers::Timer;
use udp_streams::UdpStreams;

/// Addresses of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostConfig {
    /// MAC address.
    pub mac: MacAddr,
    /// The only IPv4 address; all hosts are on one link.
    pub ipv4: Ipv4Addr,
    /// The only IPv6 address; all hosts are on one link.
    pub ipv6: Ipv6Addr,
    /// Reference time for the timestamps in UDP streams; the same for all hosts of a network.
    pub epoch: Instant,
}

/// The result of a ping or a TCP connection of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEvent {
    /// A ping has finished.
    Ping(PingResult),
    /// A TCP connection has finished.
    Tcp(TcpResult),
}

/// Counters of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounters {
    /// Frames received.
    pub frames_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Unicast frames received for other hosts, which were flooded.
    pub unicasts_for_others: u64,
    /// Frames by which another host claims an address of this one.
    pub address_conflicts: u64,
    /// Packets dropped because the destination's address could not be resolved.
    pub unreachable: u64,
}

/// A host with one IPv4 and one IPv6 address.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use std::time::Duration;
/// use sluice_emu::host::{Host, HostConfig, HostEvent};
/// use sluice_emu::topology::link_local_address;
/// use sluice_openflow::MacAddr;
///
/// let epoch = sluice_io::clock::now();
/// let host = |n| {
///     let mac = MacAddr::from_u64(n);
///     let ipv4 = Ipv4Addr::from(0x0a00_0000 + n as u32);
///     Host::new(HostConfig { mac, ipv4, ipv6: link_local_address(mac), epoch })
/// };
/// let (mut a, mut b) = (host(1), host(2));
/// let (mut from_a, mut from_b) = (vec![], vec![]);
/// a.ping(epoch, IpAddr::from([10, 0, 0, 2]), Duration::from_secs(1), &mut from_a);
/// while !from_a.is_empty() {
///     from_a.drain(..).for_each(|frame| b.on_frame(epoch, &frame, &mut from_b));
///     from_b.drain(..).for_each(|frame| a.on_frame(epoch, &frame, &mut from_a));
/// }
/// assert!(matches!(a.take_events()[..], [HostEvent::Ping(ping)] if ping.rtt.is_some()));
/// ```
#[derive(Debug)]
pub struct Host {
    stack: IpStack,
    pings: OutstandingPings,
    streams: UdpStreams,
    tcp: TcpConnections,
    events: Vec<HostEvent>,
}

impl Host {
    /// A host that has not sent anything.
    pub fn new(config: HostConfig) -> Self {
        Self {
            stack: IpStack::new(config),
            pings: OutstandingPings::default(),
            streams: UdpStreams::default(),
            tcp: TcpConnections::new(config.mac.to_u64()),
            events: Vec::new(),
        }
    }

    /// Receives a frame; replies are added to `out`.
    pub fn on_frame(&mut self, now: Instant, frame: &[u8], out: &mut Vec<Vec<u8>>) {
        let already_sent = out.len();
        self.stack.counters.frames_in += 1;
        self.receive(now, frame, out);
        self.stack.counters.frames_out += (out.len() - already_sent) as u64;
    }

    fn receive(&mut self, now: Instant, frame: &[u8], out: &mut Vec<Vec<u8>>) {
        let Some(eth) = Ethernet::new(frame) else { return };
        if eth.dst != self.stack.config.mac && !eth.dst.is_group() {
            self.stack.counters.unicasts_for_others += 1;
            return;
        }
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return };
        // The network has removed the tag of the VLAN of this host.
        if eth.tagged || eth.src == self.stack.config.mac {
            return;
        }
        let (from, to, hops) = match &packet.net {
            Some(NetSlice::Arp(arp)) => {
                if let Ok(arp) = arp.to_packet().try_eth_ipv4() {
                    self.stack.on_arp(now, &arp, out);
                }
                return;
            }
            Some(NetSlice::Ipv4(ip)) => {
                let ip = ip.header();
                (ip.source_addr().into(), IpAddr::V4(ip.destination_addr()), ip.ttl())
            }
            Some(NetSlice::Ipv6(ip)) => {
                let ip = ip.header();
                (ip.source_addr().into(), IpAddr::V6(ip.destination_addr()), ip.hop_limit())
            }
            None => return,
        };
        let is_ours = to == self.stack.config.ipv4 || to == self.stack.config.ipv6;
        if !is_ours && frames::group(to).is_none() {
            return;
        }
        match &packet.transport {
            Some(TransportSlice::Icmpv4(icmp)) if is_ours => match icmp.icmp_type() {
                Icmpv4Type::EchoRequest(echo) => {
                    self.send_echo_reply(now, from, (echo.id, echo.seq, icmp.payload()), out);
                }
                Icmpv4Type::EchoReply(echo) => self.on_echo_reply(now, from, echo.id),
                _ => {}
            },
            Some(TransportSlice::Icmpv6(icmp)) => match (icmp.icmp_type(), from) {
                (Icmpv6Type::EchoRequest(echo), _) if is_ours => {
                    self.send_echo_reply(now, from, (echo.id, echo.seq, icmp.payload()), out);
                }
                (Icmpv6Type::EchoReply(echo), _) if is_ours => {
                    self.on_echo_reply(now, from, echo.id);
                }
                (_, IpAddr::V6(ip)) if hops == HOPS_ON_LINK => {
                    let (kind, from) = (icmp.type_u8(), (ip, eth.src));
                    self.stack.on_neighbour(now, kind, from, icmp.payload(), out);
                }
                _ => {}
            },
            Some(TransportSlice::Udp(udp)) => {
                self.streams.on_udp(now, from, udp.payload(), self.stack.config.epoch);
            }
            Some(TransportSlice::Tcp(tcp)) if is_ours => {
                let ended = self.tcp.on_segment(now, from, tcp, &mut self.stack, out);
                self.events.extend(ended.map(HostEvent::Tcp));
            }
            _ => {}
        }
    }

    /// Handles all timers that are due.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        let already_sent = out.len();
        while let Some(timer) = self.stack.timers.due(now) {
            let stack = &mut self.stack;
            let outcome = match timer {
                Timer::NeighbourState(ip) => {
                    stack.retry_or_give_up(now, ip, out);
                    None
                }
                Timer::Ping(id) => self.pings.expire(now, id).map(HostEvent::Ping),
                Timer::Stream(id) => {
                    self.streams.send_next(now, id, stack, out);
                    None
                }
                Timer::Tcp(key) => self.tcp.on_timer(now, key, stack, out).map(HostEvent::Tcp),
            };
            self.events.extend(outcome);
        }
        self.stack.counters.frames_out += (out.len() - already_sent) as u64;
    }

    /// Sends an echo request; [`take_events`](Self::take_events) has the result after `timeout` at the latest.
    pub fn ping(&mut self, now: Instant, to: IpAddr, timeout: Duration, out: &mut Vec<Vec<u8>>) {
        let already_sent = out.len();
        let ping = self.pings.send(now, to, timeout, &mut self.stack, out);
        self.events.extend(ping.map(HostEvent::Ping));
        self.stack.counters.frames_out += (out.len() - already_sent) as u64;
    }

    /// Opens a TCP connection, sends `len` bytes and closes it. [`take_events`](Self::take_events) has the result,
    /// under the returned number.
    pub fn connect(
        &mut self,
        now: Instant,
        to: IpAddr,
        port: u16,
        len: u64,
        out: &mut Vec<Vec<u8>>,
    ) -> u32 {
        let already_sent = out.len();
        let (id, failed) = self.tcp.connect(now, (to, port, len), &mut self.stack, out);
        self.events.extend(failed.map(HostEvent::Tcp));
        self.stack.counters.frames_out += (out.len() - already_sent) as u64;
        id
    }

    /// Starts a UDP stream, the first packet of which is due at once; `None` if the host has too many streams.
    pub fn start_stream(&mut self, now: Instant, stream: UdpStream) -> Option<u32> {
        self.streams.start(now, stream, &mut self.stack)
    }

    /// Stops a UDP stream early.
    pub fn stop_stream(&mut self, id: u32) {
        self.streams.stop(id);
    }

    /// Announces the host's addresses by ARP and neighbour discovery, as after being attached or moved.
    pub fn announce(&mut self, out: &mut Vec<Vec<u8>>) {
        self.stack.announce(out);
        self.stack.counters.frames_out += 2;
    }

    /// Adds a neighbour, so that its address need not be resolved until the entry expires.
    pub fn add_neighbour(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        out: &mut Vec<Vec<u8>>,
    ) {
        let already_sent = out.len();
        self.stack.add_neighbour(now, ip, mac, out);
        self.stack.counters.frames_out += (out.len() - already_sent) as u64;
    }

    /// Results since the last call.
    pub fn take_events(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    /// When to call [`tick`](Self::tick).
    pub fn deadline(&self) -> Option<Instant> {
        self.stack.timers.next()
    }

    /// The host's addresses.
    pub fn config(&self) -> HostConfig {
        self.stack.config
    }

    /// The host's counters.
    pub fn counters(&self) -> HostCounters {
        self.stack.counters
    }

    /// Packets sent of one of this host's streams.
    pub fn stream_packets_sent(&self, stream: u32) -> u64 {
        self.streams.packets_sent(stream)
    }

    /// Statistics of a stream received from `from`, by the number that [`start_stream`](Self::start_stream) returned
    /// there.
    pub fn stream_stats(&self, from: IpAddr, stream: u32) -> Option<&StreamStats> {
        self.streams.stats(from, stream)
    }

    /// Number of open TCP connections, including accepted ones.
    pub fn tcp_connection_count(&self) -> usize {
        self.tcp.len()
    }

    /// Bytes received on TCP connections that other hosts opened.
    pub fn tcp_bytes_received(&self) -> u64 {
        self.tcp.received
    }

    fn send_echo_reply(
        &mut self,
        now: Instant,
        from: IpAddr,
        (id, seq, data): (u16, u16, &[u8]),
        out: &mut Vec<Vec<u8>>,
    ) {
        self.stack.send(now, from, out, |route| route.echo(EchoKind::Reply, id, seq, data));
    }

    fn on_echo_reply(&mut self, now: Instant, from: IpAddr, id: u16) {
        self.events.extend(self.pings.on_reply(now, from, id).map(HostEvent::Ping));
    }
}
