//! Whole messages as text for people, generated from their neutral form.

use core::fmt::Write as _;

use crate::Version;
use crate::model::value::NeutralForm as _;
use crate::model::{Action, FlowMod, Instruction, Match, Message, Value};

impl Message {
    /// The message as text, in the style of `ovs-ofctl ofp-print`; the first line has its name, version and
    /// transaction ID. Flow entries, groups, meters and actions use the syntax of `ovs-ofctl`.
    ///
    /// # Cost
    /// Generates the neutral form first.
    pub fn to_text(&self, version: Version, xid: u32) -> String {
        let value = self.to_value(version);
        let mut text = format!("{} (OF{version}) (xid={xid:#x}):", name(self, &value));
        if let Some(one_line) = special(self) {
            let _ = write!(text, " {one_line}");
            return text;
        }
        let mut block = Block { text, version };
        match (self, value.get("body")) {
            // The type of the body is already part of the name.
            (Self::MultipartRequest(_) | Self::MultipartReply(_), Some(body)) => {
                block.entries(&value, 1, &["type", "body"]);
                block.entries(body, 1, &["type"]);
            }
            _ => block.entries(&value, 1, &["type"]),
        }
        block.text
    }
}

/// Name as Open vSwitch prints it: `OFPT_FLOW_MOD`, `OFPST_FLOW reply`, `NXT_…`.
fn name(message: &Message, value: &Value) -> String {
    let kind = |value: &Value| match value.get("type") {
        Some(Value::Text(text)) => text.to_ascii_uppercase(),
        _ => String::new(),
    };
    let inner = |direction: &str| {
        let body = value.get("body").map(&kind).unwrap_or_default();
        match body.strip_prefix("NICIRA_").or_else(|| body.strip_prefix("NX_")) {
            Some(rest) => format!("NXST_{rest} {direction}"),
            None => format!("OFPST_{body} {direction}"),
        }
    };
    match message {
        Message::MultipartRequest(_) => inner("request"),
        Message::MultipartReply(_) => inner("reply"),
        _ => {
            let all = kind(value);
            match all.strip_prefix("NICIRA_").or_else(|| all.strip_prefix("NX_")) {
                Some(rest) => format!("NXT_{rest}"),
                None => format!("OFPT_{all}"),
            }
        }
    }
}

/// Messages whose whole content has a syntax of its own.
fn special(message: &Message) -> Option<String> {
    let (name, code, text) = match message {
        Message::NxFlowMod(flow) => {
            (flow.command.name(), flow.command.0.into(), FlowMod::from(flow).to_text())
        }
        Message::FlowMod(flow) => (flow.command.name(), flow.command.0.into(), flow.to_text()),
        Message::GroupMod(group) => (group.command.name(), group.command.0.into(), group.to_text()),
        Message::MeterMod(meter) => (meter.command.name(), meter.command.0.into(), meter.to_text()),
        _ => return None,
    };
    Some(format!("{} {text}", command_word(name, code)))
}

/// `ADD`, `DELETE_STRICT`, or `cmd:9` for a command without a name.
fn command_word(name: Option<&str>, code: u64) -> String {
    name.map_or_else(|| format!("cmd:{code}"), str::to_owned)
}

/// Text under construction.
struct Block {
    text: String,
    version: Version,
}

impl Block {
    /// Appends the entries of a map: scalars in the current line, then maps and lists in lines of their own.
    fn entries(&mut self, value: &Value, depth: usize, without: &[&str]) {
        let Value::Map(entries) = value else {
            let _ = write!(self.text, " {}", scalar(value));
            return;
        };
        let mut long = Vec::new();
        for (name, value) in entries {
            if without.contains(&name.as_ref()) || *value == Value::Null {
                continue;
            }
            match short(name, value, self.version) {
                Some(text) => {
                    let _ = write!(self.text, " {text}");
                }
                None => long.push((name, value)),
            }
        }
        for (name, value) in long {
            let items =
                if let Value::List(list) = value { list } else { core::slice::from_ref(value) };
            for item in items {
                let _ = write!(self.text, "\n{}{name}:", " ".repeat(depth));
                self.entries(item, depth + 1, &[]);
            }
        }
    }
}

/// An entry that fits into the current line.
fn short(name: &str, value: &Value, version: Version) -> Option<String> {
    if let Some(text) = with_own_syntax(name, value, version) {
        return Some(text);
    }
    let plain = |value: &Value| !matches!(value, Value::Map(_) | Value::List(_));
    match value {
        Value::Map(entries) if entries.is_empty() => Some(format!("{name}={{}}")),
        Value::List(list) if list.iter().all(plain) => {
            let items: Vec<_> = list.iter().map(scalar).collect();
            Some(format!("{name}=[{}]", items.join(",")))
        }
        Value::Number(n) if name.starts_with("cookie") => Some(format!("{name}={n:#x}")),
        value if plain(value) => Some(format!("{name}={}", scalar(value))),
        _ => None,
    }
}

/// Matches, instructions and actions, which have a syntax of their own.
fn with_own_syntax(name: &str, value: &Value, version: Version) -> Option<String> {
    if let "matching" | "match" = name {
        let matching = Match::from_value(value, version).ok()?.to_text();
        return Some(format!("match={}", if matching.is_empty() { "any" } else { &matching }));
    }
    if name == "instructions" {
        let instructions = Vec::<Instruction>::from_value(value, version).ok()?;
        return Some(format!("actions={}", Instruction::list_to_text(&instructions)));
    }
    if name == "actions" {
        let actions = Vec::<Action>::from_value(value, version).ok()?;
        return Some(format!("actions={}", Action::list_to_text(&actions)));
    }
    None
}

/// A value without parts.
fn scalar(value: &Value) -> String {
    match value {
        Value::Bool(yes) => yes.to_string(),
        Value::Number(n) => n.to_string(),
        Value::Text(text) => {
            let plain = |c: char| c.is_alphanumeric() || "_-.:/+*@#()".contains(c);
            let bare = !text.is_empty() && text.chars().all(plain);
            if bare { text.clone() } else { format!("{text:?}") }
        }
        Value::Null | Value::List(_) | Value::Map(_) => "none".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MeterBand, MeterCommand, MeterFlags, MeterId, MeterMod};

    #[test]
    fn the_first_line_has_name_version_and_transaction_id() {
        let barrier = Message::BarrierRequest.to_text(Version::V1_4, 9);
        assert_eq!(barrier, "OFPT_BARRIER_REQUEST (OF1.4) (xid=0x9):");
        let meter = Message::MeterMod(MeterMod {
            command: MeterCommand::ADD,
            flags: MeterFlags::KBPS,
            meter_id: MeterId(5),
            bands: vec![MeterBand::Drop { rate: 3, burst_size: 0 }],
        });
        let text = "OFPT_METER_MOD (OF1.3) (xid=0x5): ADD meter=5,kbps,bands=type=drop,rate=3";
        assert_eq!(meter.to_text(Version::V1_3, 5), text);
    }

    #[test]
    fn statistics_follow_in_lines_below_the_name() {
        let bytes = [
            4, 19, 0, 80, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 64, 7, 0, 0, 0, 0, 3, 0, 0, 0, 0,
            0x80, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1,
            0, 0, 0, 0, 0, 0, 0, 60, 0, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 8, 2, 0, 0, 0,
        ];
        let frame = crate::RawMessage::new(&bytes).unwrap();
        let text = Message::parse_raw(frame).unwrap().to_text(Version::V1_3, 2);
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "OFPST_FLOW_DESC reply (OF1.3) (xid=0x2): flags=[]", "{text}");
        assert!(rest.contains("table_id=7") && rest.contains("cookie=0x9"), "{text}");
        assert!(rest.contains("match=any") && rest.contains("actions=goto_table:2"), "{text}");
    }

    #[test]
    fn lists_of_maps_are_printed_in_lines_of_their_own() {
        let text = |text: &str| Value::text(text);
        let port =
            |n| Value::Map(vec![("no".into(), Value::Number(n)), ("name".into(), text("a b"))]);
        let value = Value::Map(vec![
            ("type".into(), text("x")),
            ("ports".into(), Value::List(vec![port(1), port(2)])),
            ("flags".into(), Value::List(vec![text("more"), Value::Number(8)])),
            ("desc".into(), Value::Map(vec![("nothing".into(), Value::Null)])),
        ]);
        let mut block = Block { text: "X:".into(), version: Version::V1_3 };
        block.entries(&value, 1, &["type"]);
        let lines =
            "X: flags=[more,8]\n ports: no=1 name=\"a b\"\n ports: no=2 name=\"a b\"\n desc:";
        assert_eq!(block.text, lines);
    }
}
