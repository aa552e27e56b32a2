//! An emulated network with which a controller is tested, and what was recorded in it.

pub(crate) mod messages;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use sluice_base::ordered;
use sluice_emu::host::{HostEvent, TcpResult, UdpStream};
use sluice_emu::live::{LiveNetwork, RecordedMessage};
use sluice_emu::net::{CapturedFrame, IpFamily, LinkState, NetworkOptions};
use sluice_emu::switch::EmulatedSwitchConfig;
use sluice_emu::topology::{PortRef, Topology};
use sluice_io::clock;
use sluice_openflow::{MacAddr, Version, Versions};

use messages::RECORDED;

/// Longest time between two looks at what has happened.
const STEP: Duration = Duration::from_millis(1);

/// Time for all switches to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the first discovery message after all switches have connected. Without one, the controller does not discover links.
const FIRST_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(8);

/// Time for the discovery of all links.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after the last link was reported, and without messages after hosts have announced themselves, for the controller to process
/// that.
const SETTLE: Duration = Duration::from_secs(1);

/// Time between the announcements of two hosts.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(2);

/// Messages in [`SETTLE`] that controllers send from time to time.
const SILENCE_MESSAGES: usize = 10;

/// Time for the controller to process the announcements of hosts.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time after which a switch that has lost its connection connects again.
pub(crate) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Time for requests to end, more than that of each of them.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

/// Destination port of TCP connections.
const TCP_PORT: u16 = 80;

/// Ports of UDP streams.
const UDP_PORT: u16 = 5001;

/// Most control messages between two calls of [`TestNetwork::clear`]: more than any test exchanges, and less than memory holds.
const MESSAGES_MAX: usize = 1 << 22;

/// Most bytes of them.
const MESSAGE_BYTES_MAX: usize = 512 << 20;

/// Most frames that are captured between two such calls.
const FRAMES_MAX: usize = 1 << 21;

/// Most flow entries of a table: more than tests install.
const TABLE_ENTRIES_MAX: usize = 1 << 20;

/// A switch that speaks `version` and, like Open vSwitch, buffers no packets.
pub(crate) fn switch_config(version: Version) -> EmulatedSwitchConfig {
    EmulatedSwitchConfig {
        versions: Versions::of(&[version]),
        n_buffers: 0,
        table_entries_max: TABLE_ENTRIES_MAX,
        ..EmulatedSwitchConfig::default()
    }
}

/// An emulated network in real time, with what was recorded since [`TestNetwork::clear`].
pub(crate) struct TestNetwork<'t> {
    live: LiveNetwork,
    /// Control messages in the order in which they were sent or received.
    pub(crate) messages: Vec<RecordedMessage>,
    /// Their bytes.
    message_bytes: usize,
    /// Frames that arrived at captured hosts.
    pub(crate) frames: Vec<CapturedFrame>,
    is_interrupted: &'t dyn Fn() -> bool,
}

impl<'t> TestNetwork<'t> {
    /// A network of switches like `switch`, which are about to connect to `target`.
    pub(crate) fn connect(
        target: SocketAddr,
        topology: Topology,
        switch: EmulatedSwitchConfig,
        is_interrupted: &'t dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let options = NetworkOptions {
            switch,
            reconnect_delay: RECONNECT_DELAY,
            ..NetworkOptions::default()
        };
        let mut live = LiveNetwork::connect(target, topology, &options)
            .map_err(|error| format!("the emulated network could not be started: {error}"))?;
        live.record_messages(&RECORDED);
        Ok(Self {
            live,
            messages: Vec::new(),
            message_bytes: 0,
            frames: Vec::new(),
            is_interrupted,
        })
    }

    /// Runs the network until `is_done`, which is asked at least every millisecond, or until `deadline`. Returns whether it was done.
    pub(crate) fn run(
        &mut self,
        deadline: Instant,
        mut is_done: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, String> {
        self.run_checked(deadline, |network| Ok(is_done(network)))
    }

    /// As [`run`](Self::run), with a condition that can fail.
    pub(crate) fn run_checked(
        &mut self,
        deadline: Instant,
        mut is_done: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<bool, String> {
        loop {
            if is_done(self)? {
                return Ok(true);
            }
            let now = clock::now();
            if now >= deadline {
                return Ok(false);
            }
            if (self.is_interrupted)() {
                return Err("the study was interrupted".to_owned());
            }
            self.live
                .run_once(Some(deadline.min(now + STEP)))
                .map_err(|error| format!("the emulated network failed: {error}"))?;
            self.take_records()?;
        }
    }

    /// Takes what was recorded. A controller that sends without end is an error, before it fills the memory.
    fn take_records(&mut self) -> Result<(), String> {
        let mut messages = self.live.take_recorded_messages();
        self.message_bytes += messages.iter().map(|it| it.bytes.len()).sum::<usize>();
        self.messages.append(&mut messages);
        self.frames.append(&mut self.live.data_plane_mut().1.take_captured_frames());
        if self.live.messages_not_recorded() > 0
            || self.messages.len() > MESSAGES_MAX
            || self.message_bytes > MESSAGE_BYTES_MAX
        {
            return Err(format!(
                "switches and controller exchanged more than {MESSAGES_MAX} messages, or {} MiB of them",
                MESSAGE_BYTES_MAX >> 20
            ));
        }
        if self.frames.len() > FRAMES_MAX {
            return Err(format!("more than {FRAMES_MAX} frames arrived"));
        }
        Ok(())
    }

    /// Runs the network until threads that wait for the controller have ended: it may answer them only when switches have answered it.
    pub(crate) fn run_until_finished(
        &mut self,
        threads: &[ScopedJoinHandle<'_, ()>],
    ) -> Result<(), String> {
        let are_finished = |_: &mut Self| threads.iter().all(ScopedJoinHandle::is_finished);
        self.run(clock::now() + FINISH_TIMEOUT, are_finished).map(drop)
    }

    /// Runs the network for `time`.
    pub(crate) fn run_for(&mut self, time: Duration) -> Result<(), String> {
        self.run(clock::now() + time, |_| false).map(drop)
    }

    /// Forgets what was recorded.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.message_bytes = 0;
        self.frames.clear();
    }

    /// What to distrust if not all switches are connected.
    pub(crate) fn connection_warning(&self) -> Option<String> {
        let (connected, all) = (self.live.connected_switches(), self.topology().switches.len());
        (connected < all).then(|| {
            format!(
                "only {connected} of {all} switches were connected at the end of the measurement"
            )
        })
    }

    /// Waits until all switches are connected.
    pub(crate) fn wait_for_connections(&mut self) -> Result<(), String> {
        let all = self.topology().switches.len();
        let is_connected = |network: &mut Self| network.live.connected_switches() == all;
        if self.run(clock::now() + CONNECT_TIMEOUT, is_connected)? {
            return Ok(());
        }
        let connected = self.live.connected_switches();
        let limit = CONNECT_TIMEOUT.as_secs();
        Err(format!("only {connected} of {all} switches were connected within {limit} s"))
    }

    /// Waits until the controller has discovered the topology: a discovery frame of each link was reported to it in each direction. A
    /// controller that sends none is accepted in a topology without loops, where it needs none.
    pub(crate) fn wait_for_discovery(&mut self) -> Result<(), String> {
        self.wait_for_connections()?;
        let mut missing = link_ports(self.topology());
        let all = missing.len();
        let (start, mut read) = (clock::now(), 0);
        let mut searched = 0;
        let sends_discovery = |network: &mut Self| {
            // Each message once, since there may be many.
            let mut new = network.messages.iter().skip(searched);
            searched = network.messages.len();
            new.any(messages::is_discovery_message)
        };
        if all > 0 && !self.run(start + FIRST_DISCOVERY_TIMEOUT, sends_discovery)? {
            if self.topology().has_loops() {
                return Err(format!(
                    "the controller discovers no topology: it has sent no LLDP or BDDP frame within {} s",
                    FIRST_DISCOVERY_TIMEOUT.as_secs()
                ));
            }
            return Ok(());
        }
        let is_discovered = |network: &mut Self| {
            for message in network.messages.iter().skip(read) {
                if let Some(port) = messages::reported_port(message) {
                    missing.remove(&port);
                }
            }
            read = network.messages.len();
            missing.is_empty()
        };
        if !self.run(start + DISCOVERY_TIMEOUT, is_discovered)? {
            let limit = DISCOVERY_TIMEOUT.as_secs();
            let found = all - missing.len();
            return Err(format!(
                "the controller has discovered {found} of {all} links (each direction apart) within {limit} s"
            ));
        }
        self.run_for(SETTLE)
    }

    /// Lets hosts announce themselves, by ARP and neighbour discovery, and waits until the controller has nothing to do any more.
    pub(crate) fn announce(
        &mut self,
        hosts: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        for host in hosts {
            let (now, data_plane) = self.live.data_plane_mut();
            data_plane.announce(now, host).map_err(|error| error.to_string())?;
            // So that they are not one burst.
            self.run_for(ANNOUNCE_INTERVAL)?;
        }
        self.wait_for_silence()
    }

    /// Waits until hardly any message but those of discovery is exchanged.
    pub(crate) fn wait_for_silence(&mut self) -> Result<(), String> {
        let deadline = clock::now() + SILENCE_TIMEOUT;
        while clock::now() < deadline {
            let before = self.messages.len();
            self.run_for(SETTLE)?;
            let is_other = |it: &&RecordedMessage| {
                !messages::is_discovery_message(it) && messages::reported_port(it).is_none()
            };
            if self.messages.iter().skip(before).filter(is_other).count() <= SILENCE_MESSAGES {
                return Ok(());
            }
        }
        Err(format!(
            "switches and controller still exchanged messages after {} s without anything new",
            SILENCE_TIMEOUT.as_secs()
        ))
    }

    /// Captures the frames that arrive at a host.
    pub(crate) fn capture(&mut self, host: usize) {
        self.live.data_plane_mut().1.capture_frames(host);
    }

    /// Lets a host send a frame at the time of the last iteration. Returns that time.
    pub(crate) fn send(&mut self, host: usize, frame: Vec<u8>) -> Result<Instant, String> {
        let (now, data_plane) = self.live.data_plane_mut();
        data_plane.send_frame(now, host, frame).map_err(|error| error.to_string())?;
        Ok(now)
    }

    /// Lets `from` open a TCP connection to `to`, send a byte and close it. Returns how that went; `None` if it was not over in `timeout`.
    pub(crate) fn open_connection(
        &mut self,
        (from, to): (usize, usize),
        timeout: Duration,
    ) -> Result<Option<TcpResult>, String> {
        let (address, _) = self.addresses(to)?;
        self.run_once_now()?;
        let (now, data_plane) = self.live.data_plane_mut();
        let id = data_plane
            .open_tcp(now, from, (address, TCP_PORT, 1))
            .map_err(|error| error.to_string())?;
        let mut result = None;
        self.run(now + timeout, |network| {
            let events = network.live.data_plane_mut().1.take_host_events();
            result = events.into_iter().find_map(|(host, event)| match event {
                HostEvent::Tcp(tcp) if host == from && tcp.id == id => Some(tcp),
                _ => None,
            });
            result.is_some()
        })?;
        Ok(result)
    }

    /// Lets `from` send a UDP stream to `to`, and waits until `drain` after its end. Neither has to resolve the other's address.
    pub(crate) fn send_stream(
        &mut self,
        (from, to): (usize, usize),
        stream: &UdpStream,
        drain: Duration,
    ) -> Result<StreamCounts, String> {
        let (source, target) = (self.addresses(from)?, self.addresses(to)?);
        self.run_once_now()?;
        let (now, data_plane) = self.live.data_plane_mut();
        let stream = UdpStream { to: target.0, port: UDP_PORT, ..*stream };
        let id = data_plane
            .add_neighbour(now, from, target)
            .and_then(|()| data_plane.add_neighbour(now, to, source))
            .and_then(|()| data_plane.start_stream(now, from, stream))
            .map_err(|error| error.to_string())?
            .ok_or_else(|| "the host has too many streams".to_owned())?;
        let packets = u32::try_from(stream.packets).unwrap_or(u32::MAX);
        let time = Duration::from_secs(packets.into()) / stream.rate_pps.max(1);
        self.run_for(time + drain)?;
        let host = |host| self.live.data_plane().host(host);
        let stats = host(to).and_then(|host| host.stream_stats(source.0, id));
        Ok(StreamCounts {
            sent: host(from).map_or(0, |host| host.stream_packets_sent(id)),
            received: stats.map_or(0, |stats| stats.received),
            duplicates: stats.map_or(0, |stats| stats.duplicates),
            reordered: stats.map_or(0, |stats| stats.reordered),
        })
    }

    fn addresses(&self, host: usize) -> Result<(IpAddr, MacAddr), String> {
        let node = self.topology().hosts.get(host);
        node.map(|node| (IpFamily::V4.address_of(node), node.mac))
            .ok_or_else(|| format!("the network has no host {}", host + 1))
    }

    /// One iteration that does not wait, after which the time of the network is the present.
    pub(crate) fn run_once_now(&mut self) -> Result<(), String> {
        self.live
            .run_once(Some(clock::now()))
            .map(drop)
            .map_err(|error| format!("the emulated network failed: {error}"))
    }

    /// Cuts a link: the ports at both ends go down.
    pub(crate) fn cut_link(&mut self, link: usize) -> Result<(), String> {
        self.run_once_now()?;
        let (now, data_plane) = self.live.data_plane_mut();
        data_plane.set_link_state(now, link, LinkState::Down).map_err(|error| error.to_string())
    }

    /// Frames delivered by each link between switches, both directions together.
    pub(crate) fn link_frames(&self) -> Vec<u64> {
        let links = 0..self.topology().links.len();
        let counters = links.filter_map(|link| self.live.data_plane().link(link));
        counters.map(|(_, counters)| counters.delivered).collect()
    }

    /// Flow entries of all switches.
    pub(crate) fn flow_entries(&self) -> usize {
        let switches = 0..self.topology().switches.len();
        let switches = switches.filter_map(|n| self.live.data_plane().switch(n));
        switches.map(sluice_emu::switch::EmulatedSwitch::flow_entry_count).sum()
    }

    /// The address to which switches connect when they have lost their connection.
    pub(crate) fn set_controller(&mut self, target: SocketAddr) {
        self.live.set_controller(target);
    }

    /// Number of switches whose handshake is complete.
    pub(crate) fn connected_switches(&self) -> usize {
        self.live.connected_switches()
    }

    /// The topology.
    pub(crate) fn topology(&self) -> &Topology {
        self.live.data_plane().topology()
    }
}

/// Packets of a UDP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    pub(crate) sent: u64,
    /// Without duplicates.
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    /// Received after one that was sent later.
    pub(crate) reordered: u64,
}

/// Two hosts at different ends of a network: the first and the last.
pub(crate) fn end_hosts(topology: &Topology) -> Result<(usize, usize), String> {
    match topology.hosts.len() {
        n @ (0 | 1) => Err(format!("the network has {n} hosts (expected at least 2)")),
        n => Ok((0, n - 1)),
    }
}

/// The ports at the ends of links between switches; there is one for each direction of each link.
fn link_ports(topology: &Topology) -> BTreeSet<PortRef> {
    ordered(topology.links.iter().flat_map(|link| [link.a, link.b]))
}
