//! Facts about a process and the CPU time of its threads, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Unit of CPU times in `/proc/PID/stat` (`USER_HZ` is 100).
const TICK: Duration = Duration::from_millis(10);

/// A controller that is a process of this machine. What could not be found out is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ControllerProcess {
    /// Process id.
    pub pid: u32,
    /// Its command line, as words.
    pub command_line: Vec<String>,
    /// Its executable file.
    pub executable: Option<String>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// CPU cores on which it may run, such as `0-3,8`.
    pub allowed_cpus: Option<String>,
    /// Resident memory before the switches connected and after the last loop, bytes.
    pub resident_bytes: [Option<u64>; 2],
    /// Use of CPU time in the measured loops.
    pub cpu: Option<CpuUse>,
}

/// Use of CPU time by a process, as shares of the elapsed time.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUse {
    /// Of all threads together; 2 is two cores.
    pub process: f64,
    /// Of the busiest thread, 0 to 1.
    pub busiest_thread: f64,
    /// Name of the busiest thread.
    pub busiest_thread_name: String,
    /// Share of the time that the busiest thread was ready to run and waited for a CPU core.
    pub busiest_thread_delayed: Option<f64>,
}

impl ControllerProcess {
    /// Reads the facts about process `pid`.
    pub(super) fn read(pid: u32) -> Self {
        let status = read(pid, "status").unwrap_or_default();
        let executable = fs::read_link(path(pid, "exe")).ok();
        Self {
            pid,
            command_line: command_line(&pid.to_string()),
            executable: executable.map(|path| path.to_string_lossy().into_owned()),
            threads: status_value(&status, "Threads").and_then(|n| n.parse().ok()),
            allowed_cpus: status_value(&status, "Cpus_allowed_list").map(str::to_owned),
            resident_bytes: [resident_bytes(&status), None],
            cpu: None,
        }
    }

    /// Reads its resident memory and number of threads after the last loop.
    pub(super) fn update(&mut self) {
        let Some(status) = read(self.pid, "status") else { return };
        self.resident_bytes = [self.resident_bytes[0], resident_bytes(&status)];
        self.threads = status_value(&status, "Threads").and_then(|n| n.parse().ok());
    }
}

/// The command line of a process, as words; `process` is its id or `self`.
pub(super) fn command_line(process: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words: Vec<_> = bytes.split(|&byte| byte == 0).collect();
    // Each word ends with a null byte.
    words.pop_if(|last| last.is_empty());
    words.into_iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

fn read(pid: u32, file: &str) -> Option<String> {
    // The name of a thread may be any bytes.
    Some(String::from_utf8_lossy(&fs::read(path(pid, file)).ok()?).into_owned())
}

/// The value of a line `key: value` of `/proc/PID/status`.
fn status_value<'t>(status: &'t str, key: &str) -> Option<&'t str> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim())
}

fn resident_bytes(status: &str) -> Option<u64> {
    let kib: u64 = status_value(status, "VmRSS")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// CPU times of a process and its threads since their start.
#[derive(Debug, Clone)]
pub(super) struct ProcessSample {
    at: Instant,
    cpu: Duration,
    /// By thread id.
    threads: BTreeMap<u32, ThreadSample>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ThreadSample {
    name: String,
    cpu: Duration,
    /// Time that it was ready to run and waited for a CPU core.
    delayed: Option<Duration>,
}

impl ProcessSample {
    /// Reads the CPU times of process `pid`; `None` if it has ended or belongs to another user.
    pub(super) fn read(pid: u32, now: Instant) -> Option<Self> {
        let (_, cpu) = parse_stat(&read(pid, "stat")?)?;
        let tasks = fs::read_dir(path(pid, "task")).ok()?.flatten();
        let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        let threads = ids.filter_map(|id| Some((id, ThreadSample::read(pid, id)?))).collect();
        Some(Self { at: now, cpu, threads })
    }

    /// The CPU time used between `before` and `self`.
    pub(super) fn since(&self, before: &Self) -> Option<CpuUse> {
        let elapsed = self.at.checked_duration_since(before.at).filter(|time| !time.is_zero())?;
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
        // Without threads that have ended, but not in ticks.
        let of_threads = self.threads_since(before).map(|(_, cpu, _)| cpu).sum();
        let (busiest, cpu, delayed) = self.threads_since(before).max_by_key(|&(_, cpu, _)| cpu)?;
        Some(CpuUse {
            process: share(self.cpu.saturating_sub(before.cpu).max(of_threads)),
            busiest_thread: share(cpu).min(1.0),
            busiest_thread_name: busiest.to_owned(),
            busiest_thread_delayed: delayed.map(|time| share(time).min(1.0)),
        })
    }

    /// The share of the time between `before` and `self` that the thread `name` waited for a CPU core.
    pub(super) fn delayed_since(&self, before: &Self, name: &str) -> Option<f64> {
        let elapsed = self.at.checked_duration_since(before.at).filter(|time| !time.is_zero())?;
        let (_, _, delayed) = self.threads_since(before).find(|&(other, _, _)| other == name)?;
        Some((delayed?.as_secs_f64() / elapsed.as_secs_f64()).min(1.0))
    }

    /// Name, CPU time and delay of each thread between `before` and `self`.
    fn threads_since<'s>(
        &'s self,
        before: &'s Self,
    ) -> impl Iterator<Item = (&'s str, Duration, Option<Duration>)> {
        self.threads.iter().map(|(id, after)| {
            let before = before.threads.get(id);
            let cpu = after.cpu.saturating_sub(before.map(|it| it.cpu).unwrap_or_default());
            let delayed_before = before.and_then(|it| it.delayed).unwrap_or_default();
            let delayed = after.delayed.map(|delayed| delayed.saturating_sub(delayed_before));
            (after.name.as_str(), cpu, delayed)
        })
    }
}

impl ThreadSample {
    fn read(pid: u32, thread: u32) -> Option<Self> {
        let (name, ticks) = parse_stat(&read(pid, &format!("task/{thread}/stat"))?)?;
        // More accurate, but not part of every kernel.
        let times = read(pid, &format!("task/{thread}/schedstat"));
        let times = times.and_then(|text| parse_schedstat(&text));
        let (cpu, delayed) = times.map_or((ticks, None), |(cpu, delayed)| (cpu, Some(delayed)));
        Some(Self { name, cpu, delayed })
    }
}

/// Name and CPU time in the text of `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
fn parse_stat(stat: &str) -> Option<(String, Duration)> {
    // The name is in parentheses and may contain any character.
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    // From field 3, the state, on: utime and stime are fields 14 and 15.
    let mut times = rest.split_whitespace().skip(11).map(str::parse::<u32>);
    let ticks = times.next()?.ok()?.checked_add(times.next()?.ok()?)?;
    Some((name.to_owned(), TICK * ticks))
}

/// Time on a CPU core and time waiting for one, in the text of `/proc/PID/task/TID/schedstat`.
fn parse_schedstat(text: &str) -> Option<(Duration, Duration)> {
    let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
    Some((times.next()?.ok()?, times.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use sluice_io::clock;

    use super::*;

    const STAT: &str =
        "12 (wor) ker) S 1 2 3 0 -1 4 5 6 7 8 150 50 1 2 20 0 4 0 99 1 2 18446744073709551615";

    #[test]
    fn cpu_times_are_read_from_the_files_of_the_kernel() {
        assert_eq!(parse_stat(STAT), Some(("wor) ker".to_owned(), Duration::from_secs(2))));
        let times = (Duration::from_micros(1500), Duration::from_nanos(7));
        assert_eq!(parse_schedstat("1500000 7 3\n"), Some(times));
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t5\nCpus_allowed_list:\t0-1\n";
        assert_eq!(resident_bytes(status), Some(2 << 20));
        assert_eq!(status_value(status, "Cpus_allowed_list"), Some("0-1"));
    }

    #[test]
    fn malformed_files_give_nothing() {
        for text in ["", "()", ")(", "1 (x) S 1 2", "1 (x) S 1 2 3 0 -1 4 5 6 7 8 a b"] {
            assert_eq!(parse_stat(text), None, "{text}");
        }
        for text in ["", "1", "a b", "-1 2"] {
            assert_eq!(parse_schedstat(text), None, "{text}");
        }
        assert_eq!(resident_bytes("VmRSS: 99999999999999999999 kB"), None);
        assert_eq!(command_line("no process"), Vec::<String>::new());
    }

    /// A sample after `ms` of threads with a name, CPU time and delay in milliseconds.
    fn sample(start: Instant, ms: u64, threads: &[(u32, &str, u64, u64)]) -> ProcessSample {
        let time = Duration::from_millis;
        let threads: BTreeMap<_, _> = threads
            .iter()
            .map(|&(id, name, cpu, delayed)| {
                let delayed = Some(time(delayed));
                (id, ThreadSample { name: name.to_owned(), cpu: time(cpu), delayed })
            })
            .collect();
        let cpu = threads.values().map(|thread| thread.cpu).sum();
        ProcessSample { at: start + time(ms), cpu, threads }
    }

    #[test]
    fn the_busiest_thread_is_that_of_the_time_between_two_samples() {
        let start = clock::now();
        let before = sample(start, 0, &[(1, "main", 9000, 0), (2, "worker", 100, 10)]);
        let threads = [(1, "main", 9010, 0), (2, "worker", 600, 110), (3, "new", 300, 0)];
        let after = sample(start, 1000, &threads);
        let cpu = after.since(&before).unwrap();
        assert_eq!(cpu.busiest_thread_name, "worker");
        assert!((cpu.busiest_thread - 0.5).abs() < 1e-9 && (cpu.process - 0.81).abs() < 1e-9);
        assert!((cpu.busiest_thread_delayed.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(after.delayed_since(&before, "worker"), cpu.busiest_thread_delayed);
        assert_eq!(before.since(&before), None, "no time has passed");
    }

    #[test]
    fn this_process_can_be_inspected() {
        let pid = std::process::id();
        let process = ControllerProcess::read(pid);
        assert!(!process.command_line.is_empty() && process.executable.is_some());
        assert!(process.threads > Some(0) && process.resident_bytes[0] > Some(0));
        assert!(ProcessSample::read(pid, clock::now()).is_some_and(|it| !it.threads.is_empty()));
        assert!(ProcessSample::read(u32::MAX, clock::now()).is_none());
    }
}
