//! The Unix socket: its file, and who is on the other side.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// A Unix socket that is listened on. Its file is removed when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            // It is replaced at the next start if it cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Listens on the Unix socket `path`. A socket that a process has left behind is replaced.
///
/// # Errors
/// `AddrInUse` if another process listens on it, `AlreadyExists` if it is no socket, and other errors of the system.
pub(crate) fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            let error = "there is a file that is no socket";
            return Err(io::Error::new(ErrorKind::AlreadyExists, error));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            // A queue that is full is that of a listener.
            Ok(_) => return Err(ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::AddrInUse.into());
            }
            Err(error) => return Err(error),
        }
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile { path: path.to_owned(), inode: inode(path)? };
    // Until here nobody else may connect if the umask is the usual one.
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_replaced_only_if_nobody_listens() {
        let path = std::env::temp_dir().join(format!("sluice-listen-{}.sock", std::process::id()));
        let _ = fs::remove_file(&path);
        let (listener, file) = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        // As after a crash: the file stays, and nobody listens.
        std::mem::forget(file);
        drop(listener);
        let (_listener, file) = listen(&path).unwrap();
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        fs::remove_file(&path).unwrap();
    }
}
