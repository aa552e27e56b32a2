//! Messages that are kept back until the datapath id of their connection is known.

use std::collections::VecDeque;
use std::time::Duration;

use super::End;
use crate::pairing::AnsweredRequest;

/// Messages of a connection that are kept back: a handshake has less than ten before `FEATURES_REPLY`.
const MESSAGES_MAX: usize = 64;

/// Bytes of them: one message of the maximum length.
const BYTES_MAX: usize = 64 << 10;

/// Memory that a message takes besides its bytes: its place in the queue, and its allocation.
const MESSAGE_OVERHEAD: usize = size_of::<HeldMessage>() + 16;

/// A message that is kept back.
#[derive(Debug)]
pub(super) struct HeldMessage {
    pub(super) sender: End,
    pub(super) time: Duration,
    pub(super) answered: Option<AnsweredRequest>,
    pub(super) bytes: Vec<u8>,
}

/// The latest messages of a connection whose datapath id is not known.
#[derive(Debug, Default)]
pub(super) struct HeldMessages {
    messages: VecDeque<HeldMessage>,
    bytes: usize,
}

impl HeldMessages {
    /// Memory of the messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.messages.len() * MESSAGE_OVERHEAD
    }

    /// Adds a message; returns the number of messages that were discarded, the oldest first, since there are too many.
    pub(super) fn push(&mut self, message: HeldMessage) -> u64 {
        self.bytes += message.bytes.len();
        self.messages.push_back(message);
        let mut discarded = 0;
        while self.messages.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            discarded += 1;
        }
        discarded
    }

    /// Removes all messages, the oldest first.
    pub(super) fn take(&mut self) -> VecDeque<HeldMessage> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> HeldMessage {
        HeldMessage { sender: End::A, time: Duration::ZERO, answered: None, bytes: vec![0; len] }
    }

    #[test]
    fn the_number_of_messages_and_their_bytes_are_bounded() {
        let mut held = HeldMessages::default();
        let discarded: u64 = (0..100).map(|_| held.push(message(8))).sum();
        assert_eq!((discarded, held.bytes()), (36, 64 * (8 + MESSAGE_OVERHEAD)));
        let discarded: u64 = (0..3).map(|_| held.push(message(40_000))).sum();
        assert_eq!((discarded, held.bytes()), (66, 40_000 + MESSAGE_OVERHEAD));
        assert_eq!((held.take().len(), held.bytes()), (1, 0));
    }
}
