//! `ERROR`: a request failed. §7.4.4.

use core::fmt;

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Frame, Inexpressible, Kind, Out, Result, Version};

/// What sort of request failed, numbered as in 1.1 and later. An open set. §7.4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorType(pub u16);

/// Why, within its [`ErrorType`]. An open set. §7.4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorType {
    /// No session came about.
    pub const HELLO_FAILED: Self = Self(0);
    /// The request was not understood.
    pub const BAD_REQUEST: Self = Self(1);
    /// An action was wrong.
    pub const BAD_ACTION: Self = Self(2);
    /// An instruction was wrong.
    pub const BAD_INSTRUCTION: Self = Self(3);
    /// A match was wrong.
    pub const BAD_MATCH: Self = Self(4);
    /// A rule was refused.
    pub const FLOW_MOD_FAILED: Self = Self(5);
    /// What was said of tables was wrong.
    pub const TABLE_FEATURES_FAILED: Self = Self(13);
    /// A property was wrong.
    pub const BAD_PROPERTY: Self = Self(14);

    /// Names, in the order of the numbers.
    const NAMES: [&str; 18] = [
        "HELLO_FAILED",
        "BAD_REQUEST",
        "BAD_ACTION",
        "BAD_INSTRUCTION",
        "BAD_MATCH",
        "FLOW_MOD_FAILED",
        "GROUP_MOD_FAILED",
        "PORT_MOD_FAILED",
        "TABLE_MOD_FAILED",
        "QUEUE_OP_FAILED",
        "SWITCH_CONFIG_FAILED",
        "ROLE_REQUEST_FAILED",
        "METER_MOD_FAILED",
        "TABLE_FEATURES_FAILED",
        "BAD_PROPERTY",
        "ASYNC_CONFIG_FAILED",
        "FLOW_MONITOR_FAILED",
        "BUNDLE_FAILED",
    ];

    /// The types of 1.0 in the numbering of later versions. OpenFlow 1.0.0 §5.4.4.
    const OF_1_0: [u16; 6] = [0, 1, 2, 5, 7, 9];

    fn from_wire(version: Version, n: u16) -> Self {
        let renumbered = Self::OF_1_0.get(usize::from(n)).filter(|_| version == Version::V1_0);
        Self(renumbered.copied().unwrap_or(n))
    }

    fn to_wire(self, version: Version) -> u16 {
        let old = (0u16..).zip(Self::OF_1_0).find(|&(_, new)| new == self.0);
        old.filter(|_| version == Version::V1_0).map_or(self.0, |(old, _)| old)
    }

    /// The specification's name, `None` for what it does not define.
    pub fn name(self) -> Option<&'static str> {
        if self.0 == 0xffff {
            return Some("EXPERIMENTER");
        }
        Self::NAMES.get(usize::from(self.0)).copied()
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

impl ErrorCode {
    /// `HELLO_FAILED`: no common version.
    pub const INCOMPATIBLE: Self = Self(0);
    /// `BAD_REQUEST`: a version that the session does not speak.
    pub const BAD_VERSION: Self = Self(0);
    /// `BAD_REQUEST`: a kind that is not known, or not here.
    pub const BAD_TYPE: Self = Self(1);
    /// `BAD_REQUEST`: a multipart body that is not known.
    pub const BAD_MULTIPART: Self = Self(2);
    /// `BAD_REQUEST`: a length that cannot be.
    pub const BAD_LEN: Self = Self(6);
    /// `FLOW_MOD_FAILED`: the table is full. 0 in 1.0, 1 later.
    pub const TABLE_FULL: Self = Self(1);
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    kind: U16,
    code: U16,
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMsg<'a> {
    /// The transaction id of the request.
    pub xid: u32,
    /// What sort of request.
    pub kind: ErrorType,
    /// Why.
    pub code: ErrorCode,
    /// The start of the request, at least 64 octets if it had so many; or a text, for `HELLO_FAILED`.
    pub data: &'a [u8],
}

/// Octets of a request that an `ERROR` gives back. §7.4.4.
const QUOTED: usize = 64;

impl<'a> ErrorMsg<'a> {
    /// Reads `msg`.
    ///
    /// # Errors
    /// `Short` if type or code are cut off.
    pub fn new(msg: Frame<'a>) -> Result<Self> {
        let (fixed, data) = msg.fixed::<Fixed>("error")?;
        Ok(Self {
            xid: msg.xid(),
            kind: ErrorType::from_wire(msg.version(), fixed.kind.get()),
            code: ErrorCode(fixed.code.get()),
            data,
        })
    }

    /// The kind of the request that failed, if its header was given back.
    pub fn request(&self) -> Option<Kind> {
        match *self.data {
            [version, kind, _, _, _, _, _, _, ..] if self.kind != ErrorType::HELLO_FAILED => {
                Some(Kind::from_wire(Version(version), kind))
            }
            _ => None,
        }
    }
}

impl Out<'_> {
    /// Writes an `ERROR` about `request`, of which the first 64 octets go back.
    ///
    /// # Panics
    /// In debug builds, for a `kind` that 1.0 does not have.
    pub fn error(&mut self, kind: ErrorType, code: ErrorCode, request: Frame<'_>) {
        let octets = request.octets();
        let quoted = octets.get(..QUOTED).unwrap_or(octets);
        let written = self.error_with(request.xid(), kind, code, quoted);
        debug_assert!(written.is_ok(), "64 octets fit, and the caller knows the version");
    }

    /// Writes an `ERROR` that gives back `data`.
    ///
    /// # Errors
    /// More than 65 523 octets of data; a type that 1.0 does not have, and whose number means another there.
    pub fn error_with(
        &mut self,
        xid: u32,
        kind: ErrorType,
        code: ErrorCode,
        data: &[u8],
    ) -> Result<(), Inexpressible> {
        if let ErrorType::BAD_INSTRUCTION | ErrorType::BAD_MATCH = kind {
            self.needs(Version::V1_1, "error about an instruction or match")?;
        }
        let kind = kind.to_wire(self.version());
        self.message_with_xid(Kind::ERROR, xid, |out| {
            out.put(&Fixed { kind: kind.into(), code: code.0.into() });
            out.put(data);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_request_it_is_about() {
        let request = [4, 14, 0, 8, 0, 0, 0, 5];
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Out::new(&mut tx, Version::V1_3, &mut xid);
        out.error(ErrorType::BAD_REQUEST, ErrorCode::BAD_LEN, Frame::new(&request).unwrap());
        assert_eq!(tx, [4, 1, 0, 20, 0, 0, 0, 5, 0, 1, 0, 6, 4, 14, 0, 8, 0, 0, 0, 5]);
        let error = ErrorMsg::new(Frame::new(&tx).unwrap()).unwrap();
        assert_eq!((error.request(), error.xid), (Some(Kind::FLOW_MOD), 5));
    }

    #[test]
    fn types_of_1_0_are_renumbered() {
        for (old, new) in [(3, "FLOW_MOD_FAILED"), (4, "PORT_MOD_FAILED"), (5, "QUEUE_OP_FAILED")] {
            let kind = ErrorType::from_wire(Version::V1_0, old);
            assert_eq!((kind.name(), kind.to_wire(Version::V1_0)), (Some(new), old));
        }
        assert_eq!(ErrorType(99).to_string(), "type 99");
    }
}
