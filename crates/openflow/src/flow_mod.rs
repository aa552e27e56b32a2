//! `FLOW_MOD`: adds, modifies or deletes flow entries. §7.3.4.1.

use crate::model;
use crate::model::borrowed::{ByteSpan, UnparsedInstructions};
use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::{
    EncodeError, Encoder, FlowModCommand, FlowModFlags, GroupId, HEADER_LEN, Instruction,
    MessageType, PortNo, RawMessage, Result, Version, view,
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

/// A `FLOW_MOD` of any version, read in place.
///
/// [`new`](Self::new) checks all of it but the instructions. Values that a version does not have are those of
/// [`FlowMod::default`](model::FlowMod::default).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowMod<'a> {
    /// What to do.
    pub command: FlowModCommand,
    /// Opaque identifier chosen by the controller.
    pub cookie: u64,
    /// Restricts modifications and deletions to flow entries whose cookie equals `cookie` in these bits. Since 1.1.
    pub cookie_mask: u64,
    /// Table of the flow entry.
    pub table_id: u8,
    /// Seconds without a matching packet after which the flow entry expires; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which the flow entry expires; 0 is never.
    pub hard_timeout: u16,
    /// Priority of the flow entry.
    pub priority: u16,
    /// Packet buffered in the switch to which the flow entry is applied.
    pub buffer_id: Option<u32>,
    /// Restricts deletions to flow entries with an output to this port.
    pub out_port: PortNo,
    /// Restricts deletions to flow entries that use this group. Since 1.1.
    pub out_group: GroupId,
    /// Options.
    pub flags: FlowModFlags,
    /// Eviction precedence: less important flow entries are evicted first. Since 1.4.
    pub importance: u16,
    /// Packets to match.
    pub matching: view::Match<'a>,
    pub(crate) instructions: UnparsedInstructions<'a>,
    body: ByteSpan<'a>,
}

impl<'a> FlowMod<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// As for [`Message::parse`](crate::Message::parse), except that the instructions are not parsed.
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let mut r = Reader::new(msg.version().known()?, msg.body(), HEADER_LEN);
        let start = r.clone();
        let view = Self::take(&mut r)?;
        r.finish("flow_mod")?;
        Ok(Self { body: ByteSpan::between(&start, &r), ..view })
    }

    /// Values that a version does not have.
    pub(crate) fn none() -> Self {
        Self {
            command: FlowModCommand::ADD,
            cookie: 0,
            cookie_mask: 0,
            table_id: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: model::FlowMod::PRIORITY_DEFAULT,
            buffer_id: None,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowModFlags::default(),
            importance: 0,
            matching: view::Match::ALL,
            instructions: UnparsedInstructions(ByteSpan::NONE),
            body: ByteSpan::NONE,
        }
    }

    /// Parses the instructions; in 1.0 the actions.
    ///
    /// # Errors
    /// An invalid instruction, and its position in the message.
    ///
    /// # Cost
    /// Allocates the list.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        self.instructions.parse()
    }

    /// The same message, owned.
    ///
    /// # Errors
    /// As for [`instructions`](Self::instructions).
    ///
    /// # Cost
    /// Allocates the lists.
    pub fn to_flow_mod(&self) -> Result<model::FlowMod> {
        model::FlowMod::parse(&mut self.body.reader())
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

    /// A flow entry with a value in every field that `version` has.
    fn sample(version: Version) -> model::FlowMod {
        let since = |first, n: u16| if version < first { 0 } else { n };
        model::FlowMod {
            command: FlowModCommand::MODIFY,
            cookie: 7,
            cookie_mask: since(Version::V1_1, 8).into(),
            table_id: u8::try_from(since(Version::V1_1, 9)).unwrap(),
            idle_timeout: 60,
            hard_timeout: 61,
            priority: 62,
            buffer_id: Some(33),
            out_port: PortNo(34),
            out_group: if version < Version::V1_1 { GroupId::ANY } else { GroupId(35) },
            flags: FlowModFlags::CHECK_OVERLAP,
            importance: since(Version::V1_4, 36),
            matching: [Field::in_port(PortNo(1)), Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 9]))]
                .into(),
            instructions: vec![Instruction::apply([Action::output(PortNo(4))])],
        }
    }

    #[test]
    fn every_version_carries_the_fields_that_it_has() {
        for version in (1..=6).map(Version) {
            let owned = sample(version);
            let first = bytes(version, &owned).unwrap();
            let view = FlowMod::new(RawMessage::new(&first).unwrap()).unwrap();
            assert_eq!((view.command, view.table_id), (owned.command, owned.table_id), "{version}");
            let cookies = (owned.cookie, owned.cookie_mask);
            assert_eq!((view.cookie, view.cookie_mask), cookies, "{version}");
            assert_eq!((view.idle_timeout, view.hard_timeout), (60, 61), "{version}");
            assert_eq!((view.priority, view.buffer_id), (62, Some(33)), "{version}");
            assert_eq!((view.out_port, view.out_group), (PortNo(34), owned.out_group), "{version}");
            assert_eq!((view.flags, view.importance), (owned.flags, owned.importance), "{version}");
            assert_eq!(view.matching.to_match(), owned.matching, "{version}");
            assert_eq!(view.instructions().as_ref(), Ok(&owned.instructions), "{version}");
            assert_eq!(view.to_flow_mod().as_ref(), Ok(&owned), "{version}");
            assert_eq!(bytes(version, &view.to_flow_mod().unwrap()).unwrap(), first, "{version}");
        }
        assert_eq!(bytes(Version::V1_0, &sample(Version::V1_0)).unwrap().len(), 80);
    }

    #[test]
    fn invalid_instructions_are_refused_when_they_are_parsed() {
        let mut message = bytes(Version::V1_3, &sample(Version::V1_3)).unwrap();
        let at = message.len() - 24;
        message[at + 3] = 7;
        let view = FlowMod::new(RawMessage::new(&message).unwrap()).unwrap();
        let error = view.instructions().unwrap_err();
        assert_eq!(usize::from(error.at), at);
        assert_eq!(view.to_flow_mod(), Err(error));
    }

    #[test]
    fn a_second_table_requires_1_1() {
        let instructions = vec![Instruction::GotoTable { table_id: 1 }];
        let f = model::FlowMod { instructions, ..model::FlowMod::default() };
        let no = bytes(Version::V1_0, &f).unwrap_err();
        assert_eq!(no.to_string(), "goto_table requires OpenFlow 1.1; this session speaks 1.0");
    }
}
