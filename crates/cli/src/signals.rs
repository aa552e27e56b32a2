//! The signals that stop the process or make it read its configuration again.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

use crate::EXIT_FAILURE;

/// What a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGINT or SIGTERM: stop in order.
    Stop,
}

/// Receives signals in order. A second SIGINT or SIGTERM ends the process at once.
#[derive(Debug)]
pub(crate) struct SignalReceiver(Signals);

impl SignalReceiver {
    /// Receives signals from now on.
    ///
    /// # Errors
    /// Too few file descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        termination_flag()?;
        Ok(Self(Signals::new([SIGHUP, SIGINT, SIGTERM])?))
    }

    /// Waits for the next signal.
    pub(crate) fn wait(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            _ => Signal::Stop,
        }
    }
}

/// A flag that the first SIGINT or SIGTERM sets. The second one ends the process at once. SIGHUP sets the flag too, unless it is ignored, as
/// under `nohup`.
///
/// # Errors
/// Too few file descriptors.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = termination_flag()?;
    if !fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status)) {
        stop_at_hangup(&stop)?;
    }
    Ok(stop)
}

/// Makes SIGHUP set a flag. A second one changes nothing: a terminal that is closed may cause several.
fn stop_at_hangup(stop: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register(SIGHUP, Arc::clone(stop)).map(|_| ())
}

/// Whether a process with this `/proc/PID/status` (proc(5)) ignores SIGHUP.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// A flag that the first SIGINT or SIGTERM sets. The second one ends the process at once.
fn termination_flag() -> io::Result<Arc<AtomicBool>> {
    let (stop, is_second) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        // The actions run in this order. The flag that ends the process is one of its own, which SIGHUP does not set.
        flag::register_conditional_shutdown(signal, EXIT_FAILURE.into(), Arc::clone(&is_second))?;
        flag::register(signal, Arc::clone(&is_second))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Sends this process SIGTERM.
pub(crate) fn request_stop() {
    // It fails only for signals that do not exist.
    let _ = low_level::raise(SIGTERM);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_hangup_requests_a_stop_and_a_second_one_does_not_end_the_process() {
        let stop = Arc::new(AtomicBool::new(false));
        stop_at_hangup(&stop).unwrap();
        low_level::raise(SIGHUP).unwrap();
        assert!(stop.load(Ordering::Relaxed));
        low_level::raise(SIGHUP).unwrap();
    }

    #[test]
    fn a_hangup_that_is_ignored_is_recognised() {
        let status =
            |mask: &str| format!("Name:\tsluice\nSigIgn:\t{mask}\nSigCgt:\tffffffffffffffff\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001002")));
        assert!(!ignores_hangup(""));
    }
}
