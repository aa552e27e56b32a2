//! One owned, version-neutral value for every message.

use super::codec::versions::*;
use super::codec::{Choice, Codec, experimenters, named};
use super::group::GroupMod;
use super::meter::MeterMod;
use super::multipart::{Multipart, Reply, Request};
use super::port::PortStatus;
use super::port_mod::PortMod;
use super::queue::{QueueGetConfigReply, QueueGetConfigRequest};
use super::reader::Reader;
use super::rows::choice;
use super::table::{TableMod, TableStatus};
use super::value::{Misread, Plain, Value};
use crate::frame::HEADER_LEN;
use crate::{Error, Frame, Inexpressible, Kind, Out, Result, Version, Why};

choice! {
    /// A message of any version, with everything it says but its transaction id.
    ///
    /// Numbers are those of [`Kind`]; of a message of Nicira or the ONF its type under their identity.
    pub enum Message: "message" {
        /// Finish all before. §7.3.8.
        BarrierRequest "barrier_request" = { V1_0.. => 20 };
        /// All before is finished. §7.3.8.
        BarrierReply "barrier_reply" = { V1_0.. => 21 };
        /// Statistics or descriptions asked for. §7.3.5.
        MultipartRequest "multipart_request" (Multipart<Request>) = { V1_0.. => 18 };
        /// Statistics or descriptions. §7.3.5.
        MultipartReply "multipart_reply" (Multipart<Reply>) = { V1_0.. => 19 };
        /// A port came, went or changed. §7.4.3.
        PortStatus "port_status" (PortStatus) = { V1_0.. => 12 };
        /// A port to set. §7.3.4.3.
        PortMod "port_mod" (PortMod) = { V1_0.. => 16 };
        /// A table to set. §7.3.3.
        TableMod "table_mod" (TableMod) = { V1_1.. => 17 };
        /// What the queues of a port are, asked for; a multipart since 1.4. §7.3.6.
        QueueGetConfigRequest "queue_get_config_request" (QueueGetConfigRequest) = { V1_0..=V1_3 => 22 };
        /// What the queues of a port are; a multipart since 1.4. §7.3.6.
        QueueGetConfigReply "queue_get_config_reply" (QueueGetConfigReply) = { V1_0..=V1_3 => 23 };
        /// A table changed. OpenFlow 1.4.0 §7.4.5.
        TableStatus "table_status" (TableStatus) = { V1_4.. => 31 };
        /// A group to add, change or delete. §7.3.4.2. In 1.0 it is Nicira's.
        GroupMod "group_mod" (GroupMod) = { V1_0 => 0x2320_0000_001f, V1_1.. => 15 };
        /// A meter to add, change or delete. §7.3.4.4.
        MeterMod "meter_mod" (MeterMod) = { V1_3.. => 29 };
    }
}

impl Message {
    /// Reads `msg`.
    ///
    /// ```
    /// use sluice_wire::model::Message;
    /// use sluice_wire::{Frame, Out, Version};
    ///
    /// let barrier = [4, 20, 0, 8, 0, 0, 0, 7];
    /// let message = Message::parse(Frame::new(&barrier)?)?;
    /// assert_eq!(message, Message::BarrierRequest);
    ///
    /// // The same, for a switch that speaks 1.0, where a barrier has another number.
    /// let (mut tx, mut xid) = (Vec::new(), 1);
    /// message.emit(7, &mut Out::new(&mut tx, Version::V1_0, &mut xid))?;
    /// assert_eq!(tx, [1, 18, 0, 8, 0, 0, 0, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with it, and where. `Version` for one before 1.0 or after 1.5, unless it is a `HELLO`, which
    /// every version can read.
    ///
    /// # Cost
    /// Copies everything.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (version, kind) = (msg.version(), msg.kind());
        let known = (Version::V1_0..=Version::V1_5).contains(&version);
        if !known && (kind != Kind::HELLO || version < Version::V1_0) {
            return Err(Error::new("version", 0, Why::Version));
        }
        Self::parse_in(&mut Reader::new(version, msg.body(), HEADER_LEN), kind)
    }

    /// Reads the body of a message of `kind`, all that `r` has left.
    pub(crate) fn parse_in(r: &mut Reader<'_>, kind: Kind) -> Result<Self> {
        let code = experimenters::<Self>(kind.0, kind == Kind::EXPERIMENTER, 0, r)?;
        let read = named("message", Self::parse_as(code, r))?;
        r.finish("message")?;
        Ok(read)
    }

    /// Writes the message with the transaction id `xid`; [`parse`](Self::parse) has an example.
    ///
    /// # Errors
    /// Names what the version cannot say; nothing is written then.
    pub fn emit(&self, xid: u32, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        let kind = self.kind(out.version())?;
        let code = self.code(out.version())?;
        out.message_with_xid(kind, xid, |out| {
            if code > u64::from(u16::MAX) {
                code.emit(out)?;
            }
            self.emit_body(out)
        })
    }

    /// What it is in `version`: [`Kind::EXPERIMENTER`] for all that Nicira and the ONF added.
    ///
    /// # Errors
    /// Names the message if the version does not have it.
    pub fn kind(&self, version: Version) -> Result<Kind, Inexpressible> {
        let kind = u16::try_from(self.code(version)?).map_or(Kind::EXPERIMENTER, Kind);
        if Kind::from_wire(version, kind.to_wire(version)) == kind {
            return Ok(kind);
        }
        let row = Kind::ALL.iter().find(|row| row.0 == kind);
        let (what, needs) = row.map_or(("kind of message", None), |row| (row.1, Some(row.2)));
        Err(Inexpressible { what, version, needs: needs.filter(|&needs| needs > version) })
    }

    /// Its name in the neutral form, as `flow_mod`; `other` for what is not modelled.
    pub fn name(&self) -> &'static str {
        Choice::name(self)
    }

    /// The neutral form, in the words of `version`.
    pub fn to_value(&self, version: Version) -> Value {
        Plain::to_value(self, version)
    }

    /// Reads the neutral form.
    ///
    /// # Errors
    /// Where in it something is wrong, and what.
    pub fn from_value(value: &Value, version: Version) -> Result<Self, Misread> {
        Plain::from_value(value, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Band, MeterCommand, MeterFlags, MeterId};

    fn written(message: &Message, version: Version) -> Result<Vec<u8>, Inexpressible> {
        let (mut tx, mut xid) = (vec![], 1);
        message.emit(7, &mut Out::new(&mut tx, version, &mut xid))?;
        Ok(tx)
    }

    #[test]
    fn a_message_comes_back_from_octets_and_from_the_neutral_form() {
        let meter = Message::MeterMod(MeterMod {
            command: MeterCommand::ADD,
            flags: MeterFlags::KBPS | MeterFlags::BURST,
            meter_id: MeterId(3),
            bands: vec![Band::DscpRemark { rate: 10, burst_size: 20, prec_level: 1 }],
        });
        let octets = written(&meter, Version::V1_3).unwrap();
        assert_eq!(Message::parse(Frame::new(&octets).unwrap()), Ok(meter.clone()));
        let value = meter.to_value(Version::V1_3);
        assert_eq!(Message::from_value(&value, Version::V1_3), Ok(meter.clone()));
        let no = written(&meter, Version::V1_2).unwrap_err();
        assert_eq!(no.to_string(), "meter_mod needs 1.3, this is 1.2");
    }

    #[test]
    fn what_a_version_does_not_have_is_kept_whole() {
        let meter_mod_of_1_2 = [3, 29, 0, 10, 0, 0, 0, 7, 1, 2];
        let message = Message::parse(Frame::new(&meter_mod_of_1_2).unwrap()).unwrap();
        assert_eq!(message, Message::Other { code: 29, body: vec![1, 2] });
        assert_eq!(written(&message, Version::V1_2).unwrap(), meter_mod_of_1_2);
        let no = written(&message, Version::V1_0).unwrap_err();
        assert_eq!(no.to_string(), "METER_MOD needs 1.3, this is 1.0");

        let multipart_type_77 = [4, 18, 0, 17, 0, 0, 0, 7, 0, 77, 0, 0, 0, 0, 0, 0, 9];
        let message = Message::parse(Frame::new(&multipart_type_77).unwrap()).unwrap();
        assert_eq!(written(&message, Version::V1_3).unwrap(), multipart_type_77);
        assert_eq!(message.kind(Version::V1_3), Ok(Kind::MULTIPART_REQUEST));

        let gone_in_1_0 = [1, 200, 0, 9, 0, 0, 0, 7, 5];
        let message = Message::parse(Frame::new(&gone_in_1_0).unwrap()).unwrap();
        assert_eq!(written(&message, Version::V1_0).unwrap(), gone_in_1_0);
        assert!(written(&message, Version::V1_3).is_err());
    }

    #[test]
    fn versions_that_are_not_known_say_nothing_but_hello() {
        for version in [0, 7, 0x99] {
            let barrier = [version, 20, 0, 8, 0, 0, 0, 7];
            let error = Message::parse(Frame::new(&barrier).unwrap()).unwrap_err();
            assert_eq!(error, Error::new("version", 0, Why::Version));
        }
    }

    #[test]
    fn a_fault_names_the_field_and_its_place() {
        let whole = [4, 29, 0, 28, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3];
        let cut_at = |len: usize| {
            let mut cut = whole[..len].to_vec();
            cut[3] = u8::try_from(len).unwrap();
            Message::parse(Frame::new(&cut).unwrap()).unwrap_err().to_string()
        };
        assert_eq!(cut_at(9), "command at octet 8 is cut off");
        assert_eq!(cut_at(11), "flags at octet 10 is cut off");
        assert_eq!(cut_at(14), "meter_id at octet 12 is cut off");
    }
}
