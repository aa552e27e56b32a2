//! Waits between two loads until a controller does nothing.

use std::fmt;
use std::time::Duration;

use sluice_io::clock;

use super::Subject;

/// A controller that uses less of a core in this time does nothing.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
const IDLE_CORES_MAX: f64 = 0.1;

/// How long a controller is waited for, which may also be one that polls.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The study was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the study was interrupted")
    }
}

impl From<Interrupted> for String {
    fn from(interrupted: Interrupted) -> Self {
        interrupted.to_string()
    }
}

/// Waits until the controller does nothing, for 20 s at most: it may need seconds to answer what was sent before.
pub(crate) fn wait_until_idle(
    subject: &mut Subject<'_>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Interrupted> {
    let busy_cores = || {
        let before = subject.controller.cpu_s();
        subject.controller.observe_for(IDLE_INTERVAL, is_interrupted);
        (subject.controller.cpu_s() - before) / IDLE_INTERVAL.as_secs_f64()
    };
    wait_while_busy(busy_cores, is_interrupted)
}

/// Waits until `busy_cores`, which takes [`IDLE_INTERVAL`], returns the number of an idle controller.
fn wait_while_busy(
    mut busy_cores: impl FnMut() -> f64,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Interrupted> {
    let until = clock::now() + IDLE_TIMEOUT;
    loop {
        let busy = busy_cores();
        // An interrupted reading was too short to show anything.
        if is_interrupted() {
            return Err(Interrupted);
        }
        if busy < IDLE_CORES_MAX || clock::now() >= until {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_controller_is_waited_for() {
        let mut readings = [1.0, 0.5, 0.05, 1.0].into_iter();
        assert_eq!(wait_while_busy(|| readings.next().unwrap(), &|| false), Ok(()));
        assert_eq!(readings.len(), 1, "the first idle reading ends it");
    }

    #[test]
    fn an_interruption_is_an_error_also_if_the_controller_looks_idle() {
        assert_eq!(wait_while_busy(|| 0.0, &|| true), Err(Interrupted));
        assert_eq!(String::from(Interrupted), "the study was interrupted");
    }
}
