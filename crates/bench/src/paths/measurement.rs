//! Requests paths and finds out which of them are installed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluice_emu::topology::PortRef;
use sluice_io::clock;

use super::frames::{HostAddresses, first_packet, make_answer};
use super::network::{Delivery, FollowedPath, ModelNetwork};
use super::pairs::{HostPairSequence, NextPair};
use super::requests::{PathRequest, PathRequests, RequestId};
use super::{Directions, NetworkPlan, NetworkTotals};
use crate::Plan;
use crate::counts::{ErrorCounts, RequestCounts};
use crate::distribution::Quantile;
use crate::latency::SwitchLatencies;
use crate::outstanding::OutstandingIntegral;
use crate::request_records::{LoopRequests, RequestRecorder};
use crate::timestamp::Timestamp;

/// When a destination answers the first packet, unless the reverse direction is installed by then. Long enough that a
/// controller which installs both directions at once gets no needless packet-in.
const ANSWER_DELAY: Duration = Duration::from_micros(500);

/// Pairs whose paths turn out to be installed already that are tried at a time, and the pause until the next ones.
const INSTALLED_MAX: u32 = 64;
const INSTALLED_PAUSE: Duration = Duration::from_millis(1);

/// The requests, and the network through which they go.
#[derive(Debug)]
pub(super) struct PathMeasurement {
    pub(super) network: ModelNetwork,
    pub(super) errors: ErrorCounts,
    hosts: Vec<(HostAddresses, PortRef)>,
    directions: Directions,
    window: usize,
    timeout: Duration,
    pairs: HostPairSequence,
    requests: PathRequests,
    checks: PathChecks,
    /// Answers of destinations: when they are sent, and their frames.
    answers: VecDeque<(Instant, RequestId, Vec<u8>)>,
    figures: Vec<SwitchFigures>,
    recorder: RequestRecorder,
    outstanding: OutstandingIntegral,
    answered: u64,
    totals: NetworkTotals,
}

/// Requests whose packet has arrived, and whose paths may be installed now or after the next change.
#[derive(Debug)]
struct PathChecks {
    due: Vec<RequestId>,
    /// By switch: those that its tables sent somewhere else than to the destination, or nowhere.
    waiting: Vec<Vec<RequestId>>,
    /// The number of changes of each switch at the last check.
    changes: Vec<u64>,
}

/// Figures of the requests from the hosts of one switch.
#[derive(Debug)]
struct SwitchFigures {
    counts: RequestCounts,
    latencies: SwitchLatencies,
}

impl PathMeasurement {
    pub(super) fn new(plan: &Plan, network: &NetworkPlan) -> Self {
        let topology = &network.topology;
        let hosts = topology.hosts.iter();
        let addresses = |mac, ip| HostAddresses { mac, ip };
        let model = ModelNetwork::new(plan, network);
        let n = topology.switches.len();
        let figures = || SwitchFigures {
            counts: RequestCounts::default(),
            latencies: SwitchLatencies::new(),
        };
        let window = network.window(plan.load) as usize;
        Self {
            hosts: hosts.map(|host| (addresses(host.mac, host.ipv4), host.port)).collect(),
            directions: network.directions,
            window,
            timeout: plan.timeout,
            pairs: HostPairSequence::new(&model.wiring),
            requests: PathRequests::new(window),
            network: model,
            errors: ErrorCounts::default(),
            checks: PathChecks::new(n),
            answers: VecDeque::new(),
            figures: (0..n).map(|_| figures()).collect(),
            recorder: RequestRecorder::new(plan, clock::now()),
            outstanding: OutstandingIntegral::default(),
            answered: 0,
            totals: NetworkTotals::default(),
        }
    }

    /// Addresses and ports of all hosts.
    pub(super) fn hosts(&self) -> &[(HostAddresses, PortRef)] {
        &self.hosts
    }

    /// Starts counting: the first loop starts at `start`.
    pub(super) fn begin(&mut self, start: Instant) {
        self.errors = ErrorCounts::default();
        self.recorder.set_start(start);
    }

    /// The messages of a switch's controller have been processed.
    pub(super) fn on_received(&mut self, switch: usize) {
        if let Some(out) = self.network.output(switch) {
            for reason in out.errors.drain(..) {
                self.errors.add(reason, 1);
            }
        }
        let changes = self.network.counters(switch).changes;
        self.checks.on_received(switch, changes, &mut self.requests);
    }

    /// Requests paths until the window is full. Returns when to try again, if it cannot be filled now.
    pub(super) fn request_paths(&mut self) -> Option<Instant> {
        let mut installed = 0;
        while self.requests.outstanding() < self.window {
            let now = clock::now();
            match self.pairs.next(&self.network.wiring, now) {
                NextPair::Ready(source, destination) => {
                    if !self.request_path(now, source, destination) {
                        installed += 1;
                    }
                    if installed >= INSTALLED_MAX {
                        return Some(now + INSTALLED_PAUSE);
                    }
                }
                NextPair::NotBefore(until) => {
                    self.totals.out_of_pairs += 1;
                    return Some(until);
                }
                NextPair::Busy => return None,
            }
        }
        None
    }

    /// Sends the first packet from one host to another; `false` if their path is installed already.
    fn request_path(&mut self, now: Instant, source: usize, destination: usize) -> bool {
        let (Some(&(from, at)), Some(&(to, _))) =
            (self.hosts.get(source), self.hosts.get(destination))
        else {
            return false;
        };
        let Some(id) = self.requests.add(source, destination, now) else { return false };
        self.network.send_frame(now, at, &first_packet(from, to, id.0));
        if self.take_deliveries(Some(id)) {
            self.totals.already_installed += 1;
            self.requests.remove(id);
            self.follow(now, source, destination, id);
            self.network.expire_matched(now, [from, to]);
            self.pairs.release(source, destination);
            return false;
        }
        if let Some(figures) = self.figures.get_mut(at.switch) {
            figures.counts.sent += 1;
        }
        self.outstanding.change(self.recorder.timestamp(now), 1);
        true
    }

    /// Processes what the messages of the controller have caused: packets that arrived, paths that are installed, answers
    /// that are due.
    pub(super) fn process(&mut self) {
        self.take_deliveries(None);
        if !self.checks.due.is_empty() {
            let now = clock::now();
            while let Some(id) = self.checks.due.pop() {
                self.check(now, id);
            }
        }
        self.send_answers();
    }

    /// Records packets that have arrived at their destinations; whether that of `new` is among them. The paths of all
    /// others are to be checked.
    fn take_deliveries(&mut self, new: Option<RequestId>) -> bool {
        let mut has_arrived = false;
        while let Some(Delivery { request, at }) = self.network.take_delivery() {
            let Some(request) = self.requests.get_mut(request) else { continue };
            let is_there = self.hosts.get(request.destination).is_some_and(|host| host.1 == at);
            if !is_there || std::mem::replace(&mut request.is_delivered, true) {
                continue;
            }
            if new == Some(request.id) {
                has_arrived = true;
            } else {
                self.checks.set_due(request);
            }
        }
        has_arrived
    }

    /// Checks whether the path of a request is installed.
    fn check(&mut self, now: Instant, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.is_due = false;
        let (source, destination) = (request.source, request.destination);
        match self.follow(now, source, destination, id) {
            PathState::Installed => self.complete(now, id),
            PathState::Missing { answer } => {
                if let Some(request) = self.requests.get_mut(id) {
                    self.checks.wait(request, self.network.visited());
                }
                if let Some(frame) = answer {
                    self.schedule_answer(now, id, frame);
                }
            }
        }
        self.network.forget_matched();
    }

    /// Follows the first packet of a request through the flow tables, and, if required, the answer to it.
    fn follow(
        &mut self,
        now: Instant,
        source: usize,
        destination: usize,
        id: RequestId,
    ) -> PathState {
        let missing = PathState::Missing { answer: None };
        let (Some(&(from, source_at)), Some(&(to, destination_at))) =
            (self.hosts.get(source), self.hosts.get(destination))
        else {
            return missing;
        };
        if self.directions == Directions::None {
            return PathState::Installed;
        }
        let packet = first_packet(from, to, id.0);
        let FollowedPath::Arrives(mut frame) =
            self.network.follow(now, source_at, &packet, destination_at)
        else {
            return missing;
        };
        if self.directions == Directions::One {
            return PathState::Installed;
        }
        make_answer(&mut frame);
        match self.network.follow(now, destination_at, &frame, source_at) {
            FollowedPath::Arrives(_) => PathState::Installed,
            FollowedPath::Ends => PathState::Missing { answer: Some(frame) },
            FollowedPath::LeadsElsewhere => missing,
        }
    }

    fn complete(&mut self, now: Instant, id: RequestId) {
        let Some(request) = self.requests.remove(id) else { return };
        let PathRequest { source, destination, sent_at, .. } = request;
        let (now_ticks, sent_at) =
            (self.recorder.timestamp(now), self.recorder.timestamp_of_past(sent_at));
        let is_measured = self.recorder.record_answers(sent_at, 1);
        self.answered += 1;
        self.outstanding.change(now_ticks, -1);
        if let Some(figures) = self.figures_of(source) {
            figures.counts.answered += 1;
            if is_measured {
                figures.latencies.answered.record_n(now_ticks.wrapping_sub(sent_at), 1);
            }
        }
        if let (Some(&(from, _)), Some(&(to, _))) =
            (self.hosts.get(source), self.hosts.get(destination))
        {
            self.network.expire_matched(now, [from, to]);
        }
        self.pairs.release(source, destination);
    }

    fn figures_of(&mut self, source: usize) -> Option<&mut SwitchFigures> {
        let at = self.hosts.get(source)?.1;
        self.figures.get_mut(at.switch)
    }

    /// Schedules the answer of the destination, once for each request.
    fn schedule_answer(&mut self, now: Instant, id: RequestId, frame: Vec<u8>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if !std::mem::replace(&mut request.is_answered, true) {
            self.answers.push_back((now + ANSWER_DELAY, id, frame));
        }
    }

    /// When the next answer is due.
    pub(super) fn next_answer(&self) -> Option<Instant> {
        self.answers.front().map(|(due, ..)| *due)
    }

    fn send_answers(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let now = clock::now();
        while self.next_answer().is_some_and(|due| due <= now) {
            let Some((_, id, frame)) = self.answers.pop_front() else { break };
            let Some(request) = self.requests.get_mut(id) else { continue };
            let Some(&(_, at)) = self.hosts.get(request.destination) else { continue };
            self.totals.answers += 1;
            self.network.send_frame(now, at, &frame);
        }
        self.take_deliveries(None);
    }

    /// Expires requests that timed out.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        let now_ticks = self.recorder.timestamp(now);
        self.give_up(now, self.timeout, now_ticks);
    }

    /// Gives up all outstanding requests: nobody knows when their paths were installed.
    pub(super) fn give_up_all(&mut self, now: Instant) {
        // With the last timestamp before, since timestamps may have wrapped.
        self.give_up(now, Duration::ZERO, self.recorder.last_timestamp());
    }

    /// Gives up requests of at least this age.
    fn give_up(&mut self, now: Instant, age_min: Duration, now_ticks: Timestamp) {
        for request in self.requests.expire(now, age_min) {
            self.pairs.release(request.source, request.destination);
            self.outstanding.change(now_ticks, -1);
            let sent_at = self.recorder.timestamp_of_past(request.sent_at);
            let is_measured = self.recorder.record_unanswered(sent_at);
            if let Some(figures) = self.figures_of(request.source) {
                figures.counts.never_answered += 1;
                figures.latencies.unanswered += u64::from(is_measured);
            }
        }
        let requests = &mut self.requests;
        self.checks.retain(|id| requests.get_mut(id).is_some());
    }

    pub(super) fn outstanding(&self) -> usize {
        self.requests.outstanding()
    }

    /// Outstanding requests integrated over time until `now`, in request-ticks.
    pub(super) fn outstanding_area(&mut self, now: Instant) -> i64 {
        self.outstanding.area_until(self.recorder.timestamp(now))
    }

    /// Requests answered since the first.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    pub(super) fn answered_by_switch(&self) -> Vec<u64> {
        self.figures.iter().map(|figures| figures.counts.answered).collect()
    }

    /// Requests and replies of one switch.
    pub(super) fn switch_counts(&self, switch: usize) -> RequestCounts {
        self.figures.get(switch).map(|figures| figures.counts).unwrap_or_default()
    }

    /// Median, 99th percentile and maximum of the latency of one switch.
    pub(super) fn switch_latency(&self, switch: usize, unanswered_min_ns: u64) -> [Quantile; 3] {
        let latencies = self.figures.get(switch).map(|figures| &figures.latencies);
        [0.5, 0.99, 1.0].map(|q| match latencies {
            Some(latencies) => latencies.quantile(q, unanswered_min_ns),
            None => Quantile::Exactly(0),
        })
    }

    /// The latencies of the requests of a loop that were answered until now.
    pub(super) fn latencies(&self, number: u32) -> Option<Histogram<u64>> {
        self.recorder.latencies(number)
    }

    /// What became of the requests of each loop, and the smallest age at which a request was given up.
    pub(super) fn take_records(&mut self) -> (Vec<LoopRequests>, u64) {
        self.recorder.take()
    }

    /// Figures of the whole run.
    pub(super) fn totals(&self) -> NetworkTotals {
        NetworkTotals {
            refused_messages: self.network.total(|counters| counters.errors),
            looping_frames: self.network.looping_frames(),
            ..self.totals
        }
    }
}

/// Whether a path is installed.
#[derive(Debug)]
enum PathState {
    Installed,
    Missing {
        /// The answer of the destination, which the flow tables would not send to the source.
        answer: Option<Vec<u8>>,
    },
}

impl PathChecks {
    fn new(switches: usize) -> Self {
        let waiting = (0..switches).map(|_| vec![]).collect();
        Self { due: vec![], waiting, changes: vec![0; switches] }
    }

    /// The path of a request is to be checked.
    fn set_due(&mut self, request: &mut PathRequest) {
        if !std::mem::replace(&mut request.is_due, true) {
            self.due.push(request.id);
        }
    }

    /// Messages for a switch were processed, which has been changed `changes` times: the paths of requests that wait for that are
    /// to be checked again.
    fn on_received(&mut self, switch: usize, changes: u64, requests: &mut PathRequests) {
        let before = self.changes.get_mut(switch).map(|known| std::mem::replace(known, changes));
        if before == Some(changes) {
            return;
        }
        let Some(waiting) = self.waiting.get_mut(switch) else { return };
        let mut due = std::mem::take(waiting);
        for id in due.drain(..) {
            let Some(request) = requests.get_mut(id) else { continue };
            request.waits_for.retain(|&it| it != switch);
            self.set_due(request);
        }
        if let Some(waiting) = self.waiting.get_mut(switch) {
            // The buffer is used again.
            *waiting = due;
        }
    }

    /// Checks a request again when one of these switches changes. Any of them may complete the path: each sends a copy of the packet.
    fn wait(&mut self, request: &mut PathRequest, switches: &[usize]) {
        for &switch in switches {
            let Some(waiting) = self.waiting.get_mut(switch) else { continue };
            if !request.waits_for.contains(&switch) {
                request.waits_for.push(switch);
                waiting.push(request.id);
            }
        }
    }

    fn retain(&mut self, mut is_outstanding: impl FnMut(RequestId) -> bool) {
        for list in &mut self.waiting {
            list.retain(|&id| is_outstanding(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{
        Action, Encoder, Field, FlowMod, Instruction, Message, MessageType, PacketOut, PortNo,
        Version,
    };

    use super::*;
    use crate::paths::wiring::PortPeer;

    const VERSION: Version = Version::V1_3;

    /// The first request.
    const FIRST: RequestId = RequestId(1 << 32);

    /// A network whose switches have completed their handshakes, with a window of one request.
    fn measurement(shape: &str, directions: Directions) -> (PathMeasurement, Instant) {
        let network = NetworkPlan::from_shape(shape, directions).unwrap();
        let plan = Plan { version: VERSION, ..Plan::for_network(network.clone(), 1) };
        let mut measurement = PathMeasurement::new(&plan, &network);
        let now = clock::now();
        measurement.begin(now);
        for switch in 0..network.topology.switches.len() {
            measurement.network.on_connected(now, switch);
            let (mut tx, mut xid) = (vec![], 1);
            let mut out = Encoder::new(&mut tx, VERSION, &mut xid);
            out.raw_message(MessageType::HELLO, 1, &[]).unwrap();
            out.features_request();
            measurement.network.on_control_bytes(now, switch, &tx).unwrap();
            assert!(measurement.network.is_ready(switch));
        }
        (measurement, now)
    }

    /// The controller sends a message to a switch.
    fn send(measurement: &mut PathMeasurement, now: Instant, switch: usize, message: &Message) {
        let (mut tx, mut xid) = (vec![], 1);
        message.encode(7, &mut Encoder::new(&mut tx, VERSION, &mut xid)).unwrap();
        measurement.network.on_control_bytes(now, switch, &tx).unwrap();
        measurement.on_received(switch);
        measurement.process();
    }

    /// A flow entry that sends packets to a host out of several ports.
    fn entry(to: HostAddresses, ports: &[PortNo]) -> Message {
        let actions: Vec<_> = ports.iter().map(|&port| Action::output(port)).collect();
        Message::FlowMod(FlowMod {
            matching: [Field::eth_dst(to.mac)].into(),
            instructions: vec![Instruction::apply(actions)],
            ..FlowMod::default()
        })
    }

    /// Port numbers of `switch` that lead to another switch, with that.
    fn links(measurement: &PathMeasurement, switch: usize) -> Vec<(PortNo, usize)> {
        let peer = |n| match measurement.network.wiring.peer(switch, PortNo(n)) {
            PortPeer::Switch(there) => Some((PortNo(n), there.switch)),
            PortPeer::Host | PortPeer::Unconnected => None,
        };
        (1..64).filter_map(peer).collect()
    }

    #[test]
    fn a_path_that_one_of_several_copies_takes_is_noticed_whichever_switch_completes_it() {
        for completed_by in [0, 1] {
            let (mut measurement, now) = measurement("leafspine,2,2,1", Directions::One);
            assert_eq!(measurement.request_paths(), None);
            let [(_, from), (to, at)] = [measurement.hosts[0], measurement.hosts[1]];
            // The first packet is sent to its destination, and the first leaf copies further ones to both spines.
            let up = links(&measurement, from.switch);
            let [first, second] = up.as_slice() else { panic!("{up:?}") };
            let copies = entry(to, &[first.0, second.0]);
            send(&mut measurement, now, from.switch, &copies);
            send(&mut measurement, now, at.switch, &entry(to, &[at.port]));
            let packet = first_packet(measurement.hosts[0].0, to, FIRST.0);
            let packet_out = Message::PacketOut(PacketOut {
                buffer_id: None,
                matching: [Field::in_port(PortNo::CONTROLLER)].into(),
                actions: vec![Action::output(at.port)],
                data: packet.to_vec(),
            });
            send(&mut measurement, now, at.switch, &packet_out);
            assert_eq!(measurement.answered(), 0, "no spine forwards it yet");
            let spine = up[completed_by].1;
            let down = links(&measurement, spine);
            let down = down.iter().find(|link| link.1 == at.switch).unwrap().0;
            send(&mut measurement, now, spine, &entry(to, &[down]));
            assert_eq!(measurement.answered(), 1, "spine {completed_by}");
        }
    }

    #[test]
    fn a_request_is_registered_once_at_each_switch_however_often_it_is_checked() {
        let (mut measurement, now) = measurement("linear,3,1", Directions::One);
        measurement.request_paths();
        measurement.requests.get_mut(FIRST).unwrap().is_delivered = true;
        let (to, at) = measurement.hosts[2];
        send(&mut measurement, now, at.switch, &entry(to, &[at.port]));
        measurement.check(now, FIRST);
        let out = links(&measurement, 0)[0].0;
        for _ in 0..5 {
            send(&mut measurement, now, 0, &entry(to, &[out]));
        }
        let waiting = measurement.checks.waiting.iter().map(Vec::len);
        assert_eq!(waiting.collect::<Vec<_>>(), [1, 1, 0]);
    }
}
