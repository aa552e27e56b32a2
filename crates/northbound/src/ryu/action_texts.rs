//! Actions and instructions in replies: texts up to OpenFlow 1.3, objects since 1.4.

use serde_json::{Map, Value, json};
use sluice_openflow::{Action, Field, FieldHeader, FieldId, Instruction, Oxm, PortNo, Version};

use super::actions::{PLAIN, SET_1_0};
use super::bytes::to_base64;
use super::forms::encoded_action;
use super::matches::{address_text, field_name, plain};
use super::numbers::{GROUPS, METERS, QUEUES, TABLES, port_name, port_number};

/// The experimenter ID of Nicira.
const NICIRA: u32 = 0x2320;

/// The parts of an action: its name, and its parameters with their names.
type Parts = (&'static str, Vec<(&'static str, Value)>);

/// Actions with one number, or none; `None` for others.
fn simple_parts(action: &Action, version: Version) -> Option<Parts> {
    if let Some((name, _)) = PLAIN.iter().find(|row| row.1 == *action) {
        return Some((name, vec![]));
    }
    let one = |name, key, value: u32| Some((name, vec![(key, value.into())]));
    match *action {
        Action::Output { port, max_len } => {
            let port = port_number(port, version).into();
            Some(("OUTPUT", vec![("port", port), ("max_len", max_len.into())]))
        }
        Action::SetMplsTtl { mpls_ttl } => one("SET_MPLS_TTL", "mpls_ttl", mpls_ttl.into()),
        Action::SetNwTtl { nw_ttl } => one("SET_NW_TTL", "nw_ttl", nw_ttl.into()),
        Action::PushVlan { ethertype } => one("PUSH_VLAN", "ethertype", ethertype.into()),
        Action::PushMpls { ethertype } => one("PUSH_MPLS", "ethertype", ethertype.into()),
        Action::PopMpls { ethertype } => one("POP_MPLS", "ethertype", ethertype.into()),
        Action::PushPbb { ethertype } => one("PUSH_PBB", "ethertype", ethertype.into()),
        Action::SetQueue { queue_id } => one("SET_QUEUE", "queue_id", queue_id),
        Action::Group { group_id } => one("GROUP", "group_id", group_id),
        Action::Meter { meter_id } => one("METER", "meter_id", meter_id),
        _ => None,
    }
}

/// A number of a kind that has names, as text.
fn named(name: Option<&str>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), Into::into)
}

fn port_text(port: PortNo, version: Version) -> String {
    named(port_name(port, version), port_number(port, version))
}

/// An action as text, as up to OpenFlow 1.3.
pub(super) fn action_text(action: &Action, version: Version) -> String {
    match action {
        Action::Output { port, .. } => format!("OUTPUT:{}", port_text(*port, version)),
        Action::Enqueue { port, queue_id } => {
            format!(
                "ENQUEUE:{}:{}",
                port_text(*port, version),
                named(QUEUES.name(*queue_id), *queue_id)
            )
        }
        Action::SetQueue { queue_id } => {
            format!("SET_QUEUE:{}", named(QUEUES.name(*queue_id), *queue_id))
        }
        Action::Group { group_id } => format!("GROUP:{}", named(GROUPS.name(*group_id), *group_id)),
        Action::PopVlan if version == Version::V1_0 => "STRIP_VLAN".into(),
        Action::SetField { field: Oxm::Field(field) } => set_field_text(field, version),
        action => match simple_parts(action, version) {
            Some((name, parameters)) => match parameters.first() {
                Some((_, value)) => format!("{name}:{value}"),
                None => name.into(),
            },
            None if version == Version::V1_0 => "VENDOR".into(),
            None => experimenter_text(action, version),
        },
    }
}

fn set_field_text(field: &Field, version: Version) -> String {
    let old =
        SET_1_0.iter().find(|row| row.2.same_as(field.id)).filter(|_| version == Version::V1_0);
    let Some((name, _, id)) = old else {
        let (name, value) = (field_name(field.id), address_text(field.id, field.value));
        return format!("SET_FIELD: {{{name}:{value}}}");
    };
    let value = match *id {
        FieldId::VLAN_VID => field.value & 0xfff,
        FieldId::IP_DSCP => field.value << 2,
        _ => field.value,
    };
    format!("{name}:{}", address_text(*id, value))
}

/// An extension, in the text that Ryu has for the frequent ones of Nicira.
fn experimenter_text(action: &Action, version: Version) -> String {
    let resubmit = |port: PortNo, table: u8| {
        format!("NX_RESUBMIT: {{port: {}, table: {table}}}", port.to_u16().unwrap_or(u16::MAX))
    };
    match *action {
        Action::Resubmit { in_port } => resubmit(in_port, 255),
        Action::ResubmitTable { in_port, table } => resubmit(in_port, table),
        Action::Conjunction { clause, n_clauses, id } => {
            format!(
                "NX_CONJUNCTION: {{clause: {clause}, number_of_clauses: {n_clauses}, id: {id}}}"
            )
        }
        Action::RegMove { n_bits, src_ofs, dst_ofs, src, dst } => {
            let range = |it: FieldHeader, start: u16| {
                format!("{}[{start}..{}]", field_name(it.id), u32::from(start) + u32::from(n_bits))
            };
            format!("NX_MOVE: {{{}: {}}}", range(dst, dst_ofs), range(src, src_ofs))
        }
        _ => unknown_text(action, version),
    }
}

fn unknown_text(action: &Action, version: Version) -> String {
    let (experimenter, data) = experimenter_of(action, version);
    match data.split_first_chunk() {
        Some((subtype, data)) if experimenter == NICIRA => {
            let subtype = u16::from_be_bytes(*subtype);
            format!("NX_UNKNOWN: {{subtype: {subtype}, data: {}}}", to_base64(data))
        }
        _ => format!("EXPERIMENTER: {{experimenter:{experimenter}, data:{}}}", to_base64(&data)),
    }
}

/// Experimenter ID and data of an action.
fn experimenter_of(action: &Action, version: Version) -> (u32, Vec<u8>) {
    let bytes = encoded_action(action, version);
    let body = bytes.get(4..).unwrap_or_default();
    body.split_first_chunk().map_or((0, vec![]), |(experimenter, data)| {
        (u32::from_be_bytes(*experimenter), data.to_vec())
    })
}

/// Instructions as texts, as up to OpenFlow 1.3; those of an action set are an object.
pub(super) fn instruction_texts(instructions: &[Instruction], version: Version) -> Value {
    let texts = |actions: &[Action]| -> Vec<Value> {
        actions.iter().map(|action| action_text(action, version).into()).collect()
    };
    let mut all = vec![];
    for instruction in instructions {
        match instruction {
            Instruction::ApplyActions { actions } => all.extend(texts(actions)),
            Instruction::WriteActions { actions } if actions.is_empty() => {}
            Instruction::WriteActions { actions } => {
                all.push(json!({ "WRITE_ACTIONS": texts(actions) }));
            }
            Instruction::ClearActions => all.push("CLEAR_ACTIONS".into()),
            Instruction::GotoTable { table_id } => {
                let id = u32::from(*table_id);
                all.push(format!("GOTO_TABLE:{}", named(TABLES.name(id), id)).into());
            }
            Instruction::WriteMetadata { metadata, metadata_mask: 0 } => {
                all.push(format!("WRITE_METADATA:{metadata:#x}").into());
            }
            Instruction::WriteMetadata { metadata, metadata_mask } => {
                all.push(format!("WRITE_METADATA:{metadata:#x}/{metadata_mask:#x}").into());
            }
            Instruction::Meter { meter_id } => {
                all.push(format!("METER:{}", named(METERS.name(*meter_id), *meter_id)).into());
            }
            _ => {}
        }
    }
    Value::Array(all)
}

/// An action as an object, as since OpenFlow 1.4.
pub(super) fn action_object(action: &Action, version: Version) -> Value {
    let mut entries = Map::new();
    let mut add = |name: &str, value: Value| entries.insert(name.into(), value);
    add("len", encoded_action(action, version).len().into());
    match (action, simple_parts(action, version)) {
        (Action::SetField { field: Oxm::Field(field) }, _) => {
            add("type", "SET_FIELD".into());
            add("field", field_name(field.id).into());
            add("value", plain(field.id, field.value));
            add("mask", field.mask.map_or(Value::Null, |mask| plain(field.id, mask)));
        }
        (Action::CopyField { n_bits, src_offset, dst_offset, src, dst }, _) => {
            add("type", "COPY_FIELD".into());
            add("n_bits", (*n_bits).into());
            add("src_offset", (*src_offset).into());
            add("dst_offset", (*dst_offset).into());
            add("src_oxm_id", field_name(src.id).into());
            add("dst_oxm_id", field_name(dst.id).into());
        }
        (_, Some((name, parameters))) => {
            add("type", name.into());
            for (name, value) in parameters {
                add(name, value);
            }
        }
        (action, None) => {
            let (experimenter, data) = experimenter_of(action, version);
            add("type", "EXPERIMENTER".into());
            add("experimenter", experimenter.into());
            add("data", to_base64(&data).into());
        }
    }
    Value::Object(entries)
}

pub(super) fn action_objects(actions: &[Action], version: Version) -> Vec<Value> {
    actions.iter().map(|action| action_object(action, version)).collect()
}

/// Instructions as objects, as since OpenFlow 1.4.
pub(super) fn instruction_objects(instructions: &[Instruction], version: Version) -> Value {
    let with_actions = |kind: &str, actions: &[Action]| {
        let len: usize = actions.iter().map(|action| encoded_action(action, version).len()).sum();
        json!({ "type": kind, "len": 8 + len, "actions": action_objects(actions, version) })
    };
    let object = |instruction: &Instruction| match instruction {
        Instruction::ApplyActions { actions } => with_actions("APPLY_ACTIONS", actions),
        Instruction::WriteActions { actions } => with_actions("WRITE_ACTIONS", actions),
        Instruction::ClearActions => with_actions("CLEAR_ACTIONS", &[]),
        Instruction::GotoTable { table_id } => {
            json!({ "type": "GOTO_TABLE", "len": 8, "table_id": table_id })
        }
        Instruction::WriteMetadata { metadata, metadata_mask } => json!({
            "type": "WRITE_METADATA", "len": 24, "metadata": metadata, "metadata_mask": metadata_mask,
        }),
        Instruction::Meter { meter_id } => {
            json!({ "type": "METER", "len": 8, "meter_id": meter_id })
        }
        Instruction::StatTrigger { flags, .. } => {
            json!({ "type": "STAT_TRIGGER", "flags": flags.0 })
        }
        Instruction::Experimenter { experimenter, data } => json!({
            "type": "EXPERIMENTER", "len": 8 + data.len(), "experimenter": experimenter, "data": to_base64(data),
        }),
        Instruction::Other { .. } => json!({ "type": "UNKNOWN" }),
    };
    Value::Array(instructions.iter().map(object).collect())
}
