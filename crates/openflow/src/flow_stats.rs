//! Rules and their counters, as a `MULTIPART_REPLY` tells them. §7.3.5.2; OpenFlow 1.5.0 §7.3.5.3.

use core::iter;

use crate::model::borrowed::{ByteSpan, UnparsedInstructions};
use crate::model::codec::Codec;
use crate::model::reader::Reader;
use crate::model::{self, Counters, FlowDesc, FlowStatsReason};
use crate::{FlowModFlags, Instruction, MultipartType, ParseErrorKind, Result, Version, view};

/// One rule with its counters, of any version, read in place.
///
/// All but the instructions is proved when it is yielded by [`flow_stats`]. What a version does not tell is 0, or `None`
/// among the counters; `FLOW_STATS` of 1.5 tells the table, the reason, the priority, the match and the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStats<'a> {
    /// Its table.
    pub table_id: u8,
    /// Why it is told; only `FLOW_STATS` of 1.5 says so.
    pub reason: FlowStatsReason,
    /// Its priority.
    pub priority: u16,
    /// Seconds without a packet after which it goes; 0 never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 never.
    pub hard_timeout: u16,
    /// How it is kept. Since 1.3.
    pub flags: FlowModFlags,
    /// The least important goes first where tables are full. Since 1.4.
    pub importance: u16,
    /// The controller's own mark.
    pub cookie: u64,
    /// What it matches.
    pub matching: view::Match<'a>,
    /// How long it has been there, how many packets and bytes it matched.
    pub stats: Counters,
    pub(crate) instructions: UnparsedInstructions<'a>,
    kind: MultipartType,
    all: ByteSpan<'a>,
}

impl<'a> FlowStats<'a> {
    /// Takes the rule at the start of what `r` has left.
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

    /// What stands where a version does not tell.
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
            stats: Counters::default(),
            instructions: UnparsedInstructions(ByteSpan::NONE),
            kind: MultipartType::FLOW,
            all: ByteSpan::NONE,
        }
    }

    /// The instructions as they lie there; in 1.0 the actions.
    pub const fn instruction_bytes(&self) -> &'a [u8] {
        self.instructions.0.bytes()
    }

    /// What it does.
    ///
    /// # Errors
    /// What is wrong with the instructions, and where.
    ///
    /// # Cost
    /// Allocates the list.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        self.instructions.parse()
    }

    /// The owned form; of `FLOW_STATS` what that tells.
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

/// The rules in the body of a `MULTIPART_REPLY` of `kind`, which starts `at` bytes into its message: of
/// [`FLOW`](MultipartType::FLOW), or of [`FLOW_STATS`](MultipartType::FLOW_STATS), which 1.5 has.
///
/// It ends behind the first fault.
///
/// # Errors
/// What is wrong with a rule, and where; of another version or kind the first says so.
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
    fn every_version_tells_what_it_has_a_place_for() {
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
    fn counters_alone_are_told_by_1_5() {
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
    fn the_first_fault_is_the_last_item() {
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
    fn instructions_are_refused_when_they_are_read() {
        let instructions = vec![Instruction::GotoTable { table_id: 4 }];
        let flows = vec![FlowDesc { instructions, ..FlowDesc::default() }];
        let mut bytes = written(Version::V1_3, MultipartReply::FlowDesc { flows });
        let last = bytes.len() - 5;
        bytes[last] = 7;
        let [Ok(view)] = read(&bytes)[..] else { panic!("{bytes:x?}") };
        assert_eq!(view.instructions().unwrap_err().at, 16 + 56);
    }
}
