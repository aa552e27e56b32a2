//! Devices that aggregate links (LACP, IEEE 802.1AX): one of the ports by which a device is attached is in use, the others stand
//! by. They may belong to several switches, since all switches are one system for the device.
//!
//! The controller only answers. In its answers, only the port in use is in sync; a device sends nothing but these frames out of its
//! other ports, and accepts nothing else there.

mod frame;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_openflow::view::PacketIn;
use sluice_openflow::{DatapathId, Ethernet, MacAddr, VlanId};
use sluice_sdk::view::{AppRecord, Fact, HostId, NetworkView, PortRole, PublishedFact, SwitchPort};
use sluice_sdk::{Ctx, Network, Verdict};
use zerocopy::big_endian::U16;

use super::counters::{EventCounter, PortFields};
use super::{Config, ConflictPolicy, Hosts, discard, is_attachment_port, send_frame};
use crate::rate_limit::RateLimit;
use frame::{Parsed, PortParameters, state};

/// The system of all switches; locally administered. Its lowest priority leaves decisions to the device.
const SYSTEM: MacAddr = MacAddr([0x0e, 0x53, 0x4c, 0, 0, 4]);
const LOWEST_PRIORITY: U16 = U16::new(u16::MAX);

/// The key of all ports: the device decides which it aggregates.
const KEY: U16 = U16::new(1);

/// How long the first port waits for others, of which one may have been in use. IEEE 802.1AX §5.4.4 (`Aggregate_Wait_Time`).
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(2);

/// How long a port stays in a bundle, whatever its device states.
const MEMBER_FOR: Duration = Duration::from_secs(2);

/// Silence after which a port is not in use any more. Its device sends every second, as the controller asks for.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// How long other ports are preferred to one at which a claim of a host behind such a device was rejected.
const DISTRUSTED_FOR: Duration = Duration::from_secs(600);

/// Frames per second and port that are answered. A device sends at most three. IEEE 802.1AX §5.4.16.
const ANSWERS_PER_S_MAX: u32 = 5;

/// What a device aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bundle {
    system_priority: u16,
    system: [u8; 6],
    key: u16,
    /// The port, if it cannot be aggregated with others.
    individual: Option<SwitchPort>,
}

/// A port of a [`Bundle`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Member {
    bundle: Bundle,
    joined: Instant,
    /// The device sent frames out of this port when it joined: the controller has restarted, or the switch has reconnected.
    was_in_use: bool,
    /// A claim of a host behind such a device was rejected here: any other port is preferred.
    is_distrusted: bool,
}

impl AppRecord for Member {
    type Key = SwitchPort;
}

/// A port of this worker.
#[derive(Debug)]
struct LocalPort {
    /// The other end, as it stated last.
    device: PortParameters,
    heard: Instant,
    /// Whether the last answer said that the port is in use.
    is_in_use: bool,
    received: RateLimit,
}

/// The bundles of all workers, as the view has them.
#[derive(Debug, Default)]
struct Bundles {
    members: BTreeMap<Bundle, BTreeMap<SwitchPort, Member>>,
    of_port: BTreeMap<SwitchPort, Bundle>,
}

impl Bundles {
    /// A port is this member now, or of no bundle.
    fn set(&mut self, at: SwitchPort, member: Option<Member>) {
        if let Some(bundle) = self.of_port.remove(&at)
            && let Some(members) = self.members.get_mut(&bundle)
        {
            members.remove(&at);
            if members.is_empty() {
                self.members.remove(&bundle);
            }
        }
        if let Some(member) = member {
            self.of_port.insert(at, member.bundle);
            self.members.entry(member.bundle).or_default().insert(at, member);
        }
    }

    /// The port of a bundle that is in use. It stays in use when others join. The port `known_at`, where the device is known as a
    /// host, comes before all others.
    fn port_in_use(
        &self,
        bundle: &Bundle,
        known_at: Option<SwitchPort>,
        now: Instant,
    ) -> Option<SwitchPort> {
        let members = self.members.get(bundle)?;
        if let Some(at) = known_at.filter(|at| members.contains_key(at)) {
            return Some(at);
        }
        let has_trusted = members.values().any(|member| !member.is_distrusted);
        let members = members.iter().filter(|(_, member)| !(has_trusted && member.is_distrusted));
        let first = members.clone().map(|(_, member)| member.joined).min()?;
        let was_in_use =
            |member: &Member| member.was_in_use && member.joined <= first + WAIT_FOR_OTHERS;
        let order =
            |&(at, member): &(&SwitchPort, &Member)| (!was_in_use(member), member.joined, *at);
        let (at, chosen) = members.min_by_key(order)?;
        (was_in_use(chosen) || now >= first + WAIT_FOR_OTHERS).then_some(*at)
    }
}

/// The ports of this worker whose devices aggregate links.
#[derive(Debug, Default)]
pub(super) struct AggregatedPorts {
    local: BTreeMap<SwitchPort, LocalPort>,
    bundles: Bundles,
    /// Ports at which a claim was rejected, and until when they are distrusted.
    distrusted: BTreeMap<SwitchPort, Instant>,
    /// Whether claims are accepted without verification, so that no location of a host is evidence.
    accepts_claims: bool,
    changes: EventCounter,
}

impl AggregatedPorts {
    /// Their number, how many are in use, and how often that has changed.
    pub(super) fn counts(&self) -> [u64; 3] {
        let in_use = self.local.values().filter(|port| port.is_in_use).count();
        [self.local.len() as u64, in_use as u64, self.changes.get()]
    }

    fn remove(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        if self.local.remove(&at).is_some() {
            network.publish_record::<Member>(now, at, None);
        }
    }

    fn remove_if(
        &mut self,
        is_gone: impl Fn(SwitchPort, &LocalPort) -> bool,
        now: Instant,
        network: &mut Network,
    ) {
        let ports = self.local.iter().filter(|&(&at, port)| is_gone(at, port));
        let gone: Vec<_> = ports.map(|(&at, _)| at).collect();
        for at in gone {
            self.remove(at, now, network);
        }
    }

    /// Removes the ports of a switch that has disconnected. While it cannot answer, another switch may.
    pub(super) fn on_switch_disconnected(
        &mut self,
        id: DatapathId,
        now: Instant,
        network: &mut Network,
    ) {
        self.remove_if(|at, _| at.switch == id, now, network);
    }

    /// Removes silent ports; all, if LACP is not enabled any more.
    pub(super) fn expire(&mut self, cfg: &Config, now: Instant, network: &mut Network) {
        let is_enabled = cfg.lacp;
        self.accepts_claims = cfg.address_conflicts == ConflictPolicy::Off;
        self.distrusted.retain(|_, until| now < *until);
        let is_silent =
            |port: &LocalPort| now.saturating_duration_since(port.heard) >= SILENT_AFTER;
        self.remove_if(|_, port| !is_enabled || is_silent(port), now, network);
    }

    /// Removes a port to which no hosts are attached any more. If another port of a bundle comes into use, its device is told
    /// at once.
    pub(super) fn on_fact(
        &mut self,
        published: &PublishedFact,
        now: Instant,
        network: &mut Network,
    ) {
        match &published.fact {
            Fact::Port(at, _) if !is_attachment_port(network.view(), *at) => {
                self.remove(*at, now, network);
            }
            fact => {
                if let Some((at, _)) = fact.record::<Member>() {
                    self.update_bundles(at, now, network);
                }
            }
        }
    }

    /// The claim at `to` of a host at `from` was rejected. If that host is behind a device that aggregates links, whoever is at
    /// `to` may also pretend to be a port of the device.
    pub(super) fn on_claim_rejected(
        &mut self,
        to: SwitchPort,
        from: SwitchPort,
        now: Instant,
        network: &mut Network,
    ) {
        if !self.bundles.of_port.contains_key(&from) {
            return;
        }
        self.distrusted.insert(to, now + DISTRUSTED_FOR);
        if let Some(&member) = network.view().record::<Member>(to)
            && !member.is_distrusted
            && self.local.contains_key(&to)
        {
            network.publish_record(now, to, Some(Member { is_distrusted: true, ..member }));
            self.update_bundles(to, now, network);
        }
    }

    /// The port of a bundle that is in use.
    fn port_in_use(&self, bundle: &Bundle, now: Instant, view: &NetworkView) -> Option<SwitchPort> {
        let device = HostId { mac: MacAddr(bundle.system), vlan: VlanId(0) };
        let host = view.host(device).filter(|_| !self.accepts_claims);
        self.bundles.port_in_use(bundle, host.map(|host| host.at), now)
    }

    /// A port has joined or left a bundle.
    fn update_bundles(&mut self, changed: SwitchPort, now: Instant, network: &mut Network) {
        let before = self.bundles.of_port.get(&changed).copied();
        self.bundles.set(changed, network.view().record(changed).copied());
        let view = network.view();
        if let Some(at) = before.and_then(|bundle| self.port_in_use(&bundle, now, view))
            && at != changed
            && self.local.get(&at).is_some_and(|port| !port.is_in_use)
        {
            self.answer(at, now, network);
        }
    }

    /// Tells the device at a port whether that is in use.
    fn answer(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        let bundle = self.bundles.of_port.get(&at);
        let in_use = bundle.and_then(|bundle| self.port_in_use(bundle, now, network.view()));
        let is_in_use = in_use == Some(at);
        let Some(port) = self.local.get_mut(&at) else { return };
        let may_send = is_in_use && port.device.state & state::SYNCHRONIZATION != 0;
        let bits = [
            (port.device.state & state::AGGREGATION != 0, state::AGGREGATION),
            (true, state::SHORT_TIMEOUT),
            (is_in_use, state::SYNCHRONIZATION),
            (may_send, state::COLLECTING | state::DISTRIBUTING),
        ];
        let actor = PortParameters {
            system_priority: LOWEST_PRIORITY,
            system: SYSTEM.0,
            key: KEY,
            port_priority: LOWEST_PRIORITY,
            port: port_number(at),
            state: bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit),
            reserved: [0; 3],
        };
        let src = network.view().port(at).map_or(SYSTEM, |port| port.hw_addr);
        send_frame(at, frame::encode(src, actor, port.device), network);
        if is_in_use != port.is_in_use {
            port.is_in_use = is_in_use;
            let device = MacAddr(port.device.system);
            let what = if is_in_use { "in use" } else { "standing by" };
            self.changes.report(now, network, || {
                format!("port of a link aggregation is {what} device={device} {}", PortFields(at))
            });
        }
    }
}

impl Hosts {
    /// Handles a frame to an address whose frames bridges do not forward. Nothing is learned from it: a device that aggregates
    /// links may send it with the address that it uses at another port.
    pub(super) fn receive_reserved(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Verdict {
        let (at, now) = (SwitchPort::new(ctx.datapath_id, p.in_port), ctx.now);
        let device = match frame::parse(eth, p.frame) {
            _ if !self.cfg.lacp || !is_attachment_port(ctx.view(), at) => {
                return Verdict::Continue;
            }
            // What is used is configured.
            _ if matches!(ctx.view().port_role(at), PortRole::Bundle(_)) => {
                return Verdict::Continue;
            }
            Parsed::Other => return Verdict::Continue,
            Parsed::Malformed => None,
            // From another port of the controller.
            Parsed::Actor(actor) if actor.system == SYSTEM.0 => None,
            Parsed::Actor(actor) => Some(actor),
        };
        let Some(device) = device else {
            self.counters.lacp_ignored.count();
            return discard(p, ctx);
        };
        let bundle = Bundle::new(at, &device);
        let ports = &mut self.aggregated_ports;
        let port = ports.local.entry(at).or_insert_with(|| LocalPort {
            device,
            heard: now,
            is_in_use: false,
            received: RateLimit::default(),
        });
        let member = ctx.view().record::<Member>(at);
        let joins = member.is_none_or(|member| member.bundle != bundle);
        let is_too_early = |member: &Member| joins && now < member.joined + MEMBER_FOR;
        if !port.admit(now) || member.is_some_and(is_too_early) {
            self.counters.lacp_ignored.count();
            return discard(p, ctx);
        }
        (port.device, port.heard) = (device, now);
        if joins {
            let was_in_use = device.state & state::DISTRIBUTING != 0;
            let is_distrusted = ports.distrusted.contains_key(&at);
            let member = Member { bundle, joined: now, was_in_use, is_distrusted };
            ctx.publish_record(at, Some(member));
            ports.update_bundles(at, now, ctx.network);
        }
        ports.answer(at, now, ctx.network);
        discard(p, ctx)
    }
}

impl LocalPort {
    /// Counts a frame. Returns `false` if there were too many within a second.
    fn admit(&mut self, now: Instant) -> bool {
        self.received.admit(ANSWERS_PER_S_MAX, now)
    }
}

impl Bundle {
    fn new(at: SwitchPort, device: &PortParameters) -> Self {
        Self {
            system_priority: device.system_priority.get(),
            system: device.system,
            key: device.key.get(),
            individual: (device.state & state::AGGREGATION == 0).then_some(at),
        }
    }
}

/// A number of a port, by which the ports of a device most probably differ; not 0, which the standard reserves.
fn port_number(at: SwitchPort) -> U16 {
    let number = at.switch.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 ^ u64::from(at.port.0);
    let [low, high, ..] = number.to_le_bytes();
    U16::new(u16::from_le_bytes([low, high]).max(1))
}
