//! When a controller is ready: its port accepts, a handshake completes, and a probe packet is answered.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use sluice_bench::{Buffering, ConnectAttempts, Load, LoopFigures, Plan, RunObserver, RunProgress};
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

/// Duration of a loop of the probe: at the end of each it is seen whether an answer has come.
const LOOP_TIME: Duration = Duration::from_millis(10);

/// Loops of one probe. An answer that comes after them, until [`ANSWER_TIMEOUT`], is seen to 0.1 s.
const LOOPS: u32 = 10;

/// Time for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// It is ready, since this time.
    Ready(Instant),
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
            Self::Ready(_) => "it is ready".to_owned(),
        }
    }
}

/// When a probe was seen to get how far: it ends later, since it waits for second parts of answers.
#[derive(Debug, Default)]
struct ReadinessObserver {
    connected_at: Option<Instant>,
    answered_at: Option<Instant>,
}

impl ReadinessObserver {
    fn see(&mut self, is_answered: bool) {
        let now = clock::now();
        self.connected_at.get_or_insert(now);
        if is_answered {
            self.answered_at.get_or_insert(now);
        }
    }
}

impl RunObserver for ReadinessObserver {
    fn on_progress(&mut self, progress: RunProgress) {
        if let RunProgress::Measuring { answered, .. } = progress {
            self.see(answered > 0);
        }
    }

    fn on_loop(&mut self, figures: &LoopFigures) {
        self.see(figures.answered.iter().any(|answered| *answered > 0));
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
        loops: LOOPS,
        warmup: 0,
        loop_time: LOOP_TIME,
        delay: (PROBE_DELAY * unanswered).min(PROBE_DELAY_MAX),
        dpid_offset: PROBE_DATAPATH_ID,
        handshake_timeout: left.clamp(Duration::from_millis(1), HANDSHAKE_TIMEOUT),
        connect_attempts: ConnectAttempts::UntilTimeout,
        timeout: ANSWER_TIMEOUT,
        ..Plan::default()
    };
    let mut observer = ReadinessObserver::default();
    match sluice_bench::run(&plan, &mut observer) {
        Err(error) => {
            clock::sleep(RETRY_INTERVAL);
            Readiness::NoHandshake(error.to_string())
        }
        Ok(report) if must_answer && report.counts.answered == 0 => Readiness::NoAnswer,
        Ok(_) => {
            let at = if must_answer { observer.answered_at } else { observer.connected_at };
            Readiness::Ready(at.unwrap_or_else(clock::now))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_counts_and_not_the_end_of_the_probe() {
        let mut observer = ReadinessObserver::default();
        let progress = |answered| RunProgress::Measuring {
            loops: 0,
            remaining: Duration::ZERO,
            answered,
            ready_switches: 1,
            errors: 0,
        };
        observer.on_progress(RunProgress::Connecting { ready_switches: 0 });
        assert_eq!((observer.connected_at, observer.answered_at), (None, None));
        observer.on_progress(progress(0));
        let connected_at = observer.connected_at;
        assert!(connected_at.is_some() && observer.answered_at.is_none());
        observer.on_progress(progress(1));
        let answered_at = observer.answered_at;
        observer.on_progress(progress(2));
        assert!(answered_at >= connected_at && answered_at.is_some());
        assert_eq!((observer.connected_at, observer.answered_at), (connected_at, answered_at));
    }
}
