//! Parsing and encoding of single message types, without [`Message`](crate::Message) around them.

use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::{
    Action, EncodeError, Encoder, FlowMod, FlowModCommand, FlowRemoved, HEADER_LEN, Hello,
    HelloElement, Instruction, Match, Message, MessageType, Port, PortStatus, RawMessage, Result,
    RoleRequest, SwitchConfig, SwitchFeatures, Version, Versions,
};

/// Parses the body of `msg`, which has a supported version.
fn parse_known<T: Codec>(what: &'static str, msg: RawMessage<'_>) -> Result<T> {
    msg.version().known()?;
    parse_body(what, msg)
}

/// Parses the body of `msg`.
fn parse_body<T: Codec>(what: &'static str, msg: RawMessage<'_>) -> Result<T> {
    let mut r = Reader::new(msg.version(), msg.body(), HEADER_LEN);
    let body = T::parse(&mut r)?;
    r.finish(what)?;
    Ok(body)
}

macro_rules! bodies {
    ($($name:ident = $what:literal;)*) => {$(
        impl $name {
            #[doc = concat!("Parses the body of the `", $what, "` in `msg`.")]
            ///
            /// # Errors
            /// What is wrong, and where.
            pub fn parse_raw(msg: RawMessage<'_>) -> Result<Self> {
                parse_known($what, msg)
            }
        }
    )*};
}

bodies! {
    SwitchFeatures = "features_reply";
    FlowRemoved = "flow_removed";
    PortStatus = "port_status";
    RoleRequest = "role_request";
    SwitchConfig = "switch_config";
}

impl Hello {
    /// Parses the body of the `hello` in `msg`, which may have any version.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse_raw(msg: RawMessage<'_>) -> Result<Self> {
        parse_body("hello", msg)
    }
}

impl SwitchFeatures {
    /// Whether `FEATURES_REPLY` of `version` lists the ports; if not, `PORT_DESC` does.
    pub const fn has_ports(version: Version) -> bool {
        version.0 < Version::V1_3.0
    }
}

impl FlowMod {
    /// Adds a flow entry that applies `actions` to packets that match.
    ///
    /// ```
    /// use sluice_openflow::{Action, Field, FlowMod, MacAddr, PortNo, Version};
    ///
    /// let matching = [Field::eth_dst(MacAddr([2, 0, 0, 0, 0, 1]))];
    /// let flow = FlowMod { priority: 100, ..FlowMod::add(matching, [Action::output(PortNo(3))]) };
    /// assert_eq!(flow.to_vec(Version::V1_0, 7)?.len(), 80);
    /// # Ok::<(), sluice_openflow::EncodeError>(())
    /// ```
    pub fn add(matching: impl Into<Match>, actions: impl Into<Vec<Action>>) -> Self {
        let instructions = vec![Instruction::apply(actions)];
        Self { matching: matching.into(), instructions, ..Self::default() }
    }

    /// Adds a flow entry that drops packets that match.
    pub fn drop(matching: impl Into<Match>) -> Self {
        Self { matching: matching.into(), ..Self::default() }
    }

    /// Deletes the flow entries of all tables (`table_id` 255, `OFPTT_ALL`) that `matching` covers.
    ///
    /// OpenFlow 1.0 has no table numbers: a deletion always applies to all tables there. OpenFlow 1.1 has no number for
    /// all tables: set the table.
    pub fn delete(matching: impl Into<Match>) -> Self {
        let (command, table_id) = (FlowModCommand::DELETE, Self::TABLE_ALL);
        Self { command, table_id, matching: matching.into(), ..Self::default() }
    }

    /// The bytes of the message in `version`, with the transaction id `xid`.
    ///
    /// # Errors
    /// States what the version cannot express.
    pub fn to_vec(&self, version: Version, xid: u32) -> Result<Vec<u8>, EncodeError> {
        let (mut bytes, mut next_xid) = (Vec::new(), xid);
        Encoder::new(&mut bytes, version, &mut next_xid).flow_mod(self)?;
        Ok(bytes)
    }
}

/// Parses the port descriptions in `bytes`, which start `at` bytes into a message.
///
/// # Errors
/// What is wrong, and where.
///
/// # Cost
/// Allocates the list.
pub fn ports(version: Version, bytes: &[u8], at: u16) -> Result<Vec<Port>> {
    Codec::parse(&mut Reader::new(version.known()?, bytes, at.into()))
}

impl Encoder<'_> {
    /// Appends any message with the next transaction ID and returns that ID.
    ///
    /// # Errors
    /// States what the version cannot express; nothing is appended then.
    pub fn encode(&mut self, message: &Message) -> Result<u32, EncodeError> {
        let xid = self.next_xid();
        message.encode(xid, self)?;
        Ok(self.take_xid())
    }

    /// Appends a `HELLO` for `versions`: the highest in the header, all of them in the bitmap. §7.5.1.
    ///
    /// If 1.0 is the highest version there is no bitmap, which 1.0 does not define.
    pub fn hello(&mut self, versions: Versions) -> u32 {
        let version = versions.highest().unwrap_or_else(|| self.version());
        let bitmap = HelloElement::VersionBitmap { bitmaps: vec![versions.0] };
        let elements = if version > Version::V1_0 { vec![bitmap] } else { vec![] };
        let (xid, hello) = (self.next_xid(), Hello { elements, extra: vec![] });
        let written = self.in_version(version).message(MessageType::HELLO, |out| hello.encode(out));
        written.unwrap_or(xid)
    }

    /// Appends the `FEATURES_REPLY` to the request `xid`, with the ports if the version lists them there. §7.3.1.
    ///
    /// # Errors
    /// States what the version cannot express.
    pub fn features_reply(&mut self, xid: u32, f: &SwitchFeatures) -> Result<(), EncodeError> {
        self.message_with_xid(MessageType::FEATURES_REPLY, xid, |out| f.encode(out))
    }

    /// Appends a `SET_CONFIG`; returns its transaction ID. §7.3.2.
    pub fn set_config(&mut self, config: SwitchConfig) -> u32 {
        let xid = self.next_xid();
        self.message(MessageType::SET_CONFIG, |out| config.encode(out)).unwrap_or(xid)
    }

    /// Appends the `GET_CONFIG_REPLY` to the request `xid`. §7.3.2.
    ///
    /// # Errors
    /// States what the version cannot express.
    pub fn get_config_reply(&mut self, xid: u32, config: SwitchConfig) -> Result<(), EncodeError> {
        self.message_with_xid(MessageType::GET_CONFIG_REPLY, xid, |out| config.encode(out))
    }

    /// Appends a `ROLE_REQUEST`; returns its transaction ID. §7.3.9.
    ///
    /// # Errors
    /// The version is before 1.2, which has no roles.
    pub fn role_request(&mut self, role: &RoleRequest) -> Result<u32, EncodeError> {
        self.message(MessageType::ROLE_REQUEST, |out| role.encode(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_in_1_0_does_not_use_the_table_extension() {
        let delete = FlowMod::delete(Match::default());
        let bytes = delete.to_vec(Version::V1_0, 1).unwrap();
        assert_eq!(bytes[56..58], [0, FlowModCommand::DELETE.0]);
        let bytes = delete.to_vec(Version::V1_3, 1).unwrap();
        assert_eq!(bytes[24..26], [FlowMod::TABLE_ALL, FlowModCommand::DELETE.0]);
    }
}
