//! `HELLO`: version negotiation. §7.5.1.

use super::codec::versions::*;
use super::codec::{Codec, Encoding, ListItem};
use super::reader::Reader;
use super::rows::{choice, record, tlv};
use crate::{EncodeError, Encoder, RawMessage, Result, Versions};

choice! {
    /// Element of a [`Hello`]. §7.5.1.
    pub enum HelloElement: "hello element" {
        /// Versions that the sender supports.
        VersionBitmap "versionbitmap" {
            /// Bit n of word m stands for wire version 32 m + n.
            bitmaps: Vec<u32>,
        } = { V1_0.. => 1 [bitmaps,] };
    }
}

tlv!(HelloElement, Outside, Request);

impl ListItem for u32 {}

record! {
    /// Opens a connection and negotiates its version; the header carries the highest version of the sender. §7.5.1.
    ///
    /// The header may carry any version, including unknown ones after 1.5.
    #[derive(Default)]
    pub struct Hello: "hello" {
        /// Elements.
        pub elements: Vec<HelloElement>,
        /// Bytes after the elements. Before 1.3 the body is undefined and ignored. OpenFlow 1.0.0 §5.5.1.
        pub extra: Vec<u8>,
    }
    V1_0..=V1_2 => [elements as ValidElements, extra,]
    V1_3.. => [elements,]
}

impl Hello {
    /// Parses the `HELLO` in `msg`, whose last element may lack its padding: that of a bitmap with two words, as libraries generated
    /// by loxigen send it. [`parse_raw`](Self::parse_raw) refuses it.
    ///
    /// # Errors
    /// What else is wrong, and where.
    pub fn parse_without_padding(msg: RawMessage<'_>) -> Result<Self> {
        Self::parse_raw(msg).or_else(|error| {
            let mut padded = msg.bytes().to_vec();
            padded.resize(padded.len().next_multiple_of(8), 0);
            let Ok(len) = u16::try_from(padded.len()) else { return Err(error) };
            if let Some(field) = padded.get_mut(2..4) {
                field.copy_from_slice(&len.to_be_bytes());
            }
            RawMessage::new(&padded).and_then(Self::parse_raw).map_err(|_| error)
        })
    }

    /// Versions that the sender supports, by the first word of its bitmap: wire versions 0 to 31. `None` without a
    /// bitmap.
    pub fn versions(&self) -> Option<Versions> {
        self.elements.iter().find_map(|element| match element {
            HelloElement::VersionBitmap { bitmaps } => bitmaps.first().copied().map(Versions),
            HelloElement::Other { .. } => None,
        })
    }
}

/// Elements up to the first invalid one; the rest is [`Hello::extra`].
struct ValidElements;

impl Encoding<Vec<HelloElement>> for ValidElements {
    fn parse(r: &mut Reader<'_>) -> Result<Vec<HelloElement>> {
        let mut elements = Vec::new();
        while !r.is_empty() {
            let mut ahead = r.clone();
            let Ok(element) = HelloElement::parse(&mut ahead) else { break };
            elements.push(element);
            *r = ahead;
        }
        Ok(elements)
    }

    fn encode(value: &Vec<HelloElement>, out: &mut Encoder<'_>) -> Result<(), EncodeError> {
        value.encode(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Message;
    use crate::model::roundtrip::{message_both_ways, parse, survives};

    fn bitmap(bits: &[u32]) -> HelloElement {
        HelloElement::VersionBitmap { bitmaps: bits.to_vec() }
    }

    fn hello(elements: Vec<HelloElement>, extra: &[u8]) -> Message {
        Message::Hello(Hello { elements, extra: extra.to_vec() })
    }

    // Bytes from Open vSwitch, tests/ofp-print.at.
    #[test]
    fn a_hello_of_any_version_survives_a_roundtrip() {
        for version in ["01", "02", "03", "04", "05", "06", "0f", "40"] {
            message_both_ways(&format!("{version}00000800000000"), &hello(vec![], &[]));
        }
        message_both_ways("0100001000000000 00010008000000f0", &hello(vec![bitmap(&[0xf0])], &[]));
        let two = hello(vec![bitmap(&[0xaaaa_aaaa, 0xaaaa_aaaa])], &[]);
        message_both_ways("3f000018000000000001000caaaaaaaaaaaaaaaa00000000", &two);
    }

    #[test]
    fn unknown_elements_are_kept() {
        let unknown = HelloElement::Other { code: 0xffff, body: vec![1, 2] };
        let bytes = "0400001800000000 ffff000601020000 00010008000000f0";
        message_both_ways(bytes, &hello(vec![unknown, bitmap(&[0xf0])], &[]));
    }

    #[test]
    fn the_last_element_may_lack_its_padding_where_that_is_asked_for() {
        let without = [4, 0, 0, 20, 0, 0, 0, 0, 0, 1, 0, 12, 0, 0, 0, 0x10, 0, 0, 0, 0];
        let msg = RawMessage::new(&without).unwrap();
        let refused = Hello::parse_raw(msg).unwrap_err();
        let parsed = Hello::parse_without_padding(msg).unwrap();
        assert_eq!(parsed.versions(), Some(Versions(0x10)));
        let wrong = [4, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 9];
        let msg = RawMessage::new(&wrong).unwrap();
        assert_eq!(
            Hello::parse_without_padding(msg).unwrap_err(),
            Hello::parse_raw(msg).unwrap_err()
        );
        assert_eq!(refused.why, crate::ParseErrorKind::Length);
    }

    #[test]
    fn before_1_3_any_body_is_accepted() {
        message_both_ways(
            "0100001300000000657874726120646174610a",
            &hello(vec![], b"extra data\n"),
        );
        let bytes = "0100001b00000000 ffff000601020000 00010008000000f0 616263";
        let Message::Hello(hello) = survives(bytes) else { panic!("not a hello") };
        assert_eq!((hello.versions(), &hello.extra[..]), (Some(Versions(0xf0)), &b"abc"[..]));
        let wrong = parse("0400000c00000000 00010003").unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "hello element at byte 8: invalid length 3 (must be at least 4)"
        );
        let empty = parse("0400000c00000000 00010000").unwrap_err();
        assert_eq!(
            empty.to_string(),
            "hello element at byte 8: invalid length 0 (must be at least 4)"
        );
    }
}
