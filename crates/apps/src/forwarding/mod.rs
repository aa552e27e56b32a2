//! Shortest-path forwarding: the first packet of a flow installs the flow entries of its whole path.
//!
//! `docs/forwarding.md` says what it does, `docs/adr/0008-rules-and-floods.md` why there are no loops and no broadcast storms.

mod flood;
mod flow;
mod load;
mod local;
mod metrics;
#[cfg(test)]
mod proof;
mod repair;
mod routes;
mod rules;
mod simpler;
mod switches;
#[cfg(test)]
mod testing;
mod tree;
mod waiting;

use std::time::{Duration, Instant};

use sluice_openflow::view::{ErrorMsg, PacketIn, PacketIns};
use sluice_openflow::{
    Action, EncodeError, Encoder, ErrorType, Ethernet, MultipartType, PacketOutRef, SwitchFeatures,
};
use sluice_sdk::view::{Fact, HostId, PortRole, PublishedFact, SwitchPort};
use sluice_sdk::{App, AppMetric, Ctx, Network, SwitchIndex, Verdict};

use flood::{Edges, Floods, is_edge};
use local::Local;
use metrics::Counters;
use repair::Repair;
use routes::Routes;
use simpler::{RefusedMatch, Retries};
use switches::Switches;
use tree::Trees;
pub use tree::{Flooding, SpanningTree, StaleTreePort, SwitchTreeState, TreePhase, TreeTraffic};
use waiting::Waiting;

/// Configuration of forwarding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What flow entries match.
    pub matching: Matching,
    /// Whether the path for the replies is installed together with that of the first packet.
    pub both_directions: bool,
    /// Priority of flow entries.
    pub priority: u16,
    /// Seconds without a matching packet after which a flow entry expires; 0 disables.
    pub idle_timeout_s: u16,
    /// Seconds after which a flow entry expires; 0 disables.
    pub hard_timeout_s: u16,
    /// For how long flow entries are assumed to be in flight to a switch, in addition to one and a half round-trip times.
    /// Packets of the flow that arrive meanwhile do not install the path again. Zero disables this.
    pub waiting: Duration,
    /// For how long a switch that has refused a flow entry gets no others.
    pub refused_retry: Duration,
    /// How broadcasts, multicasts and packets to unknown hosts reach all edge ports.
    pub flooding: Flooding,
    /// Packets per second that are flooded from one port; more are dropped.
    pub floods_per_s_max: u32,
    /// Bytes of a table miss that switches of OpenFlow 1.3 and later send to the controller; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

/// What a flow entry matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Destination address: the fewest flow entries. All paths to a host form one tree.
    Dst,
    /// Destination and source address.
    Pair,
    /// Also the Ethernet type, and for IP the addresses, protocol and ports. Each connection has a path of its own.
    FiveTuple,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            matching: Matching::Pair,
            both_directions: true,
            priority: 100,
            idle_timeout_s: 60,
            hard_timeout_s: 0,
            waiting: Duration::from_millis(50),
            refused_retry: Duration::from_secs(10),
            flooding: Flooding::Controller,
            floods_per_s_max: 1000,
            miss_send_len: Action::WHOLE,
        }
    }
}

/// Installs shortest paths between hosts, and floods broadcasts to edge ports.
#[derive(Debug)]
pub struct Forwarding {
    /// The configuration as it was given.
    configured: Config,
    /// The configuration in force: its match is no finer than all switches support.
    cfg: Config,
    /// Rank of the finest [`Matching`] that no switch has refused.
    simplest: u8,
    retries: Retries,
    routes: Routes,
    edges: Edges,
    floods: Floods,
    waiting: Waiting,
    repair: Repair,
    switches: Switches,
    trees: Trees,
    /// By [`SwitchIndex`].
    locals: Vec<Option<Box<Local>>>,
    counters: Counters,
    swept: Option<Instant>,
}

/// Bytes of the checksum of a frame. Some switches count it in `total_len`, none sends it. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// A packet-in, with its parsed header and where it came from.
#[derive(Debug, Clone, Copy)]
struct Came<'a> {
    p: PacketIn<'a>,
    eth: Ethernet<'a>,
    at: SwitchPort,
    from: From,
}

/// What sent the frame to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// A host.
    Edge,
    /// Another switch of this network.
    Link,
}

impl Came<'_> {
    /// Whether the packet-in contains the whole frame.
    fn is_whole(&self) -> bool {
        self.p.frame.len() + FCS_LEN >= usize::from(self.p.total_len)
    }

    fn dst(&self) -> HostId {
        HostId { mac: self.eth.dst, vlan: self.eth.vlan }
    }

    fn src(&self) -> HostId {
        HostId { mac: self.eth.src, vlan: self.eth.vlan }
    }

    /// Drops the frame, and frees its buffer in the switch.
    fn let_go(&self, ctx: &mut Ctx<'_>) {
        if self.p.buffer_id.is_some() {
            say(ctx.switch.packet_out(&PacketOutRef::answer(&self.p)));
        }
    }
}

impl Default for Forwarding {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Forwarding {
    /// Forwarding with this configuration.
    pub fn new(cfg: &Config) -> Self {
        Self {
            configured: cfg.clone(),
            cfg: cfg.clone(),
            simplest: 0,
            retries: Retries::default(),
            routes: Routes::default(),
            edges: Edges::default(),
            floods: Floods::default(),
            waiting: Waiting::default(),
            repair: Repair::default(),
            switches: Switches::default(),
            trees: Trees::default(),
            locals: Vec::new(),
            counters: Counters::default(),
            swept: None,
        }
    }

    /// Applies a new configuration. Installed flow entries stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.configured = cfg.clone();
        self.take_form();
    }

    /// What sent a frame; `None`, counted, if the role of its port does not allow it to be forwarded.
    fn from(&mut self, at: SwitchPort, ctx: &Ctx<'_>) -> Option<From> {
        match ctx.view().port_role(at) {
            PortRole::Edge => Some(From::Edge),
            PortRole::SharedSegment(by) if by == at => Some(From::Edge),
            PortRole::Link => Some(From::Link),
            PortRole::Pending | PortRole::SharedSegment(_) => {
                self.counters.from_pending_port += 1;
                None
            }
        }
    }

    fn answer(&mut self, came: &Came<'_>, ctx: &mut Ctx<'_>) {
        let view = ctx.view();
        let host = if came.eth.dst.is_group() { None } else { view.host(came.dst()) };
        let to = host.map(|host| host.at).filter(|&to| is_edge(view, to));
        match (to, came.from) {
            (Some(to), _) if to == came.at => came.let_go(ctx),
            (Some(to), _) => self.forward(came, to, ctx),
            (None, From::Edge) => self.flood(came, ctx),
            (None, From::Link) => {
                self.counters.unknown_from_link += 1;
                if came.eth.dst.is_group() {
                    came.let_go(ctx);
                } else {
                    // The host may exist nevertheless, so the frame is flooded. It goes to edge ports only, so it does not loop.
                    self.turn_back(came, ctx);
                    self.flood(came, ctx);
                }
            }
        }
    }
}

impl App for Forwarding {
    fn on_iteration(&mut self, now: Instant) {
        self.trees.on_time(now);
        self.waiting.on_time(now);
        let swept = *self.swept.get_or_insert(now);
        if now.saturating_duration_since(swept) >= Duration::from_secs(1) {
            self.swept = Some(now);
            self.waiting.sweep(now);
            self.floods.sweep(now);
        }
    }

    fn initial_messages(&self, out: &mut Encoder<'_>) {
        say(out.send_misses_up(self.cfg.miss_send_len));
    }

    fn on_switch_connected(&mut self, _: &SwitchFeatures, ctx: &mut Ctx<'_>) {
        self.switches.up(ctx);
        self.uncover(ctx);
        self.trees.up(self.cfg.flooding, ctx);
        let at = ctx.switch_index.index();
        if self.locals.len() <= at {
            self.locals.resize_with(at + 1, || None);
        }
        let drawn = Local::new(&self.cfg, &ctx.switch);
        debug_assert!(drawn.is_ok(), "every version can express it");
        if let Some(place) = self.locals.get_mut(at) {
            *place = drawn.ok().map(Box::new);
        }
    }

    fn on_switch_disconnected(&mut self, sw: SwitchIndex, now: Instant, network: &mut Network) {
        self.switches.down(sw);
        self.trees.down(sw, now, network);
        if let Some(place) = self.locals.get_mut(sw.index()) {
            *place = None;
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.switches.time_passes(ctx);
        self.forget_unable(ctx);
        self.trees.time_passes(self.cfg.flooding, ctx);
        self.counters.stale_deletions += self.repair.on_time(ctx.now, &self.switches, ctx.network);
        self.counters.stale_deletions += self.switches.resolve(ctx.now, ctx.network);
    }

    fn on_fact(&mut self, told: &PublishedFact, now: Instant, network: &mut Network) {
        self.trees.told(&told.fact, self.cfg.flooding, now, network);
        self.counters.stale_deletions += self.repair.told(&told.fact, now, &self.switches, network);
        match told.fact {
            Fact::Port(at, _) => {
                self.counters.stale_deletions += self.switches.settle(at, now, network);
            }
            Fact::Switch(id, _) => self.moved(id, now, network.view()),
            _ => {}
        }
        if let Some((id, refused)) = told.fact.record::<RefusedMatch>() {
            let rank = refused.map(|refused| refused.rank);
            self.counters.stale_deletions += self.told_unable(id, rank, now, network);
        }
    }

    fn on_multipart_reply(
        &mut self,
        xid: u32,
        kind: MultipartType,
        body: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        self.trees.reply(xid, kind, body, ctx);
        let priority = self.cfg.priority;
        self.counters.stale_deletions += self.switches.reply(xid, kind, body, priority, ctx);
    }

    fn on_barrier_reply(&mut self, xid: u32, ctx: &mut Ctx<'_>) {
        self.trees.barrier_reply(xid, ctx);
    }

    fn on_error(&mut self, error: &ErrorMsg<'_>, ctx: &mut Ctx<'_>) {
        if error.cookie().is_some_and(tree::is_ours) {
            self.counters.flow_entries_refused += u64::from(self.trees.refused(error, ctx));
            return;
        }
        // BAD_REQUEST is about a buffer that no longer exists, not about the flow entry that was to release it.
        let is_rule = error.cookie().is_some_and(rules::is_ours)
            && error.reason.kind() != ErrorType::BAD_REQUEST;
        if !is_rule {
            return;
        }
        self.counters.flow_entries_refused += 1;
        if self.simplify(error, ctx) {
            return;
        }
        let (id, retry, reason) = (ctx.datapath_id, self.cfg.refused_retry, error.reason);
        if self.switches.refused(id, ctx.now, retry) {
            ctx.network.report(|| {
                let time = retry.as_secs_f64();
                format!(
                    "{id} refused a flow entry of forwarding ({reason}): its packets are forwarded by the controller for {time} s"
                )
            });
        }
    }

    fn fast_path(&mut self, frames: &mut PacketIns<'_>, ctx: &mut Ctx<'_>) {
        self.answer_usual(frames, ctx);
    }

    fn on_packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Verdict {
        let at = SwitchPort::new(ctx.datapath_id, p.in_port);
        let eth = Ethernet::new(p.frame);
        let eth = eth.filter(|eth| !eth.src.is_group() && !eth.dst.is_bridge_reserved());
        let came = eth.and_then(|eth| Some(Came { p: *p, eth, at, from: self.from(at, ctx)? }));
        match came {
            Some(came) => self.answer(&came, ctx),
            None if p.buffer_id.is_some() => say(ctx.switch.packet_out(&PacketOutRef::answer(p))),
            None => {}
        }
        Verdict::Stop
    }

    fn metrics(&self, put: &mut dyn FnMut(AppMetric)) {
        self.counters.metrics(put);
        let gauges = [
            (
                "forwarding_installations_in_flight",
                "Flows whose flow entries are being installed",
                self.waiting.len(),
            ),
            (
                "forwarding_tree_active",
                "1 while switches forward broadcasts along a spanning tree",
                usize::from(self.trees.stands()),
            ),
            (
                "forwarding_tree_unconfirmed",
                "Switches that prevent a spanning tree as they do not confirm their flow entries",
                self.trees.silent(),
            ),
            (
                "forwarding_switches_with_refused_match",
                "Switches that require a simpler match than configured",
                self.switches.unable(),
            ),
            (
                "forwarding_switches_paused",
                "Switches that get no flow entries for a while as they refused one",
                self.switches.refusing(),
            ),
        ];
        for (name, help, value) in gauges {
            put(AppMetric::gauge(name, help, value as u64));
        }
    }
}

/// Checks, in debug builds, that a message was encoded. Every version can express the messages that are passed here, except
/// for a frame that fits a `PACKET_IN` but not a `PACKET_OUT`: it is lost.
fn say<T>(written: Result<T, EncodeError>) {
    debug_assert!(
        written.as_ref().err().is_none_or(|no| no.what == "more than 65535 bytes"),
        "{:?}",
        written.err()
    );
}
