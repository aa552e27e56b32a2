//! A place on this machine that nobody else is in: a folder and a network namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::namespace::Namespace;
use crate::shell::run;
use crate::turn::Turn;

/// A folder and a network namespace for one test; both go when it is dropped.
#[derive(Debug)]
pub struct Room {
    // Dropped in this order: the next test's turn comes when everything is gone.
    ns: Namespace,
    turn: Turn,
}

impl Room {
    /// Waits until no other test has one: they would disturb each other's clocks.
    ///
    /// # Panics
    /// Without the rights of root, which namespaces need.
    #[expect(clippy::new_without_default, reason = "it waits, and it may panic")]
    pub fn new() -> Self {
        let turn = Turn::new();
        Self { ns: Namespace::new(turn.name()), turn }
    }

    /// `program`, to be run inside.
    pub fn command(&self, program: &str) -> Command {
        self.ns.command(program)
    }

    /// Runs `act` inside, on a thread of its own.
    #[track_caller]
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.ns.within(act)
    }

    /// Runs `ip` inside; `words` are separated by spaces.
    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        self.ns.ip(words)
    }

    /// What the controller inside counts under `name`, if it serves metrics at its usual address.
    pub fn metric(&self, name: &str) -> Option<u64> {
        let mut curl = self.command("curl");
        let said = run(curl.args(["-sf", "http://127.0.0.1:8653/metrics"])).stdout;
        let name = format!("sluice_{name} ");
        let text = String::from_utf8_lossy(&said);
        let value = text.lines().find_map(|line| line.strip_prefix(&name))?;
        value.trim().split('.').next()?.parse().ok()
    }

    /// Path of a file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Writes a file into its folder.
    ///
    /// # Panics
    /// When the disk refuses.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        match fs::write(&path, text) {
            Ok(()) => path,
            Err(e) => panic!("{}: {e}", path.display()),
        }
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.turn.dir()
    }

    /// Its name, and the beginning of the names of what belongs to it.
    pub fn name(&self) -> &str {
        self.turn.name()
    }
}
