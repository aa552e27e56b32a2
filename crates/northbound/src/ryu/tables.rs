//! Flow tables: statistics and features.

use serde_json::{Value, json};
use sluice_openflow::{
    ElementId, FieldHeader, FieldId, MultipartReply, Oxm, TableActions, TableConfig,
    TableFeatureProp, TableFeatures, TableFields, TableInstructions, TableStats, Version,
};

use super::forms::item_len;
use super::matches::field_name;
use super::numbers::{ACTION_TYPES, INSTRUCTION_TYPES, TABLES};

fn id_to_json(id: u8) -> Value {
    TABLES.name(id.into()).map_or_else(|| id.into(), Value::from)
}

/// Names of wildcards in OpenFlow 1.0.
const WILDCARDS_1_0: [(TableFields, &str); 12] = [
    (TableFields::IN_PORT, "IN_PORT"),
    (TableFields::VLAN_VID, "DL_VLAN"),
    (TableFields::ETH_SRC, "DL_SRC"),
    (TableFields::ETH_DST, "DL_DST"),
    (TableFields::ETH_TYPE, "DL_TYPE"),
    (TableFields::IP_PROTO, "NW_PROTO"),
    (TableFields::TP_SRC, "TP_SRC"),
    (TableFields::TP_DST, "TP_DST"),
    (TableFields::IPV4_SRC, "NW_SRC"),
    (TableFields::IPV4_DST, "NW_DST"),
    (TableFields::VLAN_PCP, "DL_VLAN_PCP"),
    (TableFields::IP_DSCP, "NW_TOS"),
];

pub(super) fn stats_to_json(it: &TableStats, version: Version) -> Value {
    let counters = json!({
        "table_id": id_to_json(it.table_id),
        "active_count": it.active_count,
        "lookup_count": it.lookup_count,
        "matched_count": it.matched_count,
    });
    let more = match version {
        Version::V1_0 => {
            let wildcards = WILDCARDS_1_0.iter().filter(|row| it.wildcards.contains(row.0));
            let wildcards: Vec<_> = wildcards.map(|row| row.1).collect();
            json!({ "name": it.name.to_string(), "wildcards": wildcards, "max_entries": it.max_entries })
        }
        Version::V1_1 | Version::V1_2 => capabilities(it),
        _ => return counters,
    };
    merged(counters, more)
}

fn merged(mut object: Value, more: Value) -> Value {
    if let (Some(entries), Value::Object(more)) = (object.as_object_mut(), more) {
        entries.extend(more);
    }
    object
}

/// What tables could do in OpenFlow 1.1 and 1.2.
fn capabilities(it: &TableStats) -> Value {
    json!({
        "name": it.name.to_string(),
        "match": fields(it.match_fields),
        "wildcards": fields(it.wildcards),
        "write_actions": actions(it.write_actions),
        "apply_actions": actions(it.apply_actions),
        "write_setfields": fields(it.write_setfields),
        "apply_setfields": fields(it.apply_setfields),
        "metadata_match": it.metadata_match,
        "metadata_write": it.metadata_write,
        "instructions": instructions(it.instructions),
        "config": config(it.config),
        "max_entries": it.max_entries,
    })
}

/// The fields of a bitmap, whose bits have the numbers of the fields.
fn fields(bits: TableFields) -> Vec<String> {
    let is_set =
        |id: &FieldId| 1u128.checked_shl(id.number.into()).is_some_and(|bit| bits.0 & bit != 0);
    let basic = FieldId::ROWS
        .iter()
        .map(|row| row.id)
        .filter(|id| id.class == BASIC && id.number <= LAST_1_2);
    basic.filter(is_set).map(|id| id.name().to_uppercase()).collect()
}

/// `OFPXMC_OPENFLOW_BASIC`, and the last of its fields in OpenFlow 1.2.
const BASIC: u16 = 0x8000;
const LAST_1_2: u8 = 35;

fn actions(bits: TableActions) -> Vec<&'static str> {
    ACTION_TYPES.of_bits(u32::try_from(bits.0).unwrap_or_default())
}

fn instructions(bits: TableInstructions) -> Vec<&'static str> {
    INSTRUCTION_TYPES.of_bits(bits.0)
}

/// What happens to packets without a match.
fn config(config: TableConfig) -> Vec<&'static str> {
    let named = [
        (TableConfig::TABLE_MISS_CONTINUE, "TABLE_MISS_CONTINUE"),
        (TableConfig::TABLE_MISS_DROP, "TABLE_MISS_DROP"),
    ];
    named.iter().filter(|row| config.contains(row.0)).map(|row| row.1).collect()
}

pub(super) fn features_to_json(it: &TableFeatures, version: Version) -> Value {
    let table = json!({
        "table_id": id_to_json(it.table_id),
        "name": it.name.to_string(),
        "metadata_match": it.metadata_match,
        "metadata_write": it.metadata_write,
        "max_entries": it.max_entries,
        "properties": it.properties.iter().map(property).collect::<Value>(),
    });
    let more = match version {
        Version::V1_3 => json!({ "config": it.capabilities.0 }),
        Version::V1_4 => {
            json!({ "config": it.capabilities.0, "length": features_len(it, version) })
        }
        _ => json!({
            "capabilities": it.capabilities.0, "command": it.command.0, "features": it.features.0,
            "length": features_len(it, version),
        }),
    };
    merged(table, more)
}

fn features_len(it: &TableFeatures, version: Version) -> usize {
    let with = MultipartReply::TableFeatures { tables: vec![it.clone()] };
    item_len(with, MultipartReply::TableFeatures { tables: vec![] }, version)
}

fn ids<T>(kind: &str, name: &str, ids: &[ElementId<T>]) -> Value {
    let ids = ids.iter().map(|id| json!({ "type": id.kind, "len": 4 + id.data.len() }));
    json!({ "type": kind, name: ids.collect::<Value>() })
}

fn oxm_ids(kind: &str, ids: &[FieldHeader]) -> Value {
    let ids = ids.iter().map(
        |id| json!({ "type": field_name(id.id), "hasmask": u8::from(id.masked), "length": id.len }),
    );
    json!({ "type": kind, "oxm_ids": ids.collect::<Value>() })
}

fn tables(kind: &str, ids: &[u8]) -> Value {
    json!({ "type": kind, "table_ids": ids })
}

fn property(it: &TableFeatureProp) -> Value {
    use TableFeatureProp as P;
    match it {
        P::Instructions { instruction_ids: it } => ids("INSTRUCTIONS", "instruction_ids", it),
        P::InstructionsMiss { instruction_ids: it } => {
            ids("INSTRUCTIONS_MISS", "instruction_ids", it)
        }
        P::NextTables { next_table_ids: it } => tables("NEXT_TABLES", &it.0),
        P::NextTablesMiss { next_table_ids: it } => tables("NEXT_TABLES_MISS", &it.0),
        P::TableSyncFrom { table_ids: it } => tables("TABLE_SYNC_FROM", &it.0),
        P::WriteActions { action_ids: it } => ids("WRITE_ACTIONS", "action_ids", it),
        P::WriteActionsMiss { action_ids: it } => ids("WRITE_ACTIONS_MISS", "action_ids", it),
        P::ApplyActions { action_ids: it } => ids("APPLY_ACTIONS", "action_ids", it),
        P::ApplyActionsMiss { action_ids: it } => ids("APPLY_ACTIONS_MISS", "action_ids", it),
        P::Match { oxm_ids: it } => oxm_ids("MATCH", it),
        P::Wildcards { oxm_ids: it } => oxm_ids("WILDCARDS", it),
        P::WriteSetfield { oxm_ids: it } => oxm_ids("WRITE_SETFIELD", it),
        P::WriteSetfieldMiss { oxm_ids: it } => oxm_ids("WRITE_SETFIELD_MISS", it),
        P::ApplySetfield { oxm_ids: it } => oxm_ids("APPLY_SETFIELD", it),
        P::ApplySetfieldMiss { oxm_ids: it } => oxm_ids("APPLY_SETFIELD_MISS", it),
        P::WriteCopyfield { oxm_ids: it } => oxm_ids("WRITE_COPYFIELD", it),
        P::WriteCopyfieldMiss { oxm_ids: it } => oxm_ids("WRITE_COPYFIELD_MISS", it),
        P::ApplyCopyfield { oxm_ids: it } => oxm_ids("APPLY_COPYFIELD", it),
        P::ApplyCopyfieldMiss { oxm_ids: it } => oxm_ids("APPLY_COPYFIELD_MISS", it),
        P::PacketTypes { oxm_values: it } => {
            let value = |oxm: &Oxm| {
                let value = oxm.field().map_or(0, |field| u64::try_from(field.value).unwrap_or(0));
                json!({ oxm.name(): value })
            };
            json!({ "type": "PACKET_TYPES", "oxm_values": it.iter().map(value).collect::<Value>() })
        }
        P::Experimenter { .. } => json!({ "type": "EXPERIMENTER" }),
        P::ExperimenterMiss { .. } => json!({ "type": "EXPERIMENTER_MISS" }),
        P::Other { .. } => json!({ "type": "UNKNOWN" }),
    }
}
