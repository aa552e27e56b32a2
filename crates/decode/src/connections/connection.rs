//! One TCP connection: both directions, and what is known of its ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use super::End;
use super::conversation::{Conversation, Output};
use super::reassembly::TcpReassembler;
use crate::capture::TcpSegment;
use crate::message_stream::MessageStream;
use crate::pairing::Pairing;
use crate::report::Reporter;

/// A TCP connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Number of its last packet.
    pub(super) last_packet: u64,
    streams: [Stream; 2],
    conversation: Conversation,
}

impl Connection {
    /// A connection without segments. `number` is unique in the capture.
    pub(super) fn new(number: u64, endpoints: [SocketAddr; 2]) -> Self {
        Self {
            last_packet: 0,
            streams: [Stream::default(), Stream::default()],
            conversation: Conversation::new(number, endpoints),
        }
    }

    /// Whether both directions have ended.
    pub(super) fn is_closed(&self) -> bool {
        self.streams.iter().all(|stream| stream.messages.is_none())
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let streams = self.streams.iter().map(Stream::buffered_bytes);
        streams.sum::<usize>() + self.conversation.held_bytes()
    }

    /// Processes a segment that `from` has sent.
    pub(super) fn receive<W: Write>(
        &mut self,
        segment: &TcpSegment<'_>,
        from: End,
        time: Duration,
        pairing: &mut Pairing,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let mut seq = segment.seq;
        if segment.is_syn {
            self.open(segment, from, time, pairing, report)?;
            seq = seq.wrapping_add(1);
        }
        let [a, b] = &mut self.streams;
        let (stream, reverse) = if from == End::A { (a, b) } else { (b, a) };
        let mut out = Output { conversation: &mut self.conversation, time, pairing, report };
        if let Some(ack) = segment.ack {
            reverse.tcp.acknowledge(ack);
            reverse.skip_lost_bytes(from.other(), &mut out)?;
        }
        if segment.is_fin {
            stream.insert_fin(seq, segment.payload, time);
        }
        stream.receive(seq, segment.payload, from, &mut out)?;
        if segment.is_reset {
            return self.finish(time, pairing, report);
        }
        Ok(())
    }

    /// Starts the stream of `from` at its `SYN`.
    fn open<W: Write>(
        &mut self,
        syn: &TcpSegment<'_>,
        from: End,
        time: Duration,
        pairing: &mut Pairing,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let [a, b] = &self.streams;
        let (stream, other) = if from == End::A { (a, b) } else { (b, a) };
        // A SYN may be repeated, or captured twice.
        if stream.tcp.is_opened_by(syn.seq) {
            return Ok(());
        }
        let opener_seq = syn.ack.map(|ack| ack.wrapping_sub(1));
        let is_answer = opener_seq.is_some_and(|seq| other.tcp.is_opened_by(seq));
        if !is_answer {
            // Another connection may have had the same addresses.
            self.finish(time, pairing, report)?;
            self.streams = [Stream::default(), Stream::default()];
            self.conversation.restart();
        }
        self.conversation.note_opener(if syn.ack.is_none() { from } else { from.other() });
        let [a, b] = &mut self.streams;
        let (stream, other) = if from == End::A { (a, b) } else { (b, a) };
        stream.open(syn.seq);
        if let Some(seq) = opener_seq.filter(|_| !is_answer) {
            // Its SYN was not captured.
            other.open(seq);
        }
        Ok(())
    }

    /// Skips bytes that are lost in the capture.
    pub(super) fn skip_lost_bytes<W: Write>(
        &mut self,
        time: Duration,
        pairing: &mut Pairing,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let mut out = Output { conversation: &mut self.conversation, time, pairing, report };
        for (stream, end) in self.streams.iter_mut().zip(End::BOTH) {
            stream.skip_lost_bytes(end, &mut out)?;
        }
        Ok(())
    }

    /// Ends both directions.
    pub(super) fn finish<W: Write>(
        &mut self,
        time: Duration,
        pairing: &mut Pairing,
        report: &mut Reporter<W>,
    ) -> io::Result<()> {
        let mut out = Output { conversation: &mut self.conversation, time, pairing, report };
        for (stream, end) in self.streams.iter_mut().zip(End::BOTH) {
            stream.finish(end, &mut out)?;
        }
        out.discard_held();
        Ok(())
    }
}

/// One direction of a connection.
#[derive(Debug)]
struct Stream {
    tcp: TcpReassembler,
    /// `None` after the end of the stream.
    messages: Option<MessageStream>,
}

impl Default for Stream {
    fn default() -> Self {
        Self { tcp: TcpReassembler::default(), messages: Some(MessageStream::of_open_connection()) }
    }
}

impl Stream {
    fn buffered_bytes(&self) -> usize {
        let messages = self.messages.as_ref().map_or(0, MessageStream::buffered_bytes);
        self.tcp.waiting_bytes() + messages
    }

    /// Starts the stream of a new connection, at its `SYN`.
    fn open(&mut self, seq: u32) {
        self.tcp.open(seq);
        self.messages = Some(MessageStream::of_new_connection());
    }

    /// Notes a `FIN` in a segment with this payload.
    fn insert_fin(&mut self, seq: u32, payload: &[u8], time: Duration) {
        if self.messages.is_none() {
            return;
        }
        // A stream whose first segment this is starts with its payload.
        self.tcp.start(seq);
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.tcp.insert_fin(seq.wrapping_add(len), time);
    }

    fn receive<W: Write>(
        &mut self,
        seq: u32,
        payload: &[u8],
        from: End,
        out: &mut Output<'_, W>,
    ) -> io::Result<()> {
        if let Some(messages) = self.messages.as_mut().filter(|_| !payload.is_empty())
            && let Some(next) = self.tcp.insert(seq, payload, out.time)
        {
            messages.push(next, &mut |event| out.on_event(from, event))?;
            self.push_ready(from, out)?;
        }
        self.skip_lost_bytes(from, out)
    }

    /// Processes the segments that waited for what has been received or skipped.
    fn push_ready<W: Write>(&mut self, from: End, out: &mut Output<'_, W>) -> io::Result<()> {
        let Some(messages) = &mut self.messages else { return Ok(()) };
        while let Some(next) = self.tcp.pop_ready() {
            messages.push(&next, &mut |event| out.on_event(from, event))?;
        }
        Ok(())
    }

    fn skip_lost_bytes<W: Write>(&mut self, from: End, out: &mut Output<'_, W>) -> io::Result<()> {
        while self.tcp.has_lost_bytes(out.time) && self.skip_gap(from, out)? {}
        if self.tcp.is_at_end() { self.finish(from, out) } else { Ok(()) }
    }

    /// Skips missing bytes; `false` if there are none.
    fn skip_gap<W: Write>(&mut self, from: End, out: &mut Output<'_, W>) -> io::Result<bool> {
        let (Some(messages), Some(missing)) = (&mut self.messages, self.tcp.skip_gap(out.time))
        else {
            return Ok(false);
        };
        messages.skip(missing, &mut |event| out.on_event(from, event))?;
        self.push_ready(from, out)?;
        Ok(true)
    }

    fn finish<W: Write>(&mut self, from: End, out: &mut Output<'_, W>) -> io::Result<()> {
        while self.skip_gap(from, out)? {}
        let Some(messages) = self.messages.take() else { return Ok(()) };
        messages.finish(&mut |event| out.on_event(from, event))
    }
}
