//! Parses `FLOW_MOD`s in place, as far as they forward frames between two hosts.

use sluice_openflow::{MacAddr, PortNo, Version};

/// A flow entry that sends frames from one MAC address to another out of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathFlowEntry {
    pub(super) dst: MacAddr,
    pub(super) src: MacAddr,
    pub(super) out_port: PortNo,
}

impl PathFlowEntry {
    /// Parses a `FLOW_MOD`; `None` if it does anything else.
    pub(super) fn parse(version: Version, msg: &[u8]) -> Option<Self> {
        if version == Version::V1_0 { Self::parse_1_0(msg) } else { Self::parse_1_2_and_later(msg) }
    }

    /// OpenFlow 1.0.0 §5.3.3.
    fn parse_1_0(msg: &[u8]) -> Option<Self> {
        /// Wildcard bits of the source and destination MAC address. OpenFlow 1.0.0 §5.2.3.
        const ANY: u32 = 1 << 2 | 1 << 3;
        let m = msg.first_chunk::<80>()?;
        let wildcards = u32::from_be_bytes([m[8], m[9], m[10], m[11]]);
        let is_add = m[56..58] == [0, 0];
        let is_output = m[72..76] == [0, 0, 0, 8];
        let out_port = PortNo::from_u16(u16::from_be_bytes([m[76], m[77]]));
        let rule = Self { dst: mac(m, 20)?, src: mac(m, 14)?, out_port };
        (is_add && is_output && wildcards & ANY == 0).then_some(rule)
    }

    /// §7.3.4.1.
    fn parse_1_2_and_later(msg: &[u8]) -> Option<Self> {
        const MATCH_AT: usize = 48;
        /// Class, field and mask bit, length. §7.2.3.2.
        const ETH_DST: [u8; 4] = [0x80, 0, 3 << 1, 6];
        const ETH_SRC: [u8; 4] = [0x80, 0, 4 << 1, 6];
        /// `OFPIT_APPLY_ACTIONS`; after 6 further bytes, `OFPAT_OUTPUT` and its length.
        const APPLY: [u8; 2] = [0, 4];
        const OUTPUT: [u8; 4] = [0, 0, 0, 16];
        let is_add = *msg.get(25)? == 0;
        let head = msg.get(MATCH_AT..)?.first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let mut fields = msg.get(MATCH_AT + 4..MATCH_AT + len)?;
        let (mut dst, mut src) = (None, None);
        while let Some((head, rest)) = fields.split_first_chunk::<4>() {
            let (value, rest) = rest.split_at_checked(usize::from(head[3]))?;
            match *head {
                ETH_DST => dst = mac(value, 0),
                ETH_SRC => src = mac(value, 0),
                _ => {}
            }
            fields = rest;
        }
        let doing = msg.get(MATCH_AT + len.next_multiple_of(8)..)?.first_chunk::<16>()?;
        let is_output = doing[..2] == APPLY && doing[8..12] == OUTPUT;
        let out_port = PortNo(u32::from_be_bytes([doing[12], doing[13], doing[14], doing[15]]));
        (is_add && is_output).then_some(Self { dst: dst?, src: src?, out_port })
    }
}

fn mac(bytes: &[u8], at: usize) -> Option<MacAddr> {
    bytes.get(at..)?.first_chunk().map(|&bytes| MacAddr(bytes))
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Action, Encoder, Field, FlowMod, FlowModCommand, Instruction, Versions};

    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);

    fn parse(version: Version, f: &FlowMod) -> Option<PathFlowEntry> {
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f).unwrap();
        PathFlowEntry::parse(version, &tx)
    }

    #[test]
    fn flow_entries_are_parsed_in_every_version() {
        for version in Versions::SUPPORTED.iter().filter(|&version| version != Version::V1_1) {
            let matching = [Field::eth_dst(DST), Field::eth_src(SRC), Field::untagged()].into();
            let instructions = vec![Instruction::apply([Action::output(PortNo(7))])];
            let f = FlowMod { matching, instructions, ..FlowMod::default() };
            let rule = PathFlowEntry { dst: DST, src: SRC, out_port: PortNo(7) };
            assert_eq!(parse(version, &f), Some(rule), "{version}");
            let deletion = FlowMod { command: FlowModCommand::DELETE, ..f.clone() };
            assert_eq!(parse(version, &deletion), None);
            let to_one = [Field::eth_dst(DST)].into();
            assert_eq!(parse(version, &FlowMod { matching: to_one, ..f.clone() }), None);
            assert_eq!(parse(version, &FlowMod { instructions: vec![], ..f }), None);
            for len in 0..130 {
                assert_eq!(PathFlowEntry::parse(version, &vec![0; len]), None);
            }
        }
    }
}
