//! CPU affinity of threads.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores that this process may run on.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cores: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
    if cores.is_empty() { vec![0] } else { cores }
}

/// Binds the calling thread, and those that it starts from now on, to these cores; if there are none, it stays where it is.
///
/// # Errors
/// `InvalidInput` if one does not exist; those of the system if none is allowed.
pub fn pin_to(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(core);
    }
    if cores.is_empty() { Ok(()) } else { Ok(sched_setaffinity(None, &set)?) }
}

/// Binds the calling thread to `core`.
///
/// # Errors
/// `InvalidInput` if the core does not exist or is not allowed.
pub fn pin(core: usize) -> io::Result<()> {
    pin_to(&[core])
}
