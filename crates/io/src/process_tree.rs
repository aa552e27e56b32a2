//! A program that runs in the background, with all processes that it starts.
//!
//! Programs that are started by scripts fork, move into sessions of their own or outlive their parent. Whatever descends from the program
//! is found nevertheless: this process adopts orphans (`PR_SET_CHILD_SUBREAPER`), and an environment variable marks them. An orphan that has
//! cleared its environment is recognised by its session, which is not that of this process; if several trees run, each of them claims it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_child_subreaper, set_parent_process_death_signal,
    waitpid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock;

/// Environment variable that all processes of a tree inherit. Its value names this process and the tree.
const MARK: &str = "SLUICE_PROCESS_TREE";

/// Interval at which processes are checked for their end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time for processes to end after `SIGKILL`.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Trees started by this process.
static TREES: AtomicU64 = AtomicU64::new(0);

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub environment: BTreeMap<String, String>,
    /// Folder in which it runs.
    pub directory: PathBuf,
    /// File to which standard output and standard error are appended.
    pub log: PathBuf,
    /// Cores on which it may run; empty for all.
    pub cores: Vec<usize>,
}

/// A running program and its descendants. All of them get `SIGKILL` when this is dropped.
#[derive(Debug)]
pub struct ProcessTree {
    root: Child,
    status: Option<ExitStatus>,
    mark: String,
    /// Processor time of each process that was there when they were last listed, by id and start time; also of zombies.
    members: BTreeMap<(i32, u64), Duration>,
    /// That of processes that are gone.
    ended_cpu_time: Duration,
}

/// What the processes of a tree use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TreeUsage {
    /// Processor time since the start, in seconds; of processes that have ended, as last read.
    pub cpu_s: f64,
    /// Processes that run, by id.
    pub processes: Vec<ProcessUsage>,
}

impl TreeUsage {
    /// Resident memory of the processes that run, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.resident_bytes).sum()
    }

    /// Threads of the processes that run.
    pub fn threads(&self) -> u32 {
        self.processes.iter().map(|process| process.threads).sum()
    }
}

/// What a process uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUsage {
    /// Its id and, since ids are used again, its start time in the units of `/proc/PID/stat`.
    pub id: (i32, u64),
    /// Name of its program, or what it calls itself: 15 bytes at most.
    pub name: String,
    /// Processor time since its start, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of its threads.
    pub threads: u32,
}

/// How a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEnd {
    /// All processes ended within the time that was given.
    InOrder,
    /// Some had to be killed.
    Killed,
}

impl ProcessTree {
    /// Starts `program`. The kernel kills it if the calling thread ends first, for example because this process was killed; its descendants are left to
    /// [`kill_orphans`] then.
    ///
    /// # Errors
    /// `NotFound` if there is no such program or folder; others of starting it; `InvalidInput` for cores that do not exist.
    pub fn start(program: &Program) -> io::Result<Self> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let mark = format!("{}-{}", identity(), TREES.fetch_add(1, Ordering::Relaxed));
        let log = fs::File::options().create(true).append(true).open(&program.log)?;
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).envs(&program.environment).env(MARK, &mark);
        command.current_dir(&program.directory).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).process_group(0);
        end_with_this_thread(&mut command);
        let root = on_cores(&program.cores, || command.spawn())?;
        Ok(Self {
            root,
            status: None,
            mark,
            members: BTreeMap::new(),
            ended_cpu_time: Duration::ZERO,
        })
    }

    /// The environment variable, with its value, by which all processes are part of the tree that a later command starts in the background.
    pub fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }

    /// Process id of the program itself.
    pub fn id(&self) -> u32 {
        self.root.id()
    }

    /// How the program itself has ended, if it has. Its descendants may still run, as those of a script that starts a service.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.root.try_wait().ok().flatten();
        }
        self.status
    }

    /// Whether any of its processes runs.
    pub fn is_running(&mut self) -> bool {
        !self.usage().processes.is_empty()
    }

    /// What its processes use now.
    pub fn usage(&mut self) -> TreeUsage {
        let mut usage = TreeUsage::default();
        let mut zombies = Vec::new();
        let found = self.find();
        let mut before = std::mem::take(&mut self.members);
        for process in found {
            let id = (process.pid, process.start);
            // A zombie has its processor time until somebody has waited for it.
            let last_read = before.remove(&id).unwrap_or_default();
            let cpu_time = cpu_time(process.pid).unwrap_or(last_read);
            self.members.insert(id, cpu_time);
            if process.is_zombie {
                zombies.push(process);
                continue;
            }
            usage.processes.push(ProcessUsage {
                id,
                name: process.name,
                cpu_s: cpu_time.as_secs_f64(),
                resident_bytes: process.resident_bytes,
                threads: process.threads,
            });
        }
        for (id, cpu_time) in before {
            if is_gone(id) {
                self.ended_cpu_time += cpu_time;
            } else {
                self.members.insert(id, cpu_time);
            }
        }
        self.reap(&zombies);
        let cpu_time = self.ended_cpu_time + self.members.values().sum::<Duration>();
        usage.cpu_s = cpu_time.as_secs_f64();
        usage
    }

    /// Processor time, in seconds, of its processes for which nobody has waited yet, and of the children for which these have waited. That of all others is
    /// part of the time of this process's children (`RUSAGE_CHILDREN`): the sum of both rises by what the tree uses, also when a process ends.
    pub fn unreaped_cpu_s(&mut self) -> f64 {
        self.usage();
        let mut sum = Duration::ZERO;
        for (&(pid, start), &last_read) in &self.members {
            if let Some(process) = process(&pid.to_string()).filter(|it| it.start == start) {
                sum += cpu_time(pid).unwrap_or(last_read) + process.children_cpu_time;
            }
        }
        sum.as_secs_f64()
    }

    /// Waits for processes that have ended: the program itself, and orphans that this process has adopted, for which nobody else waits.
    fn reap(&mut self, zombies: &[Process]) {
        let root = i32::try_from(self.root.id()).unwrap_or_default();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for zombie in zombies.iter().filter(|it| it.parent == own) {
            if zombie.pid == root {
                self.exit_status();
            } else {
                let _ = waitpid(Pid::from_raw(zombie.pid), WaitOptions::NOHANG);
            }
        }
    }

    /// Ends all processes: by `signal`, and by `SIGKILL` those that are left after `grace`.
    pub fn stop(&mut self, signal: StopSignal, grace: Duration) -> TreeEnd {
        let signal = match signal {
            StopSignal::Term => Signal::TERM,
            StopSignal::Int => Signal::INT,
        };
        self.signal(signal);
        if self.wait(grace) {
            return TreeEnd::InOrder;
        }
        self.kill();
        TreeEnd::Killed
    }

    fn kill(&mut self) {
        let deadline = clock::now() + KILL_TIMEOUT;
        // Repeatedly, since a process may have forked meanwhile.
        while clock::now() < deadline {
            self.signal(Signal::KILL);
            if self.wait(POLL_INTERVAL * 4) {
                break;
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        for ProcessUsage { id: (pid, _), .. } in self.usage().processes {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended since.
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Waits until no process is left; `false` if one is after `time`.
    fn wait(&mut self, time: Duration) -> bool {
        let deadline = clock::now() + time;
        while self.is_running() {
            if clock::now() >= deadline {
                return false;
            }
            clock::sleep(POLL_INTERVAL);
        }
        true
    }

    /// All processes of the tree, those included that have ended and that nobody has waited for.
    fn find(&self) -> Vec<Process> {
        let all = processes();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let own_session = all.get(&own).map_or(own, |process| process.session);
        let root = i32::try_from(self.root.id()).unwrap_or_default();
        let is_known = |process: &Process| self.members.contains_key(&(process.pid, process.start));
        // Once its last process is gone, the number of the group may be that of another one.
        let has_group = self.status.is_none()
            || all.values().any(|process| process.group == root && is_known(process));
        let mut is_member: BTreeMap<i32, bool> = all
            .iter()
            .map(|(&pid, process)| {
                let is_orphan = process.parent == own
                    && pid != root
                    && match mark_of(pid) {
                        Some(mark) => mark == self.mark,
                        None => process.session != own_session,
                    };
                let is_root = pid == root && self.status.is_none();
                let is_in_group = has_group && process.group == root;
                (pid, is_root || is_known(process) || is_in_group || is_orphan)
            })
            .collect();
        // Descendants of members, however deep.
        loop {
            let parent_is = |process: &Process| is_member.get(&process.parent) == Some(&true);
            let more: Vec<_> = all
                .iter()
                .filter(|(pid, process)| is_member.get(pid) == Some(&false) && parent_is(process))
                .map(|(&pid, _)| pid)
                .collect();
            if more.is_empty() {
                break;
            }
            is_member.extend(more.into_iter().map(|pid| (pid, true)));
        }
        all.into_values().filter(|it| is_member.get(&it.pid) == Some(&true)).collect()
    }
}

/// The tree that a process was started in, by its environment.
fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|&byte| byte == 0);
    let mark = variables.find_map(|it| it.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(mark).into_owned())
}

/// Names this process: its id and, since ids are used again, its start time.
pub fn identity() -> &'static str {
    static IDENTITY: LazyLock<String> = LazyLock::new(|| {
        let start = process("self").map_or(0, |process| process.start);
        format!("{}-{start}", process::id())
    });
    &IDENTITY
}

/// Kills what is left of the trees of a process, named by its [`identity`], that has ended without stopping them. Does nothing while that process runs,
/// or if `holder` is no identity.
pub fn kill_orphans(holder: &str) {
    let numbers = holder.split_once('-');
    let Some((Ok(pid), Ok(start))) =
        numbers.map(|(pid, start)| (pid.parse::<i32>(), start.parse::<u64>()))
    else {
        return;
    };
    let trees = format!("{holder}-");
    let own_namespace = pid_namespace("self");
    let is_orphan = |process: &Process| {
        // In another namespace, the id may be that of another process.
        mark_of(process.pid).is_some_and(|mark| mark.starts_with(&trees))
            && pid_namespace(&process.pid.to_string()) == own_namespace
    };
    // A process that ends loses its mark before it has ended.
    let mut killed = BTreeSet::<(i32, u64)>::new();
    let deadline = clock::now() + KILL_TIMEOUT;
    // Repeatedly, since a process may have forked meanwhile.
    while clock::now() < deadline {
        let all = processes();
        if all.get(&pid).is_some_and(|it| it.start == start && !it.is_zombie) {
            return;
        }
        let running = all.values().filter(|it| !it.is_zombie);
        let is_left = |&it: &&Process| killed.contains(&(it.pid, it.start)) || is_orphan(it);
        let orphans: Vec<_> = running.filter(is_left).collect();
        if orphans.is_empty() {
            return;
        }
        for orphan in orphans {
            killed.insert((orphan.pid, orphan.start));
            if let Some(pid) = Pid::from_raw(orphan.pid) {
                // It may have ended since.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        clock::sleep(POLL_INTERVAL);
    }
}

/// The namespace in which the id of a process is valid.
fn pid_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.kill();
        // So that it leaves no zombie.
        let _ = self.root.try_wait();
    }
}

/// The signal that asks processes to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGTERM`.
    Term,
    /// `SIGINT`.
    Int,
}

/// Makes the kernel kill a program if the thread that starts it ends.
#[expect(unsafe_code, reason = "the program has to ask for it itself, before it is executed")]
fn end_with_this_thread(command: &mut Command) {
    let ask = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: `ask` makes one system call. It neither allocates nor takes a lock, and uses no file descriptor.
    unsafe { command.pre_exec(ask) };
}

/// Calls `start` while the calling thread may run on `cores` only, which a process inherits that it starts.
fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return start();
    }
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(core);
    }
    sched_setaffinity(None, &set)?;
    let result = start();
    sched_setaffinity(None, &before)?;
    result
}

/// A process, from `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: i32,
    name: String,
    is_zombie: bool,
    parent: i32,
    group: i32,
    session: i32,
    threads: u32,
    start: u64,
    resident_bytes: u64,
    /// Of its children for which it has waited.
    children_cpu_time: Duration,
}

/// All processes of the machine that can be read, by id.
fn processes() -> BTreeMap<i32, Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let read = |folder: fs::DirEntry| process(folder.file_name().to_str().filter(|it| is_id(it))?);
    folders.filter_map(read).map(|it| (it.pid, it)).collect()
}

/// Whether a process does not exist any more, also as a zombie. If it cannot be read, for lack of file descriptors, it may exist.
fn is_gone((pid, start): (i32, u64)) -> bool {
    match process(&pid.to_string()) {
        Some(process) => process.start != start,
        None => !Path::new(&format!("/proc/{pid}")).exists(),
    }
}

/// A process by its id, or this one as `self`.
fn process(id: &str) -> Option<Process> {
    let text = fs::read(format!("/proc/{id}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// Processor time that a process has used, also in threads that have ended. `/proc/PID/stat` has it in units of 10 ms only.
#[expect(unsafe_code, reason = "rustix has no clocks of other processes")]
fn cpu_time(pid: i32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to the variable that they get, and nothing else.
    let results = unsafe {
        [libc::clock_getcpuclockid(pid, &raw mut clock), libc::clock_gettime(clock, &raw mut time)]
    };
    let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(u64::try_from);
    (results == [0, 0])
        .then_some(Duration::from_secs(seconds.ok()?) + Duration::from_nanos(nanoseconds.ok()?))
}

/// Parses `/proc/PID/stat` (proc(5)).
fn parse_stat(text: &str) -> Option<Process> {
    // The name of the program is in parentheses, and may contain any of them.
    let (before, after) = text.rsplit_once(')')?;
    let (pid, name) = before.split_once(" (")?;
    let fields: Vec<_> = after.split_whitespace().collect();
    // `after` begins with field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let threads = field(20)?.parse().ok()?;
    let children_ms = number(16)?.checked_add(number(17)?)?.checked_mul(1000)?;
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        // The first thread of a process may end before the others.
        is_zombie: matches!(field(3)?, "Z" | "X") && threads <= 1,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        threads,
        start: number(22)?,
        resident_bytes: number(24)?.checked_mul(page_size() as u64)?,
        children_cpu_time: Duration::from_millis(
            children_ms.checked_div(clock_ticks_per_second())?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::thread;

    use super::*;

    /// Held by each test that starts processes, since an orphan without the mark belongs to every tree of this process.
    static TREES_OF_A_TEST: Mutex<()> = Mutex::new(());

    fn one_test_at_a_time() -> MutexGuard<'static, ()> {
        TREES_OF_A_TEST.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(script: &str) -> ProcessTree {
        let program = Program {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            environment: BTreeMap::new(),
            directory: "/".into(),
            log: "/dev/null".into(),
            cores: Vec::new(),
        };
        ProcessTree::start(&program).unwrap()
    }

    /// Waits until the tree has this many processes.
    fn wait_for(tree: &mut ProcessTree, processes: usize) {
        let deadline = clock::now() + Duration::from_secs(60);
        while tree.usage().processes.len() != processes {
            assert!(clock::now() < deadline, "{:?}", tree.usage());
            clock::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the program itself has ended, and returns its exit code.
    fn exit_code(tree: &mut ProcessTree) -> Option<i32> {
        let deadline = clock::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = tree.exit_status() {
                return status.code();
            }
            assert!(clock::now() < deadline, "{:?}", tree.usage());
            clock::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_program_ends_at_the_signal() {
        let _guard = one_test_at_a_time();
        let mut tree = start("exec sleep 600");
        wait_for(&mut tree, 1);
        assert_eq!(tree.stop(StopSignal::Term, Duration::from_secs(60)), TreeEnd::InOrder);
        assert!(!tree.is_running());
    }

    #[test]
    fn a_program_that_ignores_signals_is_killed() {
        let _guard = one_test_at_a_time();
        let mut tree = start("trap '' TERM INT; while :; do sleep 0.01; done");
        wait_for(&mut tree, 2);
        assert_eq!(tree.stop(StopSignal::Int, Duration::from_millis(100)), TreeEnd::Killed);
        assert!(!tree.is_running());
    }

    #[test]
    fn processes_that_outlive_their_parents_and_leave_the_session_are_part_of_the_tree() {
        let _guard = one_test_at_a_time();
        let mut tree = start("setsid sh -c 'setsid sleep 600 & exec sleep 600' & exit 3");
        assert_eq!(exit_code(&mut tree), Some(3));
        wait_for(&mut tree, 2);
        let mut other = start("exec sleep 600");
        wait_for(&mut other, 1);
        assert_eq!(tree.stop(StopSignal::Term, Duration::from_secs(60)), TreeEnd::InOrder);
        assert!(other.is_running());
    }

    #[test]
    fn a_daemon_that_has_cleared_its_environment_is_part_of_the_tree() {
        let _guard = one_test_at_a_time();
        let is_daemon = "[ \"$(cat /proc/$!/comm)\" = sleep ]";
        let mut tree = start(&format!(
            "env -i setsid sleep 600 & until {is_daemon}; do sleep 0.01; done; exit 0"
        ));
        assert_eq!(exit_code(&mut tree), Some(0));
        wait_for(&mut tree, 1);
        assert_eq!(tree.stop(StopSignal::Term, Duration::from_secs(60)), TreeEnd::InOrder);
        assert!(!tree.is_running());
    }

    #[test]
    fn the_processor_time_of_processes_that_have_ended_counts() {
        let _guard = one_test_at_a_time();
        let mut tree = start("sh -c 'ulimit -t 1; while :; do :; done'; exec sleep 600");
        let deadline = clock::now() + Duration::from_secs(60);
        loop {
            let usage = tree.usage();
            if let [process] = &usage.processes[..]
                && process.name == "sleep"
            {
                assert_eq!(process.threads, 1);
                assert!(usage.resident_bytes() > 0 && process.cpu_s < 0.5, "{usage:?}");
                // The other process had a second, in ticks of the clock, and its last milliseconds are perhaps not read.
                assert!(usage.cpu_s > 0.5, "{usage:?}");
                // Its parent has waited for it, and runs.
                assert!(tree.unreaped_cpu_s() > 0.5);
                break;
            }
            assert!(clock::now() < deadline, "{usage:?}");
            clock::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn the_processor_time_of_a_zombie_counts_before_and_after_it_was_waited_for() {
        let _guard = one_test_at_a_time();
        let mut tree = start("n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done");
        let pid = i32::try_from(tree.id()).unwrap();
        while !process(&pid.to_string()).unwrap().is_zombie {
            clock::sleep(POLL_INTERVAL);
        }
        let used = cpu_time(pid).unwrap();
        assert!(!used.is_zero());
        for _ in 0..3 {
            assert_eq!(tree.usage(), TreeUsage { cpu_s: used.as_secs_f64(), processes: vec![] });
            // It is that of a child of this process now.
            assert!(tree.unreaped_cpu_s() <= 0.0);
        }
        assert!(process(&pid.to_string()).is_none() && tree.exit_status().is_some());
    }

    #[test]
    fn processor_time_is_that_of_all_threads_of_a_process() {
        let before = cpu_time(process::id().cast_signed()).unwrap();
        let busy = || {
            let mut n = 0_u64;
            while clock::thread_cpu() < Duration::from_millis(3) {
                n = std::hint::black_box(n + 1);
            }
        };
        thread::spawn(busy).join().unwrap();
        // The thread has ended.
        assert!(
            cpu_time(process::id().cast_signed()).unwrap() >= before + Duration::from_millis(3)
        );
        // No process has this id, which is greater than `PID_MAX_LIMIT`.
        assert_eq!(cpu_time((1 << 22) + 1), None);
    }

    #[test]
    fn a_program_is_killed_if_the_thread_that_has_started_it_ends() {
        let _guard = one_test_at_a_time();
        let mut tree = thread::spawn(|| start("exec sleep 600")).join().unwrap();
        // A program that a signal has ended has no exit code.
        assert_eq!(exit_code(&mut tree), None);
    }

    #[test]
    fn orphans_of_a_process_are_killed_only_after_it_has_ended() {
        let _guard = one_test_at_a_time();
        let mut tree = start("exec sleep 600");
        wait_for(&mut tree, 1);
        kill_orphans(identity());
        assert!(tree.is_running());
        // Another process had the id of this one before.
        let ended = format!("{}-1", process::id());
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & exec sleep 600"]).env(MARK, format!("{ended}-7"));
        let mut orphan = command.spawn().unwrap();
        // The environment of a program is there some time after it was started.
        let pid = i32::try_from(orphan.id()).unwrap();
        while mark_of(pid).is_none() {
            clock::sleep(POLL_INTERVAL);
        }
        kill_orphans(&ended);
        assert!(orphan.try_wait().unwrap().is_some());
        assert!(tree.is_running());
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let program = Program {
            program: "/no/such/program".to_owned(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: "/".into(),
            log: "/dev/null".into(),
            cores: vec![0],
        };
        let error = ProcessTree::start(&program).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_whose_name_contains_parentheses_is_parsed() {
        let stat =
            "42 (a) (b c) S 7 42 42 0 -1 4194560 1 2 3 4 50 25 6 7 20 0 9 0 1234 1000000 300 1";
        let expected = Process {
            pid: 42,
            name: "a) (b c".to_owned(),
            is_zombie: false,
            parent: 7,
            group: 42,
            session: 42,
            threads: 9,
            start: 1234,
            resident_bytes: 300 * page_size() as u64,
            children_cpu_time: Duration::from_millis(13_000 / clock_ticks_per_second()),
        };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (x"), None);
        // Its first thread has ended, and eight others have not.
        let other_threads = stat.replace(" S 7 ", " Z 7 ");
        assert!(!parse_stat(&other_threads).unwrap().is_zombie);
        let ended = other_threads.replace(" 20 0 9 ", " 20 0 1 ");
        assert!(parse_stat(&ended).unwrap().is_zombie);
    }
}
