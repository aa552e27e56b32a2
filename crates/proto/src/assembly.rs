//! Replies that come in many parts. §7.3.5.

use std::borrow::Cow;

use sluice_wire::{Multipart, MultipartKind};

use crate::Fault;

/// Replies under way at once; a switch that interleaves more loses the oldest.
const ASSEMBLIES_MAX: usize = 8;

/// Replies of which some parts have come.
#[derive(Debug, Default)]
pub(crate) struct Assemblies(Vec<Assembly>);

#[derive(Debug)]
struct Assembly {
    xid: u32,
    kind: MultipartKind,
    body: Vec<u8>,
}

impl Assemblies {
    /// Adds a part to the reply to `xid`; returns the whole body if it was the last.
    ///
    /// # Errors
    /// `ReplyTooLong` if all that is held would pass `octets_max`.
    pub(crate) fn add<'a>(
        &mut self,
        xid: u32,
        part: Multipart<'a>,
        octets_max: usize,
    ) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        let at = self.0.iter().position(|a| a.xid == xid && a.kind == part.kind);
        if at.is_none() && !part.more {
            return Ok(Some(Cow::Borrowed(part.body)));
        }
        let held: usize = self.0.iter().map(|a| a.body.len()).sum();
        if held + part.body.len() > octets_max {
            return Err(Fault::ReplyTooLong);
        }
        let at = at.unwrap_or_else(|| {
            if self.0.len() == ASSEMBLIES_MAX {
                self.0.remove(0);
            }
            self.0.push(Assembly { xid, kind: part.kind, body: Vec::new() });
            self.0.len() - 1
        });
        if let Some(assembly) = self.0.get_mut(at) {
            assembly.body.extend_from_slice(part.body);
        }
        Ok(if part.more { None } else { Some(Cow::Owned(self.0.remove(at).body)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(more: bool, body: &[u8]) -> Multipart<'_> {
        Multipart { kind: MultipartKind::FLOW, more, body }
    }

    #[test]
    fn parts_come_together_in_order_and_apart_from_other_replies() {
        let mut all = Assemblies::default();
        assert_eq!(all.add(1, part(true, b"a"), 100), Ok(None));
        assert_eq!(all.add(2, part(true, b"x"), 100), Ok(None));
        assert_eq!(all.add(1, part(true, b"b"), 100), Ok(None));
        assert_eq!(all.add(1, part(false, b"c"), 100).unwrap().unwrap(), &b"abc"[..]);
        assert_eq!(all.add(2, part(false, b"y"), 100).unwrap().unwrap(), &b"xy"[..]);
        assert!(all.0.is_empty());
    }

    #[test]
    fn what_is_held_is_bounded_in_octets_and_in_number() {
        let mut all = Assemblies::default();
        assert_eq!(all.add(1, part(true, &[0; 60]), 100), Ok(None));
        assert_eq!(all.add(2, part(true, &[0; 60]), 100), Err(Fault::ReplyTooLong));
        for xid in 0..1000 {
            assert_eq!(all.add(xid, part(true, b""), 100), Ok(None));
        }
        assert_eq!(all.0.len(), ASSEMBLIES_MAX);
    }
}
