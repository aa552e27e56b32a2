//! The signals that stop the process or make it read its configuration again.

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
        stop_flag()?;
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

/// A flag that the first SIGINT or SIGTERM sets. The second one ends the process at once.
///
/// # Errors
/// Too few file descriptors.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The actions run in this order: at the first signal the flag is unset and gets set, at the second it is set.
        flag::register_conditional_shutdown(signal, EXIT_FAILURE.into(), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Sends this process SIGTERM.
pub(crate) fn request_stop() {
    // It fails only for signals that do not exist.
    let _ = low_level::raise(SIGTERM);
}
