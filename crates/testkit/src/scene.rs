//! A network in virtual time whose hosts are known, and what its controller was asked.

use std::net::IpAddr;
use std::time::Duration;

use sluice_emu::host::{Outcome, Stream};
use sluice_emu::net::{Family, Net, NetError, Options};
use sluice_emu::switch::Counts;
use sluice_emu::topology::Topology;
use sluice_openflow::{EtherType, Ethernet, PacketIn};
use sluice_sdk::{App, Ctx, Verdict};

use crate::Brain;

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
pub struct Asked {
    /// Address resolution.
    pub arp: u64,
    /// TCP over IPv4.
    pub tcp: u64,
    /// UDP over IPv4.
    pub udp: u64,
}

impl App for Asked {
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

impl Asked {
    fn since(self, before: Self) -> Self {
        Self { arp: self.arp - before.arp, tcp: self.tcp - before.tcp, udp: self.udp - before.udp }
    }
}

/// A connection that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// How long until it stood.
    pub took: Duration,
    /// What was asked of the controller until it was closed.
    pub asked: Asked,
}

/// A stream that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Packets of it.
    pub packets: u64,
    /// Those that came.
    pub received: u64,
    /// Those that came after a later one.
    pub reordered: u64,
}

impl Sent {
    /// The share that did not come.
    pub fn lost(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 packets")]
        let share = 1.0 - self.received as f64 / self.packets.max(1) as f64;
        share
    }
}

/// What all switches and control links together did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// What was asked.
    pub asked: Asked,
    /// Frames that came up whole since there was no place for them to wait.
    pub full: u64,
    /// Frames that did not come up since too much waited to be sent.
    pub untaken: u64,
    /// Rules and deletions that switches heard.
    pub flow_mods: u64,
    /// Bytes to the controller, and from it.
    pub bytes: (u64, u64),
}

/// A network with a controller of one worker, all of whose hosts are known.
#[derive(Debug)]
pub struct Scene<A> {
    net: Net<Brain<(Asked, A)>>,
}

impl<A: App> Scene<A> {
    /// The network of `topology` some time after its start.
    ///
    /// # Panics
    /// When it cannot be made, or ends.
    pub fn new(topology: Topology, options: &Options, app: A) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = std::time::Instant::now();
        let brain = Brain::new([(Asked::default(), app)], options.seed);
        let mut scene = Self { net: must(Net::new(topology, options, start, brain)) };
        scene.pass(DISCOVERY);
        let (now, fabric) = scene.net.fabric_mut();
        for host in 0..fabric.topology().hosts.len() {
            must(fabric.announce(now, host));
        }
        scene.pass(QUIET);
        scene
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        must(self.net.run_for(time));
    }

    /// Lets two hosts find each other's addresses.
    ///
    /// # Panics
    /// When they do not.
    pub fn introduce(&mut self, from: usize, to: usize) {
        let pings = must(self.net.ping([(from, to)], Family::V4, QUIET));
        assert_eq!(pings.answered, 1, "host {from} reaches host {to}");
        // Who is far away is asked again before it has answered.
        self.pass(QUIET);
    }

    /// Opens a connection, sends a byte and closes.
    ///
    /// # Panics
    /// When it does not stand soon.
    pub fn open(&mut self, from: usize, to: usize) -> Opened {
        let (before, to) = (self.asked(), self.address(to));
        let (now, fabric) = self.net.fabric_mut();
        fabric.take_outcomes();
        must(fabric.open(now, from, (to, 80, 1)));
        self.pass(OPENED);
        let outcomes = self.net.fabric_mut().1.take_outcomes();
        let took = outcomes.iter().find_map(|(_, outcome)| match outcome {
            Outcome::Tcp(connection) => connection.established,
            Outcome::Ping(_) => None,
        });
        let took = took.unwrap_or_else(|| panic!("no connection stood: {outcomes:?}"));
        Opened { took, asked: self.asked().since(before) }
    }

    /// Begins a stream of UDP packets; returns its number.
    ///
    /// # Panics
    /// When the host has too many.
    pub fn begin(&mut self, from: usize, to: usize, stream: &Stream) -> u32 {
        let to = self.address(to);
        let (now, fabric) = self.net.fabric_mut();
        let number = must(fabric.stream(now, from, Stream { to, ..*stream }));
        number.unwrap_or_else(|| panic!("host {from} sends too many streams"))
    }

    /// What became of a stream so far.
    pub fn sent(&self, from: usize, to: usize, stream: u32) -> Sent {
        let ip = self.address(from);
        let fabric = self.net.fabric();
        let packets = fabric.host(from).map_or(0, |host| host.sent(stream));
        let heard = fabric.host(to).and_then(|host| host.heard(ip, stream));
        let (received, reordered) = heard.map_or((0, 0), |it| (it.received, it.reordered));
        Sent { packets, received, reordered }
    }

    /// What was done so far.
    pub fn work(&self) -> Work {
        let mut work = Work { asked: self.asked(), ..Work::default() };
        for n in 0..self.net.fabric().topology().switches.len() {
            let counts = self.counts(n);
            work.full += counts.full_packets;
            work.untaken += counts.drops.untaken;
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
    pub fn gauge(&self, name: &str) -> u64 {
        let mut sum = 0;
        for (_, app) in self.net.controller().apps() {
            app.gauges(&mut |(its, _, value)| sum += if its == name { value } else { 0 });
        }
        sum
    }

    /// The network.
    pub fn net(&mut self) -> &mut Net<Brain<(Asked, A)>> {
        &mut self.net
    }

    fn asked(&self) -> Asked {
        self.net.controller().apps().next().map(|(asked, _)| *asked).unwrap_or_default()
    }

    fn address(&self, host: usize) -> IpAddr {
        let hosts = &self.net.fabric().topology().hosts;
        hosts.get(host).map_or_else(|| panic!("no host {host}"), |host| host.ipv4.into())
    }
}

impl Work {
    /// What was done since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            asked: self.asked.since(before.asked),
            full: self.full - before.full,
            untaken: self.untaken - before.untaken,
            flow_mods: self.flow_mods - before.flow_mods,
            bytes: (self.bytes.0 - before.bytes.0, self.bytes.1 - before.bytes.1),
        }
    }
}

#[track_caller]
fn must<T>(done: Result<T, NetError>) -> T {
    done.unwrap_or_else(|why| panic!("{why}"))
}
