//! Records control messages with the times at which they were sent and received.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice_openflow::{MessageType, split_message};

/// Most messages that are kept until they are taken; further ones are only counted.
const RECORDS_MAX: usize = 1 << 20;

/// The end of a control connection that sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageSender {
    /// The switch.
    Switch,
    /// The controller.
    Controller,
}

/// A control message, and when the emulated switch sent or received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// Immediately before the bytes of a switch are written to the socket, or when bytes of the controller have been read.
    pub at: Instant,
    /// Index of the switch.
    pub switch: usize,
    /// Who sent it.
    pub sender: MessageSender,
    /// The whole message.
    pub bytes: Vec<u8>,
}

/// Splits the streams of control connections into messages, and keeps those of some types.
#[derive(Debug, Default)]
pub(super) struct MessageRecorder {
    kinds: Vec<MessageType>,
    records: Vec<RecordedMessage>,
    /// The start of an incomplete message of each stream.
    partial: BTreeMap<(usize, MessageSender), Vec<u8>>,
    discarded: u64,
}

impl MessageRecorder {
    pub(super) fn new(kinds: &[MessageType]) -> Self {
        Self { kinds: kinds.to_vec(), ..Self::default() }
    }

    /// Bytes were sent or received. What cannot be split into messages is ignored.
    pub(super) fn record(
        &mut self,
        at: Instant,
        switch: usize,
        sender: MessageSender,
        bytes: &[u8],
    ) {
        let partial = self.partial.entry((switch, sender)).or_default();
        let joined = if partial.is_empty() {
            None
        } else {
            partial.extend_from_slice(bytes);
            Some(std::mem::take(partial))
        };
        let mut rest = joined.as_deref().unwrap_or(bytes);
        loop {
            match split_message(rest) {
                Ok(Some((message, after))) => {
                    let length = rest.len() - after.len();
                    let whole = rest.get(..length).unwrap_or_default();
                    rest = after;
                    if !self.kinds.contains(&message.kind()) {
                        continue;
                    }
                    if self.records.len() >= RECORDS_MAX {
                        self.discarded += 1;
                        continue;
                    }
                    self.records.push(RecordedMessage {
                        at,
                        switch,
                        sender,
                        bytes: whole.to_vec(),
                    });
                }
                Ok(None) => {
                    partial.extend_from_slice(rest);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// A connection has ended: the rest of an incomplete message will not come.
    pub(super) fn forget(&mut self, switch: usize) {
        for sender in [MessageSender::Switch, MessageSender::Controller] {
            self.partial.remove(&(switch, sender));
        }
    }

    pub(super) fn take(&mut self) -> Vec<RecordedMessage> {
        std::mem::take(&mut self.records)
    }

    pub(super) fn discarded(&self) -> u64 {
        self.discarded
    }
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    /// A message of 1.3 of this type, with 4 bytes of body.
    fn message(kind: MessageType) -> Vec<u8> {
        let kind = u8::try_from(kind.0).unwrap();
        vec![4, kind, 0, 12, 0, 0, 0, 1, 1, 2, 3, 4]
    }

    #[test]
    fn messages_are_split_joined_and_selected_by_type() {
        let now = clock::now();
        let mut recorder = MessageRecorder::new(&[MessageType::PACKET_IN]);
        let stream = [message(MessageType::PACKET_IN), message(MessageType::HELLO)].concat();
        recorder.record(now, 3, MessageSender::Switch, &stream[..5]);
        assert_eq!(recorder.take(), []);
        recorder.record(now, 3, MessageSender::Switch, &stream[5..20]);
        let taken = recorder.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].switch, taken[0].sender), (3, MessageSender::Switch));
        assert_eq!(taken[0].bytes, message(MessageType::PACKET_IN));
        recorder.record(now, 3, MessageSender::Switch, &stream[20..]);
        assert_eq!(recorder.take(), []);
    }

    #[test]
    fn an_incomplete_message_is_forgotten_with_its_connection() {
        let now = clock::now();
        let mut recorder = MessageRecorder::new(&[MessageType::PACKET_IN]);
        let whole = message(MessageType::PACKET_IN);
        recorder.record(now, 0, MessageSender::Controller, &whole[..9]);
        recorder.forget(0);
        recorder.record(now, 0, MessageSender::Controller, &whole);
        assert_eq!(recorder.take().len(), 1);
    }
}
