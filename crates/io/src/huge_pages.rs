//! Large pieces of memory on large pages.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use rustix::mm::{Advice, madvise};

/// A large page of x86-64, and the least that is asked for on large pages.
const PAGE: usize = 2 << 20;

/// The system's allocator, which asks for large pages where a piece fills one.
///
/// A table of some MiB that is looked at here and there otherwise costs a walk of the page tables with nearly every
/// look; `lab/huge-pages` has the measurement.
///
/// # Kernel
/// Linux 2.6.38 with transparent huge pages set to `madvise` or `always`; elsewhere the pages stay small.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePageAlloc;

/// `layout`, aligned to a large page if it fills one.
fn widened(layout: Layout) -> Layout {
    if layout.size() < PAGE {
        return layout;
    }
    layout.align_to(PAGE).unwrap_or(layout)
}

/// Asks for large pages under a new piece. The pages stay small where that fails, and nothing else changes.
fn advise(piece: *mut u8, layout: Layout) {
    if layout.size() >= PAGE && !piece.is_null() {
        // SAFETY: the whole pages within a piece that is ours and just allocated; the advice changes no content.
        let _ =
            unsafe { madvise(piece.cast(), layout.size() / PAGE * PAGE, Advice::LinuxHugepage) };
    }
}

// SAFETY: every call goes to the system's allocator, with the same widened layout for one piece each time, since that
// depends on nothing but its layout.
unsafe impl GlobalAlloc for HugePageAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promised; a wider alignment is a valid layout still.
        let piece = unsafe { System.alloc(widened(layout)) };
        advise(piece, layout);
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: allocated by the same allocator with the same widened layout.
        unsafe { System.dealloc(piece, widened(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < PAGE {
            // SAFETY: as the caller promised.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as the caller promised; a piece that is not null has `size` bytes.
        unsafe {
            let piece = self.alloc(layout);
            if !piece.is_null() {
                ptr::write_bytes(piece, 0, layout.size());
            }
            piece
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < PAGE && size < PAGE {
            // SAFETY: as the caller promised; neither layout is widened.
            return unsafe { System.realloc(piece, layout, size) };
        }
        // SAFETY: as the caller promised; the new piece is another one, of `size` bytes.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(piece, new, layout.size().min(size));
                self.dealloc(piece, layout);
            }
            new
        }
    }
}
