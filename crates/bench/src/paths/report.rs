//! What the report of a measurement of paths contains besides the figures of every measurement, and its warnings.

use crate::coordination::{ThreadLoopResult, ThreadResult};
use crate::paths::pairs::PAIR_INTERVAL_MIN;
use crate::plan::Load;
use crate::report::Report;
use crate::statistics::per_second;
use crate::text_report::counted;

use super::{NetworkPlan, NetworkTotals};

/// Figures of a measurement of paths.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathFigures {
    /// `FLOW_MOD`s executed per second in the measured loops.
    pub flow_mods_per_second: f64,
    /// `PACKET_OUT`s executed per second in the measured loops.
    pub packet_outs_per_second: f64,
    /// Paths that were not requested, because the flow tables sent the first packet to its destination: neither requests
    /// nor answers include them.
    pub already_installed: u64,
    /// Times at which the window could not be filled, because all pairs of hosts had been used a short time before.
    pub out_of_pairs: u64,
    /// Answers that destinations sent because the reverse direction was not installed when the first packet had arrived.
    pub answers: u64,
    /// Messages of the controller that the switches refused with an `ERROR`.
    pub refused_messages: u64,
    /// Frames dropped because they were in a loop.
    pub looping_frames: u64,
}

impl PathFigures {
    /// The figures of all threads; `None` if they measured no paths.
    pub(crate) fn of(measured: &[&ThreadLoopResult], totals: &[ThreadResult]) -> Option<Self> {
        let NetworkTotals {
            already_installed,
            out_of_pairs,
            answers,
            refused_messages,
            looping_frames,
        } = totals.iter().find_map(|result| result.network)?;
        let elapsed = measured.iter().map(|result| result.elapsed).sum();
        let loops = || measured.iter().filter_map(|result| result.network);
        Some(Self {
            flow_mods_per_second: per_second(loops().map(|it| it.flow_mods).sum(), elapsed),
            packet_outs_per_second: per_second(loops().map(|it| it.packet_outs).sum(), elapsed),
            already_installed,
            out_of_pairs,
            answers,
            refused_messages,
            looping_frames,
        })
    }
}

/// Reasons to distrust a report of paths, besides those that apply to every report.
pub(crate) fn warnings(report: &Report) -> Vec<String> {
    let (Some(network), Some(figures)) = (&report.plan.network, report.paths) else {
        return vec![];
    };
    let mut warnings: Vec<_> = window(network, report.plan.load).into_iter().collect();
    if figures.out_of_pairs > 0 {
        warnings.push(format!(
            "the network has only {} of hosts at the greatest distance, and each of them requests a path at most every \
             {} ms: the controller may be faster than measured; use more hosts",
            counted(network.pairs as u64, "pair", "pairs"),
            PAIR_INTERVAL_MIN.as_millis(),
        ));
    }
    if figures.already_installed > 0 {
        let paths = counted(figures.already_installed, "path was", "paths were");
        warnings.push(format!(
            "{paths} installed before a packet needed them, and are not included: flow entries that match neither host \
             or that were installed late"
        ));
    }
    if figures.refused_messages > 0 {
        let messages = counted(figures.refused_messages, "message", "messages");
        warnings.push(format!("the switches refused {messages} of the controller with an ERROR"));
    }
    if figures.looping_frames > 0 {
        let frames = counted(figures.looping_frames, "frame was", "frames were");
        warnings.push(format!(
            "{frames} dropped in a loop of the network: the controller floods into it"
        ));
    }
    warnings
}

/// The warning that no path was installed.
pub(crate) fn nothing_installed(figures: PathFigures) -> &'static str {
    if figures.already_installed > 0 {
        "no path could be requested: the controller had installed all of them before a packet needed them"
    } else {
        "no path was installed: either the controller runs no application that installs paths, it had not discovered \
         the links and hosts yet (--delay), or its flow entries do not lead from host to host"
    }
}

/// Whether the window had to be reduced.
fn window(network: &NetworkPlan, load: Load) -> Option<String> {
    let (Load::Window(wanted) | Load::WindowTotal(wanted)) = load else { return None };
    let window = network.window(load);
    (window < wanted).then(|| {
        let hosts = counted(network.topology.hosts.len() as u64, "host", "hosts");
        format!(
            "the window was reduced from {wanted} to {window}, a quarter of the {hosts}, so that no two outstanding requests \
             have a host in common; use more hosts"
        )
    })
}
