//! Which switches are linked, and what their other ports lead to. IEEE 802.1AB. `docs/topology.md` has the rules.

mod counts;
mod memory;
mod port;
mod probe;
mod switch;

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sluice_openflow::{Ethernet, Features, PacketIn, PacketOut, PortNo, PortReason, PortStatus};
use sluice_sdk::view::{Fact, Link, PublishedFact, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use counts::{Counts, Greatest, Ports};
use memory::Memory;
use port::{OtherEnd, Phase, Port, Times, is_wired};
pub use probe::{Clock, Secret};
use probe::{Probe, Refused, Way};
use switch::{PORTS_MAX, Rhythm, Switch, Switches, send_probes_up};

/// How links are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How often each port is probed; less than the 250 ms between two looks at a switch is that.
    pub probe_interval: Duration,
    /// Probes in a second that a worker sends at most, and some more to networks of others: with more ports, each is
    /// probed less often.
    pub probes_per_s_max: u32,
    /// How long a port must be quiet before it is one for hosts, at least.
    pub settle: Duration,
    /// How often networks of others are probed for ways between our ports.
    pub shared_interval: Duration,
    /// What probes are signed with; `None` draws it once per process.
    pub secret: Option<Secret>,
    /// What other processes with the same secret tell time by; needed with a secret only.
    pub clock: Option<Clock>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(1),
            // Some 1.5 % of a core: lab/discovery.
            probes_per_s_max: 3000,
            settle: Duration::from_millis(250),
            shared_interval: Duration::from_secs(5),
            secret: None,
            clock: None,
        }
    }
}

/// Consecutive probes that may be lost before a link is down: one or two are lost where a link is congested.
const LOST_PROBES_MAX: u32 = 3;
/// How long a port stays an inter-switch port after the switch at its other end has disconnected: longer than most flow
/// entries last without use.
const DISCONNECTED_PEER_HOLD: Duration = Duration::from_secs(30);
/// How often time passes for a switch, about.
const LOOKED_EVERY: Duration = Duration::from_millis(250);
/// The greatest age of a probe that is believed: more than it takes through a control link that is far and busy.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How often what is over is forgotten.
const TIDIED_EVERY: Duration = Duration::from_secs(1);
/// Without a turn for this long, the process slept, and what was not heard meanwhile is not lost.
const SLEPT: Duration = Duration::from_secs(2);
/// Between two lines of log about frames that are refused.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Finds links by sending frames through them, and says what every port leads to.
#[derive(Debug)]
pub struct Topology {
    cfg: Config,
    switches: Switches,
    /// Which port of ours leads to a port, of whichever worker.
    leading: HashMap<SwitchPort, SwitchPort>,
    memory: Memory,
    /// When a port, or with [`PortNo::ANY`] a switch, was there last: what left before is no news. Swept.
    ended: HashMap<SwitchPort, Instant>,
    clock: Option<Clock>,
    now: Option<Instant>,
    woke: Option<Instant>,
    rtt_max: Greatest,
    logged: Option<Instant>,
    tidied: Option<Instant>,
    /// How many ports there are, or were a moment ago.
    ports: u32,
    counts: Counts,
}

/// The clock of all workers of a process that was given none.
static STARTED: OnceLock<Clock> = OnceLock::new();

impl Default for Topology {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Topology {
    /// One that looks for links so.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            switches: Switches::default(),
            leading: HashMap::new(),
            memory: Memory::default(),
            ended: HashMap::new(),
            clock: cfg.clock,
            now: None,
            woke: None,
            rtt_max: Greatest::default(),
            logged: None,
            tidied: None,
            ports: 0,
            counts: Counts::default(),
        }
    }

    /// Sets it otherwise.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
    }

    fn rhythm(&mut self, now: Instant) -> Rhythm {
        let started = || *STARTED.get_or_init(|| Clock { at: now, since_1970: Duration::ZERO });
        let cfg = &self.cfg;
        let least = Duration::from_secs(1) * self.ports / cfg.probes_per_s_max.max(1);
        let wanted = cfg.probe_interval.max(LOOKED_EVERY);
        let interval = wanted.max(least);
        let slower = interval.div_duration_f64(wanted);
        let far_interval = cfg.shared_interval.max(LOOKED_EVERY).mul_f64(slower);
        let times = Times {
            // What left before its switch said so is back by way of any other switch by then.
            settle: cfg.settle.max(self.rtt_max.get(now)),
            hold: DISCONNECTED_PEER_HOLD,
            woke: self.woke,
        };
        let clock = *self.clock.get_or_insert_with(started);
        let secret = cfg.secret.unwrap_or_else(Secret::of_process);
        Rhythm { clock, secret, interval, far_interval, times }
    }

    /// A frame that may be a probe came in at the `n`th port of `sw`.
    fn look(&mut self, p: &PacketIn<'_>, eth: &Ethernet<'_>, way: Way, ctx: &mut Ctx<'_>) {
        let rhythm = self.rhythm(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let Ok(n) = switch.find(p.in_port) else { return };
        let Some(port) = switch.ports.get_mut(n) else { return };
        if !port.may_look(ctx.now) {
            self.counts.over_rate += 1;
            return;
        }
        let to = port.at;
        let probe = match probe::read(p.frame, eth, way, &rhythm.secret) {
            Ok(probe) => probe,
            Err(refused) => return self.refuse(refused, to, ctx),
        };
        self.counts.received += 1;
        let now_us = rhythm.clock.us(ctx.now);
        if u128::from(now_us.abs_diff(probe.sent_us)) > AGE_MAX.as_micros() {
            self.counts.expired += 1;
        } else if self.is_late(&probe, to, &rhythm) {
            self.counts.late += 1;
        } else {
            self.hear(n, way, &probe, ctx, &rhythm);
        }
    }

    /// Whether a probe left before its port or switch was gone, or comes in where none can.
    fn is_late(&mut self, probe: &Probe, to: SwitchPort, rhythm: &Rhythm) -> bool {
        // That it is up again is perhaps not known here yet, so what counts is when it was down.
        let switch = SwitchPort::new(probe.from.switch, PortNo::ANY);
        let ends = [probe.from, switch].map(|at| self.ended.get(&at).copied());
        let is_before = |end: Instant| probe.sent_us < rhythm.clock.us(end);
        ends.into_iter().flatten().any(is_before)
            || self.switches.port_mut(to).is_none_or(|port| !port.is_up())
    }

    /// A probe of ours came in at the `n`th port of this switch.
    fn hear(&mut self, n: usize, way: Way, probe: &Probe, ctx: &mut Ctx<'_>, rhythm: &Rhythm) {
        let (now, from) = (ctx.now, probe.from);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let rtt = switch.rtt;
        let Some(port) = switch.ports.get_mut(n) else { return };
        let to = port.at;
        if from == to && port.phase != Phase::Looped {
            ctx.network
                .report(|| format!("{to}: what leaves comes in again; nothing is flooded there"));
        }
        let interval = Duration::from_millis(probe.interval_ms.into());
        let took = Duration::from_micros(rhythm.clock.us(now).saturating_sub(probe.sent_us));
        // Where a control link fills, the next is later by as much again.
        let life = interval * LOST_PROBES_MAX + took + LOOKED_EVERY;
        let is_new = port.hear(from, way, life, now);
        let is_linked = port.link_from() == Some(from);
        if is_linked && probe.process == probe::process() && probe.rtt_us > 0 {
            let far_end = Duration::from_micros(probe.rtt_us.into());
            if let Some(rtt) = rtt {
                port.measure(took.saturating_sub((rtt + far_end) / 2));
            }
        }
        self.rtt_max.add(Duration::from_micros(probe.rtt_us.into()), now);
        show(port, now, ctx.network, &mut self.counts);
        let (leads_to, phase) = (port.leads_to, port.phase);
        let asks = if is_linked && leads_to != Some(from) {
            // The other direction: the last probe out of here was perhaps too early for the other switch.
            port.due = now;
            Some(Way::Near)
        } else if phase == Phase::Shared && is_new {
            port.far_due = now;
            Some(Way::Far)
        } else {
            None
        };
        if let Some(way) = asks.filter(|_| port.may_answer(now)) {
            switch.probe(n, way, ctx, rhythm, &mut self.counts);
        }
        if from == to {
            return;
        }
        // The other end knows at once, if it is of this worker; else it is told.
        if is_linked {
            self.lead(from, Some(to), now, ctx.network);
        } else if phase == Phase::Shared
            && let Some(port) = self.switches.port_mut(from)
            && port.is_up()
        {
            port.hear(to, way, life, now);
            show(port, now, ctx.network, &mut self.counts);
        }
    }

    /// What leaves at `from` comes in at `to`, or no longer does.
    fn lead(
        &mut self,
        from: SwitchPort,
        to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(port) = self.switches.port_mut(from) else { return };
        if port.leads_to == to || (to.is_some() && !port.is_up()) {
            return;
        }
        if let Some(before) = port.leads_to {
            self.leading.remove(&before);
        }
        port.lead_to(to, now);
        if let Some(to) = to {
            self.leading.insert(to, from);
        }
        show(port, now, network, &mut self.counts);
    }

    fn refuse(&mut self, refused: Refused, at: SwitchPort, ctx: &mut Ctx<'_>) {
        let count = match refused {
            Refused::Foreign => &mut self.counts.foreign,
            Refused::Malformed => &mut self.counts.malformed,
            Refused::Forged => &mut self.counts.forged,
        };
        *count += 1;
        let what = match refused {
            Refused::Foreign => return,
            Refused::Malformed => "no LLDP that can be read",
            Refused::Forged => "signed by nobody who may",
        };
        self.report(ctx, || format!("{at}: a frame that would show a link is {what}"));
    }

    /// Says what is wrong with somebody, rarely.
    fn report(&mut self, ctx: &mut Ctx<'_>, what: impl FnOnce() -> String) {
        let last = self.logged;
        if last.is_none_or(|at| ctx.now.saturating_duration_since(at) >= LOGGED_EVERY) {
            self.logged = Some(ctx.now);
            ctx.network.report(what);
        }
    }

    /// A port came or changed.
    fn see(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let rhythm = self.rhythm(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let described = &status.port;
        let at = SwitchPort::new(ctx.datapath_id, described.port_no);
        let n = match switch.find(at.port) {
            Ok(n) => n,
            Err(_) if switch.ports.len() >= PORTS_MAX => {
                return self.report(ctx, || {
                    format!("{at}: its switch has {PORTS_MAX} others; it is not looked at")
                });
            }
            Err(n) => {
                switch.ports.insert(n, Port::new(at, described, ctx.now));
                n
            }
        };
        let Some(port) = switch.ports.get_mut(n) else { return };
        if port.describe(described) {
            port.told = None;
        }
        match (port.is_up(), described.is_up()) {
            (false, true) => {
                port.come_up(ctx.now);
                switch.probe_due(ctx, &rhythm, &mut self.counts);
            }
            (true, false) => {
                let led_to = port.leads_to;
                port.go_down();
                self.leave(at, led_to, ctx.now, ctx.network);
            }
            _ => {}
        }
        if let Some(port) = self.switches.port_mut(at) {
            show(port, ctx.now, ctx.network, &mut self.counts);
        }
    }

    /// The links at a port are gone, in both directions.
    fn leave(
        &mut self,
        at: SwitchPort,
        led_to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        self.ended.insert(at, now);
        led_to.map(|to| self.leading.remove(&to));
        if let Some(out) = network.view().link_from(at).map(|link| link.to) {
            self.counts.links_lost += 1;
            network.publish(now, Fact::Link(out, None));
        }
        if network.view().link_to(at).is_some() {
            self.counts.links_lost += 1;
            network.publish(now, Fact::Link(at, None));
        }
        if let Some(port) = self.switches.port_mut(at) {
            port.told_link = None;
        }
    }

    /// What leads to ports that are gone, or shares a network with them, does so no longer.
    fn lose(&mut self, gone: SwitchPort, now: Instant, network: &mut Network) {
        self.ended.insert(gone, now);
        let is_gone =
            |at: SwitchPort| at == gone || (gone.port == PortNo::ANY && at.switch == gone.switch);
        for switch in self.switches.iter_mut() {
            for port in switch.ports.iter_mut().filter(|port| port.is_heard()) {
                port.lose(is_gone, now);
                show(port, now, network, &mut self.counts);
            }
        }
    }
}

/// Tells what is otherwise than it was told.
fn show(port: &mut Port, now: Instant, network: &mut Network, counts: &mut Counts) {
    let (at, from) = (port.at, port.link_from());
    let view = (port.is_up(), port.role());
    if port.told != Some(view) {
        port.told = Some(view);
        network.publish(now, Fact::Port(at, Some(port.view())));
    }
    let is_other = from != port.told_link;
    if is_other {
        port.forget_delay();
        counts.links_lost += u64::from(from.is_none());
    }
    let delay = port.new_delay(now);
    if is_other || (from.is_some() && delay.is_some()) {
        port.told_link = from;
        let delay = delay.unwrap_or_default();
        network.publish(now, Fact::Link(at, from.map(|from| Link { from, to: at, delay })));
    }
}

impl App for Topology {
    fn on_iteration(&mut self, now: Instant) {
        if self.now.is_some_and(|last| now.saturating_duration_since(last) > SLEPT) {
            self.woke = Some(now);
        }
        self.now = Some(now);
        if self.tidied.is_none_or(|last| now.saturating_duration_since(last) >= TIDIED_EVERY) {
            self.tidied = Some(now);
            self.ended.retain(|_, &mut end| now.saturating_duration_since(end) <= AGE_MAX);
            self.memory.sweep(now, DISCONNECTED_PEER_HOLD);
            let ports: usize = self.switches.iter().map(|switch| switch.ports.len()).sum();
            self.ports = u32::try_from(ports).unwrap_or(u32::MAX);
        }
    }

    fn on_switch_connected(&mut self, features: &Features, ctx: &mut Ctx<'_>) {
        let rhythm = self.rhythm(ctx.now);
        let drawn = Switch::new(features, ctx, &rhythm);
        debug_assert!(drawn.is_ok(), "every version can say it");
        let Ok(mut switch) = drawn else { return };
        let described = features.ports.iter().filter(|port| port.is_up());
        for port in described {
            if let Ok(n) = switch.find(port.port_no)
                && let Some(port) = switch.ports.get_mut(n)
            {
                port.come_up(ctx.now);
                if let Some(partner) = self.memory.partner(port.at) {
                    port.was_linked(partner);
                }
            }
        }
        for port in &mut switch.ports {
            port.told = Some((port.is_up(), port.role()));
        }
        ctx.publish(Fact::Switch(ctx.datapath_id, Some(switch.view())));
        send_probes_up(&mut ctx.urgent());
        switch.probe_due(ctx, &rhythm, &mut self.counts);
        // What answers may be lost: a switch goes on for a moment to drop what it dropped without a controller.
        for port in switch.ports.iter_mut().filter(|port| port.is_remembered()) {
            port.due = port.due.min(ctx.now + LOOKED_EVERY);
        }
        self.switches.insert(ctx.switch_index, switch);
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        network.forget_rtt(sw);
        let Some(switch) = self.switches.remove(sw) else { return };
        // First of all: a link that nobody hears of is not one that is cut.
        network.publish(now, Fact::Switch(switch.id, None));
        for port in &switch.ports {
            self.leave(port.at, port.leads_to, now, network);
        }
        self.ended.insert(SwitchPort::new(switch.id, PortNo::ANY), now);
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        let rhythm = self.rhythm(ctx.now);
        let now = ctx.now;
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        switch.let_barriers_pass(now);
        for port in &mut switch.ports {
            port.let_time_pass(now, &rhythm.times);
            if let Some(other) = port.is_silent_link() {
                let end = other_end(port.at, other, ctx.network);
                port.reconsider(end, now, &rhythm.times);
            }
            show(port, now, ctx.network, &mut self.counts);
        }
        switch.probe_due(ctx, &rhythm, &mut self.counts);
    }

    fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
        self.memory.told(&told.fact, now, network.view());
        match told.fact {
            Fact::Link(to, Some(link)) => self.lead(link.from, Some(to), now, network),
            Fact::Link(to, None) => {
                if network.view().link_to(to).is_some() {
                    return;
                }
                if let Some(&from) = self.leading.get(&to) {
                    self.lead(from, None, now, network);
                }
                // The worker of the other end said so.
                if let Some(port) = self.switches.port_mut(to)
                    && port.told_link.take().is_some()
                {
                    port.lose(|_| true, now);
                    show(port, now, network, &mut self.counts);
                }
            }
            Fact::Switch(id, None) => {
                self.lose(SwitchPort::new(id, PortNo::ANY), told.stamp.at(), network);
            }
            Fact::Port(at, ref port) if port.as_ref().is_none_or(|port| !port.is_up) => {
                self.lose(at, told.stamp.at(), network);
            }
            _ => {}
        }
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Continue };
        let Some(way) = probe::way(&eth) else { return Verdict::Continue };
        if p.buffer_id.is_some() {
            // Without actions it is dropped, and the switch has its slot back. Every version can say it.
            let _ = ctx.switch.packet_out(&PacketOut { actions: &[], ..PacketOut::answer(p) });
        }
        self.look(p, &eth, way, ctx);
        Verdict::Stop
    }

    fn on_port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        let at = SwitchPort::new(ctx.datapath_id, status.port.port_no);
        if !is_wired(at.port) {
            return;
        }
        if status.reason != PortReason::DELETE {
            return self.see(status, ctx);
        }
        if let Some(switch) = self.switches.get_mut(ctx.switch_index)
            && let Ok(n) = switch.find(at.port)
        {
            let port = switch.ports.remove(n);
            self.leave(at, port.leads_to, ctx.now, ctx.network);
        }
        ctx.publish(Fact::Port(at, None));
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        if let Some((took, rtt)) = switch.pass_barrier(xid, ctx.now) {
            self.rtt_max.add(rtt, ctx.now);
            ctx.network.record_rtt(ctx.switch_index, took);
        }
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        let mut ports = Ports::default();
        self.switches.iter().flat_map(|switch| &switch.ports).for_each(|port| ports.add(port));
        let switches = self.switches.iter().count() as u64;
        put(AppMetric::gauge("topology_switches", "Switches whose ports are probed", switches));
        ports.show(put);
        self.counts.show(put);
    }
}

/// What is known of `other`, which was the other end of a link of `at`.
fn other_end(at: SwitchPort, other: SwitchPort, network: &Network) -> OtherEnd {
    let view = network.view();
    if view.switch(other.switch).is_none() {
        return OtherEnd::Gone;
    }
    let leads_elsewhere = view.link_to(other).is_some_and(|link| link.from != at)
        || view.link_from(other).is_some_and(|link| link.to != at);
    match view.port(other) {
        Some(port) if port.is_up && !leads_elsewhere => OtherEnd::Ours,
        _ => OtherEnd::Elsewhere,
    }
}
