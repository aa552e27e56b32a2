//! Access to files and directories.

use std::path::Path;

use rustix::fs::{Access, access};

/// Whether this process may write a file, or make files in a directory.
pub fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_not_writable() {
        assert!(is_writable(&std::env::temp_dir()));
        assert!(!is_writable("/does/not/exist".as_ref()));
    }
}
