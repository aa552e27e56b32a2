//! A switch under test, its controller, and frames.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use sluice_emu::switch::{EmulatedSwitch, EmulatedSwitchConfig, SwitchOutput};
use sluice_openflow::{
    Action, DatapathId, Encoder, ErrorReason, Field, FlowMod, FlowModCommand, Message, Multipart,
    MultipartFlags, MultipartReply, MultipartRequest, PacketIn, PacketOut, PortNo, Version,
    Versions, split_message,
};

/// A switch and its controller.
pub(crate) struct Play {
    pub(crate) switch: EmulatedSwitch,
    pub(crate) now: Instant,
    pub(crate) version: Version,
    /// Frames sent since the last look.
    pub(crate) frames: Vec<(u32, Vec<u8>)>,
    /// Messages received from the switch since the last look.
    pub(crate) heard: Vec<Message>,
}

/// An arbitrary time.
pub(crate) fn any_time() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

impl Play {
    /// A connected default switch with four ports and two packet buffers.
    pub(crate) fn new(version: Version) -> Self {
        Self::with(Self::plan(), version)
    }

    pub(crate) fn plan() -> EmulatedSwitchConfig {
        EmulatedSwitchConfig { n_buffers: 2, ..EmulatedSwitchConfig::numbered(DatapathId(7), 4) }
    }

    /// A connected switch with this configuration.
    pub(crate) fn with(what: EmulatedSwitchConfig, version: Version) -> Self {
        let (switch, now) = (EmulatedSwitch::new(what), any_time());
        let mut play = Self { switch, now, version, frames: vec![], heard: vec![] };
        play.meet();
        play
    }

    /// Connects and completes the handshake.
    pub(crate) fn meet(&mut self) {
        let mut out = SwitchOutput::default();
        self.switch.on_connected(self.now, &mut out);
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, self.version, &mut xid).hello(Versions::of(&[self.version]));
        self.switch.on_control_bytes(self.now, &tx, &mut out).unwrap();
        assert_eq!(self.switch.version(), Some(self.version));
        let told = self.say(&Message::FeaturesRequest);
        assert!(matches!(&told[..], [Message::FeaturesReply(_)]), "{told:?}");
    }

    /// Sends a message; the replies are returned, and kept in [`heard`](Self::heard).
    pub(crate) fn say(&mut self, message: &Message) -> Vec<Message> {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(9, &mut Encoder::new(&mut tx, self.version, &mut xid)).unwrap();
        let mut out = SwitchOutput::default();
        self.switch.on_control_bytes(self.now, &tx, &mut out).unwrap();
        self.take(out)
    }

    fn take(&mut self, out: SwitchOutput) -> Vec<Message> {
        self.frames.extend(out.frames.into_iter().map(|(port, frame)| (port.0, frame)));
        let told = messages(&out.control);
        self.heard.extend(told.iter().cloned());
        told
    }

    /// Why a request was rejected, if it was.
    pub(crate) fn refused(&mut self, message: &Message) -> Option<ErrorReason> {
        self.say(message).into_iter().find_map(|it| match it {
            Message::Error(error) => Some(error.reason),
            _ => None,
        })
    }

    /// A `FLOW_MOD` in the syntax of `ovs-ofctl`.
    pub(crate) fn flow(command: FlowModCommand, flow: &str) -> FlowMod {
        FlowMod::from_text(flow, command).unwrap_or_else(|e| panic!("{flow}: {e:?}"))
    }

    /// Adds a flow entry, which must be accepted.
    pub(crate) fn add(&mut self, flow: &str) {
        let message = Message::FlowMod(Self::flow(FlowModCommand::ADD, flow));
        assert_eq!(self.refused(&message), None, "{flow}");
    }

    /// Sends a `FLOW_MOD`, and returns why it was rejected, if it was.
    pub(crate) fn change(&mut self, command: FlowModCommand, flow: &str) -> Option<ErrorReason> {
        self.refused(&Message::FlowMod(Self::flow(command, flow)))
    }

    /// Receives a frame, and returns the ports of the frames sent.
    pub(crate) fn frame(&mut self, in_port: u32, frame: &[u8]) -> Vec<u32> {
        let (mut out, before) = (SwitchOutput::default(), self.frames.len());
        self.switch.on_frame(self.now, PortNo(in_port), frame, &mut out);
        self.take(out);
        self.frames[before..].iter().map(|(port, _)| *port).collect()
    }

    /// The only frame sent since the last look.
    pub(crate) fn only_frame(&mut self) -> Vec<u8> {
        let mut frames = std::mem::take(&mut self.frames);
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).1
    }

    /// The packet-ins received since the last look.
    pub(crate) fn packet_ins(&mut self) -> Vec<PacketIn> {
        let heard = std::mem::take(&mut self.heard).into_iter();
        let packet_in = |it| if let Message::PacketIn(it) = it { Some(it) } else { None };
        heard.filter_map(packet_in).collect()
    }

    /// The only packet-in received since the last look.
    pub(crate) fn packet_in(&mut self) -> PacketIn {
        let mut told = self.packet_ins();
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }

    /// A `PACKET_OUT` of a buffered or a whole packet.
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

    /// Advances the time, calling the switch when it requests so.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Message> {
        let (end, mut told) = (self.now + time, vec![]);
        while let Some(at) = self.switch.deadline().filter(|&at| at <= end) {
            assert!(at >= self.now, "it is not called twice for one time");
            self.now = at;
            let mut out = SwitchOutput::default();
            self.switch.tick(at, &mut out);
            assert!(self.switch.deadline().is_none_or(|next| next > at));
            told.extend(self.take(out));
        }
        self.now = end;
        told
    }

    /// Sends a multipart request and returns all parts of the reply.
    pub(crate) fn ask(&mut self, body: MultipartRequest) -> Vec<MultipartReply> {
        let flags = MultipartFlags::default();
        let told = self.say(&Message::MultipartRequest(Multipart { flags, body }));
        let n = told.len();
        let part = |(at, it): (usize, Message)| match it {
            Message::MultipartReply(part) => {
                assert_eq!(part.flags.contains(MultipartFlags::MORE), at + 1 < n);
                part.body
            }
            other => panic!("{other:?}"),
        };
        told.into_iter().enumerate().map(part).collect()
    }
}

/// All messages in `bytes`.
pub(crate) fn messages(bytes: &[u8]) -> Vec<Message> {
    let (mut rest, mut messages) = (bytes, vec![]);
    while let Some((msg, after)) = split_message(rest).unwrap() {
        messages.push(Message::parse_raw(msg).unwrap());
        rest = after;
    }
    assert!(rest.is_empty(), "a message is cut off");
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
