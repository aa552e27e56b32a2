//! The incomplete message at the end of a read.

use sluice_openflow::{HEADER_LEN, split_message};

/// A larger buffer is freed, since most switches are idle most of the time.
const KEPT_MAX: usize = 4 << 10;

/// The received part of an incomplete message.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    partial: Vec<u8>,
}

/// The result of adding a read to the incomplete message before it.
pub(crate) enum Reassembly<'a> {
    /// The message, which is complete now, and the rest of the read.
    Complete(Vec<u8>, &'a [u8]),
    /// There was no incomplete message. The whole read.
    NotNeeded(&'a [u8]),
    /// The message is still incomplete; all bytes of the read belong to it.
    Incomplete,
}

impl ReceiveBuffer {
    /// Completes the incomplete message with the start of a read.
    ///
    /// # Errors
    /// As [`split_message`].
    pub(crate) fn reassemble<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> sluice_openflow::Result<Reassembly<'a>> {
        if self.partial.is_empty() {
            return Ok(Reassembly::NotNeeded(bytes));
        }
        let header = HEADER_LEN.saturating_sub(self.partial.len());
        let (head, rest) = bytes.split_at(header.min(bytes.len()));
        self.partial.extend_from_slice(head);
        let Some(&[_, _, high, low]) = self.partial.first_chunk() else {
            return Ok(Reassembly::Incomplete);
        };
        // `split_message` reports an invalid length.
        let len = usize::from(u16::from_be_bytes([high, low])).max(HEADER_LEN);
        let (tail, rest) = rest.split_at(len.saturating_sub(self.partial.len()).min(rest.len()));
        self.partial.extend_from_slice(tail);
        if split_message(&self.partial)?.is_none() {
            return Ok(Reassembly::Incomplete);
        }
        Ok(Reassembly::Complete(std::mem::take(&mut self.partial), rest))
    }

    /// Takes back the buffer of a reassembled message for the next one, unless it is large.
    pub(crate) fn reuse(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_MAX {
            buffer.clear();
            self.partial = buffer;
        }
    }

    /// Keeps the end of a read.
    #[inline]
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
    }

    /// Number of bytes that are kept.
    pub(crate) fn len(&self) -> usize {
        self.partial.len()
    }

    /// Whether no message is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Takes everything that was kept.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::RawMessage;

    use super::*;

    #[test]
    fn messages_split_over_reads_are_reassembled_wherever_they_are_split() {
        let mut stream = Vec::new();
        for n in 0..20u8 {
            let len = 8 + n * 3;
            stream.extend([1, 2, 0, len, 0, 0, 0, n]);
            stream.extend(std::iter::repeat_n(n, usize::from(len) - 8));
        }
        for read_len in 1..60 {
            let (mut buffer, mut xids) = (ReceiveBuffer::default(), vec![]);
            for bytes in stream.chunks(read_len) {
                let mut rest = match buffer.reassemble(bytes).unwrap() {
                    Reassembly::Complete(message, rest) => {
                        xids.push(RawMessage::new(&message).unwrap().xid());
                        buffer.reuse(message);
                        rest
                    }
                    Reassembly::NotNeeded(bytes) => bytes,
                    Reassembly::Incomplete => continue,
                };
                while let Some((msg, after)) = split_message(rest).unwrap() {
                    xids.push(msg.xid());
                    rest = after;
                }
                buffer.keep(rest);
            }
            assert_eq!(xids, (0..20).collect::<Vec<_>>(), "reads of {read_len} bytes");
            assert!(buffer.partial.is_empty());
        }
    }

    #[test]
    fn an_invalid_length_is_found_in_a_header_that_was_split_over_reads() {
        let mut buffer = ReceiveBuffer::default();
        buffer.keep(&[1, 0, 0]);
        assert!(buffer.reassemble(&[4, 0, 0, 0, 0]).is_err());
    }
}
