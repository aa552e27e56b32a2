//! An allocator that uses huge pages for large allocations.

#[cfg(not(target_env = "musl"))]
use std::alloc::System as BaseAllocator;
use std::alloc::{GlobalAlloc, Layout};
use std::{io, ptr};

// In the allocator of musl, all threads share one lock.
#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as BaseAllocator;
use rustix::mm::{Advice, madvise};
use rustix::thread::disable_transparent_huge_pages;

/// Bytes of a huge page of x86-64. Smaller allocations are not changed.
const HUGE_PAGE: usize = 2 << 20;

/// The system's allocator, with huge pages for allocations of at least one huge page. On top of mimalloc where the system's library is musl.
///
/// Random access to a table of several MiB on small pages misses the TLB nearly every time. Measured in `lab/huge-pages`.
///
/// # Kernel
/// Linux 2.6.38 with transparent huge pages set to `madvise` or `always`; otherwise pages stay small.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePageAlloc;

/// Has the kernel use small pages for all memory that the process allocates from now on, so that [`HugePageAlloc`] is not faster
/// than the system's allocator.
///
/// An allocator cannot be exchanged at the start of a process: memory that was allocated before must be freed by the same one.
///
/// # Errors
/// Errors of the operating system.
///
/// # Kernel
/// Linux 3.15.
pub fn disable_huge_pages() -> io::Result<()> {
    Ok(disable_transparent_huge_pages(true)?)
}

/// `layout`, aligned to a huge page if it is at least as large as one.
fn aligned(layout: Layout) -> Layout {
    if layout.size() < HUGE_PAGE {
        return layout;
    }
    layout.align_to(HUGE_PAGE).unwrap_or(layout)
}

/// Requests huge pages for a new allocation. If that fails, pages stay small.
///
/// # Safety
/// `allocation` is null, or an allocation of [`aligned`]`(layout)` that nothing else uses yet.
unsafe fn advise(allocation: *mut u8, layout: Layout) {
    if layout.size() >= HUGE_PAGE && !allocation.is_null() {
        // SAFETY: the range consists of whole pages of the allocation, since it is aligned to a huge page; the advice changes
        // no content.
        let _ = unsafe {
            madvise(allocation.cast(), layout.size() / HUGE_PAGE * HUGE_PAGE, Advice::LinuxHugepage)
        };
    }
}

// SAFETY: every call is passed to the allocator below, with the same aligned layout for the same allocation, since that
// depends only on its layout.
unsafe impl GlobalAlloc for HugePageAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees a valid layout; it is still valid with a larger alignment. `advise` gets what was
        // allocated with it.
        unsafe {
            let allocation = BaseAllocator.alloc(aligned(layout));
            advise(allocation, layout);
            allocation
        }
    }

    unsafe fn dealloc(&self, allocation: *mut u8, layout: Layout) {
        // SAFETY: allocated by the same allocator with the same aligned layout.
        unsafe { BaseAllocator.dealloc(allocation, aligned(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < HUGE_PAGE {
            // SAFETY: the caller guarantees a valid layout.
            return unsafe { BaseAllocator.alloc_zeroed(layout) };
        }
        // SAFETY: the caller guarantees a valid layout; an allocation that is not null has `size` bytes.
        unsafe {
            let allocation = self.alloc(layout);
            if !allocation.is_null() {
                ptr::write_bytes(allocation, 0, layout.size());
            }
            allocation
        }
    }

    unsafe fn realloc(&self, allocation: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < HUGE_PAGE && size < HUGE_PAGE {
            // SAFETY: the caller guarantees valid arguments; neither layout is changed by `aligned`.
            return unsafe { BaseAllocator.realloc(allocation, layout, size) };
        }
        // SAFETY: the caller guarantees valid arguments; the new allocation has `size` bytes and does not overlap.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(allocation, new, layout.size().min(size));
                self.dealloc(allocation, layout);
            }
            new
        }
    }
}
