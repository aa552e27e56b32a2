//! `FLOW_REMOVED`: reports that a flow entry was removed. §7.4.2.

use crate::model::Counters;
use crate::model::borrowed::ByteSpan;
use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::{FlowRemovedReason, HEADER_LEN, RawMessage, Result, model, view};

/// A `FLOW_REMOVED` of any version, read in place.
///
/// [`new`](Self::new) checks all of it once; after that no accessor can fail. Values that a version does not have
/// are 0, or `None` for counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRemoved<'a> {
    /// Opaque identifier chosen by the controller.
    pub cookie: u64,
    /// Priority of the flow entry.
    pub priority: u16,
    /// Why it was removed.
    pub reason: FlowRemovedReason,
    /// Table of the flow entry. Since 1.1.
    pub table_id: u8,
    /// Idle timeout in seconds.
    pub idle_timeout: u16,
    /// Hard timeout in seconds. Since 1.2; from Open vSwitch in 1.1 too.
    pub hard_timeout: u16,
    /// Match of the flow entry.
    pub matching: view::Match<'a>,
    /// Duration, packet count and byte count.
    pub stats: Counters,
    body: ByteSpan<'a>,
}

impl<'a> FlowRemoved<'a> {
    /// Parses `msg`.
    ///
    /// # Errors
    /// As for [`Message::parse`](crate::Message::parse). `Version` before 1.0 and after 1.5.
    pub fn new(msg: RawMessage<'a>) -> Result<Self> {
        let mut r = Reader::new(msg.version().known()?, msg.body(), HEADER_LEN);
        let start = r.clone();
        let view = Self::take(&mut r)?;
        r.finish("flow_removed")?;
        Ok(Self { body: ByteSpan::between(&start, &r), ..view })
    }

    /// Values that a version does not have.
    pub(crate) fn none() -> Self {
        Self {
            cookie: 0,
            priority: 0,
            reason: FlowRemovedReason::default(),
            table_id: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            matching: view::Match::ALL,
            stats: Counters::default(),
            body: ByteSpan::NONE,
        }
    }

    /// The same message, owned.
    ///
    /// # Cost
    /// Allocates the lists.
    pub fn to_flow_removed(self) -> model::FlowRemoved {
        let parsed = model::FlowRemoved::parse(&mut self.body.reader());
        debug_assert!(parsed.is_ok(), "a valid view is parsed: {parsed:?}");
        parsed.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Elapsed, Stat, Stats};
    use crate::{Encoder, Field, Message, PortNo, Version};

    #[test]
    fn every_version_carries_the_fields_that_it_has() {
        for version in (1..=6).map(Version) {
            let later = |since, n| if version < since { 0 } else { n };
            let duration = Elapsed { sec: 5, nsec: 6 };
            let owned = model::FlowRemoved {
                cookie: 1,
                priority: 2,
                reason: FlowRemovedReason::HARD_TIMEOUT,
                table_id: u8::try_from(later(Version::V1_1, 3)).unwrap(),
                idle_timeout: 4,
                hard_timeout: later(Version::V1_1, 7),
                matching: [Field::in_port(PortNo(8))].into(),
                stats: Stats { fields: vec![Stat::Duration(duration), Stat::PacketCount(9)] },
            };
            let (mut tx, mut xid) = (vec![], 1);
            let mut out = Encoder::new(&mut tx, version, &mut xid);
            Message::FlowRemoved(owned.clone()).encode(0, &mut out).unwrap();
            let view = FlowRemoved::new(RawMessage::new(&tx).unwrap()).unwrap();
            assert_eq!(
                (view.cookie, view.priority, view.reason),
                (1, 2, owned.reason),
                "{version}"
            );
            assert_eq!((view.table_id, view.idle_timeout), (owned.table_id, 4), "{version}");
            assert_eq!(view.hard_timeout, owned.hard_timeout, "{version}");
            assert_eq!(view.matching.to_match(), owned.matching, "{version}");
            let (duration, packet_count) = (Some(duration), Some(9));
            assert_eq!(view.stats, Counters { duration, packet_count, ..Counters::default() });
            assert_eq!(view.to_flow_removed(), owned, "{version}");
        }
    }

    // Open vSwitch sends reasons of later versions, and its internal ones, in every version.
    #[test]
    fn every_reason_is_written_back_as_it_came() {
        for version in (1..=6).map(Version) {
            let (mut tx, mut xid) = (vec![], 1);
            let message = Message::FlowRemoved(model::FlowRemoved::default());
            message.encode(0, &mut Encoder::new(&mut tx, version, &mut xid)).unwrap();
            let at = [58, 18, 18, 18, 18, 9][usize::from(version.0) - 1];
            for reason in 0..=255 {
                tx[at] = reason;
                let view = FlowRemoved::new(RawMessage::new(&tx).unwrap()).unwrap();
                assert_eq!(view.reason, FlowRemovedReason(reason), "{version}");
                let (mut again, mut xid) = (vec![], 1);
                let owned = Message::FlowRemoved(view.to_flow_removed());
                owned.encode(0, &mut Encoder::new(&mut again, version, &mut xid)).unwrap();
                assert_eq!(again, tx, "{version}");
            }
        }
    }
}
