//! Helpers of the tests that run the load generator: a short plan, and controllers with unusual behaviour.

#![allow(dead_code, reason = "each test file uses some of them")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail anywhere")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use sluice_bench::{Load, Plan, null};
use sluice_io::{clock, sock};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, Encoder, Ethernet, Field, FlowMod, Instruction, MessageType, PacketOutRef, PortNo,
    Version, split_message,
};

/// Four switches and three short loops.
pub(crate) fn plan(target: SocketAddr) -> Plan {
    Plan {
        targets: vec![target],
        switches: 4,
        hosts: 100,
        load: Load::Window(16),
        loops: 3,
        loop_time: Duration::from_millis(60),
        socket: sock::Options::default(),
        // Long enough that no request times out on a busy machine.
        timeout: Duration::from_secs(2),
        ..Plan::default()
    }
}

/// A null responder on a free port.
pub(crate) fn null(content: null::ReplyContent) -> null::NullResponder {
    let listen = ([127, 0, 0, 1], 0).into();
    let config = null::Config { content, ..null::Config::new(listen) };
    null::NullResponder::start(&config).unwrap()
}

/// A controller that completes handshakes and calls `answer` for each `PACKET_IN`, with its number on that connection,
/// counted from 0. It floods broadcasts itself. It runs until the test ends.
pub(crate) fn controller(answer: fn(u64, PacketIn<'_>, &mut Encoder<'_>)) -> SocketAddr {
    controller_with_pause(Duration::ZERO, answer)
}

/// The same with a pause between the messages that are due at the same time.
pub(crate) fn controller_with_pause(
    pause: Duration,
    answer: fn(u64, PacketIn<'_>, &mut Encoder<'_>),
) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || serve(stream, pause, answer));
        }
    });
    addr
}

fn serve(mut stream: TcpStream, pause: Duration, answer: fn(u64, PacketIn<'_>, &mut Encoder<'_>)) {
    stream.set_nodelay(true).unwrap();
    let (mut rx, mut buf, mut n, mut xid) = (Vec::new(), vec![0; 1 << 16], 0, 1);
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        rx.extend_from_slice(&buf[..len]);
        let (mut tx, mut used) = (Vec::new(), 0);
        while let Some((msg, rest)) = split_message(&rx[used..]).unwrap() {
            used = rx.len() - rest.len();
            let mut out = Encoder::new(&mut tx, msg.version(), &mut xid);
            match msg.kind() {
                MessageType::HELLO => {
                    out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
                    base_entry(&mut out);
                    out.features_request();
                }
                MessageType::PACKET_IN => {
                    let p = PacketIn::new(msg).unwrap();
                    if Ethernet::new(p.frame).unwrap().dst.is_group() {
                        packet_out(p, PortNo::FLOOD, &mut out);
                    } else {
                        answer(n, p, &mut out);
                        n += 1;
                    }
                }
                _ => {}
            }
        }
        rx.drain(..used);
        if write(&mut stream, &tx, pause).is_err() {
            return;
        }
    }
}

/// Completes a handshake of 1.0, and returns at the first `PACKET_IN`.
pub(crate) fn serve_until_packet_in(mut stream: TcpStream) {
    let (mut tx, mut xid) = (vec![], 1);
    let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
    out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
    out.features_request();
    stream.write_all(&tx).unwrap();
    let (mut rx, mut buf) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        rx.extend_from_slice(&buf[..len]);
        let mut rest = rx.as_slice();
        while let Some((msg, after)) = split_message(rest).unwrap() {
            if msg.kind() == MessageType::PACKET_IN {
                return;
            }
            rest = after;
        }
    }
}

fn write(stream: &mut TcpStream, messages: &[u8], pause: Duration) -> io::Result<()> {
    if pause.is_zero() {
        return stream.write_all(messages);
    }
    let mut rest = messages;
    while let Some((msg, after)) = split_message(rest).unwrap() {
        stream.write_all(msg.bytes())?;
        clock::sleep(pause);
        rest = after;
    }
    Ok(())
}

/// Sends a flow entry for the addresses of the packet, which releases it if it is buffered.
pub(crate) fn flow_mod(p: PacketIn<'_>, out: &mut Encoder<'_>) {
    flow_mod_for(p, p.buffer_id, out);
}

/// The same with another buffer id.
pub(crate) fn flow_mod_for(p: PacketIn<'_>, buffer_id: Option<u32>, out: &mut Encoder<'_>) {
    let eth = Ethernet::new(p.frame).unwrap();
    let fields = [Field::in_port(p.in_port), Field::eth_dst(eth.dst), Field::eth_src(eth.src)];
    let f = FlowMod {
        buffer_id,
        matching: fields.into(),
        instructions: vec![Instruction::apply([Action::output(PortNo(1))])],
        ..FlowMod::default()
    };
    out.flow_mod(&f).unwrap();
}

/// Writes the flow entry with which the controller sets each switch up.
pub(crate) fn base_entry(out: &mut Encoder<'_>) {
    out.flow_mod(&FlowMod { priority: 1, ..FlowMod::default() }).unwrap();
}

/// Sends the packet to `port`.
pub(crate) fn packet_out(p: PacketIn<'_>, port: PortNo, out: &mut Encoder<'_>) {
    let frame = if p.buffer_id.is_none() { p.frame } else { &[] };
    let actions = [Action::output(port)];
    let p = PacketOutRef { buffer_id: p.buffer_id, in_port: p.in_port, actions: &actions, frame };
    out.packet_out(&p).unwrap();
}

/// Sends the packet with all its bytes, even if it is buffered.
pub(crate) fn unbuffered_packet_out(p: PacketIn<'_>, out: &mut Encoder<'_>) {
    packet_out(PacketIn { buffer_id: None, ..p }, PortNo(1), out);
}
