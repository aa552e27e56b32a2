//! Reads files that may be pipes or devices, without waiting for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::clock;
use crate::poll::wait_readable;

/// Which kinds of files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKinds {
    /// Regular files only.
    Regular,
    /// Pipes and devices as well.
    Any,
}

/// Reads at most `bytes_max` bytes of the file at `path`.
///
/// # Errors
/// `InvalidInput` if the file is not of a kind in `kinds`, `TimedOut` if its end is not reached within `timeout`: a named pipe has
/// none until another program has written to it. Errors of `open`, `fstat`, `poll` and `read`.
pub fn read(
    path: &Path,
    kinds: FileKinds,
    bytes_max: usize,
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    read_open(&open(path, kinds)?, bytes_max, timeout)
}

/// Opens the file at `path` for [`read_open`].
///
/// # Errors
/// `InvalidInput` if the file is not of a kind in `kinds`. Errors of `open` and `fstat`.
pub fn open(path: &Path, kinds: FileKinds) -> io::Result<File> {
    // Otherwise `open` waits until a named pipe has a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Of the file that is open: another one may be at `path` by now.
    if kinds == FileKinds::Regular && !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Reads at most `bytes_max` bytes of a file that [`open`] has opened.
///
/// # Errors
/// `TimedOut` if its end is not reached within `timeout`. Errors of `poll` and `read`.
pub fn read_open(mut file: &File, bytes_max: usize, timeout: Duration) -> io::Result<Vec<u8>> {
    let deadline = clock::now() + timeout;
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    while bytes.len() < bytes_max {
        let [is_readable] = wait_readable([File::as_fd(file)], Some(deadline))?;
        if !is_readable {
            if clock::now() < deadline {
                continue;
            }
            return Err(io::Error::new(ErrorKind::TimedOut, "its end was not reached in time"));
        }
        let len = buffer.len().min(bytes_max - bytes.len());
        match file.read(buffer.get_mut(..len).unwrap_or_default()) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::{env, fs, process, thread};

    use super::*;
    use crate::named_pipe::NamedPipe;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn regular_files_and_devices_are_read_up_to_a_length() {
        let path = env::temp_dir().join(format!("sluice-input-{}", process::id()));
        fs::write(&path, vec![7; 40_000]).unwrap();
        let read = |path: &str, kinds, max| read(path.as_ref(), kinds, max, LONG);
        let file = path.to_str().unwrap();
        assert_eq!(read(file, FileKinds::Regular, 1 << 20).unwrap(), vec![7; 40_000]);
        assert_eq!(read(file, FileKinds::Any, 100).unwrap(), [7; 100]);
        assert_eq!(read("/dev/zero", FileKinds::Any, 100_000).unwrap(), vec![0; 100_000]);
        assert_eq!(read("/dev/null", FileKinds::Any, 100).unwrap(), []);
        let error = read("/dev/null", FileKinds::Regular, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_named_pipe_is_read_to_its_end_or_until_the_timeout() {
        let path = env::temp_dir().join(format!("sluice-input-pipe-{}", process::id()));
        let pipe = NamedPipe::new(&path).unwrap();
        let error = read(&path, FileKinds::Any, 100, Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = read(&path, FileKinds::Regular, 100, LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let writer = path.clone();
        let writer = thread::spawn(move || {
            OpenOptions::new().write(true).open(writer).unwrap().write_all(b"text").unwrap();
        });
        assert_eq!(read(&path, FileKinds::Any, 100, LONG).unwrap(), b"text");
        writer.join().unwrap();
        drop(pipe);
    }
}
