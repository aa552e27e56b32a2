//! Hosts: network namespaces attached to switch ports.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::controller::append_to;
use crate::namespace::Namespace;
use crate::process::{Daemon, output_of, run};
use crate::test_env::TestEnv;
use crate::{SHORT_TIMEOUT, wait_until};

/// Python program that sends raw frames, for which the standard library of Rust has no socket.
const SEND: &str = "
import socket, sys, time
frame, count, rate = bytes.fromhex(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
start = time.monotonic()
for n in range(count):
    time.sleep(max(0, start + n / rate - time.monotonic()))
    out.send(frame)
";

/// Python program that sends raw frames, each from another source address.
const SEND_FROM_MADE_UP_HOSTS: &str = "
import socket, sys, time
frame, count, rate = bytes.fromhex(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
start = time.monotonic()
for n in range(count):
    time.sleep(max(0, start + n / rate - time.monotonic()))
    out.send(frame[:6] + b'\\x02\\x01' + n.to_bytes(4, 'big') + frame[12:])
";

/// Result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingCounts {
    /// Requests sent.
    pub sent: u32,
    /// Replies that came back.
    pub received: u32,
}

impl PingCounts {
    /// Requests without a reply.
    pub fn lost(self) -> u32 {
        self.sent.saturating_sub(self.received)
    }

    /// Parses the summary of `ping -q`.
    pub(crate) fn parse(summary: &str) -> Self {
        let line = summary.lines().find(|line| line.contains("packets transmitted"));
        let counts = line.unwrap_or_default().split(", ");
        let mut counts = counts.map(|part| part.split(' ').next().and_then(|n| n.parse().ok()));
        match (counts.next().flatten(), counts.next().flatten()) {
            (Some(sent), Some(received)) => Self { sent, received },
            _ => panic!("ping printed no summary: {summary:?}"),
        }
    }
}

/// A host with a MAC address and an IPv4 address.
#[derive(Debug)]
pub struct Host {
    ns: Namespace,
    pub(crate) number: u8,
    pub(crate) interface: String,
    pub(crate) port: u16,
    ping_output: PathBuf,
}

impl Host {
    /// Creates host `number` (the last byte of its addresses), connected by a veth pair to the namespace of `env`.
    pub(crate) fn new(number: u8, env: &TestEnv, interface: &str) -> Self {
        let name = format!("{}-{interface}", env.name());
        let new = Self {
            ns: Namespace::new(&name),
            number,
            interface: interface.to_owned(),
            port: 0,
            ping_output: env.file(&format!("{interface}.ping")),
        };
        new.ns.ip(&format!("link add eth0 type veth peer name {interface} netns {}", env.name()));
        new.ns.ip(&format!("link set eth0 address {} up", new.mac()));
        new.ns.ip(&format!("addr add {}/24 dev eth0", new.ipv4()));
        // A veth pair leaves checksums to hardware offload; TCP over Open vSwitch hangs without this.
        output_of(new.ns.command("ethtool").args(["-K", "eth0", "tx", "off"]));
        new
    }

    /// Sends `count` echo requests to `other`, one every 50 ms.
    #[track_caller]
    pub fn ping(&self, other: &Self, count: u32) -> PingCounts {
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-q", "-i", "0.05", "-W", "1", "-c", &count.to_string(), &other.ipv4()]);
        PingCounts::parse(&String::from_utf8_lossy(&run(&mut ping).stdout))
    }

    /// Sends `count` echo requests with `bytes` of data to `other`, one every 50 ms. They may not be fragmented.
    #[track_caller]
    pub fn ping_unfragmented(&self, other: &Self, count: u32, bytes: u16) -> PingCounts {
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-q", "-i", "0.05", "-W", "1", "-M", "do", "-c", &count.to_string()]);
        ping.args(["-s", &bytes.to_string(), &other.ipv4()]);
        PingCounts::parse(&String::from_utf8_lossy(&run(&mut ping).stdout))
    }

    /// Pings `other` once, while hosts are learned, and then 20 times, of which none may be lost.
    ///
    /// # Panics
    /// When a reply is missing.
    #[track_caller]
    pub fn assert_reaches(&self, other: &Self) {
        self.ping(other, 1);
        let loss = self.ping(other, 20);
        assert_eq!(loss.lost(), 0, "{} pings {}: {loss:?}", self.ipv4(), other.ipv4());
    }

    /// Starts to ping `other` ten times a second.
    #[track_caller]
    pub fn start_ping(&self, other: &Self) -> BackgroundPing {
        self.start_ping_at("0.1", other)
    }

    /// Starts to ping `other` a hundred times a second.
    #[track_caller]
    pub fn start_fast_ping(&self, other: &Self) -> BackgroundPing {
        self.start_ping_at("0.01", other)
    }

    /// Starts to ping `other` every `interval_s`; a host runs one such ping at a time.
    #[track_caller]
    fn start_ping_at(&self, interval_s: &str, other: &Self) -> BackgroundPing {
        // A file, since ping stops sending when nobody reads its output and a pipe is full.
        _ = fs::remove_file(&self.ping_output);
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-i", interval_s, &other.ipv4()]).stdout(append_to(&self.ping_output));
        BackgroundPing { daemon: Daemon::new(&mut ping), output: self.ping_output.clone() }
    }

    /// Adds an IPv6 address.
    pub fn enable_ipv6(&self) {
        output_of(self.ns.command("sysctl").args(["-qw", "net.ipv6.conf.eth0.disable_ipv6=0"]));
        self.ns.ip(&format!("addr add {}/64 dev eth0 nodad", self.ipv6()));
    }

    /// Sends `count` echo requests to the IPv6 address of `other`, one every 50 ms.
    #[track_caller]
    pub fn ping_ipv6(&self, other: &Self, count: u32) -> PingCounts {
        let mut ping = self.ns.command("ping");
        ping.args(["-6", "-n", "-q", "-i", "0.05", "-W", "1", "-c", &count.to_string()]);
        PingCounts::parse(&String::from_utf8_lossy(&run(ping.arg(other.ipv6())).stdout))
    }

    /// Sends `count` broadcasts, one every 10 ms.
    pub fn broadcast(&self, count: u32) {
        let mut ping = self.ns.command("ping");
        ping.args(["-b", "-n", "-q", "-i", "0.01", "-W", "1", "-c", &count.to_string()]);
        run(ping.arg("10.0.0.255"));
    }

    /// Sets the size of the largest packet, bytes.
    #[track_caller]
    pub(crate) fn set_mtu(&self, bytes: u16) {
        self.ns.ip(&format!("link set eth0 mtu {bytes}"));
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        self.ns.command(program)
    }

    /// A UDP socket at `port` (0 for any) that may send broadcasts.
    ///
    /// # Panics
    /// When the port is in use.
    #[track_caller]
    pub fn udp(&self, port: u16) -> UdpSocket {
        let opened = self.ns.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)));
        let ready = opened.and_then(|socket| socket.set_broadcast(true).map(|()| socket));
        ready.unwrap_or_else(|e| panic!("UDP port {port} of {self:?}: {e}"))
    }

    /// A UDP socket at `port` (0 for any) of IPv6.
    ///
    /// # Panics
    /// When the port is in use.
    #[track_caller]
    pub fn udp_ipv6(&self, port: u16) -> UdpSocket {
        let opened = self.ns.within(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)));
        opened.unwrap_or_else(|e| panic!("UDP port {port} of {self:?}: {e}"))
    }

    /// A UDP socket at `port` that receives packets to the multicast address `group`. The host is a member of the group until
    /// it is closed.
    ///
    /// # Panics
    /// When the group cannot be joined.
    #[track_caller]
    pub fn join_group(&self, group: IpAddr, port: u16) -> UdpSocket {
        let (socket, joined) = match group {
            IpAddr::V4(group) => {
                let (socket, own) = (self.udp(port), Ipv4Addr::new(10, 0, 0, self.number));
                let joined = socket.join_multicast_v4(&group, &own);
                (socket, joined)
            }
            IpAddr::V6(group) => {
                let socket = self.udp_ipv6(port);
                let joined = socket.join_multicast_v6(&group, 0);
                (socket, joined)
            }
        };
        joined.unwrap_or_else(|e| panic!("group {group} of {self:?}: {e}"));
        socket
    }

    /// Adds a route to all IPv4 multicast addresses.
    pub fn route_multicasts(&self) {
        self.ns.ip("route add 224.0.0.0/4 dev eth0");
    }

    /// Sends the raw `frame` `count` times, at `per_s` frames a second.
    #[track_caller]
    pub fn send_frames(&self, frame: &[u8], count: u32, per_s: u32) {
        self.run_sender(SEND, frame, count, per_s);
    }

    /// Sends `count` frames with the destination and the payload of `frame`, each from a source address that no host has.
    #[track_caller]
    pub fn send_frames_from_made_up_hosts(&self, frame: &[u8], count: u32, per_s: u32) {
        self.run_sender(SEND_FROM_MADE_UP_HOSTS, frame, count, per_s);
    }

    #[track_caller]
    fn run_sender(&self, program: &str, frame: &[u8], count: u32, per_s: u32) {
        let hex: Vec<_> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut python = self.ns.command("python3");
        let (count, per_s) = (count.to_string(), per_s.to_string());
        output_of(python.args(["-c", program, &hex.concat(), &count, &per_s]));
    }

    /// Frames that the host has received.
    #[track_caller]
    pub fn frames_received(&self) -> u64 {
        frames("RX:", &self.ns.ip("-s link show eth0"))
    }

    /// IPv4 broadcasts that the host has received.
    ///
    /// # Panics
    /// When the kernel has no such counter.
    #[track_caller]
    pub fn broadcasts_received(&self) -> u64 {
        let netstat = output_of(self.ns.command("cat").arg("/proc/net/netstat"));
        let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
        let names = lines.next().unwrap_or_default().split(' ');
        let mut counts = names.zip(lines.next().unwrap_or_default().split(' '));
        let count = counts.find(|&(name, _)| name == "InBcastPkts");
        match count.and_then(|(_, n)| n.parse().ok()) {
            Some(count) => count,
            None => panic!("no InBcastPkts in /proc/net/netstat: {netstat:?}"),
        }
    }

    /// TCP throughput to `other`, measured by `iperf3` over ten megabytes, bits per second.
    ///
    /// # Panics
    /// When the connection fails.
    #[track_caller]
    pub fn iperf(&self, other: &Self) -> f64 {
        let mut server =
            Daemon::new(other.ns.command("iperf3").args(["-s", "-1"]).stdout(Stdio::null()));
        let mut client = self.ns.command("iperf3");
        client.args(["-J", "-n", "10M", "--connect-timeout", "3000", "-c", &other.ipv4()]);
        let mut report = String::new();
        wait_until(SHORT_TIMEOUT, "iperf3", || {
            report = String::from_utf8_lossy(&run(&mut client).stdout).into_owned();
            report.contains("sum_received")
        });
        server.kill();
        let sum = report.split("\"sum_received\"").nth(1).unwrap_or_default();
        let rate = sum.split("\"bits_per_second\":").nth(1).unwrap_or_default();
        let rate = rate.split([',', '}']).next().unwrap_or_default().trim().parse();
        rate.unwrap_or_else(|_| panic!("no throughput in the report of iperf3: {report}"))
    }

    /// Opens a TCP connection to `other` and closes it.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[track_caller]
    pub fn open_connection(&self, other: &Self) {
        let listen = || {
            let listener = TcpListener::bind((other.ipv4(), 0))?;
            Ok::<_, std::io::Error>((listener.local_addr()?, listener))
        };
        let opened = other.ns.within(listen).and_then(|(address, listener)| {
            let near = self.ns.within(|| TcpStream::connect(address))?;
            listener.accept().map(|(far, _)| (near, far))
        });
        assert!(
            opened.is_ok(),
            "{} opens a connection to {}: {opened:?}",
            self.number,
            other.number
        );
    }

    /// Adds a permanent ARP entry for `other`.
    pub fn add_neighbour(&self, other: &Self) {
        let (ip, mac) = (other.ipv4(), other.mac());
        self.ns.ip(&format!("neigh replace {ip} lladdr {mac} dev eth0 nud permanent"));
    }

    /// Clears the ARP and neighbour tables.
    pub fn forget_neighbours(&self) {
        self.ns.ip("neigh flush all");
    }

    /// Removes its IP addresses; it keeps its MAC address.
    pub fn remove_addresses(&self) {
        self.ns.ip("addr flush dev eth0");
    }

    /// Removes its addresses: the port stays up, and nothing answers there any more.
    pub fn become_silent(&self) {
        self.ns.ip("addr flush dev eth0");
        self.ns.ip("link set eth0 address 02:00:00:00:00:00");
    }

    /// Adds the IPv4 address of `other`, without a gratuitous ARP.
    pub fn add_address_of(&self, other: &Self) {
        self.ns.ip(&format!("addr add {}/24 dev eth0", other.ipv4()));
    }

    /// Sets the addresses of `other`, without a gratuitous ARP. Forgets its neighbours.
    pub fn take_addresses_of(&self, other: &Self) {
        self.ns.ip("addr flush dev eth0");
        self.ns.ip(&format!("link set eth0 address {}", other.mac()));
        self.ns.ip(&format!("addr add {}/24 dev eth0", other.ipv4()));
    }

    /// Its IPv4 address.
    pub fn ipv4(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Its IPv6 address, after [`enable_ipv6`](Self::enable_ipv6).
    pub fn ipv6(&self) -> String {
        format!("fd00::{:x}", self.number)
    }

    /// Its MAC address.
    pub fn mac(&self) -> String {
        format!("00:00:00:00:00:{:02x}", self.number)
    }

    /// Number of the switch port that it is attached to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The output action to it, as `ovs-ofctl` prints it.
    pub fn output(&self) -> String {
        format!("output:{}", self.port)
    }
}

/// The frame counter under `heading` in the output of `ip -s link`.
#[track_caller]
fn frames(heading: &str, output: &str) -> u64 {
    let counters = output.lines().skip_while(|line| !line.trim().starts_with(heading)).nth(1);
    let frames = counters.and_then(|line| line.split_whitespace().nth(1));
    match frames.and_then(|n| n.parse().ok()) {
        Some(frames) => frames,
        None => panic!("no frame counter in the output of ip: {output:?}"),
    }
}

/// Frames of an interface, both directions together.
#[track_caller]
pub(crate) fn frames_both_directions(output: &str) -> u64 {
    frames("RX:", output) + frames("TX:", output)
}

/// A ping that runs in the background.
#[derive(Debug)]
pub struct BackgroundPing {
    daemon: Daemon,
    output: PathBuf,
}

impl BackgroundPing {
    /// Waits until `count` more replies have been received.
    ///
    /// # Panics
    /// When that takes longer than [`SHORT_TIMEOUT`].
    #[track_caller]
    pub fn wait_for_replies(&self, count: u32) {
        let wanted = self.counts().received + count;
        wait_until(SHORT_TIMEOUT, &format!("{count} more replies to a ping"), || {
            self.counts().received >= wanted
        });
    }

    /// Stops it; counts requests up to the last reply, since later ones may still be in flight.
    #[track_caller]
    pub fn stop(mut self) -> PingCounts {
        self.daemon.signal(Signal::INT);
        wait_until(SHORT_TIMEOUT, "ping to end", || self.daemon.exit_status().is_some());
        self.counts()
    }

    fn counts(&self) -> PingCounts {
        let output = fs::read_to_string(&self.output).unwrap_or_default();
        // The last line may be incomplete.
        let lines = output.rsplit_once('\n').map_or("", |(lines, _)| lines);
        // Other lines with a sequence number report that the host is unreachable.
        let replies = lines.lines().filter(|line| line.contains(" bytes from "));
        let numbers = replies.filter_map(|line| line.split_once("icmp_seq=")?.1.split_once(' '));
        let replies: BTreeSet<u32> = numbers.filter_map(|(n, _)| n.parse().ok()).collect();
        let received = u32::try_from(replies.len()).unwrap_or(u32::MAX);
        PingCounts { sent: replies.last().copied().unwrap_or_default(), received }
    }
}
