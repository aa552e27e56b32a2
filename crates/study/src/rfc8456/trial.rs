//! One trial: what is measured, with which settings.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_bench::{Error, Report, RunObserver, RunProgress};
use sluice_emu::topology::Topology;

use super::frames::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use super::northbound::NorthboundClient;
use crate::definition::{Axis, AxisValue, Cell, Rfc8456Settings, Variant};
use crate::measure::{self, Interrupted, Subject};
use crate::network::{self, TestNetwork};
use crate::process::RunningController;

/// One trial of a test.
pub(super) struct Trial<'t, 's> {
    /// The settings of the cell.
    pub(super) settings: Rfc8456Settings,
    /// The network.
    pub(super) topology: Topology,
    /// Share of invalid messages, 0 to 1.
    pub(super) invalid: f64,
    /// Connections per second of an attack; 0 for none.
    pub(super) flood: u32,
    /// Further arguments of the controller.
    pub(super) variant: Variant,
    /// The controller.
    pub(super) subject: &'t mut Subject<'s>,
    pub(super) is_interrupted: &'t dyn Fn() -> bool,
}

impl<'t, 's> Trial<'t, 's> {
    pub(super) fn new(
        settings: Rfc8456Settings,
        cell: &Cell,
        subject: &'t mut Subject<'s>,
        is_interrupted: &'t dyn Fn() -> bool,
    ) -> Result<Self, String> {
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&settings.frame_bytes) {
            return Err(format!(
                "frame_bytes: {} (expected {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX})",
                settings.frame_bytes
            ));
        }
        let topology =
            Topology::from_text(&settings.topology).map_err(|error| error.to_string())?;
        let invalid = cell.get(&Axis::Invalid).and_then(AxisValue::as_number);
        Ok(Self {
            invalid: invalid.unwrap_or_default(),
            flood: cell.get(&Axis::Flood).map_or(0, measure::whole),
            settings,
            topology,
            variant: subject.row.variant(cell),
            subject,
            is_interrupted,
        })
    }

    /// Duration of the trial (`Td`).
    pub(super) fn time(&self) -> Duration {
        Duration::try_from_secs_f64(self.settings.seconds).unwrap_or_default()
    }

    /// Duration of a loop of the bench, and number of loops before the measured ones.
    pub(super) fn loops(&self, warm_up_min: Duration) -> (Duration, u32) {
        measure::loops(
            self.settings.seconds,
            self.subject.row.warm_up_s.max(warm_up_min.as_secs_f64()),
        )
    }

    /// Length of the data frames in bytes, without FCS.
    pub(super) fn frame_bytes(&self) -> usize {
        usize::try_from(self.settings.frame_bytes).unwrap_or_default()
    }

    /// The northbound interface of the controller.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn northbound(&self) -> Result<NorthboundClient, String> {
        NorthboundClient::new(self.subject.row, self.subject.placeholders)
    }

    /// A network whose switches are about to connect to the controller.
    pub(super) fn connect(&self) -> Result<TestNetwork<'t>, String> {
        self.connect_to(self.subject.target, self.topology.clone())
    }

    /// A network of `topology` whose switches are about to connect to `target`.
    pub(super) fn connect_to(
        &self,
        target: SocketAddr,
        topology: Topology,
    ) -> Result<TestNetwork<'t>, String> {
        let switch = network::switch_config(self.subject.version);
        TestNetwork::connect(target, topology, switch, self.is_interrupted)
    }

    /// A network that the controller has discovered, and whose first and last host have announced themselves.
    pub(super) fn connect_discovered(&mut self) -> Result<TestNetwork<'t>, String> {
        let (from, to) = self.end_hosts()?;
        let mut network = self.connect()?;
        network.wait_for_discovery()?;
        network.announce([from, to])?;
        self.subject.controller.observe();
        Ok(network)
    }

    /// Two hosts at different ends of the network: the first and the last.
    pub(super) fn end_hosts(&self) -> Result<(usize, usize), String> {
        network::end_hosts(&self.topology)
            .map_err(|why| format!("{}: {why}", self.settings.topology))
    }

    /// Number of switches.
    pub(super) fn switches(&self) -> u32 {
        u32::try_from(self.topology.switches.len()).unwrap_or(u32::MAX)
    }

    /// Carries out a plan of the bench.
    pub(super) fn bench(&mut self, plan: &sluice_bench::Plan) -> Result<Report, String> {
        let mut observer = UsageObserver(self.subject.controller);
        sluice_bench::run(plan, &mut observer).map_err(|error: Error| error.to_string())
    }

    /// Waits until the controller has processed what was sent to it.
    pub(super) fn wait_until_idle(&mut self) -> Result<(), Interrupted> {
        measure::wait_until_idle(self.subject, self.is_interrupted)
    }

    /// Fails if the study was interrupted.
    pub(super) fn check_interrupted(&self) -> Result<(), Interrupted> {
        if (self.is_interrupted)() { Err(Interrupted) } else { Ok(()) }
    }
}

/// Reads what the controller uses while the bench runs.
struct UsageObserver<'c>(&'c mut RunningController);

impl RunObserver for UsageObserver<'_> {
    fn on_progress(&mut self, _: RunProgress) {
        self.0.observe();
    }
}

/// A duration in milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
