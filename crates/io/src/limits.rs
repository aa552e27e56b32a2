//! The limit on open files, and advice when a resource runs out.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files to at least `wanted` if permitted; returns the new limit.
pub fn raise_open_files(wanted: u64) -> u64 {
    let old = getrlimit(Resource::Nofile);
    let current = old.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let beyond_hard_limit = Rlimit {
        current: Some(wanted),
        maximum: Some(old.maximum.map_or(wanted, |m| m.max(wanted))),
    };
    let up_to_hard_limit = Rlimit {
        current: old.maximum.map(|m| m.min(wanted)).or(Some(wanted)),
        maximum: old.maximum,
    };
    // Root may exceed the hard limit.
    if setrlimit(Resource::Nofile, beyond_hard_limit).is_ok()
        || setrlimit(Resource::Nofile, up_to_hard_limit).is_ok()
    {
        return getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    }
    current
}

/// Whether no more files can be opened, by this process or by any.
pub fn is_lack_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Advice for the user if `error` is the lack of a resource.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE => {
            "raise the limit on open files with `ulimit -n`, or LimitNOFILE= of systemd"
        }
        Errno::NFILE => "raise the system's limit on open files with `sysctl fs.file-max=...`",
        Errno::NOSPC => {
            "raise the limit on watched files with `sysctl fs.epoll.max_user_watches=...`"
        }
        Errno::NOMEM | Errno::NOBUFS => "free memory by stopping other programs",
        _ => return None,
    })
}
