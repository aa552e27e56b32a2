//! Drops SYNs of source addresses that open connections too fast, by a BPF program (`bpf/syn_filter.bpf.c`) at the listeners.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aya::programs::{ProgramError, SocketFilter};
use aya::{Ebpf, EbpfLoader};
use sluice_io::SharedMemory;

use crate::error::KernelError;
use crate::program::{check_release, map_memory, refused};

/// The first version of Linux with all that the program needs.
const KERNEL_MIN: (u32, u32) = (5, 12);

/// How fast one source may open connections: an IPv4 address, an IPv6 /64 prefix, or a link-local IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynLimit {
    /// Connections at once; at least one.
    pub burst: u32,
    /// Time between two connections on average.
    pub interval: Duration,
    /// Sources that are remembered; about 100 bytes each. For one more, one of those is forgotten that have not been seen for longest.
    pub sources: u32,
}

/// The loaded program. Listeners keep it.
#[derive(Debug, Clone)]
pub struct SynFilter {
    program: Arc<Mutex<Ebpf>>,
    dropped: Arc<SharedMemory>,
}

/// The compiled program.
#[cfg(has_program)]
const OBJECT: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/syn_filter.o")));
#[cfg(not(has_program))]
const OBJECT: Option<&[u8]> = None;

impl SynFilter {
    /// Loads the program.
    ///
    /// # Errors
    /// What is missing.
    pub fn load(limit: &SynLimit) -> Result<Self, KernelError> {
        let Some(object) = OBJECT else { return Err(KernelError::NotBuilt) };
        check_release(KERNEL_MIN)?;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = nanoseconds(limit.interval).max(1);
        let ahead_ns = interval_ns.saturating_mul(limit.burst.saturating_sub(1).into());
        let mut loader = EbpfLoader::new();
        loader
            .override_global("interval_ns", &interval_ns, true)
            .override_global("ahead_ns", &ahead_ns, true)
            .map_max_entries("sources", limit.sources.max(1));
        let mut program = loader.load(object).map_err(refused)?;
        filter(&mut program)?.load().map_err(refused)?;
        let dropped = Arc::new(map_memory(&mut program, "dropped", 1)?);
        Ok(Self { program: Arc::new(Mutex::new(program)), dropped })
    }

    /// Has the program see what a listener receives, until that is closed.
    ///
    /// # Cost
    /// The program runs for each segment of the connections that are accepted, too, and looks at one byte of it.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn attach(&self, listener: impl AsFd) -> io::Result<()> {
        let mut program = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let filter = filter(&mut program).map_err(io::Error::other)?;
        filter.attach(listener).map_err(system_error)
    }

    /// Removes the filter of a listener that another process has opened, if there is one from an earlier run of this program.
    pub fn detach(listener: impl AsFd) {
        // Fails if there is none.
        let _ = SocketFilter::detach(listener);
    }

    /// SYNs that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.words().first().map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

fn filter(program: &mut Ebpf) -> Result<&mut SocketFilter, KernelError> {
    let filter = program.program_mut("filter_syn");
    let filter = filter.and_then(|program| <&mut SocketFilter>::try_from(program).ok());
    filter.ok_or_else(|| KernelError::Refused("there is no program filter_syn".to_owned()))
}

fn system_error(error: ProgramError) -> io::Error {
    match error {
        ProgramError::SocketFilterError(aya::programs::SocketFilterError::SetsockoptError {
            io_error,
            ..
        }) => io_error,
        error => io::Error::other(error.to_string()),
    }
}
