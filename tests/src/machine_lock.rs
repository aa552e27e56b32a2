//! A lock on this machine, and the removal of what killed test processes left behind.

use std::env::temp_dir;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::process::run;

/// Prefix of every network namespace and folder of these tests; the process id follows.
const PREFIX: &str = "sluice-test-";

/// Whether a test may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It measures load or instructions: no other system test runs. `make test` fuzzes meanwhile, at idle priority.
    Exclusive,
    /// It waits for conditions: other tests of this kind may run.
    Shared,
}

/// The lock, with a unique name and a folder for the test that holds it.
#[derive(Debug)]
pub(crate) struct MachineLock {
    _lock: File,
    name: String,
    dir: PathBuf,
}

impl MachineLock {
    /// Waits for the lock, removes what dead tests left, and creates the folder.
    pub(crate) fn acquire(sharing: Sharing) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "network namespaces need root: run these tests as root, for example in a container"
        );
        let path = temp_dir().join("sluice-test.lock");
        let lock = File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let locked = match sharing {
            Sharing::Exclusive => lock.lock(),
            Sharing::Shared => lock.lock_shared(),
        };
        locked.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        remove_orphans();
        let name = format!("{PREFIX}{}-{}", process::id(), COUNT.fetch_add(1, Relaxed));
        let dir = temp_dir().join(&name);
        fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        Self { _lock: lock, name, dir }
    }

    /// A name that no other test on this machine has.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A folder for sockets and logs; deleted on drop.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for MachineLock {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes namespaces and folders of test processes that have ended.
///
/// Their child processes have ended already: each is started with a parent-death signal.
fn remove_orphans() {
    for name in orphans(Path::new("/run/netns")) {
        run(Command::new("ip").args(["netns", "del", &name]));
    }
    for name in orphans(&temp_dir()) {
        _ = fs::remove_dir_all(temp_dir().join(name));
    }
}

fn orphans(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    names.filter(|name| owner(name).is_some_and(has_ended)).collect()
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn has_ended(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}
