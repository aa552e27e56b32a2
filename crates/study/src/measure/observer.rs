//! Reads what a controller and the machine use while the bench runs.

use sluice_bench::{LoopFigures, Plan, RunObserver, RunProgress};
use sluice_io::energy::{EnergyMeter, EnergyReading};

use crate::process::RunningController;

/// Reads what the controller uses while the bench runs.
pub(super) struct Observer<'c> {
    controller: &'c mut RunningController,
    warmup: u32,
    last: u32,
    /// Processor time at the beginning and at the end of the measured loops.
    cpu: [f64; 2],
    meter: Option<EnergyMeter>,
    /// Energy counters at the same times.
    energy: [Option<EnergyReading>; 2],
    resident_bytes_max: u64,
}

/// What was used during the measured loops.
pub(super) struct Used {
    pub(super) cpu_s: f64,
    /// Energy of all processor packages; `None` if the machine has no counters.
    pub(super) joules: Option<f64>,
    /// Largest resident memory, also before the measured loops.
    pub(super) resident_bytes_max: u64,
}

impl<'c> Observer<'c> {
    pub(super) fn new(controller: &'c mut RunningController, plan: &Plan) -> Self {
        let cpu = [controller.cpu_s(); 2];
        let last = plan.measured().end.saturating_sub(1);
        let meter = EnergyMeter::open();
        let energy = [(); 2].map(|()| meter.as_ref().and_then(EnergyMeter::read));
        Self { controller, warmup: plan.warmup, last, cpu, meter, energy, resident_bytes_max: 0 }
    }

    /// Takes the readings at the beginning (0) or the end (1) of the measured loops.
    fn read(&mut self, end: usize) {
        if let (Some(cpu), Some(energy)) = (self.cpu.get_mut(end), self.energy.get_mut(end)) {
            *cpu = self.controller.cpu_s();
            *energy = self.meter.as_ref().and_then(EnergyMeter::read);
        }
    }

    pub(super) fn used(&self) -> Used {
        let joules = match (&self.meter, &self.energy) {
            (Some(meter), [Some(from), Some(to)]) => Some(meter.joules(from, to)),
            _ => None,
        };
        Used {
            // The end is not reached if all switches are lost before.
            cpu_s: (self.cpu[1] - self.cpu[0]).max(0.0),
            joules,
            resident_bytes_max: self.resident_bytes_max,
        }
    }
}

impl RunObserver for Observer<'_> {
    fn on_progress(&mut self, _: RunProgress) {
        self.controller.observe();
        self.resident_bytes_max = self.resident_bytes_max.max(self.controller.resident_bytes());
    }

    fn on_loop(&mut self, figures: &LoopFigures) {
        if figures.number + 1 == self.warmup {
            self.read(0);
        }
        if figures.number == self.last {
            self.read(1);
        }
    }
}
