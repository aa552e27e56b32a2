//! A network in virtual time whose hosts are known, and what its controller was asked.

use std::net::IpAddr;
use std::time::Duration;

use sluice_emu::host::{Outcome, Stream};
use sluice_emu::net::{Family, Net, NetError, Options};
use sluice_emu::switch::Counts;
use sluice_emu::topology::Topology;
use sluice_openflow::{EtherType, Ethernet, PacketIn};
use sluice_sdk::{App, Ctx, Verdict};

use crate::SimulatedController;

/// Long enough for discovery, whatever the control links.
const DISCOVERY: Duration = Duration::from_secs(30);

/// Long enough for all that was said to have come.
const QUIET: Duration = Duration::from_secs(10);

/// Long enough for a connection, shorter than hosts remember addresses.
const OPENED: Duration = Duration::from_secs(30);

/// Where protocol and ports are in a packet of IPv4 without options, tags or fragments.
const PROTOCOL_AT: usize = 14 + 9;

/// Frames that came up, by what they carry. It is the first in a row, and passes all of them on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketInCounts {
    /// Address resolution.
    pub arp: u64,
    /// TCP over IPv4.
    pub tcp: u64,
    /// UDP over IPv4.
    pub udp: u64,
}

impl App for PacketInCounts {
    fn inspects_every_packet(&self) -> bool {
        true
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, _: &mut Ctx<'_>) -> Verdict {
        match Ethernet::new(p.frame).map(|eth| eth.ethertype) {
            Some(EtherType::ARP) => self.arp += 1,
            Some(EtherType::IPV4) => match p.frame.get(PROTOCOL_AT) {
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

/// A connection that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedConnection {
    /// How long until it stood.
    pub setup_time: Duration,
    /// What was asked of the controller until it was closed.
    pub packet_ins: PacketInCounts,
}

/// A stream that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Packets of it.
    pub sent: u64,
    /// Those that came.
    pub received: u64,
    /// Those that came after a later one.
    pub reordered: u64,
}

impl StreamCounts {
    /// The share that did not come.
    pub fn loss_ratio(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 packets")]
        let share = 1.0 - self.received as f64 / self.sent.max(1) as f64;
        share
    }
}

/// What all switches and control links together did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlLoad {
    /// What was asked.
    pub packet_ins: PacketInCounts,
    /// Frames that came up whole since there was no place for them to wait.
    pub buffer_full: u64,
    /// Frames that did not come up since too much waited to be sent.
    pub dropped_packet_ins: u64,
    /// Rules and deletions that switches heard.
    pub flow_mods: u64,
    /// Bytes to the controller, and from it.
    pub bytes: (u64, u64),
}

/// A network with a controller of one worker, all of whose hosts are known.
#[derive(Debug)]
pub struct Scenario<A> {
    net: Net<SimulatedController<(PacketInCounts, A)>>,
}

impl<A: App> Scenario<A> {
    /// The network of `topology` some time after its start.
    ///
    /// # Panics
    /// When it cannot be made, or ends.
    pub fn new(topology: Topology, options: &Options, app: A) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = std::time::Instant::now();
        let brain = SimulatedController::new([(PacketInCounts::default(), app)], options.seed);
        let mut scene = Self { net: must(Net::new(topology, options, start, brain)) };
        scene.run_for(DISCOVERY);
        let (now, fabric) = scene.net.fabric_mut();
        for host in 0..fabric.topology().hosts.len() {
            must(fabric.announce(now, host));
        }
        scene.run_for(QUIET);
        scene
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        must(self.net.run_for(time));
    }

    /// Lets two hosts find each other's addresses.
    ///
    /// # Panics
    /// When they do not.
    pub fn resolve_addresses(&mut self, from: usize, to: usize) {
        let pings = must(self.net.ping([(from, to)], Family::V4, QUIET));
        assert_eq!(pings.answered, 1, "host {from} reaches host {to}");
        // Who is far away is asked again before it has answered.
        self.run_for(QUIET);
    }

    /// Opens a connection, sends a byte and closes.
    ///
    /// # Panics
    /// When it does not stand soon.
    pub fn open_connection(&mut self, from: usize, to: usize) -> OpenedConnection {
        let (before, to) = (self.asked(), self.address(to));
        let (now, fabric) = self.net.fabric_mut();
        fabric.take_outcomes();
        must(fabric.open(now, from, (to, 80, 1)));
        self.run_for(OPENED);
        let outcomes = self.net.fabric_mut().1.take_outcomes();
        let took = outcomes.iter().find_map(|(_, outcome)| match outcome {
            Outcome::Tcp(connection) => connection.established,
            Outcome::Ping(_) => None,
        });
        let took = took.unwrap_or_else(|| panic!("no connection stood: {outcomes:?}"));
        OpenedConnection { setup_time: took, packet_ins: self.asked().since(before) }
    }

    /// Begins a stream of UDP packets; returns its number.
    ///
    /// # Panics
    /// When the host has too many.
    pub fn start_stream(&mut self, from: usize, to: usize, stream: &Stream) -> u32 {
        let to = self.address(to);
        let (now, fabric) = self.net.fabric_mut();
        let number = must(fabric.stream(now, from, Stream { to, ..*stream }));
        number.unwrap_or_else(|| panic!("host {from} sends too many streams"))
    }

    /// What became of a stream so far.
    pub fn stream_counts(&self, from: usize, to: usize, stream: u32) -> StreamCounts {
        let ip = self.address(from);
        let fabric = self.net.fabric();
        let packets = fabric.host(from).map_or(0, |host| host.sent(stream));
        let heard = fabric.host(to).and_then(|host| host.heard(ip, stream));
        let (received, reordered) = heard.map_or((0, 0), |it| (it.received, it.reordered));
        StreamCounts { sent: packets, received, reordered }
    }

    /// What was done so far.
    pub fn control_load(&self) -> ControlLoad {
        let mut work = ControlLoad { packet_ins: self.asked(), ..ControlLoad::default() };
        for n in 0..self.net.fabric().topology().switches.len() {
            let counts = self.counts(n);
            work.buffer_full += counts.full_packets;
            work.dropped_packet_ins += counts.drops.untaken;
            work.flow_mods += counts.flow_mods;
            let (up, down) = self.net.control_bytes(n).unwrap_or_default();
            work.bytes = (work.bytes.0 + up, work.bytes.1 + down);
        }
        work
    }

    /// What a switch counts.
    pub fn counts(&self, switch: usize) -> Counts {
        self.net.fabric().switch(switch).map(|switch| *switch.counts()).unwrap_or_default()
    }

    /// A number that the applications show.
    pub fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for (_, app) in self.net.controller().apps() {
            app.gauges(&mut |(its, _, value)| sum += if its == name { value } else { 0 });
        }
        sum
    }

    /// The network.
    pub fn net(&mut self) -> &mut Net<SimulatedController<(PacketInCounts, A)>> {
        &mut self.net
    }

    fn asked(&self) -> PacketInCounts {
        self.net.controller().apps().next().map(|(asked, _)| *asked).unwrap_or_default()
    }

    fn address(&self, host: usize) -> IpAddr {
        let hosts = &self.net.fabric().topology().hosts;
        hosts.get(host).map_or_else(|| panic!("no host {host}"), |host| host.ipv4.into())
    }
}

impl ControlLoad {
    /// What was done since.
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
fn must<T>(done: Result<T, NetError>) -> T {
    done.unwrap_or_else(|why| panic!("{why}"))
}
