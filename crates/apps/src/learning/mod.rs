//! A learning bridge: stations are where they were last seen. IEEE 802.1D §7.8.

mod table;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use sluice_app::{App, Ctx, Gauge, Sw, Then};
use sluice_wire::{
    Action, Command, Ethernet, Features, Field, FlowMod, Inexpressible, MacAddr, PacketIn,
    PacketOut, PortNo, PortReason, PortStatus,
};

use table::{Key, Learnt, Table, Tick};

/// How the bridge is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Stations per switch; the ones not seen for longest go as new ones come.
    pub hosts_max: u32,
    /// How long a station is believed to be where it was last seen, at most 18 hours.
    pub host_timeout: Duration,
    /// Seconds without a packet after which a rule goes; 0 never.
    pub idle_timeout_s: u16,
    /// Seconds after which a rule goes; 0 never.
    pub hard_timeout_s: u16,
    /// Priority of the rules.
    pub priority: u16,
    /// What the rules match.
    pub matching: Matching,
    /// Octets of a frame that come up where a rule sends misses up; [`Action::WHOLE`] for all.
    pub miss_len: u16,
}

/// What a rule matches, besides the VLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// The destination: the fewest rules. A station that only speaks to known ones stays unseen.
    Dst,
    /// Destination and source.
    Pair,
    /// Destination, source and ingress port: a station that moves is seen at once.
    PortPair,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // Half the places of a table of 4 MiB.
            hosts_max: 131_072,
            host_timeout: Duration::from_secs(300),
            idle_timeout_s: 60,
            hard_timeout_s: 0,
            priority: 100,
            matching: Matching::PortPair,
            miss_len: Action::WHOLE,
        }
    }
}

/// In so many seconds every place of a table is swept once.
const SWEEP_PARTS: u16 = 64;

/// Longest time-out that the round count of seconds can tell, with a sweep to spare.
const TIMEOUT_MAX: Tick = Tick::MAX - 2 * SWEEP_PARTS;

/// Learns where stations are, writes a rule for each conversation it can, and floods the rest.
#[derive(Debug)]
pub struct Learning {
    cfg: Config,
    host_timeout: Tick,
    seeds: RandomState,
    tables: Vec<Option<Table>>,
    started: Option<Instant>,
    now: Tick,
    moved: u64,
    forgotten: u64,
}

impl Default for Learning {
    fn default() -> Self {
        Self::new(&Config::default())
    }
}

impl Learning {
    /// A bridge set so.
    pub fn new(cfg: &Config) -> Self {
        Self {
            cfg: cfg.clone(),
            host_timeout: ticks(cfg.host_timeout),
            seeds: RandomState::new(),
            tables: Vec::new(),
            started: None,
            now: 0,
            moved: 0,
            forgotten: 0,
        }
    }

    /// Sets it otherwise. Rules that are written stay as they are.
    pub fn configure(&mut self, cfg: &Config) {
        self.cfg = cfg.clone();
        self.host_timeout = ticks(cfg.host_timeout);
        for table in self.tables.iter_mut().flatten() {
            table.set_max(cfg.hosts_max as usize);
        }
    }

    /// Sends a frame out of every port but its own.
    fn flood(p: &PacketIn<'_>, ctx: &mut Ctx<'_>) {
        let actions = [Action::output(PortNo::FLOOD)];
        say(ctx.here.packet_out(&PacketOut { actions: &actions, ..PacketOut::answer(p) }));
    }

    /// Lets go of a frame that the switch keeps.
    fn discard(p: &PacketIn<'_>, ctx: &mut Ctx<'_>) {
        if p.buffer_id.is_some() {
            say(ctx.here.packet_out(&PacketOut::answer(p)));
        }
    }

    /// Writes the rule for a conversation and sends its first frame on: in one message where the switch keeps the
    /// frame, in two where it does not.
    #[inline]
    fn forward(&self, p: &PacketIn<'_>, eth: &Ethernet, port: PortNo, ctx: &mut Ctx<'_>) {
        let vlan = if eth.tagged { Field::vlan(eth.vlan) } else { Field::untagged() };
        let in_port = Field::in_port(p.in_port);
        let fields = [in_port, Field::eth_dst(eth.dst), Field::eth_src(eth.src), vlan];
        let [in_port, dst, src, vlan] = fields;
        let (two, three) = ([dst, vlan], [dst, src, vlan]);
        let fields: &[Field] = match self.cfg.matching {
            Matching::PortPair => &[in_port, dst, src, vlan],
            Matching::Pair => &three,
            Matching::Dst => &two,
        };
        let actions = [Action::output(port)];
        say(ctx.here.flow_mod(&FlowMod {
            idle_timeout_s: self.cfg.idle_timeout_s,
            hard_timeout_s: self.cfg.hard_timeout_s,
            priority: self.cfg.priority,
            buffer_id: p.buffer_id,
            fields,
            actions: &actions,
            ..FlowMod::default()
        }));
        // A frame that came up cut off cannot be sent on; its sender will repeat it, and meet the rule.
        if p.buffer_id.is_none() && p.frame.len() >= usize::from(p.total_len) {
            say(ctx.here.packet_out(&PacketOut { actions: &actions, ..PacketOut::answer(p) }));
        }
    }

    /// A station left a port: the rules that point there go.
    #[cold]
    fn moved(&mut self, addr: MacAddr, vlan: Field, from: PortNo, ctx: &mut Ctx<'_>) {
        self.moved += 1;
        say(ctx.here.flow_mod(&FlowMod {
            command: Command::DELETE,
            table_id: FlowMod::TABLE_ALL,
            out_port: from,
            fields: &[Field::eth_dst(addr), vlan],
            ..FlowMod::default()
        }));
    }

    /// Where the conversation partners of `p` are kept, if it has any.
    #[inline]
    fn keys(p: &PacketIn<'_>) -> Option<(Ethernet, Key, Key)> {
        let eth = Ethernet::new(p.frame)?;
        Some((eth, Key::new(eth.src, eth.vlan), Key::new(eth.dst, eth.vlan)))
    }
}

impl App for Learning {
    fn on_time(&mut self, now: Instant) {
        let started = *self.started.get_or_insert(now);
        #[expect(clippy::cast_possible_truncation, reason = "ticks go round")]
        let tick = (now - started).as_secs() as Tick;
        while self.now != tick {
            self.now = self.now.wrapping_add(1);
            let (part, parts) = (self.now % SWEEP_PARTS, SWEEP_PARTS.into());
            for table in self.tables.iter_mut().flatten() {
                table.sweep(part.into(), parts, self.now, self.host_timeout);
            }
        }
    }

    fn switch_up(&mut self, _: &Features, ctx: &mut Ctx<'_>) {
        let at = ctx.sw.index();
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, || None);
        }
        if let Some(place) = self.tables.get_mut(at) {
            *place = Some(Table::new(self.cfg.hosts_max as usize, self.seeds.hash_one(at)));
        }
        let written = ctx.here.send_misses_up(self.cfg.miss_len);
        debug_assert!(written.is_ok(), "every version can say it");
    }

    fn switch_down(&mut self, sw: Sw) {
        if let Some(place) = self.tables.get_mut(sw.index()) {
            *place = None;
        }
    }

    #[inline]
    fn ahead(&self, p: &PacketIn<'_>, sw: Sw) {
        if let (Some(Some(table)), Some((_, src, dst))) =
            (self.tables.get(sw.index()), Self::keys(p))
        {
            table.touch(src);
            table.touch(dst);
        }
    }

    #[inline]
    fn packet_in(&mut self, p: &PacketIn<'_>, ctx: &mut Ctx<'_>) -> Then {
        let (Some(Some(table)), Some((eth, src, dst))) =
            (self.tables.get_mut(ctx.sw.index()), Self::keys(p))
        else {
            Self::discard(p, ctx);
            return Then::PassOn;
        };
        if eth.src.is_group() || eth.dst.is_bridge_reserved() {
            Self::discard(p, ctx);
            return Then::PassOn;
        }
        let learnt = table.learn(src, p.in_port, self.now);
        let port =
            if eth.dst.is_group() { None } else { table.get(dst, self.now, self.host_timeout) };
        match learnt {
            Learnt::Known | Learnt::New => {}
            Learnt::InPlaceOfAnother => self.forgotten += 1,
            Learnt::Moved(from) => {
                let vlan = if eth.tagged { Field::vlan(eth.vlan) } else { Field::untagged() };
                self.moved(eth.src, vlan, from, ctx);
            }
        }
        match port {
            None => Self::flood(p, ctx),
            Some(port) if port == p.in_port => Self::discard(p, ctx),
            Some(port) => self.forward(p, &eth, port, ctx),
        }
        Then::Done
    }

    fn port_status(&mut self, status: &PortStatus, ctx: &mut Ctx<'_>) {
        if status.reason != PortReason::DELETE && status.port.is_up() {
            return;
        }
        let port = status.port.port_no;
        if let Some(Some(table)) = self.tables.get_mut(ctx.sw.index()) {
            table.forget_port(port);
        }
        say(ctx.here.flow_mod(&FlowMod {
            command: Command::DELETE,
            table_id: FlowMod::TABLE_ALL,
            out_port: port,
            ..FlowMod::default()
        }));
    }

    fn gauges(&self, put: &mut dyn FnMut(Gauge)) {
        let hosts: usize = self.tables.iter().flatten().map(Table::len).sum();
        put(("learning_hosts", "Stations in the tables of learning", hosts as u64));
        put(("learning_hosts_moved", "Stations that were seen at another port", self.moved));
        put(("learning_hosts_forgotten", "Stations that went for others", self.forgotten));
    }
}

/// All that is said here has a form in every version, but for a port number beyond what 1.0 has: such a port
/// was never heard of from a switch of 1.0.
#[inline]
fn say(written: Result<u32, Inexpressible>) {
    debug_assert!(written.is_ok(), "{written:?}");
}

fn ticks(time: Duration) -> Tick {
    Tick::try_from(time.as_secs()).unwrap_or(TIMEOUT_MAX).min(TIMEOUT_MAX)
}
