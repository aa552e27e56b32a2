//! What an application said, in the words of a transcript.

use std::fmt;

use sluice_openflow::model::Oxm;
use sluice_openflow::{
    Action, FieldId, FlowMod, FlowModCommand, Instruction, Message, PortNo, RawMessage,
};

/// One message.
#[derive(Debug, Default)]
pub(super) struct SentMessage {
    /// What a transcript must have.
    must: Vec<String>,
    /// What it may have besides.
    may: Vec<String>,
}

impl fmt::Display for SentMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.must.join(" "))?;
        if self.may.is_empty() { Ok(()) } else { write!(f, "   ({})", self.may.join(" ")) }
    }
}

impl SentMessage {
    /// Reads `msg`; `frame` is the frame that was heard last.
    pub(super) fn new(msg: RawMessage<'_>, frame: &[u8]) -> Self {
        let mut said = Self::default();
        match Message::parse(msg) {
            Ok(message) => said.tell(message, frame),
            Err(error) => said.must.push(format!("unreadable: {error}")),
        }
        said
    }

    /// Whether `words` describe it.
    pub(super) fn is(&self, words: &[String]) -> bool {
        self.must.iter().all(|word| words.contains(word))
            && words.iter().all(|word| self.must.contains(word) || self.may.contains(word))
    }

    fn tell(&mut self, message: Message, heard: &[u8]) {
        match message {
            Message::PacketOut(p) => {
                self.must.push("packet_out".to_owned());
                self.must.push(actions_in_words(&p.actions));
                self.must.extend(p.buffer_id.map(|id| format!("buffer={id}")));
                let sent = if p.buffer_id.is_some() { &[] } else { heard };
                if p.data != sent {
                    self.must.push(format!("frame={:02x?}", p.data));
                }
                self.may.extend(p.in_port().map(|port| format!("in_port={port}")));
            }
            Message::FlowMod(f) => {
                self.must.push("flow_mod".to_owned());
                match f.command {
                    FlowModCommand::ADD => {}
                    FlowModCommand::DELETE => self.must.push("delete".to_owned()),
                    FlowModCommand::DELETE_STRICT => self.must.push("delete_strict".to_owned()),
                    FlowModCommand(n) => self.must.push(format!("command={n}")),
                }
                self.tell_rule(&f);
            }
            other => self.must.push(other.name().to_owned()),
        }
    }

    fn tell_rule(&mut self, f: &FlowMod) {
        if f.command == FlowModCommand::ADD {
            self.must.push(match &f.instructions[..] {
                [] => actions_in_words(&[]),
                [Instruction::ApplyActions { actions }] => actions_in_words(actions),
                [Instruction::Meter { meter_id }, Instruction::ApplyActions { actions }] => {
                    format!("meter={meter_id}+{}", actions_in_words(actions))
                }
                others => format!("{others:?}").replace(' ', ""),
            });
        }
        self.must.extend(f.buffer_id.map(|id| format!("buffer={id}")));
        let mut names = Vec::new();
        for field in f.matching.iter() {
            let name = match field.id {
                FieldId::IN_PORT => "in_port",
                FieldId::ETH_SRC => "src",
                FieldId::ETH_DST => "dst",
                FieldId::VLAN_VID => "vlan",
                id => id.row().map_or("unknown", |row| row.name),
            };
            names.push(name);
            self.may.push(match field.id {
                FieldId::VLAN_VID if field.value == 0 => "untagged".to_owned(),
                FieldId::VLAN_VID => format!("vlan={}", field.value & 0xfff),
                FieldId::ETH_SRC | FieldId::ETH_DST => {
                    let addr = u64::try_from(field.value).unwrap_or(u64::MAX);
                    format!("{name}={}", sluice_openflow::MacAddr::from_u64(addr))
                }
                _ => format!("{name}={}", field.value),
            });
        }
        names
            .sort_by_key(|&name| ["in_port", "src", "dst", "vlan"].iter().position(|&n| n == name));
        self.may.push(format!("match={}", names.join("+")));
        self.may.push(format!("idle={}", f.idle_timeout));
        self.may.push(format!("hard={}", f.hard_timeout));
        self.may.push(format!("priority={}", f.priority));
        self.may.push(format!("cookie={}", f.cookie));
        if f.table_id != 0 {
            self.must.push(format!("table={}", f.table_id));
        }
        if f.out_port != PortNo::ANY {
            self.must.push(format!("out_port={}", f.out_port));
        }
    }
}

fn actions_in_words(actions: &[Action]) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let word = |action: &Action| match action {
        Action::Output { port: PortNo::FLOOD, .. } => "flood".to_owned(),
        Action::Output { port: PortNo::CONTROLLER, .. } => "port=controller".to_owned(),
        Action::Output { port, .. } => format!("port={port}"),
        Action::Meter { meter_id } => format!("meter={meter_id}"),
        Action::SetField { field: Oxm::Field(field) } => {
            format!("{}:{}", field.id.name(), field.value)
        }
        other => format!("{other:?}").replace(' ', ""),
    };
    actions.iter().map(word).collect::<Vec<_>>().join("+")
}
