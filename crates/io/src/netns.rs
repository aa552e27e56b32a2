//! Network namespaces, entered by threads that end.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns add` puts them.
const NAMED: &str = "/run/netns";

/// That of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace.
///
/// # Kernel
/// Linux 3.0; a file of `/proc/PID/ns` 3.8.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    /// `None` for that of the process.
    name: Option<String>,
}

impl NetNs {
    /// That of the calling thread; entering it needs no privilege.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn here() -> io::Result<Self> {
        Ok(Self { file: File::open(OWN)?, name: None })
    }

    /// The one that `ip netns` knows as `name`; with a slash in it, the file of one, such as `/proc/1234/ns/net`.
    ///
    /// # Errors
    /// `NotFound` if there is none, `PermissionDenied`.
    pub fn open(name: &str) -> io::Result<Self> {
        let path =
            if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMED).join(name) };
        Ok(Self { file: File::open(path)?, name: Some(name.to_owned()) })
    }

    /// Whether both are the same one.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, other.file.metadata()?);
        Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
    }

    /// Runs `act` inside, on a thread that ends with it.
    ///
    /// # Errors
    /// `PermissionDenied` without the right to enter (`CAP_SYS_ADMIN`), `InvalidInput` if the file is none of a network
    /// namespace, and what the system says when there can be no thread.
    ///
    /// # Panics
    /// If `act` does.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside =
                thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
                    if self.name.is_some() {
                        let network = Some(LinkNameSpaceType::Network);
                        move_into_link_name_space(self.file.as_fd(), network)?;
                    }
                    Ok(act())
                })?;
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl fmt::Display for NetNs {
    /// As it was named; `this namespace` for that of the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("this namespace"))
    }
}
