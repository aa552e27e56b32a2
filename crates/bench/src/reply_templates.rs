//! The replies of the null responder, prepared so that only a few bytes of each are copied from its request.

use sluice_io::READ_BYTES_MAX;
use sluice_openflow::{
    Action, Encoder, Field, FlowMod, Instruction, MacAddr, PacketOutRef, PortNo, Version, VlanId,
};

use crate::null::{Config, FLOW_MODS_MAX, FlowMatch, ReplyContent};

/// Length of the shortest `PACKET_IN`; as many replies are prepared as requests fit into one read.
const REQUEST_LEN_MIN: usize = 18;

/// Placeholders, by which the offsets of the addresses are found.
const DST: MacAddr = MacAddr([2, 0xd5, 0xd5, 0xd5, 0xd5, 1]);
const SRC: MacAddr = MacAddr([2, 0x5a, 0x5a, 0x5a, 0x5a, 2]);

/// Identical replies in one version, in which values of the requests are patched.
#[derive(Debug)]
pub(crate) struct ReplyTemplates {
    version: Version,
    content: ReplyContent,
    matching: FlowMatch,
    flow_mods: usize,
    bytes: Vec<u8>,
    /// Length of a reply.
    len: usize,
    buffer_id_at: usize,
    /// Offsets of the destination and the source that each flow entry matches; those of entries for the reverse direction
    /// are exchanged.
    addresses_at: Vec<[usize; 2]>,
    /// Where the packet begins and ends, if replies contain it.
    packet: (usize, usize),
}

impl ReplyTemplates {
    /// Replies in `version`. If they contain packets, they are prepared when the first packet is known.
    pub(crate) fn new(version: Version, config: &Config) -> Self {
        let mut replies = Self {
            version,
            content: config.content,
            matching: config.matching,
            flow_mods: config.flow_mods.clamp(1, FLOW_MODS_MAX).into(),
            bytes: Vec::new(),
            len: 0,
            buffer_id_at: 0,
            addresses_at: Vec::new(),
            packet: (0, 0),
        };
        if config.content != ReplyContent::Packet {
            replies.prepare(0);
        }
        replies
    }

    /// The first `n` replies.
    pub(crate) fn first(&self, n: usize) -> &[u8] {
        self.bytes.get(..n * self.len).unwrap_or_default()
    }

    /// Patches reply `n` for `request`, a `PACKET_IN`. If replies are to have another length from now on, the `n` before are
    /// moved to `sent_first`, and `n` is set to 0. Returns `None` if the request is malformed.
    #[inline]
    pub(crate) fn patch(
        &mut self,
        request: &[u8],
        n: &mut usize,
        sent_first: &mut Vec<u8>,
    ) -> Option<()> {
        if self.content == ReplyContent::Packet {
            return self.patch_packet(request, n, sent_first);
        }
        let reply = self.bytes.get_mut(*n * self.len..)?.get_mut(..self.len)?;
        *n += 1;
        if self.content == ReplyContent::BufferId {
            let buffer_id = reply.get_mut(self.buffer_id_at..)?.first_chunk_mut::<4>()?;
            *buffer_id = *request.get(8..)?.first_chunk()?;
        }
        Some(())
    }

    /// Copies the packet of a request into reply `n`, and its addresses into the flow entries.
    #[inline]
    fn patch_packet(
        &mut self,
        request: &[u8],
        n: &mut usize,
        sent_first: &mut Vec<u8>,
    ) -> Option<()> {
        let packet = request.get(packet_offset(self.version, request)?..)?;
        let addresses = packet.first_chunk::<12>()?;
        if packet.len() != self.packet.1 - self.packet.0 {
            sent_first.extend_from_slice(self.first(*n));
            *n = 0;
            self.prepare(packet.len());
            if packet.len() != self.packet.1 - self.packet.0 {
                return None;
            }
        }
        let reply = self.bytes.get_mut(*n * self.len..)?.get_mut(..self.len)?;
        *n += 1;
        let (dst, src) = addresses.split_at(6);
        for [dst_at, src_at] in &self.addresses_at {
            reply.get_mut(*dst_at..*dst_at + 6)?.copy_from_slice(dst);
            reply.get_mut(*src_at..*src_at + 6)?.copy_from_slice(src);
        }
        reply.get_mut(self.packet.0..self.packet.1)?.copy_from_slice(packet);
        Some(())
    }

    /// Prepares replies to packets of `packet_len` bytes.
    #[cold]
    fn prepare(&mut self, packet_len: usize) {
        let mut flow_mod = self.flow_mod();
        let addresses_at = [DST, SRC].map(|address| {
            let at = flow_mod.windows(6).position(|bytes| bytes == address.0);
            at.unwrap_or_default()
        });
        let buffer_id_at = if self.version == Version::V1_0 { 64 } else { 32 };
        let last_at = flow_mod.len() * (self.flow_mods - 1);
        self.buffer_id_at = buffer_id_at + last_at;
        let has_packet = self.content == ReplyContent::Packet;
        if !has_packet {
            for at in addresses_at.into_iter().filter(|&at| at > 0) {
                flow_mod.get_mut(at..at + 6).unwrap_or_default().fill(0);
            }
        }
        self.addresses_at.clear();
        let flow_mods = (0..self.flow_mods).map(|number| number * flow_mod.len());
        self.addresses_at.extend(flow_mods.filter(|_| has_packet).map(|start| {
            let [dst, src] = addresses_at.map(|at| at + start);
            if start == last_at { [dst, src] } else { [src, dst] }
        }));
        let mut reply = flow_mod.repeat(self.flow_mods);
        if has_packet {
            self.packet = append_packet_out(&mut reply, self.version, packet_len);
        }
        self.len = reply.len();
        // A message that began in the read before is in addition to those of a read.
        let requests = READ_BYTES_MAX / (REQUEST_LEN_MIN + packet_len) + 1;
        self.bytes = reply.repeat(requests);
    }

    /// A flow entry for packets from `SRC` to `DST`.
    fn flow_mod(&self) -> Vec<u8> {
        let fields = [
            Field::in_port(PortNo(1)),
            Field::eth_dst(DST),
            Field::eth_src(SRC),
            Field::vlan(VlanId(0)),
        ];
        let skipped = usize::from(self.matching == FlowMatch::Pair);
        // Before 1.2 the match has a fixed length; without fields it matches no particular pair of addresses.
        let has_fields = self.content == ReplyContent::Packet || self.version >= Version::V1_2;
        let fields = fields.into_iter().skip(skipped).filter(|_| has_fields).collect();
        let flow_mod = FlowMod {
            matching: fields,
            instructions: vec![Instruction::apply([Action::output(PortNo(2))])],
            ..FlowMod::default()
        };
        let (mut tx, mut xid) = (vec![], 1);
        // Does not fail: all versions have these fields.
        let _ = Encoder::new(&mut tx, self.version, &mut xid).flow_mod(&flow_mod);
        tx
    }
}

/// Appends a `PACKET_OUT` with a packet of `len` bytes; returns where that begins and ends. Appends nothing if the packet is
/// too long for one.
fn append_packet_out(reply: &mut Vec<u8>, version: Version, len: usize) -> (usize, usize) {
    let (packet, mut xid) = (vec![0; len], 1);
    let (in_port, actions) = (PortNo(1), [Action::output(PortNo(2))]);
    let packet_out = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &packet };
    let written = Encoder::new(reply, version, &mut xid).packet_out(&packet_out);
    if written.is_ok() { (reply.len() - len, reply.len()) } else { (0, 0) }
}

/// Where the packet begins in a `PACKET_IN`.
#[inline]
fn packet_offset(version: Version, request: &[u8]) -> Option<usize> {
    let match_at = match version {
        Version::V1_0 => return Some(18),
        Version::V1_1 => return Some(24),
        Version::V1_2 => 16,
        _ => 24,
    };
    let head = request.get(match_at..)?.first_chunk::<4>()?;
    let match_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    // Two bytes of padding follow the match.
    Some(match_at + match_len.next_multiple_of(8) + 2)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::view::PacketIn;
    use sluice_openflow::{Message, PacketInReason, RawMessage, Versions, split_message};

    use super::*;

    fn config(content: ReplyContent, flow_mods: u8, matching: FlowMatch) -> Config {
        Config { content, flow_mods, matching, ..Config::new(([127, 0, 0, 1], 0).into()) }
    }

    fn request(version: Version, frame: &[u8]) -> Vec<u8> {
        let (mut tx, mut xid) = (vec![], 1);
        let total_len = u16::try_from(frame.len()).unwrap();
        let (in_port, reason) = (PortNo(3), PacketInReason::NO_MATCH);
        let (buffer_id, table_id, cookie) = (None, 0, 0);
        let p = PacketIn { buffer_id, in_port, total_len, reason, table_id, cookie, frame };
        p.encode(&mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
        tx
    }

    #[test]
    fn a_reply_is_as_long_as_that_of_a_learning_switch() {
        for version in Versions::SUPPORTED.iter() {
            let config = config(ReplyContent::BufferId, 1, FlowMatch::PortPair);
            let len = ReplyTemplates::new(version, &config).len;
            let expected = crate::null::REPLY_LENS[usize::from(version.0) - 1];
            assert_eq!(len, expected, "{version}");
        }
    }

    #[test]
    fn a_match_of_the_addresses_alone_is_shorter_from_1_2_on() {
        let lens = Versions::SUPPORTED.iter().map(|version| {
            ReplyTemplates::new(version, &config(ReplyContent::BufferId, 2, FlowMatch::Pair)).len
        });
        assert_eq!(lens.collect::<Vec<_>>(), [160, 320, 208, 208, 208, 208]);
    }

    #[test]
    fn the_last_flow_mod_of_a_reply_has_the_buffer_id() {
        let config = config(ReplyContent::BufferId, 2, FlowMatch::PortPair);
        let mut replies = ReplyTemplates::new(Version::V1_0, &config);
        let mut request = vec![1, 10, 0, 18, 0, 0, 0, 1, 0, 0, 0, 7];
        request.resize(18, 0);
        let (mut n, mut sent_first) = (0, vec![]);
        assert_eq!(replies.patch(&request, &mut n, &mut sent_first), Some(()));
        assert_eq!((n, sent_first.len()), (1, 0));
        let buffer_ids = replies.first(1).chunks(80).map(|flow_mod| flow_mod[64..68].to_vec());
        assert_eq!(buffer_ids.collect::<Vec<_>>(), [vec![255; 4], vec![0, 0, 0, 7]]);
    }

    /// The reply to a packet that is not buffered: flow entries for its addresses, the last one for its direction, and the
    /// packet.
    #[test]
    fn a_reply_with_the_packet_matches_its_addresses_and_returns_it() {
        for version in Versions::SUPPORTED.iter() {
            let config = config(ReplyContent::Packet, 2, FlowMatch::Pair);
            let mut replies = ReplyTemplates::new(version, &config);
            let (mut n, mut sent) = (0, vec![]);
            let packets: [u8; 4] = [60, 60, 74, 60];
            let packets = packets.map(|len| (0..len).map(|byte| byte ^ len).collect::<Vec<_>>());
            for packet in &packets {
                replies.patch(&request(version, packet), &mut n, &mut sent).unwrap();
            }
            sent.extend_from_slice(replies.first(n));
            let mut rest = &sent[..];
            let mut next = || {
                let (msg, after) = split_message(rest).unwrap().unwrap();
                rest = after;
                msg
            };
            for packet in &packets {
                for reversed in [true, false] {
                    let Message::FlowMod(flow_mod) = Message::parse_raw(next()).unwrap() else {
                        panic!("not a flow-mod")
                    };
                    let (mut dst, mut src) = (&packet[..6], &packet[6..12]);
                    if reversed {
                        (dst, src) = (src, dst);
                    }
                    let [dst, src] = [dst, src].map(|mac| MacAddr(mac.try_into().unwrap()));
                    assert_eq!(flow_mod.buffer_id, None);
                    for field in [Field::eth_dst(dst), Field::eth_src(src)] {
                        assert!(flow_mod.matching.iter().any(|f| *f == field), "{flow_mod:?}");
                    }
                }
                let Message::PacketOut(packet_out) = Message::parse_raw(next()).unwrap() else {
                    panic!("not a packet-out")
                };
                assert_eq!(packet_out.data, *packet);
            }
            assert!(rest.is_empty());
            let bytes = request(version, &packets[0]);
            assert!(RawMessage::new(&bytes).is_ok());
            assert_eq!(replies.patch(&bytes[..20], &mut n, &mut sent), None, "cut off");
        }
    }
}
