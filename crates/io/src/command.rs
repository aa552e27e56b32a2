//! Commands whose output is read.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{mem, thread};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::clock;

/// Bytes of the output of a command that are read; more are discarded.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// Interval at which a command is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What a command has written, and whether it has succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Whether its exit code was 0.
    pub is_success: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs a program without input, and returns its output. After `timeout` it is killed, and the error is `TimedOut`.
///
/// # Errors
/// `NotFound` if there is no such program; others of starting it and of waiting for it.
pub fn output(program: &str, arguments: &[&str], timeout: Duration) -> io::Result<CommandOutput> {
    let deadline = clock::now() + timeout;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn()?;
    let stdout = mem::take(&mut child.stdout).map(read_in_background);
    let stderr = mem::take(&mut child.stderr).map(read_in_background);
    let is_success = wait(&mut child, deadline)?;
    // Processes that it has left behind may keep the pipes open.
    let text = |reader: Option<Receiver<String>>| {
        let left = deadline.saturating_duration_since(clock::now());
        let text = reader.map(|reader| reader.recv_timeout(left));
        text.unwrap_or_else(|| Ok(String::new())).map_err(|_| {
            // They may have ended meanwhile.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            io::Error::from(io::ErrorKind::TimedOut)
        })
    };
    Ok(CommandOutput { is_success, stdout: text(stdout)?, stderr: text(stderr)? })
}

/// Reads a pipe in a thread of its own, since a program that fills one pipe waits for its reader.
fn read_in_background(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(read(pipe)));
    receiver
}

fn wait(child: &mut Child, deadline: std::time::Instant) -> io::Result<bool> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if clock::now() >= deadline {
            // With all that it has started.
            kill_process_group(Pid::from_child(child), Signal::KILL)?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        clock::sleep(POLL_INTERVAL);
    }
}

/// The text that is read until the end; what is not UTF-8 is replaced.
fn read(pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is used.
    let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> io::Result<CommandOutput> {
        output("sh", &["-c", script], timeout)
    }

    #[test]
    fn output_and_success_are_returned() {
        let minute = Duration::from_secs(60);
        let found = shell("echo out; echo err >&2; exit 3", minute).unwrap();
        let expected =
            CommandOutput { is_success: false, stdout: "out\n".into(), stderr: "err\n".into() };
        assert_eq!(found, expected);
        // More than a pipe holds.
        let long = shell("head -c 300000 /dev/zero | tr '\\0' x", minute).unwrap();
        assert_eq!((long.is_success, long.stdout.len()), (true, 300_000));
    }

    #[test]
    fn a_program_that_is_missing_or_does_not_return_is_an_error() {
        let none = output("no-such-program-of-sluice", &[], Duration::from_secs(60));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
        let hung = output("sleep", &["600"], Duration::from_millis(50));
        assert_eq!(hung.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let left = shell("sleep 600 & echo 1.0", Duration::from_millis(300));
        assert_eq!(left.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
