//! What each process of a controller used, over all samples.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_base::sort_by;

use crate::record::{ProcessRecord, Sample};

/// The processes of a controller that have the same name.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct ProcessGroup<'s> {
    pub(crate) name: &'s str,
    /// Samples in which there was such a process.
    pub(crate) samples: usize,
    /// Largest number of them that ran at the same time.
    pub(crate) most: usize,
    /// Processor time of all of them in all samples, in seconds.
    pub(crate) cpu_s: f64,
    /// Largest resident memory of one of them, in bytes.
    pub(crate) peak_resident_bytes: u64,
    /// Largest number of threads of one of them.
    pub(crate) peak_threads: u32,
    /// Samples in which one of them ended before the controller was stopped.
    pub(crate) samples_ended_early: usize,
}

/// The processes of a controller by name; first those that used most processor time. Those that ended before it was ready are left out.
pub(crate) fn of_controller<'s>(samples: &'s [Sample], controller: &str) -> Vec<ProcessGroup<'s>> {
    let mut groups = BTreeMap::<&str, ProcessGroup<'_>>::new();
    for sample in samples.iter().filter(|sample| sample.controller == controller) {
        let Some(usage) = &sample.usage else { continue };
        let mut by_name = BTreeMap::<&str, Vec<&ProcessRecord>>::new();
        for process in usage.processes.iter().filter(|it| it.last_seen_s >= usage.start_up_s) {
            by_name.entry(&process.name).or_default().push(process);
        }
        for (name, processes) in by_name {
            groups.entry(name).or_default().add(name, &processes);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    sort_by(&mut groups, |a, b| b.cpu_s.total_cmp(&a.cpu_s));
    groups
}

impl<'s> ProcessGroup<'s> {
    /// Adds all processes of its `name` in one sample.
    fn add(&mut self, name: &'s str, all: &[&ProcessRecord]) {
        self.name = name;
        self.samples += 1;
        let ran_at = |at_s| {
            all.iter().filter(|it| (it.first_seen_s..=it.last_seen_s).contains(&at_s)).count()
        };
        self.most =
            self.most.max(all.iter().map(|it| ran_at(it.first_seen_s)).max().unwrap_or_default());
        self.samples_ended_early += usize::from(all.iter().any(|it| it.ended_early));
        for process in all {
            self.cpu_s += process.cpu_s;
            self.peak_resident_bytes = self.peak_resident_bytes.max(process.peak_resident_bytes);
            self.peak_threads = self.peak_threads.max(process.peak_threads);
        }
    }
}
