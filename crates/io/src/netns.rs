//! Network namespaces.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Directory of the namespaces that `ip netns add` creates.
const NAMED_DIR: &str = "/run/netns";

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace.
///
/// # Kernel
/// Linux 3.0; a file of `/proc/PID/ns` 3.8.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    /// `None` for the namespace of the process.
    name: Option<String>,
}

impl NetNs {
    /// The namespace of the calling thread. Entering it needs no privilege.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: File::open(OWN)?, name: None })
    }

    /// Opens a namespace by its name in `ip netns`, or by its file, such as `/proc/1234/ns/net`, if `name` contains a slash.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`.
    pub fn open(name: &str) -> io::Result<Self> {
        let path =
            if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMED_DIR).join(name) };
        Ok(Self { file: File::open(path)?, name: Some(name.to_owned()) })
    }

    /// Whether both are the same namespace.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, other.file.metadata()?);
        Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
    }

    /// Runs `f` in this namespace, on a thread of its own, and waits for it.
    ///
    /// # Errors
    /// `PermissionDenied` without the capability `CAP_SYS_ADMIN`, `InvalidInput` if the file is not a network namespace, and
    /// errors of creating a thread.
    ///
    /// # Panics
    /// If `f` panics.
    ///
    /// # Cost
    /// A thread.
    pub fn run_inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let thread =
                thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
                    if self.name.is_some() {
                        let network = Some(LinkNameSpaceType::Network);
                        move_into_link_name_space(self.file.as_fd(), network)?;
                    }
                    Ok(f())
                })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl fmt::Display for NetNs {
    /// The name with which it was opened; `this namespace` for that of the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("this namespace"))
    }
}
