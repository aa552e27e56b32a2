//! Groups: changes, statistics, descriptions, features.

use serde_json::{Value, json};
use sluice_openflow::{
    Bucket, BucketId, BucketProp, GroupCommand, GroupDesc, GroupFeatures, GroupId, GroupMod,
    GroupStats, GroupType, MultipartReply, PortNo, Version,
};

use super::action_texts::{action_objects, action_text};
use super::forms::{Form, bucket_len, encoded_action, item_len};
use super::input::{ApiResult, Object, invalid};
use super::numbers::{ACTION_TYPES, GROUP_CAPABILITIES, GROUP_TYPES, GROUPS, port_number};
use super::{actions, bytes};

/// The last part of the path, and the command.
pub(super) const COMMANDS: [(&str, GroupCommand); 3] = [
    ("add", GroupCommand::ADD),
    ("modify", GroupCommand::MODIFY),
    ("delete", GroupCommand::DELETE),
];

pub(super) fn group_mod(
    it: &Object<'_>,
    command: GroupCommand,
    version: Version,
) -> ApiResult<GroupMod> {
    // Ignored before 1.5, as Ryu does: there is no field for it. Ryu's default, 0, is refused by Open vSwitch.
    let is_ignored = version < Version::V1_5;
    let all = BucketId::ALL.0;
    let position = if is_ignored { all } else { it.number("command_bucket_id", all)? };
    let buckets = it.objects("buckets")?;
    Ok(GroupMod {
        command,
        group_type: GroupType(it.named("type", &GROUP_TYPES, 0)?),
        group_id: GroupId(it.named("group_id", &GROUPS, 0)?),
        command_bucket_id: BucketId(position),
        buckets: (0..)
            .zip(&buckets)
            .map(|(at, it)| bucket(it, at, version))
            .collect::<ApiResult<_>>()?,
        properties: vec![],
    })
}

fn bucket(it: &Object<'_>, position: u32, version: Version) -> ApiResult<Bucket> {
    let bucket_id = match version {
        // Groups of 1.0 are those of Nicira, whose buckets have numbers.
        Version::V1_0 => BucketId(position),
        _ if version >= Version::V1_5 => BucketId(it.number("bucket_id", 0)?),
        _ => BucketId::ALL,
    };
    let mut properties = vec![];
    if it.has("weight") {
        properties.push(BucketProp::Weight { weight: it.number("weight", 0)? });
    }
    if it.has("watch_port") {
        properties
            .push(BucketProp::WatchPort { watch: it.port("watch_port", version, PortNo::ANY)? });
    }
    if it.has("watch_group") {
        let watch = GroupId(it.named("watch_group", &GROUPS, GroupId::ANY.0)?);
        properties.push(BucketProp::WatchGroup { watch });
    }
    for property in it.objects("properties")? {
        properties.push(bucket_property(&property, version)?);
    }
    Ok(Bucket { bucket_id, actions: actions::from_list(it, version)?, properties })
}

/// A property of a bucket, since OpenFlow 1.5.
fn bucket_property(it: &Object<'_>, version: Version) -> ApiResult<BucketProp> {
    let kind = it.text("type")?.unwrap_or("WEIGHT");
    Ok(match kind.strip_prefix("OFPGBPT_").unwrap_or(kind) {
        "WEIGHT" => BucketProp::Weight { weight: it.number("weight", 0)? },
        "WATCH_PORT" => BucketProp::WatchPort { watch: it.port("watch", version, PortNo::ANY)? },
        "WATCH_GROUP" => {
            BucketProp::WatchGroup { watch: GroupId(it.named("watch", &GROUPS, GroupId::ANY.0)?) }
        }
        "EXPERIMENTER" => BucketProp::Experimenter {
            experimenter: it.number("experimenter", 0)?,
            exp_type: it.number("exp_type", 0)?,
            data: it.data()?,
        },
        _ => {
            let expected = "one of WEIGHT, WATCH_PORT, WATCH_GROUP, EXPERIMENTER";
            return Err(invalid(&it.place("type"), &kind.into(), expected));
        }
    })
}

fn id_to_json(id: GroupId) -> Value {
    GROUPS.name(id.0).map_or_else(|| id.0.into(), Value::from)
}

pub(super) fn stats_to_json(it: &GroupStats, version: Version) -> Value {
    let with = MultipartReply::GroupStats { groups: vec![it.clone()] };
    let len = item_len(with, MultipartReply::GroupStats { groups: vec![] }, version);
    let buckets = it.bucket_stats.iter().map(
        |bucket| json!({ "packet_count": bucket.packet_count, "byte_count": bucket.byte_count }),
    );
    let mut group = json!({
        "length": len,
        "group_id": id_to_json(it.group_id),
        "ref_count": it.ref_count,
        "packet_count": it.packet_count,
        "byte_count": it.byte_count,
        "bucket_stats": buckets.collect::<Value>(),
    });
    // Groups of 1.0 are those of Nicira, which have it.
    if !matches!(version, Version::V1_1 | Version::V1_2)
        && let Some(entries) = group.as_object_mut()
    {
        entries.insert("duration_sec".into(), it.duration_sec.into());
        entries.insert("duration_nsec".into(), it.duration_nsec.into());
    }
    group
}

pub(super) fn desc_to_json(it: &GroupDesc, version: Version) -> Value {
    let kind = GROUP_TYPES.name(it.group_type.0.into());
    let buckets: Value = it.buckets.iter().map(|bucket| bucket_to_json(bucket, version)).collect();
    let mut group =
        json!({ "group_id": id_to_json(it.group_id), "type": kind, "buckets": buckets });
    let Some(entries) = group.as_object_mut() else { return group };
    if Form::of(version) == Form::Objects {
        let with = MultipartReply::GroupDesc { groups: vec![it.clone()] };
        let len = item_len(with, MultipartReply::GroupDesc { groups: vec![] }, version);
        entries.insert("length".into(), len.into());
        entries.insert("type".into(), kind.unwrap_or("UNKNOWN").into());
    }
    if version >= Version::V1_5 {
        let len: usize = it.buckets.iter().map(|bucket| bucket_len(bucket, version)).sum();
        entries.insert("bucket_array_len".into(), len.into());
        entries.insert("properties".into(), Value::Array(vec![]));
    }
    group
}

fn bucket_to_json(it: &Bucket, version: Version) -> Value {
    if version >= Version::V1_5 {
        let len: usize =
            it.actions.iter().map(|action| encoded_action(action, version).len()).sum();
        let properties = it.properties.iter().map(property_to_json);
        return json!({
            "bucket_id": it.bucket_id.0,
            "len": bucket_len(it, version),
            "action_array_len": len,
            "actions": action_objects(&it.actions, version),
            "properties": properties.collect::<Value>(),
        });
    }
    let (mut weight, mut port, mut group) = (0, PortNo::ANY, GroupId::ANY);
    for property in &it.properties {
        match property {
            BucketProp::Weight { weight: it } => weight = *it,
            BucketProp::WatchPort { watch } => port = *watch,
            BucketProp::WatchGroup { watch } => group = *watch,
            _ => {}
        }
    }
    let is_text = Form::of(version) != Form::Objects;
    let actions: Value = if is_text {
        it.actions.iter().map(|action| action_text(action, version)).collect()
    } else {
        Value::Array(action_objects(&it.actions, version))
    };
    let mut bucket = json!({
        "weight": weight, "watch_port": port_number(port, version), "watch_group": group.0, "actions": actions,
    });
    if let Some(entries) = bucket.as_object_mut().filter(|_| !is_text) {
        entries.insert("len".into(), bucket_len(it, version).into());
    }
    bucket
}

fn property_to_json(it: &BucketProp) -> Value {
    match it {
        BucketProp::Weight { weight } => json!({ "type": "WEIGHT", "length": 8, "weight": weight }),
        BucketProp::WatchPort { watch } => {
            json!({ "type": "WATCH_PORT", "length": 8, "watch": watch.0 })
        }
        BucketProp::WatchGroup { watch } => {
            json!({ "type": "WATCH_GROUP", "length": 8, "watch": watch.0 })
        }
        BucketProp::Experimenter { experimenter, exp_type, data } => json!({
            "type": "EXPERIMENTER", "length": 12 + data.len(), "experimenter": experimenter,
            "exp_type": exp_type, "data": bytes::to_words(data),
        }),
        BucketProp::Other { .. } => json!({ "type": "UNKNOWN" }),
    }
}

pub(super) fn features_to_json(it: &GroupFeatures) -> Value {
    let kinds = || GROUP_TYPES.of_bits(0xf).into_iter();
    let max = kinds().zip(it.max_groups).map(|(kind, max)| json!({ kind: max }));
    let actions =
        kinds().zip(it.actions).map(|(kind, bits)| json!({ kind: ACTION_TYPES.of_bits(bits) }));
    json!({
        "types": GROUP_TYPES.of_bits(it.types.0),
        "capabilities": GROUP_CAPABILITIES.of_flags(it.capabilities.0),
        "max_groups": max.collect::<Value>(),
        "actions": actions.collect::<Value>(),
    })
}
