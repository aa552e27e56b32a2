//! Table statistics and capabilities, as each version encodes them. §7.3.5.4, §7.3.5.5.

use sluice_openflow::{
    ActionId, FieldHeader, FieldId, InstructionId, TableActions, TableFeatureFlags,
    TableFeatureProp, TableFeatures, TableFields, TableIds, TableInstructions, TableStats, Version,
};

use super::EmulatedSwitch;
use super::flow_table::FlowTable;
use sluice_pipeline::can_set;
use sluice_pipeline::field_slot;

/// Actions that the switch does not support.
const UNSUPPORTED_ACTIONS: TableActions =
    TableActions::COPY_TTL_OUT.union(TableActions::COPY_TTL_IN);
/// Fields that the switch does not match.
const UNSUPPORTED_FIELDS: TableFields = TableFields::IN_PHY_PORT.union(TableFields::MATCH_TYPE);
/// The meter action, since 1.5.
const METER: u16 = 29;
/// All instructions except the meter.
const INSTRUCTIONS: u32 = 0x3e;

impl EmulatedSwitch {
    /// The supported actions; since 1.2, one bit per action type.
    pub(super) fn actions(&self, version: Version) -> TableActions {
        let rows = TableActions::ROWS.iter().filter(|row| row.2.contains(version));
        let all: TableActions = rows.map(|row| row.0).collect();
        all - UNSUPPORTED_ACTIONS - self.config.unsupported_actions
    }

    /// Table statistics and, before 1.3, capabilities.
    pub(super) fn table_stats(&self, version: Version) -> Vec<TableStats> {
        let size = u32::try_from(self.config.table_entries_max).unwrap_or(u32::MAX);
        let rows = TableFields::ROWS.iter().filter(|row| row.2.contains(version));
        let fields = rows.map(|row| row.0).collect::<TableFields>() - UNSUPPORTED_FIELDS;
        let actions = self.actions(version);
        let stats = |(table_id, table): (u8, &FlowTable)| {
            let counters = TableStats {
                table_id,
                active_count: u32::try_from(table.len()).unwrap_or(u32::MAX),
                lookup_count: table.lookups,
                matched_count: table.matched,
                ..TableStats::default()
            };
            if version >= Version::V1_3 {
                return counters;
            }
            let (name, wildcards) = (table_name(table_id).as_str().into(), fields);
            let described = TableStats { name, wildcards, max_entries: size, ..counters };
            if version == Version::V1_0 {
                return described;
            }
            let described = TableStats {
                match_fields: fields,
                instructions: TableInstructions(INSTRUCTIONS),
                write_actions: actions,
                apply_actions: actions,
                config: table.config,
                ..described
            };
            if version == Version::V1_1 {
                return described;
            }
            TableStats {
                write_setfields: fields,
                apply_setfields: fields,
                metadata_match: u64::MAX,
                metadata_write: u64::MAX,
                ..described
            }
        };
        (0..=u8::MAX).zip(&self.tables).map(stats).collect()
    }

    /// Table capabilities, since 1.3.
    pub(super) fn table_features(&self, version: Version) -> Vec<TableFeatures> {
        let fields = |is_supported: fn(FieldId) -> bool, unsupported: &[FieldId]| -> Vec<FieldId> {
            let rows = FieldId::ROWS.iter().filter(|row| {
                row.headers.first().is_some_and(|header| header.since <= version)
                    && is_supported(row.id)
                    && !unsupported.contains(&row.id)
            });
            rows.map(|row| row.id).collect()
        };
        let header = |id: &FieldId| match id.row() {
            Some(row) if row.maskable() => FieldHeader::with_mask(*id),
            _ => FieldHeader::from(*id),
        };
        let known = fields(|id| field_slot(id).is_some(), &self.config.unsupported_fields);
        let matched: Vec<_> = known.iter().map(header).collect();
        let wildcards: Vec<_> = known.into_iter().map(FieldHeader::from).collect();
        let settable: Vec<_> = fields(can_set, &self.config.unsupported_set_fields)
            .into_iter()
            .map(FieldHeader::from)
            .collect();
        let meter = if version >= Version::V1_5 { 6 } else { 7 };
        let instruction_ids: Vec<_> = (1..meter).map(InstructionId::new).collect();
        let bits = self.actions(version).0;
        let mut actions: Vec<_> = (0..32).filter(|n| bits >> n & 1 == 1).collect();
        actions.extend((version >= Version::V1_5).then_some(METER));
        let action_ids: Vec<_> = actions.into_iter().map(ActionId::new).collect();
        let n_tables = u8::try_from(self.tables.len()).unwrap_or(u8::MAX);
        let features = |table_id: u8| TableFeatures {
            table_id,
            features: if version >= Version::V1_5 {
                TableFeatureFlags::INGRESS_TABLE
            } else {
                TableFeatureFlags::default()
            },
            name: table_name(table_id).as_str().into(),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            max_entries: u32::try_from(self.config.table_entries_max).unwrap_or(u32::MAX),
            properties: properties(&TableCapabilities {
                instruction_ids: instruction_ids.clone(),
                next_table_ids: TableIds((table_id + 1..n_tables).collect()),
                action_ids: action_ids.clone(),
                matched: matched.clone(),
                wildcards: wildcards.clone(),
                settable: settable.clone(),
            }),
            ..TableFeatures::default()
        };
        (0..n_tables).map(features).collect()
    }
}

/// What a table supports, also in its table-miss flow entry.
struct TableCapabilities {
    instruction_ids: Vec<InstructionId>,
    next_table_ids: TableIds,
    action_ids: Vec<ActionId>,
    matched: Vec<FieldHeader>,
    wildcards: Vec<FieldHeader>,
    settable: Vec<FieldHeader>,
}

/// The properties of a table. Those of the table-miss flow entry could be left out, since they are the same; but Open vSwitch sends
/// them, and Floodlight installs no table-miss flow entry without them.
fn properties(table: &TableCapabilities) -> Vec<TableFeatureProp> {
    let TableCapabilities { instruction_ids, next_table_ids, action_ids, .. } = table;
    vec![
        TableFeatureProp::Instructions { instruction_ids: instruction_ids.clone() },
        TableFeatureProp::InstructionsMiss { instruction_ids: instruction_ids.clone() },
        TableFeatureProp::NextTables { next_table_ids: next_table_ids.clone() },
        TableFeatureProp::NextTablesMiss { next_table_ids: next_table_ids.clone() },
        TableFeatureProp::WriteActions { action_ids: action_ids.clone() },
        TableFeatureProp::WriteActionsMiss { action_ids: action_ids.clone() },
        TableFeatureProp::ApplyActions { action_ids: action_ids.clone() },
        TableFeatureProp::ApplyActionsMiss { action_ids: action_ids.clone() },
        TableFeatureProp::Match { oxm_ids: table.matched.clone() },
        TableFeatureProp::Wildcards { oxm_ids: table.wildcards.clone() },
        TableFeatureProp::WriteSetfield { oxm_ids: table.settable.clone() },
        TableFeatureProp::WriteSetfieldMiss { oxm_ids: table.settable.clone() },
        TableFeatureProp::ApplySetfield { oxm_ids: table.settable.clone() },
        TableFeatureProp::ApplySetfieldMiss { oxm_ids: table.settable.clone() },
    ]
}

fn table_name(table_id: u8) -> String {
    format!("table{table_id}")
}
