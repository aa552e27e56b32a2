//! The other end of a connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sluice_openflow::view::Multipart;
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, Hello, HelloElement, Message, MessageType,
    PacketIn, PacketInReason, PortNo, RawMessage, Version, Versions, split_message,
};
use sluice_proto::{SwitchProfile, SwitchSession};

use crate::lab::SOON;

/// Whoever connects.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    version: Version,
    rx: Vec<u8>,
    next_buffer_id: u32,
}

impl Peer {
    /// Connected; nothing said.
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, version: Version::V1_3, rx: Vec::new(), next_buffer_id: 1 }
    }

    /// A switch with identity `id`.
    pub(crate) fn switch(addr: SocketAddr, version: Version, id: u64) -> Self {
        let mut peer = Self::connect(addr);
        peer.shake_hands(version, id, usize::MAX);
        peer
    }

    /// Says and answers what a switch does, in pieces of at most `piece` bytes.
    pub(crate) fn shake_hands(&mut self, version: Version, id: u64, piece: usize) {
        self.version = version;
        let mut tx = Vec::new();
        let plan =
            SwitchProfile { datapath_id: DatapathId(id), version, n_ports: 4, n_buffers: 256 };
        let mut switch = SwitchSession::open(plan, &mut tx);
        loop {
            tx.chunks(piece).for_each(|piece| self.send(piece));
            tx.clear();
            let bytes = self.read().unwrap();
            let msg = RawMessage::new(&bytes).unwrap();
            switch.on_message(msg, &mut tx).unwrap();
            // The last question.
            if msg.kind() == MessageType::SET_CONFIG {
                return;
            }
        }
    }

    /// Agrees on `version` and answers nothing; returns the transaction id of the question for features.
    pub(crate) fn greet(&mut self, version: Version) -> u32 {
        self.version = version;
        let bitmap = HelloElement::VersionBitmap { bitmaps: vec![Versions::of(&[version]).0] };
        let elements = if version > Version::V1_0 { vec![bitmap] } else { vec![] };
        self.say(&Message::Hello(Hello { elements, extra: vec![] }));
        loop {
            let bytes = self.read().unwrap();
            let msg = RawMessage::new(&bytes).unwrap();
            if msg.kind() == MessageType::FEATURES_REQUEST {
                return msg.xid();
            }
        }
    }

    /// Sends `bytes`. Whether the engine still listens shows when it is read from.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn say(&mut self, message: &Message) {
        let bytes = bytes(self.version, message);
        self.send(&bytes);
    }

    /// Says a part of a reply, whatever is in it.
    pub(crate) fn say_part(&mut self, part: Multipart<'_>) {
        let (mut tx, mut xid) = (Vec::new(), 1);
        Encoder::new(&mut tx, self.version, &mut xid).multipart_reply(9, part).unwrap();
        self.send(&tx);
    }

    /// Reads a message; `None` when the engine has hung up.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let mut piece = [0; 4096];
        loop {
            if let Some((msg, _)) = split_message(&self.rx).unwrap() {
                let len = msg.bytes().len();
                return Some(self.rx.drain(..len).collect());
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(n) => self.rx.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing heard: {error}"),
            }
        }
    }

    /// Reads a message and what it says.
    pub(crate) fn hear(&mut self) -> Option<Message> {
        self.read().map(|bytes| Message::parse_raw(RawMessage::new(&bytes).unwrap()).unwrap())
    }

    /// Sends a frame up and waits until it is answered; whatever else is said is passed over.
    #[track_caller]
    pub(crate) fn must_be_answered(&mut self) {
        self.next_buffer_id += 1;
        let asked = Some(self.next_buffer_id);
        self.say(&broadcast(asked));
        loop {
            match self.hear() {
                Some(Message::PacketOut(answer)) if answer.buffer_id == asked => {
                    assert_eq!(answer.actions, [Action::output(PortNo::FLOOD)]);
                    return;
                }
                Some(Message::EchoRequest { data }) => self.say(&Message::EchoReply { data }),
                Some(_) => {}
                None => panic!("hung up on"),
            }
        }
    }

    /// Waits until it is hung up on; returns why the last `ERROR` before was sent.
    pub(crate) fn last_words(&mut self) -> Option<ErrorReason> {
        let mut last = None;
        while let Some(message) = self.hear() {
            if let Message::Error(error) = message {
                last = Some(error.reason);
            }
        }
        last
    }
}

/// A frame to all, from the same host each time.
pub(crate) fn broadcast(buffer_id: Option<u32>) -> Message {
    packet_in(buffer_id, [0xff; 6], 0x0800)
}

/// What shows a link, to the nearest bridge.
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

/// `message` as it is written in `version`.
pub(crate) fn bytes(version: Version, message: &Message) -> Vec<u8> {
    let (mut tx, mut xid) = (Vec::new(), 1);
    message.encode(9, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
    tx
}
