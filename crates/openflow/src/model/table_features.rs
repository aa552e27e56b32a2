//! `TABLE_FEATURES`: capabilities of tables. §7.3.5.5.

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
    Entries, FixedString, NeutralForm, Value, ValueError, code_from_value, code_to_value,
    list_from_value, list_to_value,
};
use crate::{EncodeError, Encoder, Expected, Result, Version};

/// Type of an action or instruction (`T`), without its values. §7.3.5.5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementId<T> {
    /// Type number on the wire.
    pub kind: u16,
    /// Bytes after type and length: for experimenters their ID and more; otherwise empty, or zeros from some
    /// switches.
    pub data: Vec<u8>,
    whose: PhantomData<T>,
}

/// Type of an action. `ofp_action_id`.
pub type ActionId = ElementId<Action>;

/// Type of an instruction. `ofp_instruction_id`.
pub type InstructionId = ElementId<Instruction>;

impl<T> ElementId<T> {
    /// The standard type `kind`.
    pub const fn new(kind: u16) -> Self {
        Self::with_data(kind, vec![])
    }

    /// The type `kind` with additional data.
    pub const fn with_data(kind: u16, data: Vec<u8>) -> Self {
        Self { kind, data, whose: PhantomData }
    }
}

impl<T: Choice> ListItem for ElementId<T> {}

impl<T: Choice> Codec for ElementId<T> {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let start = r.at();
        let (kind, len) = (r.u16(T::TYPE_NAME)?, usize::from(r.u16(T::TYPE_NAME)?));
        let too_short = || r.length_error(start, T::TYPE_NAME, len, Expected::AtLeast(4));
        let data_len = len.checked_sub(4).ok_or_else(too_short)?;
        let at_most = Expected::saturating(Expected::AtMost, r.len() + 4);
        let data = r.sub(T::TYPE_NAME, data_len);
        let too_long = |_| r.length_error(start, T::TYPE_NAME, len, at_most);
        let data = data.map_err(too_long)?.rest().to_vec();
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

/// Neutral form: name or number; with data a map of `id` and `data`.
impl<T: Choice> NeutralForm for ElementId<T> {
    fn to_value(&self, version: Version) -> Value {
        let kind = Some(u64::from(self.kind));
        let row = T::ROWS.iter().find(|row| (row.code)(version) == kind);
        let id = code_to_value(row.map(|row| row.name), self.kind);
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
        let rows =
            T::ROWS.iter().filter_map(|row| (row.code)(version).map(|n| (row.name, n.into())));
        let kind = code_from_value(id, rows, |n| n)?;
        let kind =
            u16::try_from(kind).map_err(|_| ValueError::new(format!("{kind} is over 65535")))?;
        Ok(Self::with_data(kind, data))
    }
}

/// Table numbers, encoded as one byte each.
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

impl NeutralForm for TableIds {
    fn to_value(&self, version: Version) -> Value {
        list_to_value(&self.0, version)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        list_from_value(value, version).map(Self)
    }
}

choice! {
    /// A capability of a table. §7.3.5.5.2.
    ///
    /// Names that end in `Miss` are about the table-miss flow entry; where such a property is absent, the one without
    /// `Miss` applies.
    pub enum TableFeatureProp: "table feature" {
        /// Supported instructions.
        Instructions "instructions" {
            /// Instruction types.
            instruction_ids: Vec<InstructionId>,
        } = { V1_3.. => 0 [instruction_ids,] };
        /// Supported instructions of the table-miss flow entry.
        InstructionsMiss "instructions_miss" {
            /// Instruction types.
            instruction_ids: Vec<InstructionId>,
        } = { V1_3.. => 1 [instruction_ids,] };
        /// Tables that `GotoTable` can name.
        NextTables "next_tables" {
            /// Table numbers.
            next_table_ids: TableIds,
        } = { V1_3.. => 2 [next_table_ids,] };
        /// Tables that `GotoTable` of the table-miss flow entry can name.
        NextTablesMiss "next_tables_miss" {
            /// Table numbers.
            next_table_ids: TableIds,
        } = { V1_3.. => 3 [next_table_ids,] };
        /// Actions supported by `WriteActions`.
        WriteActions "write_actions" {
            /// Action types.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 4 [action_ids,] };
        /// Actions supported by `WriteActions` of the table-miss flow entry.
        WriteActionsMiss "write_actions_miss" {
            /// Action types.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 5 [action_ids,] };
        /// Actions supported by `ApplyActions`.
        ApplyActions "apply_actions" {
            /// Action types.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 6 [action_ids,] };
        /// Actions supported by `ApplyActions` of the table-miss flow entry.
        ApplyActionsMiss "apply_actions_miss" {
            /// Action types.
            action_ids: Vec<ActionId>,
        } = { V1_3.. => 7 [action_ids,] };
        /// Fields that can be matched, and whether they can be masked.
        Match "match" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 8 [oxm_ids,] };
        /// Fields that can be wildcarded.
        Wildcards "wildcards" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 10 [oxm_ids,] };
        /// Fields that `WriteActions` can set.
        WriteSetfield "write_setfield" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 12 [oxm_ids,] };
        /// Fields that `WriteActions` of the table-miss flow entry can set.
        WriteSetfieldMiss "write_setfield_miss" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 13 [oxm_ids,] };
        /// Fields that `ApplyActions` can set.
        ApplySetfield "apply_setfield" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 14 [oxm_ids,] };
        /// Fields that `ApplyActions` of the table-miss flow entry can set.
        ApplySetfieldMiss "apply_setfield_miss" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_3.. => 15 [oxm_ids,] };
        /// Tables whose flow entries are synchronized into this one. OpenFlow 1.4.0 §7.3.5.5.2.
        TableSyncFrom "table_sync_from" {
            /// Table numbers.
            table_ids: TableIds,
        } = { V1_4.. => 16 [table_ids,] };
        /// Destination fields of `CopyField` in `WriteActions`. OpenFlow 1.5.0 §7.3.5.18.2.
        WriteCopyfield "write_copyfield" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 18 [oxm_ids,] };
        /// Destination fields of `CopyField` in `WriteActions` of the table-miss flow entry. OpenFlow 1.5.0
        /// §7.3.5.18.2.
        WriteCopyfieldMiss "write_copyfield_miss" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 19 [oxm_ids,] };
        /// Destination fields of `CopyField` in `ApplyActions`. OpenFlow 1.5.0 §7.3.5.18.2.
        ApplyCopyfield "apply_copyfield" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 20 [oxm_ids,] };
        /// Destination fields of `CopyField` in `ApplyActions` of the table-miss flow entry. OpenFlow 1.5.0
        /// §7.3.5.18.2.
        ApplyCopyfieldMiss "apply_copyfield_miss" {
            /// Fields.
            oxm_ids: Vec<FieldHeader>,
        } = { V1_5.. => 21 [oxm_ids,] };
        /// Packet types that the table can process. OpenFlow 1.5.0 §7.3.5.18.2.
        PacketTypes "packet_types" {
            /// Values of the field `packet_type`.
            oxm_values: Vec<Oxm>,
        } = { V1_5.. => 22 [oxm_values,] };
        /// Experimenter property.
        Experimenter "experimenter" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_3.. => 0xfffe [experimenter, exp_type, data,] };
        /// Experimenter property of the table-miss flow entry.
        ExperimenterMiss "experimenter_miss" {
            /// Experimenter ID.
            experimenter: u32,
            /// Experimenter-defined type.
            exp_type: u32,
            /// Experimenter-defined data.
            data: Vec<u8>,
        } = { V1_3.. => 0xffff [experimenter, exp_type, data,] };
    }
}

tlv!(TableFeatureProp, Outside, TableFeatures);

codes! {
    /// `OFPTFC_*`: what a table features request does. OpenFlow 1.5.0 §7.3.5.18.
    pub struct TableFeaturesCommand(u8);
    REPLACE = 0, V1_5, "Replace the full pipeline; the only meaning before 1.5.";
    MODIFY = 1, V1_5, "Modify the capabilities of the tables.";
    ENABLE = 2, V1_5, "Enable the tables in the pipeline.";
    DISABLE = 3, V1_5, "Disable the tables in the pipeline.";
}

flags! {
    /// `OFPTFF_*`: position of a table in the pipeline. OpenFlow 1.5.0 §7.3.5.18.
    pub struct TableFeatureFlags(u32);
    INGRESS_TABLE = 1, V1_5, "Can be an ingress table.";
    EGRESS_TABLE = 2, V1_5, "Can be an egress table.";
    FIRST_EGRESS = 16, V1_5, "Is the first egress table.";
}

record! {
    /// Capabilities of a table. §7.3.5.5.
    #[derive(Default)]
    pub struct TableFeatures: "table_features" {
        /// Table number.
        pub table_id: u8,
        /// What a request does. Since 1.5.
        pub command: TableFeaturesCommand,
        /// Position in the pipeline. Since 1.5.
        pub features: TableFeatureFlags,
        /// Table name.
        pub name: FixedString<32>,
        /// Metadata bits that can be matched.
        pub metadata_match: u64,
        /// Metadata bits that can be written.
        pub metadata_write: u64,
        /// Supported configuration flags. `config` in 1.3.
        pub capabilities: TableConfig,
        /// Maximum number of flow entries.
        pub max_entries: u32,
        /// Further capabilities.
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
    use crate::model::vectors::encoded;
    use crate::model::{Multipart, MultipartFlags};
    use crate::{ErrorCode, ErrorType, ParseError, RawMessage};

    fn features(properties: Vec<TableFeatureProp>) -> Message {
        let tables = vec![TableFeatures { properties, ..TableFeatures::default() }];
        let body = MultipartReply::TableFeatures { tables };
        Message::MultipartReply(Multipart { flags: MultipartFlags::default(), body })
    }

    fn parse_error(version: Version) -> ParseError {
        let id = ActionId::with_data(0xffff, vec![0, 0, 0x23, 0x20]);
        let message = features(vec![TableFeatureProp::WriteActions { action_ids: vec![id] }]);
        let mut bytes = encoded(&message, version, 7);
        bytes[87] = 9;
        RawMessage::new(&bytes).and_then(Message::parse_raw).unwrap_err()
    }

    #[test]
    fn a_malformed_property_gets_the_error_type_of_the_version() {
        let (old, new) = (parse_error(Version::V1_3), parse_error(Version::V1_5));
        assert_eq!((old.what, old.at, old.part), ("action", 84, ErrorContext::TableFeatures));
        assert_eq!(old.newest_code(), (ErrorType::TABLE_FEATURES_FAILED, ErrorCode(3)));
        assert_eq!(new.newest_code(), (ErrorType::BAD_PROPERTY, ErrorCode(1)));
    }

    #[test]
    fn zeros_after_an_id_are_kept() {
        let id = InstructionId::with_data(1, vec![0; 4]);
        let value = id.to_value(Version::V1_3);
        assert_eq!(value.get("id"), Some(&Value::text("goto_table")));
        assert_eq!(InstructionId::from_value(&value, Version::V1_3), Ok(id));
    }

    #[test]
    fn an_error_names_the_version_that_introduced_a_property() {
        let (mut tx, mut xid) = (vec![], 1);
        let sync = features(vec![TableFeatureProp::TableSyncFrom { table_ids: TableIds(vec![1]) }]);
        let error =
            sync.encode(7, &mut Encoder::new(&mut tx, Version::V1_3, &mut xid)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "table_sync_from requires OpenFlow 1.4; this session speaks 1.3"
        );
        let error =
            sync.encode(7, &mut Encoder::new(&mut tx, Version::V1_2, &mut xid)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "table_features requires OpenFlow 1.3; this session speaks 1.2"
        );
    }
}
