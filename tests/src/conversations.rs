//! Many conversations between two hosts, each with an Ethernet address of its own at both ends.

use std::process::Stdio;

use crate::Host;
use crate::process::{Daemon, output_of};

/// Sends a frame of each conversation in turn: addresses at both ends, conversations per second, side of the sender, and
/// whether it only announces its addresses.
const SEND: &str = r#"
import socket, sys, time
count, rate, side, announce = [int(arg) for arg in sys.argv[1:]]
mac = lambda side, n: bytes([2, 0x10, 0, 0, side, n])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("eth0", 0))
pairs = [(a, b) for a in range(count) for b in range(count)]
frames = [mac(1 - side, b) + mac(side, a) + b"\x88\xb5" + bytes(46) for a, b in pairs]
if announce:
    frames = [b"\xff" * 6 + mac(side, a) + b"\x88\xb5" + bytes(46) for a in range(count)]
start, sent = time.monotonic(), 0
while sent < len(frames) or not announce:
    time.sleep(max(0, start + sent / rate - time.monotonic()))
    out.send(frames[sent % len(frames)])
    sent += 1
"#;

/// Counts the conversations of which a frame arrives within two seconds, until all have arrived.
const RECEIVE: &str = r#"
import socket, sys, time
count, side = [int(arg) for arg in sys.argv[1:]]
incoming = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
incoming.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
incoming.bind(("eth0", 0x88b5))
incoming.settimeout(0.1)
ours, seen, end = bytes([2, 0x10, 0, 0, side]), set(), time.monotonic() + 2
while len(seen) < count * count and time.monotonic() < end:
    try:
        frame = incoming.recv(64)
    except TimeoutError:
        continue
    if frame[:5] == ours:
        seen.add(frame[:12])
print(len(seen))
"#;

/// Addresses announced per second.
const ANNOUNCED_PER_S: u32 = 200;

/// Conversations that one host has with another, from each of its addresses to each of the other's.
///
/// They use packet sockets and not the kernel's ARP: Linux has 1 024 neighbors at most (`net.ipv4.neigh.default.gc_thresh3`), of all
/// namespaces together. In an early measurement, 1 024 of 1 600 conversations arrived once after ten link failures. The
/// kernel's limit gives that number: two namespaces with a veth pair between them, no switch and no controller, and one UDP
/// datagram to each of 1 600 addresses show 1 023 that arrive, at 100 per second as at 2 000; the receiver's entry for the sender
/// is the other one. No limit of the controller was 1 024 at that time. So the limit is a possible cause, but not shown to be it:
/// it explains neither why other runs were complete nor why entries were left at the switches.
#[derive(Debug)]
pub struct Conversations<'a> {
    receiver: &'a Host,
    /// Addresses of each host.
    addresses: u8,
    _sender: Daemon,
}

impl<'a> Conversations<'a> {
    /// Announces the addresses of both hosts, and sends frames from the first to the second, `per_s` per second, until it is
    /// dropped.
    ///
    /// # Panics
    /// When the frames cannot be sent.
    #[track_caller]
    pub fn start(sender: &Host, receiver: &'a Host, addresses: u8, per_s: u32) -> Self {
        let arguments = |rate: u32, side: u8, announces: bool| {
            let rest = [rate, side.into(), announces.into()].map(|n: u32| n.to_string());
            [addresses.to_string()].into_iter().chain(rest)
        };
        for (side, host) in [sender, receiver].into_iter().enumerate() {
            let mut python = host.command("python3");
            let side = u8::from(side == 1);
            output_of(python.args(["-c", SEND]).args(arguments(ANNOUNCED_PER_S, side, true)));
        }
        let mut python = sender.command("python3");
        python.args(["-c", SEND]).args(arguments(per_s, 0, false)).stdout(Stdio::null());
        Self { receiver, addresses, _sender: Daemon::new(&mut python) }
    }

    /// The number of conversations.
    pub fn count(&self) -> usize {
        usize::from(self.addresses) * usize::from(self.addresses)
    }

    /// The number of conversations of which a frame arrives within two seconds.
    ///
    /// # Panics
    /// When frames cannot be received.
    #[track_caller]
    pub fn arriving(&self) -> usize {
        let mut python = self.receiver.command("python3");
        let count = output_of(python.args(["-c", RECEIVE, &self.addresses.to_string(), "1"]));
        count.trim().parse().unwrap_or_else(|e| panic!("{count:?} is no number: {e}"))
    }
}
