//! One port: what it was heard to lead to, and what follows from that.

use std::time::{Duration, Instant};

use sluice_openflow::{MacAddr, Port as Described, PortNo};
use sluice_sdk::view::{PortInfo, PortRole, SwitchPort};

use super::probe::Way;

/// Other ends that are remembered for a port. With more of them, those with the smallest places: one of them is the
/// one that speaks for all.
const PEERS_MAX: usize = 32;

/// Frames of probes, whoever's, that are looked at in a second: hosts may send any number.
const LOOKED_AT_MAX: u32 = 64;

/// Between two answers: the ends of a new link may not know yet that they have heard each other.
const ANSWER_GAP: Duration = Duration::from_millis(50);

/// What a port leads to, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nowhere: it is down.
    Down,
    /// Its first probe has yet to leave, or the switch to say that it has.
    Asking(Option<u32>),
    /// Its probe has left at this time at the latest, and nothing of ours has come in.
    Quiet(Instant),
    /// Hosts.
    Edge,
    /// A switch of ours, or what was one when it was heard last.
    Link,
    /// A network of others, to which other ports of ours lead.
    Shared,
    /// Back here: what leaves comes in again.
    Looped,
}

/// Times that ports are judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// How long a port must be quiet to be one for hosts.
    pub(super) settle: Duration,
    /// How long a port that led to a switch which is gone leads to no host.
    pub(super) hold: Duration,
    /// The process has heard nothing before: it slept.
    pub(super) woke: Option<Instant>,
}

/// Another end that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peer {
    at: SwitchPort,
    way: Way,
    heard: Instant,
    /// How long that is believed.
    life: Duration,
}

/// How long frames take on the link that comes in.
#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    smoothed: Duration,
    samples: u32,
    told: Duration,
    told_at: Option<Instant>,
}

/// Delays below this are told as none: clocks are read once a turn.
const DELAY_MIN: Duration = Duration::from_micros(500);
/// Samples before a delay is told, and the time before it is told again: whoever hears it computes all paths anew.
const DELAY_SAMPLES_MIN: u32 = 3;
const DELAY_AGAIN: Duration = Duration::from_secs(10);

/// One port of a switch of this worker.
#[derive(Debug)]
pub(super) struct Port {
    /// Where it is.
    pub(super) at: SwitchPort,
    /// Its own address.
    pub(super) hw_addr: MacAddr,
    /// When it is probed next, and when its network is.
    pub(super) due: Instant,
    pub(super) far_due: Instant,
    /// Where frames that leave here come in: the other end says so.
    pub(super) leads_to: Option<SwitchPort>,
    /// What all workers were told: the link that comes in, and what the port is.
    pub(super) told_link: Option<SwitchPort>,
    pub(super) told: Option<(bool, PortRole)>,
    pub(super) phase: Phase,
    name: String,
    peers: Vec<Peer>,
    /// The other end of the link that this is or was.
    partner: Option<SwitchPort>,
    /// Whether it was one before its switch was lost, and nothing was heard since that is back.
    is_remembered: bool,
    /// Since when the switch at the other end is gone.
    left_since: Option<Instant>,
    delay: Delay,
    window: (Option<Instant>, u32),
    /// When a probe was last answered by one.
    answered: Option<Instant>,
}

impl Port {
    /// A port as its switch describes it, which is not up yet.
    pub(super) fn new(at: SwitchPort, described: &Described, now: Instant) -> Self {
        Self {
            at,
            hw_addr: described.hw_addr,
            due: now,
            far_due: now,
            leads_to: None,
            told_link: None,
            told: None,
            phase: Phase::Down,
            name: described.name(),
            peers: Vec::new(),
            partner: None,
            is_remembered: false,
            left_since: None,
            delay: Delay::default(),
            window: (None, 0),
            answered: None,
        }
    }

    /// It is described anew. Whether anything but its state is otherwise.
    pub(super) fn describe(&mut self, described: &Described) -> bool {
        let name = described.name();
        let is_other = (self.hw_addr, &self.name) != (described.hw_addr, &name);
        (self.hw_addr, self.name) = (described.hw_addr, name);
        is_other
    }

    /// It is up: nothing is known of it, and probes are due.
    pub(super) fn come_up(&mut self, now: Instant) {
        self.forget();
        self.phase = Phase::Asking(None);
        (self.due, self.far_due) = (now, now);
    }

    /// It is up, and was one end of a link when its switch was heard last.
    pub(super) fn was_linked(&mut self, partner: SwitchPort) {
        (self.phase, self.partner, self.is_remembered) = (Phase::Link, Some(partner), true);
    }

    /// Whether it is a link only because it was one.
    pub(super) fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// It is down.
    pub(super) fn go_down(&mut self) {
        self.forget();
        self.phase = Phase::Down;
    }

    fn forget(&mut self) {
        self.peers.clear();
        (self.partner, self.leads_to, self.left_since) = (None, None, None);
        self.is_remembered = false;
        self.delay = Delay::default();
    }

    /// A probe from `from` came in, or one from here came in there by way of others; it is believed for
    /// `life`. Whether that is new.
    pub(super) fn hear(
        &mut self,
        from: SwitchPort,
        way: Way,
        life: Duration,
        now: Instant,
    ) -> bool {
        let known = self.peers.iter_mut().find(|peer| peer.at == from && peer.way == way);
        let peer = Peer { at: from, way, heard: now, life };
        if let Some(known) = known {
            *known = peer;
            return false;
        }
        if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
        } else if let Some(last) = self.peers.iter_mut().max_by_key(|peer| peer.at)
            && from < last.at
        {
            *last = peer;
        }
        self.judge(now);
        true
    }

    /// Frames that leave here come in at `to`, or no longer do.
    pub(super) fn lead_to(&mut self, to: Option<SwitchPort>, now: Instant) {
        self.leads_to = to;
        self.judge(now);
    }

    /// What was heard from `gone` is so no longer: a port, or all of a switch.
    pub(super) fn lose(&mut self, is_gone: impl Fn(SwitchPort) -> bool, now: Instant) {
        let before = self.peers.len();
        self.peers.retain(|peer| !is_gone(peer.at));
        if self.peers.len() < before {
            self.judge(now);
        }
    }

    /// Lets what is old be forgotten.
    pub(super) fn let_time_pass(&mut self, now: Instant, times: &Times) {
        let before = self.peers.len();
        self.peers.retain(|peer| {
            let since = times.woke.map_or(peer.heard, |woke| woke.max(peer.heard));
            now.saturating_duration_since(since) <= peer.life
        });
        if self.peers.len() < before {
            self.judge(now);
        }
        if let Phase::Quiet(since) = self.phase
            && now.saturating_duration_since(since) >= times.settle
        {
            self.phase = Phase::Edge;
        }
    }

    /// Whether it is or was a link and nothing is heard of that now.
    pub(super) fn is_silent_link(&self) -> Option<SwitchPort> {
        let is_silent = self.phase == Phase::Link && self.leads_to.is_none();
        self.partner.filter(|_| is_silent && self.peers.iter().all(|peer| peer.way == Way::Far))
    }

    /// What became of the port at the other end of a silent link.
    pub(super) fn reconsider(&mut self, other: OtherEnd, now: Instant, times: &Times) {
        match other {
            OtherEnd::Ours if !self.is_remembered => self.left_since = None,
            OtherEnd::Elsewhere => self.come_up(now),
            OtherEnd::Ours | OtherEnd::Gone => {
                let since = *self.left_since.get_or_insert(now);
                if now.saturating_duration_since(since) >= times.hold {
                    self.come_up(now);
                }
            }
        }
    }

    /// All that was said up to the barrier `xid` is done.
    pub(super) fn pass_barrier(&mut self, xid: u32, now: Instant) {
        if self.phase == Phase::Asking(Some(xid)) {
            self.phase = Phase::Quiet(now);
        }
    }

    /// Whether another frame may be looked at now.
    pub(super) fn may_look(&mut self, now: Instant) -> bool {
        const WINDOW: Duration = Duration::from_secs(1);
        let (since, count) = &mut self.window;
        if since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (*since, *count) = (Some(now), 0);
        }
        *count = count.saturating_add(1);
        *count <= LOOKED_AT_MAX
    }

    /// Whether a probe may be answered by another at once; else that goes at the next look.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let last = self.answered;
        let may = last.is_none_or(|last| now.saturating_duration_since(last) >= ANSWER_GAP);
        if may {
            self.answered = Some(now);
        }
        may
    }

    /// A frame took so long on the link that comes in.
    pub(super) fn measure(&mut self, sample: Duration) {
        let delay = &mut self.delay;
        delay.smoothed = match delay.samples {
            0 => sample,
            _ => (delay.smoothed * 7 + sample) / 8,
        };
        delay.samples = delay.samples.saturating_add(1);
    }

    /// The delay to be told, if it is to be told anew.
    pub(super) fn new_delay(&mut self, now: Instant) -> Option<Duration> {
        let delay = &mut self.delay;
        let (new, told) = (delay.smoothed, delay.told);
        let is_other = new >= DELAY_MIN.max(told * 2) || (told > DELAY_MIN && new * 2 <= told);
        let is_time =
            delay.told_at.is_none_or(|at| now.saturating_duration_since(at) >= DELAY_AGAIN);
        let is_news = is_other && is_time && delay.samples >= DELAY_SAMPLES_MIN;
        is_news.then(|| {
            (delay.told, delay.told_at) = (new, Some(now));
            new
        })
    }

    /// Concludes from what is heard now.
    fn judge(&mut self, now: Instant) {
        let near = || self.peers.iter().filter(|peer| peer.way == Way::Near).map(|peer| peer.at);
        let is_looped = self.peers.iter().any(|peer| peer.at == self.at);
        let is_far = self.peers.iter().any(|peer| peer.way == Way::Far);
        self.phase = match self.phase {
            Phase::Down => Phase::Down,
            _ if is_looped => Phase::Looped,
            // Something between them forwards what no bridge forwards.
            _ if near().count() > 1 => Phase::Shared,
            _ if near().next().is_some() || self.leads_to.is_some() => {
                self.partner = near().next().or(self.leads_to);
                (self.left_since, self.is_remembered) = (None, false);
                Phase::Link
            }
            // It may still lead there: see `reconsider`.
            Phase::Link => Phase::Link,
            _ if is_far => Phase::Shared,
            Phase::Shared | Phase::Looped => Phase::Quiet(now),
            other => other,
        };
    }

    /// Where the link that comes in begins, if there is one.
    pub(super) fn link_from(&self) -> Option<SwitchPort> {
        let near = || self.peers.iter().find(|peer| peer.way == Way::Near);
        if self.phase == Phase::Link { near().map(|peer| peer.at) } else { None }
    }

    /// A link from elsewhere comes in: nothing is known of how long it takes.
    pub(super) fn forget_delay(&mut self) {
        self.delay = Delay::default();
    }

    /// Whether anything of ours was heard here.
    pub(super) fn is_heard(&self) -> bool {
        !self.peers.is_empty()
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase != Phase::Down
    }

    /// Whether it may lead to a network of others, which is then probed as well.
    pub(super) fn is_outward(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Link)
    }

    pub(super) fn role(&self) -> PortRole {
        match self.phase {
            Phase::Down | Phase::Asking(_) | Phase::Quiet(_) | Phase::Looped => PortRole::Pending,
            Phase::Edge => PortRole::Edge,
            Phase::Link => PortRole::Link,
            Phase::Shared => {
                let peers = self.peers.iter().map(|peer| peer.at);
                PortRole::SharedSegment(peers.min().map_or(self.at, |first| first.min(self.at)))
            }
        }
    }

    /// As all workers shall see it.
    pub(super) fn view(&self) -> PortInfo {
        let (name, hw_addr) = (self.name.clone(), self.hw_addr);
        PortInfo { name, hw_addr, is_up: self.is_up(), role: self.role() }
    }
}

/// What is at the other end of a link on which nothing comes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherEnd {
    /// The same port still, as far as its switch knows.
    Ours,
    /// Another: the port is down, or leads to another one.
    Elsewhere,
    /// A switch that no worker holds.
    Gone,
}

/// Whether a port is one that frames can go through, and not the switch's own stack.
pub(super) fn is_wired(port_no: PortNo) -> bool {
    port_no.is_real() && port_no != PortNo::LOCAL
}
