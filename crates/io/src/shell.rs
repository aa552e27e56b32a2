//! Commands of the shell.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::clock;

/// Interval at which a command is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs `command` in the shell, without input, its output on standard error or discarded, and waits for its end. After `timeout` it is
/// killed with all processes that it has started; then there is no exit status.
///
/// # Errors
/// Those of starting the shell and of waiting for it.
pub fn run(command: &str, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let mut shell = shell(command);
    shell.stdout(Stdio::null());
    wait(shell, timeout)
}

/// As [`run`], in `folder`, with an environment variable (name and value), and with all output appended to `log`.
///
/// # Errors
/// As [`run`], and those of opening `log`.
pub fn run_in(
    folder: &Path,
    command: &str,
    log: &Path,
    timeout: Duration,
    (name, value): (&str, &str),
) -> io::Result<Option<ExitStatus>> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut shell = shell(command);
    shell.current_dir(folder).env(name, value).stdout(log.try_clone()?).stderr(log);
    wait(shell, timeout)
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
    shell
}

fn wait(mut shell: Command, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = clock::now() + timeout;
    let mut shell = shell.spawn()?;
    loop {
        if let Some(status) = shell.try_wait()? {
            return Ok(Some(status));
        }
        if clock::now() >= deadline {
            kill(&mut shell)?;
            return Ok(None);
        }
        clock::sleep(POLL_INTERVAL);
    }
}

/// Kills a child that leads a process group, with that group.
fn kill(leader: &mut Child) -> io::Result<()> {
    kill_process_group(Pid::from_child(leader), Signal::KILL)?;
    leader.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_command_runs_in_its_folder_and_writes_into_its_log() {
        let log = std::env::temp_dir().join(format!("sluice-shell-log-{}", std::process::id()));
        let minute = Duration::from_secs(60);
        let command = "pwd; echo $SLUICE_TEST >&2";
        let variable = ("SLUICE_TEST", "error");
        let status = run_in(Path::new("/"), command, &log, minute, variable).unwrap().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert!(status.success());
        assert_eq!(text, "/\nerror\n");
    }

    #[test]
    fn the_exit_status_of_a_command_is_returned() {
        let code = |command| run(command, Duration::from_secs(60)).unwrap().unwrap().code();
        assert_eq!((code("exit 0"), code("exit 3")), (Some(0), Some(3)));
    }

    #[test]
    fn a_command_that_does_not_return_is_killed_with_its_processes() {
        let file = std::env::temp_dir().join(format!("sluice-shell-{}", std::process::id()));
        // The timeout may pass before the shell has started the process.
        let mut child = String::new();
        for timeout_ms in (0..10).map(|n| 20 << n) {
            let command = format!("sleep 600 & echo $! >{}; wait", file.display());
            let status = run(&command, Duration::from_millis(timeout_ms)).unwrap();
            assert_eq!(status, None);
            child = fs::read_to_string(&file).unwrap_or_default();
            if child.ends_with('\n') {
                break;
            }
        }
        fs::remove_file(&file).unwrap();
        // A process that was killed ends when it is scheduled next.
        let mut state = String::new();
        let is_gone = (0..500).any(|_| {
            state = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            let is_gone = state.is_empty() || state.contains(") Z ");
            if !is_gone {
                clock::sleep(Duration::from_millis(10));
            }
            is_gone
        });
        assert!(is_gone, "the process {child} is left: {state}");
    }
}
