//! An emulated switch under test, the controller's end of its connection, and frames to send through it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, FlowMod, FlowModCommand, Message, Multipart,
    MultipartFlags, MultipartReply, MultipartRequest, PacketIn, PacketOut, PortNo, Version,
    Versions, split_message,
};

/// A switch under test, and the controller that is connected to it.
pub(crate) struct SwitchTest {
    pub(crate) switch: EmulatedSwitch,
    pub(crate) now: Instant,
    pub(crate) version: Version,
    /// Ports and bytes of the frames that the switch sent since they were last taken.
    pub(crate) sent_frames: Vec<(u32, Vec<u8>)>,
    /// Messages that the controller received since they were last taken.
    pub(crate) received: Vec<Message>,
}

/// An arbitrary time.
pub(crate) fn any_time() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

impl SwitchTest {
    /// A connected default switch with four ports and two packet buffers.
    pub(crate) fn new(version: Version) -> Self {
        Self::with_config(Self::config(), version)
    }

    /// The default configuration with four ports and two packet buffers.
    pub(crate) fn config() -> EmulatedSwitchConfig {
        EmulatedSwitchConfig { n_buffers: 2, ..EmulatedSwitchConfig::numbered(DatapathId(7), 4) }
    }

    /// A connected switch with this configuration.
    pub(crate) fn with_config(config: EmulatedSwitchConfig, version: Version) -> Self {
        let (switch, now) = (EmulatedSwitch::new(config), any_time());
        let mut test = Self { switch, now, version, sent_frames: vec![], received: vec![] };
        test.connect();
        test
    }

    /// Connects and completes the handshake.
    pub(crate) fn connect(&mut self) {
        let mut out = SwitchOutput::default();
        self.switch.on_connected(self.now, &mut out);
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, self.version, &mut xid).hello(Versions::of(&[self.version]));
        self.switch.on_control_bytes(self.now, &tx, &mut out).unwrap();
        assert_eq!(self.switch.version(), Some(self.version));
        let replies = self.send(&Message::FeaturesRequest);
        assert!(matches!(&replies[..], [Message::FeaturesReply(_)]), "{replies:?}");
    }

    /// Sends a message; the replies are returned, and added to [`received`](Self::received).
    pub(crate) fn send(&mut self, message: &Message) -> Vec<Message> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(9, &mut Encoder::new(&mut tx, self.version, &mut xid)).unwrap();
        let mut out = SwitchOutput::default();
        self.switch.on_control_bytes(self.now, &tx, &mut out).unwrap();
        self.record(out)
    }

    /// Records the output of the switch; returns its messages.
    fn record(&mut self, out: SwitchOutput) -> Vec<Message> {
        self.sent_frames.extend(out.frames.into_iter().map(|(port, frame)| (port.0, frame)));
        let received = messages(&out.control);
        self.received.extend(received.iter().cloned());
        received
    }

    /// Sends a message; returns the reason of the `ERROR` reply, if there is one.
    pub(crate) fn error_reason(&mut self, message: &Message) -> Option<ErrorReason> {
        self.send(message).into_iter().find_map(|reply| match reply {
            Message::Error(error) => Some(error.reason),
            _ => None,
        })
    }

    /// A `FLOW_MOD` in the syntax of `ovs-ofctl`.
    pub(crate) fn flow_mod(command: FlowModCommand, flow: &str) -> FlowMod {
        FlowMod::from_text(flow, command).unwrap_or_else(|e| panic!("{flow}: {e:?}"))
    }

    /// Adds a flow entry, which must be accepted.
    pub(crate) fn add_flow(&mut self, flow: &str) {
        let message = Message::FlowMod(Self::flow_mod(FlowModCommand::ADD, flow));
        assert_eq!(self.error_reason(&message), None, "{flow}");
    }

    /// Sends a `FLOW_MOD`; returns the reason of the `ERROR` reply, if there is one.
    pub(crate) fn send_flow_mod(
        &mut self,
        command: FlowModCommand,
        flow: &str,
    ) -> Option<ErrorReason> {
        self.error_reason(&Message::FlowMod(Self::flow_mod(command, flow)))
    }

    /// Lets the switch receive a frame; returns the ports to which it sent frames.
    pub(crate) fn receive_frame(&mut self, in_port: u32, frame: &[u8]) -> Vec<u32> {
        let (mut out, before) = (SwitchOutput::default(), self.sent_frames.len());
        self.switch.on_frame(self.now, PortNo(in_port), frame, &mut out);
        self.record(out);
        self.sent_frames[before..].iter().map(|(port, _)| *port).collect()
    }

    /// Takes the frame that the switch sent; there must be exactly one.
    pub(crate) fn take_only_frame(&mut self) -> Vec<u8> {
        let mut frames = std::mem::take(&mut self.sent_frames);
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).1
    }

    /// Takes all received messages and returns the packet-ins among them.
    pub(crate) fn take_packet_ins(&mut self) -> Vec<PacketIn> {
        let received = std::mem::take(&mut self.received).into_iter();
        let packet_in = |message| match message {
            Message::PacketIn(packet_in) => Some(packet_in),
            _ => None,
        };
        received.filter_map(packet_in).collect()
    }

    /// Takes all received messages; exactly one must be a packet-in.
    pub(crate) fn take_only_packet_in(&mut self) -> PacketIn {
        let mut packet_ins = self.take_packet_ins();
        assert_eq!(packet_ins.len(), 1, "{packet_ins:?}");
        packet_ins.remove(0)
    }

    /// A `PACKET_OUT` with a buffer id or with the packet itself.
    pub(crate) fn packet_out(
        buffer_id: Option<u32>,
        in_port: u32,
        data: &[u8],
        actions: &str,
    ) -> Message {
        Message::PacketOut(PacketOut {
            buffer_id,
            matching: [Field::in_port(PortNo(in_port))].into(),
            actions: Action::list_from_text(actions).unwrap(),
            data: data.to_vec(),
        })
    }

    /// Advances the time and runs the timers of the switch; returns the messages that it sent.
    pub(crate) fn advance(&mut self, time: Duration) -> Vec<Message> {
        let (end, mut received) = (self.now + time, vec![]);
        while let Some(at) = self.switch.deadline().filter(|&at| at <= end) {
            assert!(at >= self.now, "the deadline is in the past");
            self.now = at;
            let mut out = SwitchOutput::default();
            self.switch.tick(at, &mut out);
            assert!(self.switch.deadline().is_none_or(|next| next > at));
            received.extend(self.record(out));
        }
        self.now = end;
        received
    }

    /// Sends a multipart request and returns all parts of the reply.
    pub(crate) fn request_multipart(&mut self, body: MultipartRequest) -> Vec<MultipartReply> {
        let flags = MultipartFlags::default();
        let replies = self.send(&Message::MultipartRequest(Multipart { flags, body }));
        let n = replies.len();
        let part = |(at, message): (usize, Message)| match message {
            Message::MultipartReply(part) => {
                assert_eq!(part.flags.contains(MultipartFlags::MORE), at + 1 < n);
                part.body
            }
            other => panic!("{other:?}"),
        };
        replies.into_iter().enumerate().map(part).collect()
    }
}

/// All messages in `bytes`.
pub(crate) fn messages(bytes: &[u8]) -> Vec<Message> {
    let (mut rest, mut messages) = (bytes, vec![]);
    while let Some((msg, after)) = split_message(rest).unwrap() {
        messages.push(Message::parse_raw(msg).unwrap());
        rest = after;
    }
    assert!(rest.is_empty(), "the last message is incomplete");
    messages
}

/// The MAC address of a host.
pub(crate) fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

/// The IPv4 address of a host.
pub(crate) fn ipv4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

/// The IPv6 address of a host.
pub(crate) fn ipv6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into())
}

/// A TCP segment from host `src` to host `dst`, with 64 bytes of data.
pub(crate) fn tcp(src: u8, dst: u8, src_port: u16, dst_port: u16) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(mac(src), mac(dst))
        .ipv4(ipv4(src).octets(), ipv4(dst).octets(), 64)
        .tcp(src_port, dst_port, 1, 1024)
        .write(&mut frame, &[src; 64])
        .unwrap();
    frame
}

/// A UDP datagram from host `src` to host `dst`, with `n` bytes of data.
pub(crate) fn udp(src: u8, dst: u8, n: usize) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(mac(src), mac(dst))
        .ipv4(ipv4(src).octets(), ipv4(dst).octets(), 64)
        .udp(1000, 2000)
        .write(&mut frame, &vec![src; n])
        .unwrap();
    frame
}
