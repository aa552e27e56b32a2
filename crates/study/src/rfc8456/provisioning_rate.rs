//! Sections 5.1.6 and 5.1.7: how many paths per second are installed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use sluice_base::ordered;
use sluice_bench::paths::{Directions, NetworkPlan};
use sluice_bench::{Plan, Report};
use sluice_emu::topology::Topology;
use sluice_io::clock;

use super::frames::{self, FrameEnds};
use super::northbound::NorthboundClient;
use super::path::{self, Hop};
use super::path_requests::{PathInstaller, PathOrder};
use super::trial::Trial;
use crate::definition::PathRequestScope;
use crate::measure::{LOOPS, Measured, is_generator_the_limit};
use crate::network::TestNetwork;
use crate::network::messages;

/// Outstanding path requests, if the network has hosts for them.
const WINDOW: u32 = 256;

/// Time before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);

/// Time for the discovery of links, and again after hosts have announced themselves.
const DELAY: Duration = Duration::from_secs(3);

/// Datapath id of the first switch of the bench, so that a controller does not take its switches for those of an earlier network.
const FIRST_DATAPATH_ID: u64 = 0x8456_0001;

/// Threads that request paths, each over a connection of its own.
const REQUESTERS: usize = 4;

/// Time after the last request for flow entries to arrive.
const SETTLE: Duration = Duration::from_secs(1);

/// Interval between two frames that check whether a path is installed.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Most paths of a trial.
const PATHS_MAX: usize = 50_000;

/// Measures paths that the controller installs because of first frames.
pub(super) fn reactive_rate(
    trial: &mut Trial<'_, '_>,
    target: SocketAddr,
) -> Result<Report, String> {
    let network = NetworkPlan::from_shape(&trial.settings.topology, Directions::One)
        .map_err(|error| error.to_string())?;
    let window = network.outstanding_max.min(WINDOW);
    let (loop_time, warmup) = trial.loops(WARM_UP);
    let plan = Plan {
        targets: vec![target],
        version: trial.subject.version,
        loops: warmup + LOOPS,
        warmup,
        loop_time,
        delay: DELAY,
        dpid_offset: FIRST_DATAPATH_ID,
        pin: trial.subject.generator_cores.to_vec(),
        ..Plan::for_network(network, window)
    };
    let report = trial.bench(&plan)?;
    if report.rate.mean <= 0.0 {
        return Err("no path was installed in the measured time".to_owned());
    }
    Ok(report)
}

/// Section 5.1.6: reactive path provisioning rate.
pub(super) fn reactive(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let target = trial.subject.target;
    let report = reactive_rate(trial, target)?;
    let mut measured = Measured { warnings: report.warnings.clone(), ..Measured::default() };
    measured.set("rate", report.rate.mean);
    if is_generator_the_limit(&report) {
        measured.lower_bounds.push("rate".to_owned());
    }
    measured.set("offered_rate", report.offered.sent);
    if let Some(paths) = &report.paths {
        measured.set("flow_mods_per_s", paths.flow_mods_per_second);
    }
    Ok(measured)
}

/// What the threads that request paths need.
struct Requests<'r> {
    topology: &'r Topology,
    pairs: &'r [(usize, usize)],
    next: AtomicUsize,
    is_over: AtomicBool,
}

/// What became of the requests for paths.
#[derive(Debug, Default)]
struct Responses {
    /// Numbers of the paths whose requests were accepted.
    accepted: Vec<usize>,
    refused: usize,
    /// Why the first request was refused.
    why: Option<String>,
    /// From the beginning of the trial to the last flow entry; `None` if there was none.
    last_entry: Option<Duration>,
}

impl Responses {
    /// The figures, if `arrived` of `pairs` paths lead frames to their destination, and the trial takes `time`.
    fn record(self, arrived: usize, pairs: usize, time: Duration) -> Result<Measured, String> {
        let Some(last_entry) = self.last_entry else {
            return Err("no flow entry was sent to a switch during the trial".to_owned());
        };
        let elapsed_s = installation_time(time, last_entry, arrived >= pairs).as_secs_f64();
        let mut measured = Measured::default();
        #[expect(clippy::cast_precision_loss, reason = "numbers of paths")]
        {
            measured.set("rate", arrived as f64 / elapsed_s);
            measured.set("offered_rate", self.accepted.len() as f64 / elapsed_s);
        }
        if let Some(why) = self.why {
            let refused = self.refused;
            measured
                .warnings
                .push(format!("requests that were refused: {refused}, the first of them: {why}"));
        }
        if self.accepted.len() + self.refused >= pairs {
            measured.warnings.push(
                "all pairs of hosts were used before the trial was over: use a topology with more hosts"
                    .to_owned(),
            );
        }
        Ok(measured)
    }
}

/// The time by which the number of paths is divided: that of the trial, in which the controller may also have installed nothing. It is
/// shorter only if there was nothing more to install, and longer if flow entries came after the end.
fn installation_time(trial: Duration, last_entry: Duration, are_all_installed: bool) -> Duration {
    if are_all_installed { last_entry } else { last_entry.max(trial) }
}

/// Section 5.1.7: proactive path provisioning rate.
pub(super) fn proactive(trial: &mut Trial<'_, '_>) -> Result<Measured, String> {
    let client = trial.northbound()?;
    let topology = trial.topology.clone();
    let pairs = pairs(&topology, client.path()?.per);
    if pairs.is_empty() {
        return Err("the topology has no two hosts at different switches".to_owned());
    }
    let mut network = trial.connect()?;
    network.wait_for_discovery()?;
    // Requests for whole paths name hosts, which the controller has to know.
    if client.path()?.per == PathRequestScope::Path {
        network.announce(0..topology.hosts.len())?;
    }
    network.clear();
    let requests = Requests {
        topology: &topology,
        pairs: &pairs,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    let responses = request_all(&mut network, &client, &requests, trial.time())?;
    if let Some(why) = responses.why.as_ref().filter(|_| responses.accepted.is_empty()) {
        return Err(format!("no request for a path was accepted: {why}"));
    }
    let arrived = check_paths(&mut network, trial.frame_bytes(), &pairs, &responses.accepted)?;
    if arrived == 0 {
        return Err(
            "no path was installed: see the text of [northbound.path], or whether its interface answers before flow entries are sent"
                .to_owned(),
        );
    }
    responses.record(arrived, pairs.len(), trial.time())
}

/// Requests paths for `time`, while the network runs.
fn request_all(
    network: &mut TestNetwork<'_>,
    client: &NorthboundClient,
    requests: &Requests<'_>,
    time: Duration,
) -> Result<Responses, String> {
    let (sender, results) = channel();
    let start = clock::now();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..REQUESTERS {
            let installer = PathInstaller::new(client, requests.topology)?;
            let sender = sender.clone();
            threads.push(scope.spawn(move || request_paths(&installer, requests, &sender)));
        }
        drop(sender);
        // All pairs may have been requested before.
        let is_done =
            |_: &mut TestNetwork<'_>| requests.next.load(Ordering::Relaxed) >= requests.pairs.len();
        let ran = network.run(start + time, is_done);
        requests.is_over.store(true, Ordering::Relaxed);
        ran?;
        network.run_until_finished(&threads)
    })?;
    network.run_for(SETTLE)?;
    // The last flow entry may come before the last response, or after it.
    let entries = network.messages.iter().filter(|message| messages::is_flow_entry(message));
    let last = entries.map(|message| message.at).max();
    let last_entry = last.map(|last| last.saturating_duration_since(start));
    let mut responses = Responses { last_entry, ..Responses::default() };
    for (path, result) in results {
        match result {
            Ok(()) => responses.accepted.push(path),
            Err(error) => {
                responses.refused += 1;
                responses.why.get_or_insert(error);
            }
        }
    }
    Ok(responses)
}

/// Requests one path after the other.
fn request_paths(
    installer: &PathInstaller<'_>,
    requests: &Requests<'_>,
    results: &Sender<(usize, Result<(), String>)>,
) {
    while !requests.is_over.load(Ordering::Relaxed) {
        let number = requests.next.fetch_add(1, Ordering::Relaxed);
        let Some(&(from, to)) = requests.pairs.get(number) else { return };
        let hosts = &requests.topology.hosts;
        let Some((src, dst)) = hosts.get(from).zip(hosts.get(to)) else { return };
        let hops: Vec<Hop> = path::shortest(requests.topology, from, to).unwrap_or_default();
        let order = PathOrder { number, src: src.mac, dst: dst.mac, hops: &hops };
        if results.send((number, installer.install(order).map(drop))).is_err() {
            return;
        }
    }
}

/// Pairs of hosts at different switches. If a request is about both directions, each pair is in one of them only.
fn pairs(topology: &Topology, scope: PathRequestScope) -> Vec<(usize, usize)> {
    let n = topology.hosts.len();
    let switch = |host: usize| topology.hosts.get(host).map(|it| it.port.switch);
    // First those of which no two have a host in common, so that no controller has a reason to take them for one path.
    (1..n)
        .flat_map(|distance| (0..n).map(move |from| (from, (from + distance) % n)))
        .filter(|&(from, to)| switch(from) != switch(to))
        .filter(|&(from, to)| scope != PathRequestScope::Path || from < to)
        .take(PATHS_MAX)
        .collect()
}

/// Sends one frame over each path. Returns how many arrived by flow entries alone.
fn check_paths(
    network: &mut TestNetwork<'_>,
    bytes: usize,
    pairs: &[(usize, usize)],
    paths: &[usize],
) -> Result<usize, String> {
    for host in 0..network.topology().hosts.len() {
        network.capture(host);
    }
    network.clear();
    for &number in paths {
        let Some(&(from, to)) = pairs.get(number) else { continue };
        let hosts = &network.topology().hosts;
        let Some((src, dst)) = hosts.get(from).zip(hosts.get(to)) else { continue };
        let frame = FrameEnds::of(src, dst).frame(number as u64, bytes);
        network.send(from, frame)?;
        network.run_for(CHECK_INTERVAL)?;
    }
    network.run_for(SETTLE)?;
    let packet_ins = network.messages.iter().filter_map(messages::packet_in);
    let asked: BTreeSet<u64> =
        ordered(packet_ins.filter_map(|packet_in| frames::sequence_of(packet_in.frame)));
    let mut arrived: BTreeSet<u64> = BTreeSet::new();
    for captured in &network.frames {
        let Some(number) = frames::sequence_of(&captured.frame) else { continue };
        let to = usize::try_from(number).ok().and_then(|n| pairs.get(n)).map(|(_, to)| *to);
        if to == Some(captured.host) && !asked.contains(&number) {
            arrived.insert(number);
        }
    }
    Ok(arrived.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of paths that were installed and requested, if the trial takes 5 s.
    fn rates(
        accepted: usize,
        arrived: usize,
        pairs: usize,
        last_entry: Option<Duration>,
    ) -> Result<[f64; 2], String> {
        let accepted = (0..accepted).collect();
        let responses = Responses { accepted, last_entry, ..Responses::default() };
        let measured = responses.record(arrived, pairs, Duration::from_secs(5))?;
        Ok(["rate", "offered_rate"].map(|name| measured.figures[name].round()))
    }

    #[test]
    fn time_in_which_nothing_is_installed_counts() {
        let ms = |n| Some(Duration::from_millis(n));
        // All paths within 0.4 s, and nothing for the rest of the trial.
        assert_eq!(rates(400, 400, 12_288, ms(400)), Ok([80.0, 80.0]));
        // The same, since nothing was left to be requested.
        assert_eq!(rates(400, 400, 400, ms(400)), Ok([1000.0, 1000.0]));
        // All were requested, but not all of them installed.
        assert_eq!(rates(400, 300, 400, ms(400)), Ok([60.0, 80.0]));
        // Flow entries of paths that were requested before the end.
        assert_eq!(rates(400, 400, 12_288, ms(8000)), Ok([50.0, 50.0]));
    }

    #[test]
    fn paths_without_flow_entries_are_no_rate() {
        assert_eq!(
            rates(400, 400, 12_288, None),
            Err("no flow entry was sent to a switch during the trial".to_owned())
        );
    }

    #[test]
    fn pairs_are_unique_and_at_different_switches() {
        let topology = Topology::from_text("leafspine,2,4,4").unwrap();
        let entries = pairs(&topology, PathRequestScope::Entry);
        assert_eq!(entries.len(), 16 * 12);
        let unique: BTreeSet<_> = entries.iter().collect();
        assert_eq!(unique.len(), entries.len());
        let paths = pairs(&topology, PathRequestScope::Path);
        assert_eq!(paths.len(), 16 * 12 / 2);
        assert!(paths.iter().all(|&(from, to)| {
            topology.hosts[from].port.switch != topology.hosts[to].port.switch
                && !paths.contains(&(to, from))
        }));
    }
}
