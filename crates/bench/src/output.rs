//! Carries out a plan and says what came of it, in the form that was asked for.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sluice_io::clock;

use crate::report::LoopFigures;
use crate::{
    Error, Plan, Report, RunObserver, RunProgress, cbench, hdr_log, json, run, text_report,
};

/// In which form the outcome is said.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Whether 1 switch is tested, then 2, and so on.
    pub range: SwitchRange,
    /// What is printed.
    pub form: OutputFormat,
    /// A file for JSON; `-` is the standard output, and the table is left out.
    pub json: Option<String>,
    /// A file for the latencies.
    pub hdr: Option<String>,
    /// How it goes.
    pub progress: ProgressMode,
}

/// Which numbers of switches are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwitchRange {
    /// All at once.
    #[default]
    All,
    /// One, then two, and so on.
    Incremental,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// A table at the end.
    #[default]
    Table,
    /// The lines of `cbench`.
    Cbench,
}

/// How a measurement tells how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgressMode {
    /// Not at all.
    #[default]
    Silent,
    /// A line that changes, for terminals.
    Live,
    /// A line per loop.
    PerLoop,
}

/// Carries out `plan` and says what came of it to `out`, and how it goes to `err`.
///
/// # Errors
/// What [`run`] says; a file that cannot be written.
pub fn run_and_print(
    plan: &Plan,
    show: &OutputOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Error> {
    if show.form == OutputFormat::Cbench {
        let target = plan.targets.first().copied().unwrap_or_else(|| ([0; 4], 0).into());
        let header = cbench::header(
            plan,
            &target.ip().to_string(),
            target.port(),
            show.range == SwitchRange::Incremental,
        );
        err.write_all(header.as_bytes())?;
    }
    let first = if show.range == SwitchRange::Incremental { 1 } else { plan.switches };
    let mut reports = Vec::new();
    for switches in first..=plan.switches {
        let plan = Plan { switches, threads: plan.threads.min(switches as usize), ..plan.clone() };
        let mut screen = ProgressDisplay::new(&plan, show, out, err);
        let report = run(&plan, &mut screen)?;
        screen.finish()?;
        say(&report, show, out, err)?;
        reports.push(report);
    }
    write_files(&reports, show, out)
}

fn say(
    report: &Report,
    show: &OutputOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Error> {
    if show.form == OutputFormat::Cbench {
        writeln!(out, "{}", cbench::result_line(report))?;
        for warning in &report.warnings {
            writeln!(err, "warning: {warning}")?;
        }
    } else if show.json.as_deref() != Some("-") {
        out.write_all(text_report::of(report).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

fn write_files(reports: &[Report], show: &OutputOptions, out: &mut dyn Write) -> Result<(), Error> {
    if let Some(path) = &show.json {
        let write =
            |to: &mut dyn Write| reports.iter().try_for_each(|report| json::write(report, to));
        if path == "-" {
            write(out)?;
        } else {
            let mut file = create(path)?;
            write(&mut file).map_err(|e| Error::Write(path.clone(), e))?;
        }
    }
    if let Some(path) = &show.hdr {
        let mut file = create(path)?;
        hdr_log::write(reports, &mut file).map_err(|e| Error::Write(path.clone(), e))?;
    }
    Ok(())
}

fn create(path: &str) -> Result<io::BufWriter<File>, Error> {
    File::create(path).map(io::BufWriter::new).map_err(|e| Error::Write(path.to_owned(), e))
}

/// Shows how far a measurement is.
struct ProgressDisplay<'s> {
    plan: &'s Plan,
    show: &'s OutputOptions,
    out: &'s mut dyn Write,
    err: &'s mut dyn Write,
    bar: Option<ProgressBar>,
    last: (Duration, u64),
    failed: io::Result<()>,
}

impl<'s> ProgressDisplay<'s> {
    fn new(
        plan: &'s Plan,
        show: &'s OutputOptions,
        out: &'s mut dyn Write,
        err: &'s mut dyn Write,
    ) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}");
        let bar = (show.progress == ProgressMode::Live).then(|| {
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self { plan, show, out, err, bar, last: (clock::since_epoch(), 0), failed: Ok(()) }
    }

    /// Clears the line; says whether all could be written.
    fn finish(self) -> io::Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.failed
    }
}

impl RunObserver for ProgressDisplay<'_> {
    fn on_stage(&mut self, stage: RunProgress) {
        let Some(bar) = &self.bar else { return };
        bar.tick();
        match stage {
            RunProgress::Greeting { known } => {
                bar.set_message(format!("{known} of {} switches known", self.plan.switches));
            }
            RunProgress::Requesting { loops, answered } => {
                let (now, before) = (clock::since_epoch(), self.last);
                self.last = (now, answered);
                let n = answered.saturating_sub(before.1);
                let rate = crate::statistics::ratio(n, now.saturating_sub(before.0));
                let rate = text_report::quantity(rate);
                bar.set_message(format!("loop {loops} of {}: {rate} answers/s", self.plan.loops));
            }
        }
    }

    fn on_loop(&mut self, figures: &LoopFigures) {
        if self.failed.is_err() {
            return;
        }
        let line = if self.show.form == OutputFormat::Cbench {
            writeln!(self.out, "{}", cbench::loop_line(figures, clock::since_epoch()))
        } else if self.show.progress == ProgressMode::PerLoop {
            let rate = text_report::quantity(figures.rate);
            writeln!(self.err, "loop {}: {rate} answers/s", figures.number + 1)
        } else {
            return;
        };
        self.failed = line.and_then(|()| self.out.flush());
    }
}
