//! What runs beside the bench: a flood of connections, a network that changes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sluice_bench::{Report, flood};
use sluice_io::{cores, sock};
use sluice_openflow::Version;

use super::churn;

/// Open connections of a flood; beyond it, the oldest one is closed.
pub(super) const FLOOD_OPEN_MAX: usize = 10_000;

/// What runs while the bench measures.
pub(super) struct Beside<'c> {
    pub(super) target: SocketAddr,
    pub(super) version: Version,
    /// Cores of the load generator.
    pub(super) cores: &'c [usize],
    pub(super) flood: Option<flood::Plan>,
    /// Changes per second of a network.
    pub(super) churn: u32,
}

impl Beside<'_> {
    /// Runs `measure` with all of it beside. If a part of it fails, the measurement is not what it says.
    pub(super) fn run_with(
        &self,
        measure: impl FnOnce() -> Result<Report, sluice_bench::Error>,
    ) -> Result<Report, String> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let flood = self.flood.as_ref().map(|plan| {
                scope.spawn(move || {
                    self.pin();
                    flood::run(plan).map(drop).map_err(|error| error.to_string())
                })
            });
            let is_over = &is_over;
            let churn = (self.churn > 0).then(|| {
                scope.spawn(move || {
                    self.pin();
                    churn::run(self.target, self.version, self.churn, is_over)
                })
            });
            let report = measure().map_err(|error| error.to_string());
            is_over.store(true, Ordering::Relaxed);
            for thread in [flood, churn].into_iter().flatten() {
                thread.join().map_err(|_| sluice_bench::Error::Thread.to_string())??;
            }
            report
        })
    }

    /// Binds the calling thread to the core of the generator, so that it takes nothing from the controller.
    fn pin(&self) {
        if let [core, ..] = self.cores {
            // Without it, the thread may run anywhere.
            let _ = cores::pin(*core);
        }
    }
}

/// A flood of `rate` connections per second that send nothing.
pub(crate) fn flood_plan(
    target: SocketAddr,
    rate: f64,
    time: Duration,
    open_max: usize,
) -> flood::Plan {
    flood::Plan {
        target,
        rate,
        time,
        hold: None,
        open_max,
        payload: flood::Payload::Nothing,
        seed: 0,
        socket: sock::Options::default(),
    }
}
