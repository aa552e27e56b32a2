//! What `sluice run` reports to a service manager such as systemd: that it is ready, what it does, and that its threads make progress.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_engine::ProgressMonitor;
use sluice_io::service_manager::{self, ServiceState};
use sluice_sdk::Controller;
use tracing::{error, warn};

/// How often the status is updated without a watchdog.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// How often progress is checked at most. Threads that have nothing to do make some four times a second.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(1100);

/// Checks in the time limit of the watchdog: one may find a thread in the middle of a long iteration, and the next one come late.
const CHECKS_PER_TIMEOUT: u32 = 4;

/// Reports the state of the process to the service manager. Dropping it reports that the process stops.
#[derive(Debug)]
pub(crate) struct ServiceStatus {
    /// Dropped to stop the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServiceStatus {
    /// Reports that the controller is ready, and starts a thread that reports its progress. `None` if nobody wants to know.
    ///
    /// # Errors
    /// No thread is left.
    pub(crate) fn start(
        controller: impl Controller + 'static,
        progress: ProgressMonitor,
    ) -> io::Result<Option<Self>> {
        if !service_manager::is_notified() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let watchdog = Watchdog { controller, progress, switches: 0 };
        report(&[ServiceState::Ready, ServiceState::Status(&watchdog.status())]);
        let thread = thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(move || watchdog.run(&stopped))?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for ServiceStatus {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
        report(&[ServiceState::Stopping, ServiceState::Status("stopping")]);
    }
}

/// Reports that the configuration is being read again.
pub(crate) fn report_reloading() {
    report(&[ServiceState::Reloading]);
}

/// Reports that the configuration has been read again.
pub(crate) fn report_reloaded() {
    report(&[ServiceState::Ready]);
}

/// Sends states to the service manager, if there is one.
fn report(states: &[ServiceState<'_>]) {
    if let Err(error) = service_manager::notify(states) {
        warn!("the service manager cannot be notified: {error}");
    }
}

/// What the thread needs.
struct Watchdog<C> {
    controller: C,
    progress: ProgressMonitor,
    /// Connected switches, as reported last.
    switches: usize,
}

impl<C: Controller> Watchdog<C> {
    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        let timeout = service_manager::watchdog_timeout();
        let interval = timeout.map_or(STATUS_INTERVAL, check_interval);
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let stalled = self.progress.stalled_threads();
            if !stalled.is_empty() {
                let threads = stalled.join(" ");
                error!(threads, "no progress for {} ms", interval.as_millis());
                let status = format!("no progress: {threads}");
                report(&[ServiceState::Status(&status)]);
                self.switches = usize::MAX;
                continue;
            }
            if timeout.is_some() {
                report(&[ServiceState::Alive]);
            }
            let switches = self.controller.switches().len();
            if switches != std::mem::replace(&mut self.switches, switches) {
                report(&[ServiceState::Status(&self.status())]);
            }
        }
    }

    fn status(&self) -> String {
        match self.switches {
            1 => "1 switch connected".to_owned(),
            switches => format!("{switches} switches connected"),
        }
    }
}

/// How often progress is checked if the service manager ends the process after `timeout` without any.
fn check_interval(timeout: Duration) -> Duration {
    (timeout / CHECKS_PER_TIMEOUT).max(CHECK_INTERVAL_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_checked_several_times_in_the_time_limit() {
        assert_eq!(check_interval(Duration::from_secs(20)), Duration::from_secs(5));
        assert_eq!(check_interval(Duration::from_secs(1)), CHECK_INTERVAL_MIN);
    }
}
