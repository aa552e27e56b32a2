//! Instructions of a flow entry. §7.2.4; OpenFlow 1.5.1 §7.2.5.

use super::action::Action;
use super::codec::versions::{V1_1, V1_3, V1_4, V1_5};
use super::codec::{
    Choice, Codec, Encoding, ListItem, Padding, encode_tlv, extended_type, parse_tlv,
};
use super::oxs::Stats;
use super::reader::Reader;
use super::rows::{choice, flags};
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, Result, Version};

flags! {
    /// `OFPSTF_*`: when a [`StatTrigger`](Instruction::StatTrigger) fires. OpenFlow 1.5.1 §7.2.5.
    pub struct StatTriggerFlags(u32);
    PERIODIC = 1, V1_5, "Fire at every multiple of the thresholds.";
    ONLY_FIRST = 2, V1_5, "Fire only the first time a threshold is exceeded.";
}

choice! {
    /// An instruction of a flow entry.
    ///
    /// OpenFlow 1.0 has a list of actions instead; it is read as [`ApplyActions`](Self::ApplyActions).
    pub enum Instruction: "instruction" {
        /// Continues processing in a later table.
        GotoTable "goto_table" {
            /// Next table.
            table_id: u8,
        } = { V1_1.. => 1 [table_id, pad 3,] };
        /// Writes metadata bits, which later tables can match.
        WriteMetadata "write_metadata" {
            /// Value.
            metadata: u64,
            /// Bits to write.
            metadata_mask: u64,
        } = { V1_1.. => 2 [pad 4, metadata, metadata_mask,] };
        /// Merges actions into the action set.
        WriteActions "write_actions" {
            /// Actions to merge.
            actions: Vec<Action>,
        } = { V1_1.. => 3 [pad 4, actions,] };
        /// Applies actions immediately.
        ApplyActions "apply_actions" {
            /// Actions, in order.
            actions: Vec<Action>,
        } = { V1_1.. => 4 [pad 4, actions,] };
        /// Clears the action set.
        ClearActions "clear_actions" = { V1_1.. => 5 [pad 4,] };
        /// Applies a meter to the packet. In 1.5 metering is [an action](Action::Meter).
        Meter "meter" {
            /// Meter number.
            meter_id: u32,
        } = { V1_3..=V1_4 => 6 [meter_id,] };
        /// Sends flow statistics to the controller when a counter exceeds a threshold.
        StatTrigger "stat_trigger" {
            /// When it fires.
            flags: StatTriggerFlags,
            /// Thresholds.
            thresholds: Stats,
        } = { V1_5.. => 7 [flags, thresholds,] };
        /// Experimenter instruction.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined data, including padding.
            data: Vec<u8>,
        } = { V1_1.. => 0xffff [experimenter, data,] };
    }
}

impl Codec for Instruction {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        parse_tlv(r, Padding::Inside, ErrorContext::Instruction, extended_type)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        encode_tlv(self, out, Padding::Inside)
    }
}

impl ListItem for Instruction {
    /// Encodes metering as an instruction in 1.3 and 1.4, and as the first applied action in 1.5.
    fn encode_list(list: &[Self], out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let others = match out.version() {
            Version::V1_5 => with_meter_as_action(list),
            Version::V1_3 | Version::V1_4 => with_meter_as_instruction(list),
            _ => None,
        };
        let list = others.as_deref().unwrap_or(list);
        list.iter().try_for_each(|instruction| instruction.encode(out))
    }
}

/// The list with each [`Instruction::Meter`] turned into an applied action; `None` if there is none.
fn with_meter_as_action(list: &[Instruction]) -> Option<Vec<Instruction>> {
    let (mut others, mut applied) = (Vec::new(), Vec::new());
    for instruction in list {
        match instruction {
            Instruction::Meter { meter_id } => applied.push(Action::Meter { meter_id: *meter_id }),
            other => others.push(other.clone()),
        }
    }
    if applied.is_empty() {
        return None;
    }
    let existing = others.iter_mut().find_map(|instruction| match instruction {
        Instruction::ApplyActions { actions } => Some(actions),
        _ => None,
    });
    match existing {
        Some(actions) => {
            applied.append(actions);
            *actions = applied;
        }
        None => others.insert(0, Instruction::ApplyActions { actions: applied }),
    }
    Some(others)
}

/// The list with a leading applied [`Action::Meter`] turned into an instruction; `None` if there is none, or if a
/// meter instruction is present as well.
fn with_meter_as_instruction(list: &[Instruction]) -> Option<Vec<Instruction>> {
    let leading_meter = |instruction: &Instruction| match instruction {
        Instruction::ApplyActions { actions } => match actions.split_first() {
            Some((&Action::Meter { meter_id }, rest)) => Some((meter_id, rest.to_vec())),
            _ => None,
        },
        _ => None,
    };
    list.iter().find_map(leading_meter)?;
    if list.iter().any(|it| matches!(it, Instruction::Meter { .. })) {
        return None;
    }
    let others = list.iter().flat_map(|instruction| match leading_meter(instruction) {
        None => vec![instruction.clone()],
        Some((meter_id, rest)) if rest.is_empty() => vec![Instruction::Meter { meter_id }],
        Some((meter_id, actions)) => {
            vec![Instruction::Meter { meter_id }, Instruction::ApplyActions { actions }]
        }
    });
    Some(others.collect())
}

impl Instruction {
    /// Applies `actions` immediately.
    pub fn apply(actions: impl Into<Vec<Action>>) -> Self {
        Self::ApplyActions { actions: actions.into() }
    }
}

/// Instructions as the plain list of actions that flow entries of OpenFlow 1.0 have: one
/// [`Instruction::ApplyActions`], or nothing if the list is empty.
pub(crate) struct PlainActions;

impl Encoding<Vec<Instruction>> for PlainActions {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<Instruction>> {
        let actions = Vec::parse(r)?;
        if actions.is_empty() {
            return Ok(vec![]);
        }
        Ok(vec![Instruction::ApplyActions { actions }])
    }

    fn encode(value: &Vec<Instruction>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.iter().try_for_each(|instruction| match instruction {
            Instruction::ApplyActions { actions } => actions.encode(out),
            other => {
                // Messages of Nicira have a plain list up to 1.2.
                other.code(out.version())?;
                let first = out.version() == Version::V1_0;
                let needs = if first { Version::V1_1 } else { Version::V1_3 };
                out.needs(needs, Instruction::TYPE_NAME)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field::{Field, FieldId};
    use crate::{ParseError, PortNo};

    fn encoded(list: &[Instruction], version: Version) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        match version {
            Version::V1_0 => PlainActions::encode(&list.to_vec(), &mut out)?,
            _ => list.to_vec().encode(&mut out)?,
        }
        Ok(tx)
    }

    fn parse(bytes: &[u8], version: Version) -> Result<Vec<Instruction>, ParseError> {
        let mut r = Reader::new(version, bytes, 0);
        if version == Version::V1_0 { PlainActions::parse(&mut r) } else { Vec::parse(&mut r) }
    }

    fn roundtrip(list: &[Instruction], version: Version) -> Vec<Instruction> {
        parse(&encoded(list, version).unwrap(), version).unwrap()
    }

    fn apply(actions: &[Action]) -> Instruction {
        Instruction::ApplyActions { actions: actions.to_vec() }
    }

    fn encode_error(list: &[Instruction], version: Version) -> String {
        encoded(list, version).unwrap_err().to_string()
    }

    const OUT: Action = Action::output(PortNo(7));

    #[test]
    fn version_1_0_encodes_apply_actions_as_a_plain_list() {
        let list = [apply(&[OUT])];
        assert_eq!(encoded(&list, Version::V1_0).unwrap(), [0, 0, 0, 8, 0, 7, 0xff, 0xff]);
        assert_eq!(roundtrip(&list, Version::V1_0), list);
        assert_eq!(roundtrip(&[], Version::V1_0), []);
    }

    #[test]
    fn a_plain_list_refuses_other_instructions_in_1_1_and_1_2() {
        let list = vec![apply(&[OUT]), Instruction::GotoTable { table_id: 1 }];
        let (mut tx, mut xid) = (vec![], 1);
        let result =
            PlainActions::encode(&list, &mut Encoder::new(&mut tx, Version::V1_2, &mut xid));
        assert_eq!(
            result.unwrap_err().to_string(),
            "instruction requires OpenFlow 1.3; this session speaks 1.2"
        );
    }

    #[test]
    fn an_instruction_that_the_version_lacks_is_named_in_the_error() {
        let goto = [apply(&[OUT]), Instruction::GotoTable { table_id: 1 }];
        assert_eq!(
            encode_error(&goto, Version::V1_0),
            "goto_table requires OpenFlow 1.1; this session speaks 1.0"
        );
        let write = [Instruction::WriteActions { actions: vec![OUT] }];
        assert_eq!(
            encode_error(&write, Version::V1_0),
            "write_actions requires OpenFlow 1.1; this session speaks 1.0"
        );
        let other = [Instruction::Other { code: 99, body: vec![0; 4] }];
        assert_eq!(
            encode_error(&other, Version::V1_0),
            "instruction requires OpenFlow 1.1; this session speaks 1.0"
        );
        assert_eq!(
            encode_error(&[Instruction::Meter { meter_id: 1 }], Version::V1_2),
            "meter requires OpenFlow 1.3; this session speaks 1.2"
        );
    }

    #[test]
    fn metering_is_an_instruction_until_1_4_and_the_first_action_in_1_5() {
        let meter = Instruction::Meter { meter_id: 5 };
        let action = Action::Meter { meter_id: 5 };
        let goto = Instruction::GotoTable { table_id: 2 };
        let old = [meter.clone(), apply(&[OUT]), goto.clone()];
        let new = [apply(&[action.clone(), OUT]), goto];
        assert_eq!(roundtrip(&old, Version::V1_5), new);
        assert_eq!(roundtrip(&new, Version::V1_3), old);
        let (meter, metered) = ([meter], [apply(core::slice::from_ref(&action))]);
        assert_eq!(roundtrip(&meter, Version::V1_5), metered);
        assert_eq!(roundtrip(&metered, Version::V1_4), meter);
        let late = [apply(&[OUT, action])];
        assert_eq!(
            encode_error(&late, Version::V1_4),
            "meter requires OpenFlow 1.5; this session speaks 1.4"
        );
    }

    #[test]
    fn actions_are_encoded_as_their_equivalents_in_other_versions() {
        let in_version = |action: &Action, version| match roundtrip(
            &[apply(core::slice::from_ref(action))],
            version,
        )
        .as_slice()
        {
            [Instruction::ApplyActions { actions }] => actions.clone(),
            other => panic!("{other:?}"),
        };
        let enqueue = Action::Enqueue { port: PortNo(7), queue_id: 3 };
        assert_eq!(in_version(&enqueue, Version::V1_0), core::slice::from_ref(&enqueue));
        assert_eq!(in_version(&enqueue, Version::V1_3), [Action::SetQueue { queue_id: 3 }, OUT]);
        let (src, dst) = (FieldId::ETH_SRC.into(), FieldId::ETH_DST.into());
        let copy = Action::CopyField { n_bits: 8, src_offset: 1, dst_offset: 2, src, dst };
        let moved = Action::RegMove { n_bits: 8, src_ofs: 1, dst_ofs: 2, src, dst };
        assert_eq!(in_version(&copy, Version::V1_4), core::slice::from_ref(&copy));
        assert_eq!(in_version(&copy, Version::V1_2), core::slice::from_ref(&moved));
        assert_eq!(in_version(&moved, Version::V1_5), [copy]);
        let bits = super::super::bit_range::BitRange::new(8, 8).unwrap();
        let load = Action::RegLoad { bits, dst, value: 0x12 };
        let set = Field::new(FieldId::ETH_DST, 0x1200).masked(0xff00);
        assert_eq!(in_version(&load, Version::V1_5), [Action::SetField { field: set.into() }]);
    }

    #[test]
    fn a_field_that_the_version_cannot_set_is_named_in_the_error() {
        let set = |field: Field| [apply(&[Action::SetField { field: field.into() }])];
        let ipv6 = set(Field::new(FieldId::IPV6_SRC, 1));
        assert_eq!(
            encode_error(&ipv6, Version::V1_0),
            "ipv6_src requires OpenFlow 1.2; this session speaks 1.0"
        );
        let ecn = set(Field::new(FieldId::IP_ECN, 1));
        assert_eq!(
            encode_error(&ecn, Version::V1_0),
            "ip_ecn requires OpenFlow 1.1; this session speaks 1.0"
        );
        let masked = set(Field::new(FieldId::IPV4_SRC, 0x0a00_0000).masked(0xff00_0000));
        assert_eq!(
            encode_error(&masked, Version::V1_1),
            "mask of set_field requires OpenFlow 1.5; this session speaks 1.1"
        );
        assert_eq!(
            encode_error(&masked, Version::V1_4),
            "mask of set_field requires OpenFlow 1.5; this session speaks 1.4"
        );
        let udp = set(Field::new(FieldId::UDP_DST, 53));
        let tcp = set(Field::new(FieldId::TCP_DST, 53));
        assert_eq!(roundtrip(&udp, Version::V1_0), tcp);
    }
}
