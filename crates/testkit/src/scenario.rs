//! A scenario: model switches and hosts in virtual time, and the engine, which takes no time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sluice_emu::host::{HostEvent, UdpStream};
use sluice_emu::net::{IpFamily, NetworkError, NetworkOptions, NetworkSimulation};
use sluice_emu::switch::SwitchCounters;
use sluice_emu::topology::Topology;
use sluice_openflow::view::PacketIn;
use sluice_openflow::{EtherType, Ethernet};
use sluice_sdk::{App, Ctx, Verdict};

use crate::{Conditions, SimulatedEngine, SimulatedEngineOptions};

/// Long enough to discover the topology, whatever the delay of the control links.
const DISCOVERY_TIME: Duration = Duration::from_secs(30);

/// Long enough for all messages in flight to arrive.
const SETTLING_TIME: Duration = Duration::from_secs(10);

/// Long enough to open a connection, shorter than the timeout of ARP entries in hosts.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// Offset of the protocol in an untagged IPv4 frame without options.
const PROTOCOL_OFFSET: usize = 14 + 9;

/// Numbers of packet-ins by protocol. It is itself an application: the first of the chain, which counts and passes on all packet-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketInCounts {
    /// ARP.
    pub arp: u64,
    /// TCP over IPv4.
    pub tcp: u64,
    /// UDP over IPv4.
    pub udp: u64,
}

impl App for PacketInCounts {
    fn on_packet_in(&mut self, p: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
        match Ethernet::new(p.frame).map(|eth| eth.ethertype) {
            Some(EtherType::ARP) => self.arp += 1,
            Some(EtherType::IPV4) => match p.frame.get(PROTOCOL_OFFSET) {
                Some(6) => self.tcp += 1,
                Some(17) => self.udp += 1,
                _ => {}
            },
            _ => {}
        }
        Verdict::Continue
    }
}

impl PacketInCounts {
    fn since(self, before: Self) -> Self {
        Self { arp: self.arp - before.arp, tcp: self.tcp - before.tcp, udp: self.udp - before.udp }
    }
}

/// A TCP connection that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedConnection {
    /// Time until it was established.
    pub setup_time: Duration,
    /// Packet-ins until it was closed.
    pub packet_ins: PacketInCounts,
}

/// Packets of a UDP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets received after a packet that was sent later.
    pub reordered: u64,
}

impl StreamCounts {
    /// Share of the packets that were not received, from 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 packets")]
        let ratio = 1.0 - self.received as f64 / self.sent.max(1) as f64;
        ratio
    }
}

/// Totals over all switches and control links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlLoad {
    /// Packet-ins.
    pub packet_ins: PacketInCounts,
    /// Packets sent to the controller whole because the switch had no free buffer.
    pub buffer_full: u64,
    /// Packets not sent to the controller because too much was waiting to be sent.
    pub dropped_packet_ins: u64,
    /// `FLOW_MOD`s that switches received.
    pub flow_mods: u64,
    /// Bytes to the controller and from the controller.
    pub bytes: (u64, u64),
}

/// A network whose controller has one worker that knows all hosts.
#[derive(Debug)]
pub struct Scenario<A> {
    net: NetworkSimulation<SimulatedEngine<(PacketInCounts, A)>>,
}

impl<A: App> Scenario<A> {
    /// Starts the network of `topology`, waits for the discovery of its links and announces all hosts. `make_app` creates the
    /// application, for the worker and for the acceptor.
    ///
    /// # Panics
    /// If the network cannot be built or fails.
    pub fn new(
        topology: Topology,
        options: &NetworkOptions,
        mut make_app: impl FnMut() -> A,
    ) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = std::time::Instant::now();
        let engine_options = SimulatedEngineOptions {
            seed: options.seed,
            workers: 1,
            conditions: Conditions::ideal(),
            ..SimulatedEngineOptions::default()
        };
        let make_app = |_| (PacketInCounts::default(), make_app());
        let controller = SimulatedEngine::new(&engine_options, start, make_app);
        let mut scenario =
            Self { net: must(NetworkSimulation::new(topology, options, start, controller)) };
        scenario.run_for(DISCOVERY_TIME);
        let (now, data_plane) = scenario.net.data_plane_mut();
        for host in 0..data_plane.topology().hosts.len() {
            must(data_plane.announce(now, host));
        }
        scenario.run_for(SETTLING_TIME);
        scenario
    }

    /// Advances the time.
    pub fn run_for(&mut self, time: Duration) {
        must(self.net.run_for(time));
    }

    /// Has two hosts resolve each other's addresses, with a ping.
    ///
    /// # Panics
    /// If the ping fails.
    pub fn resolve_addresses(&mut self, from: usize, to: usize) {
        let pings = must(self.net.ping([(from, to)], IpFamily::V4, SETTLING_TIME));
        assert_eq!(pings.answered, 1, "host {from} reaches host {to}");
        // A distant host receives a second request before its first reply has arrived.
        self.run_for(SETTLING_TIME);
    }

    /// Opens a TCP connection, sends a byte and closes the connection.
    ///
    /// # Panics
    /// If it is not established within 30 seconds.
    pub fn open_connection(&mut self, from: usize, to: usize) -> OpenedConnection {
        let (before, to) = (self.packet_ins(), self.address(to));
        let (now, data_plane) = self.net.data_plane_mut();
        data_plane.take_host_events();
        must(data_plane.open_tcp(now, from, (to, 80, 1)));
        self.run_for(CONNECTION_TIME);
        let outcomes = self.net.data_plane_mut().1.take_host_events();
        let setup_time = outcomes.iter().find_map(|(_, outcome)| match outcome {
            HostEvent::Tcp(connection) => connection.established,
            HostEvent::Ping(_) => None,
        });
        let setup_time =
            setup_time.unwrap_or_else(|| panic!("no connection was established: {outcomes:?}"));
        OpenedConnection { setup_time, packet_ins: self.packet_ins().since(before) }
    }

    /// Starts a stream of UDP packets and returns its number.
    ///
    /// # Panics
    /// If the host has too many streams.
    pub fn start_stream(&mut self, from: usize, to: usize, stream: &UdpStream) -> u32 {
        let to = self.address(to);
        self.start_stream_to(from, UdpStream { to, ..*stream })
    }

    /// Starts a stream of broadcasts and returns its number.
    ///
    /// # Panics
    /// If the host has too many streams.
    pub fn start_broadcasts(&mut self, from: usize, stream: &UdpStream) -> u32 {
        self.start_stream_to(from, UdpStream { to: Ipv4Addr::BROADCAST.into(), ..*stream })
    }

    fn start_stream_to(&mut self, from: usize, stream: UdpStream) -> u32 {
        let (now, data_plane) = self.net.data_plane_mut();
        let number = must(data_plane.start_stream(now, from, stream));
        number.unwrap_or_else(|| panic!("host {from} has too many streams"))
    }

    /// The packets of a stream so far.
    pub fn stream_counts(&self, from: usize, to: usize, stream: u32) -> StreamCounts {
        let ip = self.address(from);
        let data_plane = self.net.data_plane();
        let sent = data_plane.host(from).map_or(0, |host| host.stream_packets_sent(stream));
        let counts = data_plane.host(to).and_then(|host| host.stream_stats(ip, stream));
        let (received, reordered) = counts.map_or((0, 0), |it| (it.received, it.reordered));
        StreamCounts { sent, received, reordered }
    }

    /// The totals so far.
    pub fn control_load(&self) -> ControlLoad {
        let mut load = ControlLoad { packet_ins: self.packet_ins(), ..ControlLoad::default() };
        for n in 0..self.net.data_plane().topology().switches.len() {
            let counts = self.counts(n);
            load.buffer_full += counts.buffer_full_packet_ins;
            load.dropped_packet_ins += counts.drops.tx_backlog;
            load.flow_mods += counts.flow_mods;
            let (up, down) = self.net.control_bytes(n).unwrap_or_default();
            load.bytes = (load.bytes.0 + up, load.bytes.1 + down);
        }
        load
    }

    /// The counters of a switch.
    pub fn counts(&self, switch: usize) -> SwitchCounters {
        self.net.data_plane().switch(switch).map(|switch| *switch.counters()).unwrap_or_default()
    }

    /// A metric of the applications, summed over workers; 0 if there is none of this name.
    pub fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for (_, app) in self.net.controller().apps() {
            app.metrics(&mut |metric| sum += if metric.name == name { metric.value } else { 0 });
        }
        sum
    }

    /// The simulated network.
    pub fn net(&mut self) -> &mut NetworkSimulation<SimulatedEngine<(PacketInCounts, A)>> {
        &mut self.net
    }

    fn packet_ins(&self) -> PacketInCounts {
        self.net.controller().apps().next().map(|(counts, _)| *counts).unwrap_or_default()
    }

    fn address(&self, host: usize) -> IpAddr {
        let hosts = &self.net.data_plane().topology().hosts;
        hosts.get(host).map_or_else(|| panic!("no host {host}"), |host| host.ipv4.into())
    }
}

impl ControlLoad {
    /// The difference to an earlier total.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            packet_ins: self.packet_ins.since(before.packet_ins),
            buffer_full: self.buffer_full - before.buffer_full,
            dropped_packet_ins: self.dropped_packet_ins - before.dropped_packet_ins,
            flow_mods: self.flow_mods - before.flow_mods,
            bytes: (self.bytes.0 - before.bytes.0, self.bytes.1 - before.bytes.1),
        }
    }
}

#[track_caller]
fn must<T>(done: Result<T, NetworkError>) -> T {
    done.unwrap_or_else(|why| panic!("{why}"))
}
