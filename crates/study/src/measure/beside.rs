//! What runs beside a measurement: a flood of connections, a network that changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sluice_bench::flood;
use sluice_io::sock;
use sluice_openflow::Version;

use super::churn::{self, ChurnCounts};

/// Open connections of a flood; beyond it, the oldest one is closed.
const FLOOD_OPEN_MAX: usize = 10_000;

/// Longest flood.
const FLOOD_TIME: Duration = Duration::from_secs(86_400);

/// A flood of connections that send nothing, from when it starts until it is stopped.
struct Flood {
    plan: flood::Plan,
}

/// What a flood has done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FloodCounts {
    /// Connections that were opened.
    pub(crate) established: u64,
    /// The same per second.
    pub(crate) established_per_s: f64,
}

impl Flood {
    /// A flood of `rate` connections per second.
    fn new(target: SocketAddr, rate: f64) -> Self {
        Self {
            plan: flood::Plan {
                target,
                rate,
                time: FLOOD_TIME,
                is_over: Arc::new(AtomicBool::new(false)),
                hold: None,
                open_max: FLOOD_OPEN_MAX,
                payload: flood::Payload::Nothing,
                seed: 0,
                socket: sock::Options::default(),
            },
        }
    }

    /// Runs it in the calling thread until [`stop`](Self::stop).
    fn run(&self) -> Result<FloodCounts, String> {
        let report = flood::run(&self.plan)
            .map_err(|error| format!("the flood of connections failed: {error}"))?;
        #[expect(clippy::cast_precision_loss, reason = "a number of connections")]
        let established_per_s =
            report.established as f64 / report.elapsed.as_secs_f64().max(f64::EPSILON);
        Ok(FloodCounts { established: report.established, established_per_s })
    }

    /// Ends it.
    fn stop(&self) {
        self.plan.is_over.store(true, Ordering::Relaxed);
    }
}

/// What runs during a measurement.
pub(crate) struct Beside {
    pub(crate) target: SocketAddr,
    pub(crate) version: Version,
    /// Connections per second of a flood; 0 for none.
    pub(crate) flood: u32,
    /// Changes per second of a network; 0 for none.
    pub(crate) churn: u32,
}

/// What has run during a measurement.
#[derive(Debug, Default)]
pub(crate) struct BesideCounts {
    pub(crate) flood: Option<FloodCounts>,
    /// Changes of the network.
    pub(super) churn: Option<ChurnCounts>,
}

/// Ends what runs beside a measurement when it is dropped.
struct EndOfMeasurement<'e> {
    flood: &'e Flood,
    is_over: &'e AtomicBool,
}

impl Drop for EndOfMeasurement<'_> {
    fn drop(&mut self) {
        self.flood.stop();
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Beside {
    /// Runs `measure` with all of it beside. If a part of it fails, the measurement is not what it says.
    pub(crate) fn run_with<T>(
        &self,
        measure: impl FnOnce() -> Result<T, String>,
    ) -> Result<(T, BesideCounts), String> {
        let flood = Flood::new(self.target, f64::from(self.flood));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let flooding = (self.flood > 0).then(|| scope.spawn(|| flood.run()));
            let churn = (self.churn > 0).then(|| {
                scope.spawn(|| churn::run(self.target, self.version, self.churn, &is_over))
            });
            // Also if the measurement panics: the threads would run for a day, and this function wait for them.
            let end = EndOfMeasurement { flood: &flood, is_over: &is_over };
            let result = measure();
            drop(end);
            let failed = |_| sluice_bench::Error::Thread.to_string();
            let counts = BesideCounts {
                flood: flooding.map(|it| it.join().map_err(failed)?).transpose()?,
                churn: churn.map(|it| it.join().map_err(failed)?).transpose()?,
            };
            Ok((result?, counts))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_runs_beside_ends_with_the_measurement_also_if_that_panics() {
        // A controller that accepts connections in its backlog and never answers.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let beside = Beside {
            target: listener.local_addr().unwrap(),
            version: Version::V1_3,
            flood: 10,
            churn: 10,
        };
        let (value, counts) = beside.run_with(|| Ok(7)).unwrap();
        assert_eq!((value, counts.flood.is_some()), (7, true));
        let churn = counts.churn.unwrap();
        assert_eq!((churn.changes, churn.connected_most), (0, 0), "nothing is connected");
        assert_eq!(
            beside.run_with(|| Err::<(), _>("no answer".to_owned())).unwrap_err(),
            "no answer"
        );
        let panicking = || beside.run_with(|| -> Result<(), String> { std::panic::panic_any(()) });
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    }
}
