//! `ECHO_REQUEST` and `ECHO_REPLY`: tests of the connection. §7.5.2, §7.5.3.

use crate::{EncodeError, Encoder, MessageType};

impl Encoder<'_> {
    /// Appends an `ECHO_REQUEST` without payload; returns its transaction ID.
    pub fn echo_request(&mut self) -> u32 {
        let xid = self.next_xid();
        self.message(MessageType::ECHO_REQUEST, |_| Ok(())).unwrap_or(xid)
    }

    /// Appends the `ECHO_REPLY` to the request `xid`, with the payload of the request.
    ///
    /// # Errors
    /// The payload is longer than 65 527 bytes.
    pub fn echo_reply(&mut self, xid: u32, payload: &[u8]) -> Result<(), EncodeError> {
        self.raw_message(MessageType::ECHO_REPLY, xid, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    #[test]
    fn a_reply_has_the_xid_and_payload_of_its_request() {
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
        out.echo_reply(7, b"hi").unwrap();
        assert_eq!(out.echo_request(), 1);
        assert_eq!(tx[..10], [1, 3, 0, 10, 0, 0, 0, 7, b'h', b'i']);
        assert_eq!(tx[10..], [1, 2, 0, 8, 0, 0, 0, 1]);
    }
}
