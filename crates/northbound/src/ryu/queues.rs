//! Queues: statistics and configuration.

use serde_json::{Value, json};
use sluice_openflow::{Queue, QueueGetConfigReply, QueueProp, QueueStats, QueueStatsProp, Version};

use super::bytes::to_words;
use super::forms::Form;
use super::numbers::{QUEUES, port_number};
use super::ports::{experimenter_property, port_to_json};

/// Bytes of the statistics of a queue without properties, since OpenFlow 1.4; and of its description.
const QUEUE_STATS_LEN: usize = 48;
const QUEUE_DESC_LEN: usize = 16;

fn id_to_json(id: u32) -> Value {
    QUEUES.name(id).map_or_else(|| id.into(), Value::from)
}

pub(super) fn stats_to_json(it: &QueueStats, version: Version) -> Value {
    let mut stats = json!({
        "port_no": port_number(it.port_no, version),
        "queue_id": it.queue_id,
        "tx_bytes": it.tx_bytes,
        "tx_errors": it.tx_errors,
        "tx_packets": it.tx_packets,
    });
    let Some(entries) = stats.as_object_mut() else { return stats };
    if version > Version::V1_2 {
        entries.insert("duration_sec".into(), it.duration_sec.into());
        entries.insert("duration_nsec".into(), it.duration_nsec.into());
    }
    if Form::of(version) == Form::Objects {
        let mut len = QUEUE_STATS_LEN;
        let properties = it.properties.iter().map(|property| match property {
            QueueStatsProp::Experimenter { experimenter, exp_type, data } => {
                len += (12 + data.len()).next_multiple_of(8);
                experimenter_property(*experimenter, *exp_type, data)
            }
            QueueStatsProp::Other { .. } => json!({ "type": "UNKNOWN" }),
        });
        let properties: Value = properties.collect();
        entries.insert("properties".into(), properties);
        entries.insert("length".into(), len.into());
    }
    stats
}

/// The queues of a port, or of all, up to OpenFlow 1.3.
pub(super) fn config_to_json(it: &QueueGetConfigReply, version: Version) -> Value {
    let property = |property: &QueueProp| match property {
        QueueProp::MinRate { rate } => json!({ "property": "MIN_RATE", "rate": rate }),
        QueueProp::MaxRate { rate } => json!({ "property": "MAX_RATE", "rate": rate }),
        QueueProp::Experimenter { experimenter, data, .. } => {
            json!({ "property": "EXPERIMENTER", "experimenter": experimenter, "data": data })
        }
        _ => json!({ "property": "UNKNOWN" }),
    };
    let queue = |queue: &Queue| {
        json!({
            "port": port_to_json(queue.port_no, version),
            "queue_id": id_to_json(queue.queue_id),
            "properties": queue.properties.iter().map(property).collect::<Value>(),
        })
    };
    let queues: Value = it.queues.iter().map(queue).collect();
    json!({ "port": port_to_json(it.port, version), "queues": queues })
}

/// A queue, since OpenFlow 1.4.
pub(super) fn desc_to_json(it: &Queue) -> Value {
    let mut len = QUEUE_DESC_LEN;
    let properties = it.properties.iter().map(|property| {
        len += 8;
        match property {
            QueueProp::MinRate { rate } => json!({ "type": "MIN_RATE", "length": 8, "rate": rate }),
            QueueProp::MaxRate { rate } => json!({ "type": "MAX_RATE", "length": 8, "rate": rate }),
            QueueProp::Experimenter { experimenter, exp_type, data } => {
                len += (4 + data.len()).next_multiple_of(8);
                json!({
                    "type": "EXPERIMENTER", "length": 12 + data.len(), "experimenter": experimenter,
                    "exp_type": exp_type, "data": to_words(data),
                })
            }
            _ => json!({ "type": "UNKNOWN" }),
        }
    });
    let properties: Value = properties.collect();
    json!({ "port_no": it.port_no.0, "queue_id": it.queue_id, "len": len, "properties": properties })
}
