//! Carries out a plan and prints the result in the requested format.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sluice_io::clock;

use crate::repeat::run_number;
use crate::report::LoopFigures;
use crate::{
    Error, Plan, Repetition, Report, RunObserver, RunProgress, RunsSummary, cbench, csv, hdr_log,
    html, json, text_report, text_runs,
};

/// Columns of the bar in the live display.
const BAR_WIDTH: u64 = 12;

/// What is printed, and where.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Which numbers of switches are measured.
    pub range: SwitchRange,
    /// Format of the result.
    pub format: OutputFormat,
    /// File for JSON; `-` is standard output, where it replaces the text report.
    pub json: Option<String>,
    /// File for the latencies as a log of `HdrHistogram`.
    pub hdr: Option<String>,
    /// File for the loops as CSV.
    pub csv: Option<String>,
    /// File for a page with diagrams.
    pub html: Option<String>,
    /// How often each measurement is repeated.
    pub repetition: Repetition,
    /// How progress is shown.
    pub progress: ProgressMode,
}

/// Which numbers of switches are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwitchRange {
    /// One run with all switches.
    #[default]
    All,
    /// A run with one switch, then with two, and so on.
    Incremental,
}

/// Format of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// A report at the end.
    #[default]
    Text,
    /// The lines of `cbench`.
    Cbench,
}

/// How progress is shown on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgressMode {
    /// Not at all.
    #[default]
    Silent,
    /// A line that is updated; for terminals.
    Live,
    /// A line per loop.
    PerLoop,
}

/// Carries out `plan`; prints the result to `out` and the progress to `err`. `observer` receives the figures of each loop.
///
/// # Errors
/// Those of [`run`](crate::run), and a file that cannot be written.
pub fn run_and_print(
    plan: &Plan,
    options: &OutputOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
    observer: &mut dyn RunObserver,
) -> Result<(), Error> {
    if options.range == SwitchRange::Incremental && options.repetition.runs > 1 {
        return Err(Error::Plan(
            "--repeat measures one number of switches: leave out -r".to_owned(),
        ));
    }
    if options.format == OutputFormat::Cbench {
        let target = plan.targets.first().copied().unwrap_or_else(|| ([0; 4], 0).into());
        let is_ranged = options.range == SwitchRange::Incremental;
        let header = cbench::header(plan, &target.ip().to_string(), target.port(), is_ranged);
        err.write_all(header.as_bytes())?;
    }
    options.check_files()?;
    let first = if options.range == SwitchRange::Incremental { 1 } else { plan.switches };
    let mut reports = Vec::new();
    for switches in first..=plan.switches {
        let plan = Plan { switches, threads: plan.threads.min(switches as usize), ..plan.clone() };
        for number in 1..=options.repetition.runs {
            let mut display = ProgressDisplay::new(&plan, options, (out, err), observer);
            let report = run_number(&plan, &options.repetition, number, &mut display)?;
            display.finish().map_err(Error::Output)?;
            print(&report, number, options, !reports.is_empty(), (&mut *out, &mut *err))
                .map_err(Error::Output)?;
            reports.push(report);
        }
    }
    let summary = (options.repetition.runs > 1).then(|| RunsSummary::of(&reports));
    if let Some(summary) = summary.as_ref().filter(|_| options.prints_text()) {
        let text = text_runs::summary_of(summary, &reports).to_string();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Output)?;
    }
    write_files(&reports, summary.as_ref(), options, out)
}

impl OutputOptions {
    /// Checks, before a measurement, that the files can be opened. Their contents stay. Pipes and devices are not checked: the reader of
    /// a pipe would see its end.
    fn check_files(&self) -> Result<(), Error> {
        let json = self.json.as_ref().filter(|path| *path != "-");
        let files = [json, self.hdr.as_ref(), self.csv.as_ref(), self.html.as_ref()];
        let is_checked = |path: &&String| {
            fs::metadata(path.as_str()).map_or(true, |it| it.is_file() || it.is_dir())
        };
        for path in files.into_iter().flatten().filter(is_checked) {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|e| Error::Write(path.clone(), e))?;
        }
        Ok(())
    }

    /// Whether the report is printed as text.
    fn prints_text(&self) -> bool {
        self.format == OutputFormat::Text && self.json.as_deref() != Some("-")
    }
}

/// Prints the result of run `number`.
fn print(
    report: &Report,
    number: u32,
    options: &OutputOptions,
    follows_another: bool,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<()> {
    if options.format == OutputFormat::Cbench {
        writeln!(out, "{}", cbench::result_line(report))?;
        for warning in &report.warnings {
            writeln!(err, "warning: {warning}")?;
        }
    } else if options.prints_text() && options.repetition.runs > 1 {
        if number == 1 {
            out.write_all(text_runs::heading_of(&report.plan).as_bytes())?;
        }
        out.write_all(text_runs::run_line(number, report).as_bytes())?;
    } else if options.prints_text() {
        if follows_another {
            writeln!(out)?;
        }
        out.write_all(text_report::of(report).as_bytes())?;
    }
    out.flush()
}

fn write_files(
    reports: &[Report],
    summary: Option<&RunsSummary>,
    options: &OutputOptions,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let write_json = |to: &mut dyn Write| {
        reports.iter().try_for_each(|report| json::write(report, to))?;
        summary.map_or(Ok(()), |summary| json::write_runs(summary, to))
    };
    let mut write_json_file = || match options.json.as_deref() {
        None => Ok(()),
        Some("-") => write_json(out).and_then(|()| out.flush()).map_err(Error::Output),
        Some(path) => write_file(path, write_json),
    };
    let write_to = |path: &Option<String>, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        path.as_ref().map_or(Ok(()), |path| write_file(path, write))
    };
    // A file that cannot be written does not prevent the others.
    let results = [
        write_json_file(),
        write_to(&options.hdr, &|to| hdr_log::write(reports, to)),
        write_to(&options.csv, &|to| csv::write(reports, to)),
        write_to(&options.html, &|to| to.write_all(html::page(reports, summary).as_bytes())),
    ];
    results.into_iter().collect()
}

/// Creates the file `path` and writes it to the end.
fn write_file(
    path: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let write_all = || {
        let mut file = io::BufWriter::new(File::create(path)?);
        write(&mut file)?;
        file.flush()
    };
    write_all().map_err(|e| Error::Write(path.to_owned(), e))
}

/// Shows the progress of a measurement.
struct ProgressDisplay<'s> {
    plan: &'s Plan,
    options: &'s OutputOptions,
    out: &'s mut dyn Write,
    err: &'s mut dyn Write,
    observer: &'s mut dyn RunObserver,
    bar: Option<ProgressBar>,
    /// Time and answered requests at the last update.
    last: (Duration, u64),
    result: io::Result<()>,
}

impl<'s> ProgressDisplay<'s> {
    fn new(
        plan: &'s Plan,
        options: &'s OutputOptions,
        (out, err): (&'s mut dyn Write, &'s mut dyn Write),
        observer: &'s mut dyn RunObserver,
    ) -> Self {
        let template = format!("{{spinner}} [{{bar:{BAR_WIDTH}}}] {{wide_msg}}");
        let style = ProgressStyle::with_template(&template).map(|s| s.progress_chars("=> "));
        let total = u64::try_from((plan.loop_time * plan.loops).as_millis()).unwrap_or(u64::MAX);
        let bar = (options.progress == ProgressMode::Live).then(|| {
            ProgressBar::new(total)
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        let last = (clock::since_epoch(), 0);
        Self { plan, options, out, err, observer, bar, last, result: Ok(()) }
    }

    /// Clears the line; returns the first error of writing.
    fn finish(self) -> io::Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.result
    }

    /// Responses per second since the last update.
    fn rate(&mut self, answered: u64) -> f64 {
        let (now, before) = (clock::since_epoch(), self.last);
        self.last = (now, answered);
        let n = answered.saturating_sub(before.1);
        crate::statistics::per_second(n, now.saturating_sub(before.0))
    }
}

/// One line with time left, rate, switches and errors.
fn measuring_line(
    remaining: Duration,
    rate: f64,
    unit: &str,
    (ready, switches): (u64, u32),
    errors: u64,
) -> String {
    let remaining = if remaining.is_zero() {
        "last replies".to_owned()
    } else {
        format!("{} s left", remaining.as_millis().div_ceil(1000))
    };
    let rate = text_report::quantity(rate);
    let noun = if switches == 1 { "switch" } else { "switches" };
    let errors = text_report::counted(errors, "error", "errors");
    format!("{remaining}, {rate} {unit}, {ready}/{switches} {noun}, {errors}")
}

impl RunObserver for ProgressDisplay<'_> {
    fn on_progress(&mut self, progress: RunProgress) {
        let Some(bar) = self.bar.clone() else { return };
        let message = match progress {
            RunProgress::Connecting { ready_switches } => {
                let switches =
                    text_report::counted(self.plan.switches.into(), "switch", "switches");
                format!("connecting: {ready_switches} of {switches} ready")
            }
            RunProgress::Measuring { remaining, answered, ready_switches, errors, .. } => {
                let left = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
                bar.set_position(bar.length().unwrap_or(0).saturating_sub(left));
                let rate = self.rate(answered);
                let unit = text_report::unit(self.plan);
                measuring_line(remaining, rate, unit, (ready_switches, self.plan.switches), errors)
            }
        };
        bar.set_message(message);
        bar.tick();
    }

    fn on_loop(&mut self, figures: &LoopFigures) {
        self.observer.on_loop(figures);
        if self.result.is_err() {
            return;
        }
        let line = if self.options.format == OutputFormat::Cbench {
            writeln!(self.out, "{}", cbench::loop_line(figures, clock::since_epoch()))
        } else if self.options.progress == ProgressMode::PerLoop {
            let rate = text_report::quantity(figures.rate);
            let unit = text_report::unit(self.plan);
            writeln!(self.err, "loop {}: {rate} {unit}", figures.number + 1)
        } else {
            return;
        };
        self.result = line.and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ThreadResults;

    #[test]
    fn a_report_that_does_not_fit_on_the_disk_is_an_error() {
        let full = || Some("/dev/full".to_owned());
        for options in [
            OutputOptions { json: full(), ..OutputOptions::default() },
            OutputOptions { hdr: full(), ..OutputOptions::default() },
            OutputOptions { csv: full(), ..OutputOptions::default() },
            OutputOptions { html: full(), ..OutputOptions::default() },
        ] {
            let results = ThreadResults { loops: vec![], totals: vec![] };
            let reports = [Report::new(&Plan { loops: 0, ..Plan::default() }, results)];
            let error = write_files(&reports, None, &options, &mut Vec::new()).unwrap_err();
            assert!(matches!(&error, Error::Write(path, _) if path == "/dev/full"), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error_before_the_measurement() {
        let directory = std::env::temp_dir().display().to_string();
        let options = OutputOptions { json: Some(directory.clone()), ..OutputOptions::default() };
        let plan = Plan { targets: vec![([127, 0, 0, 1], 1).into()], ..Plan::default() };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let error = run_and_print(&plan, &options, &mut out, &mut err, &mut ()).unwrap_err();
        assert!(matches!(&error, Error::Write(path, _) if *path == directory), "{error}");
        let standard = OutputOptions { json: Some("-".to_owned()), ..OutputOptions::default() };
        standard.check_files().unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_does_not_prevent_the_others() {
        let path = std::env::temp_dir().join(format!("sluice-csv-{}", std::process::id()));
        let options = OutputOptions {
            json: Some("/dev/full".to_owned()),
            csv: Some(path.display().to_string()),
            ..OutputOptions::default()
        };
        let results = ThreadResults { loops: vec![], totals: vec![] };
        let reports = [Report::new(&Plan { loops: 0, ..Plan::default() }, results)];
        write_files(&reports, None, &options, &mut Vec::new()).unwrap_err();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(text.starts_with("run,"), "{text}");
    }

    #[test]
    fn the_live_line_shows_time_left_rate_switches_and_errors() {
        let line =
            measuring_line(Duration::from_millis(11_200), 1.234e6, "responses/s", (15, 16), 1);
        assert_eq!(line, "12 s left, 1.23 M responses/s, 15/16 switches, 1 error");
        let line = measuring_line(Duration::ZERO, 0.0, "responses/s", (1, 1), 0);
        assert_eq!(line, "last replies, 0.00 responses/s, 1/1 switch, 0 errors");
        let long =
            measuring_line(Duration::from_secs(998), 12.3e6, "responses/s", (1000, 1000), 999);
        assert!(long.len() + 17 <= 80, "the line with the bar fits 80 columns: {long}");
    }
}
