//! Messages that are encoded once and copied many times with other values.

use sluice_openflow::{
    Action, EncodeError, Encoder, EthHeader, FieldId, FlowMod, HEADER_LEN, Instruction, NO_BUFFER,
    PacketOutRef, PortNo, Version, VlanId,
};

use crate::flow_mod_layout::{FlowModLayout, FlowModV1_0, FlowModV1_3};
use crate::packet_out_layout::{PacketOutLayout, PacketOutV1_0, PacketOutV1_3};

/// Bytes of a `FLOW_MOD` of 1.0 with one action. Templates up to this length are copied with this length.
pub(crate) const LEN_SHORT: usize = 80;

/// Longest template: a `FLOW_MOD` of 1.1 with one action, whose match has 88 bytes.
pub(crate) const LEN_MAX: usize = 160;

/// `OFPVID_PRESENT`: the bit of `vlan_vid` that says that there is a tag. §7.2.3.7.
const VLAN_PRESENT: u16 = 0x1000;

/// Bytes behind the message. A value that the message does not have is written there and cut off.
const SCRATCH: usize = 8;

/// A `FLOW_MOD` or `PACKET_OUT` that is encoded once, and copied with other [`TemplateValues`] for each message.
///
/// [`encode`](Self::encode) is one copy and a few stores, whatever the version and the number of fields.
/// `lab/instructions` compares it with encoding the message anew.
#[derive(Debug, Clone)]
pub struct MessageTemplate {
    bytes: [u8; LEN_MAX + SCRATCH],
    len: u8,
    version: Version,
    // Offsets of the values.
    buffer_id: u8,
    in_port: u8,
    eth_dst: u8,
    eth_src: u8,
    vlan: u8,
    out_port: u8,
    /// Whether the offsets are those of a [`FlowModLayout`].
    is_flow_mod: bool,
    /// Whether the offsets are those of a [`PacketOutLayout`].
    is_packet_out: bool,
}

/// The values that are patched into a copy of a [`MessageTemplate`], as far as the message has them.
#[derive(Debug, Clone, Copy)]
pub struct TemplateValues<'a> {
    /// The switch's buffer of the frame, if there is one.
    pub buffer_id: Option<u32>,
    /// Ingress port of the frame.
    pub in_port: PortNo,
    /// Destination and source address.
    pub eth: &'a EthHeader,
    /// VLAN; `None` for an untagged frame.
    pub vlan: Option<VlanId>,
    /// Output port.
    pub out_port: PortNo,
}

impl MessageTemplate {
    /// Encodes `f` in the version of `out`. Buffer id, ingress port, addresses, VLAN and the port of the first action are
    /// patched later, as far as `f` has them; their values here do not matter.
    ///
    /// # Errors
    /// Names what the version cannot express; or the message is longer than a template.
    pub fn flow_mod(out: &Encoder<'_>, f: &FlowMod) -> Result<Self, EncodeError> {
        Self::from_flow_mod(out.version(), f)
    }

    /// Replaces the message by `f`, in the same version.
    ///
    /// # Errors
    /// As [`flow_mod`](Self::flow_mod); the template stays as it was.
    pub fn set_flow_mod(&mut self, f: &FlowMod) -> Result<(), EncodeError> {
        *self = Self::from_flow_mod(self.version, f)?;
        Ok(())
    }

    fn from_flow_mod(version: Version, f: &FlowMod) -> Result<Self, EncodeError> {
        let (mut tx, mut xid) = (Vec::new(), 0);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f)?;
        let mut template = Self::from_bytes(version, &tx)?;
        let has_output = match f.instructions.first() {
            Some(Instruction::ApplyActions { actions }) => {
                matches!(actions.first(), Some(Action::Output { .. }))
            }
            _ => false,
        };
        let actions_at = match version {
            Version::V1_0 => {
                template.buffer_id = 64;
                template.set_fixed_offsets(f, [12, 14, 20, 26]);
                72
            }
            Version::V1_1 => {
                template.buffer_id = 32;
                template.set_fixed_offsets(f, [52, 60, 72, 84]);
                144
            }
            _ => {
                template.buffer_id = 32;
                template.set_oxm_offsets(f) + 8
            }
        };
        if has_output {
            template.out_port = to_offset(actions_at + 4);
        }
        template.is_flow_mod = template.has_flow_mod_layout::<FlowModV1_0>()
            || template.has_flow_mod_layout::<FlowModV1_3>();
        Ok(template)
    }

    /// Encodes `p` without its frame, which is appended to each copy. Buffer id, ingress port and the port of the first
    /// action are patched later.
    ///
    /// # Errors
    /// Names what the version cannot express; or the message is longer than a template.
    pub fn packet_out(out: &Encoder<'_>, p: &PacketOutRef<'_>) -> Result<Self, EncodeError> {
        let (mut tx, mut xid, version) = (Vec::new(), 0, out.version());
        Encoder::new(&mut tx, version, &mut xid).packet_out(&PacketOutRef { frame: &[], ..*p })?;
        let mut template = Self::from_bytes(version, &tx)?;
        template.buffer_id = 8;
        let actions_at = match version {
            Version::V1_0 => {
                template.in_port = 12;
                16
            }
            Version::V1_5 => {
                // Fixed part, head of the match, head of its only field; the match has 16 bytes.
                template.in_port = 16 + 4 + 4;
                32
            }
            _ => {
                template.in_port = 12;
                24
            }
        };
        if let Some(Action::Output { .. }) = p.actions.first() {
            template.out_port = to_offset(actions_at + 4);
        }
        template.is_packet_out = template.has_packet_out_layout::<PacketOutV1_0>()
            || template.has_packet_out_layout::<PacketOutV1_3>();
        Ok(template)
    }

    fn from_bytes(version: Version, bytes: &[u8]) -> Result<Self, EncodeError> {
        let too_long = EncodeError::new("message longer than a template", version, None);
        let scratch = if bytes.len() <= LEN_SHORT { LEN_SHORT } else { LEN_MAX };
        let scratch = to_offset(scratch);
        let mut template = Self {
            bytes: [0; LEN_MAX + SCRATCH],
            len: u8::try_from(bytes.len()).map_err(|_| too_long)?,
            version,
            buffer_id: scratch,
            in_port: scratch,
            eth_dst: scratch,
            eth_src: scratch,
            vlan: scratch,
            out_port: scratch,
            is_flow_mod: false,
            is_packet_out: false,
        };
        let room = template.bytes.get_mut(..LEN_MAX).and_then(|room| room.get_mut(..bytes.len()));
        room.ok_or(too_long)?.copy_from_slice(bytes);
        Ok(template)
    }

    fn has_flow_mod_layout<F: FlowModLayout>(&self) -> bool {
        self.has_layout(F::VERSIONS, size_of::<F>(), F::OFFSETS)
    }

    fn has_packet_out_layout<O: PacketOutLayout>(&self) -> bool {
        self.has_layout(O::VERSIONS, size_of::<O>(), O::OFFSETS)
    }

    fn has_layout(&self, versions: &[Version], len: usize, offsets: [usize; 6]) -> bool {
        let Self { buffer_id, in_port, eth_src, eth_dst, vlan, out_port, .. } = *self;
        let own = [buffer_id, in_port, eth_src, eth_dst, vlan, out_port].map(usize::from);
        versions.contains(&self.version) && usize::from(self.len) == len && own == offsets
    }

    /// The message, if it has the layout that the burst loops write.
    pub(crate) fn common_bytes(&self) -> Option<&[u8]> {
        let bytes = self.bytes.get(..self.len.into())?;
        (self.is_flow_mod || self.is_packet_out).then_some(bytes)
    }

    /// The version of the message.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The message as layout `F`; `None` if it has another layout or is of another version than `version`.
    #[inline]
    pub(crate) fn flow_mod_layout<F: FlowModLayout>(&self, version: Version) -> Option<&F> {
        let has_layout =
            self.is_flow_mod && self.version == version && F::VERSIONS.contains(&version);
        let (flow, _) = F::ref_from_prefix(&self.bytes).ok()?;
        has_layout.then_some(flow)
    }

    /// The message as layout `O`; `None` if it has another layout or is of another version than `version`.
    #[inline]
    pub(crate) fn packet_out_head<O: PacketOutLayout>(&self, version: Version) -> Option<&O> {
        let has_layout =
            self.is_packet_out && self.version == version && O::VERSIONS.contains(&version);
        let (head, _) = O::ref_from_prefix(&self.bytes).ok()?;
        has_layout.then_some(head)
    }

    fn set_offset(&mut self, id: FieldId, offset: u8) {
        match id {
            FieldId::IN_PORT => self.in_port = offset,
            FieldId::ETH_DST => self.eth_dst = offset,
            FieldId::ETH_SRC => self.eth_src = offset,
            FieldId::VLAN_VID => self.vlan = offset,
            _ => {}
        }
    }

    /// Sets the offsets of the fields of `f` in a match of fixed layout, as 1.0 and 1.1 have.
    fn set_fixed_offsets(&mut self, f: &FlowMod, [in_port, eth_src, eth_dst, vlan]: [u8; 4]) {
        for field in f.matching.iter() {
            let offset = match field.id {
                FieldId::IN_PORT => in_port,
                FieldId::ETH_SRC => eth_src,
                FieldId::ETH_DST => eth_dst,
                FieldId::VLAN_VID => vlan,
                _ => continue,
            };
            self.set_offset(field.id, offset);
        }
    }

    /// Sets the offsets of the fields of `f` in an OXM match; returns where the match ends.
    fn set_oxm_offsets(&mut self, f: &FlowMod) -> usize {
        const MATCH_AT: usize = 48;
        let mut at = MATCH_AT + 4;
        for field in f.matching.iter() {
            self.set_offset(field.id, to_offset(at + 4));
            at += 4 + usize::from(field.len) * if field.mask.is_some() { 2 } else { 1 };
        }
        at.next_multiple_of(8)
    }

    /// Appends the message with `values` to `out`; returns its transaction id.
    ///
    /// # Errors
    /// The version has no number for a port; nothing is appended then.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn encode(
        &self,
        out: &mut Encoder<'_>,
        values: &TemplateValues<'_>,
    ) -> Result<u32, EncodeError> {
        // The length of the copy is a constant, and what is too much is cut off at the end. Values are patched into the
        // copy, not into the template: a copy of bytes that were written just before would have to wait for them.
        let (xid, start) = (out.take_xid(), out.len());
        let patched = if usize::from(self.len) <= LEN_SHORT {
            let msg = out.append_chunk::<{ LEN_SHORT + SCRATCH }>(&self.bytes);
            self.patch(msg, xid, values)
        } else {
            let msg = out.append_chunk::<{ LEN_MAX + SCRATCH }>(&self.bytes);
            self.patch(msg, xid, values)
        };
        let len = if patched.is_ok() { usize::from(self.len) } else { 0 };
        out.truncate(start + len);
        patched.map(|()| xid)
    }

    /// Appends the `PACKET_OUT` with `values`, and `frame` in it, to `out`; returns its transaction id.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); or the message would be longer than 65 535 bytes.
    #[inline]
    pub fn encode_with_frame(
        &self,
        out: &mut Encoder<'_>,
        values: &TemplateValues<'_>,
        frame: &[u8],
    ) -> Result<u32, EncodeError> {
        let start = out.len();
        let xid = self.encode(out, values)?;
        out.append_bytes(frame);
        let patched = out.patch_message_len(start);
        if patched.is_err() {
            out.truncate(start);
            out.set_next_xid(xid);
        }
        patched.map(|()| xid)
    }

    /// Patches `values` into `msg`, which begins with a copy of the template.
    #[inline]
    fn patch(
        &self,
        msg: &mut [u8],
        xid: u32,
        values: &TemplateValues<'_>,
    ) -> Result<(), EncodeError> {
        const XID_OFFSET: u8 = 4;
        put(msg, XID_OFFSET, &xid.to_be_bytes());
        put(msg, self.buffer_id, &values.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
        put(msg, self.eth_dst, &values.eth.dst.0);
        put(msg, self.eth_src, &values.eth.src.0);
        if self.version == Version::V1_0 {
            put(msg, self.in_port, &values.in_port.to_u16()?.to_be_bytes());
            put(msg, self.out_port, &values.out_port.to_u16()?.to_be_bytes());
            put(msg, self.vlan, &values.vlan.map_or(0xffff, |vlan| vlan.0).to_be_bytes());
        } else {
            put(msg, self.in_port, &values.in_port.0.to_be_bytes());
            put(msg, self.out_port, &values.out_port.0.to_be_bytes());
            let vlan = match self.version {
                Version::V1_1 => values.vlan.map_or(0xffff, |vlan| vlan.0),
                _ => values.vlan.map_or(0, |vlan| VLAN_PRESENT | vlan.0),
            };
            put(msg, self.vlan, &vlan.to_be_bytes());
        }
        Ok(())
    }
}

#[inline]
fn put<const N: usize>(msg: &mut [u8], offset: u8, value: &[u8; N]) {
    let at = usize::from(offset);
    if let Some(bytes) = msg.get_mut(at..at + N) {
        bytes.copy_from_slice(value);
    }
}

const _: () = assert!(HEADER_LEN == 8 && LEN_MAX + SCRATCH < 256);

fn to_offset(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{Field, MacAddr};
    use zerocopy::FromBytes;

    use super::*;

    fn eth() -> EthHeader {
        let bytes = [[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]].concat();
        EthHeader::read_from_bytes(&[&bytes[..], &[8, 0]].concat()).unwrap()
    }

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);

    fn fields(vlan: Option<VlanId>) -> [Field; 5] {
        let vlan = vlan.map_or_else(Field::untagged, Field::vlan);
        let (dst, src) = (Field::eth_dst(DST), Field::eth_src(SRC));
        [Field::in_port(PortNo(3)), dst, src, vlan, Field::eth_type(0x0800)]
    }

    #[test]
    fn a_patched_flow_mod_equals_the_one_that_is_encoded_anew() {
        for version in (1..=6).map(Version) {
            for (vlan, port) in [(None, PortNo(7)), (Some(VlanId(5)), PortNo::LOCAL)] {
                for n in 0..=5 {
                    let flow_mod = |fields: &[Field], out_port| FlowMod {
                        cookie: 99,
                        idle_timeout: 60,
                        matching: fields[..n].iter().copied().collect(),
                        instructions: vec![Instruction::ApplyActions {
                            actions: vec![Action::output(out_port)],
                        }],
                        ..FlowMod::default()
                    };
                    let flow = FlowMod { buffer_id: Some(77), ..flow_mod(&fields(vlan), port) };
                    let (mut expected, mut xid) = (vec![], 5);
                    Encoder::new(&mut expected, version, &mut xid).flow_mod(&flow).unwrap();

                    let mut others = fields(Some(VlanId(0)));
                    others[1] = Field::eth_dst(MacAddr::BROADCAST);
                    others[2] = Field::eth_src(MacAddr::BROADCAST);
                    let (mut tx, mut xid) = (vec![], 5);
                    let mut out = Encoder::new(&mut tx, version, &mut xid);
                    let template =
                        MessageTemplate::flow_mod(&out, &flow_mod(&others, PortNo(1))).unwrap();
                    let values = TemplateValues {
                        buffer_id: Some(77),
                        in_port: PortNo(3),
                        eth: &eth(),
                        vlan,
                        out_port: port,
                    };
                    assert_eq!(template.encode(&mut out, &values), Ok(5));
                    assert_eq!(tx, expected, "{version}, {n} fields");
                }
            }
        }
    }

    #[test]
    fn a_patched_packet_out_equals_the_one_that_is_encoded_anew() {
        for version in (1..=6).map(Version) {
            let actions = [Action::output(PortNo::FLOOD)];
            let (in_port, frame) = (PortNo(4), &b"frame"[..]);
            let packet_out = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame };
            let (mut expected, mut xid) = (vec![], 5);
            Encoder::new(&mut expected, version, &mut xid).packet_out(&packet_out).unwrap();
            let (mut tx, mut xid) = (vec![], 5);
            let mut out = Encoder::new(&mut tx, version, &mut xid);
            let other = PacketOutRef { in_port: PortNo(1), ..packet_out };
            let template = MessageTemplate::packet_out(&out, &other).unwrap();
            let values = TemplateValues {
                buffer_id: None,
                in_port,
                eth: &eth(),
                vlan: None,
                out_port: PortNo::FLOOD,
            };
            template.encode_with_frame(&mut out, &values, frame).unwrap();
            assert_eq!(tx, expected, "{version}");
        }
    }

    #[test]
    fn nothing_is_written_for_a_port_that_1_0_has_no_number_for() {
        let (mut tx, mut xid) = (vec![], 5);
        let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
        let actions = [Action::output(PortNo(1))];
        let flow_mod =
            FlowMod { instructions: vec![Instruction::apply(actions)], ..FlowMod::default() };
        let template = MessageTemplate::flow_mod(&out, &flow_mod).unwrap();
        let values = TemplateValues {
            buffer_id: None,
            in_port: PortNo(1),
            eth: &eth(),
            vlan: None,
            out_port: PortNo(0x1_0000),
        };
        assert_eq!(template.encode(&mut out, &values).unwrap_err().what, "port");
        assert!(tx.is_empty());
    }
}
