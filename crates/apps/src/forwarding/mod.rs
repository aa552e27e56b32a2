//! Ways through a network: a flow's first packet has the rules of the whole way loaded.
//!
//! `docs/forwarding.md` says what it does, `docs/adr/0008-rules-and-floods.md` why nothing circles and nothing storms.

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

/// How forwarding is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What rules match.
    pub matching: Matching,
    /// Whether the rules for the answers are loaded with those for the first packet.
    pub both_directions: bool,
    /// Priority of the rules.
    pub priority: u16,
    /// Seconds without a packet after which a rule goes; 0 never.
    pub idle_timeout_s: u16,
    /// Seconds after which a rule goes; 0 never.
    pub hard_timeout_s: u16,
    /// For how long rules that were written are taken to be on their way, beside one and a half times what the switch
    /// takes to answer; zero if that is not looked at.
    pub waiting: Duration,
    /// For how long a switch that refused a rule gets no others.
    pub refused_retry: Duration,
    /// How frames for all get to where they go.
    pub flooding: Flooding,
    /// Frames to all that may come in at one port in a second.
    pub floods_per_s_max: u32,
    /// Bytes of a frame that come up where a rule sends misses up; [`Action::WHOLE`] for all.
    pub miss_send_len: u16,
}

/// What a rule matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The destination: the fewest rules. All ways to a host are one tree.
    Dst,
    /// Destination and source.
    Pair,
    /// Both, and the type; of IP also addresses, protocol and ports. Each conversation has a way of its own.
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

/// Loads the shortest ways between hosts, and sends what is for all out of the ports at the edge.
#[derive(Debug)]
pub struct Forwarding {
    /// What was set.
    configured: Config,
    /// The same, as far as all switches can do it.
    cfg: Config,
    /// The rank of the finest form of rules that all switches can match, as far as is known.
    simplest: u8,
    retries: Retries,
    routes: Routes,
    edges: Edges,
    floods: Floods,
    waiting: Waiting,
    repair: Repair,
    switches: Switches,
    trees: Trees,
    /// By the numbers of switches.
    locals: Vec<Option<Box<Local>>>,
    counters: Counters,
    swept: Option<Instant>,
}

/// Bytes of the checksum of a frame, which some switches count in `total_len` and none sends up. IEEE 802.3 §3.2.9.
const FCS_LEN: usize = 4;

/// A frame that came up, and where.
#[derive(Debug, Clone, Copy)]
struct Came<'a> {
    p: PacketIn<'a>,
    eth: Ethernet<'a>,
    at: SwitchPort,
    from: From,
}

/// What sent a frame to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// A host.
    Edge,
    /// A switch of this network: the frame is on its way.
    Link,
}

impl Came<'_> {
    /// Whether nothing of the frame is missing.
    fn is_whole(&self) -> bool {
        self.p.frame.len() + FCS_LEN >= usize::from(self.p.total_len)
    }

    fn dst(&self) -> HostId {
        HostId { mac: self.eth.dst, vlan: self.eth.vlan }
    }

    fn src(&self) -> HostId {
        HostId { mac: self.eth.src, vlan: self.eth.vlan }
    }

    /// Lets go of the frame if the switch keeps it.
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
    /// Forwarding set so.
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

    /// Sets it otherwise. Rules that are written stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.configured = cfg.clone();
        self.take_form();
    }

    /// Where a frame came from; `None` for one that is not forwarded, whose reason is counted.
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
                    // Who is there perhaps all the same hears it: what is flooded comes in at no switch again.
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
        debug_assert!(drawn.is_ok(), "every version can say it");
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
        // A frame that the switch kept no longer is no fault of the rule that was to send it.
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
                    "{id} refused a rule of forwarding ({reason}): for {time} s its frames are sent on one by one"
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

/// All that is said with it has a form in every version, but for a frame that just fits its `PACKET_IN` and is too long
/// for a `PACKET_OUT`: it is lost, as frames may be.
fn say<T>(written: Result<T, EncodeError>) {
    debug_assert!(
        written.as_ref().err().is_none_or(|no| no.what == "more than 65535 bytes"),
        "{:?}",
        written.err()
    );
}
