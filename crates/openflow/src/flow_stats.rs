//! Flow entries and their counters in a `MULTIPART_REPLY`. §7.3.5.2; OpenFlow 1.5.0 §7.3.5.3.

use core::iter;

use crate::model::borrowed::{ByteSpan, UnparsedInstructions};
use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::model::{self, Counters, FlowDesc, FlowStatsReason};
use crate::{FlowModFlags, Instruction, MultipartType, ParseErrorKind, Result, Version, view};

/// A flow entry with its counters, of any version, read in place.
///
/// [`flow_stats`] checks all of it but the instructions. Values that a version does not have are 0, or `None` for
/// counters; `FLOW_STATS` of 1.5 has table, reason, priority, match and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStats<'a> {
    /// Table of the flow entry.
    pub table_id: u8,
    /// Why it is reported; `FLOW_STATS` of 1.5 only.
    pub reason: FlowStatsReason,
    /// Priority of the flow entry.
    pub priority: u16,
    /// Seconds without a matching packet after which the flow entry expires; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which the flow entry expires; 0 is never.
    pub hard_timeout: u16,
    /// Options. Since 1.3.
    pub flags: FlowModFlags,
    /// Eviction precedence: less important flow entries are evicted first. Since 1.4.
    pub importance: u16,
    /// Opaque identifier chosen by the controller.
    pub cookie: u64,
    /// Packets to match.
    pub matching: view::Match<'a>,
    /// Whether the match is encoded as in 1.2, as Open vSwitch does in 1.1.
    pub oxm_match: bool,
    /// Duration, packet count and byte count.
    pub stats: Counters,
    pub(crate) instructions: UnparsedInstructions<'a>,
    kind: MultipartType,
    all: ByteSpan<'a>,
}

impl<'a> FlowStats<'a> {
    /// Takes the flow entry at the front of `r`.
    fn new(kind: MultipartType, r: &mut Reader<'a>) -> Result<Self> {
        r.version().known()?;
        let start = r.clone();
        let view = match kind {
            MultipartType::FLOW => Self::take_desc(r)?,
            MultipartType::FLOW_STATS => Self::take_stats(r)?,
            _ => return Err(r.error("multipart type", ParseErrorKind::UnknownType)),
        };
        Ok(Self { kind, all: ByteSpan::between(&start, r), ..view })
    }

    /// Values that a version does not have.
    pub(crate) fn none() -> Self {
        Self {
            table_id: 0,
            reason: FlowStatsReason::STATS_REQUEST,
            priority: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowModFlags::default(),
            importance: 0,
            cookie: 0,
            matching: view::Match::ALL,
            oxm_match: false,
            stats: Counters::default(),
            instructions: UnparsedInstructions(ByteSpan::NONE),
            kind: MultipartType::FLOW,
            all: ByteSpan::NONE,
        }
    }

    /// Bytes of the instructions; of the actions in 1.0.
    pub const fn instruction_bytes(&self) -> &'a [u8] {
        self.instructions.0.bytes()
    }

    /// Parses the instructions.
    ///
    /// # Errors
    /// An invalid instruction, and its position in the message.
    ///
    /// # Cost
    /// Allocates the list.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        self.instructions.parse()
    }

    /// The same flow entry, owned; default values for what `FLOW_STATS` does not have.
    ///
    /// # Errors
    /// As for [`instructions`](Self::instructions).
    ///
    /// # Cost
    /// Allocates the lists.
    pub fn to_flow_desc(&self) -> Result<FlowDesc> {
        let mut r = self.all.reader();
        if self.kind != MultipartType::FLOW_STATS {
            return FlowDesc::parse(&mut r);
        }
        let model::FlowStats { table_id, priority, matching, stats, .. } =
            model::FlowStats::parse(&mut r)?;
        Ok(FlowDesc { table_id, priority, matching, stats, ..FlowDesc::default() })
    }
}

/// Iterates over the flow entries in the body of a `MULTIPART_REPLY` of `kind`, which starts `at` bytes into its
/// message: [`FLOW`](MultipartType::FLOW), or [`FLOW_STATS`](MultipartType::FLOW_STATS) of 1.5.
///
/// The first error is the last item.
///
/// # Errors
/// An invalid flow entry, and its position; another version or type is an error of the first item.
pub fn flow_stats(
    version: Version,
    kind: MultipartType,
    body: &[u8],
    at: u16,
) -> impl Iterator<Item = Result<FlowStats<'_>>> {
    let mut r = Reader::new(version, body, at.into());
    iter::from_fn(move || {
        if r.is_empty() {
            return None;
        }
        let read = FlowStats::new(kind, &mut r);
        if read.is_err() {
            r.rest();
        }
        Some(read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Elapsed, MultipartFlags, MultipartReply, Stat, Stats};
    use crate::{Action, Encoder, Field, Match, Message, PortNo, RawMessage};

    fn written(version: Version, body: MultipartReply) -> Vec<u8> {
        let (mut tx, mut xid) = (vec![], 1);
        let reply = model::Multipart { flags: MultipartFlags::default(), body };
        let mut out = Encoder::new(&mut tx, version, &mut xid);
        Message::MultipartReply(reply).encode(1, &mut out).unwrap();
        tx
    }

    fn read(bytes: &[u8]) -> Vec<Result<FlowStats<'_>>> {
        let msg = RawMessage::new(bytes).unwrap();
        let part = view::Multipart::new(msg).unwrap();
        let at = u16::try_from(bytes.len() - part.body.len()).unwrap();
        flow_stats(msg.version(), part.kind, part.body, at).collect()
    }

    fn matching() -> Match {
        [Field::in_port(PortNo(8))].into()
    }

    fn stats() -> Stats {
        let duration = Stat::Duration(Elapsed { sec: 5, nsec: 6 });
        Stats { fields: vec![duration, Stat::ByteCount(9)] }
    }

    const COUNTERS: Counters = Counters {
        duration: Some(Elapsed { sec: 5, nsec: 6 }),
        idle_time: None,
        flow_count: None,
        packet_count: None,
        byte_count: Some(9),
    };

    #[test]
    fn every_version_carries_the_fields_that_it_has() {
        for version in (1..=6).map(Version) {
            let since = |first, n| if version < first { 0 } else { n };
            let owned = FlowDesc {
                table_id: 1,
                priority: 2,
                idle_timeout: 3,
                hard_timeout: 4,
                flags: FlowModFlags(u32::from(since(Version::V1_3, 5))),
                importance: since(Version::V1_4, 6),
                cookie: 7,
                matching: matching(),
                oxm_match: version == Version::V1_1,
                stats: stats(),
                instructions: vec![Instruction::apply([Action::output(PortNo(2))])],
            };
            let flows = vec![owned.clone(), FlowDesc::default()];
            let bytes = written(version, MultipartReply::FlowDesc { flows });
            let [Ok(view), Ok(other)] = read(&bytes)[..] else { panic!("{version}") };
            assert_eq!((view.table_id, view.priority, view.cookie), (1, 2, 7), "{version}");
            assert_eq!((view.idle_timeout, view.hard_timeout), (3, 4), "{version}");
            assert_eq!((view.flags, view.importance), (owned.flags, owned.importance), "{version}");
            assert_eq!((view.matching.to_match(), view.stats), (matching(), COUNTERS), "{version}");
            assert_eq!(view.instructions().as_ref(), Ok(&owned.instructions), "{version}");
            assert_eq!(view.to_flow_desc(), Ok(owned), "{version}");
            assert_eq!(other.to_flow_desc(), Ok(FlowDesc::default()), "{version}");
        }
    }

    #[test]
    fn flow_stats_of_1_5_have_counters_only() {
        let (reason, matching, stats) = (FlowStatsReason::STAT_TRIGGER, matching(), stats());
        let owned = model::FlowStats { table_id: 1, reason, priority: 2, matching, stats };
        let bytes =
            written(Version::V1_5, MultipartReply::FlowStats { flows: vec![owned.clone()] });
        let [Ok(view)] = read(&bytes)[..] else { panic!("{bytes:x?}") };
        assert_eq!((view.table_id, view.reason, view.priority), (1, reason, 2));
        assert_eq!((view.matching.to_match(), view.stats), (owned.matching, COUNTERS));
        assert_eq!((view.instruction_bytes(), view.cookie), (&[][..], 0));
    }

    #[test]
    fn the_first_error_is_the_last_item() {
        let flows = vec![FlowDesc::default(); 3];
        let mut bytes = written(Version::V1_3, MultipartReply::FlowDesc { flows });
        bytes[16 + 56 + 1] = 3;
        let [Ok(_), Err(error)] = read(&bytes)[..] else { panic!("{bytes:x?}") };
        assert_eq!((error.what, error.at, error.why), ("flow_desc", 75, ParseErrorKind::Truncated));
        bytes[9] = 2;
        let [Err(error)] = read(&bytes)[..] else { panic!("{bytes:x?}") };
        let text = "multipart type at byte 16: unknown type";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn invalid_instructions_are_refused_when_they_are_parsed() {
        let instructions = vec![Instruction::GotoTable { table_id: 4 }];
        let flows = vec![FlowDesc { instructions, ..FlowDesc::default() }];
        let mut bytes = written(Version::V1_3, MultipartReply::FlowDesc { flows });
        let last = bytes.len() - 5;
        bytes[last] = 7;
        let [Ok(view)] = read(&bytes)[..] else { panic!("{bytes:x?}") };
        assert_eq!(view.instructions().unwrap_err().at, 16 + 56);
    }
}
