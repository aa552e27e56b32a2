//! `FLOW_MOD`: adds, modifies or deletes flow entries. §7.3.4.1.

use zerocopy::FromBytes;
use zerocopy::big_endian::{U16, U32};

use crate::model;
use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::raw_message::truncated;
use crate::{
    EncodeError, Encoder, FlowModCommand, HEADER_LEN, MessageType, RawMessage, Result, Version,
    buffered,
};

impl Encoder<'_> {
    /// Appends a `FLOW_MOD`; returns its transaction ID.
    ///
    /// In OpenFlow 1.0, a deletion from all tables (`table_id` 255) is encoded without a table, which means the same.
    ///
    /// # Errors
    /// States what the version cannot express; nothing is appended then.
    pub fn flow_mod(&mut self, f: &model::FlowMod) -> Result<u32, EncodeError> {
        let deletes = [FlowModCommand::DELETE, FlowModCommand::DELETE_STRICT].contains(&f.command);
        if f.table_id == model::FlowMod::TABLE_ALL && deletes && self.version() == Version::V1_0 {
            // The table would be encoded in the command, which switches refuse unless an extension is enabled.
            let all_tables = model::FlowMod { table_id: 0, ..f.clone() };
            return self.message(MessageType::FLOW_MOD, |out| all_tables.encode(out));
        }
        self.message(MessageType::FLOW_MOD, |out| f.encode(out))
    }

    /// Makes the switch send packets without a matching flow entry to the controller. Appends a
    /// [table-miss entry](model::FlowMod::table_miss) from 1.3 on; earlier versions need none. §5.4.
    ///
    /// # Errors
    /// Those of [`flow_mod`](Self::flow_mod).
    pub fn send_misses_up(&mut self, max_len: u16) -> Result<(), EncodeError> {
        if self.version() < Version::V1_3 {
            return Ok(());
        }
        self.flow_mod(&model::FlowMod::table_miss(max_len)).map(drop)
    }
}

/// A `FLOW_MOD` of any version, of which command and buffer are read in place.
#[derive(Debug, Clone, Copy)]
pub struct FlowMod<'a> {
    /// Command.
    pub command: FlowModCommand,
    /// Packet buffered in the switch to which the flow entry is applied.
    pub buffer_id: Option<u32>,
    msg: RawMessage<'a>,
}

/// Length up to the actions of 1.0, and up to the match of later versions.
const FIXED_1_0: usize = 72;
const FIXED: usize = 48;

impl<'a> FlowMod<'a> {
    /// Parses the fixed part of `msg`.
    ///
    /// # Errors
    /// `Truncated` if the message is shorter.
    #[inline]
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let bytes = msg.bytes();
        if msg.version() == Version::V1_0 {
            let short = || truncated("flow_mod", 8, FIXED_1_0 - 8, bytes.len() - HEADER_LEN);
            let fixed = bytes.first_chunk::<FIXED_1_0>().ok_or_else(short)?;
            let (_, command) = fixed.split_at(56);
            let (command, _) = U16::ref_from_prefix(command).map_err(|_| short())?;
            let (buffer_id, _) = U32::ref_from_prefix(fixed.split_at(64).1).map_err(|_| short())?;
            #[expect(clippy::cast_possible_truncation, reason = "the high byte is an extension's")]
            let command = FlowModCommand(command.get() as u8);
            return Ok(Self { command, buffer_id: buffered(buffer_id.get()), msg });
        }
        let short = || truncated("flow_mod", 8, FIXED - 8, bytes.len() - HEADER_LEN);
        let fixed = bytes.first_chunk::<FIXED>().ok_or_else(short)?;
        let (buffer_id, _) = U32::ref_from_prefix(fixed.split_at(32).1).map_err(|_| short())?;
        let command = FlowModCommand(fixed[25]);
        Ok(Self { command, buffer_id: buffered(buffer_id.get()), msg })
    }

    /// Parses the whole message.
    ///
    /// # Errors
    /// As for [`Message::parse`](crate::Message::parse).
    ///
    /// # Cost
    /// Allocates the lists.
    pub fn to_flow_mod(self) -> Result<model::FlowMod> {
        let mut r = Reader::new(self.msg.version(), self.msg.body(), HEADER_LEN);
        let read = model::FlowMod::parse(&mut r)?;
        r.finish("flow_mod")?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Field, Instruction, MacAddr, PortNo};

    fn bytes(version: Version, f: &model::FlowMod) -> Result<Vec<u8>, EncodeError> {
        let (mut tx, mut xid) = (vec![], 1);
        Encoder::new(&mut tx, version, &mut xid).flow_mod(f)?;
        Ok(tx)
    }

    #[test]
    fn a_parsed_flow_mod_is_encoded_as_the_same_bytes() {
        let actions = [Action::output(PortNo(4))];
        let f = model::FlowMod {
            command: FlowModCommand::MODIFY,
            cookie: 7,
            idle_timeout: 60,
            buffer_id: Some(33),
            matching: [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9]))]
                .into(),
            instructions: vec![Instruction::apply(actions)],
            ..model::FlowMod::default()
        };
        for version in (1..=6).map(Version) {
            let first = bytes(version, &f).unwrap();
            let view = FlowMod::new(RawMessage::new(&first).unwrap()).unwrap();
            assert_eq!((view.command, view.buffer_id), (FlowModCommand::MODIFY, Some(33)));
            assert_eq!(bytes(version, &view.to_flow_mod().unwrap()).unwrap(), first, "{version}");
        }
        assert_eq!(bytes(Version::V1_0, &f).unwrap().len(), 80);
    }

    #[test]
    fn a_second_table_requires_1_1() {
        let instructions = vec![Instruction::GotoTable { table_id: 1 }];
        let f = model::FlowMod { instructions, ..model::FlowMod::default() };
        let no = bytes(Version::V1_0, &f).unwrap_err();
        assert_eq!(no.to_string(), "goto_table requires OpenFlow 1.1; this session speaks 1.0");
    }
}
