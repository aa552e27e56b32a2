//! A switch of this worker: its ports, when they are probed, and how far away it is.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use sluice_fastpath::{MessageTemplate, TemplateValues};
use sluice_openflow::{
    Action, DatapathId, EncodeError, Encoder, Ethernet, Features, Field, FlowMod, Instruction,
    PacketOut, PortNo,
};
use sluice_sdk::view::{SwitchInfo, SwitchPort};
use sluice_sdk::{Ctx, LINK_PROBE_TYPES, SwitchIndex};

use super::Counts;
use super::port::{Phase, Port, Times, is_wired};
use super::probe::{Clock, Drawing, Secret, Way};

/// Barriers that may be on their way at one time. What they are for can wait.
const BARRIERS_MAX: usize = 8;
/// How long an answer to one is waited for: some switches never answer.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the way to a switch is measured, in probes.
const MEASURED_EVERY: u32 = 8;
/// Ports of a switch that are looked at. Who names more is no switch that anybody has, and would cost others their time.
pub(super) const PORTS_MAX: usize = 4096;
/// Ports that are probed at one time; those of larger switches are probed in several parts of the interval.
const AT_ONCE: usize = 64;
/// Parts of an interval.
const PARTS: u64 = 16;
/// Above all rules that forward: they must not hide links. Only who holds a port from which too many such frames come is
/// above it.
const PRIORITY: u16 = u16::MAX - 1;

/// What all probes of a worker have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    pub(super) clock: Clock,
    pub(super) secret: Secret,
    pub(super) interval: Duration,
    pub(super) far_interval: Duration,
    pub(super) times: Times,
}

/// A switch of this worker.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) id: DatapathId,
    /// In the order of their numbers.
    pub(super) ports: Vec<Port>,
    /// How long it takes to answer, smoothed.
    pub(super) rtt: Option<Duration>,
    probe_template: MessageTemplate,
    drawing: Drawing,
    barriers: VecDeque<(u32, Instant)>,
    measured_at: Option<Instant>,
}

impl Switch {
    /// A switch that came up; none of its ports is up yet.
    ///
    /// # Errors
    /// Names what its version cannot say, which is nothing.
    pub(super) fn new(
        features: &Features,
        ctx: &Ctx<'_>,
        rhythm: &Rhythm,
    ) -> Result<Self, EncodeError> {
        let actions = [Action::output(PortNo(1))];
        let (in_port, frame) = (PortNo::CONTROLLER, &[][..]);
        let drawn = PacketOut { buffer_id: None, in_port, actions: &actions, frame };
        let wired = features.ports.iter().filter(|port| is_wired(port.port_no));
        let mut ports: Vec<_> = wired
            .map(|port| Port::new(SwitchPort::new(ctx.datapath_id, port.port_no), port, ctx.now))
            .collect();
        ports.sort_by_key(|port| port.at);
        ports.dedup_by_key(|port| port.at);
        ports.truncate(PORTS_MAX);
        Ok(Self {
            id: ctx.datapath_id,
            ports,
            rtt: None,
            probe_template: MessageTemplate::packet_out(&ctx.switch, &drawn)?,
            drawing: Drawing::new(ctx.datapath_id, rhythm.interval * super::LOST_PROBES_MAX),
            barriers: VecDeque::new(),
            measured_at: None,
        })
    }

    /// As all workers shall see it.
    pub(super) fn view(&self) -> SwitchInfo {
        SwitchInfo { ports: self.ports.iter().map(|port| (port.at.port, port.view())).collect() }
    }

    /// Where among the ports `port_no` is, or where it would be.
    pub(super) fn find(&self, port_no: PortNo) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port_no, |port| port.at.port)
    }

    /// Sends a probe out of the `n`th port, before all that waits.
    pub(super) fn probe(
        &mut self,
        n: usize,
        way: Way,
        ctx: &mut Ctx<'_>,
        rhythm: &Rhythm,
        counts: &mut Counts,
    ) {
        let Some(port) = self.ports.get_mut(n) else { return };
        let port_no = port.at.port;
        let rtt_us = self.rtt.map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX));
        let sent_us = rhythm.clock.us(ctx.now);
        let from = (port_no, port.hw_addr);
        let interval = match way {
            Way::Near => rhythm.interval,
            Way::Far => rhythm.far_interval,
        };
        let interval_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        let says = (sent_us, rtt_us, interval_ms);
        let frame = self.drawing.fill(way, from, says, &rhythm.secret);
        let Some(eth) = Ethernet::new(frame) else { return };
        let values = TemplateValues {
            buffer_id: None,
            in_port: PortNo::CONTROLLER,
            eth: eth.header,
            vlan: None,
            out_port: port_no,
        };
        // A port that the version has no number for was not told in it.
        let _ = self.probe_template.encode_with_frame(&mut ctx.urgent(), &values, frame);
        let due = ctx.now + until_next(self.id, n, sent_us, interval);
        match way {
            Way::Near => port.due = due,
            Way::Far => port.far_due = due,
        }
        counts.sent += 1;
    }

    /// Sends all probes that are due, and asks whether the first of them have left.
    pub(super) fn probe_due(&mut self, ctx: &mut Ctx<'_>, rhythm: &Rhythm, counts: &mut Counts) {
        let mut is_asking = false;
        for n in 0..self.ports.len() {
            let Some(port) = self.ports.get(n).filter(|port| port.is_up()) else { continue };
            is_asking |= port.phase == Phase::Asking(None);
            let (is_due, is_far_due) = (port.due <= ctx.now, port.far_due <= ctx.now);
            let is_far_due = is_far_due && port.is_outward();
            if is_due {
                self.probe(n, Way::Near, ctx, rhythm, counts);
            }
            if is_far_due {
                self.probe(n, Way::Far, ctx, rhythm, counts);
            }
        }
        let every = rhythm.interval * MEASURED_EVERY;
        let is_time =
            self.measured_at.is_none_or(|at| ctx.now.saturating_duration_since(at) >= every);
        if (is_asking || is_time) && self.barriers.len() < BARRIERS_MAX {
            let xid = ctx.urgent().barrier_request();
            self.barriers.push_back((xid, ctx.now));
            self.measured_at = Some(ctx.now);
            for port in &mut self.ports {
                if port.phase == Phase::Asking(None) {
                    port.phase = Phase::Asking(Some(xid));
                }
            }
        }
    }

    /// Gives up waiting for answers that are overdue.
    pub(super) fn let_barriers_pass(&mut self, now: Instant) {
        while let Some(&(xid, sent)) = self.barriers.front()
            && now.saturating_duration_since(sent) >= BARRIER_TIMEOUT
        {
            self.barriers.pop_front();
            self.ports.iter_mut().for_each(|port| port.pass_barrier(xid, now));
        }
    }

    /// A barrier was answered. How long that took, and takes otherwise, if it was one of ours.
    pub(super) fn pass_barrier(&mut self, xid: u32, now: Instant) -> Option<(Duration, Duration)> {
        let at = self.barriers.iter().position(|&(asked, _)| asked == xid)?;
        let (_, sent) = self.barriers.remove(at)?;
        self.ports.iter_mut().for_each(|port| port.pass_barrier(xid, now));
        let sample = now.saturating_duration_since(sent);
        // A switch that had much to do first tells more than the way to it: what is shorter counts for more.
        let smoothed = self.rtt.map_or(sample, |rtt| {
            if sample < rtt { (rtt + sample) / 2 } else { (rtt * 7 + sample) / 8 }
        });
        self.rtt = Some(smoothed);
        Some((sample, smoothed))
    }
}

/// Lets probes, whoever's, come up whole, whatever other rules say.
pub(super) fn send_probes_up(out: &mut Encoder<'_>) {
    for ethertype in LINK_PROBE_TYPES {
        let up = Action::Output { port: PortNo::CONTROLLER, max_len: Action::WHOLE };
        let written = out.flow_mod(&FlowMod {
            priority: PRIORITY,
            matching: [Field::eth_type(ethertype.0)].into(),
            instructions: vec![Instruction::apply([up])],
            ..FlowMod::default()
        });
        debug_assert!(written.is_ok(), "every version can say it");
    }
}

/// How long from `now_us` to the next probe of the `n`th port of `id`. Each switch has a time of its own in the
/// interval, so that they do not all speak at once; after the first probe, the next comes within half an interval to
/// one and a half.
fn until_next(id: DatapathId, n: usize, now_us: u64, interval: Duration) -> Duration {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).max(1);
    let part = (n / AT_ONCE) as u64 % PARTS;
    let own = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let own = (own % interval + part * interval / PARTS) % interval;
    let earliest = now_us.saturating_add(interval / 2);
    let wait = (own + interval - earliest % interval) % interval;
    Duration::from_micros(interval / 2 + wait)
}

/// The switches of this worker.
#[derive(Debug, Default)]
pub(super) struct Switches {
    by_sw: Vec<Option<Box<Switch>>>,
    by_id: HashMap<DatapathId, SwitchIndex>,
}

impl Switches {
    pub(super) fn insert(&mut self, sw: SwitchIndex, switch: Switch) {
        if self.by_sw.len() <= sw.index() {
            self.by_sw.resize_with(sw.index() + 1, || None);
        }
        self.by_id.insert(switch.id, sw);
        if let Some(place) = self.by_sw.get_mut(sw.index()) {
            *place = Some(Box::new(switch));
        }
    }

    pub(super) fn remove(&mut self, sw: SwitchIndex) -> Option<Box<Switch>> {
        let switch = self.by_sw.get_mut(sw.index())?.take()?;
        self.by_id.remove(&switch.id);
        Some(switch)
    }

    pub(super) fn get_mut(&mut self, sw: SwitchIndex) -> Option<&mut Switch> {
        self.by_sw.get_mut(sw.index())?.as_deref_mut()
    }

    /// The port at `at`, if its switch is one of this worker.
    pub(super) fn port_mut(&mut self, at: SwitchPort) -> Option<&mut Port> {
        let &sw = self.by_id.get(&at.switch)?;
        let switch = self.get_mut(sw)?;
        let n = switch.find(at.port).ok()?;
        switch.ports.get_mut(n)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Switch> {
        self.by_sw.iter().filter_map(Option::as_deref)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Switch> {
        self.by_sw.iter_mut().filter_map(Option::as_deref_mut)
    }
}
