//! `sluice show groups` and `sluice show meters` as text.

use serde_json::Value;

use super::flows::{Layout, count};
use super::printable;

/// What is shown.
pub(super) struct Kind {
    /// The end of the path of the entries, and of that of their counters.
    pub(super) path: &'static str,
    pub(super) statistics_path: &'static str,
    /// The key of the number in a text.
    key: &'static str,
    /// The list of a reply with counters, and the field with the number.
    list: &'static str,
    number: &'static str,
    packets: &'static str,
    bytes: &'static str,
}

pub(super) const GROUPS: Kind = Kind {
    path: "groups",
    statistics_path: "group-stats",
    key: "group_id=",
    list: "/reply/groups",
    number: "group_id",
    packets: "packet_count",
    bytes: "byte_count",
};

pub(super) const METERS: Kind = Kind {
    path: "meters",
    statistics_path: "meter-stats",
    key: "meter=",
    list: "/reply/meters",
    number: "meter_id",
    packets: "packet_in_count",
    bytes: "byte_in_count",
};

/// Each entry in the syntax of `ovs-ofctl`, with its counters as a comment, if the switch has counters of it.
pub(super) fn text(texts: &str, statistics: &Value, kind: &Kind, layout: Layout) -> String {
    let statistics = statistics.pointer(kind.list).and_then(Value::as_array);
    let statistics = statistics.map(Vec::as_slice).unwrap_or_default();
    let line = |entry: &str| {
        let of = number(entry, kind.key).and_then(|number| {
            let is_it = |it: &&Value| it.get(kind.number).and_then(Value::as_u64) == Some(number);
            statistics.iter().find(is_it)
        });
        let count = |field, one| count(of?, field, one);
        let counters = [
            count("ref_count", "reference"),
            count(kind.packets, "packet"),
            count(kind.bytes, "byte"),
        ];
        let counters: Vec<_> = counters.into_iter().flatten().collect();
        let entry = printable(entry);
        if counters.is_empty() {
            return entry + "\n";
        }
        format!("{entry}{}# {}\n", layout.separator(), counters.join(", "))
    };
    texts.lines().map(line).collect()
}

/// The number behind `key`.
fn number(entry: &str, key: &str) -> Option<u64> {
    let value = entry.split(',').find_map(|field| field.trim().strip_prefix(key))?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_and_meters_have_their_counters() {
        let statistics = json!({"reply": {"groups": [
            {"group_id": 12, "ref_count": 1, "packet_count": 3, "byte_count": 294},
        ]}});
        let texts = "group_id=1,type=all\ngroup_id=12,type=all,bucket=actions=group:1\n";
        assert_eq!(
            text(texts, &statistics, &GROUPS, Layout::Behind),
            "group_id=1,type=all\n\
             group_id=12,type=all,bucket=actions=group:1  # 1 reference, 3 packets, 294 bytes\n"
        );
        let statistics = json!({"reply": {"meters": [
            {"meter_id": 1, "ref_count": 0, "packet_in_count": u64::MAX, "byte_in_count": 5},
        ]}});
        assert_eq!(
            text("meter=1,kbps,band=type=drop,rate=8\n", &statistics, &METERS, Layout::Below),
            "meter=1,kbps,band=type=drop,rate=8\n    # 0 references, 5 bytes\n"
        );
    }
}
