//! Why `io_uring` cannot be used.

use std::fmt;
use std::fs;
use std::io;

use rustix::io::Errno;

/// The first version of Linux with all that is used: `IORING_SETUP_DEFER_TASKRUN`. Receive requests with several completions are of 6.0,
/// rings of buffers of 5.19.
pub(super) const KERNEL_MIN: &str = "6.1";

/// Why `io_uring` cannot be used on this system.
#[derive(Debug)]
pub enum UringError {
    /// The setting `kernel.io_uring_disabled` forbids it.
    Disabled,
    /// A filter of system calls forbids it.
    Filtered,
    /// The kernel has no `io_uring`, or an older one. The version of the kernel.
    TooOld(String),
    /// Memory or file descriptors are missing.
    Io(io::Error),
}

impl UringError {
    /// Finds out why a ring could not be created.
    pub(super) fn new(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            // 1 permits it to a group only.
            Some(Errno::PERM | Errno::ACCESS) => match read(SETTING).as_deref() {
                Some("1" | "2") => Self::Disabled,
                _ => Self::Filtered,
            },
            // Filters of containers also answer that there is no such system call.
            Some(Errno::NOSYS) if read(SETTING).is_some() => Self::Filtered,
            Some(Errno::NOSYS | Errno::INVAL) => {
                Self::TooOld(read("/proc/sys/kernel/osrelease").unwrap_or_default())
            }
            _ => Self::Io(error),
        }
    }
}

/// The setting that forbids `io_uring`; since Linux 6.6.
const SETTING: &str = "/proc/sys/kernel/io_uring_disabled";

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

impl fmt::Display for UringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str(
                "io_uring is disabled on this system: `sysctl -w kernel.io_uring_disabled=0` enables it",
            ),
            Self::Filtered => f.write_str(
                "io_uring is not permitted to this process: its seccomp filter must allow io_uring_setup, io_uring_enter \
                 and io_uring_register",
            ),
            Self::TooOld(release) => {
                write!(f, "io_uring needs Linux {KERNEL_MIN} or later, and this is Linux {release}")
            }
            Self::Io(error) => write!(f, "io_uring cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for UringError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_in_one_sentence_what_is_missing() {
        let too_old = UringError::new(Errno::INVAL.into()).to_string();
        assert!(too_old.starts_with("io_uring needs Linux 6.1 or later, and this is Linux "));
        let forbidden = UringError::new(Errno::PERM.into()).to_string();
        assert!(forbidden.contains("kernel.io_uring_disabled") || forbidden.contains("seccomp"));
        let other = UringError::new(Errno::MFILE.into());
        assert!(matches!(other, UringError::Io(_)), "{other}");
    }
}
