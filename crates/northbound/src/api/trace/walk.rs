//! Takes a packet from switch to switch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_io::clock;
use sluice_openflow::{DatapathId, FieldId, GroupType, MacAddr, Match, PacketInReason, PortNo};
use sluice_pipeline::trace::{
    self as pipeline, MissResult, OutputTo, Step, StepKind, SwitchState, SwitchTrace, TraceLimits,
    TracedDrop, TracedOutput,
};
use sluice_sdk::SwitchSession;
use sluice_sdk::view::{PortRole, SwitchPort};
use tokio::task::yield_now;

use super::documents::{
    EndDocument, EntryDocument, HopDocument, Outcome, PacketDocument, StepDocument,
    StepKindDocument, TraceDocument,
};
use super::packet::Start;
use super::read::{self, ReadLimits};
use crate::api::documents::{HostDocument, Names, PlaceDocument};
use crate::api::error::ApiError;
use crate::api::reads::Client;
use crate::api::requests::Reader;
use crate::api::{ApiState, names};

/// Switches that a packet and its copies pass, each time counted.
const HOPS_MAX: usize = 128;

/// Steps at all of these switches together.
const STEPS_MAX: usize = 4096;

/// Bytes of all copies of the packet in the answer.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// Bytes of the copies that are kept, which may be many if each of them differs.
const FRAME_BYTES_MAX: usize = 4 << 20;

/// Flow entries of all switches together, so that a trace keeps about a hundred megabytes at most.
const ENTRIES_MAX: u64 = 131_072;

/// How long a trace may take: switches may answer late, or not at all.
const TIME_MAX: Duration = Duration::from_secs(25);

/// Hosts that are listed at the end of a branch: a flood reaches all of a port.
const HOSTS_MAX: usize = 8;

/// A packet that arrives at a port.
struct Arrival {
    at: SwitchPort,
    frame: Arc<[u8]>,
    /// The hop and the index of its step that sent the packet.
    sent_at: Option<(usize, usize)>,
    is_alternative: bool,
}

/// A hop that was passed.
struct Passed {
    at: SwitchPort,
    frame: Arc<[u8]>,
    after: Option<usize>,
}

/// A trace in the making.
struct Walk<'a> {
    state: &'a ApiState,
    reader: Reader<'a>,
    sessions: Vec<SwitchSession>,
    given: Arc<sluice_declared::Names>,
    destination: Option<SwitchPort>,
    deadline: Instant,
    /// What was read from each switch, or why it was not.
    switches: BTreeMap<DatapathId, Result<SwitchState, String>>,
    passed: Vec<Passed>,
    steps_left: usize,
    /// Of the copies that are kept.
    frame_bytes_left: usize,
    /// Of the answer.
    bytes_left: usize,
    entries_left: u64,
    hops: Vec<HopDocument>,
    ends: Vec<EndDocument>,
    /// Arrivals that are not followed yet; the next one is the last.
    arrivals: Vec<Arrival>,
}

/// Traces a packet.
pub(super) async fn trace(
    state: &ApiState,
    client: Client,
    start: Start,
) -> Result<TraceDocument, ApiError> {
    let Start { at, frame, destination } = start;
    let mut walk = Walk {
        state,
        reader: state.reader(client),
        sessions: state.controller.switches(),
        given: state.given_names(),
        destination,
        deadline: clock::now() + TIME_MAX,
        switches: BTreeMap::new(),
        passed: Vec::new(),
        steps_left: STEPS_MAX,
        frame_bytes_left: FRAME_BYTES_MAX,
        bytes_left: PACKET_BYTES_MAX,
        entries_left: ENTRIES_MAX,
        hops: Vec::new(),
        ends: Vec::new(),
        arrivals: vec![Arrival { at, frame: frame.into(), sent_at: None, is_alternative: false }],
    };
    while let Some(arrival) = walk.arrivals.pop() {
        walk.read(arrival.at.switch).await;
        walk.pass(arrival);
        // Others use the thread, too.
        yield_now().await;
    }
    Ok(walk.finish())
}

impl Walk<'_> {
    /// Reads the tables of a switch, once.
    async fn read(&mut self, id: DatapathId) {
        if self.switches.contains_key(&id) || self.hops.len() >= HOPS_MAX {
            return;
        }
        let left = self.deadline.saturating_duration_since(clock::now());
        let session = self.sessions.iter().find(|session| session.datapath_id == id);
        let read = match session {
            None => Err("it is not connected".to_owned()),
            Some(_) if left.is_zero() => Err(format!("the trace takes more than {TIME_MAX:?}")),
            Some(session) => {
                let limits = ReadLimits { deadline: self.deadline, entries: self.entries_left };
                let read = read::state_of(self.reader, session, limits).await;
                read.map_err(|error| error.message().to_owned())
            }
        };
        let read = read.map(|(state, entries)| {
            self.entries_left = self.entries_left.saturating_sub(entries);
            state
        });
        self.switches.insert(id, read);
    }

    /// Passes a packet through the tables of the switch where it arrives.
    fn pass(&mut self, arrival: Arrival) {
        let Arrival { at, frame, sent_at, is_alternative } = arrival;
        let after = sent_at.map(|(hop, _)| hop);
        let hop = self.hops.len();
        if hop >= HOPS_MAX || frame.len() > self.bytes_left {
            let text = format!("not followed beyond {HOPS_MAX} hops or {PACKET_BYTES_MAX} bytes");
            return self.end_in(after.unwrap_or(0), Outcome::Limit, text, is_alternative);
        }
        self.bytes_left -= frame.len();
        if let Some((from, step)) = sent_at
            && let Some(StepDocument { step: StepKindDocument::Forward { hop: to, .. }, .. }) =
                self.hops.get_mut(from).and_then(|hop| hop.steps.get_mut(step))
        {
            *to = Some(hop);
        }
        let (packet, traced) = self.run(at, &frame);
        let earlier = self.earlier(at, &frame, after);
        let place = self.place(at);
        self.hops.push(HopDocument { hop, after, at: place, packet, steps: vec![] });
        self.passed.push(Passed { at, frame, after });
        if let Some(earlier) = earlier {
            let text = format!("loop: it arrives as it has at hop {}", earlier + 1);
            return self.end_in(hop, Outcome::Loop, text, is_alternative);
        }
        match traced {
            Ok(traced) => self.record(hop, at, traced, is_alternative),
            Err(why) => {
                let name = self.switch_name(at.switch);
                let text = format!("the tables of {name} could not be read: {why}");
                self.end_in(hop, Outcome::Unknown, text, is_alternative);
            }
        }
    }

    /// What the switch does with a packet.
    fn run(&self, at: SwitchPort, frame: &[u8]) -> (PacketDocument, Result<SwitchTrace, String>) {
        let packet = sluice_pipeline::PacketInPipeline::new(at.port, frame.to_vec());
        let fields = packet.map(|packet| packet.header_fields()).unwrap_or_default();
        let packet = PacketDocument::new(&fields, frame);
        let traced = match self.switches.get(&at.switch) {
            Some(Ok(state)) => {
                let limits =
                    TraceLimits { steps: self.steps_left, frame_bytes: self.frame_bytes_left };
                let traced = pipeline::trace(state, at.port, frame.to_vec(), limits);
                traced.ok_or_else(|| "the packet has no Ethernet header".to_owned())
            }
            Some(Err(why)) => Err(why.clone()),
            None => Err("it was not read".to_owned()),
        };
        (packet, traced)
    }

    /// The hop on the way to this one at which the same packet has arrived at the same port.
    fn earlier(&self, at: SwitchPort, frame: &[u8], after: Option<usize>) -> Option<usize> {
        let mut next = after;
        while let Some(index) = next {
            let hop = self.passed.get(index)?;
            if hop.at == at && *hop.frame == *frame {
                return Some(index);
            }
            next = hop.after;
        }
        None
    }

    fn record(&mut self, hop: usize, at: SwitchPort, traced: SwitchTrace, is_alternative: bool) {
        self.steps_left = self.steps_left.saturating_sub(traced.steps.len());
        let SwitchTrace { steps, outputs } = traced;
        let kept =
            outputs.chunk_by(|a, b| Arc::ptr_eq(&a.frame, &b.frame)).filter_map(<[_]>::first);
        let kept: usize = kept.map(|output| output.frame.len()).sum();
        self.frame_bytes_left = self.frame_bytes_left.saturating_sub(kept);
        let first = self.arrivals.len();
        for Step { depth, kind } in steps {
            let step = match kind {
                StepKind::Output(index) => match outputs.get(index) {
                    Some(output) => self.output(hop, at, output, is_alternative),
                    None => continue,
                },
                StepKind::Dropped(dropped) => self.dropped(hop, at, &dropped, is_alternative),
                other => plain_step(at.switch, other, self.state),
            };
            if let Some(hop) = self.hops.get_mut(hop) {
                hop.steps.push(StepDocument { depth, step });
            }
        }
        // The first output is followed first.
        if let Some(new) = self.arrivals.get_mut(first..) {
            new.reverse();
        }
    }

    fn dropped(
        &mut self,
        hop: usize,
        at: SwitchPort,
        dropped: &TracedDrop,
        one_of: bool,
    ) -> StepKindDocument {
        let entry =
            dropped.entry.as_deref().map(|it| EntryDocument::new(at.switch, it, self.state));
        let text = format!("dropped at {}: {}", self.switch_name(at.switch), dropped.reason);
        self.end(EndDocument {
            outcome: Outcome::Dropped,
            hop,
            text,
            one_of: one_of || dropped.is_alternative,
            port: None,
            hosts: vec![],
            entry,
            packet: None,
        })
    }

    fn output(
        &mut self,
        hop: usize,
        at: SwitchPort,
        output: &TracedOutput,
        one_of: bool,
    ) -> StepKindDocument {
        let one_of = one_of || output.is_alternative;
        let (outcome, text) = match &output.to {
            OutputTo::Port(port) => {
                let from = SwitchPort::new(at.switch, *port);
                return self.sent(hop, from, output, one_of);
            }
            OutputTo::Controller { reason, table_id } => {
                let why = reason_text(*reason);
                let switch = self.switch_name(at.switch);
                let text = format!("sent to the controller by {switch}: {why}, table {table_id}");
                (Outcome::Controller, text)
            }
            OutputTo::Normal => {
                let text = "forwarded by the switch's own pipeline (NORMAL), not followed";
                (Outcome::Unknown, text.to_owned())
            }
            OutputTo::Unmodelled(action) => {
                let text = format!("not followed: the action {} is not modelled", action.to_text());
                (Outcome::Unknown, text)
            }
            OutputTo::Limit => {
                let text =
                    format!("not followed beyond {STEPS_MAX} steps or {FRAME_BYTES_MAX} bytes");
                (Outcome::Limit, text)
            }
        };
        let packet = Some(self.packet(output));
        let (port, hosts, entry) = (None, vec![], None);
        self.end(EndDocument { outcome, hop, text, one_of, port, hosts, entry, packet })
    }

    /// A copy leaves a port: to another switch, or out of the network.
    fn sent(
        &mut self,
        hop: usize,
        from: SwitchPort,
        output: &TracedOutput,
        one_of: bool,
    ) -> StepKindDocument {
        let (next, role) = {
            let copy = self.state.view.lock();
            (copy.view.link_from(from).map(|link| link.to), copy.view.port_role(from))
        };
        if let Some(to) = next {
            let step = self.hops.get(hop).map_or(0, |hop| hop.steps.len());
            let (sent_at, frame) = (Some((hop, step)), Arc::clone(&output.frame));
            self.arrivals.push(Arrival { at: to, frame, sent_at, is_alternative: one_of });
            let (port, to) = (self.place(from), self.place(to));
            let packet = self.packet(output);
            return StepKindDocument::Forward { port, to, hop: None, packet };
        }
        let (mut hosts, is_delivered) = self.receivers(from, &output.fields);
        let name = self.port_name(from);
        let text = if from.port == PortNo::LOCAL {
            format!("leaves at {name}, to the switch itself")
        } else if let [host] = &hosts[..] {
            format!("delivered at {name} to {}", host.text())
        } else if is_delivered {
            format!("delivered at {name}")
        } else if role == PortRole::Edge {
            format!("leaves at {name}, where no host with its destination address is known")
        } else {
            format!("leaves at {name}, which is not known to lead anywhere")
        };
        hosts.truncate(HOSTS_MAX);
        let outcome = if is_delivered { Outcome::Delivered } else { Outcome::Left };
        let packet = Some(self.packet(output));
        let port = Some(self.place(from));
        self.end(EndDocument { outcome, hop, text, one_of, port, hosts, entry: None, packet })
    }

    /// The hosts at a port to which a packet is addressed, and whether it is delivered there.
    fn receivers(&self, at: SwitchPort, fields: &Match) -> (Vec<HostDocument>, bool) {
        let dst = fields.get(FieldId::ETH_DST).map(|field| field.value).unwrap_or_default();
        let dst = MacAddr::from_u64(u64::try_from(dst).unwrap_or_default());
        let copy = self.state.view.lock();
        let names = Names { view: &copy.view, sessions: &self.sessions, given: &self.given };
        let attached = copy.view.attachment_port(at).unwrap_or(at);
        let hosts = copy.view.hosts_at(attached).filter(|(id, _)| id.mac == dst || dst.is_group());
        let hosts: Vec<_> =
            hosts.take(HOSTS_MAX + 1).map(|(id, host)| names.host(id, host)).collect();
        let is_delivered = match self.destination {
            Some(wanted) => attached == wanted && !hosts.is_empty(),
            None => dst.is_group() || !hosts.is_empty(),
        };
        (hosts, is_delivered)
    }

    /// A copy of the packet in the answer, without its bytes if there are too many.
    fn packet(&mut self, output: &TracedOutput) -> PacketDocument {
        let bytes = output.frame.len();
        let is_too_long = bytes > self.bytes_left;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        PacketDocument::new(&output.fields, if is_too_long { &[] } else { &output.frame })
    }

    fn end(&mut self, end: EndDocument) -> StepKindDocument {
        self.ends.push(end);
        StepKindDocument::End { end: self.ends.len() - 1 }
    }

    /// Ends a branch as the last step of a hop.
    fn end_in(&mut self, hop: usize, outcome: Outcome, text: String, one_of: bool) {
        let (port, hosts, entry, packet) = (None, vec![], None, None);
        let end = EndDocument { outcome, hop, text, one_of, port, hosts, entry, packet };
        let step = self.end(end);
        if let Some(hop) = self.hops.get_mut(hop) {
            hop.steps.push(StepDocument { depth: 0, step });
        }
    }

    fn place(&self, at: SwitchPort) -> PlaceDocument {
        let copy = self.state.view.lock();
        Names { view: &copy.view, sessions: &self.sessions, given: &self.given }.place(at)
    }

    fn switch_name(&self, id: DatapathId) -> String {
        let session = self.sessions.iter().find(|session| session.datapath_id == id);
        session.and_then(|it| names::switch_name(it, &self.given)).unwrap_or_else(|| id.to_string())
    }

    fn port_name(&self, at: SwitchPort) -> String {
        let (switch, name) = (self.switch_name(at.switch), {
            let copy = self.state.view.lock();
            copy.view.port(at).map(|port| port.name.to_string())
        });
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        format!("{switch} port {}{name}", at.port)
    }

    fn finish(self) -> TraceDocument {
        let Self { mut hops, ends, .. } = self;
        // Hops were numbered in the order of arrival, which is the order of the list.
        for (n, hop) in hops.iter_mut().enumerate() {
            hop.hop = n;
        }
        let outcome = overall(&ends);
        let of_outcome = || ends.iter().filter(|end| end.outcome == outcome);
        let more = ends.len().saturating_sub(1);
        let first = of_outcome().next().map(|end| end.text.clone()).unwrap_or_default();
        let summary = match more {
            0 => first,
            1 => format!("{first} (and another branch)"),
            more => format!("{first} (and {more} other branches)"),
        };
        TraceDocument { outcome, summary, hops, ends }
    }
}

/// What has become of a packet: the most that one of its copies has reached.
fn overall(ends: &[EndDocument]) -> Outcome {
    let order = [
        Outcome::Delivered,
        Outcome::Controller,
        Outcome::Loop,
        Outcome::Unknown,
        Outcome::Limit,
        Outcome::Left,
        Outcome::Dropped,
    ];
    let is_reached = |outcome: &Outcome| ends.iter().any(|end| end.outcome == *outcome);
    order.into_iter().find(is_reached).unwrap_or(Outcome::Dropped)
}

fn reason_text(reason: PacketInReason) -> &'static str {
    match reason {
        PacketInReason::NO_MATCH => "no flow entry matches but the table-miss entry",
        PacketInReason::INVALID_TTL => "its TTL has expired",
        PacketInReason::GROUP => "by an action of a group",
        PacketInReason::ACTION_SET => "by an action of the action set",
        _ => "by an action",
    }
}

fn plain_step(at: DatapathId, kind: StepKind, state: &ApiState) -> StepKindDocument {
    match kind {
        StepKind::Entry(flow) => StepKindDocument::Entry(EntryDocument::new(at, &flow, state)),
        StepKind::Miss { table_id, result } => {
            let result = match result {
                MissResult::ToController => "to-controller",
                MissResult::NextTable => "next-table",
                MissResult::Drop => "drop",
            };
            StepKindDocument::Miss { table: table_id, result }
        }
        StepKind::ActionSet => StepKindDocument::ActionSet,
        StepKind::Action(action) => StepKindDocument::Action { text: action.to_text() },
        StepKind::Bucket { group, kind, index, is_alternative } => {
            let kind = match kind {
                GroupType::ALL => "all",
                GroupType::SELECT => "select",
                GroupType::INDIRECT => "indirect",
                GroupType::FF => "fast-failover",
                _ => "unknown",
            };
            StepKindDocument::Bucket { group: group.0, kind, bucket: index, one_of: is_alternative }
        }
        StepKind::Note(text) => StepKindDocument::Note { text },
        // Handled by the caller.
        StepKind::Output(_) | StepKind::Dropped(_) => {
            StepKindDocument::Note { text: String::new() }
        }
    }
}
