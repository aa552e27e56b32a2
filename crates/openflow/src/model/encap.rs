//! What a header to push is made with: the properties of `encap`. Open vSwitch, `ofp-ed-props.h`.

use super::codec::versions::V1_3;
use super::codec::{Choice, Codec, Encoding, ListItem};
use super::reader::Reader;
use super::rows::choice;
use crate::error::ErrorContext;
use crate::{EncodeError, Encoder, ParseErrorKind, Result};

choice! {
    /// A property of the header that `encap` pushes.
    ///
    /// Numbers are the class over 8 bits of the type.
    pub enum EncapProp: "encap property" {
        /// Which format the metadata of NSH has.
        NshMdType "nsh_md_type" {
            /// 1 or 2.
            md_type: u8,
        } = { V1_3.. => 0x0401 [md_type,] };
        /// A piece of metadata in NSH.
        NshTlv "nsh_tlv" {
            /// Class of the metadata.
            tlv_class: u16,
            /// Its type.
            tlv_type: u8,
            /// Its value.
            data: Vec<u8>,
        } = { V1_3.. => 0x0402 [tlv_class, tlv_type, data as LengthPrefixed8,] };
    }
}

/// Bytes behind their number in 8 bits, with zeros up to a multiple of eight.
struct LengthPrefixed8;

impl Encoding<Vec<u8>> for LengthPrefixed8 {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<u8>> {
        let len = usize::from(u8::parse(r)?);
        let data = r.take("bytes", len)?.to_vec();
        r.take("bytes", len.next_multiple_of(8) - len)?;
        Ok(data)
    }

    fn encode(value: &Vec<u8>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        bytes_in_8_bits(value.len(), out)?.encode(out)?;
        let start = out.len();
        out.put(value.as_slice());
        out.pad_to_8(start);
        Ok(())
    }
}

fn bytes_in_8_bits(len: usize, out: &Encoder<'_>) -> Result<u8, EncodeError> {
    let version = out.version();
    let too_long = EncodeError { what: "more than 255 bytes", version, needs: None };
    u8::try_from(len).map_err(|_| too_long)
}

impl ListItem for EncapProp {}

/// 16 bits of class, 8 of type, 8 of length, the value; zeros up to a multiple of eight are not counted.
///
/// What has more bytes than its row says is kept whole.
impl Codec for EncapProp {
    fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let mut head = r.nested(Self::TYPE_NAME, ErrorContext::Action)?;
        let (at, class) = (head.at(), head.u16(Self::TYPE_NAME)?);
        let [kind, len] = head.array(Self::TYPE_NAME)?;
        let len = usize::from(len);
        let body = len
            .checked_sub(4)
            .ok_or_else(|| head.error_at(at + 3, Self::TYPE_NAME, ParseErrorKind::Length))?;
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
            // It may have a row, and more bytes than that says.
            Self::Other { code, .. } => *code,
            known => known.code(out.version())?,
        };
        ((code >> 8) as u16).encode(out)?;
        0u16.encode(out)?;
        self.encode_body(out)?;
        let len = bytes_in_8_bits(out.len() - start, out)?;
        out.patch(start + 2, usize::from(u16::from_be_bytes([code as u8, len])))?;
        out.pad_to_8(start);
        Ok(())
    }
}
