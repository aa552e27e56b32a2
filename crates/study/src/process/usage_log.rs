//! What the processes of a controller use, over time.

use std::time::Duration;

use sluice_io::process_tree::{ProcessUsage, TreeUsage};

use crate::record::{ProcessReading, ProcessRecord, Usage, UsageReading};

/// Most readings that are kept; beyond them, every second one is discarded.
const READINGS_MAX: usize = 2000;

/// Most processes that are listed.
const PROCESSES_MAX: usize = 32;

/// The readings of one run of a controller.
#[derive(Debug)]
pub(super) struct UsageLog {
    readings: Vec<UsageReading>,
    /// Only every so many readings are kept.
    stride: usize,
    taken: usize,
    processes: Vec<ListedProcess>,
    /// Further processes: by id and start time, as they were in the last reading, and how many there have been.
    not_listed: (Vec<(i32, u64)>, u32),
    /// Resident memory, as last read.
    resident_bytes: u64,
    survived: bool,
}

#[derive(Debug)]
struct ListedProcess {
    id: (i32, u64),
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
            not_listed: (Vec::new(), 0),
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
            of_each: if usage.processes.len() > 1 { of_each } else { Vec::new() },
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
        let mut not_listed = Vec::new();
        let mut readings = Vec::new();
        for usage in running {
            let known = self.processes.iter().position(|process| process.id == usage.id);
            let index = known.unwrap_or(self.processes.len());
            if known.is_none() && index < PROCESSES_MAX {
                self.processes.push(ListedProcess::new(at_s, usage));
            }
            let Some(process) = self.processes.get_mut(index) else {
                not_listed.push(usage.id);
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
        let (before, count) = &mut self.not_listed;
        let new = not_listed.iter().filter(|id| !before.contains(id)).count();
        *count = count.saturating_add(u32::try_from(new).unwrap_or(u32::MAX));
        *before = not_listed;
        readings
    }

    /// The processes of the last reading are those of a controller that is ready.
    pub(super) fn is_ready(&mut self) {
        for process in &mut self.processes {
            process.ran_when_ready = process.is_running;
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
        let later = self.processes.iter().filter(|it| it.is_running && !it.ran_when_ready);
        let replacements: Vec<_> = later.map(|it| it.record.name.clone()).collect();
        let finished = |process: ListedProcess| ProcessRecord {
            ended_early: process.ran_when_ready
                && !process.is_running
                && !replacements.contains(&process.record.name),
            ..process.record
        };
        Usage {
            start_up_s: start_up.as_secs_f64(),
            start_up_resolution_s: start_up_resolution.as_secs_f64(),
            survived: self.survived,
            stopped_in_order,
            processes: self.processes.into_iter().map(finished).collect(),
            processes_not_listed: self.not_listed.1,
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

    #[test]
    fn a_process_that_ends_after_the_controller_was_ready_has_ended_early() {
        let mut log = UsageLog::default();
        add(&mut log, 0.0, vec![process(1, 0.0, 10), process(7, 0.0, 10)]);
        add(&mut log, 0.2, vec![process(1, 0.1, 30), process(2, 0.5, 10)]);
        log.is_ready();
        add(&mut log, 0.4, vec![process(1, 0.3, 20)]);
        assert_eq!(log.resident_bytes(), 20);
        // The same id, and another process.
        let other = ProcessUsage { id: (2, 9), ..process(3, 0.0, 10) };
        add(&mut log, 0.6, vec![process(1, 0.4, 20), other]);
        let usage = finish(log);
        assert!(usage.survived && usage.stopped_in_order);
        let ended: Vec<_> = usage.processes.iter().map(|it| (it.pid, it.ended_early)).collect();
        assert_eq!(ended, [(1, false), (7, false), (2, true), (2, false)]);
        let first = &usage.processes[0];
        assert_eq!((first.first_seen_s, first.last_seen_s), (0.0, 0.6));
        assert_eq!((first.cpu_s, first.peak_resident_bytes, first.peak_threads), (0.4, 30, 2));
        let of_each = |at: usize| -> Vec<_> {
            usage.readings[at].of_each.iter().map(|it| (it.process, it.resident_bytes)).collect()
        };
        assert_eq!(of_each(1), [(0, 30), (2, 10)]);
        // With one process, the totals are its own.
        assert_eq!((of_each(2), usage.readings[2].processes), (vec![], 1));
    }

    #[test]
    fn a_process_that_another_one_of_its_name_has_replaced_has_not_ended_early() {
        let mut log = UsageLog::default();
        let sleep = |pid| ProcessUsage { id: (pid, 1), ..process(9, 0.0, 1) };
        add(&mut log, 0.0, vec![process(1, 0.0, 1), sleep(2)]);
        log.is_ready();
        add(&mut log, 0.2, vec![process(1, 0.0, 1), sleep(3)]);
        let ended = finish(log).processes.iter().filter(|it| it.ended_early).count();
        assert_eq!(ended, 0);
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
        let all: Vec<_> = (0..40).map(|pid| process(pid, 0.0, 1)).collect();
        add(&mut log, 0.0, all.clone());
        add(&mut log, 0.2, all);
        let usage = finish(log);
        assert_eq!((usage.processes.len(), usage.processes_not_listed), (PROCESSES_MAX, 8));
        assert_eq!(usage.readings[1].processes, 40);
        assert_eq!(usage.readings[1].of_each.len(), PROCESSES_MAX);
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
