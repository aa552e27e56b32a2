//! Encoding messages into a transmit buffer.

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::model::reader::number;
use crate::raw_message::Header;
use crate::raw_message::RawMessage;
use crate::{EncodeError, Expected, MessageType, Version};

/// Appends messages to a transmit buffer, in the version of one switch, with consecutive transaction IDs.
///
/// A message that cannot be encoded leaves the buffer as it was.
#[derive(Debug)]
pub struct Encoder<'t> {
    tx: &'t mut Vec<u8>,
    version: Version,
    next_xid: &'t mut u32,
}

impl<'t> Encoder<'t> {
    /// Appends to `tx` in `version`; `next_xid` is the transaction ID of the next message.
    #[inline]
    pub fn new(tx: &'t mut Vec<u8>, version: Version, next_xid: &'t mut u32) -> Self {
        Self { tx, version, next_xid }
    }

    /// A shorter borrow of the same buffer.
    #[inline]
    pub fn reborrow(&mut self) -> Encoder<'_> {
        Encoder { tx: self.tx, version: self.version, next_xid: self.next_xid }
    }

    /// An encoder with the same version and transaction IDs for another buffer.
    #[inline]
    pub fn with_buffer<'a>(&'a mut self, tx: &'a mut Vec<u8>) -> Encoder<'a> {
        Encoder { tx, version: self.version, next_xid: self.next_xid }
    }

    /// A shorter borrow of the same buffer, in another version.
    pub(crate) fn in_version(&mut self, version: Version) -> Encoder<'_> {
        Encoder { version, ..self.reborrow() }
    }

    /// Appends a message with the next transaction ID and returns that ID.
    ///
    /// # Errors
    /// The error of `body`; nothing is appended then.
    #[inline]
    pub(crate) fn message(
        &mut self,
        kind: MessageType,
        body: impl FnOnce(&mut Encoder<'_>) -> Result<(), EncodeError>,
    ) -> Result<u32, EncodeError> {
        let xid = *self.next_xid;
        self.message_with_xid(kind, xid, body)?;
        *self.next_xid = xid.wrapping_add(1);
        Ok(xid)
    }

    /// Appends a message with the transaction ID `xid`.
    ///
    /// # Errors
    /// The error of `body`, or a message of more than 65 535 bytes; nothing is appended then.
    #[inline]
    pub(crate) fn message_with_xid(
        &mut self,
        kind: MessageType,
        xid: u32,
        body: impl FnOnce(&mut Encoder<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let start = self.tx.len();
        self.put(&Header {
            version: self.version.0,
            kind: kind.to_wire(self.version),
            length: U16::ZERO,
            xid: xid.into(),
        });
        let written = body(self).and_then(|()| self.patch_len(start, 2));
        if written.is_err() {
            self.tx.truncate(start);
        }
        written
    }

    /// Writes the bytes since `start` as a 16-bit length, `at` bytes after `start`.
    ///
    /// # Errors
    /// More than 65 535 bytes.
    #[inline]
    pub(crate) fn patch_len(&mut self, start: usize, at: usize) -> Result<(), EncodeError> {
        self.patch(start + at, self.tx.len() - start)
    }

    /// Writes `len` as 16 bits over the bytes at `at`.
    ///
    /// # Errors
    /// More than 65 535.
    #[inline]
    pub(crate) fn patch(&mut self, at: usize, len: usize) -> Result<(), EncodeError> {
        let version = self.version;
        let too_long = || {
            let error = EncodeError::new("length", version, None);
            error.with_value(number(len), Expected::AtMost(u16::MAX))
        };
        let len = u16::try_from(len).map_err(|_| too_long())?;
        if let Some(place) = self.tx.get_mut(at..at + 2) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        Ok(())
    }

    /// Appends the bytes of a layout.
    #[inline]
    pub(crate) fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, layout: &T) {
        self.tx.extend_from_slice(layout.as_bytes());
    }

    /// Appends zeros until the bytes since `start` are a multiple of eight.
    #[inline]
    pub(crate) fn pad_to_8(&mut self, start: usize) {
        let len = self.tx.len() - start;
        self.tx.resize(start + len.next_multiple_of(8), 0);
    }

    /// Number of bytes in the buffer.
    pub fn len(&self) -> usize {
        self.tx.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.tx.is_empty()
    }

    /// The version in which messages are encoded.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Transaction ID of the next message.
    #[inline]
    pub fn next_xid(&self) -> u32 {
        *self.next_xid
    }

    /// Checks that the version is `needs` or later, which `what` requires.
    pub(crate) fn needs(&self, needs: Version, what: &'static str) -> Result<(), EncodeError> {
        if self.version >= needs {
            return Ok(());
        }
        Err(EncodeError::new(what, self.version, Some(needs)))
    }

    /// Appends a message of any type with an already encoded body and the transaction ID `xid`.
    ///
    /// # Errors
    /// The message is longer than 65 535 bytes, or the version does not have the type.
    pub fn raw_message(
        &mut self,
        kind: MessageType,
        xid: u32,
        body: &[u8],
    ) -> Result<(), EncodeError> {
        let version = self.version;
        if MessageType::from_wire(version, kind.to_wire(version)) != kind {
            let row = MessageType::ALL.iter().find(|row| row.0 == kind);
            let (what, needs) = row.map_or(("kind of message", None), |r| (r.1, Some(r.2)));
            return Err(EncodeError::new(what, version, needs));
        }
        self.message_with_xid(kind, xid, |out| {
            out.put(body);
            Ok(())
        })
    }

    /// Appends a message that is already encoded in this version, with the next transaction ID, which is returned.
    ///
    /// # Errors
    /// The message has another version.
    #[inline]
    pub fn encoded_message(&mut self, message: RawMessage<'_>) -> Result<u32, EncodeError> {
        if message.version() != self.version {
            return Err(EncodeError::new("message of another version", self.version, None));
        }
        let (start, xid) = (self.tx.len(), *self.next_xid);
        self.tx.extend_from_slice(message.bytes());
        if let Some(place) = self.tx.get_mut(start + 4..start + 8) {
            place.copy_from_slice(&xid.to_be_bytes());
        }
        *self.next_xid = xid.wrapping_add(1);
        Ok(xid)
    }

    /// Appends a message without a body.
    fn bare(&mut self, kind: MessageType) -> u32 {
        let xid = *self.next_xid;
        self.bare_with_xid(kind, xid);
        *self.next_xid = xid.wrapping_add(1);
        xid
    }

    fn bare_with_xid(&mut self, kind: MessageType, xid: u32) {
        let (version, kind) = (self.version.0, kind.to_wire(self.version));
        self.put(&Header { version, kind, length: U16::new(8), xid: xid.into() });
    }

    /// Appends a `FEATURES_REQUEST`; returns its transaction ID. §7.3.1.
    pub fn features_request(&mut self) -> u32 {
        self.bare(MessageType::FEATURES_REQUEST)
    }

    /// Appends a `GET_CONFIG_REQUEST`; returns its transaction ID. §7.3.2.
    pub fn get_config_request(&mut self) -> u32 {
        self.bare(MessageType::GET_CONFIG_REQUEST)
    }

    /// Appends a `BARRIER_REQUEST`; returns its transaction ID. The switch finishes earlier messages before later ones.
    /// §7.3.8.
    pub fn barrier_request(&mut self) -> u32 {
        self.bare(MessageType::BARRIER_REQUEST)
    }

    /// Appends the `BARRIER_REPLY` to the request `xid`. §7.3.8.
    pub fn barrier_reply(&mut self, xid: u32) {
        self.bare_with_xid(MessageType::BARRIER_REPLY, xid);
    }
}

/// Low-level writing, for code that writes many messages of one shape from a template, as `sluice-fastpath` does.
///
/// These functions do not check anything: the caller must append whole messages.
impl Encoder<'_> {
    /// Returns the transaction ID of the next message and increments it.
    #[inline]
    pub fn take_xid(&mut self) -> u32 {
        let xid = *self.next_xid;
        *self.next_xid = xid.wrapping_add(1);
        xid
    }

    /// Sets the transaction ID of the next message.
    #[inline]
    pub fn set_next_xid(&mut self, xid: u32) {
        *self.next_xid = xid;
    }

    /// Shortens the buffer to `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.tx.truncate(len);
    }

    /// Appends `bytes`.
    #[inline]
    pub fn append_bytes(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// Appends the first `N` bytes of `bytes` and returns the copy, so that values can be patched in.
    #[inline]
    pub fn append_chunk<const N: usize>(&mut self, bytes: &[u8]) -> &mut [u8] {
        if let Some(chunk) = bytes.first_chunk::<N>() {
            self.tx.extend_from_slice(chunk);
        }
        self.tx.last_chunk_mut::<N>().map_or(&mut [], |chunk| chunk)
    }

    /// Appends a copy of `layout` and returns it, so that values can be patched in.
    #[inline]
    pub fn append_copy<T>(&mut self, layout: &T) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned,
    {
        self.put(layout);
        T::mut_from_suffix(self.tx).ok().map(|(_, copy)| copy)
    }

    /// Appends two copies of `layout` and returns them, so that values can be patched in.
    #[expect(clippy::inline_always, reason = "lab/instructions: a call costs a tenth")]
    #[inline(always)]
    pub fn append_two_copies<T>(&mut self, layout: &T) -> Option<&mut [T; 2]>
    where
        T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned,
    {
        // A single copy of both would be a function call, and so would two separate copies.
        for _ in 0..2 {
            self.tx.extend_from_slice(layout.as_bytes());
        }
        <[T; 2]>::mut_from_suffix(self.tx).ok().map(|(_, copies)| copies)
    }

    /// Writes the number of bytes since `start` into the length field of the message header at `start`.
    ///
    /// # Errors
    /// The message is longer than 65 535 bytes.
    #[inline]
    pub fn patch_message_len(&mut self, start: usize) -> Result<(), EncodeError> {
        self.patch_len(start, 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_encoded_leaves_the_buffer_unchanged() {
        let (mut tx, mut xid) = (vec![1, 2, 3], 9);
        let mut out = Encoder::new(&mut tx, Version::V1_0, &mut xid);
        let failed = out.message(MessageType::FLOW_MOD, |out| {
            out.put(&[0u8; 8]);
            out.needs(Version::V1_1, "goto_table")
        });
        assert_eq!(failed.unwrap_err().what, "goto_table");
        assert_eq!((tx, xid), (vec![1, 2, 3], 9));
    }

    #[test]
    fn transaction_ids_increment_and_wrap_around() {
        let (mut tx, mut xid) = (vec![], u32::MAX);
        let mut out = Encoder::new(&mut tx, Version::V1_3, &mut xid);
        assert_eq!(out.barrier_request(), u32::MAX);
        assert_eq!(out.barrier_request(), 0);
        assert_eq!(tx[..8], [4, 20, 0, 8, 0xff, 0xff, 0xff, 0xff]);
    }
}
