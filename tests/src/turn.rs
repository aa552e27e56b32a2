//! One network at a time on this machine, and nothing left of those that died.

use std::env::temp_dir;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::shell::run;

/// What every namespace and folder of these tests begins with; then the process id.
const PREFIX: &str = "sluice-lab-";

/// The right to build a network: networks share two cores, and losses would follow.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
    name: String,
    dir: PathBuf,
}

impl Turn {
    /// Waits for the turn, sweeps what dead tests left, and makes a folder for this one.
    pub(crate) fn new() -> Self {
        static RANK: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "networks are built by root only: run these tests as root, in a container if you like"
        );
        let path = temp_dir().join("sluice-lab.lock");
        let lock = File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        lock.lock().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        sweep();
        let name = format!("{PREFIX}{}-{}", process::id(), RANK.fetch_add(1, Relaxed));
        let dir = temp_dir().join(&name);
        fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        Self { _lock: lock, name, dir }
    }

    /// Unlike any other on this machine.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// For sockets and logs; gone when this is dropped.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes namespaces and folders of test processes that are no more.
///
/// Their children are gone already: each is started to die with its parent.
fn sweep() {
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
    names.filter(|name| owner(name).is_some_and(is_dead)).collect()
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn is_dead(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}
