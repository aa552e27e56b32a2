//! The peer of the engine: a switch, or anything else that connects.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, Hello, HelloElement, Message, MessageType,
    MultipartType, PacketIn, PacketInReason, PortNo, RawMessage, SwitchFeatures, Version, Versions,
    split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};

use crate::test_engine::TIMEOUT;

/// A connection to the engine.
pub(crate) struct TestPeer {
    pub(crate) stream: TcpStream,
    version: Version,
    rx: Vec<u8>,
    next_buffer_id: u32,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

impl TestPeer {
    /// Connects and sends nothing.
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            version: Version::V1_3,
            rx: Vec::new(),
            next_buffer_id: 1,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Connects as the switch with datapath id `id`.
    pub(crate) fn connect_switch(addr: SocketAddr, version: Version, id: u64) -> Self {
        let mut peer = Self::connect(addr);
        peer.complete_handshake(version, id, usize::MAX);
        peer
    }

    /// Performs the handshake of a switch, sending at most `chunk_len` bytes at a time.
    pub(crate) fn complete_handshake(&mut self, version: Version, id: u64, chunk_len: usize) {
        self.version = version;
        let mut tx = Vec::new();
        let profile =
            SwitchProfile { datapath_id: DatapathId(id), version, n_ports: 4, n_buffers: 256 };
        let mut switch = SwitchSession::open(profile, &mut tx);
        loop {
            tx.chunks(chunk_len).for_each(|chunk| self.send_bytes(chunk));
            tx.clear();
            let bytes = self.receive_bytes().unwrap();
            let msg = RawMessage::new(&bytes).unwrap();
            switch.on_message(msg, &mut tx).unwrap();
            // The last message of the handshake that concerns the switch.
            if msg.kind() == MessageType::SET_CONFIG {
                return;
            }
        }
    }

    /// Negotiates `version` and answers nothing else. Returns the transaction id of the features request.
    pub(crate) fn exchange_hello(&mut self, version: Version) -> u32 {
        self.version = version;
        let bitmap = HelloElement::VersionBitmap { bitmaps: vec![Versions::of(&[version]).0] };
        let elements = if version > Version::V1_0 { vec![bitmap] } else { vec![] };
        self.send(&Message::Hello(Hello { elements, extra: vec![] }));
        loop {
            let bytes = self.receive_bytes().unwrap();
            let msg = RawMessage::new(&bytes).unwrap();
            if msg.kind() == MessageType::FEATURES_REQUEST {
                return msg.xid();
            }
        }
    }

    /// Sends bytes. A closed connection shows when reading.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.sent_bytes += bytes.len() as u64;
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send(&mut self, message: &Message) {
        let bytes = bytes(self.version, message);
        self.send_bytes(&bytes);
    }

    /// Performs the handshake of a switch of 1.3 that describes the ports in `ports` in a part of its own.
    pub(crate) fn complete_handshake_in_parts(&mut self, id: u64, ports: &[u8]) {
        let xid = self.exchange_hello(Version::V1_3);
        let part = Multipart { kind: MultipartType::PORT_DESC, more: true, body: ports };
        self.send_multipart_part_as(xid.wrapping_add(1), part);
        self.send_multipart_part_as(
            xid.wrapping_add(1),
            Multipart { more: false, body: &[], ..part },
        );
        let features = SwitchFeatures { datapath_id: DatapathId(id), ..SwitchFeatures::default() };
        let (mut tx, mut next) = (Vec::new(), 1);
        Encoder::new(&mut tx, self.version, &mut next).features_reply(xid, &features).unwrap();
        self.send_bytes(&tx);
    }

    /// Sends a part of a multipart reply, even an invalid one.
    pub(crate) fn send_multipart_part(&mut self, part: Multipart<'_>) {
        self.send_multipart_part_as(9, part);
    }

    /// Sends a part of the reply to the multipart request `xid`.
    pub(crate) fn send_multipart_part_as(&mut self, xid: u32, part: Multipart<'_>) {
        let (mut tx, mut next) = (Vec::new(), 1);
        Encoder::new(&mut tx, self.version, &mut next).multipart_reply(xid, part).unwrap();
        self.send_bytes(&tx);
    }

    /// Receives a message as bytes; `None` if the connection is closed.
    pub(crate) fn receive_bytes(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 4096];
        loop {
            if let Some((msg, _)) = split_message(&self.rx).unwrap() {
                let len = msg.bytes().len();
                return Some(self.rx.drain(..len).collect());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => {
                    self.received_bytes += n as u64;
                    self.rx.extend_from_slice(&buffer[..n]);
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing received: {error}"),
            }
        }
    }

    /// Receives a message; `None` if the connection is closed.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        self.receive_bytes()
            .map(|bytes| Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap())
    }

    /// Sends a packet-in and waits for its packet-out, skipping other messages.
    #[track_caller]
    pub(crate) fn expect_reply(&mut self) {
        self.receive_until_reply();
    }

    /// Sends a packet-in and waits for its packet-out. Returns the messages before it, without echo requests.
    #[track_caller]
    pub(crate) fn receive_until_reply(&mut self) -> Vec<Message> {
        let mut before = Vec::new();
        self.next_buffer_id += 1;
        let buffer_id = Some(self.next_buffer_id);
        self.send(&broadcast(buffer_id));
        loop {
            match self.receive() {
                Some(Message::PacketOut(reply)) if reply.buffer_id == buffer_id => {
                    assert_eq!(reply.actions, [Action::output(PortNo::FLOOD)]);
                    return before;
                }
                Some(Message::EchoRequest { data }) => self.send(&Message::EchoReply { data }),
                Some(message) => before.push(message),
                None => panic!("connection closed"),
            }
        }
    }

    /// Waits until the connection is closed; returns the reason in the last ERROR before.
    pub(crate) fn expect_close(&mut self) -> Option<ErrorReason> {
        let mut last = None;
        while let Some(message) = self.receive() {
            if let Message::Error(error) = message {
                last = Some(error.reason);
            }
        }
        last
    }
}

/// A packet-in with a broadcast, always from the same host.
pub(crate) fn broadcast(buffer_id: Option<u32>) -> Message {
    packet_in(buffer_id, [0xff; 6], 0x0800)
}

/// A packet-in with a link probe.
pub(crate) fn lldp() -> Message {
    packet_in(None, [0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc)
}

fn packet_in(buffer_id: Option<u32>, dst: [u8; 6], ethertype: u16) -> Message {
    let mut frame = dst.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(ethertype.to_be_bytes());
    frame.resize(64, 0);
    Message::PacketIn(PacketIn {
        buffer_id,
        total_len: 64,
        reason: PacketInReason::NO_MATCH,
        matching: [Field::in_port(PortNo(1))].into(),
        data: frame,
        ..PacketIn::default()
    })
}

pub(crate) fn echo_request(data: &[u8]) -> Message {
    Message::EchoRequest { data: data.to_vec() }
}

pub(crate) fn echo_reply(data: &[u8]) -> Message {
    Message::EchoReply { data: data.to_vec() }
}

/// `message` encoded in `version`.
pub(crate) fn bytes(version: Version, message: &Message) -> Vec<u8> {
    let (mut tx, mut xid) = (Vec::new(), 1);
    message.encode(9, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
    tx
}
