//! Frames of the Link Aggregation Control Protocol. IEEE 802.1AX-2008 §5.4.2.

use sluice_openflow::{EtherType, Ethernet, MacAddr};
use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The address of all these frames. IEEE 802.3, annex 57A.
const SLOW_PROTOCOLS: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 2]);

/// The subtype and the version of the protocol. A later version has the same first fields.
const SUBTYPE: u8 = 1;
const VERSION: u8 = 1;

/// The parameters by which one end of a link aggregates it, and its state.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub(super) struct PortParameters {
    pub(super) system_priority: U16,
    pub(super) system: [u8; 6],
    /// Ports of a system with the same key can be aggregated.
    pub(super) key: U16,
    pub(super) port_priority: U16,
    pub(super) port: U16,
    /// Bits of [`state`].
    pub(super) state: u8,
    pub(super) reserved: [u8; 3],
}

/// The bits of the state of a port.
pub(super) mod state {
    /// It wants a frame every second.
    pub(in super::super) const SHORT_TIMEOUT: u8 = 1 << 1;
    /// Its link can be aggregated with others.
    pub(in super::super) const AGGREGATION: u8 = 1 << 2;
    /// It is part of the aggregated link.
    pub(in super::super) const SYNCHRONIZATION: u8 = 1 << 3;
    /// Frames that it receives are accepted.
    pub(in super::super) const COLLECTING: u8 = 1 << 4;
    /// Frames are sent out of it.
    pub(in super::super) const DISTRIBUTING: u8 = 1 << 5;
}

/// A part of the frame: its type, its length with these two bytes, and its value.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Tlv<T> {
    kind: u8,
    len: u8,
    value: T,
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Start {
    subtype: u8,
    version: u8,
    actor: Tlv<PortParameters>,
}

#[derive(Debug, IntoBytes, Immutable)]
#[repr(C)]
struct Frame {
    dst: MacAddr,
    src: MacAddr,
    ethertype: U16,
    start: Start,
    partner: Tlv<PortParameters>,
    /// The longest time for which a collector delays frames, 10 µs, and reserved bytes.
    collector: Tlv<[u8; 14]>,
    /// The terminator, and reserved bytes.
    end: [u8; 52],
}

const ACTOR: u8 = 1;
const PARTNER: u8 = 2;
const COLLECTOR: u8 = 3;
const PARAMETERS_LEN: u8 = 20;
const COLLECTOR_LEN: u8 = 16;

/// What a frame is for this application.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A frame of another protocol.
    Other,
    Malformed,
    /// The parameters of the sender.
    Actor(PortParameters),
}

/// Parses `frame`, which may be truncated behind the parameters of its sender; `eth` is its Ethernet header.
pub(super) fn parse(eth: &Ethernet<'_>, frame: &[u8]) -> Parsed {
    if eth.ethertype != EtherType::SLOW_PROTOCOLS || eth.tagged || eth.dst != SLOW_PROTOCOLS {
        return Parsed::Other;
    }
    let content = frame.get(size_of_val(eth.header)..).unwrap_or_default();
    if content.first() != Some(&SUBTYPE) {
        return Parsed::Other;
    }
    match Start::ref_from_prefix(content) {
        Ok((start, _)) if (start.actor.kind, start.actor.len) == (ACTOR, PARAMETERS_LEN) => {
            Parsed::Actor(start.actor.value)
        }
        _ => Parsed::Malformed,
    }
}

/// The frame by which the port with the Ethernet address `src` states its own parameters and those of its partner.
pub(super) fn encode(src: MacAddr, actor: PortParameters, partner: PortParameters) -> Vec<u8> {
    let parameters = |kind, value| Tlv { kind, len: PARAMETERS_LEN, value };
    let frame = Frame {
        dst: SLOW_PROTOCOLS,
        src,
        ethertype: U16::new(EtherType::SLOW_PROTOCOLS.0),
        start: Start { subtype: SUBTYPE, version: VERSION, actor: parameters(ACTOR, actor) },
        partner: parameters(PARTNER, partner),
        collector: Tlv { kind: COLLECTOR, len: COLLECTOR_LEN, value: [0; 14] },
        end: [0; 52],
    };
    frame.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent by Open vSwitch 3.1 (`lacp=active`), without the reserved bytes at its end.
    const FROM_OVS: &str = "0180c2000002 1a900515669c 8809 0101 \
        0114 fffe 2ec57a94d641 0001 ffff 0001 3f 000000 \
        0214 ffff 0e534c000003 0001 ffff 9e35 06 000000 \
        0310 0000 000000000000000000000000";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    fn parsed(frame: &[u8]) -> Parsed {
        parse(&Ethernet::new(frame).unwrap(), frame)
    }

    #[test]
    fn the_sender_is_read_from_a_frame_that_may_be_truncated() {
        let frame = bytes(FROM_OVS);
        let expected = PortParameters {
            system_priority: U16::new(0xfffe),
            system: [0x2e, 0xc5, 0x7a, 0x94, 0xd6, 0x41],
            key: U16::new(1),
            port_priority: U16::new(0xffff),
            port: U16::new(1),
            state: 0x3f,
            reserved: [0; 3],
        };
        for len in [36, 60, frame.len()] {
            assert_eq!(parsed(&frame[..len]), Parsed::Actor(expected), "{len}");
        }
        for len in 15..36 {
            assert_eq!(parsed(&frame[..len]), Parsed::Malformed, "{len}");
        }
        let mut wrong_len = frame.clone();
        wrong_len[17] = 19;
        assert_eq!(parsed(&wrong_len), Parsed::Malformed);
        let mut marker_protocol = frame;
        marker_protocol[14] = 2;
        assert_eq!(parsed(&marker_protocol), Parsed::Other);
    }

    #[test]
    fn what_is_encoded_is_124_bytes_long_and_can_be_read() {
        let actor = PortParameters { key: U16::new(7), state: 0x3c, ..Default::default() };
        let partner = PortParameters { key: U16::new(9), ..Default::default() };
        let frame = encode(MacAddr([2, 0, 0, 0, 0, 1]), actor, partner);
        assert_eq!(frame.len(), 124);
        assert_eq!(parsed(&frame), Parsed::Actor(actor));
        assert_eq!(frame[36..38], [2, 20]);
        assert_eq!(&frame[38..56], partner.as_bytes());
        assert_eq!(frame[56..58], [3, 16]);
        assert_eq!(frame[72..], [0; 52]);
    }
}
