//! `TABLE_FEATURES`: what tables can do, told or asked for. §7.3.5.5.

use core::marker::PhantomData;

use super::action::Action;
use super::codec::versions::{V1_3, V1_4, V1_5};
use super::codec::{Choice, Codec, ListItem};
use super::instruction::Instruction;
use super::oxm::{FieldHeader, Oxm};
use super::reader::Reader;
use super::rows::{choice, codes, flags, record, tlv};
use super::table::TableConfig;
use super::value::{
    Entries, FixedString, Plain, Value, ValueError, code, list_from_value, list_to_value, of_code,
};
use crate::{EncodeError, Encoder, ParseErrorKind, Result, Version};

/// Which alternative of `T`, an action or an instruction, is meant; its values are not told. §7.3.5.5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementId<T> {
    /// Its type on the wire.
    pub kind: u16,
    /// What stands behind type and length: of an experimenter its identity and what it adds. Of others nothing, but some
    /// switches send zeros.
    pub data: Vec<u8>,
    whose: PhantomData<T>,
}

/// Which action is meant.
pub type ActionId = ElementId<Action>;

/// Which instruction is meant.
pub type InstructionId = ElementId<Instruction>;

impl<T> ElementId<T> {
    /// The alternative with the type `kind`.
    pub const fn new(kind: u16) -> Self {
        Self::with_data(kind, vec![])
    }

    /// The alternative with the type `kind` and what more it takes to name it.
    pub const fn with_data(kind: u16, data: Vec<u8>) -> Self {
        Self { kind, data, whose: PhantomData }
    }
}

impl<T: Choice> ListItem for ElementId<T> {}

impl<T: Choice> Codec for ElementId<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let start = r.at();
        let wrong = r.error_at(start, T::TYPE_NAME, ParseErrorKind::Length);
        let (kind, len) = (r.u16(T::TYPE_NAME)?, usize::from(r.u16(T::TYPE_NAME)?));
        let behind = len.checked_sub(4).ok_or(wrong)?;
        let data = r.sub(T::TYPE_NAME, behind).map_err(|_| wrong)?.rest().to_vec();
        Ok(Self::with_data(kind, data))
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let start = out.len();
        self.kind.encode(out)?;
        out.put(&[0u8; 2]);
        out.put(self.data.as_slice());
        out.patch_len(start, 2)
    }
}

/// Name or number; with data a map of that as `id`, and `data`.
impl<T: Choice> Plain for ElementId<T> {
    fn to_value(&self, version: Version) -> Value {
        let kind = Some(u64::from(self.kind));
        let row = T::ROWS.iter().find(|row| (row.code)(version) == kind);
        let id = of_code(row.map(|row| row.name), self.kind.into());
        if self.data.is_empty() {
            return id;
        }
        Value::Map(vec![("id".into(), id), ("data".into(), self.data.to_value(version))])
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let (id, data) = match value {
            Value::Map(_) => {
                let mut entries = Entries::of(value)?;
                let id = entries.take("id").ok_or_else(|| ValueError::new("has no `id`"))?;
                let data = entries.read("data", version)?.unwrap_or_default();
                entries.finish()?;
                (id, data)
            }
            id => (id, vec![]),
        };
        let rows = T::ROWS.iter().filter_map(|row| (row.code)(version).map(|n| (row.name, n)));
        let kind = code(id, rows)?;
        let kind =
            u16::try_from(kind).map_err(|_| ValueError::new(format!("{kind} is over 65535")))?;
        Ok(Self::with_data(kind, data))
    }
}

/// Numbers of tables, one byte each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableIds(pub Vec<u8>);

impl Codec for TableIds {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self(r.rest().to_vec()))
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.0.encode(out)
    }
}

impl Plain for TableIds {
    fn to_value(&self, version: Version) -> Value {
        list_to_value(&self.0, version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        list_from_value(value, version).map(Self)
    }
}

choice! {
    /// One thing that a table can do. §7.3.5.5.2.
    ///
    /// What ends in `_miss` is about the rule for what matches no other; without it, it is as for all rules.
    pub enum TableFeatureProp: "table feature" {
        /// Instructions.
        Instructions "instructions" {
            /// Which.
            instruction_ids: Vec<InstructionId>,
        } = { V1_3.. => 0 [instruction_ids,] };
        /// Instructions.
        InstructionsMiss "instructions_miss" {
            /// Which.
            instruction_ids: Vec<InstructionId>,
        } = { V1_3.. => 1 [instruction_ids,] };
        /// Tables to go to.
        NextTables "next_tables" {
            /// Which.
            next_table_ids: TableIds,
        } = { V1_3.. => 2 [next_table_ids,] };
        /// Tables to go to.
        NextTablesMiss "next_tables_miss" {
            /// Which.
            next_table_ids: TableIds,
        } = { V1_3.. => 3 [next_table_ids,] };
        /// Actions in `write_actions`.
        WriteActions "write_actions" {
            /// Which.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 4 [action_ids,] };
        /// Actions in `write_actions`.
        WriteActionsMiss "write_actions_miss" {
            /// Which.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 5 [action_ids,] };
        /// Actions in `apply_actions`.
        ApplyActions "apply_actions" {
            /// Which.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 6 [action_ids,] };
        /// Actions in `apply_actions`.
        ApplyActionsMiss "apply_actions_miss" {
            /// Which.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 7 [action_ids,] };
        /// Fields to match, and whether with masks.
        Match "match" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 8 [oxm_ids,] };
        /// Fields that may be left out.
        Wildcards "wildcards" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 10 [oxm_ids,] };
        /// Fields to set in `write_actions`.
        WriteSetfield "write_setfield" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 12 [oxm_ids,] };
        /// Fields to set in `write_actions`.
        WriteSetfieldMiss "write_setfield_miss" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 13 [oxm_ids,] };
        /// Fields to set in `apply_actions`.
        ApplySetfield "apply_setfield" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 14 [oxm_ids,] };
        /// Fields to set in `apply_actions`.
        ApplySetfieldMiss "apply_setfield_miss" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 15 [oxm_ids,] };
        /// Tables whose rules it takes over. OpenFlow 1.4.0 §7.3.5.5.2.
        TableSyncFrom "table_sync_from" {
            /// Which.
            table_ids: TableIds,
        } = { V1_4.. => 16 [table_ids,] };
        /// Fields to copy to in `write_actions`. OpenFlow 1.5.0 §7.3.5.18.2.
        WriteCopyfield "write_copyfield" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 18 [oxm_ids,] };
        /// Fields to copy to in `write_actions`. OpenFlow 1.5.0 §7.3.5.18.2.
        WriteCopyfieldMiss "write_copyfield_miss" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 19 [oxm_ids,] };
        /// Fields to copy to in `apply_actions`. OpenFlow 1.5.0 §7.3.5.18.2.
        ApplyCopyfield "apply_copyfield" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 20 [oxm_ids,] };
        /// Fields to copy to in `apply_actions`. OpenFlow 1.5.0 §7.3.5.18.2.
        ApplyCopyfieldMiss "apply_copyfield_miss" {
            /// Which.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 21 [oxm_ids,] };
        /// Types of packet. OpenFlow 1.5.0 §7.3.5.18.2.
        PacketTypes "packet_types" {
            /// Values of `packet_type`.
            oxm_values: Vec<Oxm>,
        } = { V1_5.. => 22 [oxm_values,] };
        /// An experimenter's own.
        Experimenter "experimenter" {
            /// Whose.
            experimenter: u32,
            /// Which of its.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_3.. => 0xfffe [experimenter, exp_type, data,] };
        /// An experimenter's own.
        ExperimenterMiss "experimenter_miss" {
            /// Whose.
            experimenter: u32,
            /// Which of its.
            exp_type: u32,
            /// The rest.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(TableFeatureProp, Outside, TableFeatures);

codes! {
    /// `OFPTFC_*`: what shall become of the tables. OpenFlow 1.5.0 §7.3.5.18.
    pub struct TableFeaturesCommand(u8);
    REPLACE = 0, V1_5, "These and no others; what every request means before 1.5.";
    MODIFY = 1, V1_5, "These can do something else.";
    ENABLE = 2, V1_5, "These are there.";
    DISABLE = 3, V1_5, "These are not there.";
}

flags! {
    /// `OFPTFF_*`: where a table may stand. OpenFlow 1.5.0 §7.3.5.18.
    pub struct TableFeatureFlags(u32);
    INGRESS_TABLE = 1, V1_5, "On the way in.";
    EGRESS_TABLE = 2, V1_5, "On the way out.";
    FIRST_EGRESS = 16, V1_5, "The first on the way out.";
}

record! {
    /// What one table can do. §7.3.5.5.1.
    #[derive(Default)]
    pub struct TableFeatures: "table_features" {
        /// Which.
        pub table_id: u8,
        /// In a request: what shall become of it.
        pub command: TableFeaturesCommand,
        /// Where it may stand.
        pub features: TableFeatureFlags,
        /// Its name.
        pub name: FixedString<32>,
        /// Bits of the metadata that it can match.
        pub metadata_match: u64,
        /// Bits of the metadata that rules may write.
        pub metadata_write: u64,
        /// How it may be set; `config` in 1.3.
        pub capabilities: TableConfig,
        /// Rules that it can hold.
        pub max_entries: u32,
        /// The rest of what it can do.
        pub properties: Vec<TableFeatureProp>,
    }
    V1_3..=V1_4 => [
        length, table_id, pad 5, name, metadata_match, metadata_write, capabilities, max_entries,
        properties,
    ]
    V1_5.. => [
        length, table_id, command, features, name, metadata_match, metadata_write, capabilities,
        max_entries, properties,
    ]
}

impl ListItem for TableFeatures {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorContext;
    use crate::model::Message;
    use crate::model::multipart::MultipartReply;
    use crate::model::vectors::written;
    use crate::model::{Multipart, MultipartFlags};
    use crate::{ErrorCode, ErrorType, ParseError, RawMessage};

    fn features(properties: Vec<TableFeatureProp>) -> Message {
        let tables = vec![TableFeatures { properties, ..TableFeatures::default() }];
        let body = MultipartReply::TableFeatures { tables };
        Message::MultipartReply(Multipart { flags: MultipartFlags::default(), body })
    }

    fn damaged(version: Version) -> ParseError {
        let id = ActionId::with_data(0xffff, vec![0, 0, 0x23, 0x20]);
        let message = features(vec![TableFeatureProp::WriteActions { action_ids: vec![id] }]);
        let mut bytes = written(&message, version, 7);
        bytes[87] = 9;
        RawMessage::new(&bytes).and_then(Message::parse).unwrap_err()
    }

    #[test]
    fn a_fault_deserves_what_the_version_has_for_it() {
        let (old, new) = (damaged(Version::V1_3), damaged(Version::V1_5));
        assert_eq!((old.what, old.at, old.part), ("action", 84, ErrorContext::TableFeatures));
        assert_eq!(old.code(), (ErrorType::TABLE_FEATURES_FAILED, ErrorCode(3)));
        assert_eq!(new.code(), (ErrorType::BAD_PROPERTY, ErrorCode(1)));
    }

    #[test]
    fn the_zeros_that_some_put_behind_an_id_are_kept() {
        let id = InstructionId::with_data(1, vec![0; 4]);
        let value = id.to_value(Version::V1_3);
        assert_eq!(value.get("id"), Some(&Value::text("goto_table")));
        assert_eq!(InstructionId::from_value(&value, Version::V1_3), Ok(id));
    }

    #[test]
    fn an_older_version_lacks_what_a_later_one_brought() {
        let (mut tx, mut xid) = (vec![], 1);
        let sync = features(vec![TableFeatureProp::TableSyncFrom { table_ids: TableIds(vec![1]) }]);
        let no = sync.encode(7, &mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap_err();
        assert_eq!(no.to_string(), "table_sync_from needs 1.4, this is 1.3");
        let no = sync.encode(7, &mut Encoder::new(&mut tx, Version::V1_2, &mut xid)).unwrap_err();
        assert_eq!(no.to_string(), "table_features needs 1.3, this is 1.2");
    }
}
