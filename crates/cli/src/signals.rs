//! What the process is told by signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

use crate::FAILED;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Read the configuration again.
    Reload,
    /// Stop in order.
    Stop,
}

/// Signals as wishes, in order. The second that asks to stop ends the process where it is.
#[derive(Debug)]
pub(crate) struct Wishes(Signals);

impl Wishes {
    /// Hears signals from now on.
    ///
    /// # Errors
    /// Too few file descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        stopping()?;
        Ok(Self(Signals::new([SIGHUP, SIGINT, SIGTERM])?))
    }

    /// Waits for the next.
    pub(crate) fn wait(&mut self) -> Wish {
        match self.0.forever().next() {
            Some(SIGHUP) => Wish::Reload,
            _ => Wish::Stop,
        }
    }
}

/// What is set when a signal asks to stop. The second that does ends the process where it is.
///
/// # Errors
/// Too few file descriptors.
pub(crate) fn stopping() -> io::Result<Arc<AtomicBool>> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Asked in this order: the first sets what the second finds.
        flag::register_conditional_shutdown(signal, FAILED.into(), Arc::clone(&stopping))?;
        flag::register(signal, Arc::clone(&stopping))?;
    }
    Ok(stopping)
}

/// Asks this process to stop, as somebody outside would.
pub(crate) fn stop() {
    // It fails for signals that do not exist.
    let _ = low_level::raise(SIGTERM);
}
