//! The machine: what it is, and what else runs on it.

use std::fs;
use std::time::{Duration, Instant};

use sluice_base::sort_by;
use sluice_bench::Host;
use sluice_io::energy::EnergyMeter;
use sluice_io::{clock, cores};

use crate::definition::Requirement;
use crate::measure::cbench;
use crate::process::{self, Placeholders};
use crate::record::{Machine, MachineState};

/// Unit of times in `/proc/stat` (`USER_HZ` is 100).
const TICKS_PER_S: f64 = 100.0;

/// Cores that other programs may use on average before a sample counts as disturbed.
const OTHER_CORES_MAX: f64 = 0.25;

/// The same of the hypervisor.
const STOLEN_CORES_MAX: f64 = 0.1;

/// Shortest failed start of which the times of `/proc/stat`, with a resolution of 10 ms, say how many cores were used.
const FAILED_START_MIN: Duration = Duration::from_secs(1);

/// Facts about this machine, and how its cores are divided.
pub(super) fn read(generator_cores: Vec<usize>, controller_cores: Vec<usize>) -> Machine {
    let host = Host::read();
    Machine {
        cpu_model: host.cpu_model,
        cores: host.cores,
        sockets: sockets(),
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        kernel: host.kernel,
        memory_bytes: host.memory_bytes,
        congestion: text("/proc/sys/net/ipv4/tcp_congestion_control"),
        generator_cores,
        controller_cores,
    }
}

/// What the machine does not have of what an experiment requires, as a sentence without its end.
pub(super) fn missing(
    requirement: Requirement,
    machine: &Machine,
    placeholders: &Placeholders,
) -> Option<String> {
    match requirement {
        Requirement::EnergyCounters if EnergyMeter::open().is_none() => {
            Some("this machine has no energy counters (RAPL) that can be read".to_owned())
        }
        Requirement::TwoSockets if machine.sockets.len() < 2 => {
            Some("this machine has one processor socket".to_owned())
        }
        Requirement::Cbench => {
            let program = placeholders.fill(cbench::PROGRAM);
            process::executable(&program).is_none().then(|| format!("{program} was not found"))
        }
        Requirement::EnergyCounters | Requirement::TwoSockets => None,
    }
}

/// The first allowed core for the generator, all others for the controller. With a single core, both share it.
pub(super) fn divide_cores() -> (Vec<usize>, Vec<usize>) {
    let allowed = cores::allowed();
    match allowed.split_first() {
        Some((first, rest)) if !rest.is_empty() => (vec![*first], rest.to_vec()),
        _ => (allowed.clone(), allowed),
    }
}

/// The cores of each socket, such as `0-3`.
fn sockets() -> Vec<String> {
    let mut lists: Vec<String> = cores::allowed()
        .iter()
        .filter_map(|core| {
            text(&format!("/sys/devices/system/cpu/cpu{core}/topology/package_cpus_list"))
        })
        .collect();
    sort_by(&mut lists, Ord::cmp);
    lists.dedup();
    lists
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Processor times of the machine and of this process with the commands that it has run, at one moment, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MachineReading {
    /// Of the monotonic clock: the time of day may be set while a sample is taken.
    at: Instant,
    busy: f64,
    stolen: f64,
    own: f64,
    /// Of the controller, without what is part of `own` since one of its processes has ended.
    controller: f64,
}

impl MachineReading {
    /// Reads them now. `controller` was read before: a process that has ended meanwhile is part of `own` then.
    pub(super) fn take(controller: f64) -> Self {
        let (busy, stolen) = text("/proc/stat").as_deref().and_then(parse_stat).unwrap_or_default();
        Self {
            at: clock::now(),
            busy,
            stolen,
            own: clock::process_cpu().as_secs_f64() + children_cpu_s().unwrap_or_default(),
            controller,
        }
    }

    /// What others used since `before`.
    pub(super) fn since(&self, before: &Self) -> MachineState {
        let elapsed = self.at.saturating_duration_since(before.at).as_secs_f64();
        if elapsed <= 0.0 {
            return MachineState::default();
        }
        // The time of a process that has ended moves from the one to the other, also what it used before.
        let known = (self.own + self.controller) - (before.own + before.controller);
        let other_cores = ((self.busy - before.busy - known) / elapsed).max(0.0);
        let stolen_cores = ((self.stolen - before.stolen) / elapsed).max(0.0);
        let is_disturbed = other_cores > OTHER_CORES_MAX || stolen_cores > STOLEN_CORES_MAX;
        MachineState { other_cores, stolen_cores, is_disturbed }
    }

    /// What others used since `before`, when a controller was started that did not get ready. Its processes have ended, so that their
    /// processor time is that of this process.
    pub(super) fn of_failed_start(&self, before: &Self) -> MachineState {
        if self.at.saturating_duration_since(before.at) < FAILED_START_MIN {
            return MachineState::default();
        }
        self.since(before)
    }
}

/// Processor time of the children of this process that have ended, in seconds, from `/proc/self/stat` (proc(5)).
fn children_cpu_s() -> Option<f64> {
    let text = text("/proc/self/stat")?;
    // The name of the program, which comes before, may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    // cutime and cstime are fields 16 and 17; the first here is field 3.
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(13).take(2).filter_map(|it| it.parse().ok()).collect();
    Some(ticks.iter().sum::<f64>() / TICKS_PER_S)
}

/// Seconds that all cores were busy, and that the hypervisor took, from the first line of `/proc/stat` (proc(5)).
fn parse_stat(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<f64> = line.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let at = |index: usize| times.get(index).copied();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = at(0)? + at(1)? + at(2)? + at(5)? + at(6)?;
    Some((busy / TICKS_PER_S, at(7)? / TICKS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_stolen_time_are_read() {
        let stat = "cpu  100 20 30 4000 50 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(parse_stat(stat), Some((1.63, 0.8)));
        assert_eq!(parse_stat("cpu 1 2"), None);
    }

    #[test]
    fn time_that_is_neither_the_generators_nor_the_controllers_is_that_of_others() {
        let at = clock::now();
        let before = MachineReading { at, busy: 100.0, stolen: 1.0, own: 5.0, controller: 3.0 };
        let after = MachineReading {
            at: at + Duration::from_secs(10),
            busy: 118.0,
            stolen: 1.5,
            own: 14.0,
            controller: 11.0,
        };
        let state = after.since(&before);
        assert!((state.other_cores - 0.1).abs() < 1e-9 && (state.stolen_cores - 0.05).abs() < 1e-9);
        assert!(!state.is_disturbed);
        let with_others = MachineReading { controller: 8.0, ..after };
        assert!(with_others.since(&before).is_disturbed);
        // A tick more or less would decide.
        let soon = MachineReading { at: at + Duration::from_millis(20), ..after };
        assert_eq!(soon.of_failed_start(&before), MachineState::default());
        assert!(with_others.of_failed_start(&before).is_disturbed);
    }

    #[test]
    fn a_controller_that_ends_beside_other_load_is_disturbed() {
        let at = clock::now();
        // Its start took 8 s. In the next 10 s, the generator uses 9 s, others 7 s, and the controller 2 s before it ends.
        let before = MachineReading { at, busy: 100.0, stolen: 1.0, own: 5.0, controller: 8.0 };
        let at = at + Duration::from_secs(10);
        let own = 5.0 + 9.0 + (8.0 + 2.0);
        let ended = MachineReading { at, busy: 118.0, own, controller: 0.0, ..before };
        let state = ended.since(&before);
        assert!((state.other_cores - 0.7).abs() < 1e-9 && state.is_disturbed, "{state:?}");
        // The same if it runs on, and if one of two processes has ended, which had used half of it.
        for ended in [0.0, 5.0] {
            let (own, controller) = (5.0 + 9.0 + ended, 10.0 - ended);
            let reading = MachineReading { at, busy: 118.0, own, controller, ..before };
            assert!((reading.since(&before).other_cores - 0.7).abs() < 1e-9);
        }
    }

    #[test]
    fn the_time_between_readings_is_that_of_the_monotonic_clock() {
        let before = clock::now();
        let reading = MachineReading::take(0.0);
        assert!((before..=clock::now()).contains(&reading.at));
    }
}
