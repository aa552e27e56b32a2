//! What a controller says, read in place as far as telling one request from another needs it.
//!
//! Only `FLOW_MOD` and `PACKET_OUT` are read here, in bulk; [`SwitchSession`](sluice_proto::SwitchSession) handles the rest.

use sluice_openflow::{NO_BUFFER, Version};

use crate::outstanding::AnswerKind;

/// Type bytes, alike in all versions. §7.1.
pub(crate) const PACKET_OUT: u8 = 13;
/// The same.
pub(crate) const FLOW_MOD: u8 = 14;

/// `OFPFC_DELETE` and what follows do not answer a request.
const DELETE: u8 = 3;

/// LLDP, and the broadcast form of it that some controllers send beside it.
const DISCOVERY: [u16; 2] = [0x88cc, 0x8942];

const BROADCAST: u64 = 0xffff_ffff_ffff;

/// One reply, and how it can be tied to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParsedReply {
    /// By the number of the buffer.
    Buffer(u32, AnswerKind),
    /// By destination and source.
    Addresses(u64, u64, AnswerKind),
    /// A rule whose match has not both addresses: it cannot be tied.
    Untied,
    /// A frame for everybody: what a host that announces itself causes.
    Announcement,
    /// Something that answers nobody: a deletion, a frame that looks for links.
    Other,
    /// Shorter than its kind must be.
    Malformed,
}

impl ParsedReply {
    /// Reads a `FLOW_MOD`.
    #[inline]
    pub(crate) fn flow_mod(version: Version, msg: &[u8]) -> Self {
        let (command, buffer_id) = if version == Version::V1_0 {
            let Some(m) = msg.first_chunk::<72>() else { return Self::Malformed };
            (m[57], u32::from_be_bytes([m[64], m[65], m[66], m[67]]))
        } else {
            let Some(m) = msg.first_chunk::<48>() else { return Self::Malformed };
            (m[25], u32::from_be_bytes([m[32], m[33], m[34], m[35]]))
        };
        if command >= DELETE {
            return Self::Other;
        }
        if buffer_id != NO_BUFFER {
            return Self::Buffer(buffer_id, AnswerKind::Both);
        }
        let addresses = match version {
            Version::V1_0 => match_10(msg),
            Version::V1_1 => match_11(msg),
            _ => match_12_on(msg),
        };
        match addresses {
            Some((BROADCAST, _)) => Self::Announcement,
            Some((dst, src)) => Self::Addresses(dst, src, AnswerKind::Rule),
            None => Self::Untied,
        }
    }

    /// Reads a `PACKET_OUT`.
    #[inline]
    pub(crate) fn packet_out(version: Version, msg: &[u8]) -> Self {
        let Some(m) = msg.first_chunk::<16>() else { return Self::Malformed };
        let buffer_id = u32::from_be_bytes([m[8], m[9], m[10], m[11]]);
        if buffer_id != NO_BUFFER {
            return Self::Buffer(buffer_id, AnswerKind::RawMessage);
        }
        let (actions_len, at) = match version {
            Version::V1_0 => (u16::from_be_bytes([m[14], m[15]]), 16),
            Version::V1_5 => {
                // A match stands before the actions, padded to 8 bytes. OpenFlow 1.5.0 §7.3.6.
                let Some(m) = msg.first_chunk::<24>() else { return Self::Malformed };
                let match_len = usize::from(u16::from_be_bytes([m[18], m[19]]));
                (u16::from_be_bytes([m[12], m[13]]), 16 + match_len.next_multiple_of(8))
            }
            _ => {
                let Some(m) = msg.first_chunk::<24>() else { return Self::Malformed };
                (u16::from_be_bytes([m[16], m[17]]), 24)
            }
        };
        let frame = msg.get(at + usize::from(actions_len)..).and_then(<[u8]>::first_chunk::<14>);
        let Some(&frame) = frame else { return Self::Malformed };
        let (dst, src) = (address(&frame, 0), address(&frame, 6));
        if DISCOVERY.contains(&u16::from_be_bytes([frame[12], frame[13]])) {
            Self::Other
        } else if dst == BROADCAST {
            Self::Announcement
        } else {
            Self::Addresses(dst, src, AnswerKind::RawMessage)
        }
    }
}

/// The 48 bits at `at`.
#[inline]
fn address(bytes: &[u8], at: usize) -> u64 {
    let six = bytes.get(at..).and_then(<[u8]>::first_chunk::<6>).copied().unwrap_or_default();
    six.iter().fold(0, |address, &byte| address << 8 | u64::from(byte))
}

/// Destination and source in the fixed match of 1.0, `None` unless both count. OpenFlow 1.0.0 §5.2.3.
#[inline]
fn match_10(msg: &[u8]) -> Option<(u64, u64)> {
    const SRC_AND_DST: u32 = 1 << 2 | 1 << 3;
    let m = msg.first_chunk::<72>()?;
    let wildcards = u32::from_be_bytes([m[8], m[9], m[10], m[11]]);
    (wildcards & SRC_AND_DST == 0).then(|| (address(m, 20), address(m, 14)))
}

/// The same in the fixed match of 1.1, where a mask without a bit means that all of the address counts. OpenFlow 1.1.0
/// §A.2.3.
fn match_11(msg: &[u8]) -> Option<(u64, u64)> {
    let m = msg.first_chunk::<136>()?;
    let [src, src_mask, dst, dst_mask] = [60, 66, 72, 78].map(|at| address(m, at));
    (src_mask == 0 && dst_mask == 0).then_some((dst, src))
}

/// The same in a list of OXM fields; masked ones do not count. §7.2.3.2.
#[inline]
fn match_12_on(msg: &[u8]) -> Option<(u64, u64)> {
    const MATCH_AT: usize = 48;
    /// Class, number and mask bit, length.
    const ETH_DST: u32 = 0x8000 << 16 | 3 << 9 | 6;
    const ETH_SRC: u32 = 0x8000 << 16 | 4 << 9 | 6;
    let head = msg.get(MATCH_AT..)?.first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let mut fields = msg.get(MATCH_AT + 4..MATCH_AT + len)?;
    let (mut dst, mut src) = (None, None);
    while let Some((head, rest)) = fields.split_first_chunk::<4>() {
        let (value, rest) = rest.split_at_checked(usize::from(head[3]))?;
        match u32::from_be_bytes(*head) {
            ETH_DST => dst = Some(address(value, 0)),
            ETH_SRC => src = Some(address(value, 0)),
            _ => {}
        }
        fields = rest;
    }
    dst.zip(src)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{
        Action, Encoder, Field, FlowMod, FlowModCommand, MacAddr, PacketOut, PortNo, Versions,
    };

    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 1, 0, 0, 9]);
    const SRC: MacAddr = MacAddr([2, 0, 1, 0, 0, 4]);

    fn rule(version: Version, f: &FlowMod) -> ParsedReply {
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f).unwrap();
        assert_eq!(tx[1], FLOW_MOD);
        ParsedReply::flow_mod(version, &tx)
    }

    fn frame(version: Version, buffer_id: Option<u32>, frame: &[u8]) -> ParsedReply {
        let (mut tx, mut xid) = (vec![], 1);
        let actions = [Action::output(PortNo(2)), Action::output(PortNo(3))];
        let p = PacketOut { buffer_id, in_port: PortNo(1), actions: &actions, frame };
        Encoder::new(&mut tx, version, &mut xid).packet_out(&p).unwrap();
        assert_eq!(tx[1], PACKET_OUT);
        ParsedReply::packet_out(version, &tx)
    }

    fn ethernet(dst: MacAddr, ethertype: [u8; 2]) -> Vec<u8> {
        [&dst.0[..], &SRC.0, &ethertype, &[0; 46]].concat()
    }

    #[test]
    fn rules_are_tied_by_buffer_or_by_both_addresses() {
        let both = [Field::in_port(PortNo(1)), Field::eth_dst(DST), Field::eth_src(SRC)];
        for version in Versions::SPOKEN.iter() {
            let f = FlowMod { matching: both.into(), ..FlowMod::default() };
            let by_addresses = ParsedReply::Addresses(DST.to_u64(), SRC.to_u64(), AnswerKind::Rule);
            assert_eq!(rule(version, &f), by_addresses);
            let one = both.into_iter().take(2).collect();
            assert_eq!(rule(version, &FlowMod { matching: one, ..f.clone() }), ParsedReply::Untied);
            let buffered = FlowMod { buffer_id: Some(77), ..f.clone() };
            assert_eq!(rule(version, &buffered), ParsedReply::Buffer(77, AnswerKind::Both));
            let deletion = FlowMod { command: FlowModCommand::DELETE_STRICT, ..f };
            assert_eq!(rule(version, &deletion), ParsedReply::Other);
        }
    }

    #[test]
    fn frames_are_tied_by_buffer_or_by_their_own_addresses() {
        for version in Versions::SPOKEN.iter() {
            assert_eq!(
                frame(version, Some(5), &[]),
                ParsedReply::Buffer(5, AnswerKind::RawMessage)
            );
            let ours = frame(version, None, &ethernet(DST, [8, 0]));
            assert_eq!(
                ours,
                ParsedReply::Addresses(DST.to_u64(), SRC.to_u64(), AnswerKind::RawMessage)
            );
            let flood = frame(version, None, &ethernet(MacAddr::BROADCAST, [8, 6]));
            assert_eq!(flood, ParsedReply::Announcement);
            let lldp = MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]);
            assert_eq!(frame(version, None, &ethernet(lldp, [0x88, 0xcc])), ParsedReply::Other);
            assert_eq!(frame(version, None, b"short"), ParsedReply::Malformed);
        }
    }

    #[test]
    fn no_bytes_confuse_it() {
        for version in Versions::SPOKEN.iter() {
            for len in 0..170 {
                for fill in [0, 1, 0x7f, 0xff] {
                    let msg = vec![fill; len];
                    let _ = (
                        ParsedReply::flow_mod(version, &msg),
                        ParsedReply::packet_out(version, &msg),
                    );
                }
            }
        }
    }
}
