//! How many files a process may hold, and what to do when something runs out.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files to at least `wanted`, as far as the system allows; returns what it is then.
pub fn raise_open_files(wanted: u64) -> u64 {
    let old = getrlimit(Resource::Nofile);
    let current = old.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let all = Rlimit {
        current: Some(wanted),
        maximum: Some(old.maximum.map_or(wanted, |m| m.max(wanted))),
    };
    let allowed = Rlimit {
        current: old.maximum.map(|m| m.min(wanted)).or(Some(wanted)),
        maximum: old.maximum,
    };
    // Root may go past the hard limit, others up to it.
    if setrlimit(Resource::Nofile, all).is_ok() || setrlimit(Resource::Nofile, allowed).is_ok() {
        return getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    }
    current
}

/// What to do about `error`, if it says that the system or the process has no more of something.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE => {
            "raise the limit on open files with `ulimit -n`, or LimitNOFILE= of systemd"
        }
        Errno::NFILE => "raise the system's limit on open files with `sysctl fs.file-max=...`",
        Errno::NOSPC => {
            "raise the limit on what is waited for with `sysctl fs.epoll.max_user_watches=...`"
        }
        Errno::NOMEM | Errno::NOBUFS => "end something else that takes memory",
        _ => return None,
    })
}
