//! A study with figures of each kind, whose samples are drawn from known distributions.

use std::collections::BTreeMap;

use sluice_base::Rng;
use sluice_study::definition::{AxisValue, Cell, ControllerRow, Experiment, Measure};
use sluice_study::record::{
    ControllerRecord, ExperimentRecord, LeftOut, Machine, MachineState, ProcessRecord, SCHEMA,
    Sample, StudyRecord, Usage, UsageReading,
};

/// An experiment with a figure of each kind.
pub(crate) const ALL_KINDS: &str = r#"
title = "Threads <1> & \"more\" _50 %_ $x$"
question = "What do <threads> add & what do they cost?"
repeats = "A. Author & B. Author, 2012"
rounds = 5

[measure]
kind = "bench"
switches = 32
distribution = true

[axes]
threads = [1, 2, 4, 8, 16]

[[figures]]
id = "lines"
kind = "lines"
title = "Throughput <by> threads & 100 % _"
caption = "Packet-ins answered per second."
repeats = "Fig. 1"
x = "threads"
metric = "rate"
label = "answers per second"
unit = "1/s"
logarithmic = true

[[figures]]
id = "bars"
kind = "bars"
title = "Median latency"
caption = "Half of the requests are answered within this time."
x = "threads"
metric = "p50_us"
label = "median latency"
unit = "us"

[[figures]]
id = "cdf"
kind = "cdf"
title = "Response times"
caption = "Share of requests answered within a time."
panels = "threads"

[[figures]]
id = "memory"
kind = "memory"
title = "Memory over time"
caption = "Resident memory of all processes."
where = { threads = 1 }

[[figures]]
id = "table"
kind = "table"
title = "Throughput as a table"
caption = "Mean and deviation."
x = "threads"
metric = "rate"
label = "answers per second"
unit = "1/s"

[[figures]]
id = "trials"
kind = "trials"
title = "Trials as in RFC 8456"
caption = "Each trial."
where = { threads = 1 }
metric = "rate"
label = "answers per second"
unit = "1/s"

[[published]]
figure = "lines"
source = "A. Author, <Fig. 1>"
conditions = "8 cores"
values = [{ series = "NOX", x = 4, y = 1450000.0, deviation = 1000.0 }, { series = "NOX", x = 8, y = 1600000.0 }]
"#;

/// A controller that differs from others in its titles only.
pub(crate) fn controller(id: &str, title: &str) -> ControllerRecord {
    let row = format!(
        r#"
        title = '{title}'
        source = "https://example.org/{id}"
        application = "learning switch"
        language = "Rust"
        openflow = ["1.3"]
        threads_max = {}
        [start]
        program = "{id}"
        "#,
        if id == "single" { 1 } else { 64 }
    );
    let row: ControllerRow = toml::from_str(&row).unwrap();
    let command = format!("{id} --port PORT --label '<&>'");
    ControllerRecord {
        id: id.to_owned(),
        row,
        missing: None,
        version: Some(format!("{id} 1.0")),
        files: BTreeMap::new(),
        environment: BTreeMap::new(),
        command,
    }
}

/// A study of `experiments` (name and file) and `controllers`.
pub(crate) fn study(
    controllers: Vec<ControllerRecord>,
    experiments: &[(&str, &str)],
) -> StudyRecord {
    let experiment = |(id, file): &(&str, &str)| {
        let experiment: Experiment = toml::from_str(file).unwrap();
        ExperimentRecord { id: (*id).to_owned(), experiment }
    };
    StudyRecord {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        program: String::new(),
        home: String::new(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        command: ["sluice", "study", "run", "<all>"].map(str::to_owned).to_vec(),
        is_short: false,
        machine: Machine {
            cpu_model: Some("Example CPU @ 2.00 GHz".to_owned()),
            cores: Some(4),
            sockets: vec!["0-3".to_owned()],
            governor: Some("performance".to_owned()),
            kernel: Some("Linux 6.1".to_owned()),
            memory_bytes: Some(16 << 30),
            congestion: Some("cubic".to_owned()),
            generator_cores: vec![2, 3],
            controller_cores: vec![0, 1],
        },
        controllers,
        experiments: experiments.iter().map(experiment).collect(),
        definitions: None,
        left_out: vec![LeftOut {
            experiment: "energy".to_owned(),
            why: "this machine has no <counters>".to_owned(),
        }],
    }
}

/// Draws samples.
pub(crate) struct Sampler {
    pub(crate) rng: Rng,
    /// Standard deviation relative to the mean.
    pub(crate) noise: f64,
    /// Factor of rates.
    pub(crate) speed: f64,
}

impl Sampler {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), noise: 0.03, speed: 1.0 }
    }

    /// Normally distributed around `mean`, as the sum of twelve uniform values.
    pub(crate) fn around(&mut self, mean: f64) -> f64 {
        let sum: f64 =
            (0..12).map(|_| f64::from(self.rng.below(1 << 20)) / f64::from(1 << 20)).sum();
        mean * (1.0 + self.noise * (sum - 6.0))
    }

    /// A sample of each cell, controller and round.
    pub(crate) fn samples(&mut self, study: &StudyRecord) -> Vec<Sample> {
        let mut samples = Vec::new();
        for experiment in &study.experiments {
            let cells = experiment.experiment.cells();
            let all = &experiment.experiment.controllers;
            for round in 0..experiment.experiment.rounds {
                for cell in &cells {
                    for (place, controller) in study.controllers.iter().enumerate() {
                        let takes_part = controller.missing.is_none()
                            && (all.is_empty() || all.contains(&controller.id))
                            && sluice_study::run::can_run(&controller.row, cell);
                        if takes_part {
                            samples.push(self.sample(
                                experiment,
                                (place, &controller.id),
                                cell,
                                round,
                            ));
                        }
                    }
                }
            }
        }
        samples
    }

    fn sample(
        &mut self,
        experiment: &ExperimentRecord,
        (place, controller): (usize, &str),
        cell: &Cell,
        round: u32,
    ) -> Sample {
        let numbers = cell.values().filter_map(AxisValue::as_number);
        let load: f64 = numbers.map(|it| 1.0 + it.max(0.0).ln_1p()).product();
        let slowness = 3f64.powi(i32::try_from(place).unwrap());
        let rate = self.around(4e6 * self.speed * load.sqrt() / slowness);
        let p50_us = self.around(40.0 * slowness.sqrt() * load / self.speed);
        let mut figures = BTreeMap::new();
        for figure in &experiment.experiment.figures {
            let value = match figure.unit.as_str() {
                "1/s" => rate,
                "us" => p50_us,
                "MiB" => self.around(20.0 * slowness),
                "s" => self.around(0.2 * slowness),
                _ => self.around(0.9),
            };
            figures.insert(figure.metric.clone(), value);
        }
        figures.remove("");
        let has_distribution = match &experiment.experiment.measure {
            Measure::Bench(settings) => settings.distribution,
            _ => false,
        };
        let quantile = |n: u32| {
            let share = f64::from(n) / 200.0;
            (share, p50_us * (1.5 * (share - 0.5) + 8.0 * share.powi(40)).exp())
        };
        Sample {
            experiment: experiment.id.clone(),
            controller: controller.to_owned(),
            cell: cell.clone(),
            round,
            attempt: 0,
            restarts: 0,
            started_at: "2026-01-02T03:04:05Z".to_owned(),
            elapsed_s: 7.5,
            controller_command: format!("{controller} --port 6653"),
            command: "sluice bench -s 32".to_owned(),
            failure: None,
            figures,
            lower_bounds: Vec::new(),
            upper_bounds: Vec::new(),
            distribution: if has_distribution {
                (0..=200).map(quantile).collect()
            } else {
                Vec::new()
            },
            usage: Some(self.usage(slowness)),
            machine: MachineState { other_cores: 0.02, stolen_cores: 0.001, is_disturbed: false },
            warnings: Vec::new(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small positive numbers"
    )]
    fn usage(&mut self, slowness: f64) -> Usage {
        let start_up_s = self.around(0.1 * slowness);
        let peak = self.around(25.0 * slowness.sqrt());
        let reading = |n: u32| {
            let at_s = f64::from(n) * 0.2;
            let mib = peak * (0.3 + 0.7 * (1.0 - (-at_s).exp()));
            let resident_bytes = (mib * 1_048_576.0) as u64;
            UsageReading {
                at_s,
                cpu_s: at_s,
                resident_bytes,
                processes: 1,
                threads: 4,
                of_each: Vec::new(),
            }
        };
        let readings = (0..40).map(reading).collect();
        Usage {
            start_up_s,
            start_up_resolution_s: 0.05,
            survived: true,
            stopped_in_order: true,
            processes: vec![process("controller", 7.8, false)],
            processes_not_listed: 0,
            readings,
        }
    }
}

/// A process that ran for as long as there are readings.
pub(crate) fn process(name: &str, cpu_s: f64, ended_early: bool) -> ProcessRecord {
    ProcessRecord {
        pid: 4242,
        name: name.to_owned(),
        first_seen_s: 0.0,
        last_seen_s: 7.8,
        ended_early,
        cpu_s,
        peak_resident_bytes: 20 << 20,
        peak_threads: 4,
    }
}
