//! Files that the program contains, compressed by gzip.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// The content of a file that `build.rs` has packed.
pub(crate) fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    // Cannot fail: `build.rs` has unpacked it, or packed it.
    let _ = GzDecoder::new(packed).read_to_end(&mut content);
    content
}
