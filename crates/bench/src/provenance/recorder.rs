//! Collects the provenance while a measurement runs.

use std::time::Instant;

use sluice_io::clock;
use sluice_io::sock::EffectiveOptions;

use super::Provenance;
use super::host::{Host, load_average};
use super::listener::process_listening_on;
use super::process::{ControllerProcess, ProcessSample, command_line};
use crate::Plan;

/// Collects the provenance of a run. Its coordinator calls [`poll`](Self::poll) at the times that [`next_due`](Self::next_due) names.
pub(crate) struct ProvenanceRecorder {
    provenance: Provenance,
    threads: usize,
    /// Start and end of the measured loops; none before the first request.
    measured: Option<[Instant; 2]>,
    samples: Vec<Samples>,
}

/// CPU times at the start or at the end of the measured loops.
struct Samples {
    own: Option<ProcessSample>,
    controllers: Vec<Option<ProcessSample>>,
}

impl ProvenanceRecorder {
    /// Starts to record a run of `plan`, before any switch connects.
    pub(crate) fn new(plan: &Plan) -> Self {
        let provenance = Provenance {
            version: env!("CARGO_PKG_VERSION"),
            started_at: clock::since_epoch(),
            command_line: command_line("self"),
            run: None,
            restart: None,
            host: Host::read(),
            load_average: [load_average(), None],
            socket: None,
            controllers: plan
                .targets
                .iter()
                .map(|&target| process_listening_on(target).map(ControllerProcess::read))
                .collect(),
            generator_delayed: Vec::new(),
        };
        Self { provenance, threads: plan.threads, measured: None, samples: Vec::new() }
    }

    /// Looks for the processes of the controllers that are not known, or were restarted.
    ///
    /// # Cost
    /// Reads `/proc` of all processes if there is such a controller on this machine.
    pub(crate) fn find_controllers(&mut self, plan: &Plan) {
        for (controller, &target) in self.provenance.controllers.iter_mut().zip(&plan.targets) {
            let known = controller.as_ref();
            if known.and_then(|it| ProcessSample::read(it.pid, clock::now())).is_none() {
                *controller = process_listening_on(target).map(ControllerProcess::read);
            }
        }
    }

    /// Sets the time at which the first loop starts.
    pub(crate) fn set_start(&mut self, plan: &Plan, start: Instant) {
        let measured = plan.measured();
        let bounds = [measured.start, measured.end].map(|number| start + plan.loop_time * number);
        self.measured = Some(bounds);
    }

    /// When the next sample is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.measured?.get(self.samples.len()).copied()
    }

    /// Takes a sample if one is due.
    ///
    /// # Cost
    /// Two files of `/proc` for each thread of the controller.
    pub(crate) fn poll(&mut self, now: Instant) {
        if self.next_due().is_none_or(|due| now < due) {
            return;
        }
        let sample = |pid| ProcessSample::read(pid, clock::now());
        let controllers = self.provenance.controllers.iter();
        let controllers = controllers.map(|it| it.as_ref().and_then(|it| sample(it.pid))).collect();
        self.samples.push(Samples { own: sample(std::process::id()), controllers });
    }

    /// The provenance at the end of the run.
    pub(crate) fn finish(mut self, socket: Option<EffectiveOptions>) -> Provenance {
        self.provenance.load_average = [self.provenance.load_average[0], load_average()];
        self.provenance.socket = socket;
        self.provenance.controllers.iter_mut().flatten().for_each(ControllerProcess::update);
        let [before, after] = self.samples.as_slice() else { return self.provenance };
        let samples = before.controllers.iter().zip(&after.controllers);
        for (controller, samples) in self.provenance.controllers.iter_mut().zip(samples) {
            if let (Some(controller), (Some(before), Some(after))) = (controller, samples) {
                controller.cpu = after.since(before);
            }
        }
        let delayed = |thread| {
            let (before, after) = (before.own.as_ref()?, after.own.as_ref()?);
            after.delayed_since(before, &thread_name(thread))
        };
        self.provenance.generator_delayed = (0..self.threads).map(delayed).collect();
        self.provenance
    }
}

/// Name of the generator thread `index`.
pub(crate) fn thread_name(index: usize) -> String {
    format!("generator-{index}")
}
