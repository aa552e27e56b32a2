//! Loads the program, and holds its maps.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aya::maps::{ArrayOfMaps, HashMap, Map, MapData, MapError, RingBuf, SockMap};
use aya::programs::{ProgramError, SkSkb};
use aya::{Ebpf, EbpfLoader};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_RINGBUF;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size_force, socket_cookie};
use sluice_base::hash::derive_secret;
use sluice_io::SharedMemory;

use crate::error::KernelError;
use crate::host_table::{BUCKET_WORDS, Hash};
use crate::session::{SESSION_WORDS, Session, TEMPLATE_WORDS};
use crate::worker::{CLOCK_WORDS, WorkerAnswers};

/// The oldest kernel that works: earlier ones count what is received from connections of such programs wrongly, or send parts of buffers twice
/// if a socket takes a buffer in parts.
pub const KERNEL_MIN: (u32, u32) = (6, 16);

/// Types of the running kernel.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Sessions that the keys of hosts can tell apart; slot 0 is not used.
const SESSIONS_MAX: u32 = u16::MAX as u32;

/// Buckets of a worker's table of hosts, as a power of two.
const HASH_BITS_MIN: u32 = 4;
const HASH_BITS_MAX: u32 = 24;

/// Bytes for which a connection that does not read can have its relay charged: 16 buffers with 80 KiB of packet-ins, and the bookkeeping of the
/// kernel. If a relay is full, the answers of all its connections wait.
const RELAY_CHARGE_MAX: usize = 192 << 10;

/// What the kernel accepts as the size of a buffer.
const BUFFER_BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of an announcement in its buffer.
const ANNOUNCEMENT_BYTES: u32 = 16;

/// Bytes of the reports that wait for a worker: 8192 reports. The program wakes the worker when 1024 wait, and passes packet-ins on that it has no
/// room to report.
const REPORT_BYTES: u32 = 256 << 10;

/// Places for pairs of hosts that are held, of each worker, as a power of two. With 100 000 answers per second that are held for 50 ms, one in
/// 100 packet-ins is between two other hosts with the same place, and goes to the worker.
const HOLD_BITS: u32 = 19;

/// The same if nothing is held.
const HOLD_BITS_MIN: u32 = 1;

/// The largest page of any architecture, of which the buffer has a multiple.
const PAGE_BYTES_MAX: u32 = 64 << 10;

/// Longest socket buffer that the program can answer.
const INPUT_BYTES_MAX: u32 = 16 << 10;

/// How much memory the program has. All of it is allocated at the start: also 90 KiB for each processor, and 16 bytes for each connection and worker.
/// Answers on their way are in the memory of the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of workers.
    pub workers: usize,
    /// Connections; 432 bytes each, at most 65 534. Further ones are answered by the worker.
    pub sessions: u32,
    /// Hosts of each worker; 32 bytes each, so that nearly all find a place. One connection has at most half of them. Packet-ins of further ones
    /// are answered by the worker.
    pub hosts_per_worker: u32,
    /// Bytes of a socket buffer that the program answers; longer ones go to the worker. At most 16 KiB.
    pub input_bytes: u32,
    /// How long answers may wait for a processor before they are [late](crate::Waits::late); `None` if neither that nor the
    /// [queue](crate::RelayQueue) of the relay is measured.
    pub late: Option<Duration>,
    /// Whether there are forms with the rule [`AnswerRule::Paths`](crate::AnswerRule::Paths), for which each worker has 4 MiB for pairs of
    /// hosts and 256 KiB for reports.
    pub paths: bool,
}

/// The loaded program. It stays loaded until this and all that was made of it is dropped.
#[derive(Debug, Clone)]
pub struct KernelAnswers {
    shared: Arc<Shared>,
}

/// The maps of the program.
#[derive(Debug)]
pub(crate) struct Shared {
    sessions: SharedMemory,
    templates: SharedMemory,
    pub(crate) hosts: SharedMemory,
    pub(crate) clocks: SharedMemory,
    /// Until when pairs of hosts are held, by worker and place.
    pub(crate) holds: SharedMemory,
    /// Places of a worker, as a power of two.
    pub(crate) hold_bits: u32,
    pub(crate) hash: Hash,
    /// The ends of the relay of each worker.
    relays: Vec<[UnixStream; 2]>,
    registry: Mutex<Registry>,
}

/// What the program lets a worker know.
pub(crate) type ProgramBuffer = RingBuf<MapData>;

/// Which connections the program sees.
struct Registry {
    sockets: SockMap<MapData>,
    slots: HashMap<MapData, u64, u32>,
    /// Number of slots.
    sessions: u32,
    /// Bytes of the reports that wait for a worker.
    report_bytes: u32,
    /// By worker.
    announcements: ArrayOfMaps<MapData, ProgramBuffer>,
    /// By worker.
    reports: ArrayOfMaps<MapData, ProgramBuffer>,
    free: Vec<u16>,
    workers: Vec<WorkerSlots>,
    /// Keeps the program.
    _program: Ebpf,
}

/// What the registry knows of a worker.
#[derive(Debug, Default)]
struct WorkerSlots {
    /// There is a [`WorkerAnswers`], which alone changes the table of hosts.
    is_running: bool,
    /// Slots of ended sessions, whose hosts are still published.
    ended: Vec<u16>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("free", &self.free.len()).finish_non_exhaustive()
    }
}

/// Whether this build has the program.
pub const IS_BUILT: bool = OBJECT.is_some();

impl KernelAnswers {
    /// Loads the program.
    ///
    /// # Errors
    /// What is missing.
    pub fn load(limits: &Limits) -> Result<Self, KernelError> {
        let Some(object) = OBJECT else { return Err(KernelError::NotBuilt) };
        check_kernel()?;
        let sessions = limits.sessions.clamp(1, SESSIONS_MAX - 1) + 1;
        let buckets = limits.hosts_per_worker.div_ceil(2).next_power_of_two();
        let bits = buckets.ilog2().clamp(HASH_BITS_MIN, HASH_BITS_MAX);
        let hash = Hash { factor: derive_secret("kernel") | 1, bits };
        let workers = u32::try_from(limits.workers.max(1)).unwrap_or(u32::MAX);
        let all_buckets = workers.saturating_mul(1 << bits);
        let (hold_bits, report_bytes) =
            if limits.paths { (HOLD_BITS, REPORT_BYTES) } else { (HOLD_BITS_MIN, PAGE_BYTES_MAX) };
        let all_holds = workers.saturating_mul(1 << hold_bits);
        let input_bytes = limits.input_bytes.min(INPUT_BYTES_MAX);
        // 0 is for no measurement.
        let late = limits.late.map_or(0, |late| late.as_nanos().max(1));
        let late_ns = u64::try_from(late).unwrap_or(u64::MAX);
        let mut loader = EbpfLoader::new();
        loader
            .override_global("hash_factor", &hash.factor, true)
            .override_global("hash_bits", &hash.bits, true)
            .override_global("hold_bits", &hold_bits, true)
            .override_global("input_bytes_max", &input_bytes, true)
            .override_global("late_ns", &late_ns, true)
            .map_max_entries("sockets", sessions)
            .map_max_entries("relay_entries", workers)
            .map_max_entries("relay_exits", workers)
            .map_max_entries("announcements", workers)
            .map_max_entries("reports", workers)
            .map_max_entries("holds", all_holds)
            .map_max_entries("slots", sessions)
            .map_max_entries("sessions", sessions)
            .map_max_entries("templates", sessions)
            .map_max_entries("hosts", all_buckets)
            .map_max_entries("clocks", workers);
        let mut program = loader.load(object).map_err(refused)?;
        let len = |entries: u32, words: usize| entries as usize * words;
        let maps = [
            ("sessions", len(sessions, SESSION_WORDS)),
            ("templates", len(sessions, TEMPLATE_WORDS)),
            ("hosts", len(all_buckets, BUCKET_WORDS)),
            ("clocks", len(workers, CLOCK_WORDS)),
            ("holds", len(all_holds, 1)),
        ];
        let [sessions_map, templates, hosts, clocks, holds] =
            maps.map(|(name, words)| map_memory(&mut program, name, words));
        let (registry, relays) = Registry::new(program, sessions, workers, report_bytes)?;
        let shared = Shared {
            sessions: sessions_map?,
            templates: templates?,
            hosts: hosts?,
            clocks: clocks?,
            holds: holds?,
            hold_bits,
            hash,
            relays,
            registry: Mutex::new(registry),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The part of a worker, by its number. Each worker has one. If that is dropped, the worker has ended, and another one may take its place.
    ///
    /// # Errors
    /// Too little memory, or too few file descriptors.
    pub fn worker(&self, number: usize) -> Result<WorkerAnswers, KernelError> {
        let buffers = self.shared.registry().buffers(number)?;
        self.shared.set_running(number, true);
        Ok(WorkerAnswers::new(self.shared.clone(), number, buffers))
    }
}

/// The compiled program.
#[cfg(has_program)]
const OBJECT: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/answers.o")));
#[cfg(not(has_program))]
const OBJECT: Option<&[u8]> = None;

fn check_kernel() -> Result<(), KernelError> {
    check_release(KERNEL_MIN)?;
    if Path::new(KERNEL_TYPES).exists() { Ok(()) } else { Err(KernelError::NoTypes) }
}

/// Whether the kernel is new enough, as far as its release says so.
pub(crate) fn check_release(needed: (u32, u32)) -> Result<(), KernelError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next())
        && (major, minor) < needed
    {
        return Err(KernelError::Old { release: release.to_owned(), needed });
    }
    Ok(())
}

/// The memory of a map.
pub(crate) fn map_memory(
    program: &mut Ebpf,
    name: &str,
    words: usize,
) -> Result<SharedMemory, KernelError> {
    match program.map(name) {
        Some(Map::Array(map)) => {
            let info = map.info().map_err(refused)?;
            let bytes = info.max_entries() as usize * info.value_size() as usize;
            if bytes != words * size_of::<AtomicU64>() {
                return Err(KernelError::Refused(format!("{name} has another layout")));
            }
            Ok(SharedMemory::map(map.fd(), words)?)
        }
        _ => Err(KernelError::Refused(format!("there is no map {name}"))),
    }
}

/// The error of a system call anywhere in `error`, or the whole text.
pub(crate) fn refused(error: impl std::error::Error + 'static) -> KernelError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let system = error.downcast_ref::<io::Error>();
        // The kernel reports `EACCES` for a program that it does not accept.
        if system.is_some_and(|it| it.raw_os_error() == Some(Errno::PERM.raw_os_error())) {
            return KernelError::NoPermission;
        }
        cause = error.source();
    }
    KernelError::Refused(error.to_string())
}

impl Registry {
    /// The registry, and the relay of each worker.
    fn new(
        mut program: Ebpf,
        sessions: u32,
        workers: u32,
        report_bytes: u32,
    ) -> Result<(Self, Vec<[UnixStream; 2]>), KernelError> {
        let sockets = take_sock_map(&mut program, "sockets")?;
        let mut entries = take_sock_map(&mut program, "relay_entries")?;
        let mut exits = take_sock_map(&mut program, "relay_exits")?;
        attach(&mut program, "decide", &sockets)?;
        attach(&mut program, "answer", &exits)?;
        let mut relays = Vec::new();
        for worker in 0..workers {
            let (entry, exit) = UnixStream::pair()?;
            // The kernel doubles this, and lets half of it be used here.
            let bytes = (sessions as usize).saturating_mul(RELAY_CHARGE_MAX);
            let bytes = bytes.min(BUFFER_BYTES_MAX);
            set_socket_send_buffer_size_force(&entry, bytes).map_err(io::Error::from)?;
            entries.set(worker, &entry, 0).map_err(refused)?;
            exits.set(worker, &exit, 0).map_err(refused)?;
            relays.push([entry, exit]);
        }
        let slots = HashMap::try_from(take_map(&mut program, "slots")?).map_err(refused)?;
        let announcements = take_map(&mut program, "announcements")?;
        let reports = take_map(&mut program, "reports")?;
        let last = u16::try_from(sessions - 1).unwrap_or(u16::MAX);
        let registry = Self {
            sockets,
            slots,
            announcements: ArrayOfMaps::try_from(announcements).map_err(refused)?,
            reports: ArrayOfMaps::try_from(reports).map_err(refused)?,
            sessions,
            report_bytes,
            free: (1..=last).rev().collect(),
            workers: (0..workers).map(|_| WorkerSlots::default()).collect(),
            _program: program,
        };
        Ok((registry, relays))
    }

    /// Makes the buffers for the announcements and for the reports to a worker. Each session has at most one announcement in it, and those that
    /// have moved to another worker are few.
    fn buffers(&mut self, worker: usize) -> Result<[ProgramBuffer; 2], KernelError> {
        let bytes = (self.sessions * ANNOUNCEMENT_BYTES).next_power_of_two().max(PAGE_BYTES_MAX);
        let worker = u32::try_from(worker).unwrap_or(u32::MAX);
        let announcements = make_buffer("announcements", bytes)?;
        self.announcements.set(worker, &announcements, 0).map_err(refused)?;
        let reports = make_buffer("reports", self.report_bytes)?;
        self.reports.set(worker, &reports, 0).map_err(refused)?;
        Ok([announcements, reports])
    }
}

fn make_buffer(name: &str, bytes: u32) -> Result<ProgramBuffer, KernelError> {
    let ring = aya_obj::Map::new_from_params(BPF_MAP_TYPE_RINGBUF as u32, 0, 0, bytes, 0);
    let ring = MapData::create(ring, name, None).map_err(refused)?;
    RingBuf::try_from(Map::RingBuf(ring)).map_err(refused)
}

fn take_map(program: &mut Ebpf, name: &str) -> Result<Map, KernelError> {
    program.take_map(name).ok_or_else(|| KernelError::Refused(format!("there is no map {name}")))
}

fn take_sock_map(program: &mut Ebpf, name: &str) -> Result<SockMap<MapData>, KernelError> {
    SockMap::try_from(take_map(program, name)?).map_err(|error: MapError| refused(error))
}

/// Loads a part of the program, and has it run for what the sockets of `map` receive.
fn attach(program: &mut Ebpf, name: &str, map: &SockMap<MapData>) -> Result<(), KernelError> {
    let part = program.program_mut(name);
    let part = part.and_then(|program| <&mut SkSkb>::try_from(program).ok());
    let part = part.ok_or_else(|| KernelError::Refused(format!("there is no program {name}")))?;
    part.load().map_err(refused)?;
    part.attach(map.fd()).map_err(|error: ProgramError| refused(error))?;
    Ok(())
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number of a session.
    #[inline]
    pub(crate) fn session(&self, slot: u16, word: usize) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        self.sessions.words().get(usize::from(slot) * SESSION_WORDS + word).unwrap_or(&NONE)
    }

    /// The numbers of a session's template.
    pub(crate) fn template(&self, slot: u16) -> &[AtomicU64] {
        let start = usize::from(slot) * TEMPLATE_WORDS;
        self.templates.words().get(start..start + TEMPLATE_WORDS).unwrap_or_default()
    }

    /// Whether the relay of a worker has failed since the last call. It passes nothing on any more then.
    pub(crate) fn has_relay_failed(&self, worker: usize) -> bool {
        let relay = self.relays.get(worker);
        relay.is_some_and(|ends| ends.iter().any(|end| !matches!(end.take_error(), Ok(None))))
    }

    /// Finds a slot for a connection, and has the program see what it receives. Returns slot and cookie.
    pub(crate) fn begin_session(&self, socket: &(impl AsFd + AsRawFd)) -> io::Result<(u16, u64)> {
        let cookie = socket_cookie(socket)?;
        let mut registry = self.registry();
        let slot = registry.free.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        Session::clear(self, slot);
        let registry = &mut *registry;
        let slot_number = u32::from(slot);
        let result = registry.slots.insert(cookie, slot_number, 0).and_then(|()| {
            // From here on, the program counts what the connection receives.
            let added = registry.sockets.set(slot_number, socket, 0);
            added.inspect_err(|_| _ = registry.slots.remove(&cookie))
        });
        if let Err(error) = result {
            registry.free.push(slot);
            return Err(system_error(error));
        }
        Ok((slot, cookie))
    }

    /// Ends a session, whose hosts are still published by `worker`.
    pub(crate) fn end_session(&self, slot: u16, cookie: u64, worker: usize) {
        let mut registry = self.registry();
        // They are gone already if the socket is closed.
        let _ = registry.sockets.clear_index(&slot.into());
        let _ = registry.slots.remove(&cookie);
        match registry.workers.get_mut(worker) {
            Some(worker) => worker.ended.push(slot),
            None => registry.free.push(slot),
        }
    }

    /// Records that a worker has started or ended. The hosts of one that has ended are withdrawn by others.
    pub(crate) fn set_running(&self, worker: usize, is_running: bool) {
        if let Some(worker) = self.registry().workers.get_mut(worker) {
            worker.is_running = is_running;
        }
    }

    /// The slots of ended sessions of `worker`, and of workers that have ended themselves, that can be used again once the hosts are
    /// withdrawn, by the worker that has published them; of each worker if there are `least`, or if no other slots are free.
    pub(crate) fn take_ended(&self, worker: usize, least: usize) -> Vec<(usize, Vec<u16>)> {
        let mut registry = self.registry();
        let least = if registry.free.is_empty() { 1 } else { least };
        let workers = registry.workers.iter_mut().enumerate();
        let workers = workers.filter(|(number, it)| *number == worker || !it.is_running);
        let ended = workers.filter(|(_, it)| it.ended.len() >= least).map(|(number, it)| {
            let is_unused = |slot: &mut u16| !Session::is_relaying(self, *slot);
            (number, it.ended.extract_if(.., is_unused).collect::<Vec<_>>())
        });
        ended.filter(|(_, slots)| !slots.is_empty()).collect()
    }

    /// Frees slots, of which no host is published any more.
    pub(crate) fn free(&self, slots: &[u16]) {
        self.registry().free.extend_from_slice(slots);
    }
}

fn system_error(error: MapError) -> io::Error {
    match error {
        MapError::SyscallError(error) => error.io_error,
        error => io::Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

    use super::*;
    use crate::{AnswerForm, AnswerRule};

    /// As when the kernel has no memory for a buffer on its way: the relay passes nothing on after that.
    #[test]
    fn a_relay_that_cannot_send_is_found_and_those_of_other_workers_go_on() {
        is_found_and_others_go_on(|[entry, _]| entry.shutdown(Shutdown::Write).unwrap());
    }

    #[test]
    fn a_relay_that_is_gone_is_found_and_those_of_other_workers_go_on() {
        is_found_and_others_go_on(|[_, exit]| exit.shutdown(Shutdown::Both).unwrap());
    }

    fn is_found_and_others_go_on(fail: impl FnOnce(&[UnixStream; 2])) {
        let (sessions, hosts_per_worker, input_bytes) = (10, 100, 1000);
        let (late, paths) = (None, false);
        let limits = Limits { workers: 2, sessions, hosts_per_worker, input_bytes, late, paths };
        let answers = KernelAnswers::load(&limits).unwrap();
        let [mut other, mut worker] = [0, 1].map(|number| answers.worker(number).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut switch = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let mut session = worker.attach(&socket).unwrap();
        assert!(session.set_form(&AnswerForm {
            version: 1,
            flow_mod: &[0; 80],
            packet_out: &[0; 24],
            rule: AnswerRule::Hosts { timeout: 10 },
        }));
        for (host, port) in [(8, 1), (9, 2)] {
            assert!(worker.publish(&mut session, [2, 0, 0, 0, 0, host], port, 0));
        }
        session.open(1);
        fail(&answers.shared.relays[1]);
        assert!(!worker.has_failed(), "before anything is sent");
        // OpenFlow 1.0.0, section 5.4.1: a buffered frame of 14 bytes that came in at port 1.
        let head = [1, 10, 0, 32, 0, 0, 0, 1, 0, 0, 0, 7, 0, 14, 0, 1, 0, 0];
        let frame = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
        switch.write_all(&[&head[..], &frame].concat()).unwrap();
        let deadline = sluice_io::clock::now() + Duration::from_secs(20);
        while !worker.has_failed() {
            assert!(sluice_io::clock::now() < deadline, "{:?}", session.answered());
            sluice_io::clock::sleep(Duration::from_millis(1));
        }
        assert!(worker.has_failed(), "from then on");
        assert!(!other.has_failed());
        session.close();
        assert!(!session.are_answers_sent(&socket).unwrap());
    }
}
