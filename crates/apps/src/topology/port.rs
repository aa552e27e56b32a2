//! One port: the neighbors that its probes revealed, and the role that follows from them.

use std::time::{Duration, Instant};

use sluice_openflow::{DatapathId, FixedString, MacAddr, Port as PortDescription, PortNo};
use sluice_sdk::view::{PortInfo, PortRole, SwitchPort};

use super::bundle::BundleState;
use super::probe::ProbeKind;
use crate::rate_limit::RateLimit;

/// Neighbors remembered for one port. If there are more, those with the smallest switch and port are kept, since the
/// smallest is the designated port of a shared segment.
const NEIGHBORS_MAX: usize = 32;

/// LLDP frames and probes processed per second and port. Hosts may send any number of them.
const LLDP_PER_S_MAX: u32 = 64;

/// Shortest time between two probes that answer a probe. Both ends of a new link may not know yet that the other end
/// has received their probe.
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);

/// What is known of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortPhase {
    /// The port is down.
    Down,
    /// The probe with which the settling time begins has not been sent, or the switch has not confirmed it: the transaction id of the barrier
    /// request after it.
    Probing(Option<u32>),
    /// That probe was sent at this time at the latest, and no LLDP probe has been received.
    Quiet(Instant),
    /// The port leads to hosts.
    Edge,
    /// The port leads to a switch, or led to one when a probe was received last.
    Link,
    /// The port leads to an unmanaged segment that other ports lead to as well.
    SharedSegment,
    /// Frames that are sent out of the port are received at the same port.
    Looped,
}

/// Times for the decision about a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortTimers {
    /// How long no probe must be received at a port until it is an edge port.
    pub(super) settle: Duration,
    /// When the process last resumed after it had been suspended: probes that were due before then are not lost.
    pub(super) resumed: Option<Instant>,
}

/// A probe that was received at a port, or was sent out of it and received elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HeardProbe {
    /// The other port.
    pub(super) from: SwitchPort,
    pub(super) kind: ProbeKind,
    /// How long it is valid.
    pub(super) lifetime: Duration,
    /// How long probes from there must have been received until there is a link: 0 unless it is
    /// [unexpected](super::unexpected_link).
    pub(super) confirm_after: Duration,
}

/// A port from which probes are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Neighbor {
    at: SwitchPort,
    kind: ProbeKind,
    last_seen: Instant,
    /// How long the last probe is valid.
    lifetime: Duration,
    first_seen: Instant,
    /// Whether its LLDP shows a link.
    is_confirmed: bool,
}

/// One port of a switch of this worker. Small, since a switch may have thousands, and most lead to hosts.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) at: SwitchPort,
    pub(super) hw_addr: MacAddr,
    name: FixedString<16>,
    pub(super) phase: PortPhase,
    /// When the next LLDP probe is due.
    pub(super) next_lldp: Instant,
    /// When the last LLDP probe was sent, and the interval that it stated.
    pub(super) last_lldp: Option<Instant>,
    pub(super) stated_interval_ms: u32,
    /// When the next broadcast probe is due.
    pub(super) next_broadcast: Instant,
    /// Since when the port has been an edge port, or part of a link that is not confirmed.
    edge_since: Option<Instant>,
    published: PublishedState,
    /// `None` if the port has received nothing that concerns the topology.
    adjacency: Option<Box<Adjacency>>,
}

/// The state and the role of a port, as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishedState {
    /// Not published since the port or its description has changed.
    Outdated,
    Down,
    Up(PublishedRole),
}

/// A [`PortRole`] without the port that is used for a segment or bundle, which is [`Adjacency::published_used`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishedRole {
    Pending,
    Edge,
    Link,
    SharedSegment,
    Bundle,
}

/// What is needed only for a port that belongs to a bundle, has received LLDP or a probe, or is part of a link.
#[derive(Debug, Default)]
struct Adjacency {
    neighbors: Vec<Neighbor>,
    /// The port at which frames that are sent here are received, as the worker of that port published.
    link_to: Option<SwitchPort>,
    /// The start of the incoming link, as published.
    published_link: Option<SwitchPort>,
    /// The port that is used for the segment or bundle, as published.
    published_used: Option<SwitchPort>,
    bundle: BundleState,
    /// The other end of the link that this port is or was part of.
    peer: Option<SwitchPort>,
    /// The other end of the last link of this port, whether it has been down since or not.
    last_peer: Option<SwitchPort>,
    /// The link existed before the switch disconnected, and no probe has been received since it reconnected.
    is_restored: bool,
    /// Since when no probe has come through the link, and since when its other end has been in this state.
    silent_since: Option<(Instant, (PeerState, Instant))>,
    /// Limits the LLDP frames that are processed.
    lldp_received: RateLimit,
    last_answer: Option<Instant>,
    /// Whether the settling time, which is not over, has begun again.
    was_probed_again: bool,
    last_warning: Option<Instant>,
}

impl Adjacency {
    /// Whether nothing is lost if it is removed.
    fn is_unused(&self, now: Instant) -> bool {
        let links = [self.link_to, self.published_link, self.peer, self.last_peer];
        let is_recent = |at: Instant| now.saturating_duration_since(at) < super::LOG_INTERVAL;
        self.neighbors.is_empty()
            && self.bundle == BundleState::None
            && links.iter().all(Option::is_none)
            && self.lldp_received.is_over(now)
            && !self.was_probed_again
            && !self.last_answer.is_some_and(is_recent)
            && !self.last_warning.is_some_and(is_recent)
    }
}

impl Port {
    /// A port that is down.
    pub(super) fn new(at: SwitchPort, description: &PortDescription, now: Instant) -> Self {
        Self {
            at,
            hw_addr: description.hw_addr,
            name: description.name,
            phase: PortPhase::Down,
            next_lldp: now,
            last_lldp: None,
            stated_interval_ms: 0,
            next_broadcast: now,
            edge_since: None,
            published: PublishedState::Outdated,
            adjacency: None,
        }
    }

    fn adjacency_mut(&mut self) -> &mut Adjacency {
        self.adjacency.get_or_insert_default()
    }

    fn neighbors(&self) -> &[Neighbor] {
        self.adjacency.as_deref().map_or(&[], |adjacency| &adjacency.neighbors)
    }

    /// The port at which frames that are sent here are received, as the worker of that port published.
    pub(super) fn link_to(&self) -> Option<SwitchPort> {
        self.adjacency.as_deref()?.link_to
    }

    /// The start of the incoming link, as published.
    pub(super) fn published_link(&self) -> Option<SwitchPort> {
        self.adjacency.as_deref()?.published_link
    }

    /// Records the start of the incoming link that is published. Returns the one before.
    pub(super) fn publish_link(&mut self, from: Option<SwitchPort>) -> Option<SwitchPort> {
        match (&mut self.adjacency, from) {
            (Some(adjacency), from) => std::mem::replace(&mut adjacency.published_link, from),
            (None, None) => None,
            (none, from) => {
                none.get_or_insert_default().published_link = from;
                None
            }
        }
    }

    /// Records that the state and the role of the port are published. Returns `false` if they were already.
    pub(super) fn publish_state(&mut self) -> bool {
        let role = self.role();
        let state = match role {
            _ if !self.is_up() => PublishedState::Down,
            PortRole::Pending => PublishedState::Up(PublishedRole::Pending),
            PortRole::Edge => PublishedState::Up(PublishedRole::Edge),
            PortRole::Link => PublishedState::Up(PublishedRole::Link),
            PortRole::SharedSegment(_) => PublishedState::Up(PublishedRole::SharedSegment),
            PortRole::Bundle(_) => PublishedState::Up(PublishedRole::Bundle),
        };
        let used = match role {
            PortRole::SharedSegment(used) | PortRole::Bundle(used) => Some(used),
            PortRole::Pending | PortRole::Edge | PortRole::Link => None,
        };
        let published_used = self.adjacency.as_deref().and_then(|it| it.published_used);
        if self.published == state && published_used == used {
            return false;
        }
        self.published = state;
        if published_used != used {
            self.adjacency_mut().published_used = used;
        }
        true
    }

    /// Updates name and address, so that a change is published.
    pub(super) fn update_description(&mut self, description: &PortDescription) {
        let &PortDescription { hw_addr, name, .. } = description;
        if (self.hw_addr, self.name) != (hw_addr, name) {
            self.published = PublishedState::Outdated;
        }
        (self.hw_addr, self.name) = (hw_addr, name);
    }

    /// The port is up: probing starts anew.
    pub(super) fn set_up(&mut self, now: Instant) {
        self.reset();
        self.phase = PortPhase::Probing(None);
        (self.next_lldp, self.next_broadcast, self.last_lldp) = (now, now, None);
    }

    /// The port was part of a link when its switch disconnected, and is taken for one until a probe shows otherwise.
    pub(super) fn restore_link(&mut self, peer: SwitchPort) {
        self.phase = PortPhase::Link;
        let adjacency = self.adjacency_mut();
        (adjacency.peer, adjacency.last_peer) = (Some(peer), Some(peer));
        adjacency.is_restored = true;
    }

    pub(super) fn set_down(&mut self) {
        self.reset();
        self.phase = PortPhase::Down;
    }

    fn reset(&mut self) {
        self.edge_since = None;
        if let Some(it) = &mut self.adjacency {
            it.neighbors.clear();
            (it.peer, it.link_to, it.silent_since) = (None, None, None);
            (it.is_restored, it.was_probed_again) = (false, false);
        }
    }

    /// Handles a probe that shows a neighbor. Returns `true` if this neighbor is new and there is room for it.
    pub(super) fn add_neighbor(&mut self, heard: &HeardProbe, now: Instant) -> bool {
        let &HeardProbe { from, kind, lifetime, confirm_after } = heard;
        let neighbors = &mut self.adjacency.get_or_insert_default().neighbors;
        let known = neighbors.iter_mut().find(|it| it.at == from && it.kind == kind);
        if let Some(known) = known {
            (known.last_seen, known.lifetime) = (now, lifetime);
            let lasts = now.saturating_duration_since(known.first_seen);
            if !known.is_confirmed && lasts >= confirm_after {
                known.is_confirmed = true;
                self.update_phase(now);
            }
            return false;
        }
        let neighbor = Neighbor {
            at: from,
            kind,
            last_seen: now,
            lifetime,
            first_seen: now,
            is_confirmed: confirm_after.is_zero(),
        };
        if neighbors.len() < NEIGHBORS_MAX {
            neighbors.push(neighbor);
        } else if let Some(last) = neighbors.iter_mut().max_by_key(|neighbor| neighbor.at)
            && from < last.at
        {
            *last = neighbor;
        } else {
            return false;
        }
        self.update_phase(now);
        true
    }

    /// How long the port has been an edge port, or part of a link that is not confirmed.
    pub(super) fn edge_for(&self, now: Instant) -> Duration {
        self.edge_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The other end of the last link of this port, whether the port has been down since or not.
    pub(super) fn last_peer(&self) -> Option<SwitchPort> {
        self.adjacency.as_deref()?.last_peer
    }

    /// Whether a line about this port may be logged.
    pub(super) fn admit_warning(&mut self, now: Instant) -> bool {
        let last = &mut self.adjacency_mut().last_warning;
        let may = last.is_none_or(|at| now.saturating_duration_since(at) >= super::LOG_INTERVAL);
        if may {
            *last = Some(now);
        }
        may
    }

    /// Whether LLDP is received that does not show a link yet.
    pub(super) fn has_unconfirmed_link(&self) -> bool {
        self.neighbors().iter().any(|neighbor| !neighbor.is_confirmed)
    }

    /// The outgoing link was found or lost.
    pub(super) fn set_link_to(&mut self, to: Option<SwitchPort>, now: Instant) {
        if to.is_some() || self.link_to().is_some() {
            self.adjacency_mut().link_to = to;
        }
        self.update_phase(now);
    }

    /// Removes the neighbors that `is_gone`.
    pub(super) fn remove_neighbors(&mut self, is_gone: impl Fn(SwitchPort) -> bool, now: Instant) {
        self.retain_neighbors(|neighbor| !is_gone(neighbor.at), now);
    }

    /// Probes of a switch were late and are not any more: its ports are silent from now on only.
    pub(super) fn excuse_silence(&mut self, switch: DatapathId, now: Instant) {
        let neighbors = self.adjacency.iter_mut().flat_map(|it| &mut it.neighbors);
        for neighbor in neighbors.filter(|it| it.at.switch == switch) {
            neighbor.last_seen = neighbor.last_seen.max(now);
        }
    }

    fn retain_neighbors(&mut self, is_kept: impl Fn(&Neighbor) -> bool, now: Instant) {
        let Some(adjacency) = &mut self.adjacency else { return };
        let before = adjacency.neighbors.len();
        adjacency.neighbors.retain(is_kept);
        if adjacency.neighbors.len() < before {
            self.update_phase(now);
        }
    }

    /// Whether an LLDP probe is to be sent.
    pub(super) fn is_lldp_due(&self, now: Instant) -> bool {
        self.is_up() && self.next_lldp <= now
    }

    /// Removes neighbors whose probes stopped, except for those at switches to which no probes can be sent; makes a port an
    /// edge port that was quiet for long enough.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        timers: &PortTimers,
        is_late: impl Fn(DatapathId) -> bool,
    ) {
        let is_valid = |neighbor: &Neighbor| {
            if is_late(neighbor.at.switch) {
                return true;
            }
            let seen = neighbor.last_seen;
            let since = timers.resumed.map_or(seen, |resumed| resumed.max(seen));
            now.saturating_duration_since(since) <= neighbor.lifetime
        };
        self.retain_neighbors(is_valid, now);
        if self.adjacency.as_ref().is_some_and(|adjacency| adjacency.is_unused(now)) {
            self.adjacency = None;
        }
        if let PortPhase::Quiet(since) = self.phase
            && now.saturating_duration_since(since) >= timers.settle
        {
            let is_shared = self.has_broadcast_neighbors();
            self.phase = if is_shared { PortPhase::SharedSegment } else { PortPhase::Edge };
            self.edge_since.get_or_insert(now);
            if let Some(it) = &mut self.adjacency {
                it.was_probed_again = false;
            }
        }
    }

    /// The other end of a link through which no probe comes any more, in either direction.
    pub(super) fn silent_link(&self) -> Option<SwitchPort> {
        let adjacency = self.adjacency.as_deref().filter(|_| self.phase == PortPhase::Link)?;
        let no_lldp =
            || adjacency.neighbors.iter().all(|neighbor| neighbor.kind == ProbeKind::Broadcast);
        adjacency.peer.filter(|_| adjacency.link_to.is_none() && no_lldp())
    }

    /// Decides whether a silent link is probed anew, by what is known of its other end.
    pub(super) fn check_silent_link(&mut self, peer: PeerState, now: Instant) {
        let adjacency = self.adjacency_mut();
        let (since, (state, state_since)) = adjacency.silent_since.unwrap_or((now, (peer, now)));
        let state_since = if state == peer { state_since } else { now };
        adjacency.silent_since = Some((since, (peer, state_since)));
        let lasts = |since, hold| now.saturating_duration_since(since) >= hold;
        let is_over = match peer {
            PeerState::Changed => true,
            PeerState::Unchanged if adjacency.is_restored => {
                lasts(state_since, super::RESTORED_LINK_HOLD)
            }
            PeerState::Unchanged | PeerState::Disconnected => false,
        };
        if is_over || lasts(since, super::SILENT_LINK_HOLD) {
            self.set_up(now);
        }
    }

    /// The switch has processed everything before the barrier request `xid`.
    pub(super) fn on_barrier_reply(&mut self, xid: u32, now: Instant) {
        if self.phase == PortPhase::Probing(Some(xid)) {
            self.phase = PortPhase::Quiet(now);
        }
    }

    /// Something may connect the port with another one: has the next tick send a broadcast probe. If nothing has been received from
    /// elsewhere within the settling time so far, the probe that it began with may have been lost or be late. Then the settling time begins
    /// again, once, when the next probe has been sent.
    pub(super) fn probe_again(&mut self, now: Instant) {
        self.next_broadcast = now;
        if matches!(self.phase, PortPhase::Probing(Some(_)) | PortPhase::Quiet(_))
            && self.neighbors().is_empty()
            && !std::mem::replace(&mut self.adjacency_mut().was_probed_again, true)
        {
            self.phase = PortPhase::Probing(None);
            self.next_lldp = now;
        }
    }

    /// Counts an LLDP frame. Returns `false` if there were too many within a second.
    pub(super) fn admit_lldp(&mut self, now: Instant) -> bool {
        self.adjacency_mut().lldp_received.admit(LLDP_PER_S_MAX, now)
    }

    /// Whether a probe may be answered by another one immediately; otherwise that is sent at the next tick.
    pub(super) fn admit_answer(&mut self, now: Instant) -> bool {
        let last = &mut self.adjacency_mut().last_answer;
        let may = last.is_none_or(|last| now.saturating_duration_since(last) >= ANSWER_INTERVAL);
        if may {
            *last = Some(now);
        }
        may
    }

    /// Derives the phase from the neighbors.
    fn update_phase(&mut self, now: Instant) {
        let mut lldp = self.neighbors().iter().filter(|neighbor| neighbor.kind == ProbeKind::Lldp);
        let (first, is_only) = (lldp.next().copied(), lldp.next().is_none());
        let is_looped = self.neighbors().iter().any(|neighbor| neighbor.at == self.at);
        let is_shared = self.has_broadcast_neighbors();
        self.phase = match self.phase {
            PortPhase::Down => PortPhase::Down,
            _ if is_looped => PortPhase::Looped,
            // A device between the ports forwards LLDP, which no bridge should.
            _ if !is_only => PortPhase::SharedSegment,
            _ if first.is_some_and(|neighbor| !neighbor.is_confirmed) => PortPhase::SharedSegment,
            _ if first.is_some() || self.link_to().is_some() => {
                self.edge_since = None;
                let it = self.adjacency_mut();
                it.peer = first.map(|neighbor| neighbor.at).or(it.link_to);
                (it.last_peer, it.silent_since, it.is_restored) = (it.peer, None, false);
                PortPhase::Link
            }
            // The port may still lead to the switch: see `check_silent_link`.
            PortPhase::Link => PortPhase::Link,
            // Of the probes of a switch that has just connected, the LLDP may be lost and the broadcast not: until LLDP would have
            // come through a link, the port may be one.
            PortPhase::Probing(_) | PortPhase::Quiet(_) => self.phase,
            _ if is_shared => PortPhase::SharedSegment,
            PortPhase::SharedSegment | PortPhase::Looped => {
                self.adjacency_mut().was_probed_again = false;
                PortPhase::Quiet(now)
            }
            PortPhase::Edge => PortPhase::Edge,
        };
    }

    fn has_broadcast_neighbors(&self) -> bool {
        self.neighbors().iter().any(|neighbor| neighbor.kind == ProbeKind::Broadcast)
    }

    /// Whether the port belongs to a bundle, and which port is used for it.
    pub(super) fn bundle(&self) -> BundleState {
        self.adjacency.as_deref().map_or(BundleState::None, |it| it.bundle)
    }

    pub(super) fn set_bundle(&mut self, bundle: BundleState) {
        if self.bundle() != bundle {
            self.adjacency_mut().bundle = bundle;
        }
    }

    /// Whether broadcast probes are received, and it is not known yet whether this is a link or an unmanaged segment.
    pub(super) fn may_be_link(&self) -> bool {
        matches!(self.phase, PortPhase::Probing(_) | PortPhase::Quiet(_))
            && self.has_broadcast_neighbors()
    }

    /// The start of the incoming link, if there is one.
    pub(super) fn link_from(&self) -> Option<SwitchPort> {
        let lldp = || self.neighbors().iter().find(|neighbor| neighbor.kind == ProbeKind::Lldp);
        if self.phase == PortPhase::Link { lldp().map(|neighbor| neighbor.at) } else { None }
    }

    pub(super) fn has_neighbor_at(&self, switch: DatapathId) -> bool {
        self.neighbors().iter().any(|neighbor| neighbor.at.switch == switch)
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase != PortPhase::Down
    }

    /// Whether the port may lead to an unmanaged segment, so that broadcast probes are sent out of it.
    pub(super) fn needs_broadcast_probes(&self) -> bool {
        !matches!(self.phase, PortPhase::Down | PortPhase::Link)
    }

    pub(super) fn role(&self) -> PortRole {
        match self.phase {
            PortPhase::Probing(_) | PortPhase::Quiet(_) | PortPhase::Looped => PortRole::Pending,
            PortPhase::Down | PortPhase::Edge => match self.bundle() {
                BundleState::Uses(used) => PortRole::Bundle(used),
                BundleState::None if self.phase == PortPhase::Edge => PortRole::Edge,
                BundleState::None | BundleState::Undecided => PortRole::Pending,
            },
            PortPhase::Link => PortRole::Link,
            PortPhase::SharedSegment => {
                let others = self.neighbors().iter().map(|neighbor| neighbor.at);
                PortRole::SharedSegment(others.min().map_or(self.at, |first| first.min(self.at)))
            }
        }
    }

    /// The port as it is published.
    pub(super) fn info(&self) -> PortInfo {
        let (name, hw_addr) = (self.name, self.hw_addr);
        PortInfo { name, hw_addr, is_up: self.is_up(), role: self.role() }
    }
}

/// The state of the port at the other end of a silent link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerState {
    /// It is up and not known to lead elsewhere.
    Unchanged,
    /// It is down, deleted, or leads to another port.
    Changed,
    /// Its switch is not connected.
    Disconnected,
}

/// Whether frames can pass the port: it is a physical port and not the switch's local port.
pub(super) fn is_physical(port_no: PortNo) -> bool {
    port_no.is_real() && port_no != PortNo::LOCAL
}
