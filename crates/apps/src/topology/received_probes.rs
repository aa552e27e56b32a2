//! What follows from a probe that is received: a neighbor, and with it a link or an unmanaged segment.

use std::time::{Duration, Instant};

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Ethernet, PortNo};
use sluice_sdk::view::{AppEvent, SwitchPort};
use sluice_sdk::{Ctx, Network};

use super::port::{HeardProbe, PortPhase};
use super::port_facts::publish;
use super::probe::{self, Probe, ProbeError, ProbeKind, WallClock};
use super::switch::ProbeSettings;
use super::unexpected_link::UnexpectedLink;
use super::{LOST_PROBES_MAX, PROBE_AGE_MAX, TICK_INTERVAL, Topology};

/// A port at an unmanaged segment has received the first probe of `sender`, which is no port of this worker. Its worker, if this process has it,
/// need not wait for a probe in the other direction, which may come too late. From then on probes in that direction keep the neighbor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FirstProbeReceived {
    sender: SwitchPort,
    sent_us: u64,
    /// The port that has received the probe, as the neighbor of `sender`.
    heard: HeardProbe,
}

impl AppEvent for FirstProbeReceived {}

impl Topology {
    /// Handles a frame that may be a probe.
    pub(super) fn receive(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        kind: ProbeKind,
        ctx: &mut Ctx<'_>,
    ) {
        let settings = self.probe_settings(ctx.now);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let Ok(n) = switch.find(p.in_port) else { return };
        let Some(port) = switch.ports.get_mut(n) else { return };
        if !port.admit_lldp(ctx.now) {
            self.counters.over_limit += 1;
            return;
        }
        let to = port.at;
        let probe = match probe::parse(p.frame, eth, kind, &settings.secret) {
            Ok(probe) => probe,
            Err(error) => return self.reject(error, to, ctx),
        };
        self.counters.received += 1;
        let now_us = settings.clock.us(ctx.now);
        if u128::from(now_us.abs_diff(probe.sent_us)) > PROBE_AGE_MAX.as_micros() {
            self.counters.expired += 1;
        } else if self.is_outdated(probe.from, probe.sent_us, settings.clock) || !self.is_up(to) {
            self.counters.outdated += 1;
        } else {
            self.handle_probe(n, kind, &probe, ctx, &settings);
        }
    }

    /// Whether a port that sent or received a probe of this time, or its switch, has gone down since.
    fn is_outdated(&self, from: SwitchPort, sent_us: u64, clock: WallClock) -> bool {
        // Compares times, not states: a port of another worker may be up again, which this worker does not know yet.
        let switch = SwitchPort::new(from.switch, PortNo::ANY);
        let times = [from, switch].map(|at| self.went_down.get(&at).copied());
        times.into_iter().flatten().any(|down| sent_us < clock.us(down))
    }

    /// Whether a port is one of this worker and up.
    fn is_up(&mut self, at: SwitchPort) -> bool {
        self.switches.port_mut(at).is_some_and(|port| port.is_up())
    }

    /// Handles a valid probe that was received at the port with index `n` of this switch.
    fn handle_probe(
        &mut self,
        n: usize,
        kind: ProbeKind,
        probe: &Probe,
        ctx: &mut Ctx<'_>,
        settings: &ProbeSettings,
    ) {
        let (now, from) = (ctx.now, probe.from);
        self.switches.mark_with_neighbor_at(from.switch, ctx.switch_index);
        let Some(switch) = self.switches.get_mut(ctx.switch_index) else { return };
        let Some(port) = switch.ports.get_mut(n) else { return };
        let to = port.at;
        if from == to && port.phase != PortPhase::Looped {
            let SwitchPort { switch, port } = to;
            ctx.network.report(|| {
                format!("port receives its own probes; nothing is flooded to it dpid={switch} port={port}")
            });
        }
        let interval = Duration::from_millis(probe.interval_ms.into());
        let link = UnexpectedLink::new(kind, probe, port, switch.connected_at, settings, now);
        let policy = self.cfg.unexpected_links;
        let confirm_after = link.map_or(Duration::ZERO, |link| link.confirm_after(policy));
        let age = Duration::from_micros(settings.clock.us(now).saturating_sub(probe.sent_us));
        // With the age: on a congested control link, the next probe may be delayed by as much.
        let lifetime = interval * LOST_PROBES_MAX + age + TICK_INTERVAL;
        let heard = HeardProbe { from, kind, lifetime, confirm_after };
        let is_new = port.add_neighbor(&heard, now);
        let is_unconfirmed = port.has_unconfirmed_link();
        if let Some(link) = link.filter(|_| is_new) {
            self.counters.unexpected_links += 1;
            if port.admit_warning(now) {
                ctx.network.report(|| link.warning(policy));
            }
        }
        let is_link = port.link_from() == Some(from);
        self.longest_rtt.add(Duration::from_micros(probe.rtt_us.into()), now);
        publish(port, now, ctx.network, &mut self.counters);
        let may_be_shared = port.phase == PortPhase::SharedSegment || port.may_be_link();
        // If the other direction of a link is unknown, the last probe may have been too early for the other switch.
        let with_lldp = if is_link {
            port.link_to() != Some(from)
        } else {
            is_new && (port.may_be_link() || is_unconfirmed)
        };
        let with_broadcast = !is_link && is_new && may_be_shared;
        // If they cannot be answered now, they are with the next probes.
        if with_lldp {
            port.next_lldp = now;
        }
        if with_broadcast {
            port.next_broadcast = now;
        }
        if (with_lldp || with_broadcast) && ctx.has_room() && port.admit_answer(now) {
            let kinds = [(with_lldp, ProbeKind::Lldp), (with_broadcast, ProbeKind::Broadcast)];
            for (_, kind) in kinds.into_iter().filter(|(is_sent, _)| *is_sent) {
                switch.send_probe(n, kind, ctx, settings, &mut self.counters);
            }
        }
        if from == to {
            return;
        }
        // Updates the other end if it is a port of this worker; other workers receive the fact.
        if is_link {
            self.set_link(from, Some(to), now, ctx.network);
        } else if may_be_shared && link.is_none() {
            let heard = HeardProbe { from: to, ..heard };
            if is_new && self.switches.port_mut(from).is_none() {
                let sent_us = probe.sent_us;
                ctx.publish_event(FirstProbeReceived { sender: from, sent_us, heard });
            }
            self.add_receiver(from, &heard, now, ctx.network);
        }
    }

    /// Handles the first probe that a port of another worker has received, if a port of this worker has sent it.
    pub(super) fn on_first_probe_received(
        &mut self,
        received: &FirstProbeReceived,
        now: Instant,
        network: &mut Network,
    ) {
        let &FirstProbeReceived { sender, sent_us, ref heard } = received;
        if self.is_up(sender) {
            let clock = self.probe_settings(now).clock;
            let age_us = u128::from(clock.us(now).abs_diff(sent_us));
            let ports = [sender, heard.from];
            if age_us <= PROBE_AGE_MAX.as_micros()
                && !ports.into_iter().any(|at| self.is_outdated(at, sent_us, clock))
            {
                self.add_receiver(sender, heard, now, network);
            }
        }
    }

    /// Adds the port that has received a probe of `sender` to the neighbors of that, if it is one of this worker.
    fn add_receiver(
        &mut self,
        sender: SwitchPort,
        heard: &HeardProbe,
        now: Instant,
        network: &mut Network,
    ) {
        if let Some(port) = self.switches.port_with_neighbor_at_mut(heard.from.switch, sender)
            && port.is_up()
        {
            port.add_neighbor(heard, now);
            publish(port, now, network, &mut self.counters);
        }
    }

    /// Sets or removes the link that starts at `from`, if that is a port of this worker.
    pub(super) fn set_link(
        &mut self,
        from: SwitchPort,
        to: Option<SwitchPort>,
        now: Instant,
        network: &mut Network,
    ) {
        let Some(port) = self.switches.port_mut(from) else { return };
        if port.link_to() == to || (to.is_some() && !port.is_up()) {
            return;
        }
        if let Some(before) = port.link_to() {
            self.link_starts.remove(&before);
        }
        port.set_link_to(to, now);
        if let Some(to) = to {
            self.link_starts.insert(to, from);
        }
        publish(port, now, network, &mut self.counters);
    }

    /// Counts and logs a frame that is not a valid probe.
    fn reject(&mut self, error: ProbeError, at: SwitchPort, ctx: &mut Ctx<'_>) {
        let counter = match error {
            ProbeError::Foreign => &mut self.counters.foreign,
            ProbeError::Malformed => &mut self.counters.malformed,
            ProbeError::Forged => &mut self.counters.forged,
        };
        *counter += 1;
        let what = match error {
            ProbeError::Foreign => return,
            ProbeError::Malformed => "malformed LLDP frame",
            ProbeError::Forged => "LLDP probe with a wrong signature",
        };
        let SwitchPort { switch, port } = at;
        self.report(ctx, || format!("{what} received dpid={switch} port={port}"));
    }
}
