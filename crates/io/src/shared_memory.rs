//! Memory that this process shares with the kernel.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a file, such as a map of BPF. Whoever else has it may change it at any time, so that it consists of atomic
/// numbers.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped, whichever thread that is in, and is only used through atomic numbers.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first `words` numbers of `file`.
    ///
    /// # Errors
    /// `InvalidInput` for none; errors of `mmap`.
    pub fn map(file: impl AsFd, words: usize) -> io::Result<Self> {
        let bytes = words.checked_mul(size_of::<AtomicU64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of this process.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }

    /// The memory.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is readable and writable, has this many numbers, starts at a page, and exists as long as `self`. Other
        // processes change it through atomic or aligned stores only, as those of a BPF program are.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and no reference to it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn two_mappings_of_a_file_share_it() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8192).unwrap();
        let [one, other] = [(); 2].map(|()| SharedMemory::map(&file, 1024).unwrap());
        one.words()[1023].store(7, Ordering::Release);
        assert_eq!(other.words()[1023].load(Ordering::Acquire), 7);
        assert_eq!(other.words().len(), 1024);
    }

    #[test]
    fn a_mapping_of_nothing_is_an_error() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        assert!(SharedMemory::map(&file, 0).is_err());
        assert!(SharedMemory::map(&file, usize::MAX).is_err());
    }
}
