//! Splits a stream of bytes into messages, and finds the next message after a gap.

use std::io;
use std::mem;

use sluice_openflow::{HEADER_LEN, MessageType, RawMessage, Version, split_message};

use crate::resync::{CHAIN, PieceEnd, Search, is_plausible};

/// Bytes at the start of a connection that was opened before the capture, in which a message must be found; otherwise the
/// connection is not OpenFlow. Twice the longest message.
const JOIN_BYTES_MAX: u64 = 128 << 10;

/// What a stream consists of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StreamEvent<'a> {
    /// A message; its body is not checked.
    Message(RawMessage<'a>),
    /// A header whose length is invalid, so that the start of the next message is unknown.
    InvalidLength(&'a [u8]),
    /// Bytes are missing.
    Gap {
        /// Their number.
        missing: u64,
    },
    /// A message has been found after a gap or an invalid length.
    Resynchronised {
        /// Bytes before it that were not decoded.
        skipped: u64,
    },
    /// The stream ends with the start of a message.
    Incomplete(&'a [u8]),
    /// The stream ends before a message has been found after a gap or an invalid length.
    NotResynchronised {
        /// Bytes that were not decoded.
        skipped: u64,
    },
    /// The stream ends and is not OpenFlow.
    NotOpenFlow,
}

/// Where a stream comes from, which decides how its messages are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamSource {
    /// A file or hex digits: only messages, in pieces of any length.
    Messages,
    /// TCP segments, many of which end with a message.
    Segments,
}

/// Splits one stream into messages.
#[derive(Debug)]
pub(crate) struct MessageStream {
    source: StreamSource,
    state: State,
    /// The start of an incomplete message, or the bytes that are searched.
    bytes: Vec<u8>,
    /// Version of the messages so far, other than `HELLO`.
    version: Option<Version>,
    /// Whether the stream is known to be OpenFlow.
    is_openflow: bool,
    /// Whether the start of a message was found by a search and may be wrong.
    is_guessed: bool,
    /// Messages that must follow until a stream that was joined by a search is known to be OpenFlow.
    unconfirmed: usize,
}

#[derive(Debug)]
enum State {
    /// Start of a connection: the first header decides whether it is OpenFlow.
    Start,
    /// The next byte is in the message that `bytes` start, or starts one.
    Synchronised,
    /// Bytes are missing within a message; so many of it follow.
    InLostMessage(usize),
    /// The start of the next message is unknown.
    Searching(Search),
    /// Not OpenFlow.
    Other,
}

impl MessageStream {
    /// A stream of a file or of hex digits, which starts with a message.
    pub(crate) fn of_messages() -> Self {
        Self::new(StreamSource::Messages, State::Synchronised, true)
    }

    /// A TCP stream from its start on.
    pub(crate) fn of_new_connection() -> Self {
        Self::new(StreamSource::Segments, State::Start, false)
    }

    /// A TCP stream that was opened before the capture.
    pub(crate) fn of_open_connection() -> Self {
        Self::new(StreamSource::Segments, State::Searching(Search::default()), false)
    }

    fn new(source: StreamSource, state: State, is_openflow: bool) -> Self {
        Self {
            source,
            state,
            bytes: Vec::new(),
            version: None,
            is_openflow,
            is_guessed: false,
            unconfirmed: 0,
        }
    }

    /// Memory that is kept until more bytes follow.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let candidates =
            if let State::Searching(search) = &self.state { search.candidate_bytes() } else { 0 };
        self.bytes.len() + candidates
    }

    /// Processes the next bytes of the stream; those of TCP are one segment.
    ///
    /// # Errors
    /// Those of `on_event`.
    pub(crate) fn push(
        &mut self,
        data: &[u8],
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut rest = self.push_once(data, on_event)?;
        while let Some(data) = rest {
            rest = self.push_once(&data, on_event)?;
        }
        Ok(())
    }

    /// Notes that `missing` bytes of the stream are missing.
    ///
    /// # Errors
    /// Those of `on_event`.
    pub(crate) fn skip(
        &mut self,
        missing: u64,
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let within_message = match self.state {
            State::Other => return Ok(()),
            State::Synchronised => bytes_to_message_end(&self.bytes),
            State::InLostMessage(left) => Some(left),
            State::Start | State::Searching(_) => None,
        };
        self.bytes.clear();
        // The length in the header says how much of the message follows the gap.
        let left = usize::try_from(missing).ok().and_then(|n| within_message?.checked_sub(n));
        self.state = match left {
            Some(0) => State::Synchronised,
            Some(left) => State::InLostMessage(left),
            None => State::Searching(Search::default()),
        };
        if self.is_openflow { on_event(StreamEvent::Gap { missing }) } else { Ok(()) }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Those of `on_event`.
    pub(crate) fn finish(
        mut self,
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if let State::Searching(search) = &mut self.state
            && self.is_openflow
            && let Some(start) = search.find(&self.bytes, self.version, PieceEnd::OfStream)
        {
            let found = self.resynchronise(start, on_event)?;
            self.push(&found, on_event)?;
        }
        match self.state {
            State::Synchronised if !self.bytes.is_empty() => {
                on_event(StreamEvent::Incomplete(&self.bytes))
            }
            State::Searching(search) => {
                let skipped = search.discarded() + self.bytes.len() as u64;
                match skipped {
                    0 => Ok(()),
                    _ if self.is_openflow => on_event(StreamEvent::NotResynchronised { skipped }),
                    _ => on_event(StreamEvent::NotOpenFlow),
                }
            }
            State::Other => on_event(StreamEvent::NotOpenFlow),
            // Less than a header.
            State::Start if !self.bytes.is_empty() => on_event(StreamEvent::NotOpenFlow),
            State::Start | State::Synchronised | State::InLostMessage(_) => Ok(()),
        }
    }

    /// Processes `data` until the state changes; returns what is to be processed in the new state.
    fn push_once(
        &mut self,
        data: &[u8],
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<Option<Vec<u8>>> {
        match &mut self.state {
            State::Other => Ok(None),
            State::Start => {
                self.bytes.extend_from_slice(data);
                match starts_with_message(&self.bytes) {
                    None => return Ok(None),
                    Some(true) => (self.state, self.is_openflow) = (State::Synchronised, true),
                    Some(false) => self.state = State::Other,
                }
                Ok(Some(mem::take(&mut self.bytes)))
            }
            State::Synchronised => self.split(data, on_event),
            State::InLostMessage(left) => {
                let (lost, rest) = data.split_at((*left).min(data.len()));
                *left -= lost.len();
                if *left > 0 {
                    return Ok(None);
                }
                self.state = State::Synchronised;
                self.split(rest, on_event)
            }
            State::Searching(search) => {
                self.bytes.extend_from_slice(data);
                let end = match self.source {
                    StreamSource::Segments => PieceEnd::OfSegment,
                    StreamSource::Messages => PieceEnd::Anywhere,
                };
                if let Some(start) = search.find(&self.bytes, self.version, end) {
                    return self.resynchronise(start, on_event).map(Some);
                }
                search.limit(&mut self.bytes);
                let searched = search.discarded() + self.bytes.len() as u64;
                if !self.is_openflow && searched > JOIN_BYTES_MAX {
                    (self.state, self.bytes) = (State::Other, Vec::new());
                }
                Ok(None)
            }
        }
    }

    /// Ends a search that has found a message, `start` bytes into those that were searched; returns the bytes from there on.
    fn resynchronise(
        &mut self,
        start: usize,
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<Vec<u8>> {
        let searched = mem::replace(&mut self.state, State::Synchronised);
        let discarded =
            if let State::Searching(search) = searched { search.discarded() } else { 0 };
        let skipped = discarded + start as u64;
        let mut found = mem::take(&mut self.bytes);
        found.drain(..start.min(found.len()));
        // The first message of a connection that was opened before the capture is no news.
        let is_after_loss = self.is_openflow || skipped > 0;
        if !self.is_openflow {
            self.unconfirmed = CHAIN;
        }
        (self.is_openflow, self.is_guessed) = (true, true);
        if is_after_loss {
            on_event(StreamEvent::Resynchronised { skipped })?;
        }
        Ok(found)
    }

    /// Splits `data`, which continue the message that `bytes` start.
    fn split(
        &mut self,
        mut data: &[u8],
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<Option<Vec<u8>>> {
        if !self.bytes.is_empty() {
            // First the rest of the header, if it is incomplete, and then that of the message.
            for _ in 0..2 {
                let missing = bytes_to_complete(&self.bytes).min(data.len());
                let (part, rest) = data.split_at(missing);
                self.bytes.extend_from_slice(part);
                data = rest;
            }
            if bytes_to_complete(&self.bytes) > 0 {
                return Ok(None);
            }
            let message = mem::take(&mut self.bytes);
            if let Some(mut rest) = self.split_messages(&message, on_event)? {
                rest.extend_from_slice(data);
                return Ok(Some(rest));
            }
        }
        self.split_messages(data, on_event)
    }

    /// Splits `data`, which start with a message.
    fn split_messages(
        &mut self,
        data: &[u8],
        on_event: &mut impl FnMut(StreamEvent<'_>) -> io::Result<()>,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut rest = data;
        loop {
            if self.is_guessed && !is_plausible(rest, None) {
                self.state = State::Searching(Search::default());
                if self.unconfirmed > 0 {
                    // The messages so far were a coincidence.
                    (self.is_openflow, self.version, self.unconfirmed) = (false, None, 0);
                }
                return Ok(Some(rest.to_vec()));
            }
            match split_message(rest) {
                Ok(Some((message, after))) => {
                    if message.kind() != MessageType::HELLO {
                        self.version = Some(message.version());
                    }
                    self.unconfirmed = self.unconfirmed.saturating_sub(1);
                    on_event(StreamEvent::Message(message))?;
                    rest = after;
                }
                Ok(None) => {
                    self.bytes.extend_from_slice(rest);
                    return Ok(None);
                }
                Err(_) => {
                    let (header, after) = rest.split_at(HEADER_LEN.min(rest.len()));
                    on_event(StreamEvent::InvalidLength(header))?;
                    self.state = State::Searching(Search::default());
                    return Ok(Some(after.to_vec()));
                }
            }
        }
    }
}

/// Bytes that are missing in `bytes` up to the end of the header, or of the message if the header is complete.
fn bytes_to_complete(bytes: &[u8]) -> usize {
    let len = match *bytes {
        [_, _, high, low, _, _, _, _, ..] => usize::from(u16::from_be_bytes([high, low])),
        [] => return 0,
        _ => HEADER_LEN,
    };
    len.saturating_sub(bytes.len())
}

/// Bytes that are missing in `bytes` up to the end of the message; `None` while its length is unknown.
fn bytes_to_message_end(bytes: &[u8]) -> Option<usize> {
    let &[_, _, high, low] = bytes.first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < HEADER_LEN { None } else { len.checked_sub(bytes.len()) }
}

/// Whether `bytes` start with an OpenFlow header; `None` while there are too few of them.
fn starts_with_message(bytes: &[u8]) -> Option<bool> {
    let &[version, message_type, high, low, ..] = bytes.first_chunk::<HEADER_LEN>()?;
    let is_spoken = (Version::V1_0.0..=Version::V1_5.0).contains(&version);
    let is_hello = u16::from(message_type) == MessageType::HELLO.0 && version != 0;
    let is_known = u16::from(message_type) <= MessageType::CONTROLLER_STATUS.0;
    let has_length = usize::from(u16::from_be_bytes([high, low])) >= HEADER_LEN;
    Some((is_spoken || is_hello) && is_known && has_length)
}

#[cfg(test)]
mod tests {
    use sluice_base::Rng;

    use super::*;

    /// The messages, as their transaction ids, and the other events of a stream.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Events {
        xids: Vec<u32>,
        others: Vec<String>,
    }

    impl Events {
        fn add(&mut self, event: StreamEvent<'_>) {
            match event {
                StreamEvent::Message(message) => self.xids.push(message.xid()),
                other => self.others.push(format!("{other:?}")),
            }
        }
    }

    /// A `PACKET_IN` of 1.0 with `len` bytes of a frame, which look like headers of OpenFlow.
    fn packet_in(xid: u32, len: u8) -> Vec<u8> {
        let mut bytes = vec![1, 10, 0, 18 + len];
        bytes.extend(xid.to_be_bytes());
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0, len, 0, 1, 0, 0]);
        bytes.extend([1, 2, 0, 200, 1, 4].iter().cycle().take(usize::from(len)));
        bytes
    }

    fn barrier(xid: u32) -> Vec<u8> {
        [&[1, 18, 0, 8][..], &xid.to_be_bytes()].concat()
    }

    fn push(stream: &mut MessageStream, data: &[u8]) -> Events {
        let mut events = Events::default();
        stream
            .push(data, &mut |event| {
                events.add(event);
                Ok(())
            })
            .unwrap();
        events
    }

    fn skip(stream: &mut MessageStream, missing: u64) {
        stream.skip(missing, &mut |_| Ok(())).unwrap();
    }

    fn finish(stream: MessageStream) -> Events {
        let mut events = Events::default();
        stream
            .finish(&mut |event| {
                events.add(event);
                Ok(())
            })
            .unwrap();
        events
    }

    #[test]
    fn messages_are_split_alike_in_pieces_of_any_length() {
        let bytes = [packet_in(1, 40), barrier(2), packet_in(3, 9)].concat();
        for len in 1..bytes.len() {
            let mut stream = MessageStream::of_new_connection();
            let xids: Vec<_> = bytes.chunks(len).flat_map(|b| push(&mut stream, b).xids).collect();
            assert_eq!(xids, [1, 2, 3], "{len}");
            assert_eq!((stream.buffered_bytes(), finish(stream)), (0, Events::default()));
        }
    }

    #[test]
    fn a_gap_within_a_message_loses_no_other_message() {
        let bytes = [packet_in(1, 100), barrier(2)].concat();
        let mut stream = MessageStream::of_new_connection();
        push(&mut stream, &bytes[..20]);
        skip(&mut stream, 50);
        // The barrier is neither at the end of its segment nor one of several messages.
        let events = push(&mut stream, &[&bytes[70..], &[1]].concat());
        assert_eq!(events, Events { xids: vec![2], others: vec![] });
    }

    #[test]
    fn after_a_gap_within_a_header_the_next_message_is_found() {
        for (cut, gap) in (1..8).flat_map(|cut| (1..9).map(move |gap| (cut, gap))) {
            let bytes = [packet_in(1, 40), barrier(2), barrier(3), barrier(4)].concat();
            let mut stream = MessageStream::of_new_connection();
            push(&mut stream, &barrier(0));
            push(&mut stream, &bytes[..cut]);
            skip(&mut stream, gap as u64);
            let events = push(&mut stream, &bytes[cut + gap..]);
            assert_eq!(events.xids, [2, 3, 4], "cut {cut}, gap {gap}: {events:?}");
            // The start of the next message is known only if the length was captured.
            assert_eq!(events.others.is_empty(), cut >= 4, "cut {cut}, gap {gap}: {events:?}");
        }
    }

    #[test]
    fn after_a_gap_two_messages_at_the_end_of_a_segment_are_found() {
        let mut stream = MessageStream::of_new_connection();
        assert_eq!(push(&mut stream, &barrier(1)).xids, [1]);
        skip(&mut stream, 100);
        let bytes = [&packet_in(2, 60)[40..], &barrier(3), &barrier(4)].concat();
        let events = push(&mut stream, &bytes);
        assert_eq!(events.xids, [3, 4]);
        assert_eq!(events.others, ["Resynchronised { skipped: 38 }"]);
    }

    #[test]
    fn after_a_gap_the_last_message_of_a_stream_is_found_at_its_end() {
        let mut stream = MessageStream::of_new_connection();
        push(&mut stream, &barrier(1));
        skip(&mut stream, 100);
        let bytes = [&packet_in(2, 60)[40..], &barrier(3)].concat();
        assert_eq!(push(&mut stream, &bytes).xids.len(), 0);
        assert_eq!(finish(stream).xids, [3]);
    }

    #[test]
    fn after_a_gap_several_messages_in_a_row_are_found() {
        let mut stream = MessageStream::of_new_connection();
        push(&mut stream, &barrier(1));
        skip(&mut stream, 100);
        let middle = [packet_in(3, 60), packet_in(4, 60), packet_in(5, 60)].concat();
        let events = push(&mut stream, &[&packet_in(2, 60)[40..], &middle, &[1, 10]].concat());
        assert_eq!(events.xids, [3, 4, 5]);
    }

    #[test]
    fn an_open_connection_is_joined_within_a_message() {
        let mut stream = MessageStream::of_open_connection();
        let bytes = [packet_in(1, 100), barrier(2)].concat();
        assert_eq!(push(&mut stream, &bytes[30..90]), Events::default());
        assert_eq!(push(&mut stream, &bytes[90..]), Events::default(), "one may be a coincidence");
        assert_eq!(push(&mut stream, &barrier(3)).xids, [2, 3]);
    }

    #[test]
    fn a_stream_that_is_joined_by_a_coincidence_is_not_openflow() {
        let mut stream = MessageStream::of_open_connection();
        assert_eq!(push(&mut stream, &barrier(1)).xids, [1]);
        push(&mut stream, &[99; 50]);
        assert_eq!(finish(stream).others, ["NotOpenFlow"]);
        let mut stream = MessageStream::of_open_connection();
        push(&mut stream, &[barrier(1), barrier(2), barrier(3)].concat());
        push(&mut stream, &[99; 50]);
        assert_eq!(finish(stream).others, ["NotResynchronised { skipped: 50 }"]);
    }

    #[test]
    fn a_new_stream_that_is_shorter_than_a_header_is_not_openflow() {
        for len in 0..8 {
            let mut stream = MessageStream::of_new_connection();
            push(&mut stream, &barrier(1)[..len]);
            assert_eq!(finish(stream).others.len(), usize::from(len > 0), "{len}");
        }
    }

    #[test]
    fn a_stream_without_messages_is_given_up_in_bounded_memory() {
        let mut rng = Rng::new(7);
        for is_openflow in [false, true] {
            let mut stream = MessageStream::of_open_connection();
            if is_openflow {
                push(&mut stream, &barrier(1));
            }
            skip(&mut stream, 1);
            for _ in 0..1000 {
                // Half of the bytes look like versions and types.
                let noise: Vec<_> =
                    (0..1400).map(|_| u8::try_from(rng.below(8)).unwrap() + 7).collect();
                assert!(push(&mut stream, &noise).xids.is_empty());
                assert!(stream.buffered_bytes() <= (256 + 8) << 10);
            }
            let others = finish(stream).others;
            assert_eq!(others.contains(&"NotOpenFlow".to_owned()), !is_openflow, "{others:?}");
        }
    }

    #[test]
    fn after_an_invalid_length_decoding_continues_at_the_next_messages() {
        let mut stream = MessageStream::of_messages();
        let bytes = [&[1, 18, 0, 4, 0, 0, 0, 1][..], &barrier(2), &barrier(3)].concat();
        let events = push(&mut stream, &bytes);
        assert_eq!(events.others, ["InvalidLength([1, 18, 0, 4, 0, 0, 0, 1])"]);
        assert!(events.xids.is_empty(), "pieces of a file end anywhere");
        assert_eq!(finish(stream).xids, [2, 3]);
    }

    #[test]
    fn bytes_after_an_invalid_length_that_are_no_messages_are_reported() {
        let mut stream = MessageStream::of_messages();
        push(&mut stream, &[1, 18, 0, 4, 0, 0, 0, 1, 9, 9, 9]);
        assert_eq!(finish(stream).others, ["NotResynchronised { skipped: 3 }"]);
    }
}
