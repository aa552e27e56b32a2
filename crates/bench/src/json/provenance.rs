//! The object `provenance`.

use serde::Serialize;
use sluice_io::sock::EffectiveOptions;

use crate::provenance::{ControllerProcess, CpuUse, Host, Provenance, RunNumber, rfc3339};

#[derive(Serialize)]
pub(super) struct ProvenanceDocument {
    version: &'static str,
    started_at: String,
    command_line: Vec<String>,
    run: Option<RunDocument>,
    restart: Option<String>,
    host: HostDocument,
    load_average: LoadAverageDocument,
    socket: Option<SocketDocument>,
    controllers: Vec<Option<ControllerDocument>>,
}

#[derive(Serialize)]
struct RunDocument {
    number: u32,
    of: u32,
}

#[derive(Serialize)]
struct HostDocument {
    cpu_model: Option<String>,
    cores: Option<usize>,
    kernel: Option<String>,
    memory_bytes: Option<u64>,
    clock_source: Option<String>,
}

#[derive(Serialize)]
struct LoadAverageDocument {
    start: Option<[f64; 3]>,
    end: Option<[f64; 3]>,
}

#[derive(Serialize)]
struct SocketDocument {
    congestion: Option<String>,
    send_buffer_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    no_delay: Option<bool>,
}

#[derive(Serialize)]
struct ControllerDocument {
    pid: u32,
    command_line: Vec<String>,
    executable: Option<String>,
    threads: Option<u64>,
    allowed_cpus: Option<String>,
    resident_bytes: ResidentDocument,
    cpu: Option<CpuDocument>,
}

#[derive(Serialize)]
struct ResidentDocument {
    before: Option<u64>,
    after: Option<u64>,
}

#[derive(Serialize)]
struct CpuDocument {
    process: f64,
    busiest_thread: f64,
    busiest_thread_name: String,
    busiest_thread_delayed: Option<f64>,
}

impl From<&Provenance> for ProvenanceDocument {
    fn from(from: &Provenance) -> Self {
        let [start, end] = from.load_average;
        Self {
            version: from.version,
            started_at: rfc3339(from.started_at),
            command_line: from.command_line.clone(),
            run: from.run.map(|RunNumber { number, of }| RunDocument { number, of }),
            restart: from.restart.clone(),
            host: (&from.host).into(),
            load_average: LoadAverageDocument { start, end },
            socket: from.socket.as_ref().map(Into::into),
            controllers: from.controllers.iter().map(|it| it.as_ref().map(Into::into)).collect(),
        }
    }
}

impl From<&Host> for HostDocument {
    fn from(host: &Host) -> Self {
        let Host { cpu_model, cores, kernel, memory_bytes, clock_source } = host.clone();
        Self { cpu_model, cores, kernel, memory_bytes, clock_source }
    }
}

impl From<&EffectiveOptions> for SocketDocument {
    fn from(options: &EffectiveOptions) -> Self {
        let EffectiveOptions { congestion, send_buffer, recv_buffer, no_delay } = options.clone();
        Self {
            congestion,
            send_buffer_bytes: send_buffer,
            receive_buffer_bytes: recv_buffer,
            no_delay,
        }
    }
}

impl From<&ControllerProcess> for ControllerDocument {
    fn from(process: &ControllerProcess) -> Self {
        let [before, after] = process.resident_bytes;
        Self {
            pid: process.pid,
            command_line: process.command_line.clone(),
            executable: process.executable.clone(),
            threads: process.threads,
            allowed_cpus: process.allowed_cpus.clone(),
            resident_bytes: ResidentDocument { before, after },
            cpu: process.cpu.as_ref().map(Into::into),
        }
    }
}

impl From<&CpuUse> for CpuDocument {
    fn from(cpu: &CpuUse) -> Self {
        let CpuUse { process, busiest_thread, busiest_thread_name, busiest_thread_delayed } =
            cpu.clone();
        Self { process, busiest_thread, busiest_thread_name, busiest_thread_delayed }
    }
}
