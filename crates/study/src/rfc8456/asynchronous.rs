//! Sections 5.1.2 and 5.1.3: asynchronous messages, which are packet-ins here, and their answers.

use std::time::Duration;

use sluice_bench::{Buffering, Load, Plan, Report};

use super::trial::Trial;
use crate::measure::{LOOPS, Measured, is_generator_the_limit, measured_s, unanswered_share};

/// Hosts of each switch.
const HOSTS: u32 = 1000;

/// Shortest warm-up.
const WARM_UP: Duration = Duration::from_secs(1);

/// Time between the last handshake and the first message.
const DELAY: Duration = Duration::from_secs(1);

/// Steps from the maximum rate down.
const STEPS: u32 = 10;

/// Each further rate after these steps is half of the one before it, this often.
const HALVINGS: u32 = 5;

/// Share of the due messages that the generator may not send at a loss-free rate; what it sends is reported.
const NOT_SENT_MAX: f64 = 0.05;

/// The plan of the bench for as many switches as the topology has.
fn plan(trial: &Trial<'_, '_>, load: Load) -> Plan {
    let (loop_time, warmup) = trial.loops(WARM_UP.min(trial.time()));
    Plan {
        targets: vec![trial.subject.target],
        switches: trial.switches(),
        version: trial.subject.version,
        hosts: HOSTS,
        load,
        buffering: Buffering::Unbuffered,
        frame_len: u16::try_from(trial.settings.frame_bytes).unwrap_or(u16::MAX),
        loops: warmup + LOOPS,
        warmup,
        loop_time,
        delay: DELAY,
        pin: trial.subject.generator_cores.to_vec(),
        ..Plan::default()
    }
}

/// Section 5.1.2: asynchronous message processing time.
pub(super) fn processing_time(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let plan = plan(trial, Load::Window(1));
    let report = trial.bench(&plan)?;
    let answered = &report.latency.answered;
    if answered.is_empty() {
        return Err("no message was answered".to_owned());
    }
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("processing_us", answered.mean() / 1e3);
    #[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
    {
        measured.set("p50_us", answered.value_at_quantile(0.5) as f64 / 1e3);
        measured.set("p99_us", answered.value_at_quantile(0.99) as f64 / 1e3);
    }
    measured.set("exchanged", (report.offered.answered * measured_s(&report)).round());
    measured.set("unanswered_percent", 100.0 * unanswered_share(&report));
    Ok(measured)
}

/// Section 5.1.3: asynchronous message processing rate.
pub(super) fn processing_rate(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let unlimited = plan(trial, Load::Unlimited);
    let report = trial.bench(&unlimited)?;
    let maximum = report.rate.mean;
    if maximum <= 0.0 {
        return Err("no message was answered".to_owned());
    }
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("rate", maximum);
    if is_generator_the_limit(&report) {
        measured.lower_bounds.push("rate".to_owned());
    }
    measured.set("loss_free_rate", 0.0);
    for offered in offered_rates(maximum) {
        trial.check_interrupted()?;
        let step = plan(trial, Load::Rate(offered));
        let report = trial.bench(&step)?;
        let loss = Loss::of(&report);
        if offered >= maximum {
            measured.set("loss_at_maximum_percent", 100.0 * loss.share);
        }
        if loss.is_none() {
            measured.set("loss_free_rate", report.offered.sent);
            break;
        }
    }
    Ok(measured)
}

/// The offered rates, from the maximum down.
fn offered_rates(maximum: f64) -> impl Iterator<Item = f64> {
    let steps = (1..=STEPS).rev().map(|n| f64::from(n) / f64::from(STEPS));
    let halvings = (1..=HALVINGS).map(|n| 0.1 / f64::from(1 << n));
    steps.chain(halvings).map(move |share| (share * maximum).max(1.0))
}

/// Messages that were due and not answered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Loss {
    /// Of those that were due.
    share: f64,
    /// Sent and not answered.
    unanswered: f64,
    /// Due and not sent, of those that were due.
    not_sent: f64,
}

impl Loss {
    fn of(report: &Report) -> Self {
        let offered = &report.offered;
        // Whole messages, so that rounding is no loss.
        let [sent, not_sent, answered] = [offered.sent, offered.not_sent, offered.answered]
            .map(|rate| (rate * measured_s(report)).round());
        Self::new(sent, not_sent, answered)
    }

    /// Of numbers of messages.
    fn new(sent: f64, not_sent: f64, answered: f64) -> Self {
        let due = (sent + not_sent).max(1.0);
        Self {
            share: 1.0 - answered / due,
            unanswered: (sent - answered).max(0.0),
            not_sent: not_sent / due,
        }
    }

    fn is_none(&self) -> bool {
        self.unanswered < 0.5 && self.not_sent <= NOT_SENT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_go_from_the_maximum_down() {
        let rates: Vec<_> = offered_rates(1000.0).collect();
        assert_eq!(rates.len(), 15);
        assert!((rates[0] - 1000.0).abs() < 1e-9 && (rates[9] - 100.0).abs() < 1e-9);
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn one_message_without_an_answer_is_a_loss() {
        assert!(Loss::new(1000.0, 0.0, 1000.0).is_none());
        assert!(!Loss::new(1000.0, 0.0, 999.0).is_none());
        // What was not sent cannot be lost, but it was not the offered rate either.
        assert!(Loss::new(960.0, 40.0, 960.0).is_none());
        assert!(!Loss::new(500.0, 500.0, 500.0).is_none());
        assert!((Loss::new(500.0, 500.0, 500.0).share - 0.5).abs() < 1e-9);
    }
}
