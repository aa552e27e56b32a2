//! Network namespaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{output_of, run};

/// A network namespace with its loopback interface up; deleted on drop.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates it with IPv6 disabled, since neighbour discovery would cause packet-ins.
    pub(crate) fn new(name: &str) -> Self {
        output_of(Command::new("ip").args(["netns", "add", name]));
        let new = Self { name: name.to_owned() };
        new.ip("link set lo up");
        output_of(new.command("sysctl").args([
            "-qw",
            "net.ipv6.conf.all.disable_ipv6=1",
            "net.ipv6.conf.default.disable_ipv6=1",
        ]));
        new
    }

    /// A command that runs `program` in the namespace and ends with the thread that starts it.
    ///
    /// `ip netns exec` would also enter a mount namespace, in which namespaces created later are missing.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name));
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs `act` in the namespace, on a thread of its own.
    ///
    /// # Panics
    /// When the namespace cannot be entered, or `act` panics.
    #[track_caller]
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        let file = File::open(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let enter = || move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter().unwrap_or_else(|e| panic!("{path}: {e}"));
                act()
            });
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Name of the namespace.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in the namespace; `words` are separated by spaces. Returns its output.
    #[track_caller]
    pub(crate) fn ip(&self, words: &str) -> String {
        output_of(self.command("ip").args(words.split(' ')))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(Command::new("ip").args(["netns", "del", &self.name]));
    }
}
