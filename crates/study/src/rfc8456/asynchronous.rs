//! Sections 5.1.2 and 5.1.3: asynchronous messages, which are packet-ins here, and their answers.

use std::time::Duration;

use sluice_bench::{Buffering, Load, NotSent, Plan, Report};

use super::trial::Trial;
use crate::measure::{
    LOOPS, Measured, is_generator_the_limit, mark_response_times, not_sent, require_all_switches,
    set_quantiles, unanswered_share,
};

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

/// Share of the messages that may stay unsent because of the controller at a loss-free rate; the rate of those that were sent is reported.
const HELD_BACK_MAX: f64 = 0.05;

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
    require_all_switches(&report)?;
    processing_figures(&report)
}

fn processing_figures(report: &Report) -> Result<Measured, String> {
    let latency = &report.latency;
    if latency.answered.is_empty() {
        return Err("no message was answered".to_owned());
    }
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("processing_us", latency.mean_ns() / 1e3);
    if latency.unanswered > 0 {
        measured.lower_bounds.push("processing_us".to_owned());
    }
    set_quantiles(&mut measured, latency, &[("p50_us", 0.5), ("p99_us", 0.99)]);
    mark_response_times(&mut measured, report, &["processing_us", "p50_us", "p99_us"]);
    #[expect(clippy::cast_precision_loss, reason = "no figure needs 16 digits")]
    measured.set("exchanged", latency.answered.len() as f64);
    measured.set("unanswered_percent", 100.0 * unanswered_share(report));
    Ok(measured)
}

/// Section 5.1.3: asynchronous message processing rate.
pub(super) fn processing_rate(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let unlimited = plan(trial, Load::Unlimited);
    let report = trial.bench(&unlimited)?;
    require_all_switches(&report)?;
    let maximum = report.rate.mean;
    if maximum <= 0.0 {
        return Err("no message was answered".to_owned());
    }
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("rate", maximum);
    let is_maximum_a_bound = is_generator_the_limit(&report);
    if is_maximum_a_bound {
        measured.lower_bounds.push("rate".to_owned());
    }
    let mut loss_free = LossFreeRate::default();
    for offered in offered_rates(maximum) {
        if loss_free.is_found_at(offered) {
            break;
        }
        // What the sockets of the step before contained is load, too.
        trial.wait_until_idle()?;
        let step = plan(trial, Load::Rate(offered));
        let report = trial.bench(&step)?;
        let loss = Loss::of(&report);
        if offered >= maximum {
            measured.set("loss_at_maximum_percent", 100.0 * loss.share);
            measured.set("not_sent_percent", 100.0 * loss.generator_late);
        }
        if loss.is_none() {
            let is_bound = is_maximum_a_bound && offered >= maximum;
            loss_free.add(report.offered.sent, is_generator_the_limit(&report), is_bound);
        }
    }
    loss_free.record(&mut measured);
    Ok(measured)
}

/// The offered rates, from the maximum down.
fn offered_rates(maximum: f64) -> impl Iterator<Item = f64> {
    let steps = (1..=STEPS).rev().map(|n| f64::from(n) / f64::from(STEPS));
    let halvings = (1..=HALVINGS).map(|n| 0.1 / f64::from(1 << n));
    steps.chain(halvings).map(move |share| (share * maximum).max(1.0))
}

/// The greatest rate at which every message was answered.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LossFreeRate {
    /// Messages sent per second; 0 before the first step without loss.
    sent: f64,
    /// Whether the load generator sent what it should have sent in such a step.
    is_sent_as_offered: bool,
    is_lower_bound: bool,
}

impl LossFreeRate {
    /// Adds a step without loss. `is_late`: the load generator was too slow for it; `is_bound`: the controller may sustain more than was
    /// offered.
    fn add(&mut self, sent: f64, is_late: bool, is_bound: bool) {
        self.sent = self.sent.max(sent);
        self.is_sent_as_offered |= !is_late;
        self.is_lower_bound |= is_late || is_bound;
    }

    /// Whether a step with this rate shows nothing more: the steps go from the greatest rate down.
    fn is_found_at(&self, offered: f64) -> bool {
        self.is_sent_as_offered || offered <= self.sent
    }

    fn record(&self, measured: &mut Measured) {
        measured.set("loss_free_rate", self.sent);
        if self.is_lower_bound {
            measured.lower_bounds.push("loss_free_rate".to_owned());
            measured.warnings.push(
                "the load generator was the limit of a step without loss: the loss-free rate is a lower bound"
                    .to_owned(),
            );
        }
    }
}

/// What became of the messages of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Loss {
    /// Share of those without an answer. What the generator was too slow to send is not among them.
    share: f64,
    answered: u64,
    /// Sent and not answered.
    unanswered: u64,
    /// Share of those that were not sent because of the controller: it did not read, did not answer, or had closed the connection.
    held_back: f64,
    /// Share of those that the generator was too slow to send, of all that were due.
    generator_late: f64,
}

impl Loss {
    fn of(report: &Report) -> Self {
        let (latency, not_sent) = (&report.latency, not_sent(report));
        let unanswered = latency.unanswered.saturating_sub(not_sent.total());
        Self::new(latency.answered.len(), unanswered, not_sent)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    fn new(answered: u64, unanswered: u64, not_sent: NotSent) -> Self {
        let held_back = not_sent.total().saturating_sub(not_sent.generator_late);
        let offered = answered + unanswered + held_back;
        let due = offered + not_sent.generator_late;
        Self {
            share: 1.0 - answered as f64 / offered.max(1) as f64,
            answered,
            unanswered,
            held_back: held_back as f64 / offered.max(1) as f64,
            generator_late: not_sent.generator_late as f64 / due.max(1) as f64,
        }
    }

    fn is_none(&self) -> bool {
        self.answered > 0 && self.unanswered == 0 && self.held_back <= HELD_BACK_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::report_without_requests;

    #[test]
    fn rates_go_from_the_maximum_down() {
        let rates: Vec<_> = offered_rates(1000.0).collect();
        assert_eq!(rates.len(), 15);
        assert!((rates[0] - 1000.0).abs() < 1e-9 && (rates[9] - 100.0).abs() < 1e-9);
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn percentiles_count_messages_without_an_answer() {
        let mut report = report_without_requests(Load::Window(1));
        assert!(processing_figures(&report).is_err());
        report.latency.answered.record_n(1_000, 98).unwrap();
        let measured = processing_figures(&report).unwrap();
        assert_eq!(measured.lower_bounds, [""; 0]);
        assert_eq!(measured.figures.get("exchanged"), Some(&98.0));
        (report.latency.unanswered, report.latency.unanswered_min_ns) = (2, 5_000_000_000);
        let measured = processing_figures(&report).unwrap();
        assert_eq!(measured.lower_bounds, ["processing_us", "p99_us"]);
        assert_eq!(measured.figures.get("p99_us"), Some(&5e6));
    }

    #[test]
    fn one_message_without_an_answer_is_a_loss() {
        let held_back = |socket_full| NotSent { socket_full, ..NotSent::default() };
        assert!(Loss::new(1000, 0, held_back(0)).is_none());
        assert!(!Loss::new(999, 1, held_back(0)).is_none());
        // What the controller did not read cannot be lost, but it was not the offered rate either.
        assert!(Loss::new(960, 0, held_back(40)).is_none());
        assert!(!Loss::new(500, 0, held_back(500)).is_none());
        assert!((Loss::new(500, 0, held_back(500)).share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_the_generator_was_too_slow_to_send_is_no_loss_of_the_controller() {
        let late = |generator_late| NotSent { generator_late, ..NotSent::default() };
        let loss = Loss::new(500, 0, late(500));
        assert!(loss.is_none() && loss.share.abs() < 1e-9, "{loss:?}");
        assert!((loss.generator_late - 0.5).abs() < 1e-9, "{loss:?}");
        assert!(!Loss::new(499, 1, late(500)).is_none());
        assert!(!Loss::new(0, 0, late(1000)).is_none(), "nothing was answered");

        let mut report = report_without_requests(Load::Rate(100.0));
        report.latency.answered.record_n(1_000, 90).unwrap();
        report.latency.unanswered = 10;
        report.loops[0].not_sent = NotSent { socket_full: 3, ..late(4) };
        assert_eq!(Loss::of(&report), Loss::new(90, 3, NotSent { socket_full: 3, ..late(4) }));
    }

    #[test]
    fn a_rate_that_the_generator_limited_is_a_lower_bound_until_nothing_more_can_be_shown() {
        let mut rate = LossFreeRate::default();
        assert!(!rate.is_found_at(1.0));
        rate.add(800.0, true, false);
        assert!(!rate.is_found_at(900.0) && rate.is_found_at(800.0));
        rate.add(900.0, false, false);
        assert!(rate.is_found_at(850.0));
        let mut measured = Measured::default();
        rate.record(&mut measured);
        assert_eq!(measured.figures.get("loss_free_rate"), Some(&900.0));
        assert_eq!((measured.lower_bounds.len(), measured.warnings.len()), (1, 1));

        let mut rate = LossFreeRate::default();
        rate.add(950.0, false, false);
        assert!(rate.is_found_at(960.0) && !rate.is_lower_bound);
        // All that was offered, which may not be all that the controller can do.
        rate.add(1000.0, false, true);
        assert!(rate.is_lower_bound);
    }
}
