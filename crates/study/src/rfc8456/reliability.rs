//! Sections 5.4.1 and 5.4.2: interruptions when the controller or a link fails.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use sluice_io::clock;

use super::change::set_or_bound;
use super::frames::{self, FrameEnd, FrameEnds, Interruption};
use super::trial::{Trial, milliseconds};
use crate::measure::Measured;
use crate::network::TestNetwork;
use crate::process::{Placeholders, RunningController, free_port};

/// Interval between the frames of a stream over one path.
const STREAM_INTERVAL: Duration = Duration::from_millis(1);

/// Interval between frames of which each has another source, and needs the controller.
pub(crate) const FAILOVER_INTERVAL: Duration = Duration::from_millis(10);

/// Time before the failure.
const BEFORE: Duration = Duration::from_secs(2);

/// Time after the failure for which is measured at least, and for which all frames must arrive at the end.
const STABLE: Duration = Duration::from_secs(1);

/// Time after the last frame for frames that are in transit.
const DRAIN: Duration = Duration::from_millis(200);

/// Share of the frames before the failure that must arrive.
const ARRIVING_MIN: f64 = 0.9;

/// A sequence of frames in one direction, or in both.
struct Stream<'s> {
    /// Source hosts, destination hosts, and the frame with a number.
    directions: &'s [Direction<'s>],
    interval: Duration,
    next_due: Instant,
    /// Number of the next frame.
    next: u64,
}

struct Direction<'s> {
    from: usize,
    to: usize,
    frame: &'s dyn Fn(u64) -> Vec<u8>,
}

impl Stream<'_> {
    /// Sends the frames that are due.
    fn send_due(&mut self, network: &mut TestNetwork<'_>) -> Result<(), String> {
        while self.next_due <= clock::now() {
            for direction in self.directions {
                network.send(direction.from, (direction.frame)(self.next))?;
            }
            self.next += 1;
            self.next_due += self.interval;
        }
        Ok(())
    }

    /// Streams for `time`.
    fn run_for(&mut self, network: &mut TestNetwork<'_>, time: Duration) -> Result<(), String> {
        network
            .run_checked(clock::now() + time, |network| self.send_due(network).map(|()| false))
            .map(drop)
    }

    /// Frames that are sent in `time`.
    fn count_of(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() / self.interval.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Streams until the frames of a second have arrived, or until `deadline`. Returns the number of frames up to the last of that second, or
    /// of all: those that were sent after it are still in transit.
    fn run_until_stable(
        &mut self,
        network: &mut TestNetwork<'_>,
        failed_at: u64,
        deadline: Instant,
    ) -> Result<u64, String> {
        let stable = self.count_of(STABLE);
        loop {
            self.run_for(network, STABLE / 4)?;
            let is_over = clock::now() >= deadline;
            // Those in transit have not arrived yet.
            let until = self.next.saturating_sub(self.count_of(DRAIN));
            let from = until.saturating_sub(stable).max(failed_at);
            let is_stable = until >= failed_at + stable
                && self.directions.iter().all(|direction| {
                    let arrivals = frames::arrivals(&network.frames, direction.to);
                    let arrived = arrivals.iter().filter(|(n, _)| (from..until).contains(n));
                    arrived.count() as u64 == until - from
                });
            if is_stable {
                return Ok(until);
            }
            if is_over {
                return Ok(self.next);
            }
        }
    }

    /// Fails unless most frames have arrived so far.
    fn check_arrival(&self, network: &TestNetwork<'_>) -> Result<(), String> {
        for direction in self.directions {
            let arrived = frames::arrivals(&network.frames, direction.to).len();
            #[expect(clippy::cast_precision_loss, reason = "numbers of frames")]
            let share = arrived as f64 / self.next.max(1) as f64;
            if share < ARRIVING_MIN {
                return Err(format!(
                    "only {arrived} of {} frames arrived before the failure",
                    self.next
                ));
            }
        }
        Ok(())
    }
}

/// Section 5.4.2: network re-provisioning time.
pub(super) fn network_reprovisioning(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let (from, to) = trial.end_hosts()?;
    let mut network = trial.connect_discovered()?;
    let bytes = trial.frame_bytes();
    let hosts = &trial.topology.hosts;
    let Some((source, destination)) = hosts.get(from).zip(hosts.get(to)) else {
        return Err("the topology has no such hosts".to_owned());
    };
    let ends = FrameEnds::of(source, destination);
    let forward = |n| ends.frame(n, bytes);
    let reverse = |n| ends.reversed().frame(n, bytes);
    let directions = [
        Direction { from, to, frame: &forward },
        Direction { from: to, to: from, frame: &reverse },
    ];
    network.capture(from);
    network.capture(to);
    network.clear();
    let mut stream = Stream {
        directions: &directions,
        interval: STREAM_INTERVAL,
        next_due: clock::now(),
        next: 0,
    };
    stream.run_for(&mut network, BEFORE)?;
    stream.check_arrival(&network)?;
    let link = busiest_link(&mut network, &mut stream)?;
    let failed_at = stream.next;
    network.cut_link(link)?;
    let deadline = clock::now() + trial.time();
    let sent = stream.run_until_stable(&mut network, failed_at, deadline)?;
    network.run_for(DRAIN)?;
    let interruption = |host| {
        let arrivals = frames::arrivals(&network.frames, host);
        Interruption::of(&arrivals, failed_at, sent)
    };
    let [forward, reverse] = [to, from].map(interruption);
    let mut measured = Measured::default();
    let time = |it: Option<Interruption>| it.map(|it| it.time);
    set_or_bound(&mut measured, "forward_ms", time(forward), trial.time());
    set_or_bound(&mut measured, "reverse_ms", time(reverse), trial.time());
    let both = time(forward).zip(time(reverse)).map(|(a, b)| (a + b) / 2);
    set_or_bound(&mut measured, "reprovisioning_ms", both, trial.time());
    let lost = |it: Option<Interruption>, host| {
        it.map_or_else(|| lost_after(&network, host, failed_at, sent), |it| it.lost)
    };
    #[expect(clippy::cast_precision_loss, reason = "numbers of frames")]
    {
        measured.set("forward_lost", lost(forward, to) as f64);
        measured.set("reverse_lost", lost(reverse, from) as f64);
    }
    Ok(measured)
}

/// Frames from number `from` on that did not arrive.
fn lost_after(network: &TestNetwork<'_>, host: usize, from: u64, sent: u64) -> u64 {
    let arrivals = frames::arrivals(&network.frames, host);
    let arrived = arrivals.iter().filter(|(n, _)| (from..sent).contains(n)).count();
    (sent - from).saturating_sub(arrived as u64)
}

/// The link between switches over which most frames go.
fn busiest_link(network: &mut TestNetwork<'_>, stream: &mut Stream<'_>) -> Result<usize, String> {
    let before = network.link_frames();
    stream.run_for(network, DRAIN)?;
    let after = network.link_frames();
    let grown = before.iter().zip(&after).map(|(before, after)| after - before);
    let (link, frames) = grown.enumerate().max_by_key(|(_, frames)| *frames).unwrap_or_default();
    if frames < stream.count_of(DRAIN) / 2 {
        return Err("the frames use no link between switches".to_owned());
    }
    Ok(link)
}

/// Section 5.4.1: controller failover time.
pub(super) fn controller_failover(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    if trial.subject.row.start.port.is_some() {
        return Err(
            "a second instance of the controller cannot run: its port cannot be set (start.port)"
                .to_owned(),
        );
    }
    let (from, to) = trial.end_hosts()?;
    let Some(destination) = trial.topology.hosts.get(to) else {
        return Err("the topology has no such host".to_owned());
    };
    let (dst, bytes) = (FrameEnd::of(destination), trial.frame_bytes());
    // The instance that is running becomes the standby, and this one is active until it is killed.
    let (active, target) = second_instance(trial)?;
    let mut network = trial.connect_to(target, trial.topology.clone())?;
    network.wait_for_discovery()?;
    network.announce([from, to])?;
    let frame = |n: u64| {
        let unique = FrameEnds::unique(u32::try_from(n).unwrap_or(u32::MAX));
        FrameEnds { dst, ..unique }.frame(n, bytes)
    };
    let directions = [Direction { from, to, frame: &frame }];
    network.capture(to);
    network.clear();
    let mut stream = Stream {
        directions: &directions,
        interval: FAILOVER_INTERVAL,
        next_due: clock::now(),
        next: 0,
    };
    stream.run_for(&mut network, BEFORE)?;
    stream.check_arrival(&network)?;
    let failed_at = stream.next;
    network.set_controller(trial.subject.target);
    let (reconnected, sent) = fail_over(active, &mut network, &mut stream, trial.time())?;
    trial.subject.controller.observe();
    network.run_for(DRAIN)?;
    let arrivals = frames::arrivals(&network.frames, to);
    let interruption = Interruption::of(&arrivals, failed_at, sent);
    let mut measured = Measured::default();
    set_or_bound(&mut measured, "failover_ms", interruption.map(|it| it.time), trial.time());
    set_or_bound(&mut measured, "reconnected_ms", reconnected, trial.time());
    let lost = interruption.map_or_else(|| lost_after(&network, to, failed_at, sent), |it| it.lost);
    #[expect(clippy::cast_precision_loss, reason = "a number of frames")]
    measured.set("lost", lost as f64);
    measured.set("frame_interval_ms", milliseconds(FAILOVER_INTERVAL));
    Ok(measured)
}

/// Kills the active instance, and streams until frames arrive again. Returns the time until all switches were connected to the other
/// one, and the number of frames of [`Stream::run_until_stable`].
fn fail_over(
    active: RunningController,
    network: &mut TestNetwork<'_>,
    stream: &mut Stream<'_>,
    timeout: Duration,
) -> Result<(Option<Duration>, u64), String> {
    let (failed_at, start) = (stream.next, clock::now());
    let deadline = start + timeout;
    let all = network.topology().switches.len();
    thread::scope(|scope| {
        scope.spawn(move || drop(active));
        let mut stream_until = |network: &mut TestNetwork<'_>, connected: usize| {
            network.run_checked(deadline, |network| {
                stream.send_due(network)?;
                Ok(network.connected_switches() == connected)
            })
        };
        // The connections end when the process does.
        let is_reconnected = stream_until(network, 0)? && stream_until(network, all)?;
        let reconnected = is_reconnected.then(|| clock::now() - start);
        let sent = stream.run_until_stable(network, failed_at, deadline)?;
        Ok((reconnected, sent))
    })
}

/// Starts a second instance of the controller, with ports and a folder of its own. Returns it and its address.
fn second_instance(trial: &Trial<'_, '_>) -> Result<(RunningController, SocketAddr), String> {
    let error = |error: &dyn std::fmt::Display| format!("the second instance: {error}");
    let first = trial.subject.placeholders;
    let directory = first.directory.join("second");
    std::fs::create_dir_all(&directory).map_err(|e| error(&e))?;
    let placeholders = Placeholders {
        port: free_port().map_err(|e| error(&e))?,
        api_port: free_port().map_err(|e| error(&e))?,
        directory,
        ..first.clone()
    };
    let controller = RunningController::start(
        trial.subject.row,
        &trial.variant,
        &placeholders,
        trial.subject.version,
        trial.is_interrupted,
    )
    .map_err(|e| error(&e))?;
    Ok((controller, SocketAddr::from((Ipv4Addr::LOCALHOST, placeholders.port))))
}
