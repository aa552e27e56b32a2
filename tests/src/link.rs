//! A `sluice link` between two network namespaces.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};

use rustix::process::Signal;

use crate::controller::{Ended, binary, logged};
use crate::host::Loss;
use crate::namespace::Namespace;
use crate::room::Room;
use crate::shell::{Daemon, run};
use crate::{SOON, wait_until};

/// The address at the far end.
pub const FAR: &str = "10.9.0.2";

/// A link from the namespace of a [`Room`] to one of its own.
#[derive(Debug)]
pub struct Link {
    daemon: Daemon,
    input: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
    room: Room,
    far: Namespace,
}

impl Link {
    /// Opens one in a room of its own, with `arguments` separated by spaces, and waits until it is ready.
    ///
    /// # Panics
    /// When it is not soon; its words are in the message.
    #[track_caller]
    pub fn open(arguments: &str) -> Self {
        let room = Room::new();
        let far = Namespace::new(&format!("{}-far", room.name()));
        let mut command = room.command(&binary().to_string_lossy());
        command
            .current_dir(room.dir())
            .args(["link", "--to", far.name()])
            .args(arguments.split_whitespace());
        let (stdout, stderr) = (room.file("link.out"), room.file("link.err"));
        command.stdin(Stdio::piped()).stdout(logged(&stdout)).stderr(logged(&stderr));
        let mut daemon = Daemon::new(&mut command);
        let input = daemon.input();
        let mut new = Self { daemon, input, stdout, stderr, room, far };
        new.wait_for("ready");
        new
    }

    /// Waits until a line of what it says begins with `words`.
    ///
    /// # Panics
    /// When it has ended, or has not said that soon.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        wait_until(SOON, &format!("`{words}` of sluice link"), || {
            if let Some(status) = self.daemon.ended() {
                panic!("sluice link ended with {status}: {}", self.complaints());
            }
            self.said().lines().any(|line| line.starts_with(words))
        });
    }

    /// Says a line to it, and waits until it has done that.
    ///
    /// # Panics
    /// When it has ended, or does not soon.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().map(|input| writeln!(input, "{line}"));
        assert!(matches!(input, Some(Ok(()))), "sluice link does not hear {line:?}: {input:?}");
        self.wait_for(&format!("ok: {line}"));
    }

    /// Pings the far end `count` times with packets of `bytes`, one every 20 ms; what came back, and the shortest
    /// round trip in milliseconds.
    #[track_caller]
    pub fn ping(&self, count: u32, bytes: u32) -> (Loss, Option<f64>) {
        const HEADERS: u32 = 28;
        let mut ping = self.room.command("ping");
        ping.args(["-n", "-q", "-i", "0.02", "-W", "1", "-c", &count.to_string()]);
        ping.args(["-s", &bytes.saturating_sub(HEADERS).to_string(), FAR]);
        let said = String::from_utf8_lossy(&run(&mut ping).stdout).into_owned();
        let trips = said.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
        let shortest = trips.and_then(|trips| trips.split('/').next()?.parse().ok());
        (Loss::parse(&said), shortest)
    }

    /// Runs `act` at the near end, on a thread of its own.
    #[track_caller]
    pub fn within_near<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.room.within(act)
    }

    /// Runs `act` at the far end, on a thread of its own.
    #[track_caller]
    pub fn within_far<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.far.within(act)
    }

    /// Whether a device of that name is at the near or the far end.
    pub fn has_device(&self, name: &str) -> bool {
        let shows = |mut ip: Command| run(ip.args(["link", "show", name])).status.success();
        shows(self.room.command("ip")) || shows(self.far.command("ip"))
    }

    /// Path of a file in the folder of the room.
    pub fn file(&self, name: &str) -> PathBuf {
        self.room.file(name)
    }

    /// Where it is.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Name of the namespace at the far end.
    pub fn far_name(&self) -> &str {
        self.far.name()
    }

    /// Asks it to end and waits until it has.
    #[track_caller]
    pub fn close(&mut self) -> Ended {
        self.daemon.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn ended(&mut self) -> Ended {
        wait_until(SOON, "sluice link to end", || self.daemon.ended().is_some());
        let code = self.daemon.ended().and_then(|status| status.code());
        Ended { code, stdout: self.said(), stderr: self.complaints() }
    }

    /// Everything it has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    fn complaints(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}
