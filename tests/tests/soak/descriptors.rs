//! File descriptors are exhausted, and are there again.

use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sluice_system_tests::BackgroundTraffic;

use crate::attacks::sending;
use crate::subject::{LogReader, Subject, closed, open_files};

/// Descriptors beyond those in use; fewer than the peers that connect.
const SPARE: u64 = 4;

/// Silent peers.
const PEERS: usize = 64;

/// The limit of open files, lowered until this is dropped.
pub(crate) struct ExhaustedDescriptors {
    pid: Pid,
    old: Rlimit,
    log: LogReader,
    closed_before: u64,
    _peers: BackgroundTraffic,
}

impl ExhaustedDescriptors {
    pub(crate) fn begin(subject: &Subject<'_>) -> Self {
        let id = subject.controller.pid();
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        let (log, closed_before) = (subject.log_from_now(), closed("too_many_handshakes"));
        let maximum = Some(hard_limit(id));
        let lowered = Rlimit { current: Some(open_files(id) + SPARE), maximum };
        let old = prlimit(Some(pid), Resource::Nofile, lowered).unwrap();
        let to = subject.to;
        let mut peers: Vec<TcpStream> = Vec::new();
        let peers = BackgroundTraffic::send(Duration::from_millis(5), move |_| {
            if peers.len() < PEERS {
                peers.extend(sending(to, &[]));
            }
        });
        Self { pid, old, log, closed_before, _peers: peers }
    }

    /// Whether the log says so. The API cannot be asked meanwhile: its connections need descriptors, too.
    pub(crate) fn is_logged(&self) -> bool {
        self.log.count("cannot accept: Too many open files") > 0
    }

    /// Restores the limit; then the connections that were closed for want of a descriptor are counted.
    pub(crate) fn end(self) {
        let before = self.closed_before;
        drop(self);
        let count = closed("too_many_handshakes");
        assert!(count > before, "no connection was closed for want of a descriptor");
    }
}

impl Drop for ExhaustedDescriptors {
    fn drop(&mut self) {
        // Fails when the controller has ended, which others notice.
        _ = prlimit(Some(self.pid), Resource::Nofile, self.old);
    }
}

/// The limit up to which a process may raise its own.
fn hard_limit(pid: u32) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let words = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    words.split_whitespace().nth(1).unwrap().parse().unwrap()
}
