//! `MULTIPART_REQUEST`, `MULTIPART_REPLY`: statistics and descriptions. §7.3.5.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::model::MultipartReply;
use crate::model::codec::{Choice, Codec, NICIRA};
use crate::model::multipart::{multipart_code, nicira_header_len};
use crate::model::reader::Reader;
use crate::raw_message::truncated;
use crate::{EncodeError, Encoder, MessageType, Port, PortNo, RawMessage, Result, Version};

/// Type of a multipart request or reply, the same number in all versions. An open set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MultipartType(pub u16);

impl MultipartType {
    /// Manufacturer, hardware, software, serial number.
    pub const DESC: Self = Self(0);
    /// Flow entries; `FLOW_DESC` in 1.5.
    pub const FLOW: Self = Self(1);
    /// Sums of the counters of flow entries.
    pub const AGGREGATE: Self = Self(2);
    /// Counters of tables.
    pub const TABLE: Self = Self(3);
    /// Counters of ports. Type 4 in all versions.
    pub const PORT_STATS: Self = Self(4);
    /// Supported meters. Since 1.3.
    pub const METER_FEATURES: Self = Self(11);
    /// Capabilities of tables. Since 1.3.
    pub const TABLE_FEATURES: Self = Self(12);
    /// Descriptions of ports. Since 1.3.
    pub const PORT_DESC: Self = Self(13);
    /// Counters of flow entries. Since 1.5.
    pub const FLOW_STATS: Self = Self(17);
    /// Defined by an experimenter.
    pub const EXPERIMENTER: Self = Self(0xffff);
}

impl MultipartReply {
    /// Parses the body of a reply of type `kind`, reassembled from all its messages.
    ///
    /// # Errors
    /// What is wrong, and where, counted from the start of the body; `Version` for an unsupported version.
    ///
    /// # Cost
    /// Allocates its lists.
    pub fn parse_body(version: Version, kind: MultipartType, body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(version.known()?, body, 0);
        let code = multipart_code::<Self>(kind.0, &mut r)?;
        let reply = Self::parse_variant(code, &mut r)?;
        r.finish("multipart reply")?;
        Ok(reply)
    }
}

/// `OFPMPF_REPLY_MORE`, `OFPMPF_REQ_MORE`.
const MORE: u16 = 1;

/// Start of requests and replies; four bytes of padding follow since 1.1.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    kind: U16,
    flags: U16,
}

/// One message of a multipart request or reply, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multipart<'a> {
    /// Type of the request or reply.
    pub kind: MultipartType,
    /// Whether more messages of the same request or reply follow.
    pub more: bool,
    /// Body of this message.
    pub body: &'a [u8],
}

impl<'a> Multipart<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// `Truncated` if the fixed part is incomplete, `Version` for an unsupported version.
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let version = msg.version().known()?;
        let (fixed, rest) = msg.fixed::<Fixed>("multipart")?;
        let body = rest.get(pad_len(version)..);
        Ok(Self {
            kind: MultipartType(fixed.kind.get()),
            more: fixed.flags.get() & MORE != 0,
            body: body.ok_or_else(|| truncated("multipart", 12, 4, rest.len()))?,
        })
    }

    /// The body of a message that is not the first one of a reply in `version`: without the header that each message of an
    /// experimenter's reply has (`ofp_experimenter_multipart_header`, §7.3.5.17).
    pub fn continuation(self, version: Version) -> &'a [u8] {
        let id = self.body.first_chunk().map(|id| u32::from_be_bytes(*id));
        let header_len = match (self.kind, id) {
            (MultipartType::EXPERIMENTER, Some(NICIRA)) => nicira_header_len(version),
            // In 1.0 and 1.1, only the experimenter ID is common to all.
            (MultipartType::EXPERIMENTER, _) if version < Version::V1_2 => 4,
            (MultipartType::EXPERIMENTER, _) => 8,
            _ => 0,
        };
        self.body.get(header_len..).unwrap_or_default()
    }

    fn encode(self, out: &mut Encoder<'_>) {
        let flags = if self.more { MORE } else { 0 };
        out.put(&Fixed { kind: self.kind.0.into(), flags: flags.into() });
        let pad = [0u8; 4];
        out.put(pad.get(..pad_len(out.version())).unwrap_or_default());
        out.put(self.body);
    }
}

fn pad_len(version: Version) -> usize {
    if version == Version::V1_0 { 0 } else { 4 }
}

impl Encoder<'_> {
    /// Appends one message of a request or reply.
    ///
    /// # Errors
    /// The body is too long.
    pub(crate) fn multipart(
        &mut self,
        direction: MessageType,
        xid: u32,
        part: Multipart<'_>,
    ) -> Result<(), EncodeError> {
        self.message_with_xid(direction, xid, |out| {
            part.encode(out);
            Ok(())
        })
    }

    /// Appends a `MULTIPART_REQUEST` in one message; returns its transaction ID.
    ///
    /// # Errors
    /// The body is too long.
    pub fn multipart_request(
        &mut self,
        kind: MultipartType,
        body: &[u8],
    ) -> Result<u32, EncodeError> {
        self.message(MessageType::MULTIPART_REQUEST, |out| {
            Multipart { kind, more: false, body }.encode(out);
            Ok(())
        })
    }

    /// Appends one message of the `MULTIPART_REPLY` to the request `xid`.
    ///
    /// # Errors
    /// The body is too long.
    pub fn multipart_reply(&mut self, xid: u32, part: Multipart<'_>) -> Result<(), EncodeError> {
        self.multipart(MessageType::MULTIPART_REPLY, xid, part)
    }

    /// Appends a request for the descriptions of all ports; returns its transaction ID.
    ///
    /// # Errors
    /// The version is before 1.3, in which `FEATURES_REPLY` lists the ports.
    pub fn port_desc_request(&mut self) -> Result<u32, EncodeError> {
        self.needs(Version::V1_3, "port_desc")?;
        // In 1.5 the request names a port; the wildcard is all ports. OpenFlow 1.5.0 §7.3.5.7.
        let any = [U32::new(PortNo::ANY.0), U32::ZERO];
        let body = if self.version() >= Version::V1_5 { any.as_bytes() } else { &[] };
        self.multipart_request(MultipartType::PORT_DESC, body)
    }

    /// Appends the `PORT_DESC` reply to the request `xid`, in as many messages as it takes.
    ///
    /// # Errors
    /// States what the version cannot express.
    pub fn port_desc_reply(&mut self, xid: u32, ports: &[Port]) -> Result<(), EncodeError> {
        self.needs(Version::V1_3, "port_desc")?;
        let kind = MultipartType::PORT_DESC;
        if ports.is_empty() {
            return self.multipart_reply(xid, Multipart { kind, more: false, body: &[] });
        }
        let chunks = ports.chunks(PORTS_PER_PART);
        let last = chunks.len() - 1;
        for (n, part) in chunks.enumerate() {
            self.message_with_xid(MessageType::MULTIPART_REPLY, xid, |out| {
                Multipart { kind, more: n < last, body: &[] }.encode(out);
                part.iter().try_for_each(|port| port.encode(out))
            })?;
        }
        Ok(())
    }
}

/// Ports per message: at about 72 bytes each, well below the maximum message length of 65 535.
const PORTS_PER_PART: usize = 800;

const _: () = assert!(PORTS_PER_PART * 72 + 16 <= 0xffff);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports;

    #[test]
    fn port_descriptions_are_split_over_messages() {
        for version in [Version::V1_3, Version::V1_4, Version::V1_5] {
            let port = Port { port_no: PortNo(1), name: "eth1".into(), ..Port::default() };
            let (mut tx, mut xid) = (vec![], 1);
            let told = vec![port; 1500];
            Encoder::new(&mut tx, version, &mut xid).port_desc_reply(7, &told).unwrap();
            let (first, rest) = crate::split_message(&tx).unwrap().unwrap();
            let (second, rest) = crate::split_message(rest).unwrap().unwrap();
            assert!(rest.is_empty());
            let (first, second) = (Multipart::new(first).unwrap(), Multipart::new(second).unwrap());
            assert!(first.more && !second.more);
            let mut heard = ports(version, first.body, 16).unwrap();
            heard.extend(ports(version, second.body, 16).unwrap());
            assert_eq!(heard, told);
        }
    }
}
