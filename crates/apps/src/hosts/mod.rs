//! Who is where: hosts are learnt from the frames that come up, and asked for before they are forgotten.
//!
//! What is known of a host is in the view of the network, as facts that all workers share; only the worker that serves a
//! switch learns there. What only it needs (when a host was heard last) is in a table of its own, and of ordinary frames of
//! those of whom there is nothing to learn, who answers them says when they were heard (`sluice_sdk::Residents`).

mod contest;
mod counts;
mod evidence;
mod learn;
mod packet;
mod speech;
mod table;
mod topic;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use sluice_openflow::view::PacketIn;
use sluice_openflow::{Action, DatapathId, Ethernet, PacketOutRef, PortNo, SwitchFeatures};
use sluice_sdk::view::{Fact, HostId, NetworkView, PortInfo, PortRole, PublishedFact, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use contest::{Claims, Moves};
use counts::Counts;
use evidence::HostEvidence;
use learn::Met;
use speech::Ends;
use table::{Due, Patience, Table};
use topic::Topic;
use watch::Watch;

/// How the application is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Hosts that are known, in the whole network.
    pub hosts_max: u32,
    /// Addresses of a host.
    pub addrs_max: u16,
    /// Hosts at a port; 0 for as many as may be known.
    pub per_port_max: u32,
    /// Silence after which a host is asked whether it is there.
    pub timeout: Duration,
    /// How often it is asked, a second apart, before it is forgotten.
    pub probes: u8,
    /// Whether ARP and neighbour requests for known hosts are answered.
    pub proxy: bool,
    /// What is done about a host that claims what another one has.
    pub guard: Guard,
    /// How often a host may move in a second.
    pub moves_per_s_max: u32,
    /// ARP, neighbour discovery and DHCP frames in a second, for each port; more are dropped.
    pub requests_per_s_max: u32,
}

/// What is done about a host that claims the address of another one, Ethernet's or IP's, while that one is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: who was heard last has it.
    Off,
    /// It is reported.
    Report,
    /// It is reported and not obeyed.
    Refuse,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Some 40 MiB for each worker.
            hosts_max: 131_072,
            addrs_max: 8,
            per_port_max: 0,
            timeout: Duration::from_secs(300),
            probes: 2,
            proxy: true,
            guard: Guard::Report,
            moves_per_s_max: 5,
            requests_per_s_max: 1000,
        }
    }
}

/// How long the previous owner of an address may take to answer when another host claims it: far longer than a round trip
/// in a network, and short enough for a host that has moved.
const VERIFY_TIMEOUT: Duration = Duration::from_millis(500);

/// Hosts asked at one time whether they are there, four times a second: a full table is through within its time-out.
const ASKED_MAX: usize = 256;

/// Learns who is where, and answers for them who asks.
#[derive(Debug)]
pub struct Hosts {
    cfg: Config,
    table: Table,
    /// Switches of this worker, by their numbers.
    switches: Vec<Option<DatapathId>>,
    numbers: HashMap<DatapathId, SwitchIndex>,
    /// Since when switches of any worker are gone at which hosts were known.
    gone: BTreeMap<DatapathId, Instant>,
    /// Ports from which something was asked.
    ports: HashMap<SwitchPort, Requests>,
    moves: Moves,
    claims: Claims,
    watch: Watch,
    counts: Counts,
    /// When time passed last.
    passed: Option<Instant>,
}

/// How much was asked from a port within a second.
#[derive(Debug)]
struct Requests {
    since: Instant,
    count: u32,
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Hosts {
    /// One that knows nobody.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            table: Table::default(),
            switches: Vec::new(),
            numbers: HashMap::new(),
            gone: BTreeMap::new(),
            ports: HashMap::new(),
            moves: Moves::default(),
            claims: Claims::default(),
            watch: Watch::default(),
            counts: Counts::default(),
            passed: None,
        }
    }

    /// Sets it otherwise. Hosts stay known, even if they are more than may be from now on.
    pub fn configure(&mut self, cfg: &Config) {
        if self.cfg.timeout != cfg.timeout {
            self.table.set_timeout(cfg.timeout);
        }
        self.cfg = cfg.clone();
    }

    /// Learns from a frame that is not of the usual kind, and answers it if it asks for a host that is known.
    #[cold]
    fn look(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        topic: Topic,
        ctx: &mut Ctx<'_>,
    ) -> Verdict {
        let at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let id = HostId { mac: eth.src, vlan: eth.vlan };
        let is_answer = [speech::PROBE, speech::VERIFY].contains(&eth.dst);
        let is_limited = is_answer || !matches!(topic, Topic::Other | Topic::From(_));
        if !is_attachment(ctx.view(), at) {
            return if is_answer { let_go(p, ctx) } else { Verdict::Continue };
        }
        if is_limited && !self.admit(at, ctx.now, ctx.network) {
            return let_go(p, ctx);
        }
        if is_answer {
            if eth.dst == speech::VERIFY
                && let Topic::Reply(Some(addr)) = topic
            {
                ctx.publish_event(HostEvidence::ProbeAnswered { host: id, at, addr });
            }
            return let_go(p, ctx);
        }
        match self.meet(id, at, ctx.now, ctx.network) {
            Met::Here => {}
            Met::Unlearnt => return Verdict::Continue,
            Met::Refused => return let_go(p, ctx),
        }
        let learnt = match topic {
            Topic::Other | Topic::Request { sender: None, .. } | Topic::Reply(None) => Met::Here,
            Topic::From(addr) => self.guess(id, addr, ctx.now, ctx.network),
            Topic::Request { sender: Some(addr), .. } | Topic::Reply(Some(addr)) => {
                self.believe(id, addr, ctx.now, ctx.network)
            }
            Topic::Lease(mac, addr) => {
                let client = HostId { mac, ..id };
                if ctx.view().host(client).is_some_and(|host| !host.addrs.contains(&addr)) {
                    ctx.publish_event(HostEvidence::AddressLeased { host: client, addr });
                }
                Met::Here
            }
        };
        if learnt == Met::Refused {
            return let_go(p, ctx);
        }
        self.answer(p, eth, topic, ctx)
    }

    /// Answers a request to all, if it asks for a host that is known and elsewhere.
    fn answer(
        &mut self,
        p: &PacketIn<'_>,
        eth: &Ethernet<'_>,
        topic: Topic,
        ctx: &mut Ctx<'_>,
    ) -> Verdict {
        let Topic::Request { sender: Some(sender), target } = topic else {
            return Verdict::Continue;
        };
        if !self.cfg.proxy || sender == target || !eth.dst.is_group() {
            return Verdict::Continue;
        }
        let at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let known = ctx.view().host_by_addr(target, eth.vlan);
        let Some((id, host)) = known.filter(|(_, host)| host.at != at) else {
            return Verdict::Continue;
        };
        if !is_reachable(ctx.view(), host.at) {
            return Verdict::Continue;
        }
        let tag = if eth.tagged { p.frame.get(12..16).unwrap_or_default() } else { &[] };
        let ends = Ends { from: id.mac, to: eth.src, tag };
        let Some(frame) = speech::answer(ends, target, sender) else { return Verdict::Continue };
        let actions = [Action::output(p.in_port)];
        let in_port = PortNo::CONTROLLER;
        let sent = PacketOutRef { buffer_id: None, in_port, actions: &actions, frame: &frame };
        // The port was heard of in this version.
        let _ = ctx.switch.packet_out(&sent);
        self.counts.answered.count();
        let_go(p, ctx)
    }

    /// Whether one more frame about neighbours may come from a port in this second.
    fn admit(&mut self, at: SwitchPort, now: Instant, network: &mut Network) -> bool {
        let port = self.ports.entry(at).or_insert(Requests { since: now, count: 0 });
        if now.saturating_duration_since(port.since) >= Duration::from_secs(1) {
            *port = Requests { since: now, count: 0 };
        }
        port.count = port.count.saturating_add(1);
        let max = self.cfg.requests_per_s_max;
        if port.count <= max {
            return true;
        }
        self.counts.storms.report(now, network, || {
            format!(
                "{at}: more than {max} ARP and neighbour requests in a second; the rest is dropped"
            )
        });
        false
    }

    /// Asks hosts that were silent for long whether they are there, and forgets those that do not answer.
    fn age(&mut self, now: Instant, network: &mut Network) {
        let patience = Patience { timeout: self.cfg.timeout, probes: self.cfg.probes };
        for _ in 0..ASKED_MAX {
            let Some((id, due)) = self.table.next_due(now, patience, network.fast_path_hosts())
            else {
                break;
            };
            let can_answer = match due {
                Due::Nothing => true,
                Due::Ask => self.ask(id, network),
                Due::Forget => false,
            };
            if !can_answer {
                self.counts.aged.count();
                self.forget(id, now, network);
            }
        }
    }

    /// Asks a host whether it is there, at the address of each family that was seen last; whether it has any.
    fn ask(&mut self, id: HostId, network: &mut Network) -> bool {
        let Some(host) = network.view().host(id) else { return false };
        let at = host.at;
        let last = |is: fn(&&std::net::IpAddr) -> bool| host.addrs.iter().rev().find(is).copied();
        let addrs = [last(|addr| addr.is_ipv4()), last(|addr| addr.is_ipv6())];
        for addr in addrs.into_iter().flatten() {
            self.question(speech::PROBE, (id, at), addr, network);
        }
        addrs.iter().any(Option::is_some)
    }

    fn forget(&mut self, id: HostId, now: Instant, network: &mut Network) {
        self.table.remove(id, network.fast_path_hosts());
        network.publish(now, Fact::Host(id, None));
    }

    /// Forgets the hosts at a port of a switch of this worker.
    fn clear(&mut self, at: SwitchPort, now: Instant, network: &mut Network) {
        self.ports.remove(&at);
        let ids: Vec<_> = network.view().hosts_at(at).map(|(id, _)| id).collect();
        for id in ids {
            self.forget(id, now, network);
        }
    }

    /// Forgets the hosts of switches that are gone for long.
    fn forget_gone(&mut self, now: Instant, network: &mut Network) {
        let timeout = self.cfg.timeout;
        let mut gone = Vec::new();
        self.gone.retain(|&id, since| {
            let is_over = now.saturating_duration_since(*since) >= timeout;
            if is_over {
                gone.push(id);
            }
            !is_over
        });
        for switch in gone {
            if network.view().switch(switch).is_some() {
                continue;
            }
            let ids: Vec<_> = network.view().hosts_of(switch).map(|(id, _)| id).collect();
            for id in ids {
                self.counts.aged.count();
                self.forget(id, now, network);
            }
        }
    }

    /// Has what comes in at a port that has come up go up, until somebody is learnt there.
    fn watch(&mut self, fact: &Fact, network: &mut Network) {
        match fact {
            Fact::Port(at, port) if self.is_mine(at.switch) => {
                if port.as_ref().is_none_or(|port| !port.is_up) {
                    self.watch.go_down(*at);
                } else if is_attachment(network.view(), *at) {
                    self.watch.come_up(*at, network);
                }
            }
            Fact::Host(_, Some(host)) => self.watch.learn(host.at, network),
            Fact::Switch(id, Some(switch)) if self.is_mine(*id) => {
                let down = switch.ports.iter().filter(|(_, port)| !port.is_up);
                down.for_each(|(&no, _)| self.watch.go_down(SwitchPort::new(*id, no)));
            }
            Fact::Switch(id, None) => self.watch.retain(|at| at.switch != *id),
            _ => {}
        }
    }

    fn is_mine(&self, switch: DatapathId) -> bool {
        self.numbers.contains_key(&switch)
    }

    /// A switch of this worker has these ports: hosts at others are gone.
    fn check_ports(&mut self, switch: DatapathId, now: Instant, network: &mut Network) {
        let view = network.view();
        let mut places: Vec<_> = view.hosts_of(switch).map(|(_, host)| host.at).collect();
        places.dedup();
        places.retain(|&at| !can_have_hosts(at, view.port(at)));
        for at in places {
            self.clear(at, now, network);
        }
    }

    /// The table has what the view has of a host of this worker.
    fn follow(&mut self, id: HostId, now: Instant, network: &mut Network) {
        let (view, residents) = network.view_and_fast_path_hosts();
        match view.host(id) {
            Some(host) if self.is_mine(host.at.switch) => {
                self.table.put(id, host, (now, self.cfg.timeout), None, residents);
            }
            _ => self.table.remove(id, residents),
        }
    }
}

impl App for Hosts {
    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        let at = ctx.switch_index.index();
        if self.switches.len() <= at {
            self.switches.resize(at + 1, None);
        }
        if let Some(place) = self.switches.get_mut(at) {
            *place = Some(ctx.datapath_id);
        }
        self.numbers.insert(ctx.datapath_id, ctx.switch_index);
        // Those that were here when it was last seen have the time of all to be heard.
        let (view, residents) = ctx.network.view_and_fast_path_hosts();
        residents.add_switch(ctx.switch_index, ctx.datapath_id);
        for (id, host) in view.hosts_of(ctx.datapath_id) {
            self.table.put(id, host, (ctx.now, self.cfg.timeout), None, residents);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, _: Instant, network: &mut Network) {
        network.fast_path_hosts().remove_switch(sw);
        let Some(switch) = self.switches.get_mut(sw.index()).and_then(Option::take) else { return };
        // Another connection of the same switch may have come before this one went.
        if self.numbers.get(&switch) != Some(&sw) {
            return;
        }
        self.numbers.remove(&switch);
        let (view, residents) = network.view_and_fast_path_hosts();
        for (id, _) in view.hosts_of(switch) {
            self.table.remove(id, residents);
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        // Once for all switches.
        if self.passed == Some(ctx.now) {
            return;
        }
        self.passed = Some(ctx.now);
        self.age(ctx.now, ctx.network);
        self.end_claims(ctx.now, ctx.network);
        self.forget_gone(ctx.now, ctx.network);
        self.moves.sweep(ctx.now);
    }

    fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
        self.watch(&told.fact, network);
        match &told.fact {
            Fact::Host(id, _) => self.follow(*id, now, network),
            Fact::Port(at, port) if !can_have_hosts(*at, port.as_ref()) => {
                if self.is_mine(at.switch) {
                    self.clear(*at, now, network);
                }
            }
            Fact::Switch(id, None) => {
                if network.view().hosts_of(*id).next().is_some() {
                    self.gone.insert(*id, now);
                }
                self.ports.retain(|at, _| at.switch != *id);
            }
            Fact::Switch(id, Some(_)) => {
                self.gone.remove(id);
                if self.is_mine(*id) {
                    self.check_ports(*id, now, network);
                }
            }
            Fact::Port(..) | Fact::Link(..) | Fact::Record(_) | Fact::Event(_) => {}
        }
        match told.fact.event() {
            Some(&HostEvidence::ProbeAnswered { host, at, addr }) => {
                self.answered(host, (at, addr), now, network);
            }
            Some(&HostEvidence::AddressLeased { host, addr }) if self.table.get(host).is_some() => {
                self.believe(host, addr, now, network);
            }
            Some(HostEvidence::AddressLeased { .. }) | None => {}
        }
    }

    #[inline]
    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let Some(eth) = Ethernet::new(p.frame) else { return Verdict::Continue };
        let topic = Topic::of(&eth, p.frame);
        let id = HostId { mac: eth.src, vlan: eth.vlan };
        if let Some(known) = self.table.get_mut(id)
            && known.at == SwitchPort::new(ctx.datapath_id, p.in_port)
        {
            known.hear(ctx.now);
            if known.is_old_news(&topic) && eth.dst != speech::PROBE && eth.dst != speech::VERIFY {
                return Verdict::Continue;
            }
        }
        self.look(p, &eth, topic, ctx)
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        put(AppMetric::gauge("hosts", "Hosts that are known", self.table.len() as u64));
        put(AppMetric::gauge(
            "hosts_addresses",
            "Their IP addresses",
            self.table.addrs_len() as u64,
        ));
        self.counts.metrics(put);
    }
}

/// Whether hosts are learnt at a port.
fn is_attachment(view: &NetworkView, at: SwitchPort) -> bool {
    match view.port_role(at) {
        PortRole::Edge => true,
        PortRole::SharedSegment(speaks) => speaks == at,
        PortRole::Pending | PortRole::Link => false,
    }
}

/// Whether hosts that were learnt at a port may still be there. One that is not known yet again may lead to them.
fn can_have_hosts(at: SwitchPort, port: Option<&PortInfo>) -> bool {
    port.is_some_and(|port| {
        port.is_up
            && match port.role {
                PortRole::Edge | PortRole::Pending => true,
                PortRole::SharedSegment(speaks) => speaks == at,
                PortRole::Link => false,
            }
    })
}

/// Whether frames can be sent to who is at a port.
fn is_reachable(view: &NetworkView, at: SwitchPort) -> bool {
    view.port(at).is_some_and(|port| port.is_up)
}

/// Lets go of a frame that nobody else is to hear of.
fn let_go(p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
    if p.buffer_id.is_some() {
        // Every version can say this.
        let _ = ctx.switch.packet_out(&PacketOutRef { frame: &[], ..PacketOutRef::answer(p) });
    }
    Verdict::Stop
}
