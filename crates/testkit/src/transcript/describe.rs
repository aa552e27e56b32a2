//! Describes a message from the application in the words of a transcript.

use std::fmt;

use sluice_openflow::{
    Action, FieldId, FlowMod, FlowModCommand, Instruction, MacAddr, Message, Oxm, PortNo,
    RawMessage,
};

/// A message that the application sent, as words.
#[derive(Debug, Default)]
pub(super) struct SentMessage {
    /// Words that a line of the transcript must have.
    required: Vec<String>,
    /// Words that it may have.
    optional: Vec<String>,
}

impl fmt::Display for SentMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.required.join(" "))?;
        if self.optional.is_empty() {
            Ok(())
        } else {
            write!(f, "   ({})", self.optional.join(" "))
        }
    }
}

impl SentMessage {
    /// Describes `msg`; `last_frame` is the frame of the last packet-in.
    pub(super) fn new(msg: RawMessage<'_>, last_frame: &[u8]) -> Self {
        let mut sent = Self::default();
        match Message::parse_raw(msg) {
            Ok(message) => sent.describe(message, last_frame),
            Err(error) => sent.required.push(format!("malformed message: {error}")),
        }
        sent
    }

    /// Whether `words` describe this message.
    pub(super) fn matches(&self, words: &[String]) -> bool {
        self.required.iter().all(|word| words.contains(word))
            && words.iter().all(|word| self.required.contains(word) || self.optional.contains(word))
    }

    fn describe(&mut self, message: Message, last_frame: &[u8]) {
        match message {
            Message::PacketOut(p) => {
                self.required.push("packet_out".to_owned());
                self.required.push(describe_actions(&p.actions));
                self.required.extend(p.buffer_id.map(|id| format!("buffer={id}")));
                let expected = if p.buffer_id.is_some() { &[] } else { last_frame };
                if p.data != expected {
                    self.required.push(format!("frame={:02x?}", p.data));
                }
                self.optional.push(format!("in_port={}", p.in_port()));
            }
            Message::FlowMod(f) => {
                self.required.push("flow_mod".to_owned());
                match f.command {
                    FlowModCommand::ADD => {}
                    FlowModCommand::DELETE => self.required.push("delete".to_owned()),
                    FlowModCommand::DELETE_STRICT => self.required.push("delete_strict".to_owned()),
                    FlowModCommand(n) => self.required.push(format!("command={n}")),
                }
                self.describe_flow_mod(&f);
            }
            other => self.required.push(other.name().to_owned()),
        }
    }

    fn describe_flow_mod(&mut self, f: &FlowMod) {
        if f.command == FlowModCommand::ADD {
            self.required.push(match &f.instructions[..] {
                [] => describe_actions(&[]),
                [Instruction::ApplyActions { actions }] => describe_actions(actions),
                [Instruction::Meter { meter_id }, Instruction::ApplyActions { actions }] => {
                    format!("meter={meter_id}+{}", describe_actions(actions))
                }
                others => format!("{others:?}").replace(' ', ""),
            });
        }
        self.required.extend(f.buffer_id.map(|id| format!("buffer={id}")));
        self.describe_match(f);
        self.optional.push(format!("idle_timeout={}", f.idle_timeout));
        self.optional.push(format!("hard_timeout={}", f.hard_timeout));
        self.optional.push(format!("priority={}", f.priority));
        self.optional.push(format!("cookie={}", f.cookie));
        if f.table_id != 0 {
            self.required.push(format!("table={}", f.table_id));
        }
        if f.out_port != PortNo::ANY {
            self.required.push(format!("out_port={}", f.out_port));
        }
    }

    fn describe_match(&mut self, f: &FlowMod) {
        let mut names = Vec::new();
        for field in f.matching.iter() {
            let name = field.id.row().map_or("unknown", |row| row.name);
            names.push(name);
            self.optional.push(match field.id {
                FieldId::VLAN_VID if field.value == 0 => "untagged".to_owned(),
                FieldId::VLAN_VID => format!("{name}={}", field.value & 0xfff),
                FieldId::ETH_SRC | FieldId::ETH_DST => {
                    let addr = u64::try_from(field.value).unwrap_or(u64::MAX);
                    format!("{name}={}", MacAddr::from_u64(addr))
                }
                _ => format!("{name}={}", field.value),
            });
        }
        let order = ["in_port", "eth_src", "eth_dst", "vlan_vid"];
        names.sort_by_key(|&name| order.iter().position(|&known| known == name));
        self.optional.push(format!("match={}", names.join("+")));
    }
}

fn describe_actions(actions: &[Action]) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let describe = |action: &Action| match action {
        Action::Output { port: PortNo::FLOOD, .. } => "flood".to_owned(),
        Action::Output { port, .. } => format!("output={port}").to_lowercase(),
        Action::Meter { meter_id } => format!("meter={meter_id}"),
        Action::SetField { field: Oxm::Field(field) } => {
            format!("set_{}={}", field.id.name(), field.value)
        }
        other => format!("{other:?}").replace(' ', ""),
    };
    actions.iter().map(describe).collect::<Vec<_>>().join("+")
}
