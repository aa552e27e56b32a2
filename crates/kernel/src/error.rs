//! Why a BPF program cannot be used.

use std::fmt;
use std::io;

/// Why a BPF program cannot be used. The text is one sentence that says what is missing.
#[derive(Debug)]
pub enum KernelError {
    /// The program was built without clang.
    NotBuilt,
    /// The process must not load such programs.
    NoPermission,
    /// The kernel is too old.
    Old {
        /// Its release.
        release: String,
        /// The first version that has what is needed.
        needed: (u32, u32),
    },
    /// The kernel does not describe its types.
    NoTypes,
    /// The kernel refused the program or one of its maps.
    Refused(String),
    /// A map could not be used, or a socket not be created.
    Io(io::Error),
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => {
                f.write_str("this program was built without clang, and therefore without it")
            }
            Self::NoPermission => f.write_str(
                "it needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, and a filter of system calls, as of a service, that permits bpf",
            ),
            Self::Old { release, needed: (major, minor) } => {
                write!(f, "it needs Linux {major}.{minor} or later, and this is {release}")
            }
            Self::NoTypes => f.write_str(
                "it needs a kernel that describes its types in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)",
            ),
            Self::Refused(reason) => write!(f, "the kernel refused it: {reason}"),
            Self::Io(error) => write!(f, "its memory or its sockets cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for KernelError {}

impl From<io::Error> for KernelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
