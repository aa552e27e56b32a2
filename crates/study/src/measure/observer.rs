//! Reads what a controller and the machine use while the bench runs.

use sluice_bench::{LoopFigures, Plan, RunObserver, RunProgress};
use sluice_io::energy::{EnergyMeter, EnergyReading};

use crate::process::RunningController;

/// Reads what the controller uses while the bench runs.
pub(super) struct Observer<'c> {
    controller: &'c mut RunningController,
    bounds: MeasuredBounds,
    /// Processor time at the beginning and at the end of the measured loops.
    cpu: [f64; 2],
    meter: Option<EnergyMeter>,
    /// Energy counters at the same times.
    energy: [Option<EnergyReading>; 2],
    resident_bytes_max: u64,
}

/// When the measured loops begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MeasuredBounds {
    /// Loops before them.
    warmup: u32,
    /// Number of the last one.
    last: u32,
    has_begun: bool,
}

/// The beginning or the end of the measured loops, as an index of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Begin = 0,
    End = 1,
}

impl MeasuredBounds {
    fn new(plan: &Plan) -> Self {
        let last = plan.measured().end.saturating_sub(1);
        Self { warmup: plan.warmup, last, has_begun: false }
    }

    /// Without warm-up, the measured loops begin with the first request, at most 20 ms after the first progress that is not that of
    /// handshakes and announcements.
    fn on_progress(&mut self, progress: RunProgress) -> Option<Bound> {
        let is_begin = self.warmup == 0
            && !self.has_begun
            && matches!(progress, RunProgress::Measuring { .. });
        self.has_begun |= is_begin;
        is_begin.then_some(Bound::Begin)
    }

    /// The loop with this number has ended.
    fn on_loop(&mut self, number: u32) -> Option<Bound> {
        if number == self.last {
            return Some(Bound::End);
        }
        (number + 1 == self.warmup).then_some(Bound::Begin)
    }
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
        let meter = EnergyMeter::open();
        let energy = [(); 2].map(|()| meter.as_ref().and_then(EnergyMeter::read));
        let bounds = MeasuredBounds::new(plan);
        Self { controller, bounds, cpu, meter, energy, resident_bytes_max: 0 }
    }

    /// Takes the readings at the beginning or the end of the measured loops.
    fn read(&mut self, bound: Bound) {
        let index = bound as usize;
        if let (Some(cpu), Some(energy)) = (self.cpu.get_mut(index), self.energy.get_mut(index)) {
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
    fn on_progress(&mut self, progress: RunProgress) {
        if let Some(bound) = self.bounds.on_progress(progress) {
            self.read(bound);
        }
        self.controller.observe();
        self.resident_bytes_max = self.resident_bytes_max.max(self.controller.resident_bytes());
    }

    fn on_loop(&mut self, figures: &LoopFigures) {
        if let Some(bound) = self.bounds.on_loop(figures.number) {
            self.read(bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CONNECTING: RunProgress = RunProgress::Connecting { ready_switches: 3 };

    const MEASURING: RunProgress = RunProgress::Measuring {
        loops: 0,
        remaining: Duration::ZERO,
        answered: 0,
        ready_switches: 3,
        errors: 0,
    };

    fn bounds(warmup: u32) -> MeasuredBounds {
        MeasuredBounds::new(&Plan { warmup, loops: warmup + 5, ..Plan::default() })
    }

    #[test]
    fn without_warm_up_the_measured_time_begins_after_handshakes_and_announcements() {
        let mut bounds = bounds(0);
        assert_eq!([CONNECTING; 3].map(|it| bounds.on_progress(it)), [None; 3]);
        assert_eq!(bounds.on_progress(MEASURING), Some(Bound::Begin));
        assert_eq!(bounds.on_progress(MEASURING), None, "it begins once");
        let of_loops = [0, 1, 2, 3, 4].map(|number| bounds.on_loop(number));
        assert_eq!(of_loops, [None, None, None, None, Some(Bound::End)]);
    }

    #[test]
    fn with_warm_up_it_begins_with_the_end_of_the_last_loop_of_that() {
        let mut bounds = bounds(2);
        assert_eq!([CONNECTING, MEASURING].map(|it| bounds.on_progress(it)), [None; 2]);
        assert_eq!([0, 1, 2].map(|it| bounds.on_loop(it)), [None, Some(Bound::Begin), None]);
        assert_eq!([5, 6].map(|it| bounds.on_loop(it)), [None, Some(Bound::End)]);
    }
}
