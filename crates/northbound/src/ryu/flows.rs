//! Flow entries: changes, and their statistics.

use serde_json::{Map, Value, json};
use sluice_openflow::{
    AggregateStats, Elapsed, FlowDesc, FlowMod, FlowModCommand, FlowModFlags, FlowStatsRequest,
    GroupId, MultipartReply, PortNo, Stats, Version,
};

use super::action_texts::{instruction_objects, instruction_texts};
use super::forms::{Form, item_len};
use super::input::{ApiResult, Object};
use super::numbers::{BUFFERS, GROUPS, TABLES};
use super::{instructions, matches};

/// The last part of the path, and the command.
pub(super) const COMMANDS: [(&str, FlowModCommand); 5] = [
    ("add", FlowModCommand::ADD),
    ("modify", FlowModCommand::MODIFY),
    ("modify_strict", FlowModCommand::MODIFY_STRICT),
    ("delete", FlowModCommand::DELETE),
    ("delete_strict", FlowModCommand::DELETE_STRICT),
];

/// `OFPFF_EMERG` of OpenFlow 1.0.
const EMERG_1_0: u32 = 4;

/// A change of flow entries, with Ryu's defaults.
pub(super) fn flow_mod(
    flow: &Object<'_>,
    command: FlowModCommand,
    version: Version,
) -> ApiResult<FlowMod> {
    let is_1_0 = version == Version::V1_0;
    let priority = if is_1_0 { FlowMod::PRIORITY_DEFAULT } else { 0 };
    let buffer_id: u32 = flow.named("buffer_id", &BUFFERS, u32::MAX)?;
    Ok(FlowMod {
        command,
        cookie: flow.number("cookie", 0)?,
        cookie_mask: flow.number("cookie_mask", 0)?,
        // OpenFlow 1.0 has no field for it.
        table_id: if is_1_0 { 0 } else { flow.named("table_id", &TABLES, 0)? },
        idle_timeout: flow.number("idle_timeout", 0)?,
        hard_timeout: flow.number("hard_timeout", 0)?,
        priority: flow.number("priority", priority)?,
        buffer_id: Some(buffer_id).filter(|id| *id != sluice_openflow::NO_BUFFER),
        out_port: flow.port("out_port", version, PortNo::ANY)?,
        out_group: GroupId(flow.named("out_group", &GROUPS, GroupId::ANY.0)?),
        flags: flags(flow.number::<u16>("flags", 0)?.into(), version),
        importance: flow.number("importance", 0)?,
        matching: matches::from_entry(flow, "match", version)?,
        instructions: instructions::from_entry(flow, version)?,
    })
}

fn flags(bits: u32, version: Version) -> FlowModFlags {
    if version == Version::V1_0 && bits & EMERG_1_0 != 0 {
        return FlowModFlags(bits & !EMERG_1_0 | FlowModFlags::EMERG.0);
    }
    FlowModFlags(bits)
}

/// Deletes all flow entries.
pub(super) fn clear(version: Version) -> FlowMod {
    let table_id = if version == Version::V1_0 { 0 } else { FlowMod::TABLE_ALL };
    FlowMod { command: FlowModCommand::DELETE, table_id, ..FlowMod::default() }
}

/// Which flow entries are read, and of which priority.
pub(super) fn stats_request(
    filter: &Object<'_>,
    version: Version,
) -> ApiResult<(FlowStatsRequest, Option<u16>)> {
    let request = FlowStatsRequest {
        table_id: filter.named("table_id", &TABLES, FlowMod::TABLE_ALL)?,
        out_port: filter.port("out_port", version, PortNo::ANY)?,
        out_group: GroupId(filter.named("out_group", &GROUPS, GroupId::ANY.0)?),
        cookie: filter.number("cookie", 0)?,
        cookie_mask: filter.number("cookie_mask", 0)?,
        matching: matches::from_entry(filter, "match", version)?,
    };
    let has_priority = filter.get("priority").is_some_and(|value| *value != json!(-1));
    let priority = if has_priority { Some(filter.required_number("priority")?) } else { None };
    Ok((request, priority))
}

/// A flow entry as Ryu writes it for `version`.
pub(super) fn to_json(entry: &FlowDesc, version: Version) -> Value {
    let mut flow = json!({
        "priority": entry.priority,
        "cookie": entry.cookie,
        "idle_timeout": entry.idle_timeout,
        "hard_timeout": entry.hard_timeout,
        "match": matches::to_json(&entry.matching, version),
        "table_id": entry.table_id,
    });
    let Some(entries) = flow.as_object_mut() else { return flow };
    let mut add = |name: &str, value: Value| entries.insert(name.into(), value);
    if version > Version::V1_0 {
        add("length", flow_len(entry, version).into());
    }
    if version > Version::V1_2 {
        add("flags", entry.flags.0.into());
    }
    if Form::of(version) == Form::Objects {
        add("importance", entry.importance.into());
        add("instructions", instruction_objects(&entry.instructions, version));
    } else {
        add("actions", instruction_texts(&entry.instructions, version));
        let id = u32::from(entry.table_id);
        add("table_id", TABLES.name(id).map_or_else(|| id.into(), Value::from));
    }
    if version < Version::V1_5 {
        let duration = entry.stats.duration().unwrap_or_default();
        add("duration_sec", duration.sec.into());
        add("duration_nsec", duration.nsec.into());
        add("packet_count", entry.stats.packet_count().unwrap_or_default().into());
        add("byte_count", entry.stats.byte_count().unwrap_or_default().into());
    } else {
        add("stats", stats_to_json(&entry.stats));
        // Ryu reads this from the switch; here it is always the reply to a request.
        add("reason", 0.into());
    }
    flow
}

fn flow_len(entry: &FlowDesc, version: Version) -> usize {
    let with = MultipartReply::FlowDesc { flows: vec![entry.clone()] };
    item_len(with, MultipartReply::FlowDesc { flows: vec![] }, version)
}

/// Statistics as OpenFlow 1.5 has them.
fn stats_to_json(stats: &Stats) -> Value {
    let mut entries = Map::new();
    let time = |name: &str, it: Elapsed| json!({ format!("{name}_sec"): it.sec, format!("{name}_nsec"): it.nsec });
    let values = [
        ("duration", stats.duration().map(|it| time("duration", it))),
        ("idle_time", stats.idle_time().map(|it| time("idle_time", it))),
        ("flow_count", stats.flow_count().map(Value::from)),
        ("packet_count", stats.packet_count().map(Value::from)),
        ("byte_count", stats.byte_count().map(Value::from)),
    ];
    for (name, value) in values {
        entries.extend(value.map(|value| (name.to_owned(), value)));
    }
    Value::Object(entries)
}

/// The sums over flow entries.
pub(super) fn aggregate_to_json(it: &AggregateStats, version: Version) -> Value {
    if version < Version::V1_5 {
        return json!({
            "packet_count": it.stats.packet_count().unwrap_or_default(),
            "byte_count": it.stats.byte_count().unwrap_or_default(),
            "flow_count": it.stats.flow_count().unwrap_or_default(),
        });
    }
    let none = MultipartReply::AggregateStats(AggregateStats::default());
    // The length counts the header of 4 bytes and the padding.
    let len = item_len(MultipartReply::AggregateStats(it.clone()), none, version) + EMPTY_STATS_LEN;
    json!({ "length": len, "stats": stats_to_json(&it.stats) })
}

/// The length of statistics without any.
const EMPTY_STATS_LEN: usize = 8;
