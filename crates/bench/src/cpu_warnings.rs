//! Warnings that follow from the CPU time of generator and controller: both waited for each other, or for a CPU core.

use crate::plan::{Load, Plan};
use crate::report::Report;

/// Share of the time below which a thread was not busy.
const BUSY_MIN: f64 = 0.9;

/// Share of the time that a thread may wait for a CPU core.
const DELAYED_MAX: f64 = 0.1;

/// Outstanding requests per switch from which neither end should have to wait for the other.
const LARGE_WINDOW: u32 = 16;

/// Reasons to distrust `report`, as sentences.
pub(crate) fn of(report: &Report) -> Vec<String> {
    let delays = delays(report);
    // A thread that waits for a CPU core is not busy either, so that both ends would seem to wait for each other.
    if delays.is_empty() { mutual_waiting(report).into_iter().collect() } else { delays }
}

/// Did generator and controller wait for each other although the load was large enough to keep one of them busy?
///
/// Each thread that has nothing to do sleeps, and waking it takes longer than processing a request. So the rate depends on how often
/// the two sleep, and that differs from run to run.
fn mutual_waiting(report: &Report) -> Option<String> {
    if !has_large_window(report) || report.counts.answered == 0 {
        return None;
    }
    let generator = report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
    let mut controller = 0.0f64;
    for process in &report.provenance.controllers {
        // Of a controller on another machine it is not known.
        controller = controller.max(process.as_ref()?.cpu.as_ref()?.busiest_thread);
    }
    if report.provenance.controllers.is_empty() || generator.max(controller) >= BUSY_MIN {
        return None;
    }
    let remedy = if report.plan.spin.is_zero() {
        "measure with --spin 1000, so that the generator does not sleep"
    } else {
        "let the controller poll, too (`sluice run --spin`), or use a larger window"
    };
    Some(format!(
        "generator (busy {:.0} %) and controller (busiest thread {:.0} %) waited for each other: the figures are \
         those of waking threads up, and may differ from run to run; {remedy}",
        generator * 100.0,
        controller * 100.0,
    ))
}

/// Whether the load is a closed loop of many outstanding requests.
fn has_large_window(report: &Report) -> bool {
    let Plan { load, switches, network, .. } = &report.plan;
    let per_switch = |n: u32| n / (*switches).max(1);
    match (load, network) {
        (Load::Rate(_), _) => false,
        (&load, Some(network)) => per_switch(network.window(load)) >= LARGE_WINDOW,
        (Load::Unlimited, None) => true,
        (&Load::Window(n), None) => n >= LARGE_WINDOW,
        (&Load::WindowTotal(n), None) => per_switch(n) >= LARGE_WINDOW,
    }
}

/// Did other threads take the CPU cores?
fn delays(report: &Report) -> Vec<String> {
    let generator = report.threads.iter().filter_map(|thread| thread.delayed);
    let processes = report.provenance.controllers.iter().flatten();
    let controller = processes.filter_map(|it| it.cpu.as_ref()?.busiest_thread_delayed);
    let ends = [
        ("a generator thread", generator.fold(0.0, f64::max)),
        ("the controller's busiest thread", controller.fold(0.0, f64::max)),
    ];
    let delayed = ends.into_iter().filter(|&(_, share)| share > DELAYED_MAX);
    let warning = |(thread, share)| {
        format!(
            "{thread} was ready to run and waited for a CPU core {:.0} % of the time: give both ends cores of their \
             own (--pin), and stop other programs",
            share * 100.0
        )
    };
    delayed.map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RequestCounts;
    use crate::paths::{Directions, NetworkPlan};
    use crate::provenance::{ControllerProcess, CpuUse, Provenance};
    use crate::report::{ThreadFigures, ThreadResults};

    /// The warnings of a run in which generator and controller were busy and waited for a CPU core for these shares of the time.
    fn warnings(plan: &Plan, generator: (f64, f64), controller: Option<(f64, f64)>) -> Vec<String> {
        let report = Report::new(plan, ThreadResults { loops: vec![], totals: vec![] });
        let (busy, delayed) = generator;
        let controller = controller.map(|(busiest_thread, delayed)| ControllerProcess {
            cpu: Some(CpuUse {
                process: busiest_thread,
                busiest_thread,
                busiest_thread_name: "worker".to_owned(),
                busiest_thread_delayed: Some(delayed),
            }),
            ..ControllerProcess::default()
        });
        of(&Report {
            counts: RequestCounts { answered: 1, ..RequestCounts::default() },
            threads: vec![ThreadFigures { cpu: busy, busy, delayed: Some(delayed) }],
            provenance: Provenance { controllers: vec![controller], ..Provenance::default() },
            ..report
        })
    }

    fn plan(load: Load) -> Plan {
        Plan { load, loops: 0, ..Plan::default() }
    }

    #[test]
    fn generator_and_controller_that_wait_for_each_other_are_reported() {
        for load in [Load::Unlimited, Load::Window(16), Load::WindowTotal(256)] {
            let found = warnings(&plan(load), (0.71, 0.0), Some((0.64, 0.0)));
            let [warning] = found.as_slice() else { panic!("{load:?}: {found:?}") };
            assert!(warning.contains("generator (busy 71 %) and controller (busiest thread 64 %)"));
            assert!(
                warning.ends_with("measure with --spin 1000, so that the generator does not sleep")
            );
        }
        let polling = Plan { spin: Duration::from_millis(1), ..plan(Load::Unlimited) };
        let found = warnings(&polling, (0.71, 0.0), Some((0.64, 0.0)));
        assert!(found.iter().any(|warning| warning.contains("`sluice run --spin`")), "{found:?}");
    }

    #[test]
    fn one_busy_end_a_small_window_and_an_unknown_controller_are_not() {
        let none: [String; 0] = [];
        let unlimited = plan(Load::Unlimited);
        assert_eq!(warnings(&unlimited, (0.99, 0.0), Some((0.5, 0.0))), none);
        assert_eq!(warnings(&unlimited, (0.5, 0.0), Some((0.95, 0.0))), none);
        assert_eq!(warnings(&unlimited, (0.5, 0.0), None), none);
        for load in [Load::Window(1), Load::WindowTotal(16), Load::Rate(1000.0)] {
            assert_eq!(warnings(&plan(load), (0.5, 0.0), Some((0.5, 0.0))), none, "{load:?}");
        }
    }

    #[test]
    fn the_window_of_a_network_is_the_one_that_its_hosts_allow() {
        let figures = ((0.5, 0.0), Some((0.5, 0.0)));
        for (hosts, is_large) in [(63, false), (64, true)] {
            let network = NetworkPlan::from_shape(&format!("single,{hosts}"), Directions::Both);
            let plan = Plan { loops: 0, ..Plan::for_network(network.unwrap(), 256) };
            assert_eq!(
                !warnings(&plan, figures.0, figures.1).is_empty(),
                is_large,
                "{hosts} hosts"
            );
        }
    }

    #[test]
    fn ends_that_share_a_core_wait_for_it_and_not_for_each_other() {
        let found = warnings(&plan(Load::Unlimited), (0.5, 0.45), Some((0.4, 0.5)));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0]
                .starts_with("a generator thread was ready to run and waited for a CPU core 45 %")
        );
        assert!(found[1].starts_with("the controller's busiest thread was ready to run"));
    }
}
