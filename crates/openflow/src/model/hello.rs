//! `HELLO`: opens a session. §7.5.1.

use super::codec::versions::*;
use super::codec::{Codec, Encoding, ListItem};
use super::reader::Reader;
use super::rows::{choice, record, tlv};
use crate::{EncodeError, Encoder, Result, Versions};

choice! {
    /// What an end says of itself. §7.5.1.
    pub enum HelloElement: "hello element" {
        /// The versions that it speaks, 32 in each of the numbers, the lowest first.
        VersionBitmap "versionbitmap" {
            /// Bit n of number m stands for the version 32 m + n.
            bitmaps: Vec<u32>,
        } = { V1_0.. => 1 [bitmaps,] };
    }
}

tlv!(HelloElement, Outside, Request);

impl ListItem for u32 {}

record! {
    /// Opens a session; the header has the highest version that the sender speaks. §7.5.1.
    ///
    /// It may be of any version, also of one after 1.5.
    #[derive(Default)]
    pub struct Hello: "hello" {
        /// What the sender says of itself.
        pub elements: Vec<HelloElement>,
        /// What follows. Before 1.3 a body is to be passed over, whatever it is. OpenFlow 1.0.0 §5.5.1.
        pub extra: Vec<u8>,
    }
    V1_0..=V1_2 => [elements as ValidElements, extra,]
    V1_3.. => [elements,]
}

impl Hello {
    /// The versions of the first bitmap, up to number 31; `None` without a bitmap.
    pub fn versions(&self) -> Option<Versions> {
        self.elements.iter().find_map(|element| match element {
            HelloElement::VersionBitmap { bitmaps } => bitmaps.first().copied().map(Versions),
            HelloElement::Other { .. } => None,
        })
    }
}

/// Elements as long as they are whole.
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

    // Bytes of `tests/ofp-print.at` of Open vSwitch.
    #[test]
    fn a_hello_is_read_in_every_version() {
        for version in ["01", "02", "03", "04", "05", "06", "0f", "40"] {
            message_both_ways(&format!("{version}00000800000000"), &hello(vec![], &[]));
        }
        message_both_ways("0100001000000000 00010008000000f0", &hello(vec![bitmap(&[0xf0])], &[]));
        let two = hello(vec![bitmap(&[0xaaaa_aaaa, 0xaaaa_aaaa])], &[]);
        message_both_ways("3f000018000000000001000caaaaaaaaaaaaaaaa00000000", &two);
    }

    #[test]
    fn elements_that_are_not_known_are_kept() {
        let unknown = HelloElement::Other { code: 0xffff, body: vec![1, 2] };
        let bytes = "0400001800000000 ffff000601020000 00010008000000f0";
        message_both_ways(bytes, &hello(vec![unknown, bitmap(&[0xf0])], &[]));
    }

    #[test]
    fn an_old_body_may_be_anything() {
        message_both_ways(
            "0100001300000000657874726120646174610a",
            &hello(vec![], b"extra data\n"),
        );
        let bytes = "0100001b00000000 ffff000601020000 00010008000000f0 616263";
        let Message::Hello(read) = survives(bytes) else { panic!("no hello") };
        assert_eq!((read.versions(), &read.extra[..]), (Some(Versions(0xf0)), &b"abc"[..]));
        let wrong = parse("0400000c00000000 00010003").unwrap_err();
        assert_eq!(wrong.to_string(), "hello element at byte 8 has a length that cannot be");
        let empty = parse("0400000c00000000 00010000").unwrap_err();
        assert_eq!(empty.to_string(), "hello element at byte 8 has a length that cannot be");
    }
}
