//! Parses replies of the controller as far as matching them to requests needs.
//!
//! Only `FLOW_MOD` and `PACKET_OUT` are parsed here, since they arrive in bulk; [`SwitchSession`](sluice_proto::SwitchSession) handles all other
//! messages.

use sluice_openflow::{NO_BUFFER, Version};

use crate::outstanding::AnswerKind;

/// Message type of `PACKET_OUT`, the same in all versions. §7.1.
pub(crate) const PACKET_OUT: u8 = 13;
/// Message type of `FLOW_MOD`, the same in all versions. §7.1.
pub(crate) const FLOW_MOD: u8 = 14;

/// `OFPFC_DELETE`; neither this nor the commands after it answer a request.
const DELETE: u8 = 3;

/// Ethernet types of LLDP, of the broadcast variant (BDDP) that some controllers send in addition, and of the broadcast probes of Sluice.
const DISCOVERY: [u16; 3] = [0x88cc, 0x8942, 0x88b6];

const BROADCAST: u64 = 0xffff_ffff_ffff;

/// One reply, by how it can be matched to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParsedReply {
    /// By its buffer id.
    Buffer(u32, AnswerKind),
    /// By destination and source address.
    Addresses(u64, u64, AnswerKind),
    /// A flow entry without a buffer id and without both addresses in its match: it cannot be matched.
    Unmatched,
    /// For a broadcast packet, such as the flooding of a host's announcement.
    Broadcast,
    /// No answer to a request: a deletion, a link discovery probe.
    Other,
    /// Shorter than a message of its type.
    Malformed,
}

impl ParsedReply {
    /// Parses a `FLOW_MOD`.
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
            return Self::Buffer(buffer_id, AnswerKind::FlowAndPacket);
        }
        let addresses = match version {
            Version::V1_0 => match_1_0(msg),
            Version::V1_1 => match_1_1(msg),
            _ => match_oxm(msg),
        };
        match addresses {
            Some((BROADCAST, _)) => Self::Broadcast,
            Some((dst, src)) => Self::Addresses(dst, src, AnswerKind::FlowOnly),
            None => Self::Unmatched,
        }
    }

    /// Parses a `PACKET_OUT`.
    #[inline]
    pub(crate) fn packet_out(version: Version, msg: &[u8]) -> Self {
        let Some(m) = msg.first_chunk::<16>() else { return Self::Malformed };
        let buffer_id = u32::from_be_bytes([m[8], m[9], m[10], m[11]]);
        if buffer_id != NO_BUFFER {
            return Self::Buffer(buffer_id, AnswerKind::PacketOnly);
        }
        let (actions_len, at) = match version {
            Version::V1_0 => (u16::from_be_bytes([m[14], m[15]]), 16),
            Version::V1_5 => {
                // A match precedes the actions, padded to 8 bytes. OpenFlow 1.5.0 §7.3.6.
                let Some(m) = msg.first_chunk::<24>() else { return Self::Malformed };
                let match_len = usize::from(u16::from_be_bytes([m[18], m[19]]));
                (u16::from_be_bytes([m[12], m[13]]), 16 + match_len.next_multiple_of(8))
            }
            _ => {
                let Some(m) = msg.first_chunk::<24>() else { return Self::Malformed };
                (u16::from_be_bytes([m[16], m[17]]), 24)
            }
        };
        let ethernet = msg.get(at + usize::from(actions_len)..).and_then(<[u8]>::first_chunk::<14>);
        let Some(&ethernet) = ethernet else { return Self::Malformed };
        let (dst, src) = (address(&ethernet, 0), address(&ethernet, 6));
        if DISCOVERY.contains(&u16::from_be_bytes([ethernet[12], ethernet[13]])) {
            Self::Other
        } else if dst == BROADCAST {
            Self::Broadcast
        } else {
            Self::Addresses(dst, src, AnswerKind::PacketOnly)
        }
    }
}

/// The MAC address at `at`.
#[inline]
fn address(bytes: &[u8], at: usize) -> u64 {
    let six = bytes.get(at..).and_then(<[u8]>::first_chunk::<6>).copied().unwrap_or_default();
    six.iter().fold(0, |address, &byte| address << 8 | u64::from(byte))
}

/// Destination and source in the fixed match of 1.0; `None` if one of them is a wildcard. OpenFlow 1.0.0 §5.2.3.
#[inline]
fn match_1_0(msg: &[u8]) -> Option<(u64, u64)> {
    const SRC_AND_DST: u32 = 1 << 2 | 1 << 3;
    let m = msg.first_chunk::<72>()?;
    let wildcards = u32::from_be_bytes([m[8], m[9], m[10], m[11]]);
    (wildcards & SRC_AND_DST == 0).then(|| (address(m, 20), address(m, 14)))
}

/// The same in the fixed match of 1.1, where a mask of 0 means an exact match. OpenFlow 1.1.0 §A.2.3.
fn match_1_1(msg: &[u8]) -> Option<(u64, u64)> {
    let m = msg.first_chunk::<136>()?;
    let [src, src_mask, dst, dst_mask] = [60, 66, 72, 78].map(|at| address(m, at));
    (src_mask == 0 && dst_mask == 0).then_some((dst, src))
}

/// The same in a list of OXM fields; masked fields are ignored. §7.2.3.2.
#[inline]
fn match_oxm(msg: &[u8]) -> Option<(u64, u64)> {
    const MATCH_AT: usize = 48;
    /// OXM header: class, field, mask bit, length.
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
    use sluice_base::Rng;
    use sluice_openflow::{
        Action, Encoder, Ethernet, Field, FieldId, FlowMod, FlowModCommand, Instruction, MacAddr,
        Match, Message, PacketOut, PacketOutRef, PortNo, Versions,
    };

    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 1, 0, 0, 9]);
    const SRC: MacAddr = MacAddr([2, 0, 1, 0, 0, 4]);

    fn flow_mod(version: Version, f: &FlowMod) -> ParsedReply {
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f).unwrap();
        assert_eq!(tx[1], FLOW_MOD);
        ParsedReply::flow_mod(version, &tx)
    }

    fn packet_out(version: Version, buffer_id: Option<u32>, frame: &[u8]) -> ParsedReply {
        let (mut tx, mut xid) = (vec![], 1);
        let actions = [Action::output(PortNo(2)), Action::output(PortNo(3))];
        let p = PacketOutRef { buffer_id, in_port: PortNo(1), actions: &actions, frame };
        Encoder::new(&mut tx, version, &mut xid).packet_out(&p).unwrap();
        assert_eq!(tx[1], PACKET_OUT);
        ParsedReply::packet_out(version, &tx)
    }

    fn ethernet(dst: MacAddr, ethertype: [u8; 2]) -> Vec<u8> {
        [&dst.0[..], &SRC.0, &ethertype, &[0; 46]].concat()
    }

    #[test]
    fn a_flow_mod_is_matched_by_its_buffer_id_or_by_both_addresses() {
        let fields = [Field::in_port(PortNo(1)), Field::eth_dst(DST), Field::eth_src(SRC)];
        let by_addresses = ParsedReply::Addresses(DST.to_u64(), SRC.to_u64(), AnswerKind::FlowOnly);
        for version in Versions::SUPPORTED.iter() {
            let f = FlowMod { matching: fields.into(), ..FlowMod::default() };
            assert_eq!(flow_mod(version, &f), by_addresses);
            let without_source = fields.into_iter().take(2).collect();
            let unmatched = FlowMod { matching: without_source, ..f.clone() };
            assert_eq!(flow_mod(version, &unmatched), ParsedReply::Unmatched);
            let buffered = FlowMod { buffer_id: Some(77), ..f.clone() };
            let by_buffer = ParsedReply::Buffer(77, AnswerKind::FlowAndPacket);
            assert_eq!(flow_mod(version, &buffered), by_buffer);
            let deletion = FlowMod { command: FlowModCommand::DELETE_STRICT, ..f };
            assert_eq!(flow_mod(version, &deletion), ParsedReply::Other);
        }
    }

    #[test]
    fn a_packet_out_is_matched_by_its_buffer_id_or_by_the_addresses_of_its_packet() {
        let kind = AnswerKind::PacketOnly;
        for version in Versions::SUPPORTED.iter() {
            assert_eq!(packet_out(version, Some(5), &[]), ParsedReply::Buffer(5, kind));
            let unicast = packet_out(version, None, &ethernet(DST, [8, 0]));
            assert_eq!(unicast, ParsedReply::Addresses(DST.to_u64(), SRC.to_u64(), kind));
            let flood = packet_out(version, None, &ethernet(MacAddr::BROADCAST, [8, 6]));
            assert_eq!(flood, ParsedReply::Broadcast);
            let lldp = MacAddr([1, 0x80, 0xc2, 0, 0, 0xe]);
            let broadcast = packet_out(version, None, &ethernet(MacAddr::BROADCAST, [0x88, 0xb6]));
            assert_eq!(broadcast, ParsedReply::Other);
            let probe = packet_out(version, None, &ethernet(lldp, [0x88, 0xcc]));
            assert_eq!(probe, ParsedReply::Other);
            assert_eq!(packet_out(version, None, b"short"), ParsedReply::Malformed);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        for version in Versions::SUPPORTED.iter() {
            for len in 0..170 {
                for fill in [0, 1, 0x7f, 0xff] {
                    let msg = vec![fill; len];
                    let _ = ParsedReply::flow_mod(version, &msg);
                    let _ = ParsedReply::packet_out(version, &msg);
                }
            }
        }
    }

    /// The reply that the codec finds in a `FLOW_MOD`.
    fn reply_of_flow_mod(f: &FlowMod) -> ParsedReply {
        if f.command.0 >= DELETE {
            return ParsedReply::Other;
        }
        if let Some(id) = f.buffer_id {
            return ParsedReply::Buffer(id, AnswerKind::FlowAndPacket);
        }
        let exact = |id| f.matching.get(id).filter(|field| field.is_exact());
        match (exact(FieldId::ETH_DST), exact(FieldId::ETH_SRC)) {
            (Some(_), Some(_)) if f.matching.eth_dst() == Some(MacAddr::BROADCAST) => {
                ParsedReply::Broadcast
            }
            (Some(dst), Some(src)) => {
                let (dst, src) = (u64::try_from(dst.value), u64::try_from(src.value));
                ParsedReply::Addresses(dst.unwrap(), src.unwrap(), AnswerKind::FlowOnly)
            }
            _ => ParsedReply::Unmatched,
        }
    }

    /// The reply that the codec finds in a `PACKET_OUT`.
    fn reply_of_packet_out(p: &PacketOut) -> ParsedReply {
        if let Some(id) = p.buffer_id {
            return ParsedReply::Buffer(id, AnswerKind::PacketOnly);
        }
        let Some(ethernet) = Ethernet::new(&p.data) else { return ParsedReply::Malformed };
        let ethertype = u16::from_be_bytes([p.data[12], p.data[13]]);
        if DISCOVERY.contains(&ethertype) {
            return ParsedReply::Other;
        }
        match ethernet.dst {
            MacAddr::BROADCAST => ParsedReply::Broadcast,
            dst => {
                let src = ethernet.src.to_u64();
                ParsedReply::Addresses(dst.to_u64(), src, AnswerKind::PacketOnly)
            }
        }
    }

    fn random_addr(rng: &mut Rng) -> MacAddr {
        if rng.below(4) == 0 { MacAddr::BROADCAST } else { MacAddr::from_u64(rng.next_u64() >> 16) }
    }

    fn random_match(rng: &mut Rng) -> Match {
        let (dst, src) = (Field::eth_dst(random_addr(rng)), Field::eth_src(random_addr(rng)));
        let mut fields = vec![
            Field::in_port(PortNo(1 + rng.below(48))),
            if rng.below(4) == 0 { dst.masked(0xffff_0000_0000) } else { dst },
            if rng.below(8) == 0 { src.masked(0x0000_ffff_ffff) } else { src },
            Field::untagged(),
            Field::eth_type(0x0800),
        ];
        fields.retain(|_| rng.below(4) != 0);
        if rng.below(2) == 0 {
            fields.reverse();
        }
        fields.into_iter().collect()
    }

    fn random_actions(rng: &mut Rng) -> Vec<Action> {
        (0..rng.below(3)).map(|_| Action::output(PortNo(1 + rng.below(48)))).collect()
    }

    fn random_flow_mod(rng: &mut Rng) -> FlowMod {
        FlowMod {
            command: FlowModCommand(u8::try_from(rng.below(5)).unwrap()),
            cookie: rng.next_u64(),
            priority: u16::try_from(rng.below(0x1_0000)).unwrap(),
            buffer_id: (rng.below(3) == 0).then(|| rng.below(1000)),
            matching: random_match(rng),
            instructions: vec![Instruction::apply(random_actions(rng))],
            ..FlowMod::default()
        }
    }

    #[test]
    fn random_replies_are_parsed_as_the_codec_parses_them() {
        let (mut rng, mut flow_mods, mut packet_outs) = (Rng::new(1), 0, 0);
        for n in 0..6000 {
            let version = Versions::SUPPORTED.iter().nth(n % 6).unwrap();
            let (mut tx, mut xid) = (vec![], 1);
            let f = random_flow_mod(&mut rng);
            // A mask may be one that the version does not have.
            if Encoder::new(&mut tx, version, &mut xid).flow_mod(&f).is_ok() {
                let Message::FlowMod(parsed) = Message::parse(&tx).unwrap() else {
                    panic!("{f:?}")
                };
                let reply = ParsedReply::flow_mod(version, &tx);
                assert_eq!(reply, reply_of_flow_mod(&parsed), "{version}: {f:?}");
                flow_mods += 1;
            }

            let ethertype = [0x0800, 0x0806, 0x88cc, 0x8942, 0x88b6][rng.below(5) as usize];
            let mut frame = ethernet(random_addr(&mut rng), u16::to_be_bytes(ethertype));
            frame.truncate(10 + rng.below(50) as usize);
            let buffer_id = (rng.below(3) == 0).then(|| rng.below(1000));
            let (in_port, actions) = (PortNo(1), random_actions(&mut rng));
            let p = PacketOutRef { buffer_id, in_port, actions: &actions, frame: &frame };
            tx.clear();
            Encoder::new(&mut tx, version, &mut xid).packet_out(&p).unwrap();
            let Message::PacketOut(parsed) = Message::parse(&tx).unwrap() else { panic!("{p:?}") };
            let reply = ParsedReply::packet_out(version, &tx);
            assert_eq!(reply, reply_of_packet_out(&parsed), "{version}: {p:?}");
            packet_outs += 1;
        }
        assert!(flow_mods > 5000 && packet_outs == 6000, "{flow_mods} FLOW_MODs");
    }
}
