//! What the processes of a controller use, over time.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_io::process_tree::{ProcessUsage, TreeUsage};

use crate::record::{ProcessReading, ProcessRecord, Usage, UsageReading};

/// Most readings that are kept; beyond them, every second one is discarded.
const READINGS_MAX: usize = 2000;

/// Most processes that are listed before the controller is ready, and as many again afterwards.
const PROCESSES_MAX: usize = 32;

/// The readings of one run of a controller.
#[derive(Debug)]
pub(super) struct UsageLog {
    readings: Vec<UsageReading>,
    /// Only every so many readings are kept.
    stride: usize,
    taken: usize,
    processes: Vec<ListedProcess>,
    /// Processes that are not listed, as of the last reading.
    not_listed: Vec<ProcessId>,
    /// How many there have been.
    not_listed_count: u32,
    /// By the name of each process that ran when the controller was ready: how many of those that have ended were replaced by others of that name.
    replaced: BTreeMap<String, usize>,
    listed_max: usize,
    /// Resident memory, as last read.
    resident_bytes: u64,
    survived: bool,
}

/// Id and start time.
type ProcessId = (i32, u64);

#[derive(Debug)]
struct ListedProcess {
    id: ProcessId,
    record: ProcessRecord,
    is_running: bool,
    ran_when_ready: bool,
}

impl Default for UsageLog {
    fn default() -> Self {
        Self {
            readings: Vec::new(),
            stride: 1,
            taken: 0,
            processes: Vec::new(),
            not_listed: Vec::new(),
            not_listed_count: 0,
            replaced: BTreeMap::new(),
            listed_max: PROCESSES_MAX,
            resident_bytes: 0,
            survived: true,
        }
    }
}

impl UsageLog {
    /// Adds a reading that was taken `at_s` seconds after the start.
    pub(super) fn add(&mut self, at_s: f64, usage: &TreeUsage) {
        self.survived &= !usage.processes.is_empty();
        self.resident_bytes = usage.resident_bytes();
        let of_each = self.follow(at_s, &usage.processes);
        self.taken += 1;
        if !self.taken.is_multiple_of(self.stride) {
            return;
        }
        self.readings.push(UsageReading {
            at_s,
            cpu_s: usage.cpu_s,
            resident_bytes: self.resident_bytes,
            processes: u32::try_from(usage.processes.len()).unwrap_or(u32::MAX),
            threads: usage.threads(),
            of_each: if self.processes.len() > 1 { of_each } else { Vec::new() },
        });
        if self.readings.len() >= READINGS_MAX {
            let mut index = 0;
            self.readings.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride *= 2;
        }
    }

    /// Brings the list up to date with the processes that run. Returns the reading of each of them that is listed.
    fn follow(&mut self, at_s: f64, running: &[ProcessUsage]) -> Vec<ProcessReading> {
        self.processes.iter_mut().for_each(|process| process.is_running = false);
        let not_listed_before = std::mem::take(&mut self.not_listed);
        let mut readings = Vec::new();
        let mut started = Vec::new();
        for usage in running {
            let known = self.processes.iter().position(|process| process.id == usage.id);
            let was_not_listed = not_listed_before.contains(&usage.id);
            if known.is_none() && !was_not_listed {
                started.push(usage.name.as_str());
                self.not_listed_count = self.not_listed_count.saturating_add(1);
            }
            let index = known.unwrap_or(self.processes.len());
            if known.is_none() && index < self.listed_max {
                self.processes.push(ListedProcess::new(at_s, usage));
                self.not_listed_count = self.not_listed_count.saturating_sub(1);
            }
            let Some(process) = self.processes.get_mut(index) else {
                self.not_listed.push(usage.id);
                continue;
            };
            process.update(at_s, usage);
            readings.push(ProcessReading {
                process: index,
                cpu_s: usage.cpu_s,
                resident_bytes: usage.resident_bytes,
                threads: usage.threads,
            });
        }
        self.count_replacements(&started);
        readings
    }

    /// Counts processes that have `started`, by name, as replacements of those that have ended.
    fn count_replacements(&mut self, started: &[&str]) {
        for (name, replaced) in &mut self.replaced {
            let is_gone = |it: &&ListedProcess| it.has_ended_early() && it.record.name == *name;
            let gone = self.processes.iter().filter(is_gone).count();
            let started = started.iter().filter(|it| *it == name).count();
            *replaced = gone.min(*replaced + started);
        }
    }

    /// Makes room in the list for the processes of a controller that is ready, whatever has run before. To be called before they are read.
    pub(super) fn make_room(&mut self) {
        self.listed_max = 2 * PROCESSES_MAX;
    }

    /// The processes of the last two readings are those of a controller that is ready. One that was in the last reading only may be a copy of its
    /// parent, about to execute something else.
    pub(super) fn mark_ready(&mut self) {
        let seen_twice = |it: &&mut ListedProcess| it.record.first_seen_s < it.record.last_seen_s;
        let running = self.processes.iter_mut().filter(|process| process.is_running);
        for process in running.filter(seen_twice) {
            process.ran_when_ready = true;
            self.replaced.insert(process.record.name.clone(), 0);
        }
    }

    /// Resident memory of all processes, as last read.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// What the controller used, of which the last reading was taken before it was stopped.
    pub(super) fn finish(
        self,
        [start_up, start_up_resolution]: [Duration; 2],
        stopped_in_order: bool,
    ) -> Usage {
        // A script that runs the same program again and again has not lost a part.
        let mut replaced = self.replaced;
        let mut finished = |process: ListedProcess| {
            let is_gone = process.has_ended_early();
            let mut record = process.record;
            match replaced.get_mut(&record.name).filter(|n| **n > 0) {
                Some(n) if is_gone => *n -= 1,
                _ => record.ended_early = is_gone,
            }
            record
        };
        Usage {
            start_up_s: start_up.as_secs_f64(),
            start_up_resolution_s: start_up_resolution.as_secs_f64(),
            survived: self.survived,
            stopped_in_order,
            processes: self.processes.into_iter().map(&mut finished).collect(),
            processes_not_listed: self.not_listed_count,
            readings: self.readings,
        }
    }
}

impl ListedProcess {
    fn new(at_s: f64, usage: &ProcessUsage) -> Self {
        Self {
            id: usage.id,
            record: ProcessRecord {
                pid: usage.id.0,
                name: String::new(),
                first_seen_s: at_s,
                last_seen_s: at_s,
                ended_early: false,
                cpu_s: 0.0,
                peak_resident_bytes: 0,
                peak_threads: 0,
            },
            is_running: true,
            ran_when_ready: false,
        }
    }

    /// Whether it ran when the controller was ready and does not run any more.
    fn has_ended_early(&self) -> bool {
        self.ran_when_ready && !self.is_running
    }

    fn update(&mut self, at_s: f64, usage: &ProcessUsage) {
        self.is_running = true;
        let record = &mut self.record;
        record.last_seen_s = at_s;
        record.name.clone_from(&usage.name);
        record.cpu_s = usage.cpu_s;
        record.peak_resident_bytes = record.peak_resident_bytes.max(usage.resident_bytes);
        record.peak_threads = record.peak_threads.max(usage.threads);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "times that are given")]
mod tests {
    use super::*;

    fn process(pid: i32, cpu_s: f64, resident_bytes: u64) -> ProcessUsage {
        let name = format!("part{pid}");
        ProcessUsage { id: (pid, 1), name, cpu_s, resident_bytes, threads: 2 }
    }

    fn add(log: &mut UsageLog, at_s: f64, processes: Vec<ProcessUsage>) {
        log.add(at_s, &TreeUsage { cpu_s: 0.0, processes });
    }

    fn finish(log: UsageLog) -> Usage {
        log.finish([Duration::from_secs(1), Duration::ZERO], true)
    }

    /// Adds the reading with which the controller is ready.
    fn add_ready(log: &mut UsageLog, at_s: f64, processes: Vec<ProcessUsage>) {
        add(log, at_s, processes);
        log.mark_ready();
    }

    fn ended_early(usage: &Usage) -> Vec<i32> {
        usage.processes.iter().filter(|it| it.ended_early).map(|it| it.pid).collect()
    }

    #[test]
    fn a_process_that_ends_after_the_controller_was_ready_has_ended_early() {
        let mut log = UsageLog::default();
        add(&mut log, 0.0, vec![process(1, 0.0, 10), process(7, 0.0, 10), process(2, 0.0, 9)]);
        add_ready(&mut log, 0.2, vec![process(1, 0.1, 30), process(2, 0.5, 10)]);
        add(&mut log, 0.4, vec![process(1, 0.3, 20)]);
        assert_eq!(log.resident_bytes(), 20);
        // The same id, and another process.
        let other = ProcessUsage { id: (2, 9), ..process(3, 0.0, 10) };
        add(&mut log, 0.6, vec![process(1, 0.4, 20), other]);
        let usage = finish(log);
        assert!(usage.survived && usage.stopped_in_order);
        let pids: Vec<_> = usage.processes.iter().map(|it| it.pid).collect();
        assert_eq!((pids, ended_early(&usage)), (vec![1, 7, 2, 2], vec![2]));
        let first = &usage.processes[0];
        assert_eq!((first.first_seen_s, first.last_seen_s), (0.0, 0.6));
        assert_eq!((first.cpu_s, first.peak_resident_bytes, first.peak_threads), (0.4, 30, 2));
        let of_each = |at: usize| -> Vec<_> {
            usage.readings[at].of_each.iter().map(|it| (it.process, it.resident_bytes)).collect()
        };
        assert_eq!(of_each(1), [(0, 30), (2, 10)]);
        assert_eq!((of_each(2), usage.readings[2].processes), (vec![(0, 20)], 1));
    }

    /// A process of a program that has several.
    fn worker(pid: i32) -> ProcessUsage {
        ProcessUsage { id: (pid, 1), ..process(9, 0.0, 1) }
    }

    #[test]
    fn processes_that_others_of_their_name_have_replaced_have_not_ended_early() {
        let mut log = UsageLog::default();
        log.make_room();
        add(&mut log, 0.0, vec![process(1, 0.0, 1), worker(2)]);
        add_ready(&mut log, 0.2, vec![process(1, 0.0, 1), worker(2)]);
        // A script that sleeps a hundred times, more than are listed, and does something else at the end.
        for n in 0..100 {
            add(&mut log, 0.4, vec![process(1, 0.0, 1), worker(100 + n)]);
        }
        add(&mut log, 0.6, vec![process(1, 0.0, 1), process(3, 0.0, 1)]);
        let usage = finish(log);
        assert_eq!(ended_early(&usage), [0; 0]);
        assert_eq!(usage.processes_not_listed, 100 + 3 - 2 * 32);
    }

    #[test]
    fn of_several_processes_of_a_name_those_that_were_not_replaced_have_ended_early() {
        let mut log = UsageLog::default();
        let four = || (1..=4).map(worker).collect::<Vec<_>>();
        add(&mut log, 0.0, four());
        add_ready(&mut log, 0.2, four());
        add(&mut log, 0.4, vec![worker(1), worker(5)]);
        assert_eq!(ended_early(&finish(log)).len(), 2);
    }

    #[test]
    fn a_process_that_starts_while_all_others_run_replaces_none_of_them() {
        let mut log = UsageLog::default();
        add(&mut log, 0.0, vec![worker(1), process(2, 0.0, 1)]);
        add_ready(&mut log, 0.2, vec![worker(1), process(2, 0.0, 1)]);
        add(&mut log, 0.4, vec![worker(1), process(2, 0.0, 1), worker(3)]);
        add(&mut log, 0.6, vec![process(2, 0.0, 1)]);
        assert_eq!(ended_early(&finish(log)), [1]);
    }

    #[test]
    fn a_process_that_was_read_once_has_not_ended_early() {
        let mut log = UsageLog::default();
        add(&mut log, 0.0, vec![process(1, 0.0, 1)]);
        add_ready(&mut log, 0.2, vec![process(1, 0.0, 1), process(2, 0.0, 1)]);
        add(&mut log, 0.4, vec![process(1, 0.0, 1)]);
        assert_eq!(ended_early(&finish(log)), [0; 0]);
    }

    #[test]
    fn what_runs_before_a_controller_is_ready_leaves_room_for_it_in_the_list() {
        let mut log = UsageLog::default();
        for n in 0..50 {
            add(&mut log, 0.0, vec![process(n, 0.0, 1)]);
        }
        add(&mut log, 0.1, vec![process(1000, 0.0, 1)]);
        log.make_room();
        add(&mut log, 0.15, vec![process(1000, 0.0, 1)]);
        add_ready(&mut log, 0.2, vec![process(1000, 0.0, 1)]);
        add(&mut log, 0.4, vec![process(1000, 0.0, 1)]);
        let usage = finish(log);
        let last = usage.processes.last().map(|it| (it.pid, it.first_seen_s, it.last_seen_s));
        assert_eq!((last, usage.processes_not_listed), (Some((1000, 0.15, 0.4)), 18));
    }

    #[test]
    fn a_controller_without_processes_has_not_survived() {
        let mut log = UsageLog::default();
        add(&mut log, 0.0, vec![process(1, 0.0, 1)]);
        add(&mut log, 0.2, vec![]);
        add(&mut log, 0.4, vec![process(2, 0.0, 1)]);
        assert!(!finish(log).survived);
    }

    #[test]
    fn the_list_of_processes_is_bounded() {
        let mut log = UsageLog::default();
        let all: Vec<_> = (0..80).map(|pid| process(pid, 0.0, 1)).collect();
        log.make_room();
        add(&mut log, 0.0, all.clone());
        add(&mut log, 0.2, all);
        let usage = finish(log);
        assert_eq!((usage.processes.len(), usage.processes_not_listed), (64, 16));
        assert_eq!((usage.readings[1].processes, usage.readings[1].of_each.len()), (80, 64));
    }

    #[test]
    fn of_a_long_run_every_second_reading_is_kept() {
        let mut log = UsageLog::default();
        for at in 0_u32..5000 {
            add(&mut log, f64::from(at), vec![process(1, 0.0, 1)]);
        }
        let usage = finish(log);
        let times: Vec<_> = usage.readings.iter().map(|it| it.at_s).collect();
        assert!(times.len() < READINGS_MAX && times.len() >= READINGS_MAX / 2);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == times[1] - times[0]), "{times:?}");
        assert_eq!(usage.processes[0].last_seen_s, 4999.0);
    }
}
