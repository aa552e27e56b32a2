//! `sluice show flows` as text.

use std::io::{IsTerminal as _, stdout};

use serde_json::Value;

use super::{owner, printable};

/// Where the comment of a flow entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// On a line of its own below the entry: for a terminal.
    Below,
    /// Behind the entry, so that a line has all of it: for `grep` and other programs.
    Behind,
}

impl Layout {
    /// What is between an entry and its comment.
    pub(super) fn separator(self) -> &'static str {
        match self {
            Self::Below => "\n    ",
            Self::Behind => "  ",
        }
    }

    pub(super) fn of_stdout() -> Self {
        if stdout().is_terminal() { Self::Below } else { Self::Behind }
    }
}

/// Each flow entry in the syntax of `ovs-ofctl`, with its owner and its counters as a comment.
pub(super) fn text(document: &Value, layout: Layout) -> String {
    let flows = document.get("flows").and_then(Value::as_array);
    let separator = layout.separator();
    let line = |flow: &Value| {
        let entry = flow.get("text").and_then(Value::as_str).map(printable).unwrap_or_default();
        format!("{entry}{separator}# {}{}\n", owner(flow), counters(flow))
    };
    flows.into_iter().flatten().map(line).collect()
}

/// `, 12 packets, 1176 bytes`; a counter that the switch does not have is left out.
fn counters(flow: &Value) -> String {
    let count = |field: &str, one: &str| count(flow.get("stats")?, field, one);
    let counters = [count("packet_count", "packet"), count("byte_count", "byte")];
    counters.into_iter().flatten().flat_map(|it| [", ".to_owned(), it]).collect()
}

/// `12 packets`; `None` if the switch does not count them.
pub(super) fn count(statistics: &Value, field: &str, one: &str) -> Option<String> {
    let count = statistics.get(field)?.as_u64()?;
    let plural = if count == 1 { "" } else { "s" };
    // All ones is a counter that is not available (§7.3.5.2).
    (count != u64::MAX).then(|| format!("{count} {one}{plural}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flow_entries_have_their_owner_and_their_counters() {
        let document = json!({ "flows": [
            { "owner": "forwarding", "text": "priority=100,ip,actions=output:2",
              "stats": { "packet_count": 12, "byte_count": 1176 } },
            { "owner": "static", "static_entry": "block-h3", "text": "priority=9,actions=drop",
              "stats": { "packet_count": 1, "byte_count": u64::MAX } },
            { "owner": null, "static_entry": null, "text": "priority=0,actions=NORMAL", "stats": {} },
        ]});
        assert_eq!(
            text(&document, Layout::Behind),
            "priority=100,ip,actions=output:2  # forwarding, 12 packets, 1176 bytes\n\
             priority=9,actions=drop  # static entry block-h3, 1 packet\n\
             priority=0,actions=NORMAL  # foreign\n"
        );
        let below = text(&document, Layout::Below);
        assert!(
            below.starts_with(
                "priority=100,ip,actions=output:2\n    # forwarding, 12 packets, 1176 bytes\n"
            ),
            "{below}"
        );
    }
}
