//! One owned, version-neutral value for every message.

use super::codec::versions::*;
use super::codec::{Choice, Codec, experimenter_code};
use super::meter::MeterMod;
use super::multipart::{Multipart, Reply, Request};
use super::port::PortStatus;
use super::port_mod::PortMod;
use super::reader::Reader;
use super::rows::choice;
use super::value::{Misread, Plain, Value};
use crate::frame::HEADER_LEN;
use crate::{Frame, Inexpressible, Kind, Out, Result, Version};

choice! {
    /// A message of any version, with everything it says but its transaction id.
    ///
    /// Numbers are those of [`Kind`]; of Nicira's and the ONF's messages their type under the identity.
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
        /// A meter to add, change or delete. §7.3.4.4.
        MeterMod "meter_mod" (MeterMod) = { V1_3.. => 29 };
    }
}

impl Message {
    /// Reads `msg`.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    ///
    /// # Cost
    /// Copies everything.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        Self::parse_in(&mut Reader::new(msg.version(), msg.body(), HEADER_LEN), msg.kind())
    }

    /// Reads the body of a message of `kind`, all that `r` has left.
    pub(crate) fn parse_in(r: &mut Reader<'_>, kind: Kind) -> Result<Self> {
        let theirs = if kind == Kind::EXPERIMENTER { experimenter_code(r)? } else { None };
        let code = theirs.unwrap_or_else(|| kind.0.into());
        let read = Self::parse_as(code, r)?;
        r.finish("message")?;
        Ok(read)
    }

    /// Writes the message with the transaction id `xid`.
    ///
    /// # Errors
    /// Names what the version cannot say; nothing is written then.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "32 bits under the identity, 32 of it above"
    )]
    pub fn emit(&self, xid: u32, out: &mut Out<'_>) -> Result<(), Inexpressible> {
        let code = self.code(out.version())?;
        let kind = u16::try_from(code).map_or(Kind::EXPERIMENTER, Kind);
        out.message_with_xid(kind, xid, |out| {
            if code > u64::from(u16::MAX) {
                ((code >> 32) as u32).emit(out)?;
                (code as u32).emit(out)?;
            }
            self.emit_body(out)
        })
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
    use crate::model::{Band, MeterCommand, MeterFlags};

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
            meter_id: 3,
            bands: vec![Band::DscpRemark { rate: 10, burst_size: 20, prec_level: 1 }],
        });
        let octets = written(&meter, Version::V1_3).unwrap();
        assert_eq!(Message::parse(Frame::new(&octets).unwrap()), Ok(meter.clone()));
        let value = meter.to_value(Version::V1_3);
        assert_eq!(Message::from_value(&value, Version::V1_3), Ok(meter.clone()));
        let no = written(&meter, Version::V1_2).unwrap_err();
        assert_eq!(no.to_string(), "meter_mod needs 1.3, this is 1.2");
    }
}
