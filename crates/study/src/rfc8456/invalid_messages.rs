//! A proxy between switches and controller that adds invalid messages.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use sluice_openflow::{Field, Message, MessageType, PacketIn, PortNo, Version, split_message};

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// Size of the stacks of its threads, of which each connection has two.
const STACK_BYTES: usize = 256 << 10;

/// A TCP proxy in front of a controller. To the asynchronous messages of the switches it adds a share of invalid ones.
pub(super) struct InvalidMessageProxy {
    address: SocketAddr,
    inserted: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl InvalidMessageProxy {
    /// Starts a proxy to `controller`. `share` of the asynchronous messages will be invalid.
    pub(super) fn start(controller: SocketAddr, share: f64) -> Result<Self, String> {
        let error = |error: io::Error| format!("the proxy could not be started: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let (inserted, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let acceptor = {
            let (inserted, is_over) = (Arc::clone(&inserted), Arc::clone(&is_over));
            let accept = move || {
                for switch in listener.incoming().flatten() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    // If the controller refuses the connection, that of the switch ends.
                    let _ = connect(switch, controller, share, &inserted);
                }
            };
            let thread = thread::Builder::new().name("invalid messages".to_owned());
            thread.spawn(accept).map_err(error)?
        };
        Ok(Self { address, inserted, is_over, acceptor: Some(acceptor) })
    }

    /// Where switches connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Invalid messages that were sent.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed)
    }
}

impl Drop for InvalidMessageProxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread, which ends. Connections end with those of the switches.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.acceptor.take() {
            let _ = thread.join();
        }
    }
}

/// Connects a switch to the controller, by a thread for each direction.
fn connect(
    switch: TcpStream,
    controller: SocketAddr,
    share: f64,
    inserted: &Arc<AtomicU64>,
) -> io::Result<()> {
    let controller = TcpStream::connect(controller)?;
    for stream in [&switch, &controller] {
        stream.set_nodelay(true)?;
    }
    let (from_switch, from_controller) = (switch.try_clone()?, controller.try_clone()?);
    let inserted = Arc::clone(inserted);
    let thread = || thread::Builder::new().stack_size(STACK_BYTES);
    thread().spawn(move || {
        // However it ends, both directions do.
        let _ = forward_up(from_switch, &controller, InvalidMessages::new(share), &inserted);
        let _ = controller.shutdown(Shutdown::Write);
    })?;
    thread().spawn(move || {
        let (mut from, mut to) = (from_controller, switch);
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

fn forward_up(
    mut from: TcpStream,
    mut to: &TcpStream,
    mut messages: InvalidMessages,
    inserted: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let out = messages.process(buffer.get(..length).unwrap_or_default());
        to.write_all(&out)?;
        inserted.fetch_add(messages.take_inserted(), Ordering::Relaxed);
    }
}

/// Adds invalid messages to the stream of a switch.
#[derive(Debug)]
struct InvalidMessages {
    /// Invalid messages for each valid asynchronous one.
    ratio: f64,
    /// Invalid messages that are due.
    due: f64,
    partial: Vec<u8>,
    inserted: u64,
    total: u64,
}

impl InvalidMessages {
    fn new(share: f64) -> Self {
        let ratio = share / (1.0 - share).max(f64::EPSILON);
        // The first asynchronous message is followed by one, so that short tests have some as well.
        let due = if share > 0.0 { 1.0 } else { 0.0 };
        Self { ratio, due, partial: Vec::new(), inserted: 0, total: 0 }
    }

    /// The whole messages of the stream so far, with invalid ones between them.
    fn process(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let stream = std::mem::take(&mut self.partial);
        let mut out = Vec::with_capacity(stream.len());
        let mut rest = stream.as_slice();
        while let Ok(Some((message, after))) = split_message(rest) {
            let whole = rest.get(..rest.len() - after.len()).unwrap_or_default();
            out.extend_from_slice(whole);
            rest = after;
            let asynchronous =
                [MessageType::PACKET_IN, MessageType::FLOW_REMOVED, MessageType::PORT_STATUS];
            if asynchronous.contains(&message.kind()) {
                self.due += self.ratio;
            }
            while self.due >= 1.0 {
                self.due -= 1.0;
                out.extend(invalid_message(message.version(), self.total));
                self.inserted += 1;
                self.total += 1;
            }
        }
        self.partial = rest.to_vec();
        out
    }

    fn take_inserted(&mut self) -> u64 {
        std::mem::take(&mut self.inserted)
    }
}

/// An invalid message: a packet-in of a malformed packet, or a notification of a failure of an unknown type.
fn invalid_message(version: Version, number: u64) -> Vec<u8> {
    let message =
        if number.is_multiple_of(2) { malformed_packet(version) } else { unknown_error(version) };
    message.unwrap_or_default()
}

/// A packet-in of IPv4 whose header is longer than the frame, with a wrong checksum.
fn malformed_packet(version: Version) -> Option<Vec<u8>> {
    let addresses = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0x84, 0x56, 0, 0, 9];
    let data = [&addresses[..], &[8, 0], &[0xff; 20], &[0; 26]].concat();
    let packet_in = PacketIn {
        total_len: u16::try_from(data.len()).unwrap_or(u16::MAX),
        matching: [Field::in_port(PortNo(1))].into_iter().collect(),
        data,
        ..PacketIn::default()
    };
    Message::PacketIn(packet_in).to_vec(version, 0).ok()
}

/// An `ERROR` of a type that no version has, about a request that was never sent.
fn unknown_error(version: Version) -> Option<Vec<u8>> {
    let body = [0x7f, 0xff, 0x7f, 0xff, version.0, 0xff, 0, 8, 0xff, 0xff, 0xff, 0xff];
    let kind = u8::try_from(MessageType::ERROR.0).ok()?;
    let length = u8::try_from(8 + body.len()).ok()?;
    Some([&[version.0, kind, 0, length, 0xff, 0xff, 0xff, 0xff][..], &body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_in() -> Vec<u8> {
        malformed_packet(Version::V1_3).unwrap()
    }

    #[test]
    fn the_share_of_invalid_messages_is_as_wanted_after_the_first() {
        for (share, of) in [(0.0, 0), (0.01, 2), (0.02, 3), (0.5, 100)] {
            let mut messages = InvalidMessages::new(share);
            let mut inserted = 0;
            for _ in 0..99 {
                messages.process(&packet_in());
                inserted += messages.take_inserted();
            }
            let rounding = u64::from(share > 0.0 && inserted + 1 == of);
            assert_eq!(inserted + rounding, of, "{share}");
        }
    }

    #[test]
    fn the_stream_stays_one_of_whole_messages() {
        let mut messages = InvalidMessages::new(0.5);
        let hello = [4, 0, 0, 8, 0, 0, 0, 1];
        let stream = [&hello[..], &packet_in(), &packet_in()].concat();
        let mut out = Vec::new();
        for part in stream.chunks(7) {
            out.extend(messages.process(part));
        }
        let mut kinds = Vec::new();
        let mut rest = out.as_slice();
        while let Some((message, after)) = split_message(rest).unwrap() {
            kinds.push(message.kind());
            rest = after;
        }
        assert!(rest.is_empty());
        let [hello, packet_in, error] =
            [MessageType::HELLO, MessageType::PACKET_IN, MessageType::ERROR];
        // The first is followed by two: by that with which every stream begins, and by its own.
        assert_eq!(kinds, [hello, packet_in, packet_in, error, packet_in, packet_in]);
    }

    #[test]
    fn messages_are_made_in_every_version() {
        for version in sluice_openflow::Versions::SUPPORTED.iter() {
            for number in 0..2 {
                let bytes = invalid_message(version, number);
                let (message, rest) = split_message(&bytes).unwrap().unwrap();
                assert_eq!((message.version(), rest.len()), (version, 0));
            }
        }
    }
}
