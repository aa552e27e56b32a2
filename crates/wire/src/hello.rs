//! `HELLO`: opens a session. §7.5.1.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Frame, Kind, Out, Result, Version, Versions, Why};

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Element {
    kind: U16,
    len: U16,
}

/// `OFPHET_VERSIONBITMAP`.
const VERSIONBITMAP: u16 = 1;

/// The versions that a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The highest, from the header.
    pub version: Version,
    /// All of them up to 31, if it said so.
    pub versions: Option<Versions>,
}

impl Hello {
    /// Reads `msg`, of any version. Elements that are not known are passed over, as §7.5.1 asks.
    ///
    /// # Errors
    /// `Length` if an element overruns the message or is shorter than its own head.
    pub fn parse(msg: Frame<'_>) -> Result<Self> {
        let (mut rest, mut versions) = (msg.body(), None);
        while let Ok((element, _)) = Element::ref_from_prefix(rest) {
            let at = u16::try_from(msg.octets().len() - rest.len()).unwrap_or(u16::MAX);
            let bad_len = Error::new("hello element", at, Why::Length);
            let len = usize::from(element.len.get());
            let body = rest.get(size_of::<Element>()..len).ok_or(bad_len)?;
            if element.kind.get() == VERSIONBITMAP {
                versions = U32::ref_from_prefix(body).ok().map(|(low, _)| Versions(low.get()));
            }
            rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
        }
        Ok(Self { version: msg.version(), versions })
    }
}

impl Out<'_> {
    /// Writes a `HELLO` for `versions`: the highest in the header, all of them in the bitmap.
    ///
    /// A set with nothing past 1.0 gets no bitmap, since 1.0 does not define it.
    pub fn hello(&mut self, versions: Versions) -> u32 {
        let version = versions.highest().unwrap_or_else(|| self.version());
        let bitmap = (version > Version::V1_0).then_some(versions);
        self.hello_exact(Hello { version, versions: bitmap })
    }

    /// Writes a `HELLO` that says just this; returns its transaction id.
    pub(crate) fn hello_exact(&mut self, hello: Hello) -> u32 {
        let xid = self.next_xid();
        let written = self.in_version(hello.version).message(Kind::HELLO, |out| {
            if let Some(versions) = hello.versions {
                out.put(&Element { kind: VERSIONBITMAP.into(), len: U16::new(8) });
                out.put(&U32::new(versions.0));
            }
            Ok(())
        });
        written.unwrap_or(xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bitmap_comes_back_and_unknown_elements_are_passed_over() {
        let (mut tx, mut xid) = (vec![], 1);
        Out::new(&mut tx, Version::V1_3, &mut xid).hello(Versions::SPOKEN);
        assert_eq!(tx, [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x12]);
        let hello = Hello::parse(Frame::new(&tx).unwrap()).unwrap();
        assert_eq!(hello.versions, Some(Versions::SPOKEN));

        let odd = [6, 0, 0, 24, 0, 0, 0, 1, 0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x72];
        let hello = Hello::parse(Frame::new(&odd).unwrap()).unwrap();
        assert_eq!(hello.versions, Some(Versions(0x72)));
    }

    #[test]
    fn the_header_has_the_highest_version_whatever_the_session_speaks() {
        let (mut tx, mut xid) = (vec![], 1);
        let mut out = Out::new(&mut tx, Version::V1_3, &mut xid);
        out.hello(Versions::of(&[Version::V1_0]));
        out.hello(Versions::of(&[Version::V1_0, Version::V1_4]));
        assert_eq!(tx[..8], [1, 0, 0, 8, 0, 0, 0, 1]);
        assert_eq!(tx[8..], [5, 0, 0, 16, 0, 0, 0, 2, 0, 1, 0, 8, 0, 0, 0, 0x22]);
    }

    #[test]
    fn an_element_that_overruns_is_refused() {
        for len in [0, 3, 9] {
            let msg = [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, len, 0, 0, 0, 0x12];
            assert!(Hello::parse(Frame::new(&msg).unwrap()).is_err(), "{len}");
        }
    }
}
