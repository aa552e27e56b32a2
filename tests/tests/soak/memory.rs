//! The memory limit of the controller, which another program of its control group reaches.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluice_system_tests::{LONG_TIMEOUT, TestEnv, wait_until};

/// The limit: several times what the controller uses, and little enough to be reached soon.
const LIMIT_BYTES: u64 = 256 << 20;

/// The number of SIGKILL.
const SIGKILL: i32 = 9;

/// A control group with a memory limit; removed on drop, when no process is left in it.
pub(crate) struct MemoryLimit {
    dir: PathBuf,
    hierarchy: Hierarchy,
}

/// The interface of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// cgroup v2, at this mount point.
    V2(&'static str),
    /// The memory controller of cgroup v1.
    V1(&'static str),
}

impl Hierarchy {
    /// All, in the order in which they are tried. v2 needs the controller `memory` in the root of the hierarchy.
    const ALL: [Self; 3] = [
        Self::V2("/sys/fs/cgroup"),
        Self::V2("/sys/fs/cgroup/unified"),
        Self::V1("/sys/fs/cgroup/memory"),
    ];

    /// Root, file with the limit, and file with the number of processes that were killed.
    fn files(self) -> (&'static Path, &'static str, &'static str) {
        match self {
            Self::V2(root) => (Path::new(root), "memory.max", "memory.events"),
            Self::V1(root) => (Path::new(root), "memory.limit_in_bytes", "memory.oom_control"),
        }
    }
}

impl MemoryLimit {
    /// `None`, which standard error says also if the test passes, when the kernel allows none, as in most containers.
    pub(crate) fn new(env: &TestEnv) -> Option<Self> {
        let create = |&hierarchy: &Hierarchy| Self::create(hierarchy, env.name());
        let limit = Hierarchy::ALL.iter().find_map(create);
        if limit.is_none() {
            let text = "NOT TESTED: the memory limit. Neither cgroup v2 nor v1 lets this process make a control group with one (in a \
                        container, mount /sys/fs/cgroup writable and move its processes out of the root group).\n";
            // The test harness hides what macros print.
            std::io::stderr().write_all(text.as_bytes()).unwrap();
        }
        limit
    }

    fn create(hierarchy: Hierarchy, name: &str) -> Option<Self> {
        let (root, limit, _) = hierarchy.files();
        // Other file systems may be mounted there, in which a file of any name can be written.
        let available = match hierarchy {
            Hierarchy::V2(_) => {
                // Fails where it is enabled already, or never; whether the group has the file of the limit is what counts.
                _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
                let controllers = fs::read_to_string(root.join("cgroup.controllers"));
                controllers.is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
            }
            Hierarchy::V1(_) => root.join(limit).exists(),
        };
        if !available {
            return None;
        }
        let dir = root.join(name);
        fs::create_dir(&dir).ok()?;
        let new = Self { dir, hierarchy };
        fs::write(new.dir.join(limit), LIMIT_BYTES.to_string()).ok()?;
        Some(new)
    }

    /// Arguments of `sh` that run a program in the group; its path and arguments follow.
    pub(crate) fn prefix(&self) -> [OsString; 3] {
        let script = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";
        ["-c".into(), script.into(), self.dir.clone().into()]
    }

    /// Which interface it has.
    pub(crate) fn name(&self) -> &'static str {
        match self.hierarchy {
            Hierarchy::V2(_) => "cgroup v2",
            Hierarchy::V1(_) => "cgroup v1",
        }
    }

    /// Processes that the kernel has killed at the limit.
    fn killed(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join(self.hierarchy.files().2)).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.unwrap().trim().parse().unwrap()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Fails while a process is in it; the next test of this name then fails.
        _ = fs::remove_dir(&self.dir);
    }
}

/// A program that takes all memory of the group, until the kernel kills it. The kernel prefers it to the controller.
pub(crate) struct ExhaustedMemory<'a> {
    limit: &'a MemoryLimit,
    killed_before: u64,
    child: Child,
}

impl<'a> ExhaustedMemory<'a> {
    pub(crate) fn begin(limit: &'a MemoryLimit) -> Self {
        let killed_before = limit.killed();
        let mut command = Command::new("sh");
        let script = "echo 1000 >/proc/self/oom_score_adj && exec tail /dev/zero";
        command.args(limit.prefix()).args(["sh", "-c", script]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { limit, killed_before, child }
    }

    /// Waits until the limit is reached, which the kernel counts.
    pub(crate) fn wait(mut self) {
        let mut status = None;
        wait_until(LONG_TIMEOUT, "the memory limit to be reached", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().signal(), Some(SIGKILL));
        assert_eq!(self.limit.killed(), self.killed_before + 1, "only this program was killed");
    }
}

impl Drop for ExhaustedMemory<'_> {
    fn drop(&mut self) {
        // Both fail when it has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
