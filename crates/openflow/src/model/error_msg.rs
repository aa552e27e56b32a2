//! `ERROR`: a request failed. §7.4.4.

use super::codec::Codec;
use super::errors::{ErrorCode, ErrorNumbers, ErrorReason, ErrorRow, ErrorType};
use super::reader::Reader;
use super::value::{
    Entries, NeutralForm, Value, ValueError, code_from_value, code_to_value, number_to_value,
};
use crate::{EncodeError, Encoder, Result, Version};

/// A request failed. §7.4.4.
///
/// The neutral form names `kind` and `code`. An experimenter error has the `kind` `experimenter`, the `experimenter`
/// ID and its `code`; a vendor error of 1.0 or 1.1 has the `kind` `vendor`, the `vendor` ID, its `vendor_type` and
/// `code`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorMsg {
    /// Type and code.
    pub reason: ErrorReason,
    /// The beginning of the failed request, at least 64 bytes if it is that long; for `HELLO_FAILED` a text.
    pub data: Vec<u8>,
}

/// Error type of Nicira's vendor errors in 1.0 and 1.1.
const NXET_VENDOR: u16 = 0xb0c2;
/// Error code of Nicira's vendor errors in 1.0 and 1.1.
const NXVC_VENDOR_ERROR: u16 = 0;
/// Error type of experimenter errors since 1.2.
const EXPERIMENTER: u16 = 0xffff;

/// Encoded as type and code, followed by what the experimenter or vendor adds.
impl Codec for ErrorReason {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let (version, kind, code) = (r.version(), r.u16("type")?, r.u16("code")?);
        let numbers = match (kind, code) {
            (EXPERIMENTER, _) if version >= Version::V1_2 => {
                ErrorNumbers::Experimenter(r.u32("experimenter")?, code)
            }
            (NXET_VENDOR, NXVC_VENDOR_ERROR) if version < Version::V1_2 && r.len() >= 8 => {
                ErrorNumbers::Vendor(r.u32("vendor")?, r.u16("type")?, r.u16("code")?)
            }
            _ => ErrorNumbers::Standard(kind, code),
        };
        Ok(Self::from_numbers(numbers, version))
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        match self.numbers(out.version())? {
            ErrorNumbers::Standard(kind, code) => {
                kind.encode(out)?;
                code.encode(out)
            }
            ErrorNumbers::Vendor(vendor, kind, code) => {
                NXET_VENDOR.encode(out)?;
                NXVC_VENDOR_ERROR.encode(out)?;
                vendor.encode(out)?;
                kind.encode(out)?;
                code.encode(out)
            }
            ErrorNumbers::Experimenter(experimenter, exp_type) => {
                EXPERIMENTER.encode(out)?;
                exp_type.encode(out)?;
                experimenter.encode(out)
            }
        }
    }
}

impl Codec for ErrorMsg {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { reason: Codec::parse(r)?, data: Codec::parse(r)? })
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        self.reason.encode(out)?;
        self.data.encode(out)
    }
}

impl NeutralForm for ErrorMsg {
    fn to_value(&self, version: Version) -> Value {
        let name = ErrorRow::by_reason(self.reason).map(|row| row.name_in(version));
        let mut map: Vec<(_, Value)> = Vec::new();
        match self.reason {
            ErrorReason::Standard { kind, code } => {
                map.push(("kind".into(), kind.to_value(version)));
                map.push(("code".into(), code_to_value(name, code.0)));
            }
            ErrorReason::Experimenter { experimenter, exp_type } => {
                map.push(("kind".into(), Value::text("experimenter")));
                map.push(("experimenter".into(), number_to_value(experimenter)));
                map.push(("code".into(), code_to_value(name, exp_type)));
            }
            ErrorReason::Vendor { vendor, kind, code } => {
                map.push(("kind".into(), Value::text("vendor")));
                map.push(("vendor".into(), number_to_value(vendor)));
                map.push(("vendor_type".into(), number_to_value(kind)));
                map.push(("code".into(), number_to_value(code)));
            }
        }
        map.push(("data".into(), self.data.to_value(version)));
        Value::Map(map)
    }

    fn from_value(value: &Value, version: Version) -> Result<Self, ValueError> {
        let mut entries = Entries::of(value)?;
        let kind = entries.take("kind").ok_or_else(|| ValueError::new("missing entry `kind`"))?;
        let given = entries.take("code").ok_or_else(|| ValueError::new("missing entry `code`"))?;
        let coded = |kind| code_of(kind, given, version).map_err(|e| e.under("code"));
        let reason = match kind {
            Value::Text(text) if text == "vendor" => ErrorReason::Vendor {
                vendor: entries.read("vendor", version)?.unwrap_or_default(),
                kind: entries.read("vendor_type", version)?.unwrap_or_default(),
                code: coded(None)?.try_into().map_err(|_| too_large().under("code"))?,
            },
            Value::Text(text) if text == "experimenter" => ErrorReason::Experimenter {
                experimenter: entries.read("experimenter", version)?.unwrap_or_default(),
                exp_type: coded(Some(ErrorType::EXPERIMENTER))?
                    .try_into()
                    .map_err(|_| too_large().under("code"))?,
            },
            _ => {
                let kind = ErrorType::from_value(kind, version).map_err(|e| e.under("kind"))?;
                let code = coded(Some(kind))?.try_into().map_err(|_| too_large().under("code"))?;
                ErrorReason::Standard { kind, code: ErrorCode(code) }
            }
        };
        let data = entries.read("data", version)?.unwrap_or_default();
        entries.finish()?;
        Ok(Self { reason, data })
    }
}

fn too_large() -> ValueError {
    ValueError::new("too large for the error code")
}

/// The number of an error code of type `kind`, given by name or number.
fn code_of(kind: Option<ErrorType>, value: &Value, version: Version) -> Result<u128, ValueError> {
    if let (Value::Text(name), Some(kind)) = (value, kind)
        && let Some(row) = ErrorRow::by_name(kind, name, version)
    {
        return Ok(match row.reason {
            ErrorReason::Standard { code, .. } => code.0.into(),
            ErrorReason::Experimenter { exp_type, .. } => exp_type.into(),
            ErrorReason::Vendor { code, .. } => code.into(),
        });
    }
    code_from_value(value, core::iter::empty(), |n| n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::roundtrip::{message_both_ways, parse, written};
    use crate::model::{ErrorCode, ErrorType};

    fn error(reason: ErrorReason, data: &[u8]) -> Message {
        Message::Error(ErrorMsg { reason, data: data.to_vec() })
    }

    #[test]
    fn types_and_codes_of_1_0_are_renumbered_to_those_of_later_versions() {
        let full = ErrorReason::standard(ErrorType::FLOW_MOD_FAILED, 1);
        message_both_ways("01 01 000d 00000007 0003 0000 09", &error(full, &[9]));
        message_both_ways("04 01 000d 00000007 0005 0001 09", &error(full, &[9]));
        let only_1_0 = ErrorReason::standard(ErrorType::FLOW_MOD_FAILED, 0x1_0003);
        message_both_ways("01 01 000c 00000007 0003 0003", &error(only_1_0, &[]));
    }

    #[test]
    fn experimenter_and_vendor_errors_survive_a_roundtrip() {
        let bad_type = ErrorReason::nicira(3);
        let in_1_0 = "01 01 0014 00000007 b0c2 0000 00002320 0001 0101";
        message_both_ways(in_1_0, &error(bad_type, &[]));
        message_both_ways("03 01 0010 00000007 ffff 0003 00002320", &error(bad_type, &[]));
        let closed = ErrorReason::standard(ErrorType::BUNDLE_FAILED, 4);
        message_both_ways("04 01 0010 00000007 ffff 0900 4f4e4600", &error(closed, &[]));
        message_both_ways("05 01 000c 00000007 0011 0004", &error(closed, &[]));
        let unknown = ErrorReason::Experimenter { experimenter: 0x55, exp_type: 8 };
        message_both_ways("06 01 0011 00000007 ffff 0008 00000055 01", &error(unknown, &[1]));
        let unknown = ErrorReason::Vendor { vendor: 0x55, kind: 1, code: 8 };
        let in_1_1 = "02 01 0014 00000007 b0c2 0000 00000055 0001 0008";
        message_both_ways(in_1_1, &error(unknown, &[]));
    }

    #[test]
    fn undefined_types_and_codes_survive_a_roundtrip() {
        for bytes in [
            "01 01 000c 00000007 0006 0001",
            "01 01 000c 00000007 0003 0009",
            "01 01 000c 00000007 ffff 0001",
            "02 01 000c 00000007 000c 0001",
            "04 01 000c 00000007 0005 0009",
            "04 01 000c 00000007 0077 0777",
            "01 01 000c 00000007 b0c2 0000",
        ] {
            message_both_ways(bytes, &parse(bytes).unwrap());
        }
        let code = ErrorCode(0x1_0009);
        let undefined = ErrorReason::Standard { kind: ErrorType::FLOW_MOD_FAILED, code };
        let bytes = "01 01 000c 00000007 0003 0009";
        assert_eq!(parse(bytes), Ok(error(undefined, &[])));
    }

    #[test]
    fn an_error_that_the_version_cannot_encode_is_refused() {
        let stale = error(ErrorReason::standard(ErrorType::ROLE_REQUEST_FAILED, 0), &[]);
        assert_eq!(
            written(&stale, Version::V1_0).unwrap_err().to_string(),
            "STALE requires OpenFlow 1.2; this session speaks 1.0"
        );
        let experimenter = error(ErrorReason::Experimenter { experimenter: 1, exp_type: 2 }, &[]);
        assert_eq!(
            written(&experimenter, Version::V1_1).unwrap_err().to_string(),
            "error requires OpenFlow 1.2; this session speaks 1.1"
        );
    }
}
