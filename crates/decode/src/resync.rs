//! Finds the start of a message in a stream of which bytes are missing.
//!
//! A message starts where [`CHAIN`] messages in a row parse. Fewer suffice if the last one ends exactly at the end of a TCP segment: two,
//! or one that starts with a segment. All have the version of the stream.
//!
//! The bodies of messages that overlap could have a search parse the same bytes again and again. So a search parses
//! [`PARSED_PER_BYTE`] times as many bytes as it has been given; then headers in a row suffice.

use sluice_openflow::{HEADER_LEN, Message, MessageType, RawMessage, Version, split_message};

/// Messages in a row that prove the start of a message. Random bytes look like a header once in 30 000 times, and most bodies
/// have to parse as well.
pub(crate) const CHAIN: usize = 3;

/// Bytes that are searched at once: a message of the maximum length that is cut, and [`CHAIN`] more of them.
const SEARCH_BYTES_MAX: usize = 256 << 10;

/// Places whose messages are incomplete and that are examined again with more bytes. A segment of random bytes has less than
/// one on average.
const CANDIDATES_MAX: usize = 256;

/// Bytes that are parsed for each byte that is searched. Traffic of switches needs less than two.
const PARSED_PER_BYTE: usize = 16;

/// What the searched bytes end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceEnd {
    /// Any byte.
    Anywhere,
    /// A TCP segment, and the bytes before those that have been searched as well.
    OfSegment,
    /// The whole stream.
    OfStream,
}

/// A search for the start of a message in bytes to which more are appended.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Places that may be the start of a message, in order.
    candidates: Vec<Candidate>,
    /// Bytes in which all candidates are known.
    scanned: usize,
    /// Bytes that may still be parsed.
    budget: usize,
    discarded: u64,
}

/// A place that may be the start of a message.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: usize,
    /// Messages in a row that suffice if the last one ends with the bytes; `None` if their end has no meaning.
    sufficient: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Found,
    Refuted,
    /// More bytes are needed.
    Open,
}

impl Search {
    /// Memory of the places that are examined again, at most 6 KiB.
    pub(crate) fn candidate_bytes(&self) -> usize {
        self.candidates.len() * size_of::<Candidate>()
    }

    /// Bytes that were discarded without finding a message.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// The first start of a message in `bytes`, which begin with those of the call before.
    pub(crate) fn find(
        &mut self,
        bytes: &[u8],
        version: Option<Version>,
        end: PieceEnd,
    ) -> Option<usize> {
        let scanned = std::mem::replace(&mut self.scanned, bytes.len());
        self.budget += PARSED_PER_BYTE * (bytes.len() - scanned);
        let new = (scanned..bytes.len()).map(|at| {
            let in_segment = if at == scanned { 1 } else { 2 };
            Candidate { at, sufficient: (end == PieceEnd::OfSegment).then_some(in_segment) }
        });
        for mut candidate in std::mem::take(&mut self.candidates).into_iter().chain(new) {
            if end == PieceEnd::OfStream {
                candidate.sufficient = Some(1);
            }
            match candidate.examine(bytes, version, &mut self.budget) {
                Verdict::Found => return Some(candidate.at),
                Verdict::Open if self.candidates.len() < CANDIDATES_MAX => {
                    self.candidates.push(candidate);
                }
                Verdict::Open | Verdict::Refuted => {}
            }
        }
        None
    }

    /// Discards `bytes` if they have been searched and are too many.
    pub(crate) fn limit(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() > SEARCH_BYTES_MAX {
            *self = Self { discarded: self.discarded + bytes.len() as u64, ..Self::default() };
            bytes.clear();
        }
    }
}

impl Candidate {
    /// Whether messages start here. What is parsed is taken from `budget`.
    fn examine(self, bytes: &[u8], mut version: Option<Version>, budget: &mut usize) -> Verdict {
        let mut rest = bytes.get(self.at..).unwrap_or_default();
        for n in 0..CHAIN {
            if rest.is_empty() {
                let suffice = self.sufficient.is_some_and(|sufficient| n >= sufficient);
                return if suffice { Verdict::Found } else { Verdict::Open };
            }
            if !is_plausible(rest, version) {
                return Verdict::Refuted;
            }
            match split_message(rest) {
                Ok(Some((message, after))) if parses(message, budget) => {
                    if message.kind() != MessageType::HELLO {
                        version = Some(message.version());
                    }
                    rest = after;
                }
                Ok(None) => return Verdict::Open,
                Ok(Some(_)) | Err(_) => return Verdict::Refuted,
            }
        }
        Verdict::Found
    }
}

/// Whether the body of a message can be parsed, or `budget` does not suffice to find out.
fn parses(message: RawMessage<'_>, budget: &mut usize) -> bool {
    match budget.checked_sub(message.bytes().len()) {
        None => true,
        Some(left) => {
            *budget = left;
            Message::parse_raw(message).is_ok()
        }
    }
}

/// Whether `bytes` may be the start of a message of `version`, or of any version if it is unknown.
pub(crate) fn is_plausible(bytes: &[u8], version: Option<Version>) -> bool {
    let Some(&first) = bytes.first() else { return true };
    let is_spoken = match version {
        Some(version) => version.0 == first,
        None => (Version::V1_0.0..=Version::V1_5.0).contains(&first),
    };
    if !is_spoken {
        return false;
    }
    let is_known = bytes.get(1).is_none_or(|&byte| has_type(Version(first), byte));
    let has_length = match *bytes {
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])) >= HEADER_LEN,
        _ => true,
    };
    is_known && has_length
}

/// Whether `version` has a message type with this number.
fn has_type(version: Version, byte: u8) -> bool {
    let message_type = MessageType::from_wire(version, byte);
    MessageType::ALL.iter().any(|&(known, _, since)| known == message_type && since <= version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: [u8; 8] = [4, 20, 0, 8, 0, 0, 0, 7];

    #[test]
    fn several_messages_in_a_row_or_at_the_end_of_a_segment_are_a_start() {
        let find = |bytes: &[u8], version, end| Search::default().find(bytes, version, end);
        let after_noise = |n| [&[4, 20, 0, 9, 0][..], &BARRIER.repeat(n)].concat();
        assert_eq!(find(&[&after_noise(3)[..], &[4]].concat(), None, PieceEnd::Anywhere), Some(5));
        assert_eq!(find(&after_noise(2), None, PieceEnd::Anywhere), None);
        assert_eq!(find(&after_noise(2), None, PieceEnd::OfSegment), Some(5));
        assert_eq!(find(&after_noise(2), Some(Version::V1_0), PieceEnd::OfSegment), None);
        assert_eq!(find(&after_noise(1), None, PieceEnd::OfSegment), None);
        assert_eq!(find(&after_noise(1), None, PieceEnd::OfStream), Some(5));
        assert_eq!(find(&BARRIER, None, PieceEnd::OfSegment), Some(0));
    }

    #[test]
    fn a_message_that_fills_a_later_segment_is_a_start() {
        let mut search = Search::default();
        let bytes = [&[4, 20, 0, 9, 0][..], &BARRIER].concat();
        assert_eq!(search.find(&bytes[..5], None, PieceEnd::OfSegment), None);
        assert_eq!(search.find(&bytes, None, PieceEnd::OfSegment), Some(5));
    }

    #[test]
    fn a_start_is_found_in_pieces_of_any_length() {
        let bytes = [&[4, 10, 0xff, 0xff][..], &[9; 20], &BARRIER.repeat(3)].concat();
        for len in 1..bytes.len() {
            let mut search = Search::default();
            let mut ends = (1..=bytes.len()).filter(|end| end % len == 0 || *end == bytes.len());
            let found = ends.find_map(|end| search.find(&bytes[..end], None, PieceEnd::Anywhere));
            assert_eq!(found, Some(24), "{len}");
        }
    }

    /// Each of these headers begins a message that parses and is followed by one that does not.
    #[test]
    fn messages_that_overlap_are_not_all_parsed() {
        const ECHO: [u8; 8] = [4, 2, 0x20, 0, 0, 0, 0, 0];
        let bytes = [&ECHO.repeat(4096)[..], &[0xff; 8192]].concat();
        let mut search = Search::default();
        for end in (1024..=bytes.len()).step_by(1024) {
            assert_eq!(search.find(&bytes[..end], Some(Version::V1_0), PieceEnd::Anywhere), None);
        }
        let mut search = Search::default();
        let (mut parsed, mut given) = (0, 0);
        for end in (1024..=bytes.len()).step_by(1024) {
            let before = search.budget;
            let found = search.find(&bytes[..end], None, PieceEnd::Anywhere);
            given += 1024 * PARSED_PER_BYTE;
            parsed += before + 1024 * PARSED_PER_BYTE - search.budget;
            if found.is_some() {
                break;
            }
        }
        assert!(parsed > 0 && parsed <= given, "{parsed} of {given}");
    }

    #[test]
    fn types_that_a_version_does_not_have_are_not_plausible() {
        assert!(is_plausible(&[4, 29], None), "METER_MOD of 1.3");
        assert!(!is_plausible(&[2, 29], None));
        assert!(!is_plausible(&[1, 22], None));
        assert!(!is_plausible(&[7, 0], None) && !is_plausible(&[0, 0], None));
        assert!(!is_plausible(&[4, 20, 0, 7], None) && is_plausible(&[4, 20, 0], None));
    }
}
