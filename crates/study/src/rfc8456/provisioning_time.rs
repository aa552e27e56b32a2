//! Sections 5.1.4 and 5.1.5: how long it takes until a path is installed.

use std::thread;
use std::time::{Duration, Instant};

use sluice_emu::live::RecordedMessage;
use sluice_io::clock;

use super::frames::{self, FrameEnds};
use super::northbound::quoted;
use super::path;
use super::path_requests::{PathInstaller, PathOrder};
use super::trial::{Trial, milliseconds};
use crate::definition::PathRequestScope;
use crate::measure::Measured;
use crate::network::TestNetwork;
use crate::network::messages;

/// Time after the arrival of the first frame in which further responses of the controller belong to the same path.
const QUIET: Duration = Duration::from_millis(200);

/// Time for a frame over an installed path.
const FRAME_TIMEOUT: Duration = Duration::from_millis(500);

/// Where a path begins and ends, and what is sent over it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathEnds {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) frame_bytes: usize,
}

impl PathEnds {
    pub(super) fn of(trial: &Trial<'_, '_>) -> Result<Self, String> {
        let (from, to) = trial.end_hosts()?;
        Ok(Self { from, to, frame_bytes: trial.frame_bytes() })
    }

    /// A frame from one end to the other.
    fn frame(self, network: &TestNetwork<'_>, sequence: u64) -> Vec<u8> {
        let host = |n| network.topology().hosts.get(n);
        let ends = host(self.from).zip(host(self.to));
        ends.map_or_else(Vec::new, |(from, to)| {
            FrameEnds::of(from, to).frame(sequence, self.frame_bytes)
        })
    }
}

/// Times of a path that the controller installed because of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReactivePath {
    /// From the first packet-in of the frame to the last flow entry.
    pub(super) path: Duration,
    /// Flow entries.
    pub(super) entries: usize,
}

impl ReactivePath {
    /// Of the recorded messages; `sequence` is the number of the frame.
    pub(super) fn of(messages: &[RecordedMessage], sequence: u64) -> Result<Self, String> {
        let is_request = |message: &&RecordedMessage| is_packet_in_of(message, sequence);
        let Some(first) = messages.iter().find(is_request).map(|message| message.at) else {
            return Err(
                "the first frame caused no packet-in: a flow entry sent it to its destination"
                    .to_owned(),
            );
        };
        let entries =
            || messages.iter().filter(|it| it.at >= first).filter(|it| messages::is_flow_entry(it));
        let Some(last) = entries().map(|message| message.at).max() else {
            return Err("the controller installed no flow entry".to_owned());
        };
        Ok(Self { path: last.saturating_duration_since(first), entries: entries().count() })
    }
}

/// Whether this is a packet-in of the frame with this number.
pub(super) fn is_packet_in_of(message: &RecordedMessage, sequence: u64) -> bool {
    messages::packet_in(message)
        .is_some_and(|packet_in| frames::sequence_of(packet_in.frame) == Some(sequence))
}

/// Sends a frame, and waits until it has arrived and the controller has installed the path. Returns the times, and that from
/// sending the frame to its arrival.
pub(super) fn provision_reactively(
    network: &mut TestNetwork<'_>,
    ends: PathEnds,
    timeout: Duration,
) -> Result<(ReactivePath, Duration), String> {
    network.capture(ends.to);
    network.clear();
    let frame = ends.frame(network, 0);
    network.run_once_now()?;
    let sent_at = network.send(ends.from, frame)?;
    let arrived = arrival(network, ends.to, 0, sent_at + timeout)?;
    let Some(arrived) = arrived else {
        let seconds = timeout.as_secs_f64();
        return Err(format!("the first frame did not arrive within {seconds} s"));
    };
    network.run_for(QUIET)?;
    let path = ReactivePath::of(&network.messages, 0)?;
    Ok((path, arrived.saturating_duration_since(sent_at)))
}

/// When a frame arrived, if it did until `deadline`.
fn arrival(
    network: &mut TestNetwork<'_>,
    host: usize,
    sequence: u64,
    deadline: Instant,
) -> Result<Option<Instant>, String> {
    let mut at = None;
    network.run(deadline, |network| {
        let arrivals = frames::arrivals(&network.frames, host);
        at = arrivals.into_iter().find(|(n, _)| *n == sequence).map(|(_, at)| at);
        at.is_some()
    })?;
    Ok(at)
}

/// Whether a frame arrives by flow entries alone.
fn is_installed(network: &mut TestNetwork<'_>, ends: PathEnds) -> Result<bool, String> {
    const SEQUENCE: u64 = 1;
    network.clear();
    let frame = ends.frame(network, SEQUENCE);
    network.run_once_now()?;
    let sent_at = network.send(ends.from, frame)?;
    let arrived = arrival(network, ends.to, SEQUENCE, sent_at + FRAME_TIMEOUT)?;
    let asked = network.messages.iter().any(|message| is_packet_in_of(message, SEQUENCE));
    Ok(arrived.is_some() && !asked)
}

/// The warning that flow entries do not send a frame to its destination.
const NOT_INSTALLED: &str = "a second frame of the same addresses was not sent to its destination by flow entries alone: \
     the path was not installed as a whole";

/// Section 5.1.4: reactive path provisioning time.
pub(super) fn reactive(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let ends = PathEnds::of(trial)?;
    let mut network = trial.connect_discovered()?;
    let (path, frame) = provision_reactively(&mut network, ends, trial.time())?;
    let mut measured = Measured::default();
    measured.set("path_ms", milliseconds(path.path));
    measured.set("frame_ms", milliseconds(frame));
    #[expect(clippy::cast_precision_loss, reason = "a number of flow entries")]
    measured.set("entries", path.entries as f64);
    if !is_installed(&mut network, ends)? {
        measured.warnings.push(NOT_INSTALLED.to_owned());
    }
    Ok(measured)
}

/// Section 5.1.5: proactive path provisioning time.
pub(super) fn proactive(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let client = trial.northbound()?;
    let ends = PathEnds::of(trial)?;
    let topology = trial.topology.clone();
    let installer = PathInstaller::new(&client, &topology)?;
    let hops = path::shortest(&topology, ends.from, ends.to)
        .ok_or_else(|| "the topology has no path between the hosts".to_owned())?;
    let (Some(from), Some(to)) = (topology.hosts.get(ends.from), topology.hosts.get(ends.to))
    else {
        return Err("the topology has no such hosts".to_owned());
    };
    let mut network = trial.connect()?;
    network.wait_for_discovery()?;
    // A request for a whole path names hosts, which the controller has to know.
    if client.path()?.per == PathRequestScope::Path {
        network.announce([ends.from, ends.to])?;
    }
    network.capture(ends.to);
    network.clear();
    let order = PathOrder { number: 0, src: from.mac, dst: to.mac, hops: &hops };
    let deadline = clock::now() + trial.time();
    let request = thread::scope(|scope| {
        let request = scope.spawn(|| {
            let start = clock::now();
            installer.install(order).map(|response| (start, clock::now(), response))
        });
        let is_done = |network: &mut TestNetwork<'_>| {
            request.is_finished() && hops.iter().all(|hop| has_entry(&network.messages, hop.switch))
        };
        // Without all flow entries, the request may say why.
        network.run(deadline, is_done)?;
        request.join().map_err(|_| "the thread of the request failed".to_owned())?
    });
    let (start, end, response) = request?;
    network.run_for(QUIET)?;
    let entries = network.messages.iter().filter(|message| messages::is_flow_entry(message));
    let entries: Vec<_> = entries.map(|message| message.at).collect();
    let last = entries.iter().max().ok_or_else(|| {
        format!(
            "the request was accepted, but no flow entry was sent to a switch; the response: {}",
            quoted(&response)
        )
    })?;
    let mut measured = Measured::default();
    measured.set("path_ms", milliseconds(last.saturating_duration_since(start)));
    measured.set("response_ms", milliseconds(end.saturating_duration_since(start)));
    #[expect(clippy::cast_precision_loss, reason = "a number of flow entries")]
    measured.set("entries", entries.len() as f64);
    if !is_installed(&mut network, ends)? {
        return Err(
            "the flow entries do not send a frame to its destination: see the text of [northbound.path]"
                .to_owned(),
        );
    }
    Ok(measured)
}

/// Whether a switch has received a flow entry.
fn has_entry(messages: &[RecordedMessage], switch: usize) -> bool {
    messages.iter().any(|message| message.switch == switch && messages::is_flow_entry(message))
}

#[cfg(test)]
mod tests {
    use sluice_openflow::FlowModCommand;

    use super::*;
    use crate::network::messages::tests::{flow_mod, packet_in_of};

    #[test]
    fn the_path_takes_from_the_first_packet_in_to_the_last_flow_entry() {
        let start = clock::now();
        let us = |n| start + Duration::from_micros(n);
        let frame = FrameEnds::unique(1).frame(5, 128);
        let messages = [
            // Of something else.
            flow_mod(us(10), 0, FlowModCommand::ADD),
            packet_in_of(us(20), 0, 1, &FrameEnds::unique(1).frame(4, 128)),
            packet_in_of(us(100), 0, 1, &frame),
            flow_mod(us(150), 2, FlowModCommand::ADD),
            packet_in_of(us(170), 1, 1, &frame),
            flow_mod(us(190), 0, FlowModCommand::ADD),
            flow_mod(us(200), 0, FlowModCommand::DELETE),
        ];
        let path = ReactivePath::of(&messages, 5).unwrap();
        assert_eq!(path, ReactivePath { path: Duration::from_micros(90), entries: 2 });
        assert!(has_entry(&messages, 2) && !has_entry(&messages, 1));
        let error = ReactivePath::of(&messages[..3], 5).unwrap_err();
        assert_eq!(error, "the controller installed no flow entry");
        assert!(ReactivePath::of(&messages[..2], 5).unwrap_err().contains("no packet-in"));
    }
}
