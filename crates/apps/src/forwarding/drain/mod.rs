//! Takes cables out of service: moves the paths over a drained cable to others, and says when nothing uses it any more.
//!
//! [`Routes`](sluice_sdk::routes::Routes) and the spanning tree avoid the cable as soon as its record is published, so no new path leads
//! over it. The worker of the switch at each end lists the flow entries that send into the cable, since no worker remembers paths, and
//! moves their flows ([`moves`]). It does so in rounds, until none is left: workers that have not received the record yet may install
//! more. Then it watches the counters of the port. `docs/adr/0034-drained-links.md` has the reasons.

mod moves;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::flow_stats;
use sluice_openflow::{
    DatapathId, FlowDesc, Message, Multipart, MultipartReply, MultipartRequest, PortStatsRequest,
};
use sluice_sdk::routes::Hop;
use sluice_sdk::view::{Cable, DrainProgress, DrainedLink, HostId, NetworkView, SwitchPort};
use sluice_sdk::{Answer, LISTED_ENTRIES_MAX, Network, Ticket};

use super::flood::is_edge;
use super::flow::Flow;
use super::flow_entries::{self, EntryFilter, EntryPage, EntrySelector};
use super::{Forwarding, Matching, group_streams, tree};
use moves::{Moves, PlannedMove};

/// How long a switch may take to list flow entries and counters.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Flows that are moved in one round: some megabytes. Others are moved in the next one.
const MOVES_MAX: usize = 4096;

/// Time after which old entries are deleted: packets in flight towards them have arrived by then.
const SETTLING_TIME: Duration = Duration::from_secs(1);

/// Time between two rounds while something may use the cable, and between two samples of counters.
const ROUND_INTERVAL: Duration = Duration::from_secs(2);

/// The same when nothing does.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// Packets per second of a port that is quiet: link probes and keep-alives of switches.
const QUIET_PACKETS_PER_S: u64 = 5;

/// The drained cables that end at switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Drains {
    ends: BTreeMap<SwitchPort, DrainEnd>,
}

/// An end of a drained cable.
#[derive(Debug)]
struct DrainEnd {
    cable: Cable,
    step: Step,
    /// Entries that are to be listed in this round.
    pages: Vec<EntryPage>,
    found: FoundEntries,
    /// The packets that the port had sent, and when.
    sample: Option<(Instant, u64)>,
    is_quiet: bool,
    /// Whether entries for packets that arrive from the cable were deleted.
    is_reverse_deleted: bool,
}

/// The entries that were listed in this round.
#[derive(Debug, Default)]
struct FoundEntries {
    /// Flows that are to be moved.
    to_move: Vec<PlannedMove>,
    /// Entries that are to be deleted.
    to_delete: Vec<FlowDesc>,
    /// Entries for which there is no other path.
    kept: u32,
    /// All of forwarding.
    own: u32,
    /// Flow entries of other applications and programs.
    foreign: u32,
}

/// What an end waits for.
#[derive(Debug)]
enum Step {
    /// The next round.
    Due(Instant),
    /// The number of entries of a page.
    Counting(Ticket, EntryPage),
    /// The entries of a page.
    Listing(Ticket),
    /// New paths of the flows.
    Moving(Moves),
    /// That packets in flight arrive, so that these entries can be deleted.
    Settling(Instant, Vec<FlowDesc>),
    /// The counters of the port.
    Sampling(Ticket),
}

/// What is to be done about a flow entry.
enum Plan {
    Move(PlannedMove),
    /// There is no other path.
    Keep,
    /// Its path cannot be found from the entry alone. The next packet goes to the controller, which installs one.
    Delete(FlowDesc),
}

impl DrainEnd {
    fn new(cable: Cable, now: Instant) -> Self {
        Self {
            cable,
            step: Step::Due(now),
            pages: Vec::new(),
            found: FoundEntries::default(),
            sample: None,
            is_quiet: false,
            is_reverse_deleted: false,
        }
    }

    fn begin_round(&mut self, at: SwitchPort, network: &mut Network) {
        self.pages = vec![EntryPage::to_port(at.port)];
        self.found = FoundEntries::default();
        self.count_next_page(at, network);
    }

    /// Requests the number of entries of the next page. Returns `false` if there is none.
    fn count_next_page(&mut self, at: SwitchPort, network: &mut Network) -> bool {
        let Some(page) = self.pages.pop() else { return false };
        let request = MultipartRequest::AggregateStats(EntrySelector::Listed.page_request(page));
        self.step = Step::Counting(send(at, request, network), page);
        true
    }

    /// Handles the number of entries of a page: they are listed, or split if they are too many.
    fn on_count(
        &mut self,
        at: SwitchPort,
        page: EntryPage,
        (count, selector): (Option<u32>, EntrySelector),
        network: &mut Network,
    ) {
        if let Some(count) = count.filter(|&count| count > LISTED_ENTRIES_MAX) {
            let info = network.view().switch(at.switch);
            let ports: Vec<_> = info.into_iter().flat_map(|it| it.ports.keys().copied()).collect();
            match page.split(selector, &ports) {
                Some(pages) => self.pages.extend(pages),
                None => self.found.own = self.found.own.saturating_add(count),
            }
        } else if count != Some(0) {
            let request = MultipartRequest::FlowDesc(EntrySelector::Listed.page_request(page));
            self.step = Step::Listing(send(at, request, network));
        }
    }

    /// Handles the entries of a page. Returns those of paths; `None` if they are not known.
    fn on_list(&mut self, answer: &Answer) -> Option<Vec<FlowDesc>> {
        let Answer::Multipart(reply) = answer else { return None };
        let mut paths = Vec::new();
        for entry in flow_stats(reply.version(), reply.kind(), reply.body(), 0) {
            let entry = entry.ok()?;
            let Ok(entry) = entry.to_flow_desc() else {
                self.found.foreign += 1;
                continue;
            };
            let is_path = flow_entries::is_ours(entry.cookie);
            if !is_path && !tree::is_ours(entry.cookie) && !group_streams::is_ours(entry.cookie) {
                self.found.foreign += 1;
                continue;
            }
            self.found.own += 1;
            if is_path {
                paths.push(entry);
            }
        }
        Some(paths)
    }

    /// Handles the counters of the port.
    fn on_sample(&mut self, answer: &Answer, now: Instant) {
        let sent = match answer {
            Answer::Multipart(reply) => match reply.parse() {
                Ok(MultipartReply::PortStats { ports }) => ports.first().map(|it| it.tx_packets),
                _ => None,
            },
            _ => None,
        };
        let sample = sent.map(|sent| (now, sent));
        let (before, sample) = (std::mem::replace(&mut self.sample, sample), sample);
        self.is_quiet = before.zip(sample).is_some_and(|((then, before), (now, sent))| {
            let seconds = now.saturating_duration_since(then).as_secs().max(1);
            sent.saturating_sub(before) <= QUIET_PACKETS_PER_S * seconds
        });
    }

    /// When the next round begins.
    fn next_round(&self, progress: &DrainProgress, now: Instant) -> Step {
        let is_idle = progress.is_done() && self.is_reverse_deleted;
        Step::Due(now + if is_idle { IDLE_INTERVAL } else { ROUND_INTERVAL })
    }
}

/// Sends a request to the switch of an end.
fn send(at: SwitchPort, request: MultipartRequest, network: &mut Network) -> Ticket {
    let request = Message::MultipartRequest(Multipart::single(request));
    network.request(at.switch, request, LIST_TIMEOUT)
}

impl Forwarding {
    /// A cable is to carry no traffic from now on, or may carry some again.
    pub(super) fn on_drain(&mut self, cable: Cable, now: Instant, network: &mut Network) {
        let is_drained = network.view().is_drained(cable);
        for at in cable.ends() {
            let is_known = self.drains.ends.get(&at).is_some_and(|end| end.cable == cable);
            if is_drained && self.switches.selector(at.switch).is_some() {
                if !is_known {
                    // Another cable may have been in this port.
                    self.drains.ends.insert(at, DrainEnd::new(cable, now));
                    network.publish_record::<DrainProgress>(now, at, None);
                }
                self.advance_drain(at, now, network);
            } else if is_known {
                self.drains.ends.remove(&at);
                network.publish_record::<DrainProgress>(now, at, None);
            }
        }
    }

    /// A switch has connected to this worker.
    pub(super) fn drain_at_switch(&mut self, id: DatapathId, now: Instant, network: &mut Network) {
        let cables: Vec<_> = network.view().drained_cables().map(|(cable, _)| cable).collect();
        for cable in cables.into_iter().filter(|it| it.ends().iter().any(|at| at.switch == id)) {
            self.on_drain(cable, now, network);
        }
    }

    /// A switch of this worker has disconnected.
    pub(super) fn forget_drains(&mut self, id: DatapathId, now: Instant, network: &mut Network) {
        let ends = self.drains.ends.range(SwitchPort::all_of(id)).map(|(&at, _)| at);
        for at in ends.collect::<Vec<_>>() {
            self.drains.ends.remove(&at);
            network.publish_record::<DrainProgress>(now, at, None);
        }
    }

    /// Performs what is due at the ends of a switch.
    pub(super) fn tick_drains(&mut self, id: DatapathId, now: Instant, network: &mut Network) {
        let ends = self.drains.ends.range(SwitchPort::all_of(id)).map(|(&at, _)| at);
        for at in ends.collect::<Vec<_>>() {
            self.advance_drain(at, now, network);
            self.delete_reverse_entries(at, now, network);
        }
    }

    /// Handles the answer to a request about a drained cable.
    pub(super) fn on_drain_answer(
        &mut self,
        ticket: Ticket,
        answer: &Answer,
        now: Instant,
        network: &mut Network,
    ) {
        let is_awaited = |end: &mut DrainEnd| match &mut end.step {
            Step::Counting(of, _) | Step::Listing(of) | Step::Sampling(of) => *of == ticket,
            Step::Moving(moves) => moves.on_answer(ticket, answer),
            Step::Due(_) | Step::Settling(..) => false,
        };
        let found =
            self.drains.ends.iter_mut().find_map(|(at, end)| is_awaited(end).then_some(*at));
        let Some(at) = found else { return };
        let selector = self.switches.selector(at.switch).unwrap_or(EntrySelector::Listed);
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        let is_answered = matches!(answer, Answer::Multipart(_) | Answer::Refused(_));
        match end.step {
            Step::Counting(..) if !is_answered => return self.repeat_round(at, now, network),
            Step::Counting(_, page) => {
                let count = match answer {
                    Answer::Multipart(reply) => match reply.parse() {
                        Ok(MultipartReply::AggregateStats(sum)) => sum.stats.flow_count(),
                        _ => None,
                    },
                    _ => None,
                };
                end.on_count(at, page, (count, selector), network);
                if !matches!(end.step, Step::Listing(_)) {
                    self.list_next_or_move(at, now, network);
                }
            }
            Step::Listing(_) => {
                let Some(paths) = end.on_list(answer) else {
                    return self.repeat_round(at, now, network);
                };
                self.plan_moves(at, paths, network.view());
                self.list_next_or_move(at, now, network);
            }
            Step::Sampling(_) => {
                end.on_sample(answer, now);
                self.publish_progress(at, None, now, network);
            }
            Step::Due(_) | Step::Moving(_) | Step::Settling(..) => {}
        }
        self.advance_drain(at, now, network);
    }

    /// Begins again later, since nothing is known of the entries: the switch may be too busy.
    fn repeat_round(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        if let Some(end) = self.drains.ends.get_mut(&at) {
            end.step = Step::Due(now + ROUND_INTERVAL);
            network.publish_record::<DrainProgress>(now, at, None);
        }
    }

    /// Goes on with what an end does not have to wait for any more.
    fn advance_drain(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        match &mut end.step {
            Step::Due(due) if now >= *due => end.begin_round(at, network),
            Step::Moving(moves) => {
                if let Some(moved) = moves.advance(network) {
                    self.counters.paths_moved += moved.len() as u64;
                    end.step = Step::Settling(now + SETTLING_TIME, moved);
                }
            }
            Step::Settling(until, moved) if now >= *until => {
                for entry in std::mem::take(moved) {
                    let deletion = flow_entries::delete_listed(entry);
                    network.send_to(at.switch, Message::FlowMod(deletion));
                    self.counters.stale_deletions += 1;
                }
                end.begin_round(at, network);
            }
            _ => {}
        }
    }

    /// Requests the next page of entries; after the last one, moves the flows that were found.
    fn list_next_or_move(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        let end = self.drains.ends.get_mut(&at);
        if end.is_some_and(|end| !end.count_next_page(at, network)) {
            self.move_found(at, now, network);
        }
    }

    /// Decides about the entries of a page. What is beyond [`MOVES_MAX`] waits for the next round; entries that stay do not count, or they
    /// could keep others from being moved for good.
    fn plan_moves(&mut self, at: SwitchPort, entries: Vec<FlowDesc>, view: &NetworkView) {
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        let (cable, mut found) = (end.cable, std::mem::take(&mut end.found));
        for entry in entries {
            if found.to_move.len() + found.to_delete.len() == MOVES_MAX {
                break;
            }
            match self.plan_move(at, entry, cable, view) {
                Plan::Move(planned) => found.to_move.push(planned),
                Plan::Keep => found.kept += 1,
                Plan::Delete(entry) => found.to_delete.push(entry),
            }
        }
        if let Some(end) = self.drains.ends.get_mut(&at) {
            end.found = found;
        }
    }

    /// Moves the flows whose entries were listed. If there are none, samples the counters of the port.
    fn move_found(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        let (to_move, to_delete) =
            (std::mem::take(&mut end.found.to_move), std::mem::take(&mut end.found.to_delete));
        let (kept, has_work) = (end.found.kept, !to_move.is_empty() || !to_delete.is_empty());
        self.counters.stale_deletions += to_delete.len() as u64;
        for entry in to_delete {
            let deletion = flow_entries::delete_listed(entry);
            network.send_to(at.switch, Message::FlowMod(deletion));
        }
        self.publish_progress(at, Some(kept), now, network);
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        end.step = if has_work {
            Step::Moving(Moves::new(to_move))
        } else {
            let request = MultipartRequest::PortStats(PortStatsRequest { port_no: at.port });
            Step::Sampling(send(at, request, network))
        };
    }

    /// What is to be done about a flow entry that sends into a drained cable.
    fn plan_move(
        &mut self,
        at: SwitchPort,
        entry: FlowDesc,
        cable: Cable,
        view: &NetworkView,
    ) -> Plan {
        let Some((matching, flow, starts, to)) = ends_of_flow(at.switch, &entry, view) else {
            return Plan::Delete(entry);
        };
        let mut steps = Vec::new();
        for start in starts {
            let Some(path) = self.path(flow, start, to, view) else { return Plan::Keep };
            let sends_into_cable =
                |hop: &Hop| cable.ends().contains(&SwitchPort::new(hop.switch, hop.out_port));
            if path.iter().any(sends_into_cable) {
                return Plan::Keep;
            }
            if path.iter().any(|hop| self.ranks.at(hop.switch) != matching) {
                return Plan::Delete(entry);
            }
            // Paths from several ports of the first switch differ in its entry only.
            let is_first_path = steps.is_empty();
            let hops = path.iter().rev().filter(|hop| hop.in_port != hop.out_port);
            let written = hops.filter(|hop| is_first_path || hop.in_port == start.port);
            let step = |hop: &Hop| {
                let ports = hop.ports();
                (hop.switch, flow_entries::flow_entry(&self.cfg, matching, flow, ports))
            };
            steps.extend(written.map(step));
        }
        Plan::Move(PlannedMove { old: entry, steps })
    }

    /// Publishes what is known about an end, and sets when its next round begins unless it goes on with this one. `kept` are the
    /// entries for which there is no other path, if they were counted now.
    fn publish_progress(
        &mut self,
        at: SwitchPort,
        kept: Option<u32>,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        let before = network.view().record::<DrainProgress>(at).copied().unwrap_or_default();
        let is_down = network.view().port(at).is_none_or(|port| !port.is_up);
        let progress = DrainProgress {
            entries: end.found.own,
            without_alternative: kept.unwrap_or(before.without_alternative),
            foreign_entries: end.found.foreign,
            is_quiet: end.is_quiet || is_down,
        };
        if kept.is_none() {
            end.step = end.next_round(&progress, now);
        }
        network.publish_record(now, at, Some(progress));
    }

    /// Deletes the entries for packets that arrive from the cable when its other end sends none any more: they would stay for as long as
    /// the configuration says.
    fn delete_reverse_entries(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        let Some(end) = self.drains.ends.get_mut(&at) else { return };
        let peer = end.cable.ends().into_iter().find(|&other| other != at);
        let is_done = peer
            .and_then(|peer| network.view().record::<DrainProgress>(peer))
            .is_some_and(DrainProgress::is_done);
        if is_done && !end.is_reverse_deleted {
            let filter = EntryFilter::FromPort(at.port);
            let deleted = self.switches.delete(at.switch, filter, now, network);
            self.counters.stale_deletions += u64::from(deleted);
        }
        end.is_reverse_deleted = is_done;
    }
}

/// Match and flow of an entry of a path, the ports at which its packets enter the network, and the port where they leave it. `None` if
/// that is not known.
fn ends_of_flow(
    switch: DatapathId,
    entry: &FlowDesc,
    view: &NetworkView,
) -> Option<(Matching, Flow, Vec<SwitchPort>, SwitchPort)> {
    let matching = Matching::of_rank(flow_entries::rank(entry.cookie))?;
    let flow = Flow::of_match(matching, &entry.matching)?;
    let vlan = flow.vlan.unwrap_or_default();
    let edge_port = |mac| view.host(HostId { mac, vlan }).map(|host| host.at);
    let to = edge_port(flow.dst).filter(|&to| is_edge(view, to))?;
    let entered_at = SwitchPort::new(switch, flow_entries::in_port(&entry.matching)?);
    if view.attachment_port(entered_at).is_some() {
        return Some((matching, flow, vec![entered_at], to));
    }
    let source =
        edge_port(flow.src).filter(|&from| matching != Matching::Dst && is_edge(view, from))?;
    let ports = view.arrival_ports(source).into_iter();
    let starts = ports.map(|port| SwitchPort::new(source.switch, port)).collect();
    Some((matching, flow, starts, to))
}

/// Whether a fact is about a drained cable, and which.
pub(super) fn drained_cable(fact: &sluice_sdk::view::Fact) -> Option<Cable> {
    fact.record::<DrainedLink>().map(|(cable, _)| cable)
}

#[cfg(test)]
mod tests {
    use sluice_openflow::{ErrorReason, MultipartType, PortNo, Version};
    use sluice_sdk::{ReceivedMultipart, Refusal};

    use super::*;

    /// Otherwise a link would count as drained although its entries are not known.
    #[test]
    fn a_list_that_is_refused_too_long_or_cut_off_says_nothing() {
        let ends = [1, 2].map(|id| SwitchPort::new(DatapathId(id), PortNo(1)));
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let mut end = DrainEnd::new(Cable::new(ends[0], ends[1]), Instant::now());
        let list = |body: &[u8]| {
            let (version, kind) = (Version::V1_3, MultipartType::FLOW);
            Answer::Multipart(ReceivedMultipart::new(version, kind, body.to_vec()))
        };
        let refusal = Refusal { index: 0, reason: ErrorReason::BAD_TYPE };
        for answer in [Answer::TooLarge, Answer::Refused(refusal), list(&[0; 20]), list(&[0, 200])]
        {
            assert!(end.on_list(&answer).is_none(), "{answer}");
        }
        assert!(end.on_list(&list(&[])).is_some());
    }
}
