//! The machine: kernel, limits, processors, clock.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_base::{ordered, sort_by};
use sluice_engine::WorkerEngine;
use sluice_io::{Uring, WaitStrategy};

use super::Privileges;
use super::report::Finding;
use crate::config::LoadedConfig;

/// The oldest kernel with all that Sluice uses in the form in which it is tested.
const KERNEL_MIN: (u32, u32) = (5, 4);

/// A time after which this version was made: a clock before it is wrong.
const EARLIEST: Duration = Duration::from_secs(1_750_000_000);

/// A file system below a folder: `/`, or one that a test has made.
#[derive(Debug, Clone)]
pub(super) struct Root(pub(super) PathBuf);

impl Root {
    /// A file at an absolute path.
    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file without spaces around it; `None` if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// Names in a folder, in order; none if it cannot be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        sort_by(&mut names, Ord::cmp);
        names
    }
}

/// All about the machine. `loaded` is the configuration, if it is valid.
pub(super) fn check(
    root: &Root,
    loaded: Option<&LoadedConfig>,
    now: Duration,
    user: Privileges,
) -> Vec<Finding> {
    let mut findings = vec![kernel(root)];
    findings.extend(loaded.map(|loaded| open_files(root, loaded)));
    findings.extend(loaded.map(|loaded| backlog(root, loaded)));
    findings.extend(loaded.and_then(|loaded| congestion(root, loaded)));
    findings.extend(loaded.map(workers));
    findings.push(io_uring(loaded));
    findings.push(in_kernel(loaded, user));
    findings.extend(loaded.and_then(|loaded| syn_filter(loaded, user)));
    findings.extend([huge_pages(root), governor(root), clock(root, now)]);
    findings
}

fn kernel(root: &Root) -> Finding {
    let Some(release) = root.read("/proc/sys/kernel/osrelease") else {
        return Finding::warning(
            "kernel",
            "its version is not known",
            "check that /proc is mounted",
        );
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < KERNEL_MIN {
        let (major, minor) = KERNEL_MIN;
        let message = format!("Linux {release} is older than what Sluice is tested with");
        return Finding::warning("kernel", message, format!("use Linux {major}.{minor} or later"));
    }
    Finding::ok("kernel", format!("Linux {release}"))
}

fn open_files(root: &Root, loaded: &LoadedConfig) -> Finding {
    let limits = &loaded.config.engine.limits;
    let wanted = limits.switches_max.saturating_add(limits.handshakes_max).saturating_add(256);
    let text = root.read("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    // The soft limit is raised at the start, up to the hard one.
    let Some(hard) = line.split_whitespace().nth(4) else {
        let message = "the limit of this process is not known";
        return Finding::warning("open files", message, "check `ulimit -Hn`");
    };
    match hard.parse::<usize>() {
        Ok(hard) if hard < wanted => Finding::warning(
            "open files",
            format!(
                "{hard} may be open, {wanted} are needed for limits.switches_max and limits.handshakes_max: fewer \
                 switches are accepted"
            ),
            format!(
                "raise the hard limit: `ulimit -Hn {wanted}`, or LimitNOFILE={wanted} in the unit of systemd"
            ),
        ),
        _ => Finding::ok("open files", format!("{hard} may be open, {wanted} are needed")),
    }
}

fn backlog(root: &Root, loaded: &LoadedConfig) -> Finding {
    let wanted = loaded.config.engine.limits.handshakes_max.min(1024);
    let found: Option<usize> =
        root.read("/proc/sys/net/core/somaxconn").and_then(|text| text.parse().ok());
    match found {
        Some(found) if found < wanted => Finding::warning(
            "somaxconn",
            format!(
                "{found} connections wait at a listener at most: if more switches connect at once, they try again \
                 after a second"
            ),
            format!("`sysctl -w net.core.somaxconn={wanted}`"),
        ),
        Some(found) => Finding::ok("somaxconn", format!("{found} connections wait at a listener")),
        None => Finding::ok("somaxconn", "not known on this system"),
    }
}

fn congestion(root: &Root, loaded: &LoadedConfig) -> Option<Finding> {
    let name = loaded.config.engine.socket.congestion.as_ref()?;
    let available = root.read("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if available.split_whitespace().any(|known| known == name) {
        return Some(Finding::ok("congestion", format!("{name} is available")));
    }
    if loaded.is_default("socket.congestion") {
        let message = format!("{name} is not available; the system's own is used ({available})");
        return Some(Finding::ok("congestion", message));
    }
    let message = format!("{name} is not available (the kernel has: {available})");
    let advice = format!("`modprobe tcp_{name}`, or set socket.congestion = \"system\"");
    Some(Finding::problem("congestion", message, advice))
}

fn workers(loaded: &LoadedConfig) -> Finding {
    let (threads, cores) =
        (loaded.config.engine.workers.threads, sluice_io::cores::allowed().len());
    if threads > cores {
        return Finding::warning(
            "workers",
            format!("{threads} workers for {cores} cores: they wait for each other"),
            "set workers.threads = 0, which is one for each core",
        );
    }
    let threads = if threads == 0 { cores } else { threads };
    Finding::ok("workers", format!("{threads} for {cores} cores"))
}

fn io_uring(loaded: Option<&LoadedConfig>) -> Finding {
    let engine = loaded.map(|loaded| loaded.config.engine.workers.engine);
    match Uring::new(WaitStrategy::default()) {
        Ok(_) => Finding::ok("io_uring", "can be used by workers.engine = \"uring\""),
        Err(error) if engine == Some(WorkerEngine::Uring) => {
            Finding::problem("io_uring", error.to_string(), "or set workers.engine = \"epoll\"")
        }
        Err(error) => Finding::ok("io_uring", format!("not used; {error}")),
    }
}

fn in_kernel(loaded: Option<&LoadedConfig>, user: Privileges) -> Finding {
    let engine = loaded.map(|loaded| loaded.config.engine.workers.engine);
    match sluice_engine::try_in_kernel() {
        Ok(()) => {
            Finding::ok("in kernel", "can be used by workers.engine = \"kernel\" or \"auto\"")
        }
        Err(error) if engine == Some(WorkerEngine::Kernel) && user == Privileges::User => {
            Finding::needs_root("in kernel", error)
        }
        Err(error) if engine == Some(WorkerEngine::Kernel) => {
            Finding::problem("in kernel", error.to_string(), "or set workers.engine = \"epoll\"")
        }
        Err(error) => Finding::ok("in kernel", format!("not used; {error}")),
    }
}

/// Only if it is configured.
fn syn_filter(loaded: &LoadedConfig, user: Privileges) -> Option<Finding> {
    let check = "SYN filter";
    loaded.config.engine.limits.syn_filter.then(|| match sluice_engine::try_syn_filter() {
        Ok(()) => Finding::ok(check, "can be used by limits.syn_filter"),
        Err(error) if user == Privileges::User => Finding::needs_root(check, error),
        Err(error) => {
            Finding::problem(check, error.to_string(), "or set limits.syn_filter = false")
        }
    })
}

fn huge_pages(root: &Root) -> Finding {
    let mode = root.read("/sys/kernel/mm/transparent_hugepage/enabled");
    match mode {
        Some(mode) if mode.contains("[never]") => Finding::warning(
            "huge pages",
            "switched off: large host tables cost more time",
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
        ),
        Some(_) => Finding::ok("huge pages", "available"),
        None => Finding::ok("huge pages", "this kernel has none"),
    }
}

fn governor(root: &Root) -> Finding {
    let cpus = "/sys/devices/system/cpu";
    let names = root.list(cpus);
    let governors: Vec<_> = names
        .iter()
        .filter_map(|cpu| root.read(&format!("{cpus}/{cpu}/cpufreq/scaling_governor")))
        .collect();
    let slow = governors.iter().filter(|governor| *governor != "performance").count();
    match governors.first() {
        None => Finding::ok("governor", "the frequency of the cores is not set by this system"),
        Some(_) if slow == 0 => Finding::ok("governor", "performance"),
        Some(_) => {
            let names: BTreeSet<_> = ordered(governors.iter().map(String::as_str));
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            Finding::warning(
                "governor",
                format!(
                    "{slow} cores slow down when they have little to do ({names}): replies take longer"
                ),
                "`cpupower frequency-set -g performance`, if response times matter",
            )
        }
    }
}

fn clock(root: &Root, now: Duration) -> Finding {
    if now < EARLIEST {
        return Finding::problem(
            "clock",
            "is years behind: certificates are not valid yet, and log lines have wrong times",
            "set it, for example with `timedatectl set-ntp true`",
        );
    }
    let services = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"];
    let of_process = |pid: &String| root.read(&format!("/proc/{pid}/comm"));
    let mut processes = root.list("/proc").into_iter().filter_map(|pid| of_process(&pid));
    if root.path("/run/systemd/timesync/synchronized").exists() {
        return Finding::ok("clock", "synchronised");
    }
    match processes.find(|name| services.contains(&name.as_str())) {
        Some(name) => Finding::ok("clock", format!("kept by {name}")),
        None => Finding::warning(
            "clock",
            "no program keeps it: with several machines, times of log lines cannot be compared, and certificates \
             may count as not valid yet",
            "`timedatectl set-ntp true`, or install chrony; a container has the clock of its machine",
        ),
    }
}
