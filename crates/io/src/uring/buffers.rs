//! Memory that requests use: buffers into which the kernel receives, and buffers from which it sends.
//!
//! A buffer has one owner at a time, the kernel or this side. [`ReceivedBuffer`] and [`SendBuffer`] are the proof that it is
//! this side: they cannot be copied, and giving the buffer to the kernel consumes them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// Buffers for receiving: a power of two. Together with [`RECEIVE_BYTES`] this is 1 MiB for each thread.
pub(super) const RECEIVE_BUFFERS: u16 = 512;

/// Bytes of a buffer for receiving: as much as is read from a sparse connection at a time.
pub(super) const RECEIVE_BYTES: usize = 2 << 10;

/// Buffers for sending. Together with [`SEND_BYTES`] this is 1 MiB for each thread.
pub(super) const SEND_BUFFERS: u16 = 256;

/// Bytes of a buffer for sending: the replies to a read of [`RECEIVE_BYTES`], which are about as long as the packet-ins.
pub(super) const SEND_BYTES: usize = 4 << 10;

/// The alignment that the kernel requires of the ring.
const PAGE: usize = 4 << 10;

/// Zeroed memory of a fixed size.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is owned memory without ties to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// # Panics
    /// If `bytes` is zero.
    fn new(bytes: usize) -> Self {
        assert!(bytes > 0, "no memory");
        let layout = Layout::from_size_align(bytes, PAGE)
            .unwrap_or_else(|_| unreachable!("constants below isize::MAX"));
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A buffer with received bytes, which belongs to this side until it is passed to [`ReceiveBuffers::recycle`].
#[derive(Debug)]
pub(super) struct ReceivedBuffer {
    index: u16,
    len: usize,
}

impl ReceivedBuffer {
    /// Number of received bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// Buffers into which the kernel receives, and the ring in which they are given to it.
pub(super) struct ReceiveBuffers {
    ring: Memory,
    buffers: Memory,
    /// Number of buffers that were given to the kernel, modulo 2^16.
    tail: u16,
}

impl ReceiveBuffers {
    /// Buffers that all belong to the kernel as soon as the ring is registered.
    pub(super) fn new() -> Self {
        let count = usize::from(RECEIVE_BUFFERS);
        let mut this = Self {
            ring: Memory::new(count * size_of::<BufRingEntry>()),
            buffers: Memory::new(count * RECEIVE_BYTES),
            tail: 0,
        };
        for index in 0..RECEIVE_BUFFERS {
            this.recycle(ReceivedBuffer { index, len: 0 });
        }
        this
    }

    /// Address of the ring, for registration.
    pub(super) fn ring_addr(&self) -> u64 {
        self.ring.start.as_ptr().expose_provenance() as u64
    }

    /// The buffer of a completion, into which `len` bytes were received. To be called once for each.
    pub(super) fn received(index: u16, len: usize) -> ReceivedBuffer {
        ReceivedBuffer { index: index % RECEIVE_BUFFERS, len: len.min(RECEIVE_BYTES) }
    }

    /// The received bytes.
    pub(super) fn get(&self, buffer: &ReceivedBuffer) -> &[u8] {
        let at = usize::from(buffer.index) * RECEIVE_BYTES;
        debug_assert!(at + buffer.len <= self.buffers.bytes());
        // SAFETY: the range is within the memory, since `received` limits both numbers; the memory is initialised; the buffer
        // belongs to this side while there is a `ReceivedBuffer`, so that the kernel does not write to it, and giving it
        // back needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffers.start.as_ptr().add(at), buffer.len) }
    }

    /// Gives a buffer back to the kernel.
    #[expect(clippy::needless_pass_by_value, reason = "it must not be used afterwards")]
    pub(super) fn recycle(&mut self, buffer: ReceivedBuffer) {
        let slot = usize::from(self.tail % RECEIVE_BUFFERS);
        #[expect(clippy::cast_ptr_alignment, reason = "it is aligned to a page")]
        let ring = self.ring.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the slot is within the ring, whose memory is aligned to a page. The kernel reads a slot only after the
        // tail below was moved behind it, and there are as many slots as buffers, so that it is done with what was in this one.
        // The tail has a field of the first slot to itself, which the setters do not touch.
        unsafe {
            let entry = &mut *ring.add(slot);
            let memory = self.buffers.start.as_ptr();
            let at = usize::from(buffer.index) * RECEIVE_BYTES;
            entry.set_addr(memory.add(at).expose_provenance() as u64);
            #[expect(clippy::cast_possible_truncation, reason = "2 KiB")]
            entry.set_len(RECEIVE_BYTES as u32);
            entry.set_bid(buffer.index);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the field is a u16 that the kernel only reads, in memory that lives as long as `self`.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        // The kernel must see the slot before the tail.
        tail.store(self.tail, Ordering::Release);
    }
}

/// A buffer for sending that belongs to this side.
#[derive(Debug)]
pub(super) struct SendBuffer {
    index: u16,
    len: usize,
}

impl SendBuffer {
    /// Its number, below [`SEND_BUFFERS`].
    pub(super) fn index(&self) -> u16 {
        self.index
    }
}

/// Buffers from which the kernel sends.
pub(super) struct SendBuffers {
    memory: Memory,
    free: Vec<u16>,
    /// Length of the bytes in each buffer that belongs to the kernel.
    lens: Vec<Option<usize>>,
}

impl SendBuffers {
    pub(super) fn new() -> Self {
        Self {
            memory: Memory::new(usize::from(SEND_BUFFERS) * SEND_BYTES),
            free: (0..SEND_BUFFERS).collect(),
            lens: vec![None; SEND_BUFFERS.into()],
        }
    }

    /// A buffer with a copy of `bytes`; `None` if they do not fit or no buffer is free.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Option<SendBuffer> {
        if bytes.len() > SEND_BYTES {
            return None;
        }
        let index = self.free.pop()?;
        // SAFETY: the range is within the memory, and the buffer is free: neither the kernel nor a `SendBuffer` uses it.
        unsafe {
            let to = self.memory.start.as_ptr().add(usize::from(index) * SEND_BYTES);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Some(SendBuffer { index, len: bytes.len() })
    }

    /// Gives a buffer to the kernel; returns where its bytes are.
    #[expect(clippy::needless_pass_by_value, reason = "it must not be used afterwards")]
    pub(super) fn lend(&mut self, buffer: SendBuffer) -> (*const u8, usize) {
        if let Some(len) = self.lens.get_mut(usize::from(buffer.index)) {
            *len = Some(buffer.len);
        }
        // SAFETY: the buffer is within the memory.
        let start =
            unsafe { self.memory.start.as_ptr().add(usize::from(buffer.index) * SEND_BYTES) };
        (start, buffer.len)
    }

    /// Takes a buffer back from the kernel, whose request has completed; `None` if the kernel had none of this number.
    pub(super) fn take_back(&mut self, index: u16) -> Option<SendBuffer> {
        let len = self.lens.get_mut(usize::from(index))?.take()?;
        Some(SendBuffer { index, len })
    }

    pub(super) fn get(&self, buffer: &SendBuffer) -> &[u8] {
        let at = usize::from(buffer.index) * SEND_BYTES;
        // SAFETY: the range is within the memory and initialised; the buffer belongs to this side, and filling it again needs
        // `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(at), buffer.len) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "it must not be used afterwards")]
    pub(super) fn free(&mut self, buffer: SendBuffer) {
        self.free.push(buffer.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_for_sending_is_used_once_at_a_time() {
        let mut buffers = SendBuffers::new();
        assert!(buffers.fill(&[0; SEND_BYTES + 1]).is_none());
        let mut lent = vec![];
        while let Some(buffer) = buffers.fill(b"hello") {
            lent.push(buffer.index());
            buffers.lend(buffer);
        }
        lent.sort_unstable();
        lent.dedup();
        assert_eq!(lent.len(), SEND_BUFFERS.into());
        let buffer = buffers.take_back(7).unwrap();
        assert!(buffers.take_back(7).is_none(), "it was taken back");
        assert!(buffers.take_back(SEND_BUFFERS).is_none());
        assert_eq!(buffers.get(&buffer), b"hello");
        buffers.free(buffer);
        assert_eq!(buffers.fill(b"more").unwrap().index(), 7);
    }
}
