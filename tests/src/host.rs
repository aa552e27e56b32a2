//! A station: a network namespace with one address, plugged into a switch.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use rustix::process::Signal;

use crate::namespace::Namespace;
use crate::shell::{Daemon, output_of, run};
use crate::{SOON, wait_until};

/// Sends frames as they are, which takes a socket that std does not have.
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

/// What a ping counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Requests sent.
    pub sent: u32,
    /// Replies that came back.
    pub received: u32,
}

impl Loss {
    /// Requests without a reply.
    pub fn lost(self) -> u32 {
        self.sent.saturating_sub(self.received)
    }

    /// Reads the summary of `ping -q`.
    pub(crate) fn parse(summary: &str) -> Self {
        let line = summary.lines().find(|line| line.contains("packets transmitted"));
        let counts = line.unwrap_or_default().split(", ");
        let mut counts = counts.map(|part| part.split(' ').next().and_then(|n| n.parse().ok()));
        match (counts.next().flatten(), counts.next().flatten()) {
            (Some(sent), Some(received)) => Self { sent, received },
            _ => panic!("ping did not say how it went: {summary:?}"),
        }
    }
}

/// A station with an address of Ethernet and one of IPv4.
#[derive(Debug)]
pub struct Host {
    ns: Namespace,
    pub(crate) rank: u8,
    pub(crate) jack: String,
    pub(crate) port: u16,
}

impl Host {
    /// Makes station `rank`, whose addresses end in that, with a cable to namespace `room`.
    pub(crate) fn new(name: &str, rank: u8, room: &str, jack: &str) -> Self {
        let new = Self { ns: Namespace::new(name), rank, jack: jack.to_owned(), port: 0 };
        new.ns.ip(&format!("link add eth0 type veth peer name {jack} netns {room}"));
        new.ns.ip(&format!("link set eth0 address {} up", new.mac()));
        new.ns.ip(&format!("addr add {}/24 dev eth0", new.ipv4()));
        // Else checksums are left to hardware that is not there, and TCP hangs.
        output_of(new.ns.command("ethtool").args(["-K", "eth0", "tx", "off"]));
        new
    }

    /// Sends `count` echo requests to `other`, one every 50 ms.
    #[track_caller]
    pub fn ping(&self, other: &Self, count: u32) -> Loss {
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-q", "-i", "0.05", "-W", "1", "-c", &count.to_string(), &other.ipv4()]);
        Loss::parse(&String::from_utf8_lossy(&run(&mut ping).stdout))
    }

    /// Pings `other` without loss, but for one that may be lost while everybody is learnt.
    ///
    /// # Panics
    /// When more is lost.
    #[track_caller]
    pub fn must_reach(&self, other: &Self) {
        self.ping(other, 1);
        let loss = self.ping(other, 20);
        assert_eq!(loss.lost(), 0, "{} pings {}: {loss:?}", self.ipv4(), other.ipv4());
    }

    /// Pings `other` ten times a second until told to stop.
    #[track_caller]
    pub fn keep_pinging(&self, other: &Self) -> Pinging {
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-i", "0.1", &other.ipv4()]).stdout(Stdio::piped());
        Pinging { daemon: Daemon::new(&mut ping) }
    }

    /// Takes an address of IPv6 as well.
    pub fn speak_ipv6(&self) {
        output_of(self.ns.command("sysctl").args(["-qw", "net.ipv6.conf.eth0.disable_ipv6=0"]));
        self.ns.ip(&format!("addr add {}/64 dev eth0 nodad", self.ipv6()));
    }

    /// Sends `count` echo requests to the IPv6 address of `other`, one every 50 ms.
    #[track_caller]
    pub fn ping_ipv6(&self, other: &Self, count: u32) -> Loss {
        let mut ping = self.ns.command("ping");
        ping.args(["-6", "-n", "-q", "-i", "0.05", "-W", "1", "-c", &count.to_string()]);
        Loss::parse(&String::from_utf8_lossy(&run(ping.arg(other.ipv6())).stdout))
    }

    /// Sends `count` frames to everybody, one every 10 ms.
    pub fn broadcast(&self, count: u32) {
        let mut ping = self.ns.command("ping");
        ping.args(["-b", "-n", "-q", "-i", "0.01", "-W", "1", "-c", &count.to_string()]);
        run(ping.arg("10.0.0.255"));
    }

    /// A socket of UDP at one of its ports, 0 for any, that may speak to all.
    ///
    /// # Panics
    /// When the port is taken.
    #[track_caller]
    pub fn udp(&self, port: u16) -> UdpSocket {
        let opened = self.ns.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)));
        let ready = opened.and_then(|socket| socket.set_broadcast(true).map(|()| socket));
        ready.unwrap_or_else(|e| panic!("UDP port {port} of {self:?}: {e}"))
    }

    /// Sends `count` frames of these bytes, `per_s` a second.
    #[track_caller]
    pub fn send_frames(&self, frame: &[u8], count: u32, per_s: u32) {
        let hex: Vec<_> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut python = self.ns.command("python3");
        output_of(python.args(["-c", SEND, &hex.concat(), &count.to_string(), &per_s.to_string()]));
    }

    /// Frames that have come to it.
    #[track_caller]
    pub fn received(&self) -> u64 {
        frames("RX:", &self.ns.ip("-s link show eth0"))
    }

    /// Packets of IPv4 to everybody that have come to it.
    ///
    /// # Panics
    /// When the kernel does not count them.
    #[track_caller]
    pub fn broadcasts_heard(&self) -> u64 {
        let said = output_of(self.ns.command("cat").arg("/proc/net/netstat"));
        let mut lines = said.lines().filter_map(|line| line.strip_prefix("IpExt: "));
        let names = lines.next().unwrap_or_default().split(' ');
        let mut counts = names.zip(lines.next().unwrap_or_default().split(' '));
        let heard = counts.find(|&(name, _)| name == "InBcastPkts");
        match heard.and_then(|(_, n)| n.parse().ok()) {
            Some(heard) => heard,
            None => panic!("the kernel did not say how many broadcasts there were: {said:?}"),
        }
    }

    /// Bits per second that TCP carries to `other` within two seconds, as `iperf3` counts them.
    ///
    /// # Panics
    /// When the two do not find together.
    #[track_caller]
    pub fn iperf(&self, other: &Self) -> f64 {
        let mut server =
            Daemon::new(other.ns.command("iperf3").args(["-s", "-1"]).stdout(Stdio::null()));
        let mut client = self.ns.command("iperf3");
        client.args(["-J", "-t", "2", "--connect-timeout", "3000", "-c", &other.ipv4()]);
        let mut said = String::new();
        wait_until(SOON, "iperf3", || {
            said = String::from_utf8_lossy(&run(&mut client).stdout).into_owned();
            said.contains("sum_received")
        });
        server.kill();
        let sum = said.split("\"sum_received\"").nth(1).unwrap_or_default();
        let rate = sum.split("\"bits_per_second\":").nth(1).unwrap_or_default();
        let rate = rate.split([',', '}']).next().unwrap_or_default().trim().parse();
        rate.unwrap_or_else(|_| panic!("iperf3 did not say how fast it was: {said}"))
    }

    /// Pings `other` a hundred times a second until told to stop.
    #[track_caller]
    pub fn keep_pinging_fast(&self, other: &Self) -> Pinging {
        let mut ping = self.ns.command("ping");
        ping.args(["-n", "-i", "0.01", &other.ipv4()]).stdout(Stdio::piped());
        Pinging { daemon: Daemon::new(&mut ping) }
    }

    /// Opens a connection to `other` and closes it.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[track_caller]
    pub fn open(&self, other: &Self) {
        let listen = || {
            let listener = TcpListener::bind((other.ipv4(), 0))?;
            Ok::<_, std::io::Error>((listener.local_addr()?, listener))
        };
        let opened = other.ns.within(listen).and_then(|(address, listener)| {
            let near = self.ns.within(|| TcpStream::connect(address))?;
            listener.accept().map(|(far, _)| (near, far))
        });
        assert!(opened.is_ok(), "{} opens a connection to {}: {opened:?}", self.rank, other.rank);
    }

    /// Knows the address of Ethernet of `other` for good, and asks nobody.
    pub fn know(&self, other: &Self) {
        let (ip, mac) = (other.ipv4(), other.mac());
        self.ns.ip(&format!("neigh replace {ip} lladdr {mac} dev eth0 nud permanent"));
    }

    /// Forgets which addresses of Ethernet the others have, as after a change of cables.
    pub fn forget_neighbours(&self) {
        self.ns.ip("neigh flush all");
    }

    /// Leaves without a word: its cable stays plugged in, and nobody answers any more.
    pub fn leave(&self) {
        self.ns.ip("addr flush dev eth0");
        self.ns.ip("link set eth0 address 02:00:00:00:00:00");
    }

    /// Its address of IPv4.
    pub fn ipv4(&self) -> String {
        format!("10.0.0.{}", self.rank)
    }

    /// Its address of IPv6, once it speaks that.
    pub fn ipv6(&self) -> String {
        format!("fd00::{:x}", self.rank)
    }

    /// Its address of Ethernet.
    pub fn mac(&self) -> String {
        format!("00:00:00:00:00:{:02x}", self.rank)
    }

    /// The number of the switch's port that it is plugged into.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The action that leads to it, as a switch lists it.
    pub fn output(&self) -> String {
        format!("output:{}", self.port)
    }
}

/// The frames under `heading` in what `ip -s link` says.
#[track_caller]
fn frames(heading: &str, said: &str) -> u64 {
    let counters = said.lines().skip_while(|line| !line.trim().starts_with(heading)).nth(1);
    let frames = counters.and_then(|line| line.split_whitespace().nth(1));
    match frames.and_then(|n| n.parse().ok()) {
        Some(frames) => frames,
        None => panic!("ip did not say how many frames there were: {said:?}"),
    }
}

/// The frames of an interface in both directions.
#[track_caller]
pub(crate) fn both_ways(said: &str) -> u64 {
    frames("RX:", said) + frames("TX:", said)
}

/// A ping that goes on while other things happen.
#[derive(Debug)]
pub struct Pinging {
    daemon: Daemon,
}

impl Pinging {
    /// Ends it and counts up to the last reply: a later one may still be under way.
    pub fn stop(mut self) -> Loss {
        self.daemon.signal(Signal::INT);
        let words = self.daemon.words();
        let replies = words.split_whitespace().filter_map(|word| word.strip_prefix("icmp_seq="));
        let replies: BTreeSet<u32> = replies.filter_map(|rank| rank.parse().ok()).collect();
        let received = u32::try_from(replies.len()).unwrap_or(u32::MAX);
        Loss { sent: replies.last().copied().unwrap_or_default(), received }
    }
}
