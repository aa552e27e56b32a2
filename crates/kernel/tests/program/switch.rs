//! A switch and its connection, and the messages of both ends.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use sluice_kernel::{AnswerForm, AnswerRule};
use sluice_openflow::view::PacketIn;
use sluice_openflow::{
    Action, Encoder, Field, FlowMod, Instruction, MacAddr, PacketInReason, PacketOutRef, PortNo,
    Version,
};

/// Time limit of everything that should happen at once; long, since the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Source and destination.
pub(crate) type Hosts = ([u8; 6], [u8; 6]);

/// A frame of `len` bytes between hosts.
fn frame((src, dst): Hosts, len: usize) -> Vec<u8> {
    let mut frame = [&dst[..], &src, &[8, 0]].concat();
    frame.resize(len, 0x45);
    frame
}

/// A packet-in of a frame of 60 bytes.
pub(crate) fn packet_in(
    version: Version,
    hosts: Hosts,
    in_port: u32,
    buffer_id: Option<u32>,
) -> Vec<u8> {
    packet_in_of(version, &frame(hosts, 60), in_port, buffer_id)
}

/// A packet-in of a frame.
pub(crate) fn packet_in_of(
    version: Version,
    frame: &[u8],
    in_port: u32,
    buffer_id: Option<u32>,
) -> Vec<u8> {
    let (mut bytes, mut xid) = (Vec::new(), 9);
    let p = PacketIn {
        buffer_id,
        in_port: PortNo(in_port),
        total_len: u16::try_from(frame.len()).unwrap(),
        reason: PacketInReason::NO_MATCH,
        table_id: 0,
        cookie: 0,
        frame,
    };
    p.encode(&mut Encoder::new(&mut bytes, version, &mut xid)).unwrap();
    bytes
}

fn flow_mod((src, dst): Hosts, [in_port, out_port]: [u32; 2], buffer_id: Option<u32>) -> FlowMod {
    FlowMod {
        cookie: 9,
        idle_timeout: 60,
        buffer_id,
        matching: [
            Field::in_port(PortNo(in_port)),
            Field::eth_src(MacAddr(src)),
            Field::eth_dst(MacAddr(dst)),
            Field::untagged(),
        ]
        .into(),
        instructions: vec![Instruction::apply([Action::output(PortNo(out_port))])],
        ..FlowMod::default()
    }
}

/// The answers to packet-ins as the encoder writes them: for each, hosts, ingress and output port, and buffer.
pub(crate) fn answers(
    version: Version,
    first_xid: u32,
    packet_ins: &[(Hosts, [u32; 2], Option<u32>)],
) -> Vec<u8> {
    let (mut bytes, mut xid) = (Vec::new(), first_xid);
    let mut out = Encoder::new(&mut bytes, version, &mut xid);
    for &(hosts, ports, buffer_id) in packet_ins {
        out.flow_mod(&flow_mod(hosts, ports, buffer_id)).unwrap();
        if buffer_id.is_none() {
            let [in_port, out_port] = ports.map(PortNo);
            let actions = [Action::output(out_port)];
            let frame = frame(hosts, 60);
            out.packet_out(&PacketOutRef { buffer_id, in_port, actions: &actions, frame: &frame })
                .unwrap();
        }
    }
    bytes
}

/// The answer to a packet-in between the ends of a path: a flow entry for the replies, and the same as for other hosts.
pub(crate) fn path_answer(
    version: Version,
    first_xid: u32,
    (hosts, ports, buffer_id): (Hosts, [u32; 2], Option<u32>),
) -> Vec<u8> {
    let (mut bytes, mut xid) = (Vec::new(), first_xid);
    let (back, [in_port, out_port]) = ((hosts.1, hosts.0), ports);
    let reply = flow_mod(back, [out_port, in_port], None);
    Encoder::new(&mut bytes, version, &mut xid).flow_mod(&reply).unwrap();
    [bytes, answers(version, xid, &[(hosts, ports, buffer_id)])].concat()
}

/// The messages that answers are made of.
pub(crate) struct Forms {
    version: Version,
    flow_mod: Vec<u8>,
    packet_out: Vec<u8>,
}

impl Forms {
    pub(crate) fn new(version: Version) -> Self {
        let hosts = ([0; 6], [0; 6]);
        let flow_mod = answers(version, 0, &[(hosts, [1, 1], Some(1))]);
        let (mut packet_out, mut xid) = (Vec::new(), 0);
        let actions = [Action::output(PortNo(1))];
        let message =
            PacketOutRef { buffer_id: None, in_port: PortNo(1), actions: &actions, frame: &[] };
        Encoder::new(&mut packet_out, version, &mut xid).packet_out(&message).unwrap();
        Self { version, flow_mod, packet_out }
    }

    pub(crate) fn form(&self, timeout: u16) -> AnswerForm<'_> {
        AnswerForm {
            version: self.version.0,
            flow_mod: &self.flow_mod,
            packet_out: &self.packet_out,
            rule: AnswerRule::Hosts { timeout },
        }
    }

    pub(crate) fn path_form(&self, hold_time: Duration) -> AnswerForm<'_> {
        AnswerForm { rule: AnswerRule::Paths { hold_time }, ..self.form(0) }
    }
}

/// Both ends of a connection over the loopback interface.
pub(crate) struct Peer {
    pub(crate) switch: TcpStream,
    pub(crate) controller: TcpStream,
}

impl Peer {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let switch = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (controller, _) = listener.accept().unwrap();
        for stream in [&switch, &controller] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        }
        Self { switch, controller }
    }

    /// Receives `len` bytes at the switch.
    pub(crate) fn receive(&mut self, len: usize) -> Vec<u8> {
        read_exactly(&mut self.switch, len)
    }

    /// Receives `len` bytes at the controller.
    pub(crate) fn read_up(&mut self, len: usize) -> Vec<u8> {
        read_exactly(&mut self.controller, len)
    }

    /// Waits until the controller's end has received `len` bytes.
    pub(crate) fn await_unread(&self, len: usize) {
        let mut buffer = vec![0; len];
        while self.controller.peek(&mut buffer).unwrap() < len {
            sluice_io::clock::sleep(Duration::from_millis(1));
        }
    }
}

fn read_exactly(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let (mut bytes, mut at) = (vec![0; len], 0);
    let deadline = sluice_io::clock::now() + TIMEOUT;
    while at < len {
        assert!(sluice_io::clock::now() < deadline, "{at} of {len} bytes");
        match stream.read(&mut bytes[at..]) {
            Ok(0) => panic!("the connection ended after {at} of {len} bytes"),
            Ok(n) => at += n,
            // The kernel wakes the reader up for data that the program has answered, too.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    bytes
}
