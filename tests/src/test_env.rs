//! The environment of one test: a network namespace and a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine_lock::{MachineLock, Sharing};
use crate::namespace::Namespace;
use crate::process::run;

/// A network namespace and a folder for one test; both are deleted on drop.
#[derive(Debug)]
pub struct TestEnv {
    // Fields are dropped in this order: the lock is released after everything else has been removed.
    ns: Namespace,
    lock: MachineLock,
}

impl TestEnv {
    /// For a test that measures load or instructions: waits until no other test runs.
    ///
    /// # Panics
    /// Without root privileges, which namespaces need.
    #[expect(clippy::new_without_default, reason = "it blocks, and it may panic")]
    pub fn new() -> Self {
        Self::with(Sharing::Exclusive)
    }

    /// For a test that waits for conditions: others of this kind may run at the same time.
    ///
    /// # Panics
    /// Without root privileges, which namespaces need.
    pub fn shared() -> Self {
        Self::with(Sharing::Shared)
    }

    fn with(sharing: Sharing) -> Self {
        let lock = MachineLock::acquire(sharing);
        Self { ns: Namespace::new(lock.name()), lock }
    }

    /// A command that runs `program` in the namespace.
    pub fn command(&self, program: &str) -> Command {
        self.ns.command(program)
    }

    /// Runs `act` in the namespace, on a thread of its own. Sockets that it opens and threads that it starts stay there.
    #[track_caller]
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.ns.within(act)
    }

    /// Runs `ip` in the namespace; `words` are separated by spaces. Returns its output.
    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        self.ns.ip(words)
    }

    /// Value of the metric `sluice_<name>` of the controller, which may have a label in braces, or the sum for all labels without, if it serves
    /// metrics at the default address.
    pub fn metric(&self, name: &str) -> Option<u64> {
        let mut curl = self.command("curl");
        let output = run(curl.args(["-sf", "http://127.0.0.1:8653/metrics"])).stdout;
        let page = String::from_utf8_lossy(&output);
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        sum_of_samples(&page, &format!("sluice_{name}"), labels.trim_end_matches('}'))
    }

    /// Path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Writes a file into the folder.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[track_caller]
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        match fs::write(&path, content) {
            Ok(()) => path,
            Err(e) => panic!("{}: {e}", path.display()),
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.lock.dir()
    }

    /// Name of the namespace, and prefix of the names of further namespaces of this test.
    pub fn name(&self) -> &str {
        self.lock.name()
    }
}

/// Sum of the samples of the metric `name` on a page with metrics that have `label`, or of all if that is empty; `None` if there are none. Fractions
/// are cut off.
///
/// # Panics
/// When a sample has no number.
pub fn sum_of_samples(page: &str, name: &str, label: &str) -> Option<u64> {
    let samples = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let samples = samples.filter(|line| line.contains(label));
    let whole = |line: &str| line.rsplit(' ').next()?.split('.').next()?.parse::<u64>().ok();
    let value = |line: &str| whole(line).unwrap_or_else(|| panic!("no number: {line}"));
    samples.map(value).reduce(|sum, value| sum + value)
}
