//! When a controller is ready: its port accepts, a handshake completes, and a probe packet is answered.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use sluice_bench::{Buffering, ConnectAttempts, Load, Plan};
use sluice_io::clock;
use sluice_openflow::Version;

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Time for one attempt to connect, on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for one handshake, after which it is asked whether the controller still runs.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Datapath id of the switch of the probe, which no measurement uses.
const PROBE_DATAPATH_ID: u64 = 0x5_1ce0_0000;

/// Duration of one probe.
const PROBE_TIME: Duration = Duration::from_millis(100);

/// How long the second probe waits between the handshake and its packet; the first does not wait, and later ones wait longer by this time.
/// Controllers that discover links answer only when they know that a port leads to a host.
const PROBE_DELAY: Duration = Duration::from_secs(1);

/// The longest such time.
const PROBE_DELAY_MAX: Duration = Duration::from_secs(3);

/// How far a controller that is starting has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The port does not accept connections.
    NotListening,
    /// It accepts, but no handshake has completed.
    NoHandshake(String),
    /// A switch is connected, but its packet-ins are not answered.
    NoAnswer,
    /// It is ready.
    Ready,
}

impl Readiness {
    /// What is missing, as part of a sentence.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::NotListening => "its port does not accept connections".to_owned(),
            Self::NoHandshake(why) => format!("no handshake completes: {why}"),
            Self::NoAnswer => {
                "a switch is connected, but its packet-ins are not answered".to_owned()
            }
            Self::Ready => "it is ready".to_owned(),
        }
    }
}

/// One step towards readiness, until `deadline` at the latest. `unanswered` probes were not answered before.
pub(super) fn check(
    target: SocketAddr,
    version: Version,
    must_answer: bool,
    unanswered: u32,
    deadline: Instant,
) -> Readiness {
    if TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).is_err() {
        clock::sleep(RETRY_INTERVAL);
        return Readiness::NotListening;
    }
    let left = deadline.saturating_duration_since(clock::now());
    let plan = Plan {
        targets: vec![target],
        switches: 1,
        version,
        hosts: 2,
        load: Load::Window(1),
        buffering: Buffering::Unbuffered,
        loops: 1,
        warmup: 0,
        loop_time: PROBE_TIME,
        delay: (PROBE_DELAY * unanswered).min(PROBE_DELAY_MAX),
        dpid_offset: PROBE_DATAPATH_ID,
        handshake_timeout: left.clamp(Duration::from_millis(1), HANDSHAKE_TIMEOUT),
        connect_attempts: ConnectAttempts::UntilTimeout,
        timeout: Duration::from_secs(1),
        ..Plan::default()
    };
    match sluice_bench::run(&plan, &mut ()) {
        Err(error) => {
            clock::sleep(RETRY_INTERVAL);
            Readiness::NoHandshake(error.to_string())
        }
        Ok(report) if must_answer && report.counts.answered == 0 => Readiness::NoAnswer,
        Ok(_) => Readiness::Ready,
    }
}
