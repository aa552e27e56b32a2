//! Messages drawn once and stamped many times, for the way of a `PACKET_IN`.

use sluice_openflow::{
    Action, EncodeError, Encoder, EthHeader, FieldId, FlowMod, HEADER_LEN, Instruction, NO_BUFFER,
    PacketOut, PortNo, Version, VlanId,
};

use crate::install_flows::{Rule10, Rule13, Ruled};
use crate::install_paths::{PairRule10, PairRule13, Paired};

/// Bytes of a `FLOW_MOD` of 1.0 with one action: the commonest of the shorter drawings.
pub(crate) const LEN_SHORT: usize = 80;

/// Bytes a drawing can have: a `FLOW_MOD` of 1.1 with one action, whose match has 88 bytes.
pub(crate) const LEN_MAX: usize = 160;

/// `OFPVID_PRESENT`: the bit of `vlan_vid` that says that there is a tag. §7.2.3.7.
const TAGGED: u16 = 0x1000;

/// Room behind a drawing for a value that has no place in it: it is written there and cut off.
const SCRAP: usize = 8;

/// A `FLOW_MOD` or `PACKET_OUT` drawn once, in which a few values are filled in again and again.
///
/// Stamping is a copy and some stores, whatever the version and however many fields the rule has.
/// `lab/instructions` compares it with writing the message anew.
#[derive(Debug, Clone)]
pub struct Stencil {
    bytes: [u8; LEN_MAX + SCRAP],
    len: u8,
    version: Version,
    buffer_id: u8,
    in_port: u8,
    eth_dst: u8,
    eth_src: u8,
    vlan: u8,
    out_port: u8,
    /// Whether all values have the places that they have in `Rule10` or `Rule13`.
    is_ruled: bool,
    /// The same for `PairRule10` or `PairRule13`.
    is_paired: bool,
}

/// What is filled in. What the drawing has no place for is left out.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    /// The slot of the frame, if the switch keeps it.
    pub buffer_id: Option<u32>,
    /// Where the frame came in.
    pub in_port: PortNo,
    /// Destination and source, in place: they are copied from frame to message as they are.
    pub eth: &'a EthHeader,
    /// VLAN, `None` without a tag.
    pub vlan: Option<VlanId>,
    /// Where it goes.
    pub out_port: PortNo,
}

impl Stencil {
    /// Draws `f` for switches of `out`'s version. Buffer, ingress port, addresses, VLAN and the port of the first
    /// action are places to fill in, as far as `f` has them; their values here do not matter.
    ///
    /// # Errors
    /// Names what the version cannot say, or that the message is longer than a stencil.
    pub fn flow_mod(out: &Encoder<'_>, f: &FlowMod) -> Result<Self, EncodeError> {
        Self::draw_flow_mod(out.version(), f)
    }

    /// Draws `f` in place of what was drawn before, in the same version.
    ///
    /// # Errors
    /// As [`flow_mod`](Self::flow_mod); the old drawing stays.
    pub fn redraw(&mut self, f: &FlowMod) -> Result<(), EncodeError> {
        *self = Self::draw_flow_mod(self.version, f)?;
        Ok(())
    }

    fn draw_flow_mod(version: Version, f: &FlowMod) -> Result<Self, EncodeError> {
        let (mut tx, mut xid) = (Vec::new(), 0);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f)?;
        let mut drawn = Self::draw(version, &tx)?;
        let has_output = match f.instructions.first() {
            Some(Instruction::ApplyActions { actions }) => {
                matches!(actions.first(), Some(Action::Output { .. }))
            }
            _ => false,
        };
        let actions_at = match version {
            Version::V1_0 => {
                drawn.buffer_id = 64;
                drawn.place_fixed(f, [12, 14, 20, 26]);
                72
            }
            Version::V1_1 => {
                drawn.buffer_id = 32;
                drawn.place_fixed(f, [52, 60, 72, 84]);
                144
            }
            _ => {
                drawn.buffer_id = 32;
                drawn.place_oxm(f) + 8
            }
        };
        if has_output {
            drawn.out_port = to_place(actions_at + 4);
        }
        drawn.is_ruled = drawn.is_laid_as::<Rule10>(Rule10::VERSION, Rule10::PLACES)
            || drawn.is_laid_as::<Rule13>(Rule13::VERSION, Rule13::PLACES);
        drawn.is_paired = drawn.is_laid_as::<PairRule10>(PairRule10::VERSION, PairRule10::PLACES)
            || drawn.is_laid_as::<PairRule13>(PairRule13::VERSION, PairRule13::PLACES);
        Ok(drawn)
    }

    /// Draws `p`, of which the frame is left out: it comes with each stamp. Buffer, ingress port and the port of
    /// the first action are places to fill in.
    ///
    /// # Errors
    /// Names what the version cannot say, or that the message is longer than a stencil.
    pub fn packet_out(out: &Encoder<'_>, p: &PacketOut<'_>) -> Result<Self, EncodeError> {
        let (mut tx, mut xid, version) = (Vec::new(), 0, out.version());
        Encoder::new(&mut tx, version, &mut xid).packet_out(&PacketOut { frame: &[], ..*p })?;
        let mut drawn = Self::draw(version, &tx)?;
        drawn.buffer_id = 8;
        let actions_at = match version {
            Version::V1_0 => {
                drawn.in_port = 12;
                16
            }
            Version::V1_5 => {
                // Fixed part, head of the match, head of the one field; 16 bytes of match in all.
                drawn.in_port = 16 + 4 + 4;
                32
            }
            _ => {
                drawn.in_port = 12;
                24
            }
        };
        if let Some(Action::Output { .. }) = p.actions.first() {
            drawn.out_port = to_place(actions_at + 4);
        }
        Ok(drawn)
    }

    fn draw(version: Version, bytes: &[u8]) -> Result<Self, EncodeError> {
        let too_long = EncodeError { what: "more than a stencil holds", version, needs: None };
        let nowhere = if bytes.len() <= LEN_SHORT { LEN_SHORT } else { LEN_MAX };
        let nowhere = to_place(nowhere);
        let mut drawn = Self {
            bytes: [0; LEN_MAX + SCRAP],
            len: u8::try_from(bytes.len()).map_err(|_| too_long)?,
            version,
            buffer_id: nowhere,
            in_port: nowhere,
            eth_dst: nowhere,
            eth_src: nowhere,
            vlan: nowhere,
            out_port: nowhere,
            is_ruled: false,
            is_paired: false,
        };
        let room = drawn.bytes.get_mut(..LEN_MAX).and_then(|room| room.get_mut(..bytes.len()));
        room.ok_or(too_long)?.copy_from_slice(bytes);
        Ok(drawn)
    }

    /// Whether the drawing is as long as `R`, and buffer, ingress port, source, destination, VLAN and output have these
    /// places in it.
    fn is_laid_as<R>(&self, version: Version, of_layout: [usize; 6]) -> bool {
        let Self { buffer_id, in_port, eth_src, eth_dst, vlan, out_port, .. } = *self;
        let places = [buffer_id, in_port, eth_src, eth_dst, vlan, out_port].map(usize::from);
        let len = usize::from(self.len);
        self.version == version && len == size_of::<R>() && places == of_layout
    }

    /// The drawing as a layout, if it is a rule that has this layout in `version`.
    #[inline]
    pub(crate) fn ruled<R: Ruled>(&self, version: Version) -> Option<&R> {
        let is_it = self.is_ruled && self.version == R::VERSION && version == R::VERSION;
        let (rule, _) = R::ref_from_prefix(&self.bytes).ok()?;
        is_it.then_some(rule)
    }

    /// The same for rules that match both addresses and the VLAN.
    #[inline]
    pub(crate) fn paired<R: Paired>(&self, version: Version) -> Option<&R> {
        let is_it = self.is_paired && self.version == R::VERSION && version == R::VERSION;
        let (rule, _) = R::ref_from_prefix(&self.bytes).ok()?;
        is_it.then_some(rule)
    }

    fn place(&mut self, id: FieldId, at: u8) {
        match id {
            FieldId::IN_PORT => self.in_port = at,
            FieldId::ETH_DST => self.eth_dst = at,
            FieldId::ETH_SRC => self.eth_src = at,
            FieldId::VLAN_VID => self.vlan = at,
            _ => {}
        }
    }

    /// Notes the places that a fixed match has for the ingress port, both addresses and the VLAN, as far as `f` has
    /// them.
    fn place_fixed(&mut self, f: &FlowMod, [in_port, eth_src, eth_dst, vlan]: [u8; 4]) {
        for field in f.matching.iter() {
            let at = match field.id {
                FieldId::IN_PORT => in_port,
                FieldId::ETH_SRC => eth_src,
                FieldId::ETH_DST => eth_dst,
                FieldId::VLAN_VID => vlan,
                _ => continue,
            };
            self.place(field.id, at);
        }
    }

    /// Finds the places of fields among the TLVs of a drawn `FLOW_MOD`; returns where the match ends.
    fn place_oxm(&mut self, f: &FlowMod) -> usize {
        const MATCH_AT: usize = 48;
        let mut at = MATCH_AT + 4;
        for field in f.matching.iter() {
            self.place(field.id, to_place(at + 4));
            at += 4 + usize::from(field.len) * if field.mask.is_some() { 2 } else { 1 };
        }
        at.next_multiple_of(8)
    }

    /// Fills the values in over a copy of the drawing, which is what `msg` begins with.
    #[inline]
    fn fill(&self, msg: &mut [u8], xid: u32, fill: &Fill<'_>) -> Result<(), EncodeError> {
        const XID_AT: u8 = 4;
        put(msg, XID_AT, &xid.to_be_bytes());
        put(msg, self.buffer_id, &fill.buffer_id.unwrap_or(NO_BUFFER).to_be_bytes());
        put(msg, self.eth_dst, &fill.eth.dst.0);
        put(msg, self.eth_src, &fill.eth.src.0);
        if self.version == Version::V1_0 {
            put(msg, self.in_port, &fill.in_port.to_u16()?.to_be_bytes());
            put(msg, self.out_port, &fill.out_port.to_u16()?.to_be_bytes());
            put(msg, self.vlan, &fill.vlan.map_or(0xffff, |vlan| vlan.0).to_be_bytes());
        } else {
            put(msg, self.in_port, &fill.in_port.0.to_be_bytes());
            put(msg, self.out_port, &fill.out_port.0.to_be_bytes());
            let vlan = match self.version {
                Version::V1_1 => fill.vlan.map_or(0xffff, |vlan| vlan.0),
                _ => fill.vlan.map_or(0, |vlan| TAGGED | vlan.0),
            };
            put(msg, self.vlan, &vlan.to_be_bytes());
        }
        Ok(())
    }
}

#[inline]
fn put<const N: usize>(msg: &mut [u8], at: u8, value: &[u8; N]) {
    let at = usize::from(at);
    if let Some(place) = msg.get_mut(at..at + N) {
        place.copy_from_slice(value);
    }
}

const _: () = assert!(HEADER_LEN == 8 && LEN_MAX + SCRAP < 256);

fn to_place(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

impl Stencil {
    /// Writes the message that is drawn, with the values of `fill`; returns its transaction id.
    ///
    /// # Errors
    /// A port that the version has no number for; nothing is written then.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn encode(&self, out: &mut Encoder<'_>, fill: &Fill<'_>) -> Result<u32, EncodeError> {
        // What is copied has a length that the compiler knows, and is cut afterwards. The values go over the copy:
        // a copy of what was written just before would wait for it.
        let (xid, start) = (out.take_xid(), out.len());
        let written = if usize::from(self.len) <= LEN_SHORT {
            let msg = out.append_chunk::<{ LEN_SHORT + SCRAP }>(&self.bytes);
            self.fill(msg, xid, fill)
        } else {
            let msg = out.append_chunk::<{ LEN_MAX + SCRAP }>(&self.bytes);
            self.fill(msg, xid, fill)
        };
        let len = if written.is_ok() { usize::from(self.len) } else { 0 };
        out.truncate(start + len);
        written.map(|()| xid)
    }

    /// The same for a `PACKET_OUT` that brings its frame along.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); and a frame of more than some 65 000 bytes.
    #[inline]
    pub fn encode_with_frame(
        &self,
        out: &mut Encoder<'_>,
        fill: &Fill<'_>,
        frame: &[u8],
    ) -> Result<u32, EncodeError> {
        let start = out.len();
        let xid = self.encode(out, fill)?;
        out.append_bytes(frame);
        let written = out.patch_message_len(start);
        if written.is_err() {
            out.truncate(start);
        }
        written.map(|()| xid)
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromBytes;

    use super::*;
    use sluice_openflow::{Field, MacAddr};

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

    /// A stamped message is, byte by byte, the one that is written anew.
    #[test]
    fn a_stamp_equals_the_message_it_stands_for() {
        for version in (1..=6).map(Version) {
            for (vlan, port) in [(None, PortNo(7)), (Some(VlanId(5)), PortNo::LOCAL)] {
                for n in 0..=5 {
                    let rule = |fields: &[Field], to| FlowMod {
                        cookie: 99,
                        idle_timeout: 60,
                        matching: fields[..n].iter().copied().collect(),
                        instructions: vec![Instruction::ApplyActions {
                            actions: vec![Action::output(to)],
                        }],
                        ..FlowMod::default()
                    };
                    let said = FlowMod { buffer_id: Some(77), ..rule(&fields(vlan), port) };
                    let (mut anew, mut xid) = (vec![], 5);
                    Encoder::new(&mut anew, version, &mut xid).flow_mod(&said).unwrap();

                    let mut blank = fields(Some(VlanId(0)));
                    blank[1] = Field::eth_dst(MacAddr::BROADCAST);
                    blank[2] = Field::eth_src(MacAddr::BROADCAST);
                    let drawn = rule(&blank, PortNo(1));
                    let (mut tx, mut xid) = (vec![], 5);
                    let mut out = Encoder::new(&mut tx, version, &mut xid);
                    let stencil = Stencil::flow_mod(&out, &drawn).unwrap();
                    let fill = Fill {
                        buffer_id: Some(77),
                        in_port: PortNo(3),
                        eth: &eth(),
                        vlan,
                        out_port: port,
                    };
                    assert_eq!(stencil.encode(&mut out, &fill), Ok(5));
                    assert_eq!(tx, anew, "{version} {n}");
                }
            }
        }
    }

    #[test]
    fn a_stamped_packet_out_brings_its_frame_along() {
        for version in (1..=6).map(Version) {
            let actions = [Action::output(PortNo::FLOOD)];
            let (in_port, frame) = (PortNo(4), &b"frame"[..]);
            let said = PacketOut { buffer_id: None, in_port, actions: &actions, frame };
            let (mut anew, mut xid) = (vec![], 5);
            Encoder::new(&mut anew, version, &mut xid).packet_out(&said).unwrap();
            let (mut tx, mut xid) = (vec![], 5);
            let mut out = Encoder::new(&mut tx, version, &mut xid);
            let drawn = PacketOut { in_port: PortNo(1), ..said };
            let stencil = Stencil::packet_out(&out, &drawn).unwrap();
            let fill =
                Fill { buffer_id: None, in_port, eth: &eth(), vlan: None, out_port: PortNo::FLOOD };
            stencil.encode_with_frame(&mut out, &fill, frame).unwrap();
            assert_eq!(tx, anew, "{version}");
        }
    }

    #[test]
    fn a_port_that_1_0_has_no_number_for_leaves_nothing_behind() {
        let (mut tx, mut xid) = (vec![], 5);
        let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
        let actions = [Action::output(PortNo(1))];
        let drawn =
            FlowMod { instructions: vec![Instruction::apply(actions)], ..FlowMod::default() };
        let stencil = Stencil::flow_mod(&out, &drawn).unwrap();
        let fill = Fill {
            buffer_id: None,
            in_port: PortNo(1),
            eth: &eth(),
            vlan: None,
            out_port: PortNo(0x1_0000),
        };
        assert_eq!(stencil.encode(&mut out, &fill).unwrap_err().what, "port number");
        assert!(tx.is_empty());
    }
}
