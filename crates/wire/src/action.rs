//! What is done with a packet. §7.2.5.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::field::{VID_PRESENT, lacks};
use crate::{Error, Field, FieldId, Inexpressible, MacAddr, Out, PortNo, Result, Version, Why};

/// One action, of any version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends the packet out of a port.
    Output {
        /// Where to.
        port: PortNo,
        /// Octets to send if it is the controller; [`Action::WHOLE`] for all.
        max_len: u16,
    },
    /// Sends the packet out of a port through one of its queues. `ENQUEUE` of 1.0.
    Enqueue {
        /// Where to.
        port: PortNo,
        /// Through which queue.
        queue_id: u32,
    },
    /// Hands the packet to a group.
    Group(u32),
    /// Chooses the queue for later outputs.
    SetQueue(u32),
    /// Rewrites a field. The mask is not used before 1.5.
    SetField(Field),
    /// Pushes a VLAN tag of this ethertype.
    PushVlan(u16),
    /// Takes the outermost VLAN tag off.
    PopVlan,
    /// An action that is not modelled, kept whole: type and body.
    Other(u16, Vec<u8>),
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    kind: U16,
    len: U16,
}

/// Type, length, and one number of 16 bits.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Short {
    head: Head,
    value: U16,
    more: U16,
}

/// Type, length, and one number of 32 bits.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Word {
    head: Head,
    value: U32,
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Output13 {
    head: Head,
    port: U32,
    max_len: U16,
    pad: [u8; 6],
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Enqueue10 {
    head: Head,
    port: U16,
    pad: [u8; 6],
    queue_id: U32,
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Addr10 {
    head: Head,
    addr: MacAddr,
    pad: [u8; 6],
}

/// Types of 1.0. OpenFlow 1.0.0 §5.2.4.
mod v10 {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const SET_VLAN_VID: u16 = 1;
    pub(super) const SET_VLAN_PCP: u16 = 2;
    pub(super) const STRIP_VLAN: u16 = 3;
    pub(super) const SET_DL_SRC: u16 = 4;
    pub(super) const SET_DL_DST: u16 = 5;
    pub(super) const SET_NW_SRC: u16 = 6;
    pub(super) const SET_NW_DST: u16 = 7;
    pub(super) const SET_NW_TOS: u16 = 8;
    pub(super) const SET_TP_SRC: u16 = 9;
    pub(super) const SET_TP_DST: u16 = 10;
    pub(super) const ENQUEUE: u16 = 11;
}

/// Types of 1.2 and later. §7.2.5.
mod v13 {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const PUSH_VLAN: u16 = 17;
    pub(super) const POP_VLAN: u16 = 18;
    pub(super) const SET_QUEUE: u16 = 21;
    pub(super) const GROUP: u16 = 22;
    pub(super) const SET_FIELD: u16 = 25;
}

impl Action {
    /// `OFPCML_NO_BUFFER`: the whole packet, and nothing kept in the switch.
    pub const WHOLE: u16 = 0xffff;

    /// Sends the packet out of `port`, whole where that is the controller.
    #[inline]
    pub const fn output(port: PortNo) -> Self {
        Self::Output { port, max_len: Self::WHOLE }
    }

    #[inline]
    fn emit(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        if out.version() == Version::V1_0 { self.emit_10(out) } else { self.emit_13(out) }
    }

    #[inline]
    fn emit_10(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        let version = out.version();
        let no = |what| Err(Inexpressible { what, version, needs: Some(Version::V1_1) });
        match *self {
            Self::Output { port, max_len } => {
                out.put(&short(v10::OUTPUT, port.to_u16()?, max_len));
            }
            Self::Enqueue { port, queue_id } => out.put(&Enqueue10 {
                head: head(v10::ENQUEUE, 16),
                port: port.to_u16()?.into(),
                pad: [0; 6],
                queue_id: queue_id.into(),
            }),
            Self::SetField(field) => return set_field_10(field, out),
            Self::PopVlan => out.put(&short(v10::STRIP_VLAN, 0, 0)),
            Self::Group(_) => return no("group"),
            Self::SetQueue(_) => return no("set_queue"),
            Self::PushVlan(_) => return no("push_vlan"),
            // What another version means by these numbers is something else here.
            Self::Other(0..=v10::ENQUEUE, _) => return no("action of another version"),
            Self::Other(kind, ref body) => other(kind, body, out)?,
        }
        Ok(())
    }

    #[inline]
    fn emit_13(&self, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        match *self {
            Self::Output { port, max_len } => out.put(&Output13 {
                head: head(v13::OUTPUT, 16),
                port: port.0.into(),
                max_len: max_len.into(),
                pad: [0; 6],
            }),
            Self::Enqueue { port, queue_id } => {
                out.put(&Word { head: head(v13::SET_QUEUE, 8), value: queue_id.into() });
                return Self::output(port).emit_13(out);
            }
            Self::Group(id) => out.put(&Word { head: head(v13::GROUP, 8), value: id.into() }),
            Self::SetQueue(id) => {
                out.put(&Word { head: head(v13::SET_QUEUE, 8), value: id.into() });
            }
            Self::SetField(field) => {
                let start = out.len();
                out.put(&head(v13::SET_FIELD, 0));
                field.emit_oxm(out);
                out.pad_to_8(start);
                out.patch_len(start, 2)?;
            }
            Self::PushVlan(ethertype) => out.put(&short(v13::PUSH_VLAN, ethertype, 0)),
            Self::PopVlan => out.put(&short(v13::POP_VLAN, 0, 0)),
            Self::Other(kind, ref body) => other(kind, body, out)?,
        }
        Ok(())
    }

    fn parse_10(kind: u16, octets: &[u8]) -> Option<Self> {
        let short = || Short::ref_from_bytes(octets).ok();
        let word = || Word::ref_from_bytes(octets).ok();
        let addr = || Addr10::ref_from_bytes(octets).ok();
        let number = |id, len, value: u32| {
            Some(Self::SetField(Field { id, len, value: value.into(), mask: None }))
        };
        let octet = |id, shift| number(id, 1, u32::from(short()?.value.get() >> 8 >> shift));
        match kind {
            v10::OUTPUT => short().map(|a| Self::Output {
                port: PortNo::from_u16(a.value.get()),
                max_len: a.more.get(),
            }),
            v10::SET_VLAN_VID => {
                let vid = short()?.value.get() & 0x0fff;
                number(FieldId::VLAN_VID, 2, (vid | VID_PRESENT).into())
            }
            v10::SET_VLAN_PCP => octet(FieldId::VLAN_PCP, 0),
            v10::STRIP_VLAN => short().map(|_| Self::PopVlan),
            v10::SET_DL_SRC => Some(Self::SetField(Field::eth_src(addr()?.addr))),
            v10::SET_DL_DST => Some(Self::SetField(Field::eth_dst(addr()?.addr))),
            v10::SET_NW_SRC => number(FieldId::IPV4_SRC, 4, word()?.value.get()),
            v10::SET_NW_DST => number(FieldId::IPV4_DST, 4, word()?.value.get()),
            v10::SET_NW_TOS => octet(FieldId::IP_DSCP, 2),
            v10::SET_TP_SRC => number(FieldId::TCP_SRC, 2, short()?.value.get().into()),
            v10::SET_TP_DST => number(FieldId::TCP_DST, 2, short()?.value.get().into()),
            v10::ENQUEUE => Enqueue10::ref_from_bytes(octets).ok().map(|a| Self::Enqueue {
                port: PortNo::from_u16(a.port.get()),
                queue_id: a.queue_id.get(),
            }),
            _ => octets.get(4..).map(|body| Self::Other(kind, body.to_vec())),
        }
    }

    fn parse_13(kind: u16, octets: &[u8]) -> Option<Self> {
        let word = || Word::ref_from_bytes(octets).ok().map(|w| w.value.get());
        match kind {
            v13::OUTPUT => Output13::ref_from_bytes(octets)
                .ok()
                .map(|a| Self::Output { port: PortNo(a.port.get()), max_len: a.max_len.get() }),
            v13::GROUP => word().map(Self::Group),
            v13::SET_QUEUE => word().map(Self::SetQueue),
            v13::PUSH_VLAN => {
                Short::ref_from_bytes(octets).ok().map(|a| Self::PushVlan(a.value.get()))
            }
            v13::POP_VLAN => Short::ref_from_bytes(octets).ok().map(|_| Self::PopVlan),
            v13::SET_FIELD => {
                let (field, pad) = Field::parse_oxm(octets.get(4..)?, 0).ok()?;
                (pad.len() < 8).then_some(Self::SetField(field))
            }
            _ => octets.get(4..).map(|body| Self::Other(kind, body.to_vec())),
        }
    }
}

/// Writes a list of actions.
///
/// # Errors
/// Names the first that the version cannot say.
#[inline]
pub(crate) fn emit(actions: &[Action], out: &mut Out<'_>) -> Result<(), Inexpressible> {
    actions.iter().try_for_each(|action| action.emit(out))
}

/// Reads the list of actions in `octets`, which starts `at` octets into a message.
///
/// # Errors
/// `Short` if one is cut off, `Length` if its length is no positive multiple of eight or not what its type has.
pub(crate) fn parse(version: Version, octets: &[u8], at: u16) -> Result<Vec<Action>> {
    let (mut rest, mut at, mut actions) = (octets, at, Vec::new());
    while !rest.is_empty() {
        let (head, _) =
            Head::ref_from_prefix(rest).map_err(|_| Error::new("action", at, Why::Short))?;
        let bad_len = Error::new("action length", at.saturating_add(2), Why::Length);
        let cut_off = Error::new("action", at, Why::Short);
        let len = head.len.get();
        if len == 0 || len % 8 != 0 {
            return Err(bad_len);
        }
        let (one, after) = rest.split_at_checked(usize::from(len)).ok_or(cut_off)?;
        let kind = head.kind.get();
        let action = match version {
            Version::V1_0 => Action::parse_10(kind, one),
            _ => Action::parse_13(kind, one),
        };
        actions.push(action.ok_or(bad_len)?);
        (rest, at) = (after, at.saturating_add(len));
    }
    Ok(actions)
}

#[inline]
fn head(kind: u16, len: u16) -> Head {
    Head { kind: kind.into(), len: len.into() }
}

#[inline]
fn short(kind: u16, value: u16, more: u16) -> Short {
    Short { head: head(kind, 8), value: value.into(), more: more.into() }
}

fn other(kind: u16, body: &[u8], out: &mut Out<'_>) -> Result<(), Inexpressible> {
    let start = out.len();
    out.put(&head(kind, 0));
    out.put(body);
    out.pad_to_8(start);
    out.patch_len(start, 2)
}

/// Writes a field as the action of its own that 1.0 has for it.
#[expect(clippy::cast_possible_truncation, reason = "a field's value has the width of its row")]
fn set_field_10(field: Field, out: &mut Out<'_>) -> Result<(), Inexpressible> {
    let value = field.value;
    let addr =
        |kind| Addr10 { head: head(kind, 16), addr: MacAddr::from_u64(value as u64), pad: [0; 6] };
    let word = |kind| Word { head: head(kind, 8), value: (value as u32).into() };
    let half = |kind| short(kind, value as u16, 0);
    match field.id {
        FieldId::VLAN_VID => out.put(&short(v10::SET_VLAN_VID, value as u16 & 0x0fff, 0)),
        FieldId::VLAN_PCP => out.put(&short(v10::SET_VLAN_PCP, (value as u16) << 8, 0)),
        FieldId::ETH_SRC => out.put(&addr(v10::SET_DL_SRC)),
        FieldId::ETH_DST => out.put(&addr(v10::SET_DL_DST)),
        FieldId::IPV4_SRC => out.put(&word(v10::SET_NW_SRC)),
        FieldId::IPV4_DST => out.put(&word(v10::SET_NW_DST)),
        FieldId::IP_DSCP => out.put(&short(v10::SET_NW_TOS, (value as u16) << 10, 0)),
        FieldId::TCP_SRC | FieldId::UDP_SRC => out.put(&half(v10::SET_TP_SRC)),
        FieldId::TCP_DST | FieldId::UDP_DST => out.put(&half(v10::SET_TP_DST)),
        id => return Err(lacks(id, Version::V1_0)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(version: Version, actions: &[Action]) -> Vec<Action> {
        let (mut tx, mut xid) = (vec![], 1);
        emit(actions, &mut Out::new(&mut tx, version, &mut xid)).unwrap();
        assert_eq!(tx.len() % 8, 0);
        parse(version, &tx, 0).unwrap()
    }

    #[test]
    fn actions_come_back_as_written() {
        let both = [
            Action::Output { port: PortNo::CONTROLLER, max_len: 128 },
            Action::SetField(Field::eth_dst(MacAddr([1, 2, 3, 4, 5, 6]))),
            Action::SetField(Field::vlan(crate::VlanId(7))),
            Action::SetField(Field::ipv4_src([10, 0, 0, 1].into())),
            Action::PopVlan,
            Action::Other(0xfffe, vec![1, 2, 3, 4]),
        ];
        assert_eq!(round(Version::V1_0, &both), both);
        assert_eq!(round(Version::V1_3, &both), both);
        let new = [Action::Group(7), Action::SetQueue(3), Action::PushVlan(0x8100)];
        assert_eq!(round(Version::V1_3, &new), new);
        let old = [Action::Enqueue { port: PortNo(4), queue_id: 9 }];
        assert_eq!(round(Version::V1_0, &old), old);
    }

    #[test]
    fn enqueue_is_said_in_two_words_after_1_0() {
        let enqueue = [Action::Enqueue { port: PortNo(4), queue_id: 9 }];
        let said = [Action::SetQueue(9), Action::output(PortNo(4))];
        assert_eq!(round(Version::V1_3, &enqueue), said);
    }

    #[test]
    fn a_length_that_leads_nowhere_is_refused() {
        for len in [0, 4, 7, 12, 255] {
            assert!(parse(Version::V1_3, &[0, 0, 0, len, 0, 0, 0, 1], 0).is_err(), "{len}");
        }
    }
}
