//! A network namespace: interfaces and addresses that nobody else sees.

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::shell::{output_of, run};

/// One network namespace, up to its loopback; deleted when dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes it. Without IPv6, whose own chatter would become packet-ins.
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

    /// `program`, to be run inside; it dies when the thread that starts it does.
    ///
    /// Not by `ip netns exec`, which also enters a mount namespace in which namespaces
    /// made later are missing.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name));
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs `act` inside, on a thread of its own.
    ///
    /// # Panics
    /// When it cannot be entered, or `act` does.
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

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside; `words` are separated by spaces.
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
