//! Named pipes, for commands from other programs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A named pipe created by this process. Removed when it is dropped.
#[derive(Debug)]
pub struct NamedPipe(PathBuf);

impl NamedPipe {
    /// Creates a pipe that only this user may read and write.
    ///
    /// # Errors
    /// `AlreadyExists` if the file exists, `NotFound` if the directory does not, `PermissionDenied`.
    pub fn new(path: &Path) -> io::Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        Ok(Self(path.to_owned()))
    }

    /// Opens the pipe for reading. Reading does not end when the last writer closes it.
    ///
    /// # Errors
    /// Errors of `open`.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(&self.0)
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // Fails if it was removed already.
        let _ = fs::remove_file(&self.0);
    }
}
