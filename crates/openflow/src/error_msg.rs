//! `ERROR`: reports that a request failed. §7.4.4.

use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::{
    EncodeError, Encoder, ErrorReason, ErrorType, HEADER_LEN, MessageType, RawMessage, Result,
    Version,
};

/// An `ERROR` of any version, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMsg<'a> {
    /// Transaction ID of the request that failed.
    pub xid: u32,
    /// Type and code of the error.
    pub reason: ErrorReason,
    /// The start of the request, up to 64 bytes or more; for `HELLO_FAILED`, a text.
    pub data: &'a [u8],
}

/// Number of bytes of the request that an `ERROR` quotes. §7.4.4.
const QUOTED: usize = 64;

impl<'a> ErrorMsg<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// `Truncated` if type or code is missing, `Version` for an unsupported version.
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let mut r = Reader::new(msg.version().known()?, msg.body(), HEADER_LEN);
        let reason = ErrorReason::parse(&mut r)?;
        Ok(Self { xid: msg.xid(), reason, data: r.rest() })
    }

    /// Type of the request that failed, if its header is quoted.
    pub fn request(&self) -> Option<MessageType> {
        match *self.data {
            [version, kind, _, _, _, _, _, _, ..]
                if self.reason.kind() != ErrorType::HELLO_FAILED =>
            {
                Some(MessageType::from_wire(Version(version), kind))
            }
            _ => None,
        }
    }
}

impl ErrorMsg<'_> {
    /// Cookie of the `FLOW_MOD` that failed, if it is quoted that far.
    pub fn cookie(&self) -> Option<u64> {
        if self.request() != Some(MessageType::FLOW_MOD) {
            return None;
        }
        // It follows the header; in 1.0 the match comes before it. OpenFlow 1.0.0 §5.3.3, §7.3.4.1.
        let at = if self.data.first() == Some(&Version::V1_0.0) { 48 } else { 8 };
        let bytes = self.data.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    }
}

impl Encoder<'_> {
    /// Appends an `ERROR` about `request` that quotes its first 64 bytes.
    ///
    /// # Panics
    /// In debug builds, if the version does not have `reason`.
    pub fn error(&mut self, reason: ErrorReason, request: RawMessage<'_>) {
        let bytes = request.bytes();
        let quoted = bytes.get(..QUOTED).unwrap_or(bytes);
        let written = self.error_with(request.xid(), reason, quoted);
        debug_assert!(written.is_ok(), "64 bytes fit, and the caller knows the version");
    }

    /// Appends an `ERROR` that contains `data`.
    ///
    /// # Errors
    /// `data` is too long, or the version does not have `reason`.
    pub fn error_with(
        &mut self,
        xid: u32,
        reason: ErrorReason,
        data: &[u8],
    ) -> Result<(), EncodeError> {
        self.message_with_xid(MessageType::ERROR, xid, |out| {
            reason.encode(out)?;
            out.put(data);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_contains_the_type_of_its_request() {
        let request = [4, 14, 0, 8, 0, 0, 0, 5];
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        out.error(ErrorReason::BAD_LEN, RawMessage::new(&request).unwrap());
        assert_eq!(tx, [4, 1, 0, 20, 0, 0, 0, 5, 0, 1, 0, 6, 4, 14, 0, 8, 0, 0, 0, 5]);
        let error = ErrorMsg::new(RawMessage::new(&tx).unwrap()).unwrap();
        assert_eq!((error.request(), error.xid), (Some(MessageType::FLOW_MOD), 5));
        assert_eq!(error.reason.to_string(), "BAD_REQUEST/BAD_LEN");
    }

    #[test]
    fn an_error_contains_the_cookie_of_the_flow_entry() {
        for version in (1..=6).map(Version) {
            let (mut tx, mut xid) = (vec![], 1);
            let rule = crate::FlowMod { cookie: 0x1234, ..crate::FlowMod::default() };
            Encoder::new(&mut tx, version, &mut xid).flow_mod(&rule).unwrap();
            let reason = ErrorReason::BAD_LEN;
            let mut error = ErrorMsg { xid: 1, reason, data: &tx };
            assert_eq!(error.cookie(), Some(0x1234), "{version}");
            error.data = &tx[..15];
            assert_eq!(error.cookie(), None);
        }
        let data = [4, 13].repeat(20);
        assert_eq!(ErrorMsg { xid: 1, reason: ErrorReason::BAD_LEN, data: &data }.cookie(), None);
    }

    #[test]
    fn an_error_that_the_version_lacks_leaves_the_buffer_unchanged() {
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
        let reason = ErrorReason::for_parse_error(
            crate::ParseError::new("match", 8, crate::ParseErrorKind::Length)
                .within(crate::ErrorContext::Match),
            Version::V1_3,
        );
        assert!(out.error_with(1, reason, &[]).is_err());
        assert!(tx.is_empty());
    }
}
