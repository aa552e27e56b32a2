//! A file into which others write what they want to say.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A named pipe that belongs to this process; its name goes when it is dropped.
#[derive(Debug)]
pub struct NamedPipe(PathBuf);

impl NamedPipe {
    /// Makes one that only this user may write to.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, `NotFound` if there is no such folder, `PermissionDenied`.
    pub fn new(path: &Path) -> io::Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        Ok(Self(path.to_owned()))
    }

    /// Opens it for reading. It does not end when a writer leaves, since others may come.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(&self.0)
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        // Somebody else may have removed it, which is as good.
        let _ = fs::remove_file(&self.0);
    }
}
