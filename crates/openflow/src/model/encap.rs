//! Properties of the action `encap`. Open vSwitch, `ofp-ed-props.h`.

use super::codec::versions::V1_3;
use super::codec::{Choice, Codec, Encoding, ListItem};
use super::reader::{Reader, number};
use super::rows::choice;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, Expected, Result};

choice! {
    /// Property of the header that [`encap`](super::Action::Encap) pushes.
    ///
    /// In the rows, numbers are the 16-bit class followed by the 8-bit type.
    pub enum EncapProp: "encap property" {
        /// Metadata format of the NSH header.
        NshMdType "nsh_md_type" {
            /// 1 (fixed-length context headers) or 2 (variable-length).
            md_type: u8,
        } = { V1_3.. => 0x0401 [md_type,] };
        /// A variable-length NSH context header.
        NshTlv "nsh_tlv" {
            /// Metadata class.
            tlv_class: u16,
            /// Metadata type.
            tlv_type: u8,
            /// Metadata value.
            data: Vec<u8>,
        } = { V1_3.. => 0x0402 [tlv_class, tlv_type, data as LengthPrefixed8,] };
    }
}

/// Bytes preceded by their number in 8 bits, padded with zeros to a multiple of eight.
struct LengthPrefixed8;

impl Encoding<Vec<u8>> for LengthPrefixed8 {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<u8>> {
        let len = usize::from(u8::parse(r)?);
        let data = r.take("bytes", len)?.to_vec();
        r.take("bytes", len.next_multiple_of(8) - len)?;
        Ok(data)
    }

    fn encode(value: &Vec<u8>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        length_u8(value.len(), out)?.encode(out)?;
        let start = out.len();
        out.put(value.as_slice());
        out.pad_to_8(start);
        Ok(())
    }
}

fn length_u8(len: usize, out: &Encoder<'_>) -> Result<u8, EncodeError> {
    let version = out.version();
    let error = EncodeError::new("length", version, None);
    u8::try_from(len).map_err(|_| error.with_value(number(len), Expected::AtMost(255)))
}

impl ListItem for EncapProp {}

/// Encoded as 16-bit class, 8-bit type, 8-bit length, value; padded with zeros that the length does not count.
///
/// A property longer than its row is kept unparsed, as `Other`.
impl Codec for EncapProp {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut head = r.nested(Self::TYPE_NAME, ErrorContext::Action)?;
        let (at, class) = (head.at(), head.u16(Self::TYPE_NAME)?);
        let [kind, len] = head.array(Self::TYPE_NAME)?;
        let len = usize::from(len);
        let body = len
            .checked_sub(4)
            .ok_or_else(|| head.length_error(at + 3, Self::TYPE_NAME, len, Expected::AtLeast(4)))?;
        let (code, mut inner) =
            (u64::from(class) << 8 | u64::from(kind), head.sub(Self::TYPE_NAME, body)?);
        let whole = inner.clone();
        let mut read = Self::parse_variant(code, &mut inner)?;
        if !inner.is_empty() {
            read = Self::Other { code, body: whole.peek().to_vec() };
        }
        r.take(Self::TYPE_NAME, len)?;
        r.take(Self::TYPE_NAME, r.len().min(len.next_multiple_of(8) - len))?;
        Ok(read)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the class is over 8 bits of type")]
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        let start = out.len();
        let code = match self {
            // Its number may have a row, with fewer bytes than this property has.
            Self::Other { code, .. } => *code,
            known => known.code(out.version())?,
        };
        ((code >> 8) as u16).encode(out)?;
        0u16.encode(out)?;
        self.encode_body(out)?;
        let len = length_u8(out.len() - start, out)?;
        out.patch(start + 2, usize::from(u16::from_be_bytes([code as u8, len])))?;
        out.pad_to_8(start);
        Ok(())
    }
}
